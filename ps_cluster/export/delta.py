"""A delta: what changed in a checkpoint since a version that has been exported.

Where the checkpoints since then are deltas themselves, their files say it: only these are read, so that the cost is
that of the changes. Else, and for tables whose rows a weight is folded into, the version and the checkpoint are
compared row by row, range of hashes by range of hashes.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ops.lookup_concat import mix
from ops.shards import BlockKind, read_blocks
from ps_cluster.checkpoint.finding import Checkpoint, Level
from ps_cluster.checkpoint.rows import decoded
from ps_cluster.errors import UserError
from ps_cluster.export.bundle import BundleRows
from ps_cluster.export.check import CheckSettings, check_export
from ps_cluster.export.delta_apply import apply_to
from ps_cluster.export.delta_format import (
    MODEL,
    Delta,
    TableChange,
    append_rows,
    changed_path,
    removed_path,
    write_delta,
)
from ps_cluster.export.description import DESCRIPTION, Description, Source, read_description
from ps_cluster.export.model_card import write_card
from ps_cluster.export.ordered_rows import OrderedRows, StoredRows, ordered, shard_of
from ps_cluster.export.row_merge import Change, changes
from ps_cluster.export.row_types import RowType
from ps_cluster.export.saved_model import PLAINLY, Asked, default_parent, describe, of_newest, save_ranker
from ps_cluster.export.serving_model import ServingModel
from ps_cluster.export.version_folder import Unfinished, delta_name, new_folder, next_number
from ps_cluster.job.resolve import JobFile


@dataclass(frozen=True)
class DeltaOf:
    """What a delta is of: it leads from version `since`, which `base` describes, to a job's checkpoint."""

    job_file: JobFile
    checkpoint: Checkpoint
    since: int
    base: Description

    def check_tables(self, rows: Mapping[str, StoredRows]) -> dict[str, int]:
        """The widths of the tables; raises UserError where the version is of another job, or of other widths."""
        job, source, found = self.job_file.job.name, self.base.source.job, {n: t.width for n, t in rows.items()}
        expected = {name: table.width for name, table in self.base.tables.items()}
        if (source, expected) != (job, found):
            raise UserError(
                f"{self.job_file.path}: expected the job {source} with tables of widths {expected}, of which version "
                f"{self.since} is, found {job} with {found}"
            )
        return found


def export_delta(
    job_file: JobFile,
    since: int,
    parent: str | None = None,
    asked: Asked = PLAINLY,
) -> str:
    """Writes what makes a checkpoint of version `since` below `parent`; returns the folder, `delta-SINCE-to-NEXT`.

    Version `since` may be a folder, or what another delta below `parent` leads to; then all checkpoints since it must
    be deltas. Form and type of rows are its own. Arguments and errors as of `saved_model.export_saved_model`.
    """
    parent = default_parent(job_file, "plain") if parent is None else parent
    base, model = _base_of(parent, since)

    def export(found: Checkpoint) -> str:
        number = next_number(parent)
        name = delta_name(since, number)
        with new_folder(parent, number, name) as folder:
            _write(DeltaOf(job_file, found, since, base), model, folder, asked.check)
        return os.path.join(parent, name)

    return of_newest(job_file, asked, export)


def _base_of(parent: str, since: int) -> tuple[Description, str | None]:
    """What version `since` is, and its folder where it is one."""
    model = os.path.join(parent, str(since))
    if os.path.exists(os.path.join(model, DESCRIPTION)):
        described = read_description(model)
        if described.kind != "ranker":
            raise UserError(
                f"{model}: expected a version in one piece, found one of the sharded form (`--form sharded`)"
            )
        if described.form == "tfra":
            raise UserError(f"{model}: expected a version of the form plain or ops, found one of the form tfra")
        return described, model
    names = os.listdir(parent) if os.path.isdir(parent) else []
    for name in sorted(names):
        if name.startswith("delta-") and name.endswith(f"-to-{since}"):
            return read_description(os.path.join(parent, name, MODEL)), None
    raise UserError(f"{parent}: expected version {since}, or a delta that leads to it, found none")


def _write(of: DeltaOf, base_model: str | None, folder: Unfinished, check: CheckSettings | None) -> None:
    job_file, checkpoint, since, base = of.job_file, of.checkpoint, of.since, of.base
    module = ServingModel(job_file.job, checkpoint, base.form, base.rows)
    of.check_tables(module.rows)
    model = os.path.join(folder.model, MODEL)
    described = save_ranker(job_file, checkpoint, module, base.form, base.rows, model)
    os.makedirs(os.path.join(folder.model, "tables"))
    tables = {}
    for name, rows in module.rows.items():
        scratch = os.path.join(folder.scratch, name)
        (changed,) = table_changes(checkpoint, base, [base_model], name, rows, scratch)
        tables[name] = write_table(folder.model, name, base.rows, changed)
        shutil.rmtree(scratch, ignore_errors=True)
    describe(checkpoint, described, module.folded, model)
    delta = Delta(since, folder.number, base.source, described.source, base.form, base.rows, tables, {})
    checked = None
    if check is not None:
        if base_model is None:
            raise UserError(f"--check: expected a folder of version {since}, found only the delta that leads to it")
        write_card(model, job_file, described, module.folded, checkpoint.manifest.sampling, None)
        applied = os.path.join(folder.scratch, "applied")
        apply_to(base_model, folder.model, delta, applied)
        checked = check_export(job_file, checkpoint, base.rows, applied, check, folder.scratch)
    write_card(model, job_file, described, module.folded, checkpoint.manifest.sampling, checked)
    write_delta(folder.model, delta)


def write_table(folder: str, name: str, row_type: RowType, found: Iterator[Change]) -> TableChange:
    """Writes what changed in a table to the files of a delta in `folder`, where `tables` is a folder already."""
    changed = removed = 0
    with open(changed_path(folder, name), "wb") as rows, open(removed_path(folder, name), "wb") as keys:
        for change in found:
            append_rows(rows, change.changed, row_type)
            keys.write(change.removed.astype("<i8").tobytes())
            changed += len(change.changed)
            removed += len(change.removed)
    return TableChange(changed, removed)


def table_changes(
    checkpoint: Checkpoint, base: Description, models: Sequence[str | None], name: str, rows: StoredRows, scratch: str
) -> list[Iterator[Change]]:
    """What changed in a table since the base, for each of its shards (one: the whole table).

    models: the base's folders, by shard; None where it is not there. scratch: as of `ordered_rows.ordered`.
    """
    shards = len(models)
    levels = None if rows.projection is not None else levels_since(checkpoint, base.source, name)
    what = f"tables.{name}"
    if levels is not None:
        gone: list[np.ndarray] = [np.zeros(0, np.int64)]
        changed = StoredRows(
            lambda: _changed_blocks(levels, gone),
            rows.dim,
            rows.unknown,
            None,
            sum(shard.rows for level in levels for shard in level.table.shards),
        )
        spooled = ordered(changed, base.rows, scratch, what, shards)  # this goes through the blocks
        removed = np.concatenate(gone)
        owners = shard_of(mix(removed), shards)
        return [_told(part, removed[owners == shard]) for shard, part in enumerate(spooled)]
    there = [model for model in models if model is not None]
    if len(there) < shards:
        raise UserError(
            f"{checkpoint.folder}: expected delta checkpoints since step {base.source.step} for table {name}, whose "
            "version is not there as a folder; export a whole version"
        )
    parts = ordered(rows, base.rows, scratch, what, shards)
    return [changes(BundleRows(model, base.form, base.rows, name), part) for model, part in zip(there, parts)]


def _told(changed: OrderedRows, removed: np.ndarray) -> Iterator[Change]:
    yield Change(changed.unknown.at(slice(0)), removed)
    for chunk in changed.chunks():
        yield Change(chunk, np.zeros(0, np.int64))


def levels_since(checkpoint: Checkpoint, base: Source, table: str) -> list[Level] | None:
    """The files of a table that hold what changed since a checkpoint, oldest first; None where they do not tell."""
    links = (checkpoint, *checkpoint.chain)
    newer: set[str] = set()
    for link in links:
        if (link.step, link.manifest.crc32()) == (base.step, base.crc32):
            break
        newer.add(link.folder)
    else:
        return None
    levels = [level for level in checkpoint.levels(table) if level.folder in newer]
    if len(levels) != len(newer) or not all(level.table.is_delta for level in levels):
        return None
    return levels


def _changed_blocks(levels: Sequence[Level], removed: list[np.ndarray]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Rows that changed, each once, as the newest file has them; keys that have no row any more go to `removed`."""
    newer = np.zeros(0, np.int64)  # sorted keys that a later file has
    for level in reversed(levels):
        here = [newer]
        for shard in level.table.shards:
            for block in read_blocks(level.path(shard)):
                if block.kind == BlockKind.BLOOM:
                    continue
                here.append(block.keys)
                live = ~np.isin(block.keys, newer)
                if block.kind == BlockKind.ROWS and block.row_class > 0:
                    if live.any():
                        rows = decoded(level.table, block.row_class, block.keys, block.meta, block.rows, live)
                        yield rows.keys, rows.embeddings
                else:
                    removed.append(block.keys[live])
        newer = np.unique(np.concatenate(here))
