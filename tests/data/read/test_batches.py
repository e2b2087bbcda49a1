"""The rows, sizes and order of batches, against pyorc."""

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from data.columns import Column
from data.errors import DataError
from data.read.batches import Shard, batches
from data.read.part_reader import PartReader
from data.read.plan import plan
from data.read.read_spec import ReadSpec
from tests.data import orc_files

COLUMNS = (Column("id", "int64"), Column("score", "float32"), Column("items", "int64_list"))


class NoWatcher:
    def reading(self, part):
        pass

    def read(self, part):
        pass


def batches_of(spec, threads=1, exact=None):
    """The batches, by a plan of its own; `exact`: whether to skip by known counts."""
    shard = Shard.of(spec, plan(spec))
    if exact is False:
        shard = replace(shard, kept=None)
    for ready in batches(shard, threads, NoWatcher(), most_rows=20):
        assert 1 <= len(ready) <= max(20 // spec.batch_rows, 1)
        assert ready.rows.num_rows == len(ready) * ready.batch_rows
        ready.rows.validate(full=True)
        yield from (ready[i : i + 1] for i in range(len(ready)))


def rows_of(batch):
    return list(zip(*(column.to_pylist() for column in batch.rows.columns)))


def run(paths, columns, batch_rows, shard=0, num_shards=1, threads=1, **how):
    """The batches as (epoch, rows), rows as tuples of Python values."""
    spec = ReadSpec(tuple(paths), tuple(columns), batch_rows, shard, num_shards, **how)
    return [(batch.epoch, rows_of(batch)) for batch in batches_of(spec, threads)]


def ids(result):
    return [row[0] for _, rows in result for row in rows]


@pytest.fixture(scope="module")
def two_files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("two files")
    a = orc_files.numbered(folder / "a.orc", [40, 3, 25])
    b = orc_files.numbered(folder / "b.orc", [1, 31], start=68)
    return [a, b]


SCALARS = {
    "boolean": st.booleans(),
    "tinyint": st.integers(-128, 127),
    "smallint": st.integers(-(2**15), 2**15 - 1),
    "int": st.integers(-(2**31), 2**31 - 1),
    "bigint": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(width=32, allow_nan=False, allow_infinity=False),
}
KINDS = {**dict.fromkeys(("boolean", "tinyint", "smallint", "int", "bigint"), "int64"), "float": "float32"}


@st.composite
def files(draw):
    """(ORC schema, declared columns, stripes of rows): random types and names, nulls, lists."""
    names = draw(st.lists(st.text("abcXYZ_0é", min_size=1, max_size=5), min_size=1, max_size=5, unique=True))
    fields, columns, values = [], [], []
    for name in names:
        kind = draw(st.sampled_from(sorted(SCALARS)))
        value = SCALARS[kind]
        if kind not in ("boolean", "float") and draw(st.booleans()):
            fields.append(f"`{name}`:array<{kind}>")
            columns.append(Column(name, "int64_list", missing="empty"))
            values.append(st.none() | st.lists(value, max_size=4))
        else:
            fields.append(f"`{name}`:{kind}")
            columns.append(Column(name, KINDS[kind], missing=7))
            values.append(st.none() | value)
    rows = st.lists(st.tuples(*values), min_size=1, max_size=8)
    stripes = draw(st.lists(rows, min_size=1, max_size=4))
    wanted = draw(st.permutations(range(len(columns))))[: draw(st.integers(1, len(columns)))]
    return f"struct<{','.join(fields)}>", columns, stripes, wanted


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(file=files(), batch_rows=st.integers(1, 12))
def test_values_are_those_pyorc_reads_over_random_schemas(tmp_path, file, batch_rows):
    schema, columns, stripes, wanted = file
    path = orc_files.write(tmp_path / "random.orc", schema, stripes)
    expected = []
    for row in orc_files.read(path):
        filled = [(([] if columns[i].kind == "int64_list" else 7) if row[i] is None else row[i]) for i in wanted]
        expected.append(tuple(filled))
    result = run([path], [columns[i] for i in wanted], batch_rows)
    assert [row for _, rows in result for row in rows] == expected
    sizes = [len(rows) for _, rows in result]
    assert all(size == batch_rows for size in sizes[:-1]) and 0 < sizes[-1] <= batch_rows


@pytest.mark.parametrize("num_shards", range(1, 8))
def test_every_row_comes_exactly_once_over_all_shards(two_files, num_shards):
    shards = [run(two_files, COLUMNS, 7, shard, num_shards) for shard in range(num_shards)]
    assert sorted(i for result in shards for i in ids(result)) == list(range(100))
    for result in shards:
        assert all(row == orc_files.numbered_row(row[0]) for _, rows in result for row in rows)


def test_batches_have_the_exact_size_across_stripes_and_files_and_the_last_partial_one_is_kept(two_files):
    result = run(two_files, COLUMNS, 30)
    assert [len(rows) for _, rows in result] == [30, 30, 30, 10]
    assert ids(result) == list(range(100))


def test_an_epoch_ends_with_its_partial_batch_before_the_next_one_starts(two_files):
    result = run(two_files, COLUMNS, 40, epochs=3)
    assert [(epoch, len(rows)) for epoch, rows in result] == [(e, n) for e in range(3) for n in (40, 40, 20)]
    assert ids(result) == list(range(100)) * 3


@pytest.mark.parametrize("shuffle_rows", [1, 13, 40, 1000])
def test_shuffling_keeps_every_row_once_an_epoch_and_rows_whole(two_files, shuffle_rows):
    result = run(two_files, COLUMNS, 9, epochs=2, shuffle_rows=shuffle_rows, seed=3)
    for epoch in (0, 1):
        rows = [row for e, rows in result if e == epoch for row in rows]
        assert sorted(row[0] for row in rows) == list(range(100))
        assert all(row == orc_files.numbered_row(row[0]) for row in rows)
    sizes = [len(rows) for epoch, rows in result if epoch == 1]
    assert sizes == [9] * 11 + [1]


def test_shuffling_differs_by_epoch_and_seed_and_is_repeatable(two_files):
    first = run(two_files, COLUMNS, 10, epochs=2, shuffle_rows=50, seed=1)
    again = run(two_files, COLUMNS, 10, epochs=2, shuffle_rows=50, seed=1)
    other = run(two_files, COLUMNS, 10, epochs=2, shuffle_rows=50, seed=2)
    assert first == again
    assert ids(first)[:100] != ids(first)[100:]
    assert len({tuple(ids(r)[:100]) for r in (first, other)}) == 2
    assert ids(first)[:100] != list(range(100))


def test_the_shuffled_order_does_not_depend_on_the_batch_size(two_files):
    orders = [ids(run(two_files, COLUMNS, rows, shuffle_rows=33, seed=5)) for rows in (1, 8, 33, 64, 200)]
    assert all(order == orders[0] for order in orders)


def test_shuffling_moves_rows_across_stripes_within_the_window_only(two_files):
    order = ids(run(two_files, COLUMNS, 10, shuffle_rows=50, seed=1, interleave_stripes=1))
    stripes = [range(40), range(40, 43), range(43, 68), range(68, 69), range(69, 100)]
    sources = [{next(n for n, s in enumerate(stripes) if i in s) for i in order[k : k + 10]} for k in range(0, 100, 10)]
    assert max(len(source) for source in sources) > 1
    # The order of the stripes decides what the first window holds: whole stripes, and one cut by its end.
    cut = [s for s in stripes if 0 < len(set(s) & set(order[:50])) < len(s)]
    assert len(cut) <= 1


def test_a_wrong_value_is_named_by_its_row_in_the_file_in_any_stripe_and_shard(tmp_path):
    rows = [(i,) for i in range(30)]
    rows[23] = (None,)
    path = orc_files.write(tmp_path / "a.orc", "struct<id:bigint>", [rows[:8], rows[8:20], rows[20:]])
    failures = []
    for shard in range(4):
        try:
            run([path], [Column("id", "int64")], 4, shard, 4)
        except DataError as error:
            failures.append(str(error))
    assert len(failures) == 1
    assert failures[0].startswith(f"{path}: column id: row 23 (counted from 0): expected an integer, found null")


def test_a_null_in_a_column_that_was_not_declared_is_nobodys_business(tmp_path):
    path = orc_files.write(tmp_path / "a.orc", "struct<id:bigint,x:string,y:map<string,int>>", [[(1, None, None)]])
    assert ids(run([path], [Column("id", "int64")], 4)) == [1]


def test_a_damaged_stripe_is_named(tmp_path):
    path = orc_files.numbered(tmp_path / "a.orc", [50, 50, 50])
    orc_files.damage_stripe(path, 1)
    with pytest.raises(DataError, match=r"a\.orc: stripe 1 \(rows 50 to 99, .*\): expected a readable stripe, found: "):
        run([path], COLUMNS, 10)


def test_a_file_that_changed_after_the_check_is_named(tmp_path):
    path = orc_files.numbered(tmp_path / "a.orc", [50])
    spec = ReadSpec((path,), COLUMNS, 10)
    parts = plan(spec).parts
    orc_files.numbered(tmp_path / "a.orc", [40])
    with pytest.raises(DataError, match="expected 50 rows, found 40; the file changed"):
        PartReader(spec).read(parts)
    orc_files.write(tmp_path / "a.orc", "struct<id:string,score:float,items:array<int>>", [[("x", 1.0, [])] * 50])
    with pytest.raises(DataError, match="column id: expected an integer or boolean, found string; the file changed"):
        PartReader(spec).read(parts)
    (tmp_path / "a.orc").unlink()
    with pytest.raises(DataError, match=r"stripe 0 .* found: .*No such file"):
        PartReader(spec).read(parts)
