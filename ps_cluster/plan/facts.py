"""From a job, a scan of samples, a person's wishes or a finished run to what the planner computes with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import psutil

from data.errors import DataError
from data.paths import expand
from ps_cluster.errors import UserError
from ps_cluster.job.resolve import JobFile, table_name, tables_of, training_patterns
from ps_cluster.job.schema import DenseFeature, IdListFeature, Job
from ps_cluster.job.table_schema import SparseOptimizer, Table
from ps_cluster.plan.constants import Constants
from ps_cluster.plan.scan import Progress, Scan, scan
from ps_cluster.plan.types import (
    Cluster,
    Dense,
    Facts,
    Groups,
    Horizon,
    Reading,
    TableLoad,
    TableShape,
    Wishes,
)

VALUE_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}
DENSE_SLOTS = {"sgd": 0, "adagrad": 1, "adam": 2, "adamw": 2}
ASSUMED_LENGTH = 10
"""Of a list whose lengths nobody knows."""
_STRIPE_ROWS = 16_384.0


def scan_of(
    job_file: JobFile, samples: Sequence[str], folder: str, share: float, progress: Progress | None
) -> Scan | None:
    """The scan of `samples` (relative to `folder`), or of the job's own training files where none are given; None when
    those are not here."""
    if samples:
        return scan(job_file, expand(samples, folder), share, progress)
    try:
        paths = expand(training_patterns(job_file.job), job_file.folder)
    except DataError:
        return None
    return scan(job_file, paths, share, progress)


def facts_of(
    job_file: JobFile,
    scanned: Scan | None,
    constants: Constants,
    days: float | None = None,
    ids: Mapping[str, int] | None = None,
    report: Mapping[str, Any] | None = None,
    dense: Dense | None = None,
) -> Facts:
    """Everything that the plan needs.

    Args:
      scanned: what the samples say; None: `ids` or the report must say it of every table.
      days: horizon; default: `planning.days`, else all rows of the samples.
      ids: different ids at the horizon by table, before those of `planning.ids`.
      report: of a finished run, whose rows then stand in the place of the forecast.
      dense: of the model; default: the model is built to count it, which needs TensorFlow.

    Raises UserError where something is missing; it names what.
    """
    job = job_file.job
    tables = tables_of(job)
    told = _told_ids(job_file, ids)
    elements = dict(scanned.elements) if scanned else _assumed_lengths(job)
    horizon = _horizon(job_file, scanned, days, report)
    loads = {name: _load(job_file, name, scanned, told.get(name), report, elements) for name in tables}
    return Facts(
        job=job.name,
        tables=tuple(_shape(name, table, job.optimizers.sparse) for name, table in tables.items()),
        loads=loads,
        groups=Groups(_groups(job)),
        dense=dense or _dense(job, elements, report),
        cluster=Cluster(
            ps=job.cluster.ps,
            workers=job.cluster.workers,
            batch_rows=job.training.batch_size,
            epochs=job.training.epochs,
            transport_bytes=VALUE_BYTES[job.embeddings.transport],
            synchronous=job.training.sparse_updates == "synchronous",
        ),
        reading=Reading(
            shuffle_rows=job.data.shuffle_rows,
            stripes=job.data.interleave_stripes if job.data.shuffle_rows else 1,
            stripe_rows=scanned.stripe_rows if scanned else _STRIPE_ROWS,
            row_bytes=scanned.row_bytes if scanned else _assumed_row_bytes(job, elements),
            own_process=job.data.reader == "tfio",
        ),
        wishes=_wishes(job),
        horizon=horizon,
        constants=constants.values,
        constants_source=constants.source,
        checkpoint_every_steps=job.checkpoint.every_steps,
    )


def check_wishes(
    job_file: JobFile, days: float | None, ids: Mapping[str, int], report: Mapping[str, Any] | None
) -> None:
    """Returns when no wish is without its meaning for this job, whatever the samples say; so before they are read.

    Raises:
      UserError: `ids` of another table, or days of a log whose rows have no time.
    """
    job = job_file.job
    _told_ids(job_file, ids)
    wanted = days if days is not None else job.planning.days
    if report is None and wanted is not None and job.planning.rows_per_day is None and job.data.time is None:
        raise _no_days(job_file, wanted)


def slots_of(optimizer: SparseOptimizer) -> int:
    """Vectors that a table's optimiser keeps beside an embedding."""
    if optimizer.name == "rmsprop":
        return 2 if optimizer.momentum > 0 else 1
    return {"sgd": 0, "momentum": 1, "adagrad": 1, "adam": 2, "adamw": 2, "ftrl": 2}[optimizer.name]


def _told_ids(job_file: JobFile, ids: Mapping[str, int] | None) -> dict[str, int]:
    told, tables = {**job_file.job.planning.ids, **(ids or {})}, tables_of(job_file.job)
    unknown = [name for name in told if name not in tables]
    if unknown:
        place = "--ids" if unknown[0] in (ids or {}) else "planning.ids"
        raise UserError(
            f"{job_file.path}: {place}: expected names of tables ({', '.join(tables)}), found {unknown[0]!r}"
        )
    return told


def _no_days(job_file: JobFile, wanted: float) -> UserError:
    return UserError(
        f"{job_file.path}: expected planning.rows_per_day, or samples and data.time, to look {wanted:g} days "
        "ahead, found neither"
    )


def _shape(name: str, table: Table, default: SparseOptimizer) -> TableShape:
    tiers = tuple((tier.dim, tier.min_frequency) for tier in table.tiers) if table.tiers else ((table.dim or 0, 0),)
    rules: dict[str, Any] = {"admission": table.admission.kind}
    for field in ("threshold", "capacity", "error", "probability"):
        if hasattr(table.admission, field):
            rules[field] = getattr(table.admission, field)
    for field in ("max_age_steps", "max_age_hours", "half_life_steps", "min_frequency", "max_bytes"):
        rules[field] = getattr(table.eviction, field) or 0
    return TableShape(
        name, table.engine, tiers, VALUE_BYTES[table.values], slots_of(table.optimizer or default), **rules
    )


def _groups(job: Job) -> dict[str, str]:
    """Tables of equal tiers, engine, values and optimiser travel together."""
    found: dict[str, str] = {}
    used = {table_name(feature) for feature in job.features if not isinstance(feature, DenseFeature)}
    for name, table in tables_of(job).items():
        if name in used:
            tiers = tuple((tier.dim, tier.min_frequency) for tier in table.tiers) if table.tiers else table.dim
            found[name] = repr((tiers, table.engine, table.values, table.optimizer or job.optimizers.sparse))
    return found


def _load(
    job_file: JobFile,
    name: str,
    scanned: Scan | None,
    ids: int | None,
    report: Mapping[str, Any] | None,
    elements: Mapping[str, float],
) -> TableLoad:
    job = job_file.job
    per_row = sum(
        elements.get(feature.name, 1.0)
        for feature in job.features
        if not isinstance(feature, DenseFeature) and table_name(feature) == name
    )
    of_run = next((table for table in (report or {}).get("tables", []) if table["name"] == name), None)
    if report is not None and of_run is None:
        raise UserError(f"{job_file.path}: expected table {name} in the report, found none of that name")
    if scanned is not None:
        found = scanned.tables[name]
        load = TableLoad(
            occurrences_per_row=found.occurrences_per_row,
            ids_in_a_batch=found.ids_in_a_batch,
            growth=found.growth,
            ids=None,
            source=f"{scanned.rows:,} rows of samples read"
            + (f", ids within {found.relative_error:.1%}" if found.relative_error else "")
            + (f"; {found.cycle.name}, {found.cycle.values} values" if found.cycle else ""),
            hot=found.hot,
        )
    else:
        occurrences = job.training.batch_size * per_row
        load = TableLoad(per_row, occurrences, None, None, "no samples: as if all ids of a batch were different")
    if ids is not None:
        load = replace(
            load, growth=None, ids=float(ids), source="told", ids_in_a_batch=min(load.ids_in_a_batch, float(ids))
        )
    if of_run is not None and report is not None:
        load = replace(load, rows=float(of_run["rows"]), source="measured by the run")
        asked = (of_run.get("statistics") or {}).get("looked_up")
        steps, workers = report.get("steps"), report.get("workers")
        if scanned is None and asked and steps and workers:
            load = replace(load, ids_in_a_batch=asked / (steps * workers))
    if load.growth is None and load.ids is None and load.rows is None:
        raise UserError(
            f"{job_file.path}: table {name}: expected samples (--samples, or files of data.train that are here), "
            f"--ids {name}=NUMBER or planning.ids.{name}, found none"
        )
    return load


def _horizon(job_file: JobFile, scanned: Scan | None, days: float | None, report: Mapping[str, Any] | None) -> Horizon:
    planning = job_file.job.planning
    rows_per_day = planning.rows_per_day or (scanned.rows_per_day if scanned else None)
    wanted = days if days is not None else planning.days
    if report is not None:
        rows, epochs = report.get("rows"), report.get("epochs") or 1
        if not rows:
            raise UserError(f"{job_file.path}: expected a report with rows that were trained on, found none")
        return Horizon(rows / epochs, rows_per_day, None, f"rows of a run of job {report.get('job')}")
    if wanted is not None:
        if rows_per_day is None:
            raise _no_days(job_file, wanted)
        return Horizon(rows_per_day * wanted, rows_per_day, wanted, f"{wanted:g} days of {rows_per_day:,.0f} rows")
    if scanned is not None:
        return Horizon(float(scanned.total_rows), rows_per_day, None, "all rows of the samples")
    return Horizon(rows_per_day or 0.0, rows_per_day, 1.0 if rows_per_day else None, "ids as told")


def _dense(job: Job, elements: Mapping[str, float], report: Mapping[str, Any] | None) -> Dense:
    slots = DENSE_SLOTS[job.optimizers.dense.name]
    if report is not None and report.get("dense_parameters") and report.get("flops_per_row"):
        return Dense(report["dense_parameters"], slots, report["flops_per_row"], _input_width(job))
    from ps_cluster.quiet import import_tensorflow

    import_tensorflow(gpu=False)
    from models.build import build_model
    from models.flops import TRAINING, forward_flops
    from ps_cluster.job.resolve import inputs_of

    inputs = inputs_of(job)
    model = build_model(job.model, inputs, job.training.seed)
    parameters = sum(int(variable.shape.num_elements()) for variable in model.trainable_variables)
    of_row = forward_flops(job.model, inputs, training=True)
    lengths = {name: elements.get(name, ASSUMED_LENGTH) for name in of_row.per_element}
    return Dense(parameters, slots, TRAINING * of_row.of(1, lengths), _input_width(job))


def _input_width(job: Job) -> int:
    from ps_cluster.job.resolve import inputs_of

    return sum(spec.dim for spec in inputs_of(job))


def _assumed_lengths(job: Job) -> dict[str, float]:
    return {
        feature.name: float(feature.max_length or ASSUMED_LENGTH)
        for feature in job.features
        if isinstance(feature, IdListFeature)
    }


def _assumed_row_bytes(job: Job, elements: Mapping[str, float]) -> float:
    return 4.0 + sum(
        4.0 if isinstance(feature, DenseFeature) else 8.0 * elements.get(feature.name, 1.0) for feature in job.features
    )


def _wishes(job: Job) -> Wishes:
    planning = job.planning
    return Wishes(
        margin=planning.margin,
        bandwidth=planning.bandwidth * 1e9 / 8,
        ps_memory_bytes=planning.ps_memory,
        machine_memory_bytes=planning.machine_memory or psutil.virtual_memory().total,
        ps_cores=planning.ps_cores,
        worker_cores=planning.worker_cores,
        price_gib_hour=planning.prices.gib_hour,
        price_core_hour=planning.prices.core_hour,
        currency=planning.prices.currency,
    )
