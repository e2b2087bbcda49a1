"""A whole cluster on this machine: start it, follow it to its end, stop it, say why it failed."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO, cast

from ps_cluster.errors import RESTART, RestartMe, RunError, UserError
from ps_cluster.job.membership import Membership, Role
from ps_cluster.launch.asked import Asked
from ps_cluster.launch.display import Display, Renderer
from ps_cluster.launch.events_tail import EventsTail
from ps_cluster.launch.last_words import disk_is_full, drained_line, how_it_ended, last_words
from ps_cluster.launch.output import Output, State, claimed_checkpoints, claimed_output
from ps_cluster.launch.ports import reserved_addresses
from ps_cluster.launch.processes import Ended, Processes
from ps_cluster.launch.screen import Screen
from ps_cluster.report.progress import Renderer as ProgressRenderer

if TYPE_CHECKING:
    from ps_cluster.job.resolve import JobFile

# A failure spreads from process to process within moments; the one it began with may be the last to be gone.
SETTLE_SECONDS = 1.0
# Together with settling, and with the two seconds SIGKILL is given twice at the very worst: under ten.
WORKER_GRACE_SECONDS = 3.0
PS_GRACE_SECONDS = 1.5
_POLL_SECONDS = 0.1

# What the other side of a broken connection reports: a consequence, not a cause.
_CONSEQUENCES = (
    "UnavailableError",
    "AbortedError",
    "HorovodInternalError",
    "another worker has failed",
    "Connection reset",
    "Connection refused",
    "Connection closed",
    "Broken pipe",
    "Socket closed",
)


def role_command(role: Role, index: int, job_path: str) -> list[str]:
    """Command line of one process: this interpreter, this package."""
    return [sys.executable, "-m", "ps_cluster", role, job_path]


def run_local(
    job_file: JobFile,
    *,
    overwrite: bool = False,
    resume: bool = False,
    report: str | os.PathLike[str] | None = None,
    command: Callable[[Role, int, str], list[str]] = role_command,
    make_renderer: Callable[[TextIO], Renderer] = ProgressRenderer,
) -> int:
    """Train a job with PS and worker processes of this machine; call it from the main thread.

    Starts `cluster.ps` PS and `cluster.workers` workers, each told its place by `TF_CONFIG`, with its log in
    OUTPUT/logs. Worker 0 also gets `--events FILE` and, when `report` is given, `--report FILE`. When this
    returns or raises, none of the processes is left and their ports are free again; they also end when this
    process is killed.

    SIGTERM is passed on to the workers, which have `checkpoint.grace_seconds` to save where training stands. Ctrl-C,
    SIGHUP and a second signal stop everything at once.

    Args:
      job_file: the job; its `output` is the folder everything is written to.
      overwrite: replace the results of an earlier run in that folder.
      resume: go on with the run in that folder, from its newest whole checkpoint.
      report: file for the run's report.
      command: command line of a process, without the flags added here.
      make_renderer: makes what shows, on the stream it is given, the events that worker 0 writes.

    Returns:
      0 when all workers ended well; 130, 143 or 129 when SIGINT, SIGTERM or SIGHUP ended the run before.

    Raises:
      RestartMe: SIGTERM ended the run, here or in all its workers, and they have saved where it stands.
      UserError: the job cannot be started as it is, or a process ended with status 2, the user's mistake.
      RunError: a process ended although the job was not done, or could not be started.
    """
    cluster = job_file.job.cluster
    if cluster.ps_addresses or cluster.worker_addresses or cluster.rendezvous_address:
        raise UserError(
            f"{job_file.path}: cluster: expected no addresses for a cluster on this machine, found some "
            "(start `ps-cluster ps` and `ps-cluster worker` at those addresses, or the job with kubectl)"
        )
    report_path = None if report is None else _checked_report(Path(report))
    elsewhere = job_file.job.checkpoint.folder is not None and "://" not in job_file.checkpoints
    # An ignored SIGCHLD, which a process inherits, would make the kernel forget how the children ended.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    notes = Screen(2, patience_seconds=1)
    with (
        Asked() as asked,
        claimed_checkpoints(Path(job_file.checkpoints), overwrite, resume) if elsewhere else contextlib.nullcontext(),
        claimed_output(Path(job_file.output), job_file.job.name, overwrite, resume) as output,
        reserved_addresses(cluster.ps + cluster.workers + 1) as addresses,
    ):
        if output.finished:
            Screen(1, patience_seconds=1).write(f"{output.folder}: the run has finished; nothing is left to do\n")
            return 0
        state: State = "failed"
        try:
            with Processes() as processes:
                tail = EventsTail(output.events, new_only=True)  # an earlier attempt may have left some
                members = _memberships(addresses, cluster.ps, cluster.workers)
                Screen(1, patience_seconds=1).write(
                    f"starting {cluster.ps} PS and {_workers(cluster.workers)}, logs in {output.logs}\n"
                )
                for member in members:
                    if asked.first is None:
                        _start(processes, member, job_file, output, report_path, command, resume)
                with _shown(tail, make_renderer, notes):
                    failed = _follow(processes, members, asked)
                    if failed is None and asked.first == signal.SIGTERM:
                        grace = job_file.job.checkpoint.grace_seconds
                        notes.write(f"SIGTERM: the workers have {grace:g} s to save where training stands\n")
                        failed = _drain(processes, members, asked, grace)
                    elif failed is None:
                        notes.write(f"{_asked_by(asked)}: stopping\n")
                    _stop(processes, members, asked)
            if failed and all(end.status == RESTART for end in failed):
                state = "stopped"
                raise RestartMe(drained_line(failed[0].log) or "drained; start again with --resume to go on")
            if failed:
                _raise_for(failed, output)
            state = "stopped" if failed is None else "finished"
            return 128 + (asked.first or 0) if failed is None else 0
        finally:
            _mark(output, state, notes)


@contextlib.contextmanager
def _shown(tail: EventsTail, make_renderer: Callable[[TextIO], Renderer], notes: Screen) -> Iterator[None]:
    """Show the run's events while the context is open."""
    display = Display(tail, lambda: make_renderer(cast(TextIO, Screen(1))))
    try:
        yield
    finally:
        display.close()
        if display.problem is not None:
            notes.write(display.problem + "\n")


def _memberships(addresses: Sequence[str], ps: int, workers: int) -> list[Membership]:
    ps_addresses = tuple(addresses[:ps])
    worker_addresses = tuple(addresses[ps : ps + workers])
    rendezvous = addresses[ps + workers]
    roles: list[tuple[Role, int]] = [("ps", i) for i in range(ps)]
    roles += [("worker", i) for i in range(workers)]
    return [Membership(role, i, ps_addresses, worker_addresses, rendezvous) for role, i in roles]


def _start(
    processes: Processes,
    member: Membership,
    job_file: JobFile,
    output: Output,
    report: Path | None,
    command: Callable[[Role, int, str], list[str]],
    resume: bool,
) -> None:
    line = command(member.role, member.index, str(job_file.path))
    if member.role == "worker" and resume:
        line = [*line, "--resume"]
    if member.role == "worker" and member.index == 0:
        line = [*line, "--events", str(output.events)]
        if report is not None:
            line += ["--report", str(report)]
    environment = {**os.environ, "TF_CONFIG": member.tf_config(), **_python_environment()}
    processes.start(_name(member), line, environment, output.logs / f"{member.role}-{member.index}.log")


def _python_environment() -> dict[str, str]:
    """Settings under which started interpreters import this very package, and write at once.

    Not whatever else lies in the current folder: `data` and `models` are names that users' folders have.
    """
    root = str(Path(__file__).resolve().parents[2])
    if root in (sysconfig.get_path("purelib"), sysconfig.get_path("platlib")):  # found without being told
        return {"PYTHONSAFEPATH": "1", "PYTHONUNBUFFERED": "1"}
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    searched = os.pathsep.join([root, *(path for path in paths if path and path != root)])
    return {"PYTHONPATH": searched, "PYTHONSAFEPATH": "1", "PYTHONUNBUFFERED": "1"}


def _follow(processes: Processes, members: Sequence[Membership], asked: Asked) -> list[Ended] | None:
    """Wait for the end: [] the job is done, None one was asked to end, else the processes that failed."""
    workers = {_name(member) for member in members if member.role == "worker"}
    settled: float | None = None
    while True:
        ended = processes.ended()
        failed = [end for end in ended if end.status != 0 or end.name not in workers]
        if failed:
            settled = settled or time.monotonic() + SETTLE_SECONDS
            if time.monotonic() >= settled or len(ended) == len(members):
                return failed
        elif len(ended) == len(workers):
            return []
        if asked.first is not None:
            return None
        time.sleep(_POLL_SECONDS)


def _drain(
    processes: Processes, members: Sequence[Membership], asked: Asked, grace_seconds: float
) -> list[Ended] | None:
    """Asks the workers to end, and waits for them, a second signal, or the end of the grace.

    Returns:
      Those that have saved where training stands and ended there, [] when the job was done before; None when a worker
      did neither.
    """
    times = asked.times
    workers = [_name(member) for member in members if member.role == "worker"]
    processes.terminate(workers, grace_seconds, hurry=lambda: asked.times > times)
    ended = [end for end in processes.ended() if end.name in workers]
    if len(ended) < len(workers) or any(end.status not in (0, RESTART) for end in ended):
        return None
    return [end for end in ended if end.status == RESTART]


def _stop(processes: Processes, members: Sequence[Membership], asked: Asked) -> None:
    """Stop the workers, then the PS: a worker that ends in order may still need its PS."""
    times = asked.times
    stuck = []
    roles: tuple[tuple[Role, float], ...] = (("worker", WORKER_GRACE_SECONDS), ("ps", PS_GRACE_SECONDS))
    for role, grace_seconds in roles:
        names = [_name(member) for member in members if member.role == role]
        stuck += processes.stop(names, grace_seconds, hurry=lambda: asked.times > times)
    if stuck:
        raise RunError("\n".join(stuck))


def _raise_for(failed: Sequence[Ended], output: Output) -> None:
    cause = min(failed, key=_distance_from_cause)  # the earliest one among equals
    # A process that SIGKILL ended had no time to say why: its log ends with whatever it did last.
    words = [] if cause.status == -signal.SIGKILL else last_words(cause.log)
    if cause.status == 2 and words:
        raise UserError("\n".join(words))
    lines = [how_it_ended(cause.name, cause.status)]
    if cause.status == 0:
        lines = [f"{cause.name} ended before the job was done"]
    lines += [f"  {word}" for word in words]
    if disk_is_full(output.folder):
        lines.append(f"  the disk under {output.folder} is full")
    lines.append(f"  log: {cause.log}")
    raise RunError("\n".join(lines))


def _distance_from_cause(end: Ended) -> int:
    """How far from the beginning of a failure a process's end probably is."""
    if end.status < 0:
        return 0
    if end.status == 2:
        return 1
    if end.name.startswith("ps"):
        return 2
    return 4 if any(sign in word for word in last_words(end.log) for sign in _CONSEQUENCES) else 3


def _checked_report(path: Path) -> Path:
    path = path.absolute()
    if path.is_dir():
        raise UserError(f"--report: expected a file, found the folder {path}")
    if not path.parent.is_dir():
        raise UserError(f"--report: expected a file in a folder that exists, found {path}")
    try:
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError:
        raise UserError(f"--report: expected a file in a folder that can be written, found {path}") from None
    if path.exists() and not _is_report(path):
        raise UserError(f"--report: expected a new file or an earlier report, found another file, {path}")
    return path


def _is_report(path: Path) -> bool:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(content, dict) and "format_version" in content


def _mark(output: Output, state: State, notes: Screen) -> None:
    try:
        output.mark(state)
    except OSError as error:
        notes.write(f"cannot write {output.folder / 'run.json'}: {error.strerror}\n")


def _asked_by(asked: Asked) -> str:
    return "Ctrl-C" if asked.first == signal.SIGINT else signal.Signals(asked.first or 0).name


def _name(member: Membership) -> str:
    return f"{member.role} {member.index}"


def _workers(count: int) -> str:
    return "1 worker" if count == 1 else f"{count} workers"
