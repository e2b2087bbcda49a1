"""Deltas of the sharded form where it is served: all models of a version make the next one, `dense` last."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Mapping

from ps_cluster.errors import UserError
from ps_cluster.export.delta_apply import apply_to, base_of
from ps_cluster.export.delta_format import DELTA, MODEL, Delta, read_delta
from ps_cluster.export.description import Description, read_description, write_description
from ps_cluster.export.model_card import set_sizes
from ps_cluster.export.sharded_client import DENSE, shard_name
from ps_cluster.export.version_folder import new_folder


def is_sharded_delta(folder: str) -> bool:
    """Whether a folder holds a delta of all of a sharded export."""
    return os.path.exists(os.path.join(folder, DENSE, DELTA))


def apply_sharded_delta(delta_folder: str, parent: str | None = None) -> str:
    """Makes the version that a delta leads to, below `parent`; returns the folder of its `dense`, which appears last.

    Shards that have come that far already, as one whose server applied it, stay. Arguments and errors as of
    `delta_apply.apply_delta`.
    """
    parent = parent or os.path.dirname(os.path.abspath(delta_folder))
    names = models_of(read_description(os.path.join(delta_folder, DENSE, MODEL)))
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
        apply_all(delta_folder, deltas, bases, {**made, **folders})
    return made[DENSE]


def models_of(dense: Description) -> list[str]:
    """The models of a sharded export, `dense` first."""
    if dense.kind != "dense" or dense.shards is None:
        raise UserError(f"expected the `{DENSE}` of a sharded export, found a {dense.kind}")
    return [DENSE, *(shard_name(number, dense.shards) for number in range(dense.shards))]


def apply_all(
    delta_folder: str, deltas: Mapping[str, Delta], bases: Mapping[str, str], models: Mapping[str, str]
) -> None:
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
