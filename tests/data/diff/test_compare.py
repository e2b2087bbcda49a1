"""Differences between two sets, against a comparison in plain Python."""

from __future__ import annotations

import math
import os
import tempfile
from collections import defaultdict
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import orc

from data.diff import chunks as diff_chunks
from data.diff.compare import Place, diff
from data.diff.pairs import pairs
from data.errors import DataError
from tests.data import orc_files

TYPES = {"k": pa.int64(), "t": pa.float64(), "v": pa.int32(), "l": pa.list_(pa.int64()), "s": pa.string()}
SCHEMA = "struct<k:bigint,t:double,v:int,l:array<bigint>,s:string>"
ROW = st.tuples(
    st.none() | st.integers(0, 4),
    st.none() | st.sampled_from([0.0, 1.5, float("nan"), float("inf")]),
    st.none() | st.integers(0, 2),
    st.none() | st.lists(st.none() | st.integers(0, 1), max_size=2),
    st.none() | st.sampled_from(["", "x"]),
)
ROWS = st.lists(ROW, max_size=25)


def plain(row):
    """The row, comparable with ==."""
    return tuple(
        "nan" if isinstance(v, float) and math.isnan(v) else tuple(v) if isinstance(v, list) else v for v in row
    )


def expected(a, b, key):
    """Rows that are the same, changed rows, changes by column, and the rows that only A and only B has."""
    names = list(TYPES)
    places = [names.index(name) for name in key] or list(range(len(names)))
    others = [i for i in range(len(names)) if i not in places]
    groups = defaultdict(lambda: ([], []))
    for side, rows in enumerate((a, b)):
        for number, row in enumerate(rows):
            groups[tuple(plain(row)[i] for i in places)][side].append((number, plain(row)))
    same = changed = 0
    columns = {names[i]: [] for i in others}
    lone = ([], [])
    for rows_a, rows_b in groups.values():
        left_b = list(rows_b)
        left_a = []
        for number, row in rows_a:
            partner = next((one for one in left_b if one[1] == row), None)
            if partner is None:
                left_a.append((number, row))
            else:
                left_b.remove(partner)
                same += 1
        for (number_a, row_a), (number_b, row_b) in zip(left_a, left_b):
            changed += 1
            for i in others:
                if row_a[i] != row_b[i]:
                    columns[names[i]].append((number_a, number_b))
        count = min(len(left_a), len(left_b))
        lone[0].extend(number for number, _ in left_a[count:])
        lone[1].extend(number for number, _ in left_b[count:])
    return same, changed, {name: sorted(found) for name, found in columns.items()}, sorted(lone[0]), sorted(lone[1])


def write(folder, name, rows, sizes=(1000,)):
    """Files of stripes of these sizes, two stripes a file; the paths and where each file begins."""
    stripes, start = [], 0
    while start < len(rows) or not stripes:
        size = sizes[len(stripes) % len(sizes)]
        stripes.append(rows[start : start + size])
        start += size
    paths = []
    for number in range(0, len(stripes), 2):
        paths.append(orc_files.write(Path(folder) / f"{name}{number}.orc", SCHEMA, stripes[number : number + 2]))
    return paths


def check(found, a, b, key, paths_a, paths_b):
    same, changed, columns, only_a, only_b = expected(a, b, key)
    assert (found.rows_a, found.rows_b, found.same, found.changed) == (len(a), len(b), same, changed)
    assert (found.only_a, found.only_b) == (len(only_a), len(only_b))
    assert found.columns == {name: len(rows) for name, rows in columns.items()}
    assert found.equal == (not (changed or only_a or only_b))
    first_rows = {}
    for paths in (paths_a, paths_b):
        first = 0
        for path in paths:
            first_rows[path] = first
            first += sum(orc_files.stripe_rows(path))

    def number(place):
        return first_rows[place.path] + place.row

    for name, rows in columns.items():
        shown = found.changes.get(name, ())
        assert [(number(change.place_a), number(change.place_b)) for change in shown] == rows[:3]
        i = list(TYPES).index(name)
        for change, (row_a, row_b) in zip(shown, rows):
            assert plain((change.a, change.b)) == (plain(a[row_a])[i], plain(b[row_b])[i])
            assert plain(change.key.values()) == tuple(plain(a[row_a])[list(TYPES).index(n)] for n in found.key)
    assert [number(lone.place) for lone in found.lone_a] == only_a[:3]
    assert [number(lone.place) for lone in found.lone_b] == only_b[:3]


def order_key(row):
    """Nulls first, NaN last, like a sorted file."""
    return [(v is not None, math.inf if isinstance(v, float) and math.isnan(v) else v or 0) for v in row[:2]]


@given(
    ROWS,
    st.lists(st.tuples(st.integers(0, 30), ROW | st.none()), max_size=5),
    st.sampled_from([(), ("k",), ("k", "t"), ("t", "k"), ("l",), ("s", "v"), ("k", "t", "v", "l", "s")]),
    st.sampled_from(["merge", "memory", "files"]),
    st.lists(st.integers(1, 9), min_size=1, max_size=3),
    st.randoms(use_true_random=False),
)
@settings(deadline=None, max_examples=60)
def test_what_differs_is_what_python_finds(rows, edits, key, way, sizes, random):
    a, b = list(rows), list(rows)
    for position, row in edits:
        if row is None:
            del b[position : position + 1]
        else:
            b[position : position + random.randint(0, 1)] = [row]
    if way == "merge":
        key = ("k", "t")
        a, b = sorted(a, key=order_key), sorted(b, key=order_key)
    else:
        random.shuffle(b)
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        if way == "files":
            patch.setattr(diff_chunks, "PART_BYTES", 200)
        paths = write(folder, "a", a, sizes), write(folder, "b", b, sizes[::-1])
        found = diff(*paths, key)
        if way == "merge":
            assert found.is_merged
        check(found, a, b, key, *paths)
        assert sorted(os.listdir(folder)) == sorted(os.path.basename(p) for side in paths for p in side)


def test_pairs_are_one_to_one_and_in_order():
    a = np.array([5, 7, 5, 5, 9], np.uint64)
    b = np.array([5, 9, 9, 5, 8], np.uint64)
    found = pairs((a,), (b,))
    assert sorted(zip(found.a.tolist(), found.b.tolist())) == [(0, 0), (2, 3), (4, 1)]
    assert (found.left_a.tolist(), found.left_b.tolist()) == ([1, 3], [2, 4])


def table(tmp_path, name, **columns):
    path = str(tmp_path / f"{name}.orc")
    orc.write_table(pa.table(columns), path)
    return path


def test_columns_whose_values_cannot_be_compared_are_told_and_no_equality_is_claimed(tmp_path):
    path = str(tmp_path / "a.orc")
    kind = "struct<k:int,u:uniontype<int,string>,l:array<uniontype<int,string>>>"
    orc_files.write(tmp_path / "a.orc", kind, [[(1, "x", ["y"])]])
    for key in ((), ("k",)):
        found = diff([path], [path], key)
        assert not found.equal and found.same == 1
        assert [line.split(":")[0] for line in found.schema] == ["column u", "column l"]
        assert all(line.endswith("; not compared") for line in found.schema)


def test_the_width_of_a_type_is_a_note_and_no_difference(tmp_path):
    a = table(tmp_path, "a", x=pa.array([1, 2], pa.int8()), y=pa.array([0.5, None], pa.float32()))
    b = table(tmp_path, "b", y=pa.array([0.5, None]), x=pa.array([1, 2]))
    found = diff([a], [b], ["x"])
    assert found.equal
    assert found.notes == ("column x: int8 in A, int64 in B", "column y: float in A, double in B")


def test_other_columns_and_types_are_differences(tmp_path):
    a = table(tmp_path, "a", x=[1, 2], y=[1, 2], z=[1, 2])
    b = table(tmp_path, "b", x=[1, 2], y=["1", "2"], w=[[1], [2]])
    found = diff([a], [b], ["x"])
    assert not found.equal
    assert found.same == 2
    assert found.schema == (
        "column y: int64 in A, string in B; not compared",
        "column z: int64 in A, none in B",
        "column w: none in A, list<item: int64> in B",
    )
    c = table(tmp_path, "c", q=[1])
    nothing = diff([a], [c])
    assert (nothing.same, nothing.equal) == (0, False)


@pytest.mark.parametrize(
    ("key", "message"),
    [
        (["z"], "--key: column z: expected in both sets, found none in B; both have: x"),
        (["q"], "--key: column q: expected in both sets, found none in A and B; both have: x"),
        (["y"], "--key: column y: expected the same type of values in both sets, found int64 in A, string in B"),
        (["x", "x"], "--key: expected each column once, found x, x"),
    ],
)
def test_a_key_must_be_in_both_sets(tmp_path, key, message):
    a, b = table(tmp_path, "a", x=[1], y=[1], z=[1]), table(tmp_path, "b", x=[1], y=["1"])
    with pytest.raises(DataError) as error:
        diff([a], [b], key)
    assert str(error.value) == message


def test_files_of_one_set_must_be_alike(tmp_path):
    a, b = table(tmp_path, "a", x=[1], y=[1]), table(tmp_path, "b", x=[1.0], z=[1])
    with pytest.raises(DataError) as error:
        diff([a, b], [a])
    assert str(error.value).splitlines() == [
        f"{b}: column x: expected int64 as in {a}, found double",
        f"{b}: column y: expected int64 as in {a}, found none",
        f"{b}: column z: expected none as in {a}, found int64",
    ]


def test_all_bad_files_are_named(tmp_path):
    a = table(tmp_path, "a", x=[1])
    with pytest.raises(DataError, match=f"^{tmp_path}/no.orc: expected an ORC file, found no file by that name"):
        diff([a], [f"{tmp_path}/no.orc"])


def test_large_sets_go_through_files_that_leave_nothing_behind(tmp_path, monkeypatch):
    monkeypatch.setattr(diff_chunks, "PART_BYTES", 1 << 16)
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    rng = np.random.default_rng(0)
    rows = 30_000
    ids, values = rng.permutation(rows), rng.integers(0, 100, rows)
    lists = pa.array([[i, i + 1] for i in range(rows)])
    a = table(tmp_path, "a", id=ids, value=values, items=lists)
    order = rng.permutation(rows)
    changed = values.copy()
    changed[[17, 4000]] += 1
    b = table(tmp_path, "b", id=ids[order], value=changed[order], items=lists.take(pa.array(order)))
    found = diff([a], [b], ["id"])
    assert (found.same, found.changed, found.only_a, found.only_b) == (rows - 2, 2, 0, 0)
    assert [c.place_a for c in found.changes["value"]] == [Place(a, 17), Place(a, 4000)]
    assert [c.b - c.a for c in found.changes["value"]] == [1, 1]
    assert not diff([a], [b]).equal
    assert diff(
        [a],
        [
            a,
        ],
        ["id"],
    ).equal
    assert os.listdir(tmp_path / "temporary") == []
