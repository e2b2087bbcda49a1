"""Counts of ids against Python's Counter."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyorc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data.errors import DataError
from data.sample.popularity import SCHEMA, Totals, bands, count_ids, merged, most_frequent, totals_of
from tests.data import orc_files

Made = tuple[str, list[tuple[int, int]]]


def sorted_counts(ids: list[int]) -> list[tuple[int, int]]:
    return sorted(Counter(ids).items(), key=lambda pair: (-pair[1], pair[0]))


def written(path: str) -> list[tuple[int, int]]:
    with open(path, "rb") as file:
        return list(pyorc.Reader(file))


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """A file of counts of Zipf ids over two files, by many parts; and what it must hold."""
    folder = tmp_path_factory.mktemp("counted")
    random = np.random.default_rng(1)
    ids = (random.zipf(1.3, 20_000) % 5000 * 2**20 - 2**30).tolist()
    for name, some in (("a", ids[:9000]), ("b", ids[9000:])):
        stripes = [[(one, None) for one in some[start : start + 3000]] for start in range(0, len(some), 3000)]
        orc_files.write(folder / f"{name}.orc", "struct<item:bigint,other:int>", stripes)
    out = str(folder / "items.orc")
    totals = count_ids([str(folder / "a.orc"), str(folder / "b.orc")], "item", out, part_bytes=20_000)
    assert totals == Totals("item", 20_000, 0, len(set(ids))) == totals_of(out)
    assert sorted(os.listdir(folder)) == ["a.orc", "b.orc", "items.orc"]
    return out, sorted_counts(ids)


def test_counts_are_exact_and_sorted(counted: Made) -> None:
    path, expected = counted
    assert written(path) == expected


def test_lists_and_nulls_are_counted(tmp_path: Path) -> None:
    rows = [([1, 2, 2],), ([],), (None,), ([2, None, -7],), ([2**63 - 1, -(2**63)],)]
    orc_files.write(tmp_path / "a.orc", "struct<items:array<bigint>>", [rows[:2], rows[2:]])
    out = str(tmp_path / "counts.orc")
    assert count_ids([str(tmp_path / "a.orc")], "items", out) == Totals("items", 7, 1, 5)
    assert written(out) == [(2, 3), (-(2**63), 1), (-7, 1), (1, 1), (2**63 - 1, 1)]


@pytest.mark.parametrize("ids", [0, 1, 7, 10**9])
def test_the_most_frequent_ids_come_first(counted: Made, ids: int) -> None:
    path, expected = counted
    found, counts = most_frequent(path, ids=ids)
    assert list(zip(found.tolist(), counts.tolist())) == expected[:ids]


@pytest.mark.parametrize("share", [0.0001, 0.3, 0.5, 0.97, 1.0])
def test_a_share_takes_the_fewest_ids_that_make_it(counted: Made, share: float) -> None:
    path, expected = counted
    found, counts = most_frequent(path, share=share)
    assert list(zip(found.tolist(), counts.tolist())) == expected[: len(found)]
    assert counts.sum() >= share * 20_000 > counts[:-1].sum()


@pytest.mark.parametrize("by", [{"top_ids": (3, 50)}, {"top_share": (0.4, 0.8)}, {"top_ids": (5, 10**7)}])
def test_every_id_has_the_value_of_its_band(counted: Made, by: dict[str, Any]) -> None:
    path, expected = counted
    found = bands(path, "item", **by)
    values = (0.25, 0.5, 1.0)
    cumulated, wanted = 0, {}
    for rank, (one, count) in enumerate(expected):
        if "top_ids" in by:
            band = sum(rank >= end for end in by["top_ids"])
        else:
            band = sum(cumulated >= end * 20_000 for end in by["top_share"])
        wanted[one] = band
        cumulated += count
    lookup, band_of = found.lookup(values)
    ids = [*wanted, 12345, None]
    places = lookup.positions({"item": pa.array(ids)}, len(ids))
    assert lookup.table[places].tolist() == [values[band] for band in [*wanted.values(), 2, 2]]
    assert band_of[places].tolist() == [*wanted.values(), 2, 2]
    sums = [sum(count for one, count in expected if wanted[one] == band) for band in range(3)]
    assert list(found.occurrences) == sums


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.lists(st.tuples(st.integers(-20, 20), st.integers(1, 5)), max_size=15), min_size=1, max_size=5),
    st.integers(1, 6),
)
def test_merging_sorts(tmp_path_factory: pytest.TempPathFactory, runs: list[list[tuple[int, int]]], rows: int) -> None:
    folder = tmp_path_factory.mktemp("runs")
    pairs = [[(one * 10 + part, -count) for one, count in run] for part, run in enumerate(runs)]
    for part, run in enumerate(pairs):
        ordered = sorted(run, key=lambda pair: (pair[1], pair[0]))
        np.array(ordered, np.int64).reshape(-1, 2).tofile(folder / str(part))
    blocks = list(merged([str(folder / str(part)) for part in range(len(runs))], rows))
    got = [tuple(pair) for block in blocks for pair in block.tolist()]
    assert got == sorted((pair for run in pairs for pair in run), key=lambda pair: (pair[1], pair[0]))


def test_wrong_files_and_columns_are_told(counted: Made, tmp_path: Path) -> None:
    path, _ = counted
    orc_files.write(tmp_path / "a.orc", "struct<item:bigint,text:string>", [[(1, "x")]])
    samples = str(tmp_path / "a.orc")
    out = str(tmp_path / "out.orc")
    for action, message in (
        (lambda: count_ids([samples], "gone", out), "column gone: expected integers or arrays of integers, found no"),
        (lambda: count_ids([samples], "text", out), "column text: expected .*, found string"),
        (lambda: count_ids([str(tmp_path / "no.orc")], "item", out), "no.orc: expected an ORC file, found no file"),
        (lambda: bands(samples, "item", top_ids=(1,)), "a.orc: expected counts made by `ps-cluster data popularity`"),
        (lambda: bands(path, "user", top_ids=(1,)), "items.orc: expected counts of column user, found those of item"),
    ):
        with pytest.raises(DataError, match=message):
            action()
    assert os.listdir(tmp_path) == ["a.orc"]


def test_no_row_gives_an_empty_file(tmp_path: Path) -> None:
    orc_files.write(tmp_path / "a.orc", "struct<item:int>", [[(None,)]])
    out = str(tmp_path / "out.orc")
    assert count_ids([str(tmp_path / "a.orc")], "item", out) == Totals("item", 0, 1, 0)
    assert most_frequent(out, ids=5)[0].tolist() == most_frequent(out, share=0.5)[0].tolist() == []
    assert bands(out, "item", top_share=(0.5,)).lookup((0.5, 1.0))[0].keys.tolist() == []
    assert pa.orc.ORCFile(out).schema.names == SCHEMA.names
