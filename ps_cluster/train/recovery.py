"""A lost PS while the workers stay: they meet again, connect again, refill it alone, and do the broken-off step again.

A PS that dies breaks off a step on all workers, but not at the same place. One may wait for another in an all-reduce
that will never come; one may have finished the step already. So each worker that notices leaves the ring, which breaks
off whatever the others wait for, and then all of them go the same way:

    leave the ring → meet at worker 0's rendezvous → wait until all PS serve → connect, worker 0 first
    → a new ring → worker 0 refills the PS that are new → all go on from the worker that has come furthest

All shares of a step must be on a PS before it applies any (synchronous updates), so a step that one worker has finished
is applied on all PS, for all workers. One that nobody has finished is done again: shards that had applied it already
apply it twice, those that had not, once. Shares that still wait on a PS are of an attempt that has ended, and are left
to it (`PsEmbeddingStore.connect`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass

import numpy as np
import tensorflow as tf
import tf_keras

from ps_cluster.checkpoint.finding import checkpoint_at, folder_of
from ps_cluster.errors import RestartMe, RunError
from ps_cluster.job.membership import Membership
from ps_cluster.train.collective import Ring, broadcast_from, gathered
from ps_cluster.train.connect import connect
from ps_cluster.train.notes import leave_note, wait_for_note
from ps_cluster.train.periodic_saves import PeriodicSaves
from ps_cluster.train.ps_marks import mark, unmarked
from ps_cluster.train.reach import accepts, serves_grpc
from ps_cluster.train.session import Session
from ps_cluster.train.watchdog import Watchdog

_GONE_SECONDS = 5.0
_POLL_SECONDS = 0.2


@dataclass(frozen=True)
class StepTold:
    """What all workers know after a step, `step` being its number; as of `ps_cluster.train.step.StepResult`."""

    step: int
    loss: float = 0.0
    rows: int = 0
    workers_left: int = 0
    save_wished: bool = False
    drained: bool = False
    meeting: bool = False


@dataclass(frozen=True)
class Recovered:
    """ps: those that were new, refilled from the checkpoint of step `checkpoint`; 0: there was none, they are empty.
    told: of the last step that is done."""

    ps: tuple[int, ...]
    checkpoint: int
    seconds: float
    told: StepTold


def is_lost_peer(error: BaseException) -> bool:
    """Whether an error says that another process of the job is gone, or does not go on."""
    from horovod.common.exceptions import HorovodInternalError

    if isinstance(error, (tf.errors.UnavailableError, tf.errors.AbortedError, HorovodInternalError)):
        return True
    # On a worker in which other parts of a step were still running.
    if isinstance(error, tf.errors.CancelledError):
        return True
    return isinstance(error, (tf.errors.UnknownError, tf.errors.InternalError)) and any(
        sign in error.message for sign in ("Horovod", "Unable to find a context_id", "failed to connect")
    )


class Recovery:
    """What a worker does when a PS is lost; all workers do it together."""

    def __init__(
        self,
        session: Session,
        optimizer: tf_keras.optimizers.Optimizer,
        membership: Membership,
        ring: Ring,
        watchdog: Watchdog,
        saves: PeriodicSaves,
        attempt: str,
        tell: Callable[[Recovered], None],
    ):
        """Args:
        ring: that the workers have joined.
        saves: knows the newest checkpoint of this training.
        attempt: of `agreed_attempt`.
        tell: takes what each recovery has done, on worker 0.
        """
        self._session = session
        self._optimizer = optimizer
        self._membership = membership
        self._ring = ring
        self._watchdog = watchdog
        self._saves = saves
        self._attempt = attempt
        self._tell = tell
        self._limits = session.job.failures
        self._number = 0
        self._steps: list[int] = []
        if session.rank == 0:
            mark(session.devices.ps, session.job.name)

    def after(self, error: BaseException, told: StepTold) -> StepTold:
        """Brings the job back after `error`; every worker calls it.

        told: of the last step that this worker has finished.

        Returns:
          Of the last step that any worker has finished: training goes on with the one after it. The step must be traced
          anew.

        Raises:
          RunError: it cannot be brought back, and the workers must start again.
        """
        self._steps.append(told.step)
        alike = self._limits.same_step
        if len(self._steps) > alike and set(self._steps[-alike - 1 :]) == {told.step}:
            raise RunError(f"step {told.step + 1} has failed {alike + 1} times in a row: {error}") from error
        started = time.monotonic()
        self._number += 1
        attempt = f"{self._attempt}.{self._number}"
        what = f"recovery after step {told.step}"
        self._watchdog.at(what, long=True)
        try:
            self._ring.leave()
            self._meet(attempt)
            if self._session.rank == 0:
                self._saves.settle()
            self._wait_for_ps(what)
            self._watchdog.at(what)
            connect(self._membership, self._limits.wait_seconds, attempt)
            self._ring.rebuild(attempt)
            self._watchdog.at(what, long=True)
            self._session.store.connect(attempt)
            lost, checkpoint = self._refill() if self._session.rank == 0 else ((), 0)
            furthest = self._go_on_from_the_furthest(told)
        except Exception as second:
            if is_lost_peer(second):
                raise RestartMe(f"{what}: another process was lost meanwhile: {type(second).__name__}") from second
            raise
        if self._session.rank == 0:
            self._tell(Recovered(lost, checkpoint, time.monotonic() - started, furthest))
        return furthest

    def _meet(self, attempt: str) -> None:
        """Returns when all workers of this very attempt have left the ring: one that has died cannot be among them."""
        me, others = self._membership, range(1, len(self._membership.workers))
        go = f"all workers have left the ring of {attempt}"
        if me.index > 0:
            leave_note(me, f"worker {me.index} has left the ring of {attempt}")
            wait_for_note(me, go, self._limits.wait_seconds)
            return
        for other in others:
            note = f"worker {other} has left the ring of {attempt}"
            wait_for_note(me, note, self._limits.wait_seconds, _Alive(other, me.workers[other]).check)
        leave_note(me, go)

    def _wait_for_ps(self, what: str) -> None:
        deadline = time.monotonic() + self._limits.wait_seconds
        for index, address in enumerate(self._membership.ps):
            self._watchdog.at(f"{what}: PS {index}")
            while not serves_grpc(address):
                if time.monotonic() > deadline:
                    raise RestartMe(
                        f"worker {self._membership.index}: {what}: PS {index} at {address} was not back within "
                        f"{self._limits.wait_seconds} s"
                    )
                time.sleep(_POLL_SECONDS)

    def _refill(self) -> tuple[tuple[int, ...], int]:
        session = self._session
        lost = tuple(unmarked(session.devices.ps, session.job.name))
        step = self._saves.newest
        if lost and step is None and session.job.checkpoint.warm_start is not None:
            raise RestartMe("a PS was lost before the first checkpoint of a training with a warm start")
        if lost and step is not None:
            checkpoint = checkpoint_at(folder_of(session.job_file.checkpoints, step), session.devices.ps)
            session.store.restore(checkpoint.levels_of(session.store.table_names()), only_ps=lost)
        mark(session.devices.ps, session.job.name)
        return lost, step or 0

    def _go_on_from_the_furthest(self, told: StepTold) -> StepTold:
        all_told = gathered(np.array(astuple(told), np.float64)).reshape(-1, len(astuple(told)))
        rank = int(np.argmax(all_told[:, 0]))
        broadcast_from(rank, [*self._session.model.weights, *self._optimizer.variables])
        return _told(all_told[rank])


class _Alive:
    """Whether another worker is there: one that has died refuses connections."""

    def __init__(self, index: int, address: str):
        self._index, self._address = index, address
        self._since: float | None = None

    def check(self) -> None:
        """RestartMe when it has not been there for some seconds."""
        if accepts(self._address):
            self._since = None
            return
        self._since = self._since or time.monotonic()
        if time.monotonic() - self._since > _GONE_SECONDS:
            raise RestartMe(f"worker {self._index} at {self._address} is gone")


def _told(figures: Sequence[float]) -> StepTold:
    step, loss, rows, left, wished, drained, meeting = (float(figure) for figure in figures)
    return StepTold(int(step), loss, int(rows), int(left), bool(wished), bool(drained), bool(meeting))
