"""Files that are damaged, changed or gone: the native reader says what the tfio reader says, and never crashes."""

import contextlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyorc
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from data.columns import Column
from data.errors import DataError
from data.files import open_input
from data.format import checksums
from data.format.tail import read_tail, stripe_streams
from data.orc_writer import OrcWriter, Settings
from data.read.plan import plan as make_plan
from data.read.read_spec import Position, ReadSpec
from data.where import parse
from tests.data import orc_files
from tests.data.read.both_readers import COLUMNS, by_op, outcome, same


def test_too_few_rows_to_go_on_behind_are_an_error(two_files):
    spec = ReadSpec(two_files, COLUMNS, 64, on_bad="skip", start=Position(0, 5000))
    text = same(spec)
    assert "expected at least 5000 rows in epoch 0, to go on behind them, found 1261" in text


def test_damaged_stripe_is_named_or_counted(two_files, tmp_path):
    path = orc_files.numbered(tmp_path / "a.orc", [50, 60, 70])
    orc_files.damage_stripe(path, 1)
    spec = ReadSpec((path,), COLUMNS, 100)
    text = outcome(by_op, spec, make_plan(spec))
    assert text.startswith(f"{path}: stripe 1 (rows 50 to 109, counted from 0): expected a readable stripe, found: ")
    found = same(replace(spec, on_bad="skip"))
    assert sum(info[3] for info, _ in found) == 60
    assert [row for _, columns in found for row in columns[0]] == [*range(50), *range(110, 180)]


def test_wrong_byte_is_found_by_the_checksums_before_it_is_decoded(tmp_path):
    path = orc_files.numbered(tmp_path / "a.orc", [500, 600])
    checksums.add_checksums(path)
    spec = ReadSpec((path,), COLUMNS, 100)
    plan = make_plan(spec)
    with open(path, "rb") as file:
        stripe = pyorc.Reader(file).read_stripe(1)
        start, length = stripe.bytes_offset, stripe.bytes_length
    whole = Path(path).read_bytes()
    for place in range(start, start + length, 97):
        Path(path).write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
        text = same(spec, plan)
        assert f"{path}: stripe 1: " in text
        assert "the file is damaged" in text
        found = by_op(replace(spec, on_bad="skip"), plan)
        assert (sum(info[3] for info, _ in found), sum(info[1] for info, _ in found)) == (600, 500)


def index_places(path):
    """The bytes of the indexes of all stripes: (stripe, ORC type id, place)."""
    with open_input(path) as file:
        tail = read_tail(file, path)
        streams = [(n, s) for n in range(len(tail.stripes)) for s in stripe_streams(file, tail, n) if s.is_index]
    return [(n, s.column, place) for n, s in streams for place in range(s.offset, s.offset + s.bytes)]


def test_no_wrong_byte_of_an_index_hides_rows_from_a_condition(tmp_path):
    path = f"{tmp_path}/a.orc"
    rows, of_stripe = 40, 20
    day = np.tile([1, 9], rows // 2)
    day[[7, 31]] = 5
    table = pa.table({"id": np.arange(rows), "day": day})
    how = Settings(stripe_rows=of_stripe, row_index_stride=10, bloom_columns=("day",), bloom_fpp=0.3)
    with OrcWriter(path, table.schema, settings=how) as writer:
        writer.write(table)
    in_order = ReadSpec((path,), (Column("id", "int64"),), 10, where=parse("day == 5"))
    whole = Path(path).read_bytes()
    places = index_places(path)
    seen = set()
    hidden = 0
    for number, (stripe, column, place) in enumerate(places):
        Path(path).write_bytes(whole[:place] + bytes([whole[place] ^ (1 << number % 8)]) + whole[place + 1 :])
        spec = replace(in_order, shuffle_rows=30 if number % 2 else 0)
        skipping = replace(spec, on_bad="skip")
        what = ["index of the rows", "column id (index)", "column day (index)"][column]
        try:
            told = same(spec)
        except DataError as error:  # by the plan
            told = str(error)
        assert isinstance(told, str) and told.startswith(f"{path}: stripe {stripe}: {what}: expected CRC "), told
        found = same(skipping)
        assert [row for _, columns in found for row in columns[0]] == [[31], [7]][stripe]
        # Which row groups are right, only the index of `day` says.
        left = of_stripe if column == 2 else 10
        assert sum(info[3] for info, _ in found) == left
        assert make_plan(skipping).pruned.rows_left == 10 + left
        with contextlib.suppress(DataError):
            hidden += make_plan(replace(spec, verify_checksums=False)).rows < 2
        seen.add((stripe, column))
    assert len(seen) == 6
    assert hidden  # without the checksums


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_files_that_change_after_they_were_checked_never_end_the_process(tmp_path_factory, data):
    path = str(tmp_path_factory.mktemp("changed") / "a.orc")
    orc_files.numbered(Path(path), [300, 200])
    with_checksums = data.draw(st.booleans())
    if with_checksums:
        checksums.add_checksums(path)
    spec = ReadSpec((path,), COLUMNS, 100, where=data.draw(st.sampled_from([None, parse("id > 100")])))
    plan = make_plan(spec)
    expected = by_op(spec, plan)
    whole = bytearray(Path(path).read_bytes())
    kind = data.draw(st.sampled_from(["flip", "cut", "swap"]))
    if kind == "cut":
        del whole[data.draw(st.integers(0, len(whole) - 1)) :]
    for _ in range(data.draw(st.integers(1, 3)) if kind != "cut" else 0):
        a, b = data.draw(st.tuples(*[st.integers(0, len(whole) - 1)] * 2))
        if kind == "flip":
            whole[a] ^= data.draw(st.integers(1, 255))
        else:
            whole[a], whole[b] = whole[b], whole[a]
    Path(path).write_bytes(whole)
    found = outcome(by_op, spec, plan)
    assert isinstance(found, str) or found == expected or not with_checksums


def test_checksums_that_cannot_be_found_any_more_are_missed(tmp_path):
    path = orc_files.numbered(tmp_path / "a.orc", [300, 200])
    checksums.add_checksums(path)
    spec = ReadSpec((path,), COLUMNS, 100)
    plan = make_plan(spec)
    content = bytearray(Path(path).read_bytes())
    content[content.rindex(checksums.KEY.encode()) - 5] ^= 2  # the number of the footer's field
    Path(path).write_bytes(content)
    assert "it names checksums, but they cannot be read" in same(spec, plan)


def test_missing_file_is_an_error_with_its_name(two_files, tmp_path):
    path = orc_files.numbered(tmp_path / "gone.orc", [5])
    spec = ReadSpec((path,), COLUMNS, 100)
    plan = make_plan(spec)
    Path(path).unlink()
    text = outcome(by_op, spec, plan)
    assert path in text
    assert "No such file" in text


def test_changed_type_is_an_error_of_the_tfio_readers_words(tmp_path):
    path = orc_files.numbered(tmp_path / "a.orc", [5])
    spec = ReadSpec((path,), COLUMNS, 100)
    plan = make_plan(spec)
    orc_files.write(Path(path), "struct<id:bigint,score:string,items:array<bigint>>", [[(1, "a", [])] * 5])
    assert "column score: expected a number (float, double, integer or boolean), found string" in same(spec, plan)
