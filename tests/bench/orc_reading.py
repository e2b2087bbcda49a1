"""Rows per CPU-second of the training reader, against records of text and against decoding alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.orc as orc
import tensorflow as tf

from data import where
from data.orc import ReadSpec, open_reader
from tests.bench import orc_costs
from tests.bench.orc_answers import fingerprint, table_fingerprint
from tests.bench.orc_costs import Read
from tests.bench.orc_samples import HASH_BUCKETS, Order, Samples, as_text, declared, write_orc, write_tfrecord
from tests.bench.orc_tfrecord import text_dataset
from tests.bench.reporting import Result

BATCH_ROWS = 1024
SHUFFLE_ROWS = 65_536
FIVE = ("user_id", "item_id", "category", "history", "label")
_ROWS = {False: 60_000, True: 240_000}
_REPEATS = {False: 2, True: 7}
_OURS_PASSES, _THEIRS_PASSES = 12, 4
_SHARE_KEPT = 0.01

Readers = Literal["tfio", "native"]
Decoder = Literal["tfio", "native", "pyarrow"]
_DECODERS: dict[Decoder, str] = {
    "tfio": "the reader through tensorflow-io",
    "native": "the native reader",
    "pyarrow": "`pyarrow.orc` read_stripe alone, which makes no batches and checks nothing",
}


@dataclass(frozen=True)
class Source:
    """One log: our ORC and the records of text, ids hashed alike."""

    table: pa.Table
    orc: Path
    text: Path


def source(samples: Samples, rows: int, order: Order) -> Source:
    """The log in `order`; its ORC holds 63-bit hashes of the ids, as its records of text are read."""
    text = samples.file(
        f"text-{rows}-{order}", samples.table("synth", rows, order), lambda t, path: write_tfrecord(as_text(t), path)
    )
    hashed = samples.hashed(rows, order)
    return Source(hashed, samples.file(f"hashed-{rows}-{order}", hashed, write_orc), text)


def spec(path: Path, table: pa.Table, names: Sequence[str], **more: Any) -> ReadSpec:
    """All of `path` in its order, in batches, by the default reader, unless `more` says otherwise."""
    columns = tuple(column for column in declared(table) if column.name in names)
    return ReadSpec((str(path),), columns, BATCH_ROWS, **more)


def ours(path: Path, table: pa.Table, names: Sequence[str], **more: Any) -> Read:
    """Our reader, drained in the runtime of tf.data, as a compiled training step does."""

    def read(passes: int) -> int:
        with open_reader(spec(path, table, names, epochs=passes, **more)) as reader:
            _drain(reader.dataset, lambda batch: batch[0])
        return passes * table.num_rows

    return read


def theirs(text: Path, table: pa.Table, names: Sequence[str], **more: Any) -> Read:
    """Records of text, read as well as it can be written."""

    def read(passes: int) -> int:
        _drain(
            text_dataset(str(text), table.schema, names, HASH_BUCKETS, BATCH_ROWS, passes, **more), lambda batch: batch
        )
        return passes * table.num_rows

    return read


def decoding(path: Path, table: pa.Table, names: Sequence[str]) -> Read:
    """`pyarrow.orc` alone: stripe by stripe in one thread, no training reader around it."""

    def read(passes: int) -> int:
        for _ in range(passes):
            file = orc.ORCFile(path)
            for stripe in range(file.nstripes):
                file.read_stripe(stripe, columns=list(names))
        return passes * table.num_rows

    return read


def text_case(case: str, samples: Samples, names: Sequence[str] | None, full: bool) -> Result:
    """The default reader against records of text, all columns or `names`."""
    made = source(samples, _ROWS[full], "user")
    # So many passes that what differs from start to start does not count, also where a pass costs little.
    more = 1 if names is None else 4
    names = names or made.table.column_names
    shuffled = {"shuffle_rows": SHUFFLE_ROWS}
    sides: dict[str, tuple[Read, int]] = {
        "ours": (ours(made.orc, made.table, names), more * _OURS_PASSES),
        "text": (theirs(made.text, made.table, names), (1 + more) // 2 * _THEIRS_PASSES),
        "ours, shuffled": (ours(made.orc, made.table, names, **shuffled), more * _OURS_PASSES // 3),
        "native": (ours(made.orc, made.table, names, reader="native"), more * _OURS_PASSES),
        "native, shuffled": (
            ours(made.orc, made.table, names, reader="native", **shuffled),
            more * _OURS_PASSES // 3,
        ),
    }
    if full:
        sides["text, shuffled"] = (theirs(made.text, made.table, names, **shuffled), _THEIRS_PASSES)
    costs = orc_costs.compare(sides, _REPEATS[full])
    start = orc_costs.once(sides["ours"][0])
    equal = _same_rows(made, names)
    return Result(
        case=case,
        ours=orc_costs.median_rate(costs["ours"]),
        theirs=orc_costs.median_rate(costs["text"]),
        unit="rows/CPU-s",
        ratio=orc_costs.median_ratio(costs["ours"], costs["text"]),
        answers_equal=equal,
        compared=(
            f"synthetic log of {made.table.num_rows:,} rows by user, {len(names)} of {made.table.num_columns} columns, "
            f"batches of {BATCH_ROWS}: the default reader (its process included) against TFRecord text + parse + split "
            f"+ hash; what more passes cost, {_REPEATS[full]} pairs in turn\n{orc_costs.table(costs)}\n"
            f"  one pass with all that ours takes to start: {start.cpu_seconds:.2f} CPU-s, {start.wall_seconds:.2f} s"
        ),
    )


def where_case(case: str, samples: Samples, full: bool) -> Result:
    """A range of times that keeps 1 % of a log by time."""
    copies = 7 if full else 28
    made = source(samples, _ROWS[full], "time")
    long_table = samples.hashed(_ROWS[full], "time", copies)
    long_path = samples.file(f"long-{_ROWS[full]}", long_table, write_orc)
    names = made.table.column_names
    middle = long_table.column("timestamp").slice(long_table.num_rows // 2)
    times = middle[0].as_py(), middle[round(long_table.num_rows * _SHARE_KEPT)].as_py()
    sides: dict[str, tuple[Read, int]] = {
        "ours": (ours(long_path, long_table, names, where=_time_range(times)), 40),
        "text": (theirs(made.text, made.table, names, times=_one_percent(made.table)), _THEIRS_PASSES),
        "native": (ours(long_path, long_table, names, where=_time_range(times), reader="native"), 40),
    }
    costs = orc_costs.compare(sides, _REPEATS[full])
    start = orc_costs.once(sides["ours"][0])
    few = _one_percent(made.table)
    with open_reader(spec(made.orc, made.table, names, where=_time_range(few))) as reader:
        found = fingerprint((values for values, _ in reader.dataset), names)
    expected = fingerprint(text_dataset(str(made.text), made.table.schema, names, HASH_BUCKETS, 1024, times=few), names)
    return Result(
        case=case,
        ours=orc_costs.median_rate(costs["ours"]),
        theirs=orc_costs.median_rate(costs["text"]),
        unit="rows/CPU-s",
        ratio=orc_costs.median_ratio(costs["ours"], costs["text"]),
        answers_equal=found == expected and found[0] > 0,
        compared=(
            f"log by time, where timestamp keeps 1 % of the rows, all columns: ours over {long_table.num_rows:,} rows "
            f"(the log {copies} times, each later) against TFRecord text of {made.table.num_rows:,}, of which only the "
            f"time of rows outside is parsed; answers compared on the latter; {_REPEATS[full]} pairs in turn\n"
            f"{orc_costs.table(costs)}\n"
            f"  one pass with all that ours takes to start, plan and count: {start.cpu_seconds:.2f} CPU-s, "
            f"{start.rate:,.0f} rows/CPU-s"
        ),
    )


def decoding_case(case: str, samples: Samples, ours_by: Decoder, theirs_by: Decoder, full: bool) -> Result:
    """One way to decode our ORC against another."""
    made = source(samples, _ROWS[full], "user")
    names = made.table.column_names
    sides: dict[str, tuple[Read, int]] = {}
    for reader in ("tfio", "native"):
        sides[reader] = (ours(made.orc, made.table, names, reader=reader), _OURS_PASSES)
        shuffled = ours(made.orc, made.table, names, reader=reader, shuffle_rows=SHUFFLE_ROWS)
        sides[f"{reader}, shuffled"] = (shuffled, _OURS_PASSES // 3)
    if "pyarrow" in (ours_by, theirs_by):
        sides["pyarrow"] = (decoding(made.orc, made.table, names), _OURS_PASSES)
    costs = orc_costs.compare(sides, _REPEATS[full])
    return Result(
        case=case,
        ours=orc_costs.median_rate(costs[ours_by]),
        theirs=orc_costs.median_rate(costs[theirs_by]),
        unit="rows/CPU-s",
        ratio=orc_costs.median_ratio(costs[ours_by], costs[theirs_by]),
        answers_equal=_decoded_fingerprint(made, ours_by)
        == _decoded_fingerprint(made, theirs_by)
        == table_fingerprint(made.table, names),
        compared=(
            f"synthetic log of {made.table.num_rows:,} rows by user, all {len(names)} columns, what more passes cost, "
            f"{_REPEATS[full]} pairs in turn: {_DECODERS[ours_by]} against {_DECODERS[theirs_by]}\n"
            + orc_costs.table(costs)
        ),
    )


def _decoded_fingerprint(made: Source, decoder: Decoder) -> tuple[int, int]:
    if decoder == "pyarrow":
        return table_fingerprint(orc.ORCFile(made.orc).read(), made.table.column_names)
    return _reader_fingerprint(made, decoder)


def _same_rows(made: Source, names: Sequence[str]) -> bool:
    """Whether both sides give the same rows as the log has, ours also shuffled."""
    expected = table_fingerprint(made.table, names)
    text = fingerprint(text_dataset(str(made.text), made.table.schema, names, HASH_BUCKETS, BATCH_ROWS), names)
    shuffled = _reader_fingerprint(made, "tfio", names, shuffle_rows=SHUFFLE_ROWS)
    return expected == text == _reader_fingerprint(made, "tfio", names) == shuffled


def _reader_fingerprint(
    made: Source, reader: Readers, names: Sequence[str] | None = None, **more: Any
) -> tuple[int, int]:
    names = names or made.table.column_names
    with open_reader(spec(made.orc, made.table, names, reader=reader, **more)) as opened:
        return fingerprint((values for values, _ in opened.dataset), names)


def _one_percent(table: pa.Table) -> tuple[int, int]:
    times = table.column("timestamp")
    first = pc.min(times).as_py() + (pc.max(times).as_py() - pc.min(times).as_py()) // 2
    return first, first + round((pc.max(times).as_py() - pc.min(times).as_py()) * _SHARE_KEPT)


def _time_range(times: tuple[int, int]) -> where.Where:
    return where.parse(f"{times[0]} <= timestamp < {times[1]}")


def _drain(dataset: tf.data.Dataset, values_of: Callable[[Any], dict[str, tf.Tensor]]) -> None:
    """Takes every batch out of the dataset without Python, and looks at one column of it."""

    def count(total: tf.Tensor, batch: Any) -> tf.Tensor:
        column = next(iter(values_of(batch).values()))
        return total + tf.size(column.flat_values if isinstance(column, tf.RaggedTensor) else column, tf.int64)

    if int(dataset.reduce(tf.constant(0, tf.int64), tf.autograph.experimental.do_not_convert(count))) == 0:
        raise AssertionError("no value was read")
