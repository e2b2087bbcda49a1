"""The newest whole checkpoint: every byte of it is checked, and what is damaged or missing is named."""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import tensorflow as tf

from ops import shards
from ps_cluster.checkpoint import storage
from ps_cluster.checkpoint.manifest import MANIFEST, Manifest, Shard, StoredTable, parse
from ps_cluster.errors import UserError
from ps_cluster.roles.readable import one_line

_PREFIX = "step-"
_CHECKED_AT_ONCE = 4

HERE = ("",)
"""Devices: this process."""


@dataclass(frozen=True)
class Level:
    """A table in one checkpoint of a chain."""

    folder: str
    table: StoredTable

    def path(self, shard: Shard) -> str:
        """Where a file of the table lies."""
        return storage.join(self.folder, shard.file)


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint in a folder, and those it is based on: `chain` from the nearest base backwards."""

    folder: str
    manifest: Manifest
    chain: tuple[Checkpoint, ...] = ()

    @property
    def step(self) -> int:
        return self.manifest.step

    def tables(self) -> list[str]:
        """Names of the tables."""
        return [table.name for table in self.manifest.tables]

    def levels(self, table: str) -> list[Level]:
        """Where a table lies: first in full, then each delta after the one it is based on.

        Raises:
          UserError: the checkpoint has no such table.
        """
        levels: list[Level] = []
        for one in (self, *self.chain):
            stored = next((found for found in one.manifest.tables if found.name == table), None)
            if stored is None:
                names = ", ".join(sorted(one.tables())) or "none"
                raise UserError(f"{one.folder}: expected files of table {table}, found tables: {names}")
            levels.insert(0, Level(one.folder, stored))
            if not stored.is_delta:
                break
        return levels

    def levels_of(self, tables: Iterable[str]) -> dict[str, list[Level]]:
        """`levels` of several tables, by name."""
        return {table: self.levels(table) for table in tables}


def below(output: str) -> str:
    """The folder in which the checkpoints of an output folder lie."""
    return storage.join(output, "checkpoint")


def folder_of(parent: str, step: int) -> str:
    """The folder of a step's checkpoint."""
    return storage.join(parent, f"{_PREFIX}{step:010d}")


def step_folders(parent: str) -> list[int]:
    """Steps that have a folder below `parent`, whole or not; oldest first."""
    names = (name.removeprefix(_PREFIX) for name in storage.names_in(parent) if name.startswith(_PREFIX))
    return sorted(int(name) for name in names if name.isdigit())


def newest_checkpoint(
    parent: str, devices: Sequence[str] = HERE, tell: Callable[[str], None] | None = None
) -> Checkpoint:
    """The newest whole checkpoint below `parent`; what is wrong with newer ones is told.

    Args:
      parent: folder of checkpoints.
      devices: where files are read to be checked; all at a time.
      tell: takes one line per damaged or missing file; default: to standard error.

    Raises:
      UserError: there is none; names each damaged or missing file.
    """
    problems: list[str] = []
    known: dict[str, list[str]] = {}
    for step in reversed(step_folders(parent)):
        found, wrong = _opened(parent, step, devices, known)
        if found is not None and not wrong:
            if problems:
                say = tell or (lambda line: print(line, file=sys.stderr, flush=True))
                for problem in dict.fromkeys(problems):  # a base is looked at once for each of its deltas
                    say(problem)
                say(f"{parent}: the newest whole checkpoint is that of step {step}")
            return found
        problems += wrong
    if problems:
        raise UserError("\n".join(dict.fromkeys(problems)))
    raise UserError(f"{parent}: expected a checkpoint, found none (train the job first)")


def newest_or_none(
    parent: str, devices: Sequence[str] = HERE, tell: Callable[[str], None] | None = None
) -> Checkpoint | None:
    """`newest_checkpoint`, or None where none was ever finished."""
    if any(MANIFEST in storage.names_in(folder_of(parent, step)) for step in step_folders(parent)):
        return newest_checkpoint(parent, devices, tell)
    return None


def checkpoint_at(place: str, devices: Sequence[str] = HERE) -> Checkpoint:
    """The checkpoint that a person means: the folder of a step, or a job's output (or its folder of checkpoints) with
    the newest whole one.

    Args:
      place: a folder, local or an address.
      devices: where files are read to be checked; none: only manifests are, and blocks when they are read.

    Raises:
      UserError: there is none, or the one of that step is not whole.
    """
    place = place.rstrip("/") or "/"
    parent, _, name = place.rpartition("/")
    if name.startswith(_PREFIX) and name.removeprefix(_PREFIX).isdigit():
        found, wrong = _opened(parent or ".", int(name.removeprefix(_PREFIX)), devices, {})
        if wrong:
            raise UserError("\n".join(wrong))
        assert found is not None  # or something would be wrong
        return found
    names = storage.names_in(place)
    return newest_checkpoint(place if any(one.startswith(_PREFIX) for one in names) else below(place), devices)


def _opened(
    parent: str, step: int, devices: Sequence[str], known: dict[str, list[str]]
) -> tuple[Checkpoint | None, list[str]]:
    """The checkpoint of a step with its chain, and what is wrong with their files; `known`: by path, files that have
    been checked."""
    links: list[Checkpoint] = []
    wrong: list[str] = []
    wanted: set[str] | None = None  # tables that are still to be found in full; None: all
    expected: int | None = None  # CRC of the manifest
    while True:
        folder = folder_of(parent, step)
        try:
            manifest = _manifest_in(folder)
        except UserError as error:
            wrong.append(str(error))
            break
        path = storage.join(folder, MANIFEST)
        if manifest.step != step:
            wrong.append(f"{path}: expected the manifest of step {step}, found that of step {manifest.step}")
            break
        if expected is not None and manifest.crc32() != expected:
            wrong.append(f"{path}: expected the checkpoint that step {links[-1].step} is based on, found another one")
            break
        links.append(Checkpoint(folder, manifest))
        tables = [table for table in manifest.tables if wanted is None or table.name in wanted]
        if devices:
            wrong += _wrong_dense(folder, manifest) if wanted is None else []
            wrong += _wrong_shards(folder, tables, devices, known)
        wanted = {table.name for table in tables if table.is_delta}
        if not wanted:
            break
        if manifest.base is None:
            wrong.append(f"{path}: expected the step that its delta is based on, found none")
            break
        step, expected = manifest.base.step, manifest.base.crc32
    if not links:
        return None, wrong
    return Checkpoint(links[0].folder, links[0].manifest, tuple(links[1:])), wrong


def _manifest_in(folder: str) -> Manifest:
    path = storage.join(folder, MANIFEST)
    try:
        raw = storage.read(path)
    except tf.errors.NotFoundError:
        raise UserError(f"{path}: missing: the checkpoint was never finished, or the file is lost") from None
    except tf.errors.OpError as error:
        raise UserError(f"{path}: cannot be read: {error.message}") from None
    return parse(raw, path)


def _wrong_dense(folder: str, manifest: Manifest) -> list[str]:
    path = storage.join(folder, manifest.dense.file)
    try:
        raw = storage.read(path)
    except tf.errors.NotFoundError:
        return [f"{path}: missing"]
    except tf.errors.OpError as error:
        return [f"{path}: cannot be read: {error.message}"]
    if (len(raw), zlib.crc32(raw)) != (manifest.dense.bytes, manifest.dense.crc32):
        return [
            f"{path}: damaged: expected {manifest.dense.bytes} bytes with CRC-32 {manifest.dense.crc32:08x}, "
            f"found {len(raw)} with {zlib.crc32(raw):08x}"
        ]
    return []


def _wrong_shards(
    folder: str, tables: Sequence[StoredTable], devices: Sequence[str], known: dict[str, list[str]]
) -> list[str]:
    files = [(storage.join(folder, shard.file), shard) for table in tables for shard in table.shards]
    unread = [(path, shard) for path, shard in files if path not in known]
    at_once = _CHECKED_AT_ONCE * len(devices)
    for start in range(0, len(unread), at_once):
        part = unread[start : start + at_once]
        for (path, shard), told in zip(part, _check([path for path, _ in part], devices)):
            known[path] = [told] if isinstance(told, str) else _differences(path, shard, told)
    return [problem for path, _ in files for problem in known[path]]


def _check(paths: Sequence[str], devices: Sequence[str]) -> list[list[int] | str]:
    """Reads files on the devices in turn, together; totals of each, or what is wrong with it."""
    if tuple(devices) == HERE:
        with ThreadPoolExecutor(_CHECKED_AT_ONCE) as pool:
            return list(pool.map(_check_here, paths))

    @tf.function(autograph=False)
    def check() -> list[tf.Tensor]:
        totals = []
        for index, path in enumerate(paths):
            with tf.device(devices[index % len(devices)]):
                totals.append(shards.check_shard(path))
        return totals

    try:
        return [[int(value) for value in totals] for totals in check()]
    except (tf.errors.UnavailableError, tf.errors.AbortedError):  # not of a file: the process that reads is gone
        raise
    except tf.errors.OpError as error:
        if len(paths) == 1:
            return [_told(error, paths[0])]
        return [told for path in paths for told in _check([path], devices)]


def _check_here(path: str) -> list[int] | str:
    try:
        return [int(value) for value in shards.check_shard(path).numpy()]
    except tf.errors.OpError as error:
        return _told(error, path)


def _told(error: tf.errors.OpError, path: str) -> str:
    """What an error says of a file: one line that starts with the file's name."""
    told = one_line("", error.message).removeprefix(": ")
    start = told.find(f"{path}: ")
    return told[start:] if start >= 0 else f"{path}: cannot be read: {told}"


def _differences(path: str, shard: Shard, totals: Sequence[int]) -> list[str]:
    expected = (shard.rows, shard.counted_keys, shard.removed, shard.bloom_segments, shard.bytes, shard.digest)
    if tuple(totals) == expected:
        return []
    return [
        f"{path}: expected the file of the manifest, {shard.bytes} bytes with digest {shard.digest:08x}, "
        f"found another one, {totals[4]} bytes with digest {totals[5]:08x}"
    ]
