"""The report of a finished run as one JSON file, for machines and for comparing runs."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from ps_cluster.errors import RunError
from ps_cluster.report.status import Status
from ps_cluster.report.tiers import parameters_saved
from ps_cluster.report.versions import git_revision, package_versions


class PsShare(BaseModel):
    """What one PS holds of a table."""

    rows: int = Field(description="Rows.")
    memory_bytes: int = Field(description="All memory of the table: rows, index, counts.")


class TableStatistics(BaseModel):
    """What one embedding table has counted since it was made, over all PS."""

    memory_bytes: int = Field(description="All memory of the table: rows, index, counts.")
    counted_ids: int = Field(description="Ids that are counted but have no row (exact admission).")
    looked_up: int = Field(description="Ids looked up, once per worker and step.")
    hit_share: float | None = Field(description="Share of them that had a row; null before the first.")
    inserted: int = Field(description="Rows made.")
    admitted: int = Field(description="Ids that admission gave a row.")
    refused: int = Field(description="Updates of ids that admission had not given a row.")
    promoted: int = Field(description="Rows that moved up to a wider tier.")
    evicted: dict[str, int] = Field(description="Rows evicted: by `age`, by `frequency`, to stay within `max_bytes`.")
    longest_pause_seconds: dict[str, float] = Field(
        description="Longest that a part of the table was held by its `growth`, by `eviction`, by a `checkpoint`."
    )
    ps: list[PsShare] = Field(description="The table on each PS.")
    hot_ids: list[tuple[int, int]] = Field(description="The most frequent ids with their occurrences.")


class TierReport(BaseModel):
    """Rows of one width."""

    dim: int = Field(description="Width of the embeddings.")
    rows: int = Field(description="Rows of this width, over all PS.")


class TableReport(BaseModel):
    """What one embedding table holds at the end."""

    name: str = Field(description="Name of the table.")
    rows: int = Field(ge=0, description="Rows, over all PS.")
    bytes: int = Field(ge=0, description="Bytes of these rows as stored on the PS: embedding and optimiser state.")
    tiers: list[TierReport] = Field([], description="Rows by width, where the table has several.")
    parameters_saved: int = Field(
        0, description="Numbers in embeddings that the table has less than if all rows had its largest width."
    )
    statistics: TableStatistics | None = Field(None, description="What the table counted; null: it does not count.")


class ExpertsReport(BaseModel):
    """How much the experts were used in the last window of steps; shares are of rows with a gate above 0."""

    active: float = Field(description="Share of all experts, over layers and tokens.")
    target: float = Field(description="`model.experts.target_active`.")
    penalty: float = Field(description="λ, the weight of the mean gate in the loss, after the last step.")
    layers: list[tuple[float, float, float]] = Field(
        description="By layer: share of the least used expert of any token, mean, share of the most used one."
    )
    idle: int = Field(description="Experts (of a token in a layer) that were active in no row.")
    experts: int = Field(description="Experts of all tokens and layers.")


class ReadingReport(BaseModel):
    """What was wrong with the samples that were read."""

    rows_lost: int = Field(description="Rows left out: of damaged stripes, or with wrong values; over all epochs.")
    nulls_filled: dict[str, int] = Field(
        description="By column: nulls replaced by the declared value, over all epochs."
    )
    files_lost: int = Field(description="Files left out.")


class StepTimeReport(BaseModel):
    """Seconds of one worker's steps by what they went into; the parts add up to wall-clock time."""

    input: float = Field(description="Waiting for a batch.")
    pull: float = Field(description="Waiting for embeddings from the PS.")
    compute: float = Field(description="Forward and backward pass, and the update of the dense weights.")
    all_reduce: float = Field(description="Waiting for the sum of the dense gradients, and so for slower workers.")
    push: float = Field(description="Waiting for the PS to apply the gradients of embeddings.")
    checkpoint: float = Field(description="Training stood still for a checkpoint.")
    other: float = Field(description="The rest, between the steps.")


class ProcessReport(BaseModel):
    """What a process used while training went on."""

    role: str = Field(description="`ps` or `worker`.")
    index: int = Field(description="Which of them.")
    seconds: float = Field(description="Time that the other figures are of.")
    cpu_seconds: float = Field(description="Processor time; a worker's without that of its reader process.")
    stalled_seconds: float = Field(description="Time for which the process wanted to run and could not.")
    cpu_limit_cores: float = Field(description="Cores that it may use.")
    memory_bytes: int = Field(description="Resident memory at the end of training, a worker's with its reader process.")
    peak_memory_bytes: int = Field(0, description="The most of it; 0: not told.")
    steps: int = Field(0, description="Training steps that `cpu_seconds` is of; 0: not told.")


class Report(BaseModel):
    """A run in figures. null: the run has no such figure. Floats outside JSON are "NaN", "Infinity",
    "-Infinity"."""

    model_config = ConfigDict(ser_json_inf_nan="strings", extra="forbid")

    format_version: Literal[1] = Field(1, description="Changes when a field changes its meaning or goes.")
    job: str | None = Field(None, description="Name of the job.")
    seed: int | None = Field(None, description="`training.seed` of the job.")
    data: str | None = Field(None, description="The training data in words.")
    model: str | None = Field(None, description="The model in words.")
    block: str | None = Field(None, description="How RankMixer's blocks were computed; null: another model.")
    ps: int | None = Field(None, ge=0, description="Number of PS processes; 0: tables inside the worker.")
    workers: int | None = Field(None, gt=0, description="Number of workers.")
    batch_size: int | None = Field(None, gt=0, description="Rows per worker and step.")
    epochs: int | None = Field(None, gt=0, description="Passes over the training data that the job asks for.")
    dense_parameters: int | None = Field(None, description="Numbers in the dense weights.")
    where: str | None = Field(None, description="The condition that rows have to meet; null: all are read.")
    pruned: dict[str, int] | None = Field(
        None,
        description="Files, stripes, row groups and rows of the training data, and how many of each (`…_left`) may "
        "meet `where` by what the files say of them; null without `where`.",
    )
    reading: dict[str, ReadingReport] = Field(
        {}, description="By side, `train` and `test`: what was wrong with the samples."
    )
    sampling: dict[str, Any] | None = Field(
        None, description="Rates by which the training rows were sampled; null: they were not."
    )
    rows: int | None = Field(None, ge=0, description="Rows trained on, counted once per epoch.")
    rows_retrained: int = Field(
        0, description="Rows that were trained again, because training went back to a checkpoint before them."
    )
    restarts: int = Field(0, description="How often training went on from a checkpoint, or began anew.")
    steps: int | None = Field(None, ge=0, description="Training steps done.")
    seconds: float | None = Field(None, description="Wall-clock time of the whole run.")
    samples_per_second: float | None = Field(
        None, description="Rows of all workers per second of training, without start-up and evaluation."
    )
    mfu: float | None = Field(
        None, description="Model FLOPs utilisation: `samples_per_second` · `flops_per_row` / `peak_flops`."
    )
    flops_per_row: float | None = Field(
        None, description="Operations for a row of training, lists at their mean length (`models/flops.py`)."
    )
    peak_flops: float | None = Field(
        None, description="Operations per second of a large matrix product on all workers' devices, before training."
    )
    experts: ExpertsReport | None = Field(None, description="Use of the experts; null: the model has none.")
    timed_steps: int = Field(0, ge=0, description="Steps that `step_time` is of: all but the first.")
    step_time: list[StepTimeReport] = Field([], description="By worker: where the time of its steps went.")
    exchanged_bytes: int | None = Field(
        None, description="Ids, embeddings and gradients between worker 0 and the PS in the last step."
    )
    processes: list[ProcessReport] = Field([], description="What each process used; empty where none served figures.")
    settings: dict[str, Any] = Field({}, description="Settings of the job file that decide about speed, by their path.")
    loss: float | None = Field(None, description="Mean training loss of the last window of steps.")
    train_auc: float | None = Field(None, description="Training AUC (from a histogram) of that window.")
    auc: float | None = Field(None, description="Exact AUC on the test rows of all workers.")
    log_loss: float | None = Field(None, description="Mean log-loss on the test rows, natural logarithm.")
    calibration: float | None = Field(None, description="Mean prediction / mean label on the test rows.")
    test_rows: int | None = Field(None, description="Test rows that were scored.")
    tables: list[TableReport] = Field([], description="The embedding tables.")
    table_bytes: int = Field(0, description="Sum of the tables' bytes.")
    saved_model: str | None = Field(None, description="Where the SavedModel lies.")
    saved_model_bytes: int | None = Field(None, description="Size of the SavedModel on disk.")
    saved: dict[str, str] = Field({}, description="What else was saved, and where.")
    versions: dict[str, str | None] = Field(
        description="Version of Python and of each package; null when not installed."
    )
    git_revision: str | None = Field(
        None,
        description="Commit of the source, `-dirty` behind it with uncommitted changes; null outside git.",
    )


def report_of(events: Iterable[Mapping[str, Any]]) -> Report:
    """The report of the run that these events tell (see `ps_cluster.report.events`), made on the machine it
    ran on."""
    status = Status()
    for event in events:
        status.update(event)
    start, step, test, exported, done, resume = (
        status.last.get(kind, {}) for kind in ("start", "step", "evaluation", "exported", "done", "resume")
    )
    tables = status.last.get("tables", {}).get("tables", [])
    same = ("job", "seed", "data", "model", "ps", "workers", "batch_size", "epochs", "dense_parameters", "sampling")
    figures = {
        **{name: start.get(name) for name in same},
        "block": start.get("block"),
        "peak_flops": start.get("peak_flops"),
        "where": start.get("where"),
        "pruned": start.get("pruned"),
        "reading": {
            side: {name: read[name] for name in ReadingReport.model_fields} for side, read in status.reading.items()
        },
        "rows": step.get("rows"),
        "rows_retrained": done.get("rows_retrained", resume.get("rows_retrained", 0)),
        "restarts": resume.get("restarts", 0),
        "steps": done.get("steps", step.get("step")),
        "seconds": done.get("seconds"),
        "samples_per_second": done.get("samples_per_second"),
        "mfu": done.get("mfu"),
        "flops_per_row": done.get("flops_per_row"),
        "experts": step.get("experts"),
        "timed_steps": status.timed_steps,
        "step_time": status.step_time,
        "exchanged_bytes": step.get("sparse_bytes"),
        "processes": status.last.get("processes", {}).get("processes", []),
        "settings": start.get("settings", {}),
        "loss": step.get("loss"),
        "train_auc": step.get("auc"),
        "auc": test.get("auc"),
        "log_loss": test.get("log_loss"),
        "calibration": test.get("calibration"),
        "test_rows": test.get("rows"),
        "tables": [{**table, "parameters_saved": parameters_saved(table)} for table in tables],
        "table_bytes": sum(table["bytes"] for table in tables),
        "saved_model": exported.get("path"),
        "saved_model_bytes": exported.get("size_bytes"),
        "saved": status.saved,
        "versions": package_versions(),
        "git_revision": git_revision(),
    }
    return Report.model_validate(figures)


def write_report(path: str, report: Report) -> None:
    """Write the report as JSON, whole or not at all; RunError when that fails."""
    folder = os.path.dirname(os.path.abspath(path))
    temporary = ""
    try:
        os.makedirs(folder, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(prefix=".report-", suffix=".json", dir=folder)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(report.model_dump_json(indent=2) + "\n")
            os.fchmod(descriptor, 0o644)
        os.replace(temporary, path)
    except OSError as error:
        if temporary:
            os.unlink(temporary)
        raise RunError(f"{path}: cannot write the report: {error.strerror}") from error
