"""A delta of the sharded form: one for each shard, and the new `dense`, in one folder.

`delta-V-to-W/` holds a folder for each model, named as the models are, that is a delta by itself: a server that has one
shard alone needs that one alone (`ps-cluster apply delta-V-to-W/shard-I-of-N --to shard-I-of-N`). Where all are in one
place, all are applied together, `dense` last.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import replace

import tensorflow as tf

from ps_cluster.checkpoint.finding import Checkpoint
from ps_cluster.export.check import CheckSettings, check_export
from ps_cluster.export.delta import DeltaOf, table_changes, write_table
from ps_cluster.export.delta_format import MODEL, Delta, TableChange, write_delta
from ps_cluster.export.description import TableSize, read_description, source_of, write_description
from ps_cluster.export.model_card import write_card
from ps_cluster.export.saved_model import PLAINLY, Asked, default_parent, describe, of_newest
from ps_cluster.export.sharded import described_dense, published
from ps_cluster.export.sharded_client import DENSE
from ps_cluster.export.sharded_delta_apply import apply_all, models_of
from ps_cluster.export.sharded_model import DenseModel, ShardModel
from ps_cluster.export.version_folder import Unfinished, delta_name, new_folder, next_number
from ps_cluster.export.warmup import plain_requests, write_warmup
from ps_cluster.job.resolve import JobFile


def export_sharded_delta(
    job_file: JobFile,
    since: int,
    parent: str | None = None,
    asked: Asked = PLAINLY,
) -> str:
    """Writes what makes a checkpoint of version `since` of the sharded export below `parent`; returns the folder,
    `delta-SINCE-to-NEXT`. Number of shards and type of rows are that version's.

    Arguments and errors as of `saved_model.export_saved_model`.
    """
    parent = default_parent(job_file, "sharded") if parent is None else parent
    base = read_description(os.path.join(parent, DENSE, str(since)))
    places = [parent, *(os.path.join(parent, name) for name in models_of(base))]

    def export(found: Checkpoint) -> str:
        number = max(next_number(place) for place in places)
        name = delta_name(since, number)
        with new_folder(parent, number, name) as folder:
            _write(DeltaOf(job_file, found, since, base), parent, folder, asked.check)
        return os.path.join(parent, name)

    return of_newest(job_file, asked, export)


def _write(of: DeltaOf, parent: str, folder: Unfinished, check: CheckSettings | None) -> None:
    job_file, job, checkpoint, since, base = of.job_file, of.job_file.job, of.checkpoint, of.since, of.base
    names = models_of(base)
    dense = DenseModel(job, checkpoint)
    widths = of.check_tables(dense.rows)
    source = source_of(job, checkpoint)
    bases = {name: os.path.join(parent, name, str(since)) for name in names}
    found: dict[str, dict[str, TableChange]] = {name: {} for name in names}
    of_shard = ShardModel(dense.rows, base.rows)
    empty = os.path.join(folder.scratch, "shard")
    tf.saved_model.save(of_shard, empty, signatures={"serving_default": of_shard.score})
    described = described_dense(job, checkpoint, dense, base.rows, len(names) - 1)
    for number, name in enumerate(names[1:]):
        model = os.path.join(folder.model, name, MODEL)
        shutil.copytree(empty, model)
        write_warmup(model, name, plain_requests(of_shard.signature))
        sizes = {table: TableSize(0, width) for table, width in widths.items()}
        write_description(
            model,
            replace(described, kind="shard", shard=number, features=(), tables=sizes, inputs=None, table_of=None),
        )
        os.makedirs(os.path.join(folder.model, name, "tables"))
    for table, rows in dense.rows.items():
        scratch = os.path.join(folder.scratch, "rows", table)
        there = [bases[name] if os.path.isdir(bases[name]) else None for name in names[1:]]
        parts = table_changes(checkpoint, base, there, table, rows, scratch)
        for name, part in zip(names[1:], parts):
            found[name][table] = write_table(os.path.join(folder.model, name), table, base.rows, part)
        shutil.rmtree(scratch, ignore_errors=True)
    model = os.path.join(folder.model, DENSE, MODEL)
    tf.saved_model.save(dense, model, signatures={"serving_default": dense.score})
    write_warmup(model, DENSE, plain_requests(dense.signature))
    describe(checkpoint, described, dense.folded, model)
    deltas = {
        name: Delta(since, folder.number, base.source, source, "plain", base.rows, found[name], {}) for name in names
    }
    checked = None
    if check is not None:
        write_card(model, job_file, described, dense.folded, checkpoint.manifest.sampling, None)
        applied = {name: os.path.join(folder.scratch, "applied", name) for name in names}
        apply_all(folder.model, deltas, bases, applied)
        seen_at = published(folder.scratch, folder.number, applied)
        checked = check_export(job_file, checkpoint, base.rows, seen_at, check, folder.scratch)
    write_card(model, job_file, described, dense.folded, checkpoint.manifest.sampling, checked)
    for name, delta in deltas.items():
        write_delta(os.path.join(folder.model, name), delta)
