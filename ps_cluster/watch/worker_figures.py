"""What a worker tells of training: of its own steps, and on worker 0 of the whole job."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from ps_cluster.embedding.table_stats import TableStats
from ps_cluster.report.status import Status
from ps_cluster.train.step_time import PARTS, StepClock
from ps_cluster.watch.health import Health, Wait, of_worker

# Of the step event: field, family, help.
_STEP = (
    ("samples_per_second", "samples_per_second", "Rows of all workers per second, in the last window of steps."),
    ("loss", "loss", "Mean training loss of the last window of steps."),
    ("auc", "window_auc", "Training AUC of the last window of steps."),
    ("calibration", "window_calibration_ratio", "Mean prediction / mean label of the last window of steps."),
    ("gradient_norm", "gradient_norm", "Norm of the dense weights' mean gradient, after the all-reduce."),
    ("learning_rate_factor", "learning_rate_factor", "The schedule's factor on all learning rates."),
    ("mfu", "mfu_ratio", "Model FLOPs utilisation of the last window of steps."),
    ("epoch", "epoch", "Pass over the training data, from 1."),
    ("staleness", "gradient_staleness_steps", "Asynchronous updates: steps that a gradient of embeddings is late."),
    ("sparse_bytes", "step_exchanged_bytes", "Ids, embeddings, gradients between worker 0 and the PS in a step."),
)
_TEST = (
    ("auc", "test_auc", "AUC on the test rows."),
    ("log_loss", "test_log_loss", "Mean log-loss on the test rows."),
    ("calibration", "test_calibration_ratio", "Mean prediction / mean label on the test rows."),
)
_TABLE_GAUGES = (
    ("rows", "rows", "Rows of a table on a PS."),
    ("bytes", "bytes", "Memory of a table on a PS."),
    ("counted_ids", "counted_ids", "Ids of a table on a PS that are counted and have no row."),
)
_TABLE_COUNTERS = (
    ("looked_up", "looked_up", "Ids looked up, once per worker and step."),
    ("hits", "hits", "Ids looked up that had a row."),
    ("inserted", "inserted", "Rows made."),
    ("admitted", "admitted", "Ids that admission gave a row."),
    ("refused", "refused", "Updates of ids that admission had not given a row."),
    ("promoted", "promoted", "Rows that moved up to a wider tier."),
)
_EVICTED = (("age", "evicted_age"), ("frequency", "evicted_frequency"), ("max_bytes", "evicted_bytes"))


class WorkerFigures(Collector):
    """Families of a worker; takes in events and figures from the thread that trains, tells them to those that serve.

    whole_job: worker 0 also tells what is of the whole job, so that sums over processes count nothing twice.
    """

    def __init__(self, index: int, whole_job: bool):
        self.clock = StepClock()
        self._labels = {"worker": str(index)}
        self._whole_job = whole_job
        self._lock = threading.Lock()
        self._status = Status()
        self._tables: Sequence[TableStats] = ()
        self._nulls: Mapping[str, int] = {}
        self._rows_lost = 0
        self._checkpoints = {"checkpoint": 0, "checkpoint_failed": 0}
        self._exports = {"exported": 0, "export_failed": 0}

    def handle(self, event: Mapping[str, Any]) -> None:
        """An event of the run (`ps_cluster.report.events`)."""
        with self._lock:
            self._status.update(event)
            if event["event"] in self._checkpoints:
                self._checkpoints[event["event"]] += 1
            if event["event"] in self._exports:
                self._exports[event["event"]] += 1

    def tables(self, tables: Sequence[TableStats]) -> None:
        """What the tables hold now."""
        with self._lock:
            self._tables = tuple(tables)

    def read(self, rows_lost: int, nulls_filled: Mapping[str, int]) -> None:
        """What was wrong with the rows that this worker has read so far."""
        with self._lock:
            self._rows_lost, self._nulls = rows_lost, dict(nulls_filled)

    def health(self, wait: Wait | None = None) -> Health:
        """What `/healthz` says: what goes on, and when a step ended last. wait: what the worker may wait in."""
        with self._lock:
            phase = self._status.phase
        steps, ended = self.clock.step, self.clock.last_step_time
        return of_worker({"phase": phase, "steps": steps, "last_step_time": ended}, wait)

    def collect(self) -> Iterator[Metric]:
        with self._lock:
            status, tables = self._status, self._tables
            last = dict(status.last)
            families = [*self._own(status.phase)]
            if self._whole_job:
                families += [*_job(last, status), *_tables(tables), *self._of_checkpoints(last.get("checkpoint"))]
        yield from families

    def _own(self, phase: str) -> Iterator[Metric]:
        names, values = [*self._labels], [*self._labels.values()]
        clock = self.clock
        family = GaugeMetricFamily("ps_cluster_phase_info", "What goes on.", labels=[*names, "phase"])
        family.add_metric([*values, phase], 1)
        yield family
        family = GaugeMetricFamily("ps_cluster_step", "Training steps done since the job's first.", labels=names)
        family.add_metric(values, clock.step)
        yield family
        for name, text, value in (
            ("steps", "Steps that ps_cluster_step_seconds counts: all but a process's first one.", clock.steps),
            ("rows", "Rows that this worker has trained on.", clock.rows),
            ("rows_lost", "Rows that this worker has left out because they were damaged.", self._rows_lost),
        ):
            counter = CounterMetricFamily(f"ps_cluster_{name}", text, labels=names)
            counter.add_metric(values, value)
            yield counter
        if clock.last_step_time is not None:
            family = GaugeMetricFamily(
                "ps_cluster_last_step_timestamp_seconds", "When a step ended last.", labels=names
            )
            family.add_metric(values, clock.last_step_time)
            yield family
        counter = CounterMetricFamily(
            "ps_cluster_step_seconds",
            "Time of this worker's steps by part; the parts add up to wall-clock time.",
            labels=[*names, "part"],
        )
        for part, seconds in zip(PARTS, clock.total.values()):
            counter.add_metric([*values, part], seconds)
        yield counter
        counter = CounterMetricFamily(
            "ps_cluster_nulls_filled",
            "Nulls that this worker has replaced by the declared value.",
            labels=[*names, "column"],
        )
        for column, nulls in self._nulls.items():
            counter.add_metric([*values, column], nulls)
        yield counter

    def _of_checkpoints(self, last: Mapping[str, Any] | None) -> Iterator[Metric]:
        yield CounterMetricFamily("ps_cluster_checkpoints", "Checkpoints written.", self._checkpoints["checkpoint"])
        yield CounterMetricFamily(
            "ps_cluster_checkpoint_failures", "Checkpoints not written.", self._checkpoints["checkpoint_failed"]
        )
        for name, text, kind in (
            ("exports", "Exports made.", "exported"),
            ("export_failures", "Exports that failed.", "export_failed"),
        ):
            yield CounterMetricFamily(f"ps_cluster_{name}", text, self._exports[kind])
        if last is None:
            return
        for name, text, value in (
            ("timestamp_seconds", "When the newest checkpoint was whole.", last["time"]),
            ("age_seconds", "Time since the newest checkpoint was whole.", max(time.time() - last["time"], 0.0)),
            ("step", "Step of the newest checkpoint.", last["step"]),
            ("size_bytes", "Size of the newest checkpoint.", last["size_bytes"]),
            ("pause_seconds", "For which training stood still for it.", float(last["pause_seconds"])),
            ("write_seconds", "From there until it was whole.", float(last["seconds"])),
        ):
            yield GaugeMetricFamily(f"ps_cluster_checkpoint_{name}", text, value)


def _job(last: Mapping[str, Mapping[str, Any]], status: Status) -> Iterator[Metric]:
    for event, names in (("step", _STEP), ("evaluation", _TEST)):
        for field, name, text in names:
            value = last.get(event, {}).get(field)
            if value is not None:
                yield GaugeMetricFamily(f"ps_cluster_{name}", text, float(value))
    rows = last.get("step", {}).get("rows", 0)
    yield CounterMetricFamily("ps_cluster_job_rows", "Rows that all workers have trained on, over all epochs.", rows)
    newest = status.newest_event_time
    if newest is not None:
        yield GaugeMetricFamily(
            "ps_cluster_newest_event_timestamp_seconds", "Time of the newest row that was trained on.", newest
        )
        text = "Time since the newest event that was trained on, by the rows' own times."
        yield GaugeMetricFamily("ps_cluster_freshness_seconds", text, time.time() - newest)
    if "file" in last:
        text = "Files of the followed folder that were trained on or left out."
        yield CounterMetricFamily("ps_cluster_files", text, last["file"]["files"])
        for field, name in (("auc", "next_file_auc"), ("log_loss", "next_file_log_loss")):
            if last["file"].get(field) is not None:
                text = "Of the newest file's rows, by their scores before they were trained on."
                yield GaugeMetricFamily(f"ps_cluster_{name}", text, float(last["file"][field]))
    total = last.get("start", {}).get("steps_total")
    if total is not None:
        yield GaugeMetricFamily("ps_cluster_steps_planned", "Steps of the whole training.", total)


def _tables(tables: Sequence[TableStats]) -> Iterator[Metric]:
    for field, name, text in _TABLE_GAUGES:
        gauge = GaugeMetricFamily(f"ps_cluster_table_{name}", text, labels=["table", "ps"])
        _add(gauge, tables, field)
        yield gauge
    for field, name, text in _TABLE_COUNTERS:
        counter = CounterMetricFamily(f"ps_cluster_table_{name}", text, labels=["table", "ps"])
        _add(counter, [one for one in tables if one.counts], field)
        yield counter
    evicted = CounterMetricFamily("ps_cluster_table_evicted", "Rows evicted.", labels=["table", "ps", "reason"])
    ratio = GaugeMetricFamily(
        "ps_cluster_table_hit_ratio", "Look-ups that found a row, since the table was made.", labels=["table"]
    )
    for table in tables:
        for ps, counts in enumerate(table.per_ps if table.counts else ()):
            for reason, field in _EVICTED:
                evicted.add_metric([table.name, str(ps), reason], getattr(counts, field))
        if table.total.hit_share is not None:
            ratio.add_metric([table.name], table.total.hit_share)
    yield evicted
    yield ratio


def _add(family: GaugeMetricFamily | CounterMetricFamily, tables: Sequence[TableStats], field: str) -> None:
    for table in tables:
        for ps, counts in enumerate(table.per_ps):
            family.add_metric([table.name, str(ps)], getattr(counts, field))
