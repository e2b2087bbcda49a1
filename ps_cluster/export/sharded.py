"""The sharded form: rows of all tables by hash over several servers, and a dense model that scores their vectors.

`shard-I-of-N/VERSION` and `dense/VERSION` are SavedModels of plain TensorFlow, each in a folder of versions that a
server watches. `dense` appears last: what a client sees of it has all its shards. Written is one shard at a time.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Mapping
from dataclasses import replace

import tensorflow as tf

from ps_cluster.checkpoint.finding import Checkpoint
from ps_cluster.errors import UserError
from ps_cluster.export.bundle import replace_tables
from ps_cluster.export.check import CheckSettings, check_export
from ps_cluster.export.description import Description, TableSize, served_features, source_of, write_description
from ps_cluster.export.model_card import write_card
from ps_cluster.export.ordered_rows import ordered
from ps_cluster.export.row_types import RowType
from ps_cluster.export.saved_model import PLAINLY, Asked, default_parent, describe, of_newest
from ps_cluster.export.sharded_client import DENSE, shard_name
from ps_cluster.export.sharded_model import DenseModel, ShardModel
from ps_cluster.export.version_folder import Unfinished, new_folder, next_number
from ps_cluster.export.warmup import plain_requests, write_warmup
from ps_cluster.job.resolve import JobFile, table_name
from ps_cluster.job.schema import DenseFeature, Job

MOST_SHARDS = 256


def export_sharded(
    job_file: JobFile,
    shards: int,
    parent: str | None = None,
    rows: RowType = "float32",
    asked: Asked = PLAINLY,
) -> str:
    """Writes a checkpoint as the next version of a sharded export below `parent`; returns the folder of `dense`.

    Arguments and errors as of `saved_model.export_saved_model`.
    """
    if not 1 <= shards <= MOST_SHARDS:
        raise UserError(f"--shards: expected 1 to {MOST_SHARDS}, found {shards}")
    parent = default_parent(job_file, "sharded") if parent is None else parent
    places = [os.path.join(parent, name) for name in (DENSE, *(shard_name(i, shards) for i in range(shards)))]

    def export(found: Checkpoint) -> str:
        number = max(next_number(place) for place in places)
        with contextlib.ExitStack() as stack:
            # They end in the opposite order: `dense` last.
            dense, *others = [stack.enter_context(new_folder(place, number)) for place in places]
            _write(job_file, found, rows, dense, others, asked.check)
        return os.path.join(places[0], str(number))

    return of_newest(job_file, asked, export)


def _write(
    job_file: JobFile,
    checkpoint: Checkpoint,
    row_type: RowType,
    dense: Unfinished,
    shards: list[Unfinished],
    check: CheckSettings | None,
) -> None:
    job = job_file.job
    model = DenseModel(job, checkpoint)
    described = described_dense(job, checkpoint, model, row_type, len(shards))
    of_shards = replace(described, kind="shard", features=(), inputs=None, table_of=None)
    parts = {
        name: ordered(stored, row_type, os.path.join(dense.scratch, "rows", name), f"tables.{name}", len(shards))
        for name, stored in model.rows.items()
    }
    of_shard = ShardModel(model.rows, row_type)
    empty = os.path.join(dense.scratch, "shard")
    tf.saved_model.save(of_shard, empty, signatures={"serving_default": of_shard.score})
    for number, shard in enumerate(shards):
        shutil.copytree(empty, shard.model, dirs_exist_ok=True)
        replace_tables(shard.model, "plain", ((name, of_table[number]) for name, of_table in parts.items()))
        write_warmup(shard.model, shard_name(number, len(shards)), plain_requests(of_shard.signature))
        sizes = {name: TableSize(of[number].num_rows, model.rows[name].width) for name, of in parts.items()}
        write_description(shard.model, replace(of_shards, shard=number, tables=sizes))
    shutil.rmtree(os.path.join(dense.scratch, "rows"), ignore_errors=True)
    tf.saved_model.save(model, dense.model, signatures={"serving_default": model.score})
    write_warmup(dense.model, DENSE, plain_requests(model.signature))
    totals = {name: sum(part.num_rows for part in of_table) for name, of_table in parts.items()}
    described = described.with_sizes(totals)
    describe(checkpoint, described, model.folded, dense.model)
    checked = None
    if check is not None:
        names = [DENSE, *(shard_name(number, len(shards)) for number in range(len(shards)))]
        models = {name: version.model for name, version in zip(names, [dense, *shards])}
        seen_at = published(dense.scratch, dense.number, models)
        checked = check_export(job_file, checkpoint, row_type, seen_at, check, dense.scratch)
    write_card(dense.model, job_file, described, model.folded, checkpoint.manifest.sampling, checked)


def described_dense(job: Job, checkpoint: Checkpoint, model: DenseModel, row_type: RowType, shards: int) -> Description:
    """What `dense` is, with tables that are empty."""
    return Description(
        kind="dense",
        form="plain",
        rows=row_type,
        source=source_of(job, checkpoint),
        label=job.data.label,
        features=served_features(job),
        tables={name: TableSize(0, stored.width) for name, stored in model.rows.items()},
        shards=shards,
        inputs=model.inputs,
        table_of={one.name: table_name(one) for one in job.features if not isinstance(one, DenseFeature)},
    )


def published(scratch: str, number: int, models: Mapping[str, str]) -> str:
    """The folder of `dense` among links to all models, by name, as they will lie when they are published."""
    for name, model in models.items():
        folder = os.path.join(scratch, "published", name)
        os.makedirs(folder)
        os.symlink(os.path.abspath(model), os.path.join(folder, str(number)))
    return os.path.join(scratch, "published", DENSE, str(number))
