"""Every value that a training gets, against pyorc's: any schema, all codecs, both writers, both readers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyorc
import pytest
import tensorflow as tf
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from data.columns import Column
from data.orc import ReadSpec, open_reader
from data.orc_writer import OrcWriter, Settings
from data.read.batches import Shard, batches
from data.read.plan import plan

CODECS = ("zstd", "zlib", "snappy", "lz4", "none")
WRITERS = ("ours", "pyorc")
READERS = ("tfio", "native")
FLOAT32 = st.floats(width=32, allow_nan=False, allow_infinity=False)


def integers(bits: int) -> st.SearchStrategy[int]:
    """Integers of so many bits, often small or in runs, which ORC encodes in other ways than large ones."""
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    return st.one_of(st.integers(0, 3), st.integers(-100, 100), st.integers(low, high))


# ORC's name: (Arrow's, what it is declared as, what a null stands for, values)
TYPES: dict[str, tuple[pa.DataType, str, Any, st.SearchStrategy]] = {
    "tinyint": (pa.int8(), "int64", 5, integers(8)),
    "smallint": (pa.int16(), "int64", -7, integers(16)),
    "int": (pa.int32(), "int64", 0, integers(32)),
    "bigint": (pa.int64(), "int64", -(2**63), integers(64)),
    "boolean": (pa.bool_(), "int64", 9, st.booleans()),
    "float": (pa.float32(), "float32", 0.25, FLOAT32),
    "double": (pa.float64(), "float32", -2.5, st.floats(-3e38, 3e38)),
    "array<bigint>": (pa.list_(pa.int64()), "int64_list", "empty", st.lists(integers(64), max_size=6)),
    "array<int>": (pa.list_(pa.int32()), "int64_list", "empty", st.lists(integers(32), max_size=6)),
    "array<tinyint>": (pa.list_(pa.int8()), "int64_list", "empty", st.lists(integers(8), max_size=6)),
}


@st.composite
def files(draw: st.DrawFn) -> tuple[list[str], list[tuple], list[int | None]]:
    """(ORC types of the columns, rows, most values of a list a column)."""
    kinds = draw(st.lists(st.sampled_from(list(TYPES)), min_size=1, max_size=6))
    values = [st.one_of(st.none(), TYPES[kind][3]) for kind in kinds]
    rows = draw(st.lists(st.tuples(*values), min_size=1, max_size=60))
    repeats = draw(st.integers(1, 12))
    longest = [draw(st.one_of(st.none(), st.integers(1, 4))) if "array" in kind else None for kind in kinds]
    return kinds, rows * repeats, longest


def write(path: str, writer: str, codec: str, kinds: list[str], rows: list[tuple], stripe_rows: int) -> None:
    names = [f"c{number}" for number in range(len(kinds))]
    if writer == "ours":
        schema = pa.schema([(name, TYPES[kind][0]) for name, kind in zip(names, kinds)])
        arrays = [pa.array(column, field.type) for column, field in zip(zip(*rows), schema)]
        how = Settings(codec, stripe_rows=stripe_rows, row_index_stride=50)  # type: ignore[arg-type]
        with OrcWriter(path, schema, settings=how) as ours:
            ours.write(pa.table(arrays, schema=schema))
        return
    struct = f"struct<{','.join(f'{name}:{kind}' for name, kind in zip(names, kinds))}>"
    compression = pyorc.CompressionKind[codec.upper()]
    with (
        open(path, "wb") as file,
        pyorc.Writer(file, struct, batch_size=1, compression=compression, row_index_stride=50) as theirs,
    ):
        for start in range(0, len(rows), stripe_rows):
            if start:
                theirs.write_intermediate_footer()
            theirs.writerows(rows[start : start + stripe_rows])


def expected_columns(path: str, columns: list[Column]) -> dict[str, list]:
    """What pyorc decodes, with nulls filled, floats rounded to float32 and lists truncated, by hand."""
    with open(path, "rb") as file:
        rows = list(pyorc.Reader(file))
    result = {}
    for number, column in enumerate(columns):
        values = [row[number] for row in rows]
        if column.kind == "int64_list":
            values = [[] if value is None else value[-(column.max_length or len(value) or 1) :] for value in values]
        elif column.kind == "float32":
            values = [float(np.float32(column.missing if value is None else value)) for value in values]
        else:
            values = [column.missing if value is None else int(value) for value in values]
        result[column.name] = values
    return result


def declared(kinds: list[str], longest: list[int | None]) -> list[Column]:
    return [
        Column(f"c{number}", TYPES[kind][1], TYPES[kind][2], most)  # type: ignore[arg-type]
        for number, (kind, most) in enumerate(zip(kinds, longest))
    ]


class Nobody:
    def reading(self, part: object) -> None: ...

    def read(self, part: object) -> None: ...


def in_process(spec: ReadSpec) -> Iterator[dict[str, list]]:
    """Batches of what the reader process sends, without the process."""
    for batch in batches(Shard.of(spec, plan(spec)), 2, Nobody()):
        yield batch.rows.to_pydict()


def in_tensorflow(spec: ReadSpec) -> Iterator[dict[str, list]]:
    """Batches as a training gets them."""
    with open_reader(spec) as reader:
        for values, _ in reader.dataset:
            yield {
                name: value.to_list() if isinstance(value, tf.RaggedTensor) else value.numpy().tolist()
                for name, value in values.items()
            }


def same(found: list, expected: list) -> bool:
    """Equal, zeros of either sign told apart."""
    if found != expected:
        return False
    return all(
        not isinstance(a, float) or a != 0 or math.copysign(1, a) == math.copysign(1, b)
        for a, b in zip(found, expected)
    )


def check(found: Iterator[dict[str, list]], expected: dict[str, list]) -> None:
    all_found: dict[str, list] = {name: [] for name in expected}
    for batch in found:
        for name, values in batch.items():
            all_found[name] += values
    for name, values in expected.items():
        assert same(all_found[name], values), name


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(made=files(), codec=st.sampled_from(CODECS), writer=st.sampled_from(WRITERS), stripe_rows=st.integers(1, 200))
def test_every_value_of_any_schema_is_pyorcs(tmp_path_factory, made, codec, writer, stripe_rows):
    kinds, rows, longest = made
    path = str(tmp_path_factory.mktemp("v") / "a.orc")
    write(path, writer, codec, kinds, rows, max(stripe_rows, len(rows) // 8))
    columns = declared(kinds, longest)
    check(in_process(ReadSpec((path,), tuple(columns), 64)), expected_columns(path, columns))


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("codec", CODECS)
def test_every_value_of_every_type_reaches_a_training(tmp_path, codec, writer, reader):
    kinds = list(TYPES)
    rows, longest = many_rows(kinds, 700, seed=CODECS.index(codec))
    path = str(tmp_path / "a.orc")
    write(path, writer, codec, kinds, rows, 256)
    columns = declared(kinds, longest)
    spec = ReadSpec((path,), tuple(columns), 128, reader=reader)
    check(in_tensorflow(spec), expected_columns(path, columns))


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(made=files(), codec=st.sampled_from(CODECS), writer=st.sampled_from(WRITERS), seed=st.integers(0, 99))
def test_both_readers_give_the_same_batches_of_any_schema(tmp_path_factory, made, codec, writer, seed):
    kinds, rows, longest = made
    path = str(tmp_path_factory.mktemp("v") / "a.orc")
    write(path, writer, codec, kinds, rows, max(20, len(rows) // 8))
    spec = ReadSpec((path,), tuple(declared(kinds, longest)), 64, shuffle_rows=100, seed=seed, reader="native")
    found, expected = list(in_tensorflow(spec)), list(in_process(spec))
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected):
        assert all(same(ours[name], theirs[name]) for name in theirs)


@pytest.mark.slow
@pytest.mark.parametrize("writer", WRITERS)
def test_every_one_of_millions_of_values_is_pyorcs(tmp_path, writer):
    """10 million values, by each reader, in files of four random schemas a codec."""
    total = 0
    for number, codec in enumerate(CODECS * 4):
        random = np.random.default_rng(100 + number)
        kinds = random.choice(list(TYPES), random.integers(4, 13)).tolist()
        # A list has 4 values on average.
        count = 530_000 // sum(4 if kind.startswith("array") else 1 for kind in kinds)
        rows, longest = many_rows(kinds, count, seed=number)
        path = str(tmp_path / "a.orc")
        write(path, writer, codec, kinds, rows, int(random.integers(3_000, 20_000)))
        columns = declared(kinds, longest)
        expected = expected_columns(path, columns)
        total += sum(len(v) if isinstance(v, list) else 1 for values in expected.values() for v in values)
        for reader in READERS:
            check(in_tensorflow(ReadSpec((path,), tuple(columns), 1024, reader=reader)), expected)
    assert total >= 10_000_000


def many_rows(kinds: list[str], count: int, seed: int) -> tuple[list[tuple], list[int | None]]:
    """(rows, most values of a list a column): runs, steps, small and large numbers by turns, a tenth of them null."""
    random = np.random.default_rng(seed)

    def numbers(bits: int, size: int) -> np.ndarray:
        bound = (1 << (bits - 1)) - 1
        shapes = [
            np.repeat(random.integers(-bound, bound, -(-size // 9)), 9)[:size],
            random.integers(-min(bound, 100), min(bound, 100), size),
            random.integers(-bound - 1, bound, size, endpoint=True),
            np.clip(np.arange(size) * 3 - 50, -bound, bound),
        ]
        block = np.arange(size) // 97 % len(shapes)
        return np.choose(block, shapes)

    columns: list[list] = []
    for kind in kinds:
        if kind.startswith("array"):
            bits = {"array<bigint>": 64, "array<int>": 32, "array<tinyint>": 8}[kind]
            ends = np.cumsum(random.integers(0, 10, count))
            values = numbers(bits, int(ends[-1])).tolist()
            columns.append([values[start:end] for start, end in zip([0, *ends[:-1].tolist()], ends.tolist())])
        elif kind == "boolean":
            columns.append((random.random(count) < 0.5).tolist())
        elif kind in ("float", "double"):
            columns.append(random.normal(size=count).astype(np.float32).tolist())
        else:
            bits = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}[kind]
            columns.append(numbers(bits, count).tolist())
        for row in np.flatnonzero(random.random(count) < 0.1):
            columns[-1][row] = None
    longest = [7 if kind == "array<int>" else None for kind in kinds]
    return list(zip(*columns)), longest
