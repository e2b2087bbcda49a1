"""Bytes per row of the same samples in each format and order."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.orc as orc

from data.orc_writer import Settings
from tests.bench.orc_answers import table_fingerprint
from tests.bench.orc_samples import (
    ORDERS,
    Order,
    Samples,
    as_text,
    write_orc,
    write_parquet,
    write_tfrecord,
    write_tfrecord_gzip,
)
from tests.bench.orc_tfrecord import text_dataset
from tests.bench.reporting import Result

ROWS = {False: 60_000, True: 240_000}
_MOVIELENS_ROWS = 100_000


class Sizes:
    """Bytes per row by format and order, measured when first asked for."""

    def __init__(self, samples: Samples, name: str, rows: int):
        self.samples = samples
        self.name = name
        self.rows = rows

    def of(self, kind: str, order: Order) -> float:
        """Bytes per row of `kind`, one of the names in `_KINDS`."""
        form, write = _KINDS[kind]
        # Records are of the same size in any order, unless they are compressed together.
        order = "time" if kind in ("TFRecord text", "TFRecord integers") else order
        file = f"{self.name}-{self.rows}-{order}-{kind}"
        table = self.samples.table(self.name, self.rows, order)
        return (
            self.samples.file(file, table, lambda rows, path: write(form(rows), path)).stat().st_size / table.num_rows
        )

    def table(self) -> str:
        """All formats in all orders, and where the difference comes from."""
        lines = [f"  {self.name}: bytes per row{'':20}" + "".join(f"{order:>10}" for order in ORDERS)]
        for kind in _KINDS:
            lines.append(f"  {kind:42}" + "".join(f"{self.of(kind, order):10.1f}" for order in ORDERS))
        return "\n".join([*lines, self._steps()])

    def _steps(self) -> str:
        steps: list[tuple[str, str, Order]] = [
            ("", "TFRecord text", "random"),
            ("integers instead of text, lists still text", "TFRecord integers, lists text", "random"),
            ("lists of integers", "TFRecord integers", "random"),
            ("columns, each in the bits it needs (ORC)", "ORC, not compressed", "random"),
            ("zstd", "ORC", "random"),
            ("order by time", "ORC", "time"),
            ("order by user and time", "ORC", "user"),
        ]
        sizes = [self.of(kind, order) for _, kind, order in steps]
        lines = [f"  {self.name}: {sizes[0]:.1f} bytes are {sizes[0] / sizes[-1]:.1f} times {sizes[-1]:.1f}, of which"]
        for (what, _, _), before, after in zip(steps[1:], sizes, sizes[1:]):
            lines.append(f"  {before / after:8.2f} times  {what}")
        return "\n".join(lines)

    def same_values(self, kind: str, order: Order) -> bool:
        """Whether the rows read back from our ORC are those that were given."""
        file = f"{self.name}-{self.rows}-{order}-{kind}"
        table = self.samples.table(self.name, self.rows, order)
        found = orc.ORCFile(self.samples.file(file, table, write_orc)).read()
        return table_fingerprint(found, table.column_names) == table_fingerprint(table, table.column_names)


def text_case(case: str, samples: Samples, order: Order, full: bool) -> Result:
    """Our ORC in one order against TFRecord text."""
    sizes = Sizes(samples, "synth", ROWS[full])
    return _result(case, sizes, order, ("TFRecord text", "time"), full)


def integers_gzip_case(case: str, samples: Samples, full: bool) -> Result:
    """Our ORC by user against TFRecord integers, GZIP, in its best order."""
    sizes = Sizes(samples, "synth", ROWS[full])
    theirs = min(ORDERS, key=lambda order: sizes.of("TFRecord integers, GZIP", order))
    return _result(case, sizes, "user", ("TFRecord integers, GZIP", theirs), full)


def _result(case: str, sizes: Sizes, order: Order, peer: tuple[str, Order], full: bool) -> Result:
    ours, theirs = sizes.of("ORC", order), sizes.of(*peer)
    lines = [f"synthetic log of {sizes.rows:,} rows, 37 columns: our ORC by {order} against {peer[0]}, order {peer[1]}"]
    if full:
        lines += [sizes.table(), Sizes(sizes.samples, "movielens", _MOVIELENS_ROWS).table()]
    return Result(
        case=case,
        ours=ours,
        theirs=theirs,
        unit="bytes/row",
        ratio=theirs / ours,
        answers_equal=sizes.same_values("ORC", order) and _text_is_whole(sizes, peer[0]),
        compared="\n".join(lines),
    )


def _text_is_whole(sizes: Sizes, kind: str) -> bool:
    """Whether the records of text hold every row: their number and, by `text_dataset`, the sum of all times."""
    if kind != "TFRecord text":
        return True
    table = sizes.samples.table(sizes.name, sizes.rows, "time")
    path = sizes.samples.file(f"{sizes.name}-{sizes.rows}-time-{kind}", table, write_tfrecord)
    names = ["timestamp", "label"]
    from tests.bench.orc_answers import fingerprint

    return fingerprint(text_dataset(str(path), table.schema, names, 2**63 - 1, 4096), names) == table_fingerprint(
        table, names
    )


def _lists_as_text(table: pa.Table) -> pa.Table:
    text = as_text(table)
    columns = [
        text.column(name) if pa.types.is_list(table.schema.field(name).type) else table.column(name)
        for name in table.column_names
    ]
    return pa.table(columns, names=table.column_names)


def _as_it_is(table: pa.Table) -> pa.Table:
    return table


def _orc_settings(settings: Settings) -> Callable[[pa.Table, str], None]:
    return lambda table, path: write_orc(table, path, settings)


_KINDS: dict[str, tuple[Callable[[pa.Table], pa.Table], Callable[[pa.Table, str], None]]] = {
    "TFRecord text": (as_text, write_tfrecord),
    "TFRecord text, GZIP": (as_text, write_tfrecord_gzip),
    "TFRecord integers, lists text": (_lists_as_text, write_tfrecord),
    "TFRecord integers": (_as_it_is, write_tfrecord),
    "TFRecord integers, GZIP": (_as_it_is, write_tfrecord_gzip),
    "Parquet zstd": (_as_it_is, write_parquet),
    "ORC, not compressed": (_as_it_is, _orc_settings(Settings(codec="none", strategy="compression"))),
    "ORC": (_as_it_is, write_orc),
}
