"""A whole cluster on this machine: start it, follow it to its end, stop it, say why it failed."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TextIO, cast

from ps_cluster.errors import RestartMe, UserError
from ps_cluster.job.membership import Role
from ps_cluster.launch.asked import Asked
from ps_cluster.launch.display import Display, Renderer
from ps_cluster.launch.events_tail import EventsTail
from ps_cluster.launch.following import Drained, Failed, follow, stop
from ps_cluster.launch.output import Output, State, claimed_checkpoints, claimed_output
from ps_cluster.launch.ports import reserved_addresses
from ps_cluster.launch.processes import Processes
from ps_cluster.launch.screen import Screen
from ps_cluster.launch.starting import Starter, memberships
from ps_cluster.report.progress import Renderer as ProgressRenderer

if TYPE_CHECKING:
    from ps_cluster.job.resolve import JobFile


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

    SIGTERM and Ctrl-C make the workers end, which have `checkpoint.grace_seconds` to save where training stands. SIGHUP
    and a second signal stop everything at once.

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
      RestartMe: SIGTERM or Ctrl-C ended the run, here or in all its workers, and they have saved where it stands.
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
                members = memberships(addresses, cluster.ps, cluster.workers)
                Screen(1, patience_seconds=1).write(
                    f"starting {cluster.ps} PS and {_workers(cluster.workers)}, logs in {output.logs}\n"
                )
                starter = Starter(processes, job_file, output, report_path, command, resume)
                for member in members:
                    if asked.first is None:
                        starter.start(member)
                with _shown(tail, make_renderer, notes):
                    end = follow(starter, members, asked, notes)
                    stop(processes, members, asked)
            if isinstance(end, Failed):
                raise end.error(output.folder)
            state = "finished" if end == "done" else "stopped"
            if isinstance(end, Drained):
                raise RestartMe(end.words)
            return 0 if end == "done" else 128 + (asked.first or 0)
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
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(content, dict) and "format_version" in content


def _mark(output: Output, state: State, notes: Screen) -> None:
    try:
        output.mark(state)
    except OSError as error:
        notes.write(f"cannot write {output.folder / 'run.json'}: {error.strerror}\n")


def _workers(count: int) -> str:
    return "1 worker" if count == 1 else f"{count} workers"
