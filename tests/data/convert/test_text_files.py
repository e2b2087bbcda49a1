"""CSV and TSV files of every make: what is a row, what its bytes are, where damage begins."""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from data.convert.reading import find, read
from data.convert.schema import SamplesSchema
from data.convert.sources import units_of
from data.errors import DataError

BLOCK_BYTES = 500


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("data.convert.read_text.BLOCK_BYTES", BLOCK_BYTES)


def schema_of(*names: str, **source: Any) -> SamplesSchema:
    columns = [{"name": f"c{i}", "source": name, "kind": "hashed_id"} for i, name in enumerate(names)]
    return SamplesSchema.model_validate({"columns": columns, "source": source}, strict=True)


def rows_of(path: Path, schema: SamplesSchema, start: int = 0) -> tuple[dict[int, tuple], list[int], list[str]]:
    """Good rows by number, numbers of bad rows, damage."""
    (source,) = find([str(path)], "", schema)
    (unit,) = units_of(source)
    good: dict[int, tuple] = {}
    bad: list[int] = []
    damage: list[str] = []
    for raw in read(unit, schema, start):
        if raw.damage is not None:
            damage.append(raw.damage)
        if raw.batch.num_rows:
            values = [raw.batch.column(name).to_pylist() for name in schema.source_names]
            good.update(zip(raw.rows.tolist(), zip(*values)))
        bad += [row.row for row in raw.bad]
    return good, bad, damage


FIELDS = st.text(alphabet=st.sampled_from('ab1,;"\n é\x00'), max_size=6).map(str.encode)
BYTES = FIELDS | st.binary(max_size=4).map(lambda raw: raw.replace(b"\r", b"r"))


@settings(deadline=None, max_examples=120, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.lists(BYTES, min_size=1, max_size=4), max_size=20),
    st.sampled_from(["\n", "\r\n"]),
    st.booleans(),
    st.integers(0, 10),
)
def test_rows_and_their_bytes_are_what_pythons_reader_finds(tmp_path, rows, ending, whole, start):
    text = io.StringIO(newline="")
    # Each byte a character, as Python's reader knows only text.
    writer = csv.writer(text, lineterminator=ending, quoting=csv.QUOTE_ALL)
    writer.writerow(["x", "y"])
    writer.writerows([[field.decode("latin-1") for field in row] for row in rows])
    content = text.getvalue().encode("latin-1")
    (tmp_path / "a.csv").write_bytes(content if whole else content[: -len(ending)])
    good, bad, damage = rows_of(tmp_path / "a.csv", schema_of("y", "x"), start)
    assert damage == []
    assert good == {i: (row[1], row[0]) for i, row in enumerate(rows) if len(row) == 2 and i >= start}
    assert bad == [i for i, row in enumerate(rows) if len(row) != 2 and i >= start]


def test_rows_that_are_not_utf8_are_found_however_far_down_they_are(tmp_path, capfd):
    rows = [f"{i},{'k' * 40}\n".encode() for i in range(100)]
    for place in (0, 60, 99):
        rows[place] = f"{place},Köln\n".encode("latin-1")
    rows[70] = "70,Köln,too many\n".encode("latin-1")  # the parser cannot hand out such a row as text
    (tmp_path / "a.csv").write_bytes(b"x,y\n" + b"".join(rows))
    good, bad, damage = rows_of(tmp_path / "a.csv", schema_of("x", "y"))
    assert (bad, damage) == ([70], [])
    assert [good[place][1] for place in (0, 60, 99)] == ["Köln".encode("latin-1")] * 3
    assert sorted(good) == [place for place in range(100) if place != 70]
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"\xef\xbb\xbfx,y\n1,2\n", [(b"1", b"2")]),
        (b"\xef\xbb\xbfx,y\n1,\xf6\n", [(b"1", b"\xf6")]),
        (b"x,y\r1,2\r3,4\r", [(b"1", b"2"), (b"3", b"4")]),
        (b"x,y\n\n1,2\n\n\n3,4", [(b"1", b"2"), (b"3", b"4")]),
        (b'x,y\n"a ""q"" b","c\nd"\n', [(b'a "q" b', b"c\nd")]),
        (b"x,y,\n1,2,\n", [(b"1", b"2")]),
        (b"x,,,y\n1,2,3,4\n", [(b"1", b"4")]),
        (b"z,z,x,y\n1,2,3,4\n", [(b"3", b"4")]),
        (b"y,gr\xf6\xdfe,x\n1,2,3\n", [(b"3", b"1")]),
        (b"x,y", []),
        (b"x,y\n", []),
        (b'x,y\n\\N,"\\N"\n', [(None, b"\\N")]),
        (b'x,y\n\xf6,\\N\n"\\N",""\n', [(b"\xf6", None), (b"\\N", b"")]),
    ],
)
def test_odd_files_are_read(tmp_path, content, expected):
    for name, data in (("a.csv", content), ("b.csv.gz", gzip.compress(content))):
        (tmp_path / name).write_bytes(data)
        good, bad, damage = rows_of(tmp_path / name, schema_of("x", "y"))
        assert (list(good.values()), bad, damage) == (expected, [], [])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\n", "expected a first line with the names of columns, found none"),
        (b"\xef\xbb\xbf", "expected a first line with the names of columns, found none"),
        ("x,y\n1,2\n".encode("utf-16"), "expected text in UTF-8, found UTF-16"),
        (b"x,z\n1,2\n", "column y: expected it among the columns x, z, found no such column"),
        (b"x, y\n1,2\n", "column y: expected it among the columns x, ' y', found no such column"),
        (b'"x\ny",z\n1,2\n', "column x: expected it among the columns 'x\\ny', z, found no such column"),
        (b"gr\xf6\xdfe,y\n1,2\n", "column x: expected it among the columns gr\\xf6\\xdfe, y, found no such column"),
        (b"x,y,x\n1,2,3\n", "expected each column once in the header, found x again"),
    ],
)
def test_a_file_without_the_columns_is_told(tmp_path, content, message):
    for name, data in (("a.csv", content), ("b.csv.gz", gzip.compress(content))):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(DataError) as error:
            find([str(tmp_path / name)], "", schema_of("x", "y"))
        assert message in str(error.value)


def test_lines_longer_than_a_block_are_read_and_too_long_ones_told(tmp_path):
    fields = [b"a", b"b" * 3 * BLOCK_BYTES, b"c", b"d" * 30 * BLOCK_BYTES, b"e"]
    (tmp_path / "a.csv").write_bytes(b"x,y\n" + b"".join(b"%s,1\n" % field for field in fields))
    good, bad, damage = rows_of(tmp_path / "a.csv", schema_of("x"))
    assert ([row for (row,) in good.values()], bad, damage) == (fields, [], [])
    (tmp_path / "a.csv").write_bytes(b"x,y\na,1\n" + b"b" * 300 * BLOCK_BYTES + b",1\nc,1\n")
    good, bad, damage = rows_of(tmp_path / "a.csv", schema_of("x"))
    assert good == {0: (b"a",)}
    assert damage == [f"{tmp_path}/a.csv: expected lines of at most 0 MB, found a longer one behind row 1"]
    header = ",".join(f"column_{i}" for i in range(400))
    (tmp_path / "a.csv").write_text(f"{header}\n{','.join(map(str, range(400)))}\n")
    assert rows_of(tmp_path / "a.csv", schema_of("column_399"))[0] == {0: (b"399",)}


@pytest.fixture(scope="module")
def zipped() -> bytes:
    return gzip.compress(b"x,y\n" + b"".join(b"%d,%d\n" % (i, i * i) for i in range(3000)))


def test_all_rows_before_a_cut_are_read(tmp_path, zipped):
    for cut in [*range(20, len(zipped) - 1, len(zipped) // 40), len(zipped) - 8, len(zipped) - 1]:
        (tmp_path / "a.csv.gz").write_bytes(zipped[:cut])
        before = zlib.decompressobj(31).decompress(zipped[:cut])
        if not before.startswith(b"x,y\n"):
            continue
        good, bad, damage = rows_of(tmp_path / "a.csv.gz", schema_of("x", "y"))
        lines = before[: before.rfind(b"\n")].split(b"\n")[1:]
        assert list(good.values()) == [tuple(line.split(b",")) for line in lines]
        assert bad == []
        assert damage == [
            f"{tmp_path}/a.csv.gz: expected text, gzipped, that can be read, found: gzipped data that ends early"
        ]


@pytest.mark.parametrize(
    ("tail", "damaged"),
    [(b"", False), (b"\0" * 1000, False), (b"more", True), (b"\0\0more", True), (b"\x1f\x8b", True)],
)
def test_what_follows_gzipped_data(tmp_path, zipped, tail, damaged):
    (tmp_path / "a.csv.gz").write_bytes(zipped + tail)
    good, _, damage = rows_of(tmp_path / "a.csv.gz", schema_of("x"))
    assert len(good) == 3000
    assert bool(damage) == damaged
    (tmp_path / "a.csv.gz").write_bytes(zipped + b"\0" * 10 + gzip.compress(b"5,6\n") + tail)
    good, _, damage = rows_of(tmp_path / "a.csv.gz", schema_of("x"))
    assert (len(good), good[3000], bool(damage)) == (3001, (b"5",), damaged)
