"""SavedModels: numbered versions that appear whole, inputs by feature name.

The form `plain` needs nothing but TensorFlow. The form `ops` needs the library `ops/_rankmixer.so` loaded, nothing else
of this project, and gives the same scores. What is in memory of the tables is a piece of one at a time.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import tensorflow as tf

from ps_cluster.checkpoint.finding import Checkpoint, newest_checkpoint
from ps_cluster.checkpoint.storage import load_file_systems
from ps_cluster.export.bundle import replace_tables
from ps_cluster.export.check import CheckSettings, check_export
from ps_cluster.export.description import (
    EXTRA,
    Description,
    TableSize,
    served_features,
    source_of,
    write_description,
    write_extra,
)
from ps_cluster.export.frozen_layout import Form
from ps_cluster.export.model_card import write_card
from ps_cluster.export.ordered_rows import OrderedRows, StoredRows, ordered
from ps_cluster.export.row_types import RowType
from ps_cluster.export.serving_model import ServingModel, serving_signature
from ps_cluster.export.version_folder import new_folder, next_number
from ps_cluster.export.warmup import plain_requests, write_warmup
from ps_cluster.job.resolve import JobFile
from ps_cluster.train.trained_job import check_as_trained

TRAINING = os.path.join(EXTRA, "training.json")
"""In an export: which step of the training it holds; by which rates the training rows were sampled (null: not at all;
the logits need no correction, since the training has undone what sampling did to the odds); the form; what was
folded."""

Tell = Callable[[str], None]

_TRIES = 3


@dataclass(frozen=True)
class Asked:
    """What an export is asked for, whatever its form.

    tell: as of `newest_checkpoint`. checkpoint: by default the newest whole one. check: compare scores with the
    trainer's before the version is published.
    """

    tell: Tell | None = None
    checkpoint: Checkpoint | None = None
    check: CheckSettings | None = None


PLAINLY = Asked()


def export_saved_model(
    job_file: JobFile,
    parent: str | None = None,
    form: Form = "plain",
    rows: RowType = "float32",
    asked: Asked = PLAINLY,
) -> str:
    """Writes a checkpoint as the next numbered version below `parent`; returns the version's folder.

    A version appears whole (written beside, then renamed), as TF Serving expects. May be called while the job trains.

    Args:
        parent: by default `default_parent`.
        rows: how the rows of tables are stored.

    Raises:
        UserError: the job's checkpoint cannot be read, or is of another job.
        RunError: the disk is full, or scores are not the trainer's: nothing is published.
    """
    parent = default_parent(job_file, form) if parent is None else parent

    def export(found: Checkpoint) -> str:
        module = ServingModel(job_file.job, found, form, rows)
        with new_folder(parent, next_number(parent)) as version:
            described = save_ranker(job_file, found, module, form, rows, version.model)
            sizes = replace_tables(version.model, form, spooled(module.rows, rows, version.scratch))
            described = described.with_sizes(sizes)
            describe(found, described, module.folded, version.model)
            checked = None
            if asked.check is not None:
                checked = check_export(job_file, found, rows, version.model, asked.check, version.scratch)
            write_card(version.model, job_file, described, module.folded, found.manifest.sampling, checked)
        return os.path.join(parent, str(version.number))

    return of_newest(job_file, asked, export)


def of_newest(job_file: JobFile, asked: Asked, export: Callable[[Checkpoint], str]) -> str:
    """What `export` makes of the checkpoint that is asked for; where that is the newest and a running job removes it
    meanwhile, of the one that is the newest then."""
    load_file_systems(job_file.checkpoints)
    for attempt in range(_TRIES):
        found = asked.checkpoint or newest_checkpoint(job_file.checkpoints, tell=asked.tell)
        check_as_trained(job_file, found.manifest.trained)
        try:
            return export(found)
        except tf.errors.NotFoundError:
            if asked.checkpoint is not None or attempt == _TRIES - 1:
                raise
    raise AssertionError("unreachable")


def default_parent(job_file: JobFile, form: str) -> str:
    """The folder of a form's versions: a server watches one folder, so each form has its own."""
    return os.path.join(job_file.output, "export" if form == "plain" else f"export-{form}")


def save_ranker(
    job_file: JobFile, checkpoint: Checkpoint, module: ServingModel, form: Form, rows: RowType, model: str
) -> Description:
    """Saves the model with tables of one row; what it is, with tables that are empty."""
    tf.saved_model.save(module, model, signatures={"serving_default": module.score})
    write_warmup(model, job_file.job.name, plain_requests(serving_signature(job_file.job)))
    return Description(
        kind="ranker",
        form=form,
        rows=rows,
        source=source_of(job_file.job, checkpoint),
        label=job_file.job.data.label,
        features=served_features(job_file.job),
        tables={name: TableSize(0, stored.width) for name, stored in module.rows.items()},
    )


def spooled(rows: Mapping[str, StoredRows], row_type: RowType, scratch: str) -> Iterator[tuple[str, OrderedRows]]:
    """Tables in the order of hashes, one at a time; what one took on the disk is given back before the next."""
    for name, stored in rows.items():
        folder = os.path.join(scratch, name)
        yield name, ordered(stored, row_type, folder, f"tables.{name}")[0]
        shutil.rmtree(folder, ignore_errors=True)


def describe(checkpoint: Checkpoint, described: Description, folded: tuple[str, ...], model: str) -> None:
    """Writes what an export says of itself for programs."""
    write_description(model, described)
    sampling = checkpoint.manifest.sampling
    known = {"step": checkpoint.step, "sampling": sampling, "form": described.form, "folded": folded}
    write_extra(model, "training.json", known)
