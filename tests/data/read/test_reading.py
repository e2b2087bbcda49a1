"""Everything a shard reads, against plain Python over pyorc: order, batches, filters, positions, counts."""

import math
from dataclasses import dataclass, replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from data.columns import Column
from data.errors import DataError
from data.read.batches import Shard, batches
from data.read.plan import plan
from data.read.read_spec import Position, ReadSpec
from data.where import parse
from tests.data import orc_files
from tests.data.plain_reader import read_plainly
from tests.data.read.test_batches import NoWatcher

COLUMNS = (
    Column("items", "int64_list", missing="empty", max_length=2),
    Column("id", "int64"),
    Column("score", "float32", missing=0.5),
)
SCHEMA = "struct<id:bigint,score:float,items:array<bigint>,day:int>"
CONDITIONS = {
    None: lambda row: True,
    "day >= 3 and id not in (31, 35)": lambda row: row["day"] >= 3 and row["id"] not in (31, 35),
    "score > 2": lambda row: row["score"] is not None and row["score"] > 2,
    "day in (1, 4)": lambda row: row["day"] in (1, 4),
    "id < 0": lambda row: False,
}


def row_of(i, bad):
    """The row with id i; `bad`: some have values that are wrong in any case."""
    score = None if i % 7 == 3 else math.nan if bad and i % 11 == 5 else i / 4
    items = None if i % 5 == 2 else list(range(i, i + i % 4))
    if bad and i % 13 == 6 and items:
        items[0] = None
    return i, score, items, i // 10


@dataclass(frozen=True)
class Layout:
    """Rows of the stripes of each file, and the spec without paths."""

    files: list
    spec: ReadSpec
    condition: str | None
    bad: bool

    def write(self, folder):
        """The files on disk, and the spec that reads them."""
        start, paths = 0, []
        for number, stripes in enumerate(self.files):
            rows = []
            for count in stripes:
                rows.append([row_of(i, self.bad) for i in range(start, start + count)])
                start += count
            paths.append(orc_files.write(folder / f"{number}.orc", SCHEMA, rows))
        return replace(self.spec, paths=tuple(paths))


@st.composite
def layouts(draw):
    files = draw(st.lists(st.lists(st.integers(1, 25), min_size=1, max_size=6), min_size=1, max_size=3))
    condition = draw(st.sampled_from(list(CONDITIONS)))
    num_shards = draw(st.integers(1, 7))
    bad = draw(st.booleans())
    spec = ReadSpec(
        (),
        COLUMNS,
        draw(st.integers(1, 30)),
        draw(st.integers(0, num_shards - 1)),
        num_shards,
        epochs=draw(st.integers(1, 3)),
        shuffle_rows=draw(st.sampled_from((0, 0, 1, 7, 20, 1000))),
        seed=draw(st.integers(0, 5)),
        where=parse(condition) if condition else None,
        interleave_stripes=draw(st.integers(1, 5)),
        stripe_slices=draw(st.integers(1, 4)),
        drop_remainder=draw(st.booleans()),
        on_bad="skip" if bad else draw(st.sampled_from(("error", "skip"))),
    )
    return Layout(files, spec, condition, bad)


def read(spec, threads=1):
    """(epoch, rows, counts) of each batch."""
    found = []
    for ready in batches(Shard.of(spec, plan(spec)), threads, NoWatcher(), most_rows=3 * spec.batch_rows):
        ready.rows.validate(full=True)
        for batch in (ready[i : i + 1] for i in range(len(ready))):
            columns = [column.to_pylist() for column in batch.rows.columns]
            rows = [tuple(tuple(v) if isinstance(v, list) else v for v in row) for row in zip(*columns)]
            found.append((batch.epoch, rows, batch.counts[0].tolist()))
    return found


def plainly(layout, spec, lost_stripes=()):
    whole = plan(replace(spec, shard=0, num_shards=1, stripe_slices=1))
    ranges = [(part.stripe.path, part.stripe.index, part.start, part.rows) for part in whole.parts]
    return read_plainly(spec, CONDITIONS[layout.condition], lost_stripes, ranges)


FIXTURE = [HealthCheck.function_scoped_fixture]


@settings(max_examples=120, deadline=None, suppress_health_check=FIXTURE)
@given(layout=layouts(), threads=st.sampled_from((1, 2, 4)))
def test_batches_and_counts_are_those_of_the_definition(tmp_path, layout, threads):
    spec = layout.write(tmp_path)
    assert read(spec, threads) == plainly(layout, spec).batches


@settings(max_examples=60, deadline=None, suppress_health_check=FIXTURE)
@given(layout=layouts())
def test_a_plan_knows_the_rows_and_batches_and_never_too_few(tmp_path, layout):
    spec = layout.write(tmp_path)
    planned, expected = plan(spec), plainly(layout, spec)
    rows, count = len(expected.rows[0]), len(expected.batches)
    if planned.exact:
        assert (planned.rows, planned.batches) == (rows, count)
    else:
        assert planned.rows >= rows and planned.batches >= count


@settings(max_examples=40, deadline=None, suppress_health_check=FIXTURE)
@given(layout=layouts())
def test_all_shards_together_read_what_the_condition_keeps_once(tmp_path, layout):
    spec = replace(layout.write(tmp_path), drop_remainder=False, epochs=1)
    found = [
        row[1] for shard in range(spec.num_shards) for _, rows, _ in read(replace(spec, shard=shard)) for row in rows
    ]
    keep, ids = CONDITIONS[layout.condition], []
    for path in spec.paths:
        for id_, score, items, day in orc_files.read(path):
            row = {"id": id_, "score": score, "items": items, "day": day}
            wrong = (score is not None and math.isnan(score)) or (items is not None and None in items)
            ids += [id_] * (keep(row) and not wrong)
    assert sorted(found) == sorted(ids)


@settings(max_examples=100, deadline=None, suppress_health_check=FIXTURE)
@given(layout=layouts(), data=st.data())
def test_from_any_position_comes_exactly_the_rest(tmp_path, layout, data):
    spec = replace(layout.write(tmp_path), drop_remainder=False)
    epochs = plainly(layout, spec).rows
    epoch = data.draw(st.integers(0, spec.epochs - 1))
    row = data.draw(st.integers(0, len(epochs[epoch])))
    rest = replace(spec, start=Position(epoch, row))
    found = read(rest)
    expected = [(epoch, r) for r in epochs[epoch][row:]]
    expected += [(e, r) for e in range(epoch + 1, spec.epochs) for r in epochs[e]]
    assert [(e, r) for e, rows, _ in found for r in rows] == expected
    sizes = [len(rows) for e, rows, _ in found if e == epoch]
    assert all(size == spec.batch_rows for size in sizes[:-1])
    planned = plan(rest)
    assert planned.batches == len(found) or not planned.exact


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"shuffle_rows": 64},
        {"where": parse("id not in (3, 4, 40)")},
        {"shuffle_rows": 64, "where": parse("day != 2")},
    ],
)
def test_a_position_skips_stripes_without_decoding_them(tmp_path, how):
    path = orc_files.write(
        tmp_path / "a.orc", SCHEMA, [[row_of(i, False) for i in range(k, k + 10)] for k in range(0, 400, 10)]
    )
    decoded = []

    class Watcher(NoWatcher):
        def reading(self, part):
            decoded.append(part)

    spec = ReadSpec((path,), COLUMNS, 10, start=Position(0, 300), **how)
    rows = [row for batch in batches(Shard.of(spec, plan(spec)), 1, Watcher()) for row in batch.rows.to_pylist()]
    whole = replace(spec, start=Position())
    everything = [
        row for batch in batches(Shard.of(whole, plan(whole)), 1, NoWatcher()) for row in batch.rows.to_pylist()
    ]
    assert rows == everything[300:]


def test_a_position_behind_the_end_is_refused(tmp_path):
    path = orc_files.numbered(tmp_path / "a.orc", [10, 10])
    columns = (Column("id", "int64"),)
    with pytest.raises(DataError, match=r"a\.orc: expected at least 21 rows in a pass, to go on behind them, found 20"):
        plan(ReadSpec((path,), columns, 5, start=Position(0, 21)))
    for shuffle_rows in (0, 7, 100):
        spec = ReadSpec((path,), columns, 5, start=Position(0, 21), on_bad="skip", shuffle_rows=shuffle_rows)
        with pytest.raises(DataError, match="expected at least 21 rows in epoch 0, to go on behind them, found 20"):
            read(spec)


def test_nulls_are_counted_by_column(tmp_path):
    path = orc_files.write(tmp_path / "a.orc", SCHEMA, [[row_of(i, False) for i in range(k, k + 50)] for k in (0, 50)])
    total = [0] * 4
    for _, _, counts in read(ReadSpec((path,), COLUMNS, 16, epochs=2)):
        total = [a + b for a, b in zip(total, counts)]
    nulls = [sum(row[i] is None for row in orc_files.read(path)) for i in (2, 0, 1)]
    assert total == [0, *(2 * count for count in nulls)] and total[1] and total[3]


@settings(max_examples=40, deadline=None, suppress_health_check=FIXTURE)
@given(layout=layouts(), data=st.data())
def test_a_damaged_stripe_is_left_out_whole_and_counted(tmp_path, layout, data):
    spec = replace(layout.write(tmp_path), on_bad="skip")
    number = data.draw(st.integers(0, len(spec.paths) - 1))
    index = data.draw(st.integers(0, len(layout.files[number]) - 1))
    expected = read_plainly(
        spec,
        CONDITIONS[layout.condition],
        [(spec.paths[number], index)],
        [
            (p.stripe.path, p.stripe.index, p.start, p.rows)
            for p in plan(replace(spec, shard=0, num_shards=1, stripe_slices=1)).parts
        ],
        "id",
    )
    orc_files.damage_column(spec.paths[number], index, "id")
    assert read(spec) == expected.batches
