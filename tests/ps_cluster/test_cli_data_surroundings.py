"""`ps-cluster data` where the world around it is odd: closed or full outputs, signals, names that are no text."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from ps_cluster.cli.data.progress import Progress
from ps_cluster.cli.main import main
from tests.data import orc_files
from tests.ps_cluster.test_cli_sampling import JOB

KIND = "struct<click:int,item:bigint,time:bigint>"
# The commands run in another folder than the one Python would import them from.
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))}
COMMAND = [sys.executable, "-m", "ps_cluster", "data"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    orc_files.write(tmp_path / "a.orc", KIND, [[(i % 2, i % 7, i) for i in range(n)] for n in (300, 200)])
    data = {"train": ["a.orc"], "label": "click", "sampling": {"rules": [{"label": 0, "keep": 0.5}]}}
    (tmp_path / "job.yaml").write_text(yaml.safe_dump({**JOB, "data": data}))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("closed", [(1,), (0, 1, 2)])
def test_a_closed_stream_is_as_good_as_none(folder: Path, closed: tuple[int, ...]) -> None:
    def close() -> None:
        for number in closed:
            os.close(number)

    command = [*COMMAND, "popularity", "a.orc", "--column", "item", "--out", "counts.orc"]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, preexec_fn=close, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "" if 1 in closed else done.stdout.startswith("counts.orc: 7 ids of item, 500 occurrences")
    assert orc_files.read("counts.orc")[0] == (0, 72)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["inspect", "a.orc"], "standard output: No space left on device"),
        (["verify", "a.orc"], "standard output: No space left on device"),
    ],
)
def test_an_output_that_is_full_is_a_failed_run(folder: Path, arguments: list[str], told: str) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*COMMAND, *arguments],
            env=ENVIRONMENT,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
        )
    assert done.returncode == 1
    assert told in done.stderr and done.stderr.count("\n") == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
@pytest.mark.parametrize(
    "arguments",
    [["popularity", "a.orc", "--column", "item", "--out", "out"], ["sample", "job.yaml", "--out", "out"]],
    ids=["popularity", "sample"],
)
def test_a_signal_at_any_stripe_leaves_no_file_behind(
    folder: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], number: signal.Signals
) -> None:
    monkeypatch.setattr("ps_cluster.cli.data.progress.Progress.show", lambda *_: os.kill(os.getpid(), number))
    before = sorted(os.listdir())
    usual = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
    handler = signal.signal(number, usual)
    try:
        assert main(["data", *arguments]) == 128 + number
    finally:
        signal.signal(number, handler)
    assert sorted(os.listdir()) == before


NAMES = [b"of \xff bytes", b"of\nlines", "ünï [x]* %41".encode()]


@pytest.mark.parametrize("name", NAMES, ids=["bytes", "lines", "signs"])
def test_any_name_will_do(folder: Path, capsys: pytest.CaptureFixture[str], name: bytes) -> None:
    text = os.fsdecode(name)
    os.rename("a.orc", os.fsencode(text) + b".orc")
    path = f"{text}.orc"
    escaped = path.encode("utf-8", "backslashreplace").decode()
    for arguments, told in (
        (["inspect", path, "--html", f"{text}.html"], "500 in 1 file and 2 stripes"),
        (["verify", path], "no problem found"),
        (["diff", path, path], "equal"),
        (["popularity", path, "--column", "item", "--out", f"{text}.counts"], escaped.removesuffix("orc") + "counts"),
    ):
        assert main(["data", *arguments]) == 0, arguments
        assert told in capsys.readouterr().out, arguments
    done = subprocess.run(
        [*COMMAND, "append", f"{text} new", "--like", path],
        input=b'{"item": 5}\n',
        capture_output=True,
        env=ENVIRONMENT,
        timeout=60,
        check=True,
    )
    assert done.stdout.startswith(b"1 row in 1 file\n")
    (made,) = os.listdir(f"{text} new")
    os.rename(os.path.join(f"{text} new", made), "new.orc")  # pyorc opens no name that is no text
    assert orc_files.read("new.orc") == [(None, 5, None)]
    with open(path, "r+b") as file:
        file.truncate(100)
    assert main(["data", "verify", path]) == 1
    assert escaped in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["inspect", ""], "'': expected a file, folder or pattern, found an empty name"),
        (["verify", ""], "'': expected a file, folder or pattern, found an empty name"),
        (["inspect", "a.orc", "--html", ""], "--html: expected a file in a folder that exists, found ''"),
        (["inspect", "a.orc", "--html", "."], "--html: expected a file, found the folder ."),
        (["popularity", "a.orc", "--column", "item", "--out", ""], "--out: expected a file in a folder that exists"),
        (
            ["popularity", "a.orc", "--column", "item", "--out", "no/x"],
            "--out: expected a file in a folder that exists",
        ),
        (
            ["popularity", "no.orc", "--column", "item", "--out", "x"],
            "no.orc: expected a file or folder, found nothing",
        ),
        (
            ["popularity", "word.orc", "--column", "item", "--out", "x"],
            "word.orc: expected an ORC file, found one that",
        ),
        (["popularity", "bare.orc", "--column", "item", "--out", "x"], "bare.orc: expected an ORC file of a struct"),
        (["append", "new", "--like", "."], ".: expected a readable ORC file, found: Is a directory"),
        (["append", "new", "--like", "bare.orc"], "bare.orc: expected an ORC file of a struct"),
    ],
)
def test_wrong_names_are_one_line_and_wrong_input(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    (folder / "word.orc").write_text("no ORC at all")
    orc_files.write(folder / "bare.orc", "bigint", [[1, 2, 3]])  # type: ignore[list-item]
    before = sorted(os.listdir())
    assert main(["data", *arguments]) == 2
    told = capsys.readouterr().err
    assert message in told and told.count("\n") == 1
    assert sorted(os.listdir()) == before


@pytest.mark.parametrize("terminal", [True, False])
def test_progress_knows_no_total_and_makes_room_for_other_lines(
    monkeypatch: pytest.MonkeyPatch, terminal: bool
) -> None:
    out = io.StringIO()
    monkeypatch.setattr(out, "isatty", lambda: terminal)
    monkeypatch.setattr("sys.stderr", out)
    seconds = iter([0.0, 20.0, 40.0])
    with Progress("verify", lambda: next(seconds)) as progress:
        progress.show(3000, 0)
        progress.clear()
        print("a problem", file=sys.stderr)
        progress.show(6000, 12_000)
    if terminal:
        told = "\r\x1b[Kverify: 3,000 rows, 150 rows/s\r\x1b[Ka problem\n"
        told += "\r\x1b[K[##########..........] verify: 6,000 of 12,000 rows, 150 rows/s\r\x1b[K"
    else:
        told = "verify: 3,000 rows, 150 rows/s\na problem\nverify: 6,000 of 12,000 rows, 150 rows/s\n"
    assert out.getvalue() == told


def test_what_a_manifest_does_not_list_is_named_and_not_read(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkdir("set")
    os.rename("a.orc", "set/a.orc")
    listed = [{"name": "a.orc", "bytes": os.path.getsize("set/a.orc"), "rows": 500}]
    Path("set/manifest.json").write_text(json.dumps({"format_version": 1, "rows": 500, "files": listed}))
    Path("set/stray.orc").write_text("no ORC file")
    for command, told in (("inspect", "500 in 1 file and"), ("verify", "1 file, 500 good rows")):
        assert main(["data", command, "set"]) == 0, command
        said = capsys.readouterr()
        assert told in said.out
        assert said.err == "not read: set/stray.orc: the folder's manifest does not list it\n"
