"""The events of a run: one function each makes the dict that becomes a line of `events.jsonl`.

Every event has `event` (its kind, the function's name) and `time` (seconds since 1970), and the function's
arguments as fields; an optional one that is not given is left out. Numbers are plain JSON, except that a
float without a JSON form is one of the strings "NaN", "Infinity", "-Infinity". Counts are of all workers
together.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

Event = dict[str, Any]


def start(
    *,
    rows: int,
    steps_total: int | None,
    workers: int,
    ps: int,
    dense_parameters: int,
    data: str,
    model: str,
    test_rows: int | None = None,
    job: str | None = None,
    seed: int | None = None,
    epochs: int | None = None,
    batch_size: int | None = None,
    tables: int | None = None,
    where: str | None = None,
    pruned: Mapping[str, int] | None = None,
    files_lost: Sequence[str] | None = None,
    sampling: Mapping[str, Any] | None = None,
    block: str | None = None,
    peak_flops: float | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Event:
    """Training begins.

    rows, test_rows: rows of one pass over the training data, and of the test data. steps_total: steps of the
    whole training; None when not known before. dense_parameters: numbers in the dense weights of the model.
    data, model: one line for a person each, such as `train.orc, 1 file, 3.1 MB` and `rankmixer, 8 tokens of
    64`. batch_size: rows per worker and step. tables: number of embedding tables. where: the condition that rows
    have to meet. pruned: of the files, stripes, row groups and rows of the training data, how many there are and how
    many are left by what the files say of them, as `data.read.pruning.Pruned`. files_lost: what is wrong with each file
    that is left out.
    sampling: rates by which the training rows are sampled (`ps_cluster.job.sampling`). block: how the model's blocks
    are computed, for a person. peak_flops: floating-point operations per second that all workers' devices can do.
    settings: of the job file, those that decide about speed, by their path.
    """
    return _event("start", locals(), keep=("steps_total",))


def step(
    *,
    step: int,
    epoch: int,
    loss: float,
    samples_per_second: float,
    rows: int,
    auc: float | None = None,
    learning_rate_factor: float | None = None,
    mfu: float | None = None,
    experts: Mapping[str, Any] | None = None,
    calibration: float | None = None,
    gradient_norm: float | None = None,
    sparse_bytes: int | None = None,
    window_steps: int | None = None,
    step_time: Sequence[Mapping[str, float]] | None = None,
    staleness: float | None = None,
    newest_event_time: float | None = None,
) -> Event:
    """`step` steps are done.

    epoch: pass over the training data, from 1. rows: rows seen since training began, over all epochs. loss,
    auc, samples_per_second: of the window of steps since the step event before. auc: None (kept as null) when
    the window has one class only. learning_rate_factor: of the schedule, in this step. mfu: share of `peak_flops` that
    the model's own operations were, over the window. experts: `ps_cluster.train.expert_shares.ExpertShares`, of a model
    with experts. calibration: mean prediction / mean label of the window. gradient_norm: of the dense weights' mean
    gradient, in this step. sparse_bytes: ids, embeddings and gradients that worker 0 and the PS exchanged in this step.
    step_time: by worker, the seconds that each part of its steps took (`ps_cluster.train.step_time.StepTime`), over
    `window_steps` steps: those since the step event before, but never the first step of all. staleness: with
    asynchronous updates, how many steps a gradient of embeddings was late (`ps_cluster.train.step_time.staleness`), in
    this step. newest_event_time: of the newest
    row trained so far in a folder that is followed, in seconds since 1970.
    """
    return _event("step", locals(), keep=("auc",))


def file(
    *,
    path: str,
    rows: int,
    scored: int,
    auc: float | None,
    log_loss: float | None,
    files: int,
    problem: str | None = None,
    newest_event_time: float | None = None,
) -> Event:
    """A file that appeared in the followed folder has been trained on, or, with a `problem`, was left out.

    rows: that it gave. scored: of those how many were scored before they were trained on, which auc (null with one
    class only) and log_loss are of. files: how many there have been. newest_event_time: of the newest row trained.
    """
    return _event("file", locals(), keep=("auc", "log_loss"))


def phase(*, name: str, done: int | None = None, total: int | None = None, unit: str | None = None) -> Event:
    """Something other than training steps goes on: `start`, `count`, `wait` (for files), `evaluate`, `save`, `export`;
    may be repeated with more `done`.

    done, total: how much of it, in `unit` (default: rows).
    """
    return _event("phase", locals())


def reading(*, side: str, rows_lost: int, nulls_filled: Mapping[str, int], files_lost: int) -> Event:
    """The samples of `side` (`train` or `test`) have been read.

    rows_lost: rows of damaged stripes and rows with wrong values, left out, over all epochs. nulls_filled: by column,
    nulls that were replaced by the declared value, over all epochs. files_lost: files left out.
    """
    return _event("reading", locals())


def evaluation(
    *,
    rows: int,
    auc: float | None,
    log_loss: float | None,
    calibration: float | None,
    positives: int | None = None,
    mean_prediction: float | None = None,
    mean_label: float | None = None,
) -> Event:
    """Test rows are scored: the fields of `ps_cluster.metrics.Evaluation` (`evaluation(**asdict(found))`)."""
    return _event("evaluation", locals(), keep=("auc", "log_loss", "calibration"))


def processes(*, processes: Sequence[Mapping[str, Any]]) -> Event:
    """What each process used while training went on: the fields of `ps_cluster.watch.used.Used`."""
    return _event("processes", {"processes": list(processes)})


def tables(*, tables: Sequence[Mapping[str, Any]]) -> Event:
    """What the embedding tables hold: a list of {"name", "rows", "bytes"}, bytes as stored on the PS, over all PS;
    "tiers", a list of {"dim", "rows"}, where rows have several widths; "statistics", the fields of
    `json_report.TableStatistics`, where the engine counts."""
    kept = ("name", "rows", "bytes", "tiers", "statistics")
    rows = [{name: table[name] for name in kept if table.get(name) not in (None, [])} for table in tables]
    return _event("tables", {"tables": rows})


def evicted(*, step: int, table: str, ids: Sequence[int]) -> Event:
    """The rows of these ids have gone from a table that logs it, oldest first.

    ids: at most the newest 4,096 of a PS since the event before.
    """
    return _event("evicted", {"step": step, "table": table, "ids": list(ids)})


def saved(*, path: str, what: str = "checkpoint") -> Event:
    """Something lies on disk, whole, at `path`: `checkpoint`, `report`, `TensorBoard`, … as a person would
    call it."""
    return _event("saved", locals())


def checkpoint(*, step: int, path: str, size_bytes: int, delta: bool, pause_seconds: float, seconds: float) -> Event:
    """A checkpoint of the state after `step` steps is whole, at `path`.

    delta: it holds changes only. pause_seconds: for which training stood still. seconds: from there until it was whole.
    """
    return _event("checkpoint", locals())


def checkpoint_failed(*, step: int, problem: str) -> Event:
    """The state after `step` steps was not saved; training goes on."""
    return _event("checkpoint_failed", locals())


def warm_start(*, path: str, step: int, tables: Mapping[str, int]) -> Event:
    """Tables start from the checkpoint of `step` at `path`: rows by table."""
    return _event("warm_start", locals())


def resume(*, step: int, checkpoint: str | None, rows_trained: int, rows_retrained: int, restarts: int) -> Event:
    """Training goes on after `step` steps.

    checkpoint: from which; None: there was none, and training begins anew. rows_trained: so far, those of an epoch
    once. rows_retrained: that will have been trained again, over all `restarts`.
    """
    return _event("resume", locals())


def damaged(*, lines: Sequence[str]) -> Event:
    """Checkpoints newer than the one that training goes on from are not whole: a line for each of their files that is
    damaged or missing, and one that says which checkpoint is the newest whole one."""
    return _event("damaged", locals())


def restart(
    *, who: str, status: int, step: int, checkpoint_step: int, restarted: Sequence[str], restart: int, told: str
) -> Event:
    """A process has died and the run goes on from a checkpoint.

    who: the process that the failure began with. status: how it ended; negative for a signal. step: the last that was
    told before. checkpoint_step: of the newest checkpoint; 0: there is none. restarted: processes that start again.
    restart: how many there have been, with this one. told: all of it in a line for a person.
    """
    return _event("restart", locals())


def recovered(*, ps: Sequence[int], step: int, checkpoint_step: int, seconds: float) -> Event:
    """The workers go on after step `step` with PS that were lost meanwhile, each with its part of the checkpoint of
    `checkpoint_step`; 0: there was none, and their tables are empty. Without `ps` only the connection was lost.

    seconds: from when the loss was noticed.
    """
    return _event("recovered", locals())


def exported(
    *,
    path: str,
    size_bytes: int | None = None,
    step: int | None = None,
    delta: bool | None = None,
    seconds: float | None = None,
) -> Event:
    """The SavedModel lies at `path`. While training goes on: of the checkpoint of `step` or a newer one, after so many
    seconds; delta: what has changed since another version."""
    return _event("exported", locals())


def export_failed(*, step: int, problem: str) -> Event:
    """The checkpoint of `step` was not exported; training goes on."""
    return _event("export_failed", locals())


def done(
    *,
    seconds: float,
    samples_per_second: float | None = None,
    steps: int | None = None,
    mfu: float | None = None,
    flops_per_row: float | None = None,
    rows_retrained: int | None = None,
) -> Event:
    """The run has ended well. seconds: whole run; samples_per_second, mfu: means over training without start-up and
    evaluation; flops_per_row: the model's operations for a row of training, lists at their mean length;
    rows_retrained: that were trained again, after failures."""
    return _event("done", locals())


def next(*, commands: Sequence[tuple[str, str]]) -> Event:
    """What the user may want to type next: (command line, why) each."""
    return _event("next", {"commands": [list(command) for command in commands]})


def plain(value: Any) -> Any:
    """`value` as JSON knows it: NumPy numbers become Python's, floats without a JSON form become strings."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def _event(kind: str, fields: Mapping[str, Any], keep: Sequence[str] = ()) -> Event:
    given = {name: value for name, value in fields.items() if value is not None or name in keep}
    return {"event": kind, "time": time.time(), **plain(given)}
