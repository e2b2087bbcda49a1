"""A delta of the sharded form: one for each shard, and the new `dense`, in one folder.

`delta-V-to-W/` holds a folder for each model, named as the models are, that is a delta by itself: a server that has one
shard alone needs that one alone (`ps-cluster apply delta-V-to-W/shard-I-of-N --to shard-I-of-N`). Where all are in one
place, all are applied together, `dense` last.
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
from ps_cluster.export.check import CheckSettings, check_export
from ps_cluster.export.delta import table_changes, write_table
from ps_cluster.export.delta_apply import apply_to, base_of
from ps_cluster.export.delta_format import DELTA, MODEL, Delta, TableChange, read_delta, write_delta
from ps_cluster.export.description import Description, TableSize, read_description, source_of, write_description
from ps_cluster.export.model_card import set_sizes, write_card
from ps_cluster.export.saved_model import Tell, default_parent, describe, of_newest
from ps_cluster.export.sharded import described_dense, published
from ps_cluster.export.sharded_client import DENSE, shard_name
from ps_cluster.export.sharded_model import DenseModel, ShardModel
from ps_cluster.export.version_folder import Unfinished, delta_name, new_folder, next_number
from ps_cluster.export.warmup import plain_requests, write_warmup
from ps_cluster.job.resolve import JobFile


def export_sharded_delta(
    job_file: JobFile,
    since: int,
    parent: str | None = None,
    tell: Tell | None = None,
    *,
    checkpoint: Checkpoint | None = None,
    check: CheckSettings | None = None,
) -> str:
    """Writes what makes a checkpoint of version `since` of the sharded export below `parent`; returns the folder,
    `delta-SINCE-to-NEXT`. Number of shards and type of rows are that version's.

    Arguments and errors as of `saved_model.export_saved_model`.
    """
    parent = default_parent(job_file, "sharded") if parent is None else parent
    base = read_description(os.path.join(parent, DENSE, str(since)))
    places = [parent, *(os.path.join(parent, name) for name in _names(base))]

    def export(found: Checkpoint) -> str:
        number = max(next_number(place) for place in places)
        name = delta_name(since, number)
        with new_folder(parent, number, name) as folder:
            _write(job_file, found, since, base, parent, folder, check)
        return os.path.join(parent, name)

    return of_newest(job_file, checkpoint, tell, export)


def is_sharded_delta(folder: str) -> bool:
    """Whether a folder holds a delta of all of a sharded export."""
    return os.path.exists(os.path.join(folder, DENSE, DELTA))


def apply_sharded_delta(delta_folder: str, parent: str | None = None) -> str:
    """Makes the version that a delta leads to, below `parent`; returns the folder of its `dense`, which appears last.

    Shards that have come that far already, as one whose server applied it, stay. Arguments and errors as of
    `delta_apply.apply_delta`.
    """
    parent = parent or os.path.dirname(os.path.abspath(delta_folder))
    names = _names(read_description(os.path.join(delta_folder, DENSE, MODEL)))
    deltas = {name: read_delta(os.path.join(delta_folder, name)) for name in names}
    version = deltas[DENSE].version
    made = {name: os.path.join(parent, name, str(version)) for name in names}
    there = [name for name in names if os.path.exists(made[name])]
    for name in there:
        if name == DENSE or read_description(made[name]).source != deltas[name].source:
            raise UserError(f"{made[name]}: expected that version {version} is not there yet, found it")
    bases = {
        name: base_of(delta, os.path.join(delta_folder, name), os.path.join(parent, name))
        for name, delta in deltas.items()
        if name not in there
    }
    with contextlib.ExitStack() as stack:
        # They end in the opposite order: `dense` last.
        folders = {name: stack.enter_context(new_folder(os.path.join(parent, name), version)).model for name in bases}
        _apply(delta_folder, deltas, bases, {**made, **folders})
    return made[DENSE]


def _names(dense: Description) -> list[str]:
    """The models of a sharded export, `dense` first."""
    if dense.kind != "dense" or dense.shards is None:
        raise UserError(f"expected the `{DENSE}` of a sharded export, found a {dense.kind}")
    return [DENSE, *(shard_name(number, dense.shards) for number in range(dense.shards))]


def _write(
    job_file: JobFile,
    checkpoint: Checkpoint,
    since: int,
    base: Description,
    parent: str,
    folder: Unfinished,
    check: CheckSettings | None,
) -> None:
    job, names = job_file.job, _names(base)
    dense = DenseModel(job, checkpoint)
    expected, widths = {n: t.width for n, t in base.tables.items()}, {n: t.width for n, t in dense.rows.items()}
    if (base.source.job, expected) != (job.name, widths):
        raise UserError(
            f"{job_file.path}: expected the job {base.source.job} with tables of widths {expected}, of which version "
            f"{since} is, found {job.name} with {widths}"
        )
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
        _apply(folder.model, deltas, bases, applied)
        seen_at = published(folder.scratch, folder.number, applied)
        checked = check_export(job_file, checkpoint, base.rows, seen_at, check, folder.scratch)
    write_card(model, job_file, described, dense.folded, checkpoint.manifest.sampling, checked)
    for name, delta in deltas.items():
        write_delta(os.path.join(folder.model, name), delta)


def _apply(delta_folder: str, deltas: Mapping[str, Delta], bases: Mapping[str, str], models: Mapping[str, str]) -> None:
    """Writes the models that deltas make of `bases`; those without one are there already."""
    totals: dict[str, int] = {}
    for name, delta in deltas.items():
        if name == DENSE:
            continue
        if name in bases:
            apply_to(bases[name], os.path.join(delta_folder, name), delta, models[name])
        for table, size in read_description(models[name]).tables.items():
            totals[table] = totals.get(table, 0) + size.rows
    shutil.copytree(os.path.join(delta_folder, DENSE, MODEL), models[DENSE], dirs_exist_ok=True)
    write_description(models[DENSE], read_description(models[DENSE]).with_sizes(totals))
    set_sizes(models[DENSE], totals)
