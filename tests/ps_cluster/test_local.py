"""A local cluster of real processes ends as a whole, however it ends, and says why."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ps_cluster.errors import RunError, UserError
from ps_cluster.launch.local import run_local
from ps_cluster.launch.ports import listen_error
from tests.ps_cluster.local_driver import job_file

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_SECONDS = 60


@pytest.fixture
def output(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "output of a run"
    yield folder
    for pid in processes_of(folder):
        os.kill(pid, signal.SIGKILL)


def launch(output: Path, *flags: str, stdout: int = subprocess.PIPE, **modes: str) -> subprocess.Popen[str]:
    """Start a launcher; `ps_0="wait"` says what "ps 0" does."""
    told = json.dumps({name.replace("_", " "): mode for name, mode in modes.items()})
    return subprocess.Popen(
        [sys.executable, "-m", "tests.ps_cluster.local_driver", str(output), told, *flags],
        cwd=ROOT,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
    )


def processes_of(output: Path) -> list[int]:
    """All processes that have the output folder in their command line."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                arguments = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if os.fsencode(output) in arguments:
                found.append(int(entry.name))
    return found


def wait_for(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.05)


def log(output: Path, name: str) -> str:
    path = output / "logs" / f"{name}.log"
    return path.read_text() if path.exists() else ""


def all_run(output: Path, count: int) -> bool:
    logs = list((output / "logs").glob("*.log"))
    return sum(" runs as " in path.read_text() for path in logs) == count


def ports_of(output: Path) -> list[int]:
    """Ports in the TF_CONFIG of the processes that run."""
    for pid in processes_of(output):
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        for variable in variables:
            if variable.startswith(b"TF_CONFIG="):
                cluster = json.loads(variable.partition(b"=")[2])["cluster"]
                return [int(address.split(":")[1]) for group in cluster.values() for address in group]
    raise AssertionError("no process with a TF_CONFIG")


def end_of(launcher: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = launcher.communicate(timeout=PATIENCE_SECONDS)
    return launcher.returncode, out, err


def state(output: Path) -> str:
    found: str = json.loads((output / "run.json").read_text())["state"]
    return found


def test_a_job_whose_workers_finish_ends_with_0_and_stops_its_ps(output: Path, tmp_path: Path) -> None:
    launcher = launch(output, ps_0="wait", ps_1="wait", worker_0="finish", worker_1="finish")
    status, out, err = end_of(launcher)
    assert (status, err) == (0, "")
    assert out.startswith(f"starting 2 PS and 2 workers, logs in {output}/logs\n")
    assert [line.split()[0] for line in out.splitlines() if "0.5000" in line] == ["1", "2", "3"]
    assert sorted(path.name for path in (output / "logs").iterdir()) == [
        "ps-0.log",
        "ps-1.log",
        "worker-0.log",
        "worker-1.log",
    ]
    assert state(output) == "finished"
    assert processes_of(output) == []


def test_a_single_worker_without_ps_runs_the_same_way(output: Path) -> None:
    assert end_of(launch(output, worker_0="finish"))[0] == 0
    assert "worker 0 runs as finish" in log(output, "worker-0")


def test_a_finished_run_is_replaced_only_when_asked_to(output: Path) -> None:
    assert end_of(launch(output, worker_0="finish"))[0] == 0
    status, _, err = end_of(launch(output, worker_0="finish"))
    assert status == 2
    assert "found a finished run" in err and "--overwrite" in err
    assert end_of(launch(output, "--overwrite", worker_0="finish"))[0] == 0


def test_a_killed_worker_ends_the_job_and_is_named(output: Path) -> None:
    status, _, err = end_of(launch(output, ps_0="wait", worker_0="wait", worker_1="suicide"))
    assert status == 1
    assert err.startswith("worker 1 was killed by SIGKILL")
    assert f"log: {output}/logs/worker-1.log" in err
    assert processes_of(output) == []
    assert state(output) == "failed"


def test_a_killed_ps_ends_the_job_and_is_named(output: Path) -> None:
    status, _, err = end_of(launch(output, ps_0="wait", ps_1="suicide", worker_0="consequence"))
    assert status == 1
    assert err.startswith("ps 1 was killed by SIGKILL")
    assert processes_of(output) == []


def test_a_ps_that_leaves_early_ends_the_job(output: Path) -> None:
    status, _, err = end_of(launch(output, ps_0="leave", worker_0="wait"))
    assert status == 1
    assert err.startswith("ps 0 ended before the job was done")


def test_of_an_exception_its_last_lines_and_the_log_are_shown(output: Path) -> None:
    status, _, err = end_of(launch(output, ps_0="wait", worker_0="raise"))
    assert status == 1
    assert err.splitlines() == [
        "worker 0 ended with exit status 1",
        "  ValueError: a batch of 7 rows",
        "  for 8 places",
        f"  log: {output}/logs/worker-0.log",
    ]


def test_processes_that_ignore_sigterm_are_killed(output: Path) -> None:
    launcher = launch(output, ps_0="deaf", worker_0="deaf", worker_1="wait")
    wait_for(lambda: "deaf now" in log(output, "ps-0") and "deaf now" in log(output, "worker-0"))
    wait_for(lambda: "runs as" in log(output, "worker-1"))
    started = time.monotonic()
    pid = next(p for p in processes_of(output) if b"\x001\0wait" in Path(f"/proc/{p}/cmdline").read_bytes())
    os.kill(pid, signal.SIGKILL)
    status, _, err = end_of(launcher)
    print(f"all stopped after {time.monotonic() - started:.1f} s")
    assert status == 1
    assert err.startswith("worker 1 was killed by SIGKILL")
    assert processes_of(output) == []


def test_a_users_mistake_found_by_a_worker_is_passed_on_with_status_2(output: Path) -> None:
    status, _, err = end_of(launch(output, ps_0="wait", worker_0="wait", worker_1="mistake"))
    assert status == 2
    assert err.splitlines()[-1] == "train.orc: column label: row 5: expected 0 or 1, found 7"


def test_a_lost_connection_is_not_taken_for_the_cause(output: Path) -> None:
    first, second = "consequence that is seen first", "raises after the other's end"
    status, _, err = end_of(launch(output, ps_0="wait", worker_0=first, worker_1=second))
    assert status == 1
    assert err.startswith("worker 1 ended with exit status 1\n  ValueError: a batch of 7 rows")


@pytest.mark.parametrize(("signum", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_signals_leave_no_process_and_no_port(output: Path, signum: signal.Signals, status: int) -> None:
    launcher = launch(output, ps_0="wait", worker_0="wait", worker_1="parent")
    wait_for(lambda: all_run(output, 3) and len(processes_of(output)) == 5)  # with the launcher, a grandchild
    ports = ports_of(output)
    assert len(ports) == 4 and all(listen_error(port) is not None for port in ports[:3])
    launcher.send_signal(signum)
    assert end_of(launcher)[0] == status
    assert processes_of(output) == []
    assert [listen_error(port) for port in ports] == [None] * 4
    assert state(output) == "stopped"


def test_a_second_ctrl_c_does_not_wait(output: Path) -> None:
    launcher = launch(output, ps_0="wait", worker_0="deaf")
    wait_for(lambda: "deaf now" in log(output, "worker-0"))
    launcher.send_signal(signal.SIGINT)
    assert launcher.stderr is not None
    assert launcher.stderr.readline() == (
        "Ctrl-C: the workers have 120 s to save where training stands; a second one stops at once\n"
    )
    launcher.send_signal(signal.SIGINT)
    assert end_of(launcher)[0] == 130
    assert processes_of(output) == []


def test_a_killed_launcher_takes_everything_with_it(output: Path) -> None:
    launcher = launch(output, ps_0="wait", worker_0="careful parent", worker_1="deaf")
    wait_for(lambda: all_run(output, 3) and len(processes_of(output)) == 5)
    ports = ports_of(output)
    launcher.kill()
    launcher.communicate()
    wait_for(lambda: processes_of(output) == [])
    wait_for(lambda: [listen_error(port) for port in ports] == [None] * 4)
    # and the folder is free for the next try, which need not be asked for
    assert end_of(launch(output, worker_0="finish"))[0] == 0


def test_a_suspended_launcher_goes_on_where_it_was(output: Path) -> None:
    launcher = launch(output, ps_0="wait", worker_0="slowly")
    wait_for(lambda: all_run(output, 2))
    launcher.send_signal(signal.SIGSTOP)
    wait_for(lambda: b"slowly" not in b"".join(cmdlines(output)))  # the worker is done meanwhile
    launcher.send_signal(signal.SIGCONT)
    status, out, _ = end_of(launcher)
    assert status == 0
    assert "0.5000" in out


def cmdlines(output: Path) -> list[bytes]:
    """Arguments of the started processes, without the launcher's, whose own name all modes."""
    found = []
    for pid in processes_of(output):
        try:
            found.append(Path(f"/proc/{pid}/cmdline").read_bytes())
        except OSError:
            continue
    return [line for line in found if b"local_driver" not in line]


def test_a_suspended_worker_is_stopped_with_the_others(output: Path) -> None:
    launcher = launch(output, ps_0="wait", worker_0="wait")
    wait_for(lambda: all_run(output, 2))
    for pid in processes_of(output):
        if pid != launcher.pid:
            os.kill(pid, signal.SIGSTOP)
    launcher.terminate()
    assert end_of(launcher)[0] == 143
    assert processes_of(output) == []


def test_a_reader_that_goes_away_does_not_end_the_run(output: Path) -> None:
    source, sink = os.pipe()
    launcher = launch(output, stdout=sink, ps_0="wait", worker_0="finish")
    os.close(sink)
    os.close(source)
    assert launcher.wait(PATIENCE_SECONDS) == 0
    assert state(output) == "finished"


def test_a_screen_that_nobody_reads_does_not_hold_up_the_run(output: Path) -> None:
    source, sink = os.pipe()  # takes less than the events need, and is never read
    launcher = launch(output, stdout=sink, ps_0="wait", worker_0="flood", worker_1="suicide")
    os.close(sink)
    status, _, err = end_of(launcher)
    os.close(source)
    assert status == 1
    assert err.startswith("worker 1 was killed by SIGKILL")
    assert processes_of(output) == []


def test_two_jobs_run_at_once_without_touching_each_other(output: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    one = launch(output, ps_0="wait", worker_0="wait", worker_1="wait")
    two = launch(other, ps_0="wait", worker_0="slowly", worker_1="slowly")
    wait_for(lambda: all_run(output, 3) and all_run(other, 3))
    assert not set(ports_of(output)) & set(ports_of(other))
    status, _, err = end_of(launch(output, "--overwrite", worker_0="finish"))
    assert status == 2
    assert f"found process {one.pid} using {output}" in err
    assert end_of(two)[0] == 0
    assert one.poll() is None and len(processes_of(output)) == 4
    one.send_signal(signal.SIGINT)
    assert end_of(one)[0] == 130


def test_the_report_is_asked_of_worker_0(output: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRIVER_REPORT", str(tmp_path / "report.json"))
    assert end_of(launch(output, worker_0="finish"))[0] == 0
    assert (tmp_path / "report.json").read_text() == "{}"


def test_a_full_disk_is_named(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=128k", "none", disk], capture_output=True, check=False)
    if mount.returncode != 0:
        pytest.skip("needs the right to mount a small disk")
    try:
        status, _, err = end_of(launch(disk / "output", ps_0="wait", worker_0="fill"))
        assert status == 1
        assert f"the disk under {disk}/output is full" in err
        assert processes_of(disk / "output") == []
    finally:
        subprocess.run(["umount", disk], check=True)


def test_a_process_that_cannot_be_started_is_named(output: Path) -> None:
    def command(role: str, index: int, job_path: str) -> list[str]:
        return [sys.executable, "-c", "import time; time.sleep(300)", str(output)] if index == 0 else ["/none"]

    with pytest.raises(RunError, match="cannot start ps 1: /none: No such file or directory"):
        run_local(job_file(str(output), 2, 1), command=command)
    assert processes_of(output) == []
    assert state(output) == "failed"


def test_a_job_with_addresses_is_not_started_here(output: Path) -> None:
    job = job_file(str(output), 0, 1, worker_addresses=["trainer-0:2222"])
    with pytest.raises(UserError, match=r"job.yaml: cluster: expected no addresses .* kubectl"):
        run_local(job)
    assert not output.exists()


@pytest.mark.parametrize("report", [".", "missing/report.json"])
def test_a_report_that_could_not_be_written_is_refused_at_once(output: Path, tmp_path: Path, report: str) -> None:
    with pytest.raises(UserError, match="--report: expected a file"):
        run_local(job_file(str(output), 0, 1), report=tmp_path / report)
    assert not output.exists()
