"""Training on files as they appear in a folder (`data.follow`): they join the ledger while training goes on.

Worker 0 looks at the folder. What is new there it announces when all workers *meet* between two steps, and each file
becomes a segment of the ledger of its own, of one epoch, that is dealt to all workers. Workers meet after a step in
which one of them wished for it (worker 0 has news; somebody has come to the end of a file), and again and again while
nobody has any samples.

Each row is scored before it is trained on, by the step itself; these scores tell how good the model is on a file that
it has not seen.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace

import numpy as np

from data.errors import DataError
from data.follow import in_folder, name_hash
from data.orc import Plan, Position, make_plan
from data.read.footers import FileSummary, Footer, read_footer, spec_problems
from data.read.plan import Checked
from data.sample.sampling import OFFSET
from ps_cluster.errors import UserError
from ps_cluster.job.resolve import JobFile
from ps_cluster.job.sampling import DAY_UNITS
from ps_cluster.metrics.log_loss import log_losses
from ps_cluster.metrics.window import WindowAuc, window_auc
from ps_cluster.train.batches import Batch, LookAhead, Read
from ps_cluster.train.collective import gathered, text_from_first, total
from ps_cluster.train.folder_watch import Appeared, FolderWatch
from ps_cluster.train.ledger import Consumed, Ledger, Segment, TrainingFile
from ps_cluster.train.session import Samples, Session
from ps_cluster.train.shares import Share
from ps_cluster.train.work import Work, read_of

_OPEN_FILES = 8
_ROUND_SECONDS = 1.0
_TELL_AFTER_SECONDS = 2.0
_APPEARS_SECONDS = 30.0  # for a file that worker 0 sees to be seen by the others: shared folders take their time


@dataclass(frozen=True)
class FileDone:
    """A file has been trained on, by all workers.

    rows: that it holds, or as many as pass `where` and sampling. scored: of those how many were scored before they were
    trained on since this process started, which `auc` and `log_loss` (means, before sampling) are of; fewer than `rows`
    when training was resumed in the middle of it, or rows were lost. problem: why it was left out; empty: it was not.
    files: how many there have been, this one included. newest_event: as of `TrainingState`.
    """

    path: str
    rows: int
    scored: int
    auc: float | None
    log_loss: float | None
    problem: str
    files: int
    newest_event: float | None


def follow_work(session: Session, samples: Samples) -> Work:
    """The work of a training that begins: none yet."""
    spec = session.read_spec(samples, training=True)
    nothing = Plan((), None, 0, 0, True, (), FileSummary(0, 0, 0, 0), {}, None)
    share = Share(samples, spec, nothing, 0, 0, (0,) * session.num_workers)
    return Work(share, Ledger.empty(spec.batch_rows, spec.drop_remainder, session.num_workers), ())


def resumed_follow_work(session: Session, samples: Samples, ledger: Ledger) -> Work:
    """What `ledger`, from a checkpoint, has left of files that had been announced; every worker calls it.

    Raises:
      UserError: such a file is not there any more, or is another one.
    """
    work = follow_work(session, samples)
    share, dealt = work.share, ledger.deal(session.num_workers)
    shares, plans = [], []
    for number, segment in enumerate(dealt.segments):
        (file,) = segment.files
        path = in_folder(_folder(session.job_file), os.path.basename(file.path))
        footer = _same_file(session.job_file, path, file)
        shares.append(_share_of(share, footer))
        plan = make_plan(shares[-1].spec, None, shares[-1].samples.checked)
        plans.append({(session.num_workers, session.rank): plan})
        dealt = dealt.with_rows(number, gathered(np.array([plan.rows], np.int64)).tolist())
    reads = tuple(read_of(shares[one.segment], one, plans[one.segment]) for one in dealt.lanes[session.rank])
    return Work(share, dealt, reads)


class Following:
    """What a worker does about the folder; every worker calls the same at the same step. Close it.

    Attributes:
        ledger: What is left, as of the last meeting.
        newest_event: Time of the newest row that this worker has trained on, in seconds since 1970; None without
            `data.time` or before the first row.
    """

    def __init__(
        self,
        session: Session,
        work: Work,
        followed: np.ndarray,
        newest_event: float | None,
        tell: Callable[[FileDone], None],
        tell_waiting: Callable[[], None],
    ):
        """Args:
        followed: `name_hash` of each file that was announced before, int64.
        newest_event: of all workers, so far.
        tell, tell_waiting: take what is to be told, on worker 0.
        """
        data = session.job.data
        self.ledger = work.ledger
        self.newest_event = newest_event
        self._folder = _folder(session.job_file)
        self._rank = session.rank
        self._share = work.share
        self._skip = data.on_bad == "skip"
        self._label = data.label
        self._time = data.time
        self._idle_seconds = data.idle_seconds
        self._round_seconds = min(data.poll_seconds, _ROUND_SECONDS)
        self._followed = followed.tolist()
        self._files = len(self._followed) - len(work.ledger.segments)  # that are done
        self._tell, self._tell_waiting = tell, tell_waiting
        self._scores: dict[str, _Scores] = {}
        self._watch: FolderWatch | None = None
        if session.rank == 0:
            self._watch = FolderWatch(self._folder, work.share.spec, data.poll_seconds, self._followed)
            self._watch.start()

    @property
    def followed(self) -> np.ndarray:
        """`name_hash` of each file that was announced, int64 `[files]`."""
        return np.array(self._followed, np.int64)

    @property
    def paths(self) -> tuple[str, ...]:
        """Of the files that are being trained on."""
        return tuple(file.path for segment in self.ledger.segments for file in segment.files)

    def wants_to_meet(self, batches: LookAhead, batch: Batch) -> bool:
        """Whether this worker wishes that all meet after the step of `batch`."""
        news = self._watch is not None and self._watch.has_new and len(self.ledger.segments) < _OPEN_FILES
        return news or (batch.rows > 0 and batches.stand.leases > batch.consumed.leases)

    def scored(self, batch: Batch, logits: np.ndarray, labels: np.ndarray) -> None:
        """Takes in a step's scores, float `[batch]`, from before the step's update."""
        if not batch.rows:
            return
        if OFFSET in batch.columns:
            logits = logits - np.asarray(batch.columns[OFFSET])
        segment = self.ledger.segments[self.ledger.lanes[self._rank][batch.consumed.leases].segment]
        self._scores.setdefault(segment.files[0].path, _Scores()).add(logits, labels)
        if self._time is not None:
            newest = int(np.max(np.asarray(batch.columns[self._time.column]))) / (DAY_UNITS[self._time.unit] / 86_400)
            self.newest_event = newest if self.newest_event is None else max(self.newest_event, newest)

    def newest_event_of_all(self) -> float | None:
        """Over all workers; every worker calls it."""
        newest = -np.inf if self.newest_event is None else self.newest_event
        found = float(gathered(np.array([newest], np.float64)).max())
        return found if np.isfinite(found) else None

    def left(self, batches: LookAhead) -> Ledger:
        """What is left by now; every worker calls it."""
        stand = batches.stand
        mine = np.array([stand.leases, *stand.position], np.int64)
        everyone = gathered(mine).reshape(-1, 3).tolist()
        return self.ledger.advance([Consumed(leases, Position(epoch, row)) for leases, epoch, row in everyone])

    def meet(self, batches: LookAhead) -> int:
        """Tells of files that are done, takes in new ones; every worker calls it between two steps.

        Returns:
          How many workers have a batch.

        Raises:
          DataError: a file is wrong (`on_bad: error`), or the folder cannot be listed for long.
        """
        self.ledger, done = self.left(batches).without_done()
        batches.forget_done()
        for segment in done:
            self._finish(segment)
        told = None
        if self._watch is not None:
            news = self._watch.take(max(_OPEN_FILES - len(self.ledger.segments), 0))
            told = json.dumps([asdict(one) for one in news])
        for one in json.loads(text_from_first(told)):
            self._begin(Appeared(**one), batches)
        return int(total(np.array([int(batches.has_next)], np.int64))[0])

    def wait(
        self, batches: LookAhead, drain_asked: Callable[[], bool], meanwhile: Callable[[], None]
    ) -> tuple[int, bool]:
        """Waits until there is something to do, after at least one meeting; every worker calls it.

        meanwhile: called in each round, on every worker, between two meetings.

        Returns:
          How many workers have a batch, and whether a worker was asked to end.
        """
        began, told = time.monotonic(), False
        while True:
            left = self.meet(batches)
            if left:
                return left, False
            over = (
                self._watch is not None
                and self._idle_seconds is not None
                and not self._watch.has_new
                and min(self._watch.idle_seconds, time.monotonic() - began) >= self._idle_seconds
            )
            drained, ended = total(np.array([drain_asked(), over], np.int64)).tolist()
            if drained or ended:
                return 0, bool(drained)
            if not told and time.monotonic() - began >= _TELL_AFTER_SECONDS:
                told = True
                self._tell_waiting()
            meanwhile()
            time.sleep(self._round_seconds)

    def close(self) -> None:
        """Ends the looking; may be called again."""
        if self._watch is not None:
            self._watch.close()

    def __enter__(self) -> Following:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _begin(self, one: Appeared, batches: LookAhead) -> None:
        path = in_folder(self._folder, one.name)
        self._followed.append(name_hash(one.name))
        if one.problem:
            self._lose(path, one.problem)
            return
        footer = _wait_for(path)
        problems = spec_problems(footer, self._share.spec)
        if footer.file_key != one.key or problems:
            raise DataError("; ".join(problems) or f"{path}: expected the file that worker 0 has found, found another")
        share = _share_of(self._share, footer)
        plan = make_plan(share.spec, None, share.samples.checked)
        if plan.lost:
            self._lose(path, plan.lost[0][1])
            return
        rows = tuple(gathered(np.array([plan.rows], np.int64)).tolist())
        segment = Segment((TrainingFile(path, one.key, one.rows),), 1, plan.exact, (rows,))
        self.ledger = self.ledger.with_segment(segment)
        batches.append(Read(share.spec, plan))

    def _lose(self, path: str, problem: str) -> None:
        if not self._skip:
            raise DataError(problem if path in problem else f"{path}: {problem}")
        self._files += 1
        if self._rank == 0:
            self._tell(FileDone(path, 0, 0, None, None, problem, self._files, self.newest_event))

    def _finish(self, segment: Segment) -> None:
        (file,) = segment.files
        mine = self._scores.pop(file.path, _Scores())
        counts, (loss, scored) = total(mine.window.counts), total(np.array([mine.loss, mine.rows], np.float64)).tolist()
        newest = self.newest_event_of_all()
        self._files += 1
        if self._rank == 0:
            self._tell(
                FileDone(
                    path=file.path,
                    rows=sum(next(rows for rows in segment.shard_rows)),
                    scored=int(scored),
                    auc=window_auc(counts),
                    log_loss=loss / scored if scored else None,
                    problem="",
                    files=self._files,
                    newest_event=newest,
                )
            )


class _Scores:
    def __init__(self) -> None:
        self.window, self.loss, self.rows = WindowAuc(), 0.0, 0

    def add(self, logits: np.ndarray, labels: np.ndarray) -> None:
        self.window.add(logits, labels)
        self.loss += float(log_losses(np.asarray(logits), np.asarray(labels) > 0.5).sum())
        self.rows += len(labels)


def _folder(job_file: JobFile) -> str:
    assert job_file.job.data.follow is not None
    return job_file.place(job_file.job.data.follow)


def _share_of(share: Share, footer: Footer) -> Share:
    """`share` of a training without files, for one file."""
    checked = Checked((footer,), ())
    spec, summary = replace(share.spec, paths=(footer.path,)), checked.summary
    samples = Samples((footer.path,), checked, share.samples.sampling)
    return Share(samples, spec, share.plan, summary.rows, 0, share.shard_rows)


def _wait_for(path: str) -> Footer:
    deadline = time.monotonic() + _APPEARS_SECONDS
    while True:
        try:
            return read_footer(path)
        except DataError:
            if time.monotonic() > deadline:
                raise
        time.sleep(_ROUND_SECONDS)


def _same_file(job_file: JobFile, path: str, file: TrainingFile) -> Footer:
    try:
        footer = read_footer(path)
    except DataError as error:
        raise UserError(
            f"{job_file.path}: data.follow: expected the file that training had begun with when it was interrupted, "
            f"found: {error}"
        ) from error
    if (footer.file_key, sum(stripe.rows for stripe in footer.stripes)) != (file.key, file.rows):
        raise UserError(
            f"{job_file.path}: data.follow: expected {path} as it was when training was interrupted, found another file"
        )
    return footer
