"""The command line in processes of its own, and its exit codes."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from data.errors import DataError
from ps_cluster.cli import main as cli
from ps_cluster.errors import RunError, UserError
from tests.ps_cluster.job_texts import LOCAL, write


def command(*args: str) -> list[str]:
    return [sys.executable, "-m", "ps_cluster", *args]


def ran(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*args), capture_output=True, text=True, timeout=120)


def test_help_lists_the_commands_without_importing_anything_slow() -> None:
    script = (
        "import sys\n"
        "from ps_cluster.cli.main import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit as stop:\n    assert stop.code == 0\n"
        "slow = {'tensorflow', 'tf_keras', 'horovod', 'numpy', 'pyarrow'} & set(sys.modules)\n"
        "print('slow:', sorted(slow))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("slow: []\n")
    for module in cli.COMMANDS:
        assert f"  {module.__name__.rpartition('.')[2]} " in done.stdout


def test_schema_prints_json() -> None:
    done = ran("schema")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["required"] == [
        "name", "data", "features", "model", "optimizers", "training", "output"
    ]  # fmt: skip


def test_schema_of_samples_files_prints_json() -> None:
    done = ran("schema", "--samples")
    assert (done.returncode, done.stderr) == (0, "")
    schema = json.loads(done.stdout)
    assert schema["required"] == ["columns"]
    kinds = schema["properties"]["columns"]["items"]["discriminator"]["mapping"]
    assert {"id", "hashed_id", "id_list", "label", "time", "dense"} <= kinds.keys()


def test_a_reader_that_stops_reading_is_no_failure_to_report() -> None:
    read, written = os.pipe()
    os.close(read)
    done = subprocess.run(command("schema"), stdout=written, stderr=subprocess.PIPE, timeout=60)
    os.close(written)
    assert (done.returncode, done.stderr) == (141, b"")


def test_check_says_what_a_right_job_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, LOCAL)
    assert cli.main(["check", str(path)]) == 0
    right, *absent = capsys.readouterr().out.splitlines()
    assert right == f"{path}: right: job movie-clicks, model rankmixer, 5 features, 3 tables, 1 PS, 2 workers"
    assert absent and all(line.startswith(f"not here: {path}:") for line in absent)


def test_check_of_a_wrong_job_exits_with_2(tmp_path: Path) -> None:
    path = write(tmp_path, LOCAL.replace("512", "ten"))
    done = ran("check", str(path))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"{path}:75: training.batch_size: expected an integer above 0, found 'ten'\n"


def test_scores_go_into_a_folder_that_is_there(tmp_path: Path) -> None:
    out = tmp_path / "absent" / "scores.orc"
    done = ran("score", "model", "samples.orc", "-o", str(out))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"--out: expected a file in a folder that exists, found '{out}'\n"


def test_the_version_is_printed() -> None:
    from ps_cluster import __version__

    assert ran("--version").stdout == f"ps-cluster {__version__}\n"


@pytest.mark.parametrize("args", [[], ["fly"], ["check"], ["check", "a", "b"], ["schema", "--what"]])
def test_a_wrong_command_line_exits_with_2(args: list[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        cli.main(args)
    assert stop.value.code == 2


class _Raises:
    """A command that ends in an error."""

    __name__ = "raises"

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def add_parser(self, subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
        subparsers.add_parser("raises").set_defaults(run=self.run)

    def run(self, args: argparse.Namespace) -> int:
        raise self._error


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (UserError("a.yaml:1: wrong\na.yaml:2: wrong"), 2, "a.yaml:1: wrong\na.yaml:2: wrong\n"),
        (DataError("a.orc: wrong"), 2, "a.orc: wrong\n"),
        (RunError("ps 1 died"), 1, "ps 1 died\n"),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_errors_become_messages_and_exit_codes(
    error: BaseException,
    code: int,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(cli, "COMMANDS", (_Raises(error),))
    assert cli.main(["raises"]) == code
    assert capsys.readouterr() == ("", said)
