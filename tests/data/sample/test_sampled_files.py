"""Counted and written samples against a loop over the rows that pyorc reads."""

from __future__ import annotations

import os
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyorc
import pytest

from data.errors import DataError
from data.files import open_input
from data.format.checksums import add_checksums
from data.format.tail import read_tail
from data.read.footers import read_footer
from data.sample.sampled_files import Counts, count_sampled, write_sampled
from data.sample.sampling import Constant, Factor, Sampling, Steps, sample
from data.scan.raw_rows import raw_rows
from data.where import parse
from tests.data import orc_files

SCHEMA = "struct<y:tinyint,age:int,tags:array<string>,text:string>"
SAMPLING = Sampling(
    "y",
    11,
    (
        Factor("keep", Constant(0.4), label=0),
        Factor("weight", Steps("age", (20.0, 40.0), (1.0, 2.0, 0.5), 3.0), when=parse("age < 60 or age is None")),
        Factor("keep", Constant(0.5), when=parse("age > 30")),
    ),
)
GROUPS = [np.zeros(1, np.int64), np.arange(4), np.zeros(1, np.int64)]


@pytest.fixture
def files(tmp_path: Path) -> tuple[list[str], list[tuple[str, int, tuple]]]:
    """Two files of several stripes; and their rows as (path, row number, row)."""
    random = np.random.default_rng(3)
    paths, rows = [], []
    for name, sizes in (("a", (300, 1, 250)), ("b", (400,))):
        stripes = [
            [
                (
                    [0, 0, 1, None, 2][random.choice(5, p=[0.4, 0.3, 0.28, 0.01, 0.01])],
                    None if random.random() < 0.1 else int(random.integers(80)),
                    ["x"] * int(random.integers(3)),
                    f"text {i}",
                )
                for i in range(size)
            ]
            for size in sizes
        ]
        paths.append(orc_files.write(tmp_path / f"{name}.orc", SCHEMA, stripes))
        rows += [(paths[-1], i, row) for i, row in enumerate(row for stripe in stripes for row in stripe)]
    return paths, rows


def drawn(path: str, number: int, row: tuple) -> tuple[float, float] | None:
    """Weight and offset of one row; None when it is dropped."""
    columns = {"y": pa.array([row[0]], pa.int8()), "age": pa.array([row[1]], pa.int32())}
    found = sample(SAMPLING, columns, read_footer(path).file_key, np.array([number]))
    return (float(found.weight[0]), float(found.offset[0])) if found.keep[0] else None


def expected(rows: list[tuple[str, int, tuple]]) -> dict[Any, list[float]]:
    """[read, kept, weight] by label and by (factor, group)."""
    sums: dict[Any, list[float]] = defaultdict(lambda: [0, 0, 0.0])
    for path, number, row in rows:
        y, age = row[0], row[1]
        kept = drawn(path, number, row)
        groups: list[Any] = [y if y in (0, 1) else 2]
        if y == 0:
            groups.append((0, 0))
        if y in (0, 1) and (age is None or age < 60):
            groups.append((1, 3 if age is None else (age >= 20) + (age >= 40)))
        if y in (0, 1) and age is not None and age > 30:
            groups.append((2, 0))
        for group in groups:
            sums[group] = [one + more for one, more in zip(sums[group], (1, kept is not None, kept[0] if kept else 0))]
    return sums


def told(counts: Counts) -> dict[Any, list[float]]:
    tallies = [*((label, counts.labels, label) for label in range(3))]
    tallies += [((i, g), tally, g) for i, tally in enumerate(counts.factors) for g in range(len(tally.read))]
    return {key: [t.read[i], t.kept[i], t.weight[i]] for key, t, i in tallies if t.read[i]}


@pytest.mark.parametrize("where", [None, "age != 33 and age < 70"])
def test_counts_are_those_of_the_rows(files: tuple, where: str | None) -> None:
    paths, rows = files
    condition = parse(where) if where else None
    shown: list[tuple[int, int]] = []
    counts = count_sampled(SAMPLING, GROUPS, paths, condition, lambda done, total: shown.append((done, total)))
    taken = [row for row in rows if not where or (row[2][1] is not None and row[2][1] != 33 and row[2][1] < 70)]
    assert told(counts) == expected(taken)
    assert counts.skipped == len(rows) - len(taken)
    assert shown == [(300, 951), (301, 951), (551, 951), (951, 951)]


@pytest.mark.parametrize("where", [None, "age != 33"])
def test_written_rows_are_those_that_are_kept(files: tuple, tmp_path: Path, where: str | None) -> None:
    paths, rows = files
    out = str(tmp_path / "out")
    condition = parse(where) if where else None
    counts = write_sampled(SAMPLING, GROUPS, paths, out, {"ps_cluster.sampling": "{}"}, condition)
    assert told(counts) == told(count_sampled(SAMPLING, GROUPS, paths, condition))
    assert sorted(os.listdir(tmp_path)) == ["a.orc", "b.orc", "out"]
    assert sorted(os.listdir(out)) == ["a.orc", "b.orc"]
    for path in paths:
        wanted = []
        for at, number, row in rows:
            found = drawn(at, number, row)
            if at == path and found and (not where or (row[1] is not None and row[1] != 33)):
                wanted.append((*row, *found))
        written = os.path.join(out, os.path.basename(path))
        assert orc_files.read(written) == wanted
        with open(written, "rb") as file:
            reader = pyorc.Reader(file)
            assert str(reader.schema) == SCHEMA[:-1] + ",sample_weight:float,sample_offset:float>"
            assert reader.user_metadata["ps_cluster.sampling"] == b"{}"


def test_a_failed_run_leaves_nothing(files: tuple, tmp_path: Path) -> None:
    paths, _ = files
    data = bytearray(Path(paths[1]).read_bytes())
    data[len(data) // 4 : len(data) // 2] = bytes(len(data) // 2 - len(data) // 4)
    Path(paths[1]).write_bytes(data)
    with pytest.raises(DataError, match=r"b.orc, stripe 0: expected rows, found a damaged stripe"):
        write_sampled(SAMPLING, GROUPS, paths, str(tmp_path / "out"), {})
    assert sorted(os.listdir(tmp_path)) == ["a.orc", "b.orc"]


def test_a_changed_byte_is_found_by_its_checksum(files: tuple, tmp_path: Path) -> None:
    paths, _ = files
    add_checksums(paths[0])
    data = bytearray(Path(paths[0]).read_bytes())
    with open_input(paths[0]) as file:
        stripe = read_tail(file, paths[0]).stripes[0]
    data[stripe.offset + stripe.index_bytes + stripe.data_bytes // 2] ^= 1
    Path(paths[0]).write_bytes(data)
    with pytest.raises(DataError, match=r"a.orc: stripe 0: column \w+: expected CRC"):
        write_sampled(SAMPLING, GROUPS, paths, str(tmp_path / "out"), {})
    left = list(raw_rows(paths, skip_bad=True))
    assert [(one.path, one.first_row) for one in left] == [(paths[0], 300), (paths[0], 301), (paths[1], 0)]
    whole = list(orc_files.read(paths[1]))
    assert [tuple(row.values()) for row in left[-1].batch.to_pylist()] == whole


def test_folders_in_use_and_columns_in_the_way_are_refused(files: tuple, tmp_path: Path) -> None:
    paths, _ = files
    with pytest.raises(DataError, match="expected a folder that is empty or does not exist"):
        write_sampled(SAMPLING, GROUPS, paths, str(tmp_path), {})
    out = str(tmp_path / "out")
    write_sampled(SAMPLING, GROUPS, paths, out, {})
    with pytest.raises(DataError, match=r"a.orc: column sample_offset: expected no such column"):
        write_sampled(SAMPLING, GROUPS, [os.path.join(out, "a.orc")], str(tmp_path / "again"), {})


def test_files_of_one_name_are_told_apart(files: tuple, tmp_path: Path) -> None:
    (path, _), _ = files
    (tmp_path / "more").mkdir()
    other = str(tmp_path / "more" / "a.orc")
    Path(other).write_bytes(Path(path).read_bytes())
    write_sampled(SAMPLING, GROUPS, [path, other], str(tmp_path / "out"), {})
    assert sorted(os.listdir(tmp_path / "out")) == ["00000-a.orc", "00001-a.orc"]
