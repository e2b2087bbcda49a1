"""An output folder belongs to one run at a time, and results are not lost by accident."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ps_cluster.errors import UserError
from ps_cluster.launch.output import claimed_checkpoints, claimed_output


def test_a_new_folder_is_made_with_its_parents(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    with claimed_output(folder, "small") as output:
        run = json.loads((folder / "run.json").read_text())
        assert (run["job"], run["state"], run["pid"]) == ("small", "running", os.getpid())
        assert output.logs.is_dir()
        output.mark("finished")
    assert json.loads((folder / "run.json").read_text())["state"] == "finished"


@pytest.mark.parametrize(
    ("events", "sampling"),
    [
        ('{"event": "phase"}\n{"event": "start", "sampling": {"seed": 3}}\n{"event": "step"}\n', {"seed": 3}),
        ('{"event": "start"}\n', None),
        ('{"event": "phase"}\n[]\n{"event": "sta', None),
    ],
)
def test_the_rates_of_sampling_are_kept_with_the_run(tmp_path: Path, events: str, sampling: object) -> None:
    with claimed_output(tmp_path, "small") as output:
        output.events.write_text(events)
        output.mark("finished")
    assert json.loads((tmp_path / "run.json").read_text()).get("sampling") == sampling


def test_an_unfinished_run_is_replaced_without_asking(tmp_path: Path) -> None:
    for state in ("failed", "stopped", "running"):
        with claimed_output(tmp_path, "small") as output:
            assert not output.events.exists() and not any(output.logs.iterdir())
            output.events.touch()
            (output.logs / "ps-0.log").touch()
            (tmp_path / "checkpoint").mkdir()
            (tmp_path / "checkpoint" / ".writer").touch()  # nothing was saved
            output.mark(state)


UNFINISHED = {
    "checkpoint": "found an unfinished run with checkpoints in .*--resume .*--overwrite",
    "export": "found export of an earlier run in .*--overwrite",
}


@pytest.mark.parametrize("result", ["checkpoint", "export"])
def test_results_of_an_unfinished_run_are_kept(tmp_path: Path, result: str) -> None:
    with claimed_output(tmp_path, "small") as output:
        (tmp_path / result).mkdir()
        (tmp_path / result / "part").touch()
        output.mark("failed")
    with (
        pytest.raises(UserError, match=UNFINISHED[result]),
        claimed_output(tmp_path, "small"),
    ):
        pass
    assert (tmp_path / result / "part").exists()
    with claimed_output(tmp_path, "small", overwrite=True):
        assert not (tmp_path / result).exists()


def test_a_finished_run_is_kept(tmp_path: Path) -> None:
    with claimed_output(tmp_path, "small") as output:
        output.events.write_text("{}\n")
        output.mark("finished")
    with pytest.raises(UserError, match="found a finished run"), claimed_output(tmp_path, "small"):
        pass
    assert output.events.read_text() == "{}\n"
    (tmp_path / "notes.txt").write_text("mine")
    with claimed_output(tmp_path, "small", overwrite=True):
        assert not output.events.exists()
        assert (tmp_path / "notes.txt").read_text() == "mine"


def test_a_damaged_record_counts_as_a_finished_run(tmp_path: Path) -> None:
    with claimed_output(tmp_path, "small"):
        (tmp_path / "run.json").write_text("{")
    with pytest.raises(UserError, match="found a finished run"), claimed_output(tmp_path, "small"):
        pass


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_folder_with_something_else_is_left_alone(tmp_path: Path, overwrite: bool) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "thesis.tex").touch()
    with (
        pytest.raises(UserError, match=r"expected an empty folder .* found 'thesis.tex'"),
        claimed_output(tmp_path, "small", overwrite),
    ):
        pass
    assert sorted(os.listdir(tmp_path)) == ["logs", "thesis.tex"]


def test_a_folder_in_use_is_refused_even_to_overwrite(tmp_path: Path) -> None:
    with (
        claimed_output(tmp_path, "small"),
        pytest.raises(UserError, match=f"found process {os.getpid()} using"),
        claimed_output(tmp_path, "small", overwrite=True),
    ):
        pass


def test_the_hold_ends_with_the_process_and_is_not_inherited(tmp_path: Path) -> None:
    code = (
        "import os, subprocess, sys; from pathlib import Path; from ps_cluster.launch.output import *\n"
        "with claimed_output(Path(sys.argv[1]), 'small'):\n"
        "    subprocess.Popen(['sleep', '30'], stdout=subprocess.DEVNULL); print(flush=True); os.abort()"
    )
    process = subprocess.Popen([sys.executable, "-c", code, tmp_path], stdout=subprocess.PIPE, start_new_session=True)
    process.communicate()
    with claimed_output(tmp_path, "small"):
        pass
    os.killpg(process.pid, 9)


@pytest.mark.parametrize("below", ["file", "file/folder", "n" * 300])
def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path, below: str) -> None:
    (tmp_path / "file").touch()
    with (
        pytest.raises(UserError, match="output: expected a folder that can be written, found /"),
        claimed_output(tmp_path / below, "small"),
    ):
        pass


def test_a_folder_that_cannot_be_written_is_named() -> None:
    """Not by permissions, which do not bind root."""
    with (
        pytest.raises(UserError, match="output: expected a folder that can be written, found /"),
        claimed_output(Path("/sys/output"), "small"),
    ):
        pass


def test_checkpoints_in_a_folder_of_their_own_are_kept(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    with claimed_checkpoints(folder, overwrite=False):
        (folder / "step-0000000007").mkdir()
    kept = r"^checkpoint\.folder: expected .* found step-0000000007 in .*--overwrite"
    with pytest.raises(UserError, match=kept), claimed_checkpoints(folder, overwrite=False):
        pass
    with claimed_checkpoints(folder, overwrite=True):
        assert (folder / "step-0000000007").is_dir()


def test_a_folder_of_checkpoints_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    refused = r"^checkpoint\.folder: expected a folder that can be written, found .*file: "
    with pytest.raises(UserError, match=refused), claimed_checkpoints(tmp_path / "file", overwrite=True):
        pass


def test_a_folder_of_checkpoints_takes_one_run_at_a_time(tmp_path: Path) -> None:
    refused = rf"^checkpoint\.folder: expected a folder that no running job uses, found process {os.getpid()} using "
    with (
        claimed_checkpoints(tmp_path, overwrite=False),
        pytest.raises(UserError, match=refused),
        claimed_checkpoints(tmp_path, overwrite=True),
    ):
        pass
    with claimed_checkpoints(tmp_path, overwrite=False):
        pass


def test_a_run_that_is_gone_on_with_keeps_all_and_sets_its_logs_aside(tmp_path: Path) -> None:
    for attempt in range(3):
        with claimed_output(tmp_path, "small", resume=attempt > 0) as output:
            assert not output.finished
            (tmp_path / "checkpoint").mkdir(exist_ok=True)
            with output.events.open("a") as events:
                events.write("{}\n")
            assert not [path for path in output.logs.iterdir() if path.suffix == ".log"]
            (output.logs / "worker-0.log").write_text(str(attempt))
            output.mark("failed")
    assert output.events.read_text() == "{}\n" * 3
    logs = {str(path.relative_to(output.logs)): path.read_text() for path in output.logs.rglob("*.log")}
    assert logs == {"attempt-1/worker-0.log": "0", "attempt-2/worker-0.log": "1", "worker-0.log": "2"}
    output.mark("finished")
    with claimed_output(tmp_path, "small", resume=True) as output:
        assert output.finished
    assert (output.logs / "worker-0.log").exists()
    assert json.loads((tmp_path / "run.json").read_text())["state"] == "finished"
