"""Saving and restoring a table against copying a file of the same bytes, and the size of a delta."""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import tensorflow as tf

from ops.shards import StoredRows, begin_save, restore_table, write_table
from tests.bench.embedding_tables import FILL_ROWS, Ours, fill
from tests.bench.reporting import Result

WIDTH = 16
ROWS = {False: 4_000_000, True: 10_000_000}
_REPEATS = {False: 3, True: 5}
_TOUCHED = 0.01
LIMIT_DELTA = 0.02


def save_case(case: str, full: bool) -> Result:
    """MB/s of writing all rows with Adam's slots, against a copy of the file, both to the disk."""
    table, rows = _filled(full)
    with tempfile.TemporaryDirectory() as folder:
        path, copy = str(Path(folder, "table")), str(Path(folder, "copy"))
        written = [_save(table, path, delta=False)]

        def save() -> None:
            written.append(_save(table, path, delta=False))

        ours, theirs = _in_turn(save, lambda: _copy(path, copy), _REPEATS[full])
        return _result(case, "saving", rows, os.path.getsize(path), ours, theirs, set(written) == {rows}, full)


def restore_case(case: str, full: bool) -> Result:
    """MB/s of reading them back into an empty table, against the same copy."""
    table, rows = _filled(full)
    with tempfile.TemporaryDirectory() as folder:
        path, copy = str(Path(folder, "table")), str(Path(folder, "copy"))
        _save(table, path, delta=False)
        restored: list[Ours] = []

        def restore() -> None:
            restored[:] = [Ours(WIDTH, "adam")]
            restore_table(restored[0].handle, path, StoredRows((WIDTH,), "float32", 2, False), 1, 0, 1, "state")

        ours, theirs = _in_turn(restore, lambda: _copy(path, copy), _REPEATS[full])
        equal = restored[0].size() == rows and all(
            np.array_equal(table.find(keys).numpy(), restored[0].find(keys).numpy()) for keys in _blocks(rows)
        )
        return _result(case, "restoring", rows, os.path.getsize(path), ours, theirs, equal, full)


def delta_case(case: str, full: bool) -> Result:
    """Bytes of a delta after a push to 1 % of the rows."""
    table, rows = _filled(full)
    with tempfile.TemporaryDirectory() as folder:
        whole, delta = str(Path(folder, "whole")), str(Path(folder, "delta"))
        _save(table, whole, delta=False)
        touched = np.random.default_rng(1).choice(rows, round(rows * _TOUCHED), replace=False)
        table.push(table.request(touched, 2), tf.ones([len(touched), WIDTH]))
        in_delta = _save(table, delta, delta=True)
        share = os.path.getsize(delta) / os.path.getsize(whole)
    return Result(
        case=case,
        ours=share,
        theirs=LIMIT_DELTA,
        unit="bytes over those of the full save",
        ratio=LIMIT_DELTA / share,
        answers_equal=in_delta == len(touched),
        compared=f"a delta after {len(touched):,} of {rows:,} rows changed; limit {LIMIT_DELTA}",
    )


def _filled(full: bool) -> tuple[Ours, int]:
    table = Ours(WIDTH, "adam", track_removed=True)
    fill(table.insert, ROWS[full], WIDTH)
    return table, ROWS[full]


def _blocks(rows: int) -> list[tf.Tensor]:
    return [tf.range(start, min(start + FILL_ROWS, rows), dtype=tf.int64) for start in range(0, rows, FILL_ROWS)]


def _save(table: Ours, path: str, *, delta: bool) -> int:
    """Rows written."""
    if bool(begin_save(table.handle, delta)) != delta:
        raise AssertionError(f"expected a {'delta' if delta else 'full save'}")
    return int(write_table(table.handle, path, "{}")[0])


def _copy(source: str, target: str) -> None:
    shutil.copyfile(source, target)
    with open(target, "rb+") as file:
        os.fsync(file.fileno())


def _in_turn(ours: Callable[[], None], theirs: Callable[[], None], repeats: int) -> tuple[list[float], list[float]]:
    seconds: tuple[list[float], list[float]] = ([], [])
    for _ in range(repeats):
        for side, run in zip(seconds, (ours, theirs)):
            started = time.perf_counter()
            run()
            side.append(time.perf_counter() - started)
    return seconds


def _result(
    case: str, what: str, rows: int, size: int, ours: list[float], theirs: list[float], equal: bool, full: bool
) -> Result:
    return Result(
        case=case,
        ours=size / statistics.median(ours) / 1e6,
        theirs=size / statistics.median(theirs) / 1e6,
        unit="MB/s",
        ratio=statistics.median(b / a for a, b in zip(ours, theirs)),
        answers_equal=equal,
        compared=(
            f"{what} {rows:,} rows of {WIDTH} float32 with Adam's two slots, {size / 1e6:,.0f} MB, against copying the "
            f"file, both flushed to the disk, {_REPEATS[full]} pairs in turn"
        ),
    )
