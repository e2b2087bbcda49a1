"""Saves a training's state while it goes on: fixed between two steps, written by a thread of its own."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ps_cluster.checkpoint import storage
from ps_cluster.checkpoint.dense import write_dense
from ps_cluster.checkpoint.finding import folder_of
from ps_cluster.checkpoint.manifest import MANIFEST, Base, Manifest, StoredTable
from ps_cluster.checkpoint.retention import retire
from ps_cluster.errors import RunError
from ps_cluster.roles.readable import one_line


class SavedTables(Protocol):
    """What a saver must know of a store."""

    def begin_save(self, folder: str, delta: bool) -> None:
        """Fixes the state of all tables; of `delta`, what changed since the save before."""

    def write_save(self, folder: str, step: int, base_step: int | None) -> tuple[StoredTable, ...]:
        """Writes what was fixed."""


class SavedTraining(Protocol):
    """What a saver must know of where training stands."""

    def to_json(self) -> dict[str, Any]:
        """For `Manifest.training`; may be called beside training."""

    def arrays(self) -> dict[str, np.ndarray]:
        """What goes into the file of the dense values, by names that start with `training/`."""


@dataclass(frozen=True)
class Saved:
    """A checkpoint that is whole.

    pause_seconds: for which training stood still. seconds: from there until it was whole.
    """

    step: int
    folder: str
    bytes: int
    is_delta: bool
    pause_seconds: float
    seconds: float


@dataclass(frozen=True)
class NotSaved:
    """A save that failed, or was left out."""

    step: int
    problem: str


class Saver:
    """Saves of one training, one at a time. An interrupted one leaves those before as they were."""

    def __init__(
        self,
        parent: str,
        store: SavedTables,
        dense: Callable[[], dict[str, np.ndarray]],
        trained: Mapping[str, Any],
        sampling: Mapping[str, Any] | None,
        keep: int,
        deltas: int = 0,
    ):
        """Args:
        parent: folder of the checkpoints, local or an address.
        store: the tables.
        dense: copies the dense values as they are.
        trained: as in `Manifest`; so is `sampling`.
        keep: so many newest checkpoints stay, and what they are based on.
        deltas: saves of changes alone between two full ones.
        """
        self._parent = parent
        self._store = store
        self._dense = dense
        self._trained = dict(trained)
        self._sampling = dict(sampling) if sampling is not None else None
        self._keep = keep
        self._deltas = deltas
        self._thread: threading.Thread | None = None
        self._outcomes: list[Saved | NotSaved] = []
        # What the next delta is based on; None when the last save failed, as tables then differ from all that is kept.
        self._base: Base | None = None
        self._since_full = 0
        self._step: int | None = None  # of the newest save that was begun

    def begin(self, step: int, training: SavedTraining | None = None) -> None:
        """Fixes the state after `step` steps and writes it in the background; call it between two steps.

        While a save is still being written, the new one is left out. What goes wrong is an outcome, never raised.
        """
        if self._thread is not None and self._thread.is_alive():
            self._outcomes.append(NotSaved(step, f"left out: that of step {self._step} is still being written"))
            return
        self._step = step
        started = time.monotonic()
        folder = folder_of(self._parent, step)
        delta = self._base is not None and self._since_full < self._deltas
        try:
            storage.remove_folder(folder, MANIFEST)
            storage.make_folder(folder)
            self._store.begin_save(folder, delta)
            dense = {**self._dense(), **(training.arrays() if training else {})}
        except storage.READ_ERRORS as error:
            self._failed(step, folder, error)
            return
        paused = time.monotonic() - started
        self._thread = threading.Thread(
            target=self._write,
            args=(step, folder, dense, training, delta, started, paused),
            name="checkpoint",
            daemon=True,
        )
        self._thread.start()

    def folder(self, step: int) -> str:
        """Where the checkpoint of a step lies."""
        return folder_of(self._parent, step)

    def outcomes(self) -> list[Saved | NotSaved]:
        """How saves have ended that had not been asked for; in order."""
        taken, self._outcomes = self._outcomes, []
        return taken

    def save(self, step: int, training: SavedTraining | None = None) -> list[Saved | NotSaved]:
        """Saves the state after the last step, unless that has been begun; returns when all is written.

        Returns:
          The outcomes, the last of them that of `step`.

        Raises:
          RunError: it could not be saved.
        """
        self.wait()
        outcomes = self.outcomes()
        if self._base is None or self._base.step != step:
            self._since_full = self._deltas  # what is served next stands alone
            self.begin(step, training)
            self.wait()
            outcomes += self.outcomes()
        last = outcomes[-1] if outcomes else None
        if isinstance(last, NotSaved):
            raise RunError(f"{folder_of(self._parent, step)}: the checkpoint could not be written: {last.problem}")
        return outcomes

    def wait(self) -> None:
        """Returns when no save is being written."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def forget_base(self) -> None:
        """The next save is a full one; while none is being written."""
        self._base = None

    def _write(
        self,
        step: int,
        folder: str,
        dense: dict[str, np.ndarray],
        training: SavedTraining | None,
        delta: bool,
        started: float,
        paused: float,
    ) -> None:
        try:
            base = self._base if delta else None
            tables = self._store.write_save(folder, step, base.step if base else None)
            is_delta = any(table.is_delta for table in tables)
            manifest = Manifest(
                step=step,
                base=base if is_delta else None,
                trained=self._trained,
                sampling=self._sampling,
                dense=write_dense(folder, dense),
                tables=tables,
                training=training.to_json() if training else None,
            )
            text = manifest.text()
            storage.write(storage.join(folder, MANIFEST), text.encode())
        except Exception as error:  # nobody waits for this thread: whatever it is must be told
            self._failed(step, folder, error)
            return
        self._base = Base(step, manifest.crc32())
        self._since_full = self._since_full + 1 if is_delta else 0
        saved = Saved(step, folder, manifest.bytes, is_delta, paused, time.monotonic() - started)
        try:
            retire(self._parent, step, self._keep)
        except storage.READ_ERRORS as error:
            self._outcomes.append(NotSaved(step, f"older checkpoints could not be removed: {_line(error)}"))
        self._outcomes.append(saved)

    def _failed(self, step: int, folder: str, error: Exception) -> None:
        self._base = None
        self._outcomes.append(NotSaved(step, _line(error)))
        with contextlib.suppress(*storage.READ_ERRORS):  # without a manifest it counts as nothing
            storage.remove_folder(folder, MANIFEST)


def _line(error: Exception) -> str:
    if isinstance(error, OSError):
        return f"{error.filename}: {error.strerror}" if error.filename else str(error)
    return one_line(type(error).__name__, getattr(error, "message", str(error)))
