"""Deltas where a model is served: a version and a delta make the next version, whole or not at all.

served = ServedVersions("run/export")          # the newest version, loaded
served.score(inputs)
served.apply("incoming/delta-1-to-2")          # a delta that does not fit changes nothing
served.roll_back()
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator, Mapping

import numpy as np

from ps_cluster.errors import UserError
from ps_cluster.export.bundle import BundleRows, replace_tables
from ps_cluster.export.delta_format import (
    MODEL,
    ChangedRows,
    Delta,
    changed_path,
    read_delta,
    removed_keys,
    removed_path,
)
from ps_cluster.export.description import read_description, write_description
from ps_cluster.export.model_card import set_sizes
from ps_cluster.export.opened import open_model
from ps_cluster.export.ordered_rows import OrderedRows
from ps_cluster.export.row_merge import MergedRows
from ps_cluster.export.sharded_client import Call
from ps_cluster.export.version_folder import new_folder, version_numbers


def apply_delta(delta_folder: str, parent: str | None = None) -> str:
    """Makes the version that a delta leads to, below `parent`; returns its folder, which appears whole.

    What it holds is, bit for bit, what an export of the whole would hold. In memory is a piece of a table at a time.

    Args:
        delta_folder: the delta.
        parent: the folder of versions with the one that the delta is based on; by default the one that it lies in.

    Raises:
        UserError: the delta is damaged, or not based on the version that is there, or that it leads to is there.
        RunError: the disk is full.
    """
    parent = parent or os.path.dirname(os.path.abspath(delta_folder))
    delta = read_delta(delta_folder)
    folder = os.path.join(parent, str(delta.version))
    if os.path.exists(folder):
        raise UserError(f"{folder}: expected that version {delta.version} is not there yet, found it")
    base = base_of(delta, delta_folder, parent)
    with new_folder(parent, delta.version) as version:
        apply_to(base, delta_folder, delta, version.model)
    return folder


def base_of(delta: Delta, delta_folder: str, parent: str) -> str:
    """The folder of the version below `parent` that a delta is based on. UserError: it is another one."""
    base = os.path.join(parent, str(delta.base))
    found = read_description(base)
    if (found.source, found.form, found.rows) != (delta.base_source, delta.form, delta.rows):
        wanted = delta.base_source
        raise UserError(
            f"{delta_folder}: expected as version {delta.base} step {wanted.step} of job {wanted.job} (manifest "
            f"{wanted.crc32:08x}), form {delta.form}, rows {delta.rows}; found in {base} step {found.source.step} of "
            f"job {found.source.job} (manifest {found.source.crc32:08x}), form {found.form}, rows {found.rows}"
        )
    return base


def apply_to(base: str, delta_folder: str, delta: Delta, model: str) -> dict[str, int]:
    """Writes the version that a delta makes of `base` to the folder `model`; rows of each table."""
    shutil.copytree(os.path.join(delta_folder, MODEL), model, dirs_exist_ok=True)
    described = read_description(model)
    if delta.tables.keys() != described.tables.keys():
        expected, found = (", ".join(sorted(tables)) or "none" for tables in (described.tables, delta.tables))
        raise UserError(f"{delta_folder}: expected changes of the model's tables ({expected}), found those of {found}")

    def tables() -> Iterator[tuple[str, OrderedRows]]:
        for name, change in delta.tables.items():
            before = BundleRows(base, delta.form, delta.rows, name)
            # Of one row: that of unknown ids.
            unknown = BundleRows(os.path.join(delta_folder, MODEL), delta.form, delta.rows, name).unknown
            changed = ChangedRows(changed_path(delta_folder, name), change.changed, delta.rows, unknown)
            removed = removed_keys(removed_path(delta_folder, name), change.removed)
            yield name, MergedRows(before, changed, removed, unknown)

    sizes = replace_tables(model, delta.form, tables())
    write_description(model, described.with_sizes(sizes))
    if described.kind != "shard":  # which has no card
        set_sizes(model, sizes)
    return sizes


def withdraw(parent: str, version: int) -> None:
    """Takes a version away: whoever watches the folder goes back to the one before.

    Raises:
        UserError: it is not there, or the only one.
    """
    numbers = version_numbers(parent)
    if version not in numbers or len(numbers) < 2:
        raise UserError(f"{parent}: expected version {version} and another one, found versions {numbers}")
    aside = os.path.join(parent, f".{version}.withdrawn")
    os.rename(os.path.join(parent, str(version)), aside)  # a reader sees all of it or nothing
    shutil.rmtree(aside, ignore_errors=True)


class ServedVersions:
    """The version of a model that a process serves; one that is taken up meanwhile is served from one request to the
    next. Any thread may score."""

    def __init__(self, parent: str, version: int | None = None):
        """version: by default the newest below `parent`."""
        numbers = version_numbers(parent)
        if not numbers:
            raise UserError(f"{parent}: expected versions of an exported model, found none")
        self._parent = parent
        self._changing = threading.Lock()
        self._before: tuple[int, Call] | None = None
        self._now = self._opened(numbers[-1] if version is None else version)

    @property
    def version(self) -> int:
        """The one that is served."""
        return self._now[0]

    def score(self, inputs: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        """`logit` and `probability` by the version that is served when it is called."""
        return self._now[1](inputs)

    def apply(self, delta_folder: str) -> int:
        """Makes the version that a delta leads to and serves it; returns its number. The one before stays in memory.

        Errors as of `apply_delta`; what is served is then the same as before.
        """
        with self._changing:
            delta = read_delta(delta_folder)
            if delta.base != self.version:
                raise UserError(
                    f"{delta_folder}: expected a delta of version {self.version}, which is served, found one of "
                    f"version {delta.base}"
                )
            folder = apply_delta(delta_folder, self._parent)
            try:
                opened = self._opened(delta.version)
            except BaseException:
                shutil.rmtree(folder, ignore_errors=True)
                raise
            self._before, self._now = self._now, opened
            return delta.version

    def roll_back(self) -> int:
        """Serves the version before the last `apply` again, at once, and takes the later one away; its number.

        Raises:
            UserError: there is none.
        """
        with self._changing:
            if self._before is None:
                raise UserError(f"{self._parent}: expected a version that was served before, found none")
            later = self.version
            self._now, self._before = self._before, None
            withdraw(self._parent, later)
            return self.version

    def _opened(self, version: int) -> tuple[int, Call]:
        return version, open_model(os.path.join(self._parent, str(version)))[1]
