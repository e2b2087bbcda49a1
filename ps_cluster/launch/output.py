"""The output folder of a local run: one run at a time, finished ones kept, nobody else's files touched."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Literal

from ps_cluster.errors import RunError, UserError

State = Literal["running", "finished", "failed", "stopped"]

RESULTS = frozenset({"checkpoint", "export", "export-ops", "export-sharded"})
"""Entries worth keeping: a new run replaces them only when asked to."""

LEFTOVERS = frozenset(
    {
        "logs",
        "events.jsonl",
        "events.jsonl.1",
        "events.jsonl.next",
        "run.json",
        "run.json.tmp",
        "report.json",
        "tensorboard",
        "scratch",
        "last-step",
        "metrics",
        "trace",
    }
)
"""Other entries a run makes; a new run replaces them."""

_LOCK = ".lock"


@dataclass(frozen=True)
class Output:
    """Paths of one run; the folder is locked by this process for as long as `claimed_output` is open."""

    folder: Path
    job_name: str
    started: str
    finished: bool = False
    """The run that was to be gone on with has finished; nothing of it was touched."""

    @property
    def logs(self) -> Path:
        """Folder with one log file a process."""
        return self.folder / "logs"

    @property
    def events(self) -> Path:
        """File to which worker 0 appends what happens, one JSON object a line (`ps_cluster.report.event_log`)."""
        return self.folder / "events.jsonl"

    def mark(self, state: State) -> None:
        """Write down how far the run is, in `run.json`; with the rates of sampling once training has begun."""
        run = {"job": self.job_name, "state": state, "started": self.started, "pid": os.getpid()}
        sampling = _sampling_of(self.events)
        text = json.dumps(run if sampling is None else {**run, "sampling": sampling})
        beside = self.folder / "run.json.tmp"
        beside.write_text(text + "\n", encoding="utf-8")
        beside.replace(self.folder / "run.json")


@contextlib.contextmanager
def claimed_output(folder: Path, job_name: str, overwrite: bool = False, resume: bool = False) -> Iterator[Output]:
    """Create `folder` or take it over from an earlier run, and hold it against every other run.

    The hold is a lock that ends with this process, however that ends. What an earlier run left behind is
    removed, files that no run makes are left alone. With `resume` it stays, logs in a folder of their own.

    Raises:
      UserError: the folder cannot be made or written, holds something else than a run, is in use by a running
        job, or holds a finished run or results and `overwrite` is False.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _refuse_foreign(folder)
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise UserError(f"output: expected a folder that can be written, found {_why(folder, error)}") from None
    try:
        _take(lock, folder, "output")
        if not resume:
            _refuse_results(folder, overwrite)
        started = datetime.now(timezone.utc).isoformat(timespec="seconds")
        output = Output(folder, job_name, started, finished=resume and _state(folder) == "finished")
        try:
            if not output.finished:
                if resume:
                    set_logs_aside(output.logs)
                else:
                    _clear(folder)
                output.logs.mkdir(exist_ok=True)
                output.mark("running")
        except OSError as error:
            raise UserError(f"output: expected a folder that can be written, found {_why(folder, error)}") from None
        yield output
    finally:
        os.close(lock)


@contextlib.contextmanager
def claimed_checkpoints(folder: Path, overwrite: bool, resume: bool = False) -> Iterator[None]:
    """Hold a local `folder` of the user's choice for a run's checkpoints, against every other run.

    The first checkpoint of the run will clear the folder of those of an earlier training, unless the run goes on with
    it (`resume`).

    Raises:
      UserError: the folder cannot be made or written, is in use by a running job, or holds checkpoints and `overwrite`
        is False.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise UserError(
            f"checkpoint.folder: expected a folder that can be written, found {_why(folder, error)}"
        ) from None
    try:
        _take(lock, folder, "checkpoint.folder")
        steps = sorted(path.name for path in folder.glob("step-*"))
        if steps and not overwrite and not resume:
            raise UserError(
                f"checkpoint.folder: expected a folder without checkpoints, found {steps[-1]} in {folder} "
                "(--resume goes on from them, --overwrite replaces them)"
            )
        yield
    finally:
        os.close(lock)


def set_logs_aside(logs: Path) -> None:
    """Moves the logs of an attempt that has ended into a folder `attempt-N` beside those to come."""
    files = [path for path in logs.glob("*.log") if path.is_file()] if logs.is_dir() else []
    if files:
        number = 1 + sum(path.is_dir() for path in logs.glob("attempt-*"))
        aside = logs / f"attempt-{number}"
        aside.mkdir()
        for path in files:
            path.rename(aside / path.name)


def _take(lock: int, folder: Path, field: str) -> None:
    """Locks for this process and writes its number down; `field` of the job file names the folder."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        pid = os.pread(lock, 32, 0).decode(errors="replace").strip()
        raise UserError(
            f"{field}: expected a folder that no running job uses, found process {pid or '?'} using {folder}"
        ) from None
    except OSError as error:
        raise RunError(f"{field}: cannot lock {folder / _LOCK}: {error.strerror}") from None
    try:
        os.truncate(lock, 0)
        os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
    except OSError as error:
        raise UserError(f"{field}: expected a folder that can be written, found {_why(folder, error)}") from None


def _refuse_foreign(folder: Path) -> None:
    entries = _entries(folder)
    foreign = sorted(entries - RESULTS - LEFTOVERS)
    if foreign and "run.json" not in entries:
        raise UserError(f"output: expected an empty folder or that of an earlier run, found {foreign[0]!r} in {folder}")


def _refuse_results(folder: Path, overwrite: bool) -> None:
    entries = _entries(folder)
    kept = sorted(name for name in entries & RESULTS if name != "checkpoint" or _has_checkpoints(folder / name))
    unfinished = _state(folder) in ("running", "failed", "stopped")
    if overwrite or not entries or (unfinished and not kept):
        return
    what = f"{', '.join(kept)} of an earlier run" if kept else "a finished run"
    if unfinished and "checkpoint" in kept:
        raise UserError(
            f"output: expected a folder without results, found an unfinished run with checkpoints in {folder} "
            "(--resume goes on with it, --overwrite replaces it)"
        )
    raise UserError(f"output: expected a folder without results, found {what} in {folder} (--overwrite replaces it)")


def _has_checkpoints(folder: Path) -> bool:
    """Whether anything was saved: before the first checkpoint there is only a hidden note of who writes there."""
    return not folder.is_dir() or any(not entry.name.startswith(".") for entry in folder.iterdir())


def _entries(folder: Path) -> set[str]:
    return {entry.name for entry in folder.iterdir()} - {_LOCK, "run.json.tmp"}


def _state(folder: Path) -> str | None:
    """State that the earlier run wrote down; None when it cannot be known."""
    try:
        run = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return run.get("state") if isinstance(run, dict) else None


def _clear(folder: Path) -> None:
    # run.json goes last: as long as it is there, the folder is known as a run's.
    for name in sorted(RESULTS | LEFTOVERS, key=lambda name: name == "run.json"):
        path = folder / name
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def _sampling_of(events: Path) -> object:
    """What the start of training tells of sampling; None when nothing."""
    try:
        with events.open(encoding="utf-8") as lines:
            for line in lines:
                event = json.loads(line)
                if isinstance(event, dict) and event.get("event") == "start":
                    return event.get("sampling")
    except (OSError, ValueError, RecursionError):  # not begun; or cut where the run ended
        pass
    return None


def _why(folder: Path, error: OSError) -> str:
    where = f" ({error.filename})" if error.filename and str(error.filename) != str(folder) else ""
    return f"{folder}: {error.strerror}{where}"
