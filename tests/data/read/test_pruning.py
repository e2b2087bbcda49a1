"""Pruning drops no row that a condition keeps, and does drop what statistics and bloom filters exclude."""

from __future__ import annotations

import tempfile

import numpy as np
import pyarrow as pa
import pyorc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import orc

from data.errors import DataError
from data.files import open_input
from data.format.tail import column_id, read_tail, stripe_streams
from data.orc_writer import OrcWriter, Settings
from data.read import pruning
from data.read.footers import read_footer
from data.read.pruning import Pruned, prune, prune_each
from data.where import mask, parse
from tests.data import orc_files
from tests.data.test_where import ROW, TREES, TYPES, arrays, text_of, truth

ORC_SCHEMA = "struct<i:bigint,s:tinyint,b:boolean,f:float,d:double>"
STRIDES = st.sampled_from([1, 3, 10, 1000])


def write_pyorc(path, stripes, stride=3, bloom=()):
    with (
        open(path, "wb") as file,
        pyorc.Writer(
            file, ORC_SCHEMA, batch_size=1, row_index_stride=stride, bloom_filter_columns=list(bloom)
        ) as writer,
    ):
        for number, rows in enumerate(stripes):
            if number:
                writer.write_intermediate_footer()
            writer.writerows([tuple(row[name] for name in TYPES) for row in rows])
    return str(path)


def pruned(path, text):
    footer = read_footer(path)
    with open_input(path) as file:
        tail = read_tail(file, path)
    return footer, prune(footer, tail, parse(text))


def check_parts(footer, parts, stride):
    """Parts lie in order in their stripes, begin at row groups, and adjacent ones are one."""
    end = {stripe.index: 0 for stripe in footer.stripes}
    assert [part.stripe.index for part in parts] == sorted(part.stripe.index for part in parts)
    for part in parts:
        assert part.stripe == footer.stripes[part.stripe.index]
        assert part.rows > 0
        assert part.start == 0 or part.start > end[part.stripe.index]
        end[part.stripe.index] = part.start + part.rows
        assert end[part.stripe.index] <= part.stripe.rows
        assert part.start % stride == 0
        assert end[part.stripe.index] % stride == 0 or end[part.stripe.index] == part.stripe.rows


def rows_of(parts) -> set[int]:
    first = [part.stripe.first_row + part.start for part in parts]
    return {row for start, part in zip(first, parts) for row in range(start, start + part.rows)}


# Rows that lie together are alike, so that something can be skipped.
RUNS = st.lists(st.tuples(ROW, st.integers(1, 6)), min_size=1, max_size=6).map(
    lambda runs: [row for row, count in runs for _ in range(count)]
)
MIXED = st.one_of(RUNS, st.lists(ROW, min_size=1, max_size=30))


@given(TREES, st.lists(MIXED, min_size=1, max_size=3), STRIDES, st.booleans())
@settings(deadline=None, max_examples=200)
def test_no_matching_row_of_pyorcs_files_is_dropped(tree, stripes, stride, bloom):
    with tempfile.TemporaryDirectory() as folder:
        path = write_pyorc(f"{folder}/a.orc", stripes, stride, range(1, 6) if bloom else ())
        footer, parts = pruned(path, text_of(tree))
    check_parts(footer, parts, stride)
    rows = [row for stripe in stripes for row in stripe]
    assert {number for number, row in enumerate(rows) if truth(tree, row) is True} <= rows_of(parts)


@given(TREES, MIXED, STRIDES, st.booleans(), st.sampled_from(["uncompressed", "zstd"]))
@settings(deadline=None, max_examples=200)
def test_no_matching_row_of_arrows_files_is_dropped(tree, rows, stride, bloom, codec):
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/a.orc"
        filters = list(range(1, 6)) if bloom else None
        orc.write_table(
            pa.table(arrays(rows)), path, compression=codec, row_index_stride=stride, bloom_filter_columns=filters
        )
        footer, parts = pruned(path, text_of(tree))
    check_parts(footer, parts, stride)
    assert {number for number, row in enumerate(rows) if truth(tree, row) is True} <= rows_of(parts)


GROUP = 512  # pyarrow hands over 1,024 rows at once, after which a stripe may end


def large(tmp_path, bloom=True, seed=0):
    """20 stripes of two row groups each: a day is a row group, users are random, scores hold nulls and NaN."""
    rng = np.random.default_rng(seed)
    rows = 40 * GROUP
    score = rng.normal(size=rows).astype(np.float32)
    score[rng.random(rows) < 0.0003] = np.nan
    table = pa.table(
        {
            "day": np.arange(rows) // GROUP,
            "user": rng.integers(0, 2**62, rows),
            "score": pa.array(score, mask=rng.random(rows) < 0.1),
            "rare": pa.array(np.ones(rows, np.int32), mask=np.arange(rows) // (2 * GROUP) != 7),
        }
    )
    path = str(tmp_path / "large.orc")
    orc.write_table(
        table,
        path,
        compression="uncompressed",
        stripe_size=1 << 16,
        row_index_stride=GROUP,
        bloom_filter_columns=[2, 3] if bloom else None,
        bloom_filter_fpp=0.001,
    )
    return path, table


def columns_of(table):
    return {name: table[name].combine_chunks() for name in table.column_names}


@pytest.mark.parametrize(
    "text",
    [
        "day == 7",
        "day in (3, 7, 1000) and score > 0",
        "not (day >= 5 and day <= 30)",
        "3 <= day < 6",
        "day > 1000",
        "day >= 0",
        "rare is not None",
        "rare is None",
        "rare == 1",
        "score > 3.2",
        "score != 0 and day < 2",
        "score is None and day == 3",
        "day == 2.5",
        "day < 2.5 or day > 37.5",
        "not day != 7",
    ],
)
def test_what_is_left_holds_all_that_match_and_not_much_else(tmp_path, text):
    path, table = large(tmp_path)
    footer, parts = pruned(path, text)
    assert len(footer.stripes) == 20
    check_parts(footer, parts, GROUP)
    expected = set(np.flatnonzero(mask(parse(text), columns_of(table))).tolist())
    assert expected <= rows_of(parts)
    if "score" not in text:
        # Days and `rare` are constant in a row group: statistics of row groups decide exactly.
        assert rows_of(parts) == expected


def test_a_stripe_that_matches_whole_is_one_part(tmp_path):
    path, _ = large(tmp_path)
    footer, parts = pruned(path, "day >= 0")
    assert [(part.start, part.rows) for part in parts] == [(0, stripe.rows) for stripe in footer.stripes]


@pytest.mark.parametrize("bloom", [True, False])
def test_bloom_filters_find_a_user_among_random_ones(tmp_path, bloom):
    path, table = large(tmp_path, bloom)
    user = table["user"][12_345].as_py()
    other = user + 1 if user + 1 not in table["user"].to_pylist() else user + 2
    footer, parts = pruned(path, f"user in ({user}, {other})")
    total = sum(stripe.rows for stripe in footer.stripes)
    assert 12_345 in rows_of(parts)
    found = len(rows_of(parts))
    assert found <= 3 * GROUP if bloom else found == total
    _, parts = pruned(path, f"not user != {user} and day >= 24")
    assert 12_345 in rows_of(parts)
    assert len(rows_of(parts)) <= 3 * GROUP if bloom else len(rows_of(parts)) == 16 * GROUP
    # What must not be equal tells a filter nothing.
    assert len(rows_of(pruned(path, f"user != {user}")[1])) == total


def test_bloom_filters_of_floats_find_the_stored_value_only(tmp_path):
    path, table = large(tmp_path)
    score = next(s for s in table["score"].to_pylist()[5000:] if s is not None and s == s)
    _, parts = pruned(path, f"score == {score!r}")
    matching = mask(parse(f"score == {score!r}"), columns_of(table))
    assert set(np.flatnonzero(matching).tolist()) <= rows_of(parts)
    assert 0 < len(rows_of(parts)) <= 3 * GROUP
    assert len(rows_of(pruned(path, "score == 0.1")[1])) <= GROUP  # float32 cannot hold it


def test_a_filter_is_not_asked_for_more_values_than_a_row_group_has(tmp_path):
    path, _ = large(tmp_path)
    users = ", ".join(str(user) for user in range(0, 2**62, 2**62 // 5000))
    footer, parts = pruned(path, f"user in ({users})")
    assert len(rows_of(parts)) == sum(stripe.rows for stripe in footer.stripes)


def test_nan_hides_no_other_value(tmp_path):
    nan = float("nan")
    row = {"i": 0, "s": 0, "b": True, "f": 0.0, "d": 0.0}
    first = [{**row, "f": nan, "d": nan}, {**row, "f": 5.0, "d": 5.0}]
    last = [{**row, "f": 5.0, "d": 5.0}, {**row, "f": nan, "d": nan}]
    path = write_pyorc(tmp_path / "a.orc", [first, last, [{**row}] * 2], 2)
    for column in "fd":
        for text in (f"{column} == 5", f"{column} > 1", f"not {column} < 1", f"{column} != 0"):
            assert rows_of(pruned(path, text)[1]) == {0, 1, 2, 3}


def test_the_index_is_read_only_where_the_stripes_statistics_do_not_decide(tmp_path, monkeypatch):
    path, _ = large(tmp_path)
    opened = []
    monkeypatch.setattr(pruning, "open_input", lambda path: opened.append(path) or open_input(path))
    pruned(path, "day >= 0 and rare is None or rare == 1")
    opened.clear()
    for text in ("day > 1000", "day >= 0", "day is not None", "not day is None"):
        pruned(path, text)
    assert opened == []
    pruned(path, "day == 7")
    assert opened == [path]


def test_a_file_without_row_index_or_statistics_is_kept_whole(tmp_path):
    path = str(tmp_path / "a.orc")
    with open(path, "wb") as file, pyorc.Writer(file, "struct<x:bigint,t:timestamp>", row_index_stride=0) as writer:
        writer.writerows([(i, None) for i in range(100)])
    footer, parts = pruned(path, "x == 50")
    assert rows_of(parts) == set(range(100))
    footer, parts = pruned(path, "x == 500")
    assert parts == []
    with open_input(path) as file:
        tail = read_tail(file, path)
    bare = tail.__class__(**{**tail.__dict__, "stripe_statistics": (), "column_statistics": ()})
    assert rows_of(prune(footer, bare, parse("x == 500"))) == set(range(100))


def test_an_empty_file_gives_no_part(tmp_path):
    path = write_pyorc(tmp_path / "a.orc", [])
    assert pruned(path, "i == 1")[1] == []
    assert pruned(path, "i is None")[1] == []


def test_a_damaged_index_is_named(tmp_path):
    path, _ = large(tmp_path)
    with open_input(path) as file:
        stripe = read_tail(file, path).stripes[1]
    with open(path, "r+b") as file:
        file.seek(stripe.offset)
        file.write(b"\xff" * stripe.index_bytes)
    with pytest.raises(DataError, match=rf"^{path}: .*stripe 1"):
        pruned(path, f"user == {2**61}")
    (found,) = prune_each([read_footer(path)], parse(f"user == {2**61}"))
    assert isinstance(found, DataError) and str(found).startswith(f"{path}: ")
    ((parts, summary),) = prune_each([read_footer(path)], parse(f"user == {2**61}"), keep_damaged=True)
    assert [(part.stripe.index, part.start, part.rows) for part in parts] == [(1, 0, 2 * GROUP)]
    assert (summary.stripes_left, summary.row_groups_left, summary.rows_left) == (1, 2, 2 * GROUP)


@pytest.mark.parametrize("group", [0, 1])
def test_an_index_that_was_exchanged_for_a_valid_one_is_found_by_its_checksum(tmp_path, group):
    """The indexes of two stripes, one of which would hide the row that is asked for."""
    path = str(tmp_path / "a.orc")
    day = np.repeat([1, 9], 50)
    table = pa.table({"day": np.concatenate([day, day])})
    table = table.set_column(0, "day", pa.array([5 if i == 150 - group else d for i, d in enumerate(day.tolist() * 2)]))
    settings = Settings(codec="none", stripe_rows=100, row_index_stride=10)
    with OrcWriter(path, table.schema, settings=settings) as writer:
        writer.write(table)
    assert 150 - group in rows_of(prune_each([read_footer(path)], parse("day == 5"))[0][0])
    with open_input(path) as file:
        tail = read_tail(file, path)
        first, second = (
            next(s for s in stripe_streams(file, tail, n) if s.is_index and s.column == column_id(tail, "day"))
            for n in (0, 1)
        )
        content = file.read_at(first.bytes, first.offset)
    assert first.bytes == second.bytes
    with open(path, "r+b") as file:
        file.seek(second.offset)
        file.write(content)
    ((parts, _),) = prune_each([read_footer(path)], parse("day == 5"), verify=False)
    assert parts == []
    (found,) = prune_each([read_footer(path)], parse("day == 5"))
    assert str(found).startswith(f"{path}: stripe 1: column day (index): expected CRC ")
    ((parts, _),) = prune_each([read_footer(path)], parse("day == 5"), keep_damaged=True)
    assert [(part.stripe.index, part.start, part.rows) for part in parts] == [(1, 0, 100)]


def test_several_files_are_pruned_in_order_and_summed_up(tmp_path):
    paths = [orc_files.numbered(tmp_path / f"{i}.orc", [50, 30], start=100 * i) for i in range(5)]
    footers = [read_footer(path) for path in paths]
    results = prune_each(footers, parse("60 <= id < 130 or id == 399 or id == 310"))
    parts = [part for parts, _ in results for part in parts]
    summary = sum((summary for _, summary in results), start=Pruned())
    assert [(part.stripe.path, part.stripe.index) for part in parts] == [(paths[0], 1), (paths[1], 0), (paths[3], 0)]
    assert summary == Pruned(
        files=5,
        files_left=3,
        stripes=10,
        stripes_left=3,
        row_groups=10,
        row_groups_left=3,
        rows=400,
        rows_left=130,
    )
    assert prune_each([], parse("id > 1")) == []
