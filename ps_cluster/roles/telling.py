"""What a worker tells of a run: events to a file, lines to its log, scalars to TensorBoard, a report at the end."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import TextIO

from ps_cluster.checkpoint.saver import NotSaved, Saved
from ps_cluster.embedding.store import EmbeddingStore
from ps_cluster.embedding.table_stats import TableStats
from ps_cluster.export.version_folder import folder_bytes
from ps_cluster.job.resolve import JobFile, tables_of
from ps_cluster.job.table_schema import Tier
from ps_cluster.launch.events_tail import EventsTail
from ps_cluster.metrics.exact_auc import Evaluation
from ps_cluster.report import events
from ps_cluster.report.event_log import LIMIT_BYTES, EventLog
from ps_cluster.report.json_report import report_of, write_report
from ps_cluster.report.progress import Renderer
from ps_cluster.report.tensorboard import ScalarWriter
from ps_cluster.train.batches import ReadCounts
from ps_cluster.train.following import FileDone
from ps_cluster.train.periodic_exports import Exported
from ps_cluster.train.progress import Progress, Trained
from ps_cluster.train.recovery import Recovered
from ps_cluster.train.session import Session
from ps_cluster.train.shares import Share
from ps_cluster.train.state import TrainingState
from ps_cluster.watch.figures import settings_of
from ps_cluster.watch.used import Used
from ps_cluster.watch.watcher import Watcher
from ps_cluster.watch.worker_figures import WorkerFigures

_ASKED_SECONDS = 10.0
_KEPT = 50_000  # of events, for the report
_OFTEN = frozenset({"step", "file", "phase", "checkpoint", "exported", "processes"})


class Teller:
    """Tells of a run.

    stream: where people read it; None: nothing at all is told, as on every worker but the first.
    events_path: file to append events to, which a launcher shows; None: there is none.
    figures: what this worker serves, which is told everything too, on every worker; None: it serves nothing.
    """

    def __init__(
        self,
        job_file: JobFile,
        stream: TextIO | None,
        events_path: str | None = None,
        figures: WorkerFigures | None = None,
    ):
        self._job_file = job_file
        self._events_path = events_path
        self._told: list[events.Event] = []
        self._log = EventLog(events_path, LIMIT_BYTES) if events_path else None
        self._lines = Renderer(stream) if stream else None
        self._scalars: ScalarWriter | None = None
        self._store: EmbeddingStore | None = None
        self._figures = figures
        self._asked = time.monotonic()
        self._watcher = Watcher(job_file.output)
        self._steps: int | None = None
        self._warm = False

    def phase(self, name: str, done: int | None = None, total: int | None = None) -> None:
        self._tell(events.phase(name=name, done=done, total=total))

    def counting(self, done: int, total: int) -> None:
        """Rows are counted that `where` or sampling keeps."""
        self.phase("count", done, total)

    def start(
        self, session: Session, train: Share, test: Share | None, steps: int | None, num_ps: int, peak_flops: float
    ) -> None:
        job = session.job
        self._store = session.store
        settings = ", ".join(
            f"{name} {value}"
            for name, value in job.model.model_dump(exclude={"name", "groups", "experts"}, exclude_none=True).items()
        )
        if experts := getattr(job.model, "experts", None):
            settings += ", experts " + " ".join(
                f"{name} {value}" for name, value in experts.model_dump(exclude_none=True).items()
            )
        summary, sampling = train.plan.files, train.samples.sampling
        source = f"{job.data.follow}: files as they appear"
        files = "1 file" if summary.files == 1 else f"{summary.files} files"
        if job.data.follow is None:
            source = f"{', '.join(job.data.train)}: {files}, {summary.file_bytes / 1e6:.1f} MB of ORC"
        if self._lines is not None:
            # Only now: before the worker has joined the cluster it must not use TensorFlow.
            self._scalars = ScalarWriter(os.path.join(self._job_file.output, "tensorboard"))
        self._tell(
            events.start(
                rows=train.rows,
                test_rows=test.rows if test else None,
                steps_total=steps,
                workers=session.num_workers,
                ps=num_ps,
                dense_parameters=int(session.model.count_params()),
                data=source + (f", {sampling.words()}" if sampling else ""),
                model=f"{job.model.name}: {settings}",
                block=f"{job.model.name}: {session.block.words}" if session.block.words else None,
                peak_flops=peak_flops,
                job=job.name,
                seed=job.training.seed,
                epochs=job.training.epochs,
                batch_size=job.training.batch_size,
                tables=len(tables_of(job)),
                sampling=sampling.record() if sampling else None,
                where=job.data.where,
                pruned=asdict(train.plan.pruned) if train.plan.pruned else None,
                files_lost=_files_lost(train, test),
                settings=settings_of(job),
            )
        )
        if self._lines is not None and job.metrics.serve:
            self._watcher.begin()
            self._steps = steps

    def trained(self) -> None:
        """Training has ended: what the processes used for it."""
        self._used(self._watcher.last())

    def _used(self, used: list[Used] | None) -> None:
        if used:
            self._tell(events.processes(processes=[asdict(one) for one in used]))

    def reading(self, side: str, share: Share, counts: ReadCounts) -> None:
        self._tell(
            events.reading(
                side=side,
                rows_lost=counts.rows_lost,
                nulls_filled=counts.nulls_filled,
                files_lost=len(share.plan.lost),
            )
        )

    def step(self, progress: Progress) -> None:
        # The first steps, in which TensorFlow makes its graphs, say little of those that follow, if many do.
        if not self._warm and (self._steps is None or 2 * progress.step <= self._steps):
            self._watcher.begin_again()
        self._warm = True
        if self._figures is not None:
            self._figures.read(progress.read.rows_lost, progress.read.nulls_filled)
            self._ask()
        self._tell(
            events.step(
                step=progress.step,
                epoch=progress.epoch + 1,
                loss=progress.loss,
                samples_per_second=progress.samples_per_second,
                rows=progress.rows,
                auc=progress.auc,
                learning_rate_factor=progress.rate_factor,
                mfu=progress.mfu,
                experts=asdict(progress.experts) if progress.experts else None,
                calibration=progress.calibration,
                gradient_norm=progress.gradient_norm,
                sparse_bytes=progress.sparse_bytes,
                window_steps=progress.window_steps,
                step_time=[asdict(one) for one in progress.step_time],
                staleness=progress.staleness,
                newest_event_time=progress.newest_event,
            )
        )

        if self._lines is not None and self._store is not None:
            for table, ids in self._store.take_evicted().items():
                if ids:
                    self._show(events.evicted(step=progress.step, table=table, ids=ids))

    def file(self, done: FileDone) -> None:
        """A file of the folder that is followed is done."""
        told = asdict(done)
        newest, problem = told.pop("newest_event"), told.pop("problem") or None
        self._tell(events.file(**told, problem=problem, newest_event_time=newest))

    def periodic_export(self, done: Exported) -> None:
        """How an export has ended while training goes on."""
        if done.problem:
            self._tell(events.export_failed(step=done.step, problem=done.problem))
            return
        size = folder_bytes(done.path)
        self._tell(
            events.exported(path=done.path, size_bytes=size, step=done.step, delta=done.delta, seconds=done.seconds)
        )

    def _ask(self) -> None:
        """Asks the PS what their tables hold and all processes what they used; worker 0 for all, and not often."""
        if self._lines is None or self._store is None or self._figures is None:
            return
        self._used(self._watcher.take())
        if time.monotonic() - self._asked >= _ASKED_SECONDS:
            self._figures.tables(self._store.stats())
            self._watcher.look()
            self._asked = time.monotonic()

    def tables(self, stats: list[TableStats]) -> None:
        if self._figures is not None and self._lines is not None:
            self._figures.tables(stats)
        of_job = tables_of(self._job_file.job)
        self._tell(events.tables(tables=[_table(one, of_job[one.name].tiers or []) for one in stats]))

    def checkpoint(self, outcome: Saved | NotSaved) -> None:
        """How a save has ended."""
        if isinstance(outcome, NotSaved):
            self._tell(events.checkpoint_failed(step=outcome.step, problem=outcome.problem))
            return
        self._tell(
            events.checkpoint(
                step=outcome.step,
                path=outcome.folder,
                size_bytes=outcome.bytes,
                delta=outcome.is_delta,
                pause_seconds=outcome.pause_seconds,
                seconds=outcome.seconds,
            )
        )

    def warm_start(self, path: str, step: int, tables: dict[str, int]) -> None:
        self._tell(events.warm_start(path=path, step=step, tables=tables))

    def damaged(self, lines: Sequence[str]) -> None:
        """Newer checkpoints than the one that training goes on from are not whole."""
        self._tell(events.damaged(lines=lines))

    def resume(self, checkpoint: str | None, state: TrainingState) -> None:
        """Training goes on. The report knows the steps before, as events tell them."""
        if self._lines is None:
            return
        if self._events_path is not None:
            self._told[:0] = [
                event
                for event in EventsTail(Path(self._events_path)).read()
                if event.get("event") == "step" and event.get("step", 0) <= state.step
            ]
        self._tell(
            events.resume(
                step=state.step,
                checkpoint=checkpoint,
                rows_trained=state.rows,
                rows_retrained=state.rows_retrained,
                restarts=state.restarts,
            )
        )

    def recovered(self, recovered: Recovered) -> None:
        self._tell(
            events.recovered(
                ps=list(recovered.ps),
                step=recovered.told.step,
                checkpoint_step=recovered.checkpoint,
                seconds=recovered.seconds,
            )
        )

    def saved(self, path: str, what: str) -> None:
        self._tell(events.saved(path=path, what=what))

    def evaluation(self, evaluation: Evaluation) -> None:
        self._tell(events.evaluation(**asdict(evaluation)))

    def exported(self, path: str) -> None:
        self._tell(events.exported(path=path, size_bytes=folder_bytes(path)))

    def done(self, seconds: float, trained: Trained) -> None:
        job, output = shlex.quote(self._job_file.path), self._job_file.output
        self._tell(events.saved(path=os.path.join(output, "tensorboard"), what="TensorBoard"))
        exported = next((event["path"] for event in reversed(self._told) if event["event"] == "exported"), "")
        again = (f"{_program('ps-cluster')} evaluate {job}", "score the test rows again with the saved checkpoint")
        self._tell(
            events.next(
                commands=[
                    *([again] if self._job_file.job.data.test else []),
                    (
                        f"{_program('saved_model_cli')} show --dir {shlex.quote(exported)} "
                        "--tag_set serve --signature_def serving_default",
                        "the inputs and outputs that the SavedModel serves",
                    ),
                    (
                        f"{_program('tensorboard')} --logdir {shlex.quote(os.path.join(output, 'tensorboard'))}",
                        "the run's curves in a browser",
                    ),
                ]
            )
        )
        self._tell(
            events.done(
                seconds=seconds,
                samples_per_second=trained.samples_per_second,
                steps=trained.state.step,
                mfu=trained.mfu,
                flops_per_row=trained.flops_per_row,
                rows_retrained=trained.state.rows_retrained or None,
            )
        )

    def write_report(self, path: str) -> None:
        write_report(path, report_of(self._told))

    def close(self) -> None:
        for part in (self._lines, self._scalars, self._log):
            if part is not None:
                part.close()

    def _tell(self, event: events.Event) -> None:
        if self._figures is not None:
            self._figures.handle(event)
        if self._lines is None:
            return
        self._told.append(event)
        if len(self._told) > 2 * _KEPT:  # a training without end
            self._told = [one for one in self._told[:-_KEPT] if one["event"] not in _OFTEN] + self._told[-_KEPT:]
        self._show(event)

    def _show(self, event: events.Event) -> None:
        """Without keeping it for the report."""
        for part in (self._lines, self._scalars):
            if part is not None:
                part.handle(event)
        if self._log is not None:
            self._log.append(event)

    def __enter__(self) -> Teller:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _table(stats: TableStats, tiers: Sequence[Tier]) -> dict:
    total = stats.total
    told: dict = {
        "name": stats.name,
        "rows": total.rows,
        "bytes": total.payload_bytes,
        "tiers": [{"dim": tier.dim, "rows": rows} for tier, rows in zip(tiers, total.rows_by_tier)],
    }
    if stats.counts:
        told["statistics"] = {
            "memory_bytes": total.bytes,
            "counted_ids": total.counted_ids,
            "looked_up": total.looked_up,
            "hit_share": total.hit_share,
            "inserted": total.inserted,
            "admitted": total.admitted,
            "refused": total.refused,
            "promoted": total.promoted,
            "evicted": {
                "age": total.evicted_age,
                "frequency": total.evicted_frequency,
                "max_bytes": total.evicted_bytes,
            },
            "longest_pause_seconds": {
                "growth": total.pause_growth_seconds,
                "eviction": total.pause_evict_seconds,
                "checkpoint": total.pause_snapshot_seconds,
            },
            "ps": [{"rows": one.rows, "memory_bytes": one.bytes} for one in stats.per_ps],
            "hot_ids": [list(pair) for pair in stats.hot_ids],
        }
    return told


def _files_lost(*shares: Share | None) -> list[str] | None:
    """What is wrong with each file that is left out."""
    lost = [problem for share in shares if share is not None for _, problem in share.plan.lost]
    return lost or None


def _program(name: str) -> str:
    """How a shell in this folder calls a program of this environment."""
    if shutil.which(name):
        return name
    path = os.path.join(os.path.dirname(sys.executable), name)
    here = os.path.relpath(path)
    return shlex.quote(path if here.startswith("..") else here)
