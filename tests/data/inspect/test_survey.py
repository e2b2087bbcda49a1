"""What `inspect` tells, against counting in Python."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from html.parser import HTMLParser

import numpy as np
import pyarrow as pa
import pyorc
import pytest
from pyarrow import orc

from data.errors import DataError
from data.format.checksums import add_metadata
from data.inspect.html import html
from data.inspect.survey import inspect, to_json
from data.inspect.text import moment, share, size, text
from data.orc_writer import OrcWriter, Settings
from tests.data import orc_files

START_MS = 1_767_225_600_000  # 2026-01-01
DAY_MS = 86_400_000


def make_table(rows: int, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    lists = [None if i % 11 == 5 else rng.integers(0, 50, i % 4).tolist() for i in range(rows)]
    floats = [None if i % 7 == 0 else float(x) for i, x in enumerate(rng.normal(size=rows))]
    floats[1] = float("nan")
    floats[2] = float("inf")
    return pa.table(
        {
            "user": pa.array(np.sort(rng.integers(0, rows // 5, rows))),
            "text": pa.array(["" if i % 5 == 0 else None if i % 5 == 1 else f"t{i % 13}" for i in range(rows)]),
            "items": pa.array(lists, pa.list_(pa.int64())),
            "score": pa.array(floats, pa.float32()),
            "flag": pa.array([None if i % 9 == 0 else i % 2 == 0 for i in range(rows)]),
            "timestamp": pa.array(START_MS + rng.integers(0, 5 * DAY_MS, rows)),
            "none": pa.nulls(rows, pa.int32()),
        }
    )


@pytest.fixture
def files(tmp_path):
    """Two files, several stripes each, and all their rows."""
    tables = [make_table(3000, 1), make_table(2000, 2)]
    paths = []
    for number, table in enumerate(tables):
        path = str(tmp_path / f"{number} a.orc")
        settings = Settings(
            "none", stripe_bytes=1 << 14, block_bytes=1 << 16, row_index_stride=500, bloom_columns=("user",)
        )
        with OrcWriter(path, table.schema, {"maker": "test", "number": str(number)}, settings) as writer:
            for batch in table.to_batches(max_chunksize=700):
                writer.write(batch)
        paths.append(path)
    return paths, tables


def test_numbers_of_the_layout_add_up(files):
    paths, _ = files
    report = inspect(paths, fast=True)
    assert report.profile is None
    assert report.rows == 5000
    assert report.stripe_rows == [rows for path in paths for rows in orc_files.stripe_rows(path)]
    assert len(report.stripe_rows) > 4
    for path, layout in zip(paths, report.files):
        with open(path, "rb") as file:
            assert layout.file_bytes == len(file.read())
        parts = sum(column.data_bytes + column.index_bytes for column in layout.columns.values())
        assert layout.file_bytes == parts + layout.other_bytes
        assert layout.checksums
        assert layout.metadata["maker"] == "test"
        assert not any("checksums" in name for name in layout.metadata)
        reader = orc.ORCFile(path)
        assert (layout.codec, layout.row_index_stride) == (
            reader.compression.lower().replace("uncompressed", "none"),
            500,
        )
    # pyorc adds up the bytes of a column's streams on its own.
    import pyorc

    with open(paths[0], "rb") as file:
        reader = pyorc.Reader(file)
        assert report.files[0].columns["user"].values == reader[1].statistics["number_of_values"]
    assert report.columns["user"].index_bytes > report.columns["flag"].index_bytes  # bloom filters
    assert report.columns["none"].data_bytes < report.columns["user"].data_bytes


def test_statistics_of_the_footers_are_those_of_the_values(files):
    paths, tables = files
    columns = inspect(paths, fast=True).columns
    table = pa.concat_tables(tables)
    for name in ("user", "timestamp", "flag"):
        values = [value for value in table[name].to_pylist() if value is not None]
        assert (columns[name].values, columns[name].minimum, columns[name].maximum) == (
            len(values),
            min(values),
            max(values),
        )
    assert (columns["none"].values, columns["none"].minimum) == (0, None)
    assert columns["score"].minimum is None  # NaN spoils what the files tell
    assert columns["items"].type == "list<item: int64>"


def test_profile_is_what_counting_gives(files):
    paths, tables = files
    report = inspect(paths)
    table = pa.concat_tables(tables)
    assert report.profile.rows == 5000
    for name, found in report.profile.columns.items():
        column = table[name].to_pylist()
        present = [value for value in column if value is not None]
        empty = [value for value in present if value in ("", [])]
        assert (found.rows, found.nulls, found.empty) == (5000, 5000 - len(present), len(empty))
        assert found.coverage == pytest.approx((len(present) - len(empty)) / 5000)
        values = present
        if name == "items":
            values = [item for value in present for item in value]
            assert (found.elements, found.longest) == (len(values), max(map(len, present)))
        else:
            assert found.elements is None
        assert found.distinct.exact
        assert found.distinct.number == len({"nan" if value != value else value for value in values})
        numbers = [v for v in values if not isinstance(v, str) and math.isfinite(v)]
        assert (found.minimum, found.maximum) == (min(numbers, default=None), max(numbers, default=None))
    assert report.profile.columns["score"].not_finite == 4


def test_days_and_times_are_counted(files):
    paths, tables = files
    report = inspect(paths)
    times = pa.concat_tables(tables)["timestamp"].to_pylist()
    assert (report.time.column, report.time.unit, report.time.guessed) == ("timestamp", "ms", True)
    assert report.profile.rows_per_day == dict(sorted(Counter(time // DAY_MS for time in times).items()))
    assert report.time_range_ms == (min(times), max(times)) == inspect(paths, fast=True).time_range_ms


@pytest.mark.parametrize(
    ("kind", "per_second", "unit"),
    [("int64", 1, "s"), ("int64", 10**6, "us"), ("int64", 10**9, "ns"), ("timestamp", 10**9, "ns")],
)
def test_times_in_other_units_are_understood(tmp_path, kind, per_second, unit):
    times = [1_767_225_600 * per_second, (1_767_225_600 + 86_400 * 2) * per_second + per_second // 2]
    column = pa.array(times, pa.timestamp("ns") if kind == "timestamp" else pa.int64())
    path = str(tmp_path / "a.orc")
    orc.write_table(pa.table({"when": column}), path)
    report = inspect([path], time_column="when")
    assert (report.time.unit, report.time.guessed) == (unit, False)
    assert report.time_range_ms == (START_MS, START_MS + 2 * DAY_MS + (500 if per_second > 1 else 0))
    assert list(report.profile.rows_per_day) == [START_MS // DAY_MS, START_MS // DAY_MS + 2]
    assert inspect([path]).time is None  # not one of the usual names


def test_a_time_column_must_hold_times(files):
    paths, _ = files
    with pytest.raises(DataError, match=r"^--time: expected a column of the files, found 'when'; they have user, text"):
        inspect(paths, time_column="when")
    with pytest.raises(
        DataError, match=r"^--time: expected a column of times .*, found 'user': int64 from \d+ to 5\d\d$"
    ):
        inspect(paths, time_column="user")


def write_sorted(tmp_path, tables, told=None):
    paths = []
    for number, rows in enumerate(tables):
        path = str(tmp_path / f"{number}.orc")
        orc.write_table(pa.table({"b": [b for _, b in rows], "a": [a for a, _ in rows]}), path)
        if told is not None:
            add_metadata(path, {"ps_cluster.sort": json.dumps(told)})
        paths.append(path)
    return paths


def test_order_is_found_and_compared_with_what_the_metadata_say(tmp_path):
    one, two = [(1, 5), (1, 7), (2, 3)], [(2, 4), (3, 1)]
    report = inspect(write_sorted(tmp_path, [one, two], ["a", "b"]))
    assert report.profile.order.found == ("a", "b")
    assert report.profile.order.told_holds is True
    assert "sorted by  a, b, across all files (as the metadata say)" in text(report)

    report = inspect(write_sorted(tmp_path, [two, one], ["a", "b"]))
    assert (report.profile.order.found, report.profile.order.told_holds) == ((), True)
    assert "no column" not in text(report)

    report = inspect(write_sorted(tmp_path, [two[::-1], one], ["a", "b"]))
    assert report.profile.order.told_holds is False
    assert "(NOT as the metadata say: a, b)" in text(report)

    report = inspect(write_sorted(tmp_path, [one], ["a", "gone"]))
    assert report.profile.order.told_holds is False
    assert "a, gone by the metadata; not checked" in text(inspect([str(tmp_path / "0.orc")], fast=True))


def test_ids_of_empty_texts_are_not_coverage(tmp_path):
    path = str(tmp_path / "a.orc")
    orc.write_table(pa.table({"city": [0, 5, -1, None, 0], "user": [0, 1, 2, 3, 4]}), path)
    assert inspect([path]).profile.columns["city"].empty == 0
    schema = {"columns": [{"name": "city", "kind": "hashed_id"}, {"name": "user", "kind": "id"}]}
    told = {"ps_cluster.schema": json.dumps(schema), "ps_cluster.hash": json.dumps({"empty_id": 0, "missing_id": -1})}
    add_metadata(path, told)
    found = inspect([path]).profile.columns
    assert (found["city"].empty, found["city"].coverage, found["user"].empty) == (3, 0.2, 0)
    add_metadata(path, {"ps_cluster.schema": "[]"})
    assert inspect([path]).profile.columns["city"].empty == 0


def test_json_holds_it_all(files):
    paths, _ = files
    found = json.loads(to_json(inspect(paths)), parse_constant=lambda name: pytest.fail(name))
    assert (found["rows"], found["stripe_rows"]["most"]) == (5000, max(inspect(paths, True).stripe_rows))
    assert found["columns"]["text"]["coverage"] == 0.6
    assert found["columns"]["user"]["distinct_is_exact"] is True
    assert [file["metadata"]["number"] for file in found["files"]] == ["0", "1"]
    assert json.loads(to_json(inspect(paths, fast=True)))["sort_order"] == {"told": []}


def test_text_has_a_line_for_each_column_and_fact(files):
    paths, _ = files
    shown = text(inspect(paths))
    assert "rows       5,000 in 2 files and" in shown
    assert "encoding   none, blocks of 64 KiB, row groups of 500 rows" in shown
    assert re.search(r"^items +list<item: int64> .* 1\.5, at most 3$", shown, re.M)
    assert re.search(r"^text +string +[\d.]+ +[\d.]+% +60\.00% +20\.00% +20\.00%", shown, re.M)
    assert "  maker = test" in shown
    assert "  number = (2 different values in 2 files)" in shown
    assert "guessed by its name): 2026-01-01 00:0" in shown


class Page(HTMLParser):
    """Collects what a page loads, and checks that its elements are closed."""

    def __init__(self, page):
        super().__init__()
        self.open, self.loads, self.text, self.rects = [], [], "", 0
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.loads += [value for name, value in attributes if name in ("src", "href", "xlink:href", "action")]
        self.rects += tag == "rect"
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.rects += tag == "rect"

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def test_the_page_is_whole_and_loads_nothing(files):
    paths, _ = files
    page = html(inspect(paths), "<set> & more")
    parsed = Page(page)
    assert parsed.open == []
    assert parsed.loads == []
    assert "url(" not in page and "@import" not in page
    assert "<set> & more" in parsed.text
    assert "<set>" not in page
    assert "2026-01-01: " in parsed.text
    assert parsed.rects >= 7 * 2 + 7 * 2 + 5
    fast = Page(html(inspect(paths, fast=True), "set"))
    assert "Coverage" not in fast.text and "Rows per day" not in fast.text


def test_many_days_become_few_bars(tmp_path):
    path = str(tmp_path / "a.orc")
    orc.write_table(pa.table({"timestamp": [START_MS + day * DAY_MS for day in range(0, 3000, 3)]}), path)
    page = Page(html(inspect([path]), "set"))
    assert page.rects < 420
    assert "at most 3 rows in 8 days" in page.text


def test_files_with_other_columns_or_types_are_told_together(tmp_path):
    a, b, empty = (str(tmp_path / f"{name}.orc") for name in ("a", "b", "c"))
    orc.write_table(pa.table({"x": [1, 2, 3], "y": [1.0, 2.0, None]}), a)
    orc.write_table(pa.table({"x": ["p", ""], "z": [1, 1]}), b)
    orc.write_table(pa.table({"x": pa.array([], pa.int64())}), empty)
    report = inspect([a, b, empty])
    assert list(report.columns) == ["x", "y", "z"]
    assert report.columns["x"].type == "int64 or string"
    found = report.profile.columns
    assert (found["x"].rows, found["x"].distinct.number, found["x"].minimum, found["x"].empty) == (5, 5, 1, 1)
    assert (found["y"].rows, found["y"].nulls) == (3, 1)
    assert report.profile.order.found == ()
    assert "z " in text(report) and Page(html(report, "x")).open == []


def test_a_set_without_rows_is_told(tmp_path):
    path = str(tmp_path / "a.orc")
    orc.write_table(pa.table({"x": pa.array([], pa.int64())}), path)
    report = inspect([path])
    assert "rows       0 in 1 file and 0 stripes" in text(report)
    assert json.loads(to_json(report))["bytes_per_row"] is None
    assert Page(html(report, "x")).open == []


def test_a_bad_file_is_named(files, tmp_path):
    paths, _ = files
    broken = str(tmp_path / "broken.orc")
    with pytest.raises(DataError, match=f"^{broken}: expected an ORC file, found no file by that name$"):
        inspect([paths[0], broken])
    with open(paths[0], "rb") as file:
        content = bytearray(file.read())
    content[3000] ^= 0xFF
    with open(broken, "wb") as file:
        file.write(content)
    inspect([broken], fast=True)
    with pytest.raises(DataError, match=f"^{broken}: stripe 0: column .*: expected CRC"):
        inspect([broken])


def test_small_words():
    assert [size(n) for n in (0, 999, 1000, 1_234_567, 5e14)] == [
        "0 bytes",
        "999 bytes",
        "1.0 kB",
        "1.2 MB",
        "500.0 TB",
    ]
    assert [share(n, 10**6) for n in (0, 1, 500_000, 999_999, 10**6)] == ["0%", "0.01%", "50.00%", "99.99%", "100%"]
    assert moment(START_MS) == "2026-01-01 00:00:00"
    assert moment(10**17) == f"{10**17} ms"


def test_odd_names_stay_in_their_line(tmp_path):
    path = str(tmp_path / "a\nb.orc")
    orc.write_table(pa.table([pa.array([0.0, -0.0]), pa.array([1, 2])], names=["x\ny", ""]), path)
    report = inspect([path, path])
    lines = text(report).splitlines()
    (row,) = [line for line in lines if line.startswith("x\\ny ")]
    assert row.split()[-2:] == ["0", "0"]  # not -0
    assert sum("a\\nb.orc" in line for line in lines) == 2
    assert "x\\ny" in html(report, "title")


def test_columns_of_one_name_are_refused(tmp_path):
    path = str(tmp_path / "a.orc")
    orc.write_table(pa.table([pa.array([1]), pa.array([2])], names=["a", "a"]), path)
    for fast in (False, True):
        with pytest.raises(DataError, match=r"a.orc: column a: expected one column of that name, found several"):
            inspect([path], fast)


def test_floats_that_are_not_finite_are_told(files):
    report = inspect(files[0])
    assert report.profile is not None
    many = report.profile.columns["score"].not_finite
    assert many == 4
    assert f"score: {many} values NaN or infinite" in text(report).splitlines()
    assert f"score: {many} values NaN or infinite" in html(report, "title")


def test_what_a_file_without_row_index_says_of_lists_is_not_believed(tmp_path):
    path = tmp_path / "a.orc"
    with open(path, "wb") as file, pyorc.Writer(file, "struct<l:array<int>,n:int>", row_index_stride=0) as writer:
        writer.writerows([([1], 1), (None, None), ([], 3)])
    columns = inspect([str(path)], fast=True).columns
    assert (columns["l"].values, columns["n"].values) == (None, 2)


def test_a_time_column_of_two_types_is_no_time(tmp_path):
    paths = []
    for number, kind in enumerate((pa.int64(), pa.timestamp("ns"))):
        paths.append(str(tmp_path / f"{number}.orc"))
        orc.write_table(pa.table({"timestamp": pa.array([START_MS], pa.int64()).cast(kind)}), paths[-1])
    assert inspect(paths).time is None
    assert inspect(paths[:1]).time is not None
