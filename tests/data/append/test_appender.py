"""Appending samples, with real processes that are killed: what was flushed is there afterwards, once, in order."""

from __future__ import annotations

import glob
import os
import random
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import orc

from data.append import segments as append_segments
from data.append.appender import Appender, Roll
from data.append.segments import SegmentWriter, flushed
from data.errors import DataError
from data.format.checksums import load, verify_stripe
from data.format.tail import read_tail
from tests.data import orc_files

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("score", pa.float32()),
        ("wide", pa.float64()),
        ("good", pa.bool_()),
        ("items", pa.list_(pa.int64())),
    ]
)


def row(i: int) -> dict:
    return {"id": i, "score": i % 1000 / 4, "wide": i / 3, "good": i % 3 == 0, "items": list(range(i % 4))}


def rows_of(folder) -> list[list[int]]:
    """The ids in each ORC file of a folder, by name; every file is whole, with checksums that fit."""
    ids = []
    for path in sorted(glob.glob(f"{folder}/*.orc")):
        with pa.memory_map(path) as file:
            tail = read_tail(file, path)
            sums = load(file, tail)
            for stripe in range(len(tail.stripes)):
                verify_stripe(file, sums, stripe)
        assert orc.ORCFile(path).schema.equals(SCHEMA)
        found = orc_files.read(path)
        assert found == [tuple(row(one[0]).values()) for one in found]
        ids.append([one[0] for one in found])
    return ids


def test_batches_and_dicts_arrive_in_order_and_nothing_else_is_left(tmp_path):
    folder = tmp_path / "out"
    with Appender(str(folder), SCHEMA) as appender:
        appender.write(pa.RecordBatch.from_pylist([row(i) for i in range(3000)], SCHEMA))
        appender.flush()
        appender.write_rows([row(i) for i in range(3000, 3010)])
        assert glob.glob(f"{folder}/*") == []
    assert rows_of(folder) == [list(range(3010))]
    assert [str(folder / name) for name in os.listdir(folder)] == appender.files
    assert appender.rows == 3010


def test_a_packed_file_has_few_stripes_whatever_was_flushed(tmp_path):
    with Appender(str(tmp_path), SCHEMA) as appender:
        for i in range(300):  # more flushes than a segment takes
            appender.write_rows([row(i)])
            appender.flush()
        assert len(glob.glob(f"{tmp_path}/.append/*.segment")) == 3
    assert rows_of(tmp_path) == [list(range(300))]
    assert orc_files.stripe_rows(appender.files[0]) == [300]


def test_files_roll_by_rows(tmp_path):
    with Appender(str(tmp_path), SCHEMA, Roll(rows=700)) as appender:
        appender.write(pa.RecordBatch.from_pylist([row(i) for i in range(1500)], SCHEMA))
        appender.write_rows([row(i) for i in range(1500, 2100)])
    assert [len(ids) for ids in rows_of(tmp_path)] == [700, 700, 700]
    assert [i for ids in rows_of(tmp_path) for i in ids] == list(range(2100))


def test_files_roll_by_bytes(tmp_path):
    with Appender(str(tmp_path), SCHEMA, Roll(bytes=10_000)) as appender:
        for start in range(0, 12_000, 1000):
            appender.write_rows([row(i) for i in range(start, start + 1000)])
            appender.flush()
    found = rows_of(tmp_path)
    assert len(found) > 2
    assert [i for ids in found for i in ids] == list(range(12_000))
    assert len(appender.files) == len(found)


def test_files_roll_and_rows_are_flushed_by_time(tmp_path):
    now = [0.0]
    appender = Appender(str(tmp_path), SCHEMA, Roll(seconds=60), flush_seconds=10, clock=lambda: now[0])
    with appender:
        appender.write_rows([row(0)])
        (segment,) = glob.glob(f"{tmp_path}/.append/*.segment")
        appender.tick()
        assert flushed(segment).bytes == 0
        now[0] = 10.0
        appender.tick()
        assert flushed(segment).bytes > 0
        now[0] = 59.0
        appender.write_rows([row(1)])
        assert flushed(segment).bytes < os.path.getsize(segment) or os.listdir(tmp_path) == [".append"]
        now[0] = 60.0
        appender.tick()
        now[0] = 500.0
        appender.tick()  # an empty file does not roll
        appender.write_rows([row(2)])
    assert rows_of(tmp_path) == [[0, 1], [2]]


def test_without_rows_there_is_no_file(tmp_path):
    with Appender(str(tmp_path / "out"), SCHEMA) as appender:
        appender.flush()
        appender.write_rows([])
    assert os.listdir(tmp_path / "out") == []
    with pytest.raises(ValueError, match="expected an open appender"):
        appender.write_rows([row(1)])
    appender.close()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"id": "7"}, "field id: expected an integer of 64 bits, found '7'"),
        ({"id": True}, "field id: expected an integer of 64 bits, found true"),
        ({"id": 1.0}, "field id: expected an integer of 64 bits, found 1.0"),
        ({"id": 2**63}, "field id: expected an integer of 64 bits, found 9223372036854775808"),
        ({"score": 1e39}, "field score: expected a finite float32 number, found 1e\\+39"),
        ({"score": float("nan")}, "field score: expected a finite float32 number, found nan"),
        ({"wide": "x" * 99}, "field wide: expected a finite number, found 'x+…"),
        ({"good": 1}, "field good: expected true or false, found 1"),
        ({"items": 5}, "field items: expected a list whose items are each an integer of 64 bits, found 5"),
        ({"items": [1, None]}, "field items: expected a list .* found \\[1, None\\]"),
        ({"other": 1}, "field other: expected one of id, score, wide, good, items; found a field that is none"),
    ],
)
def test_a_wrong_row_is_refused_with_all_of_its_call(tmp_path, change, says):
    with Appender(str(tmp_path), SCHEMA) as appender:
        appender.write_rows([row(0)])
        with pytest.raises(DataError, match=f"^row 1: {says}"):
            appender.write_rows([row(1), row(2) | change])
        appender.write_rows([row(1)])
    assert rows_of(tmp_path) == [[0, 1]]


@settings(max_examples=15, deadline=None)
@given(
    rows=st.lists(
        st.fixed_dictionaries(
            {},
            optional={
                "id": st.none() | st.integers(-(2**63), 2**63 - 1),
                "score": st.none() | st.floats(width=32, allow_nan=False, allow_infinity=False),
                "wide": st.none() | st.floats(allow_nan=False, allow_infinity=False),
                "good": st.none() | st.booleans(),
                "items": st.none() | st.lists(st.integers(-(2**63), 2**63 - 1), max_size=4),
            },
        ),
        max_size=30,
    ),
    flush=st.integers(1, 9),
)
def test_every_value_and_null_comes_back(tmp_path_factory, rows, flush):
    folder = tmp_path_factory.mktemp("a")
    with Appender(str(folder), SCHEMA) as appender:
        for number, one in enumerate(rows):
            appender.write_rows([one])
            if number % flush == 0:
                appender.flush()
    found = [one for path in appender.files for one in orc.ORCFile(path).read().to_pylist()]
    assert found == [dict.fromkeys(SCHEMA.names) | one for one in rows]


@pytest.mark.parametrize("kind", [pa.int8(), pa.int16(), pa.int32(), pa.string(), pa.list_(pa.float32())])
def test_other_types_keep_their_type(tmp_path, kind):
    schema = pa.schema([("a", kind)])
    value = {pa.string(): "ü", pa.list_(pa.float32()): [0.5, 1.0]}.get(kind, 100)
    with Appender(str(tmp_path), schema) as appender:
        appender.write_rows([{"a": value}, {}])
        with pytest.raises(DataError, match="row 0: field a: expected"):
            appender.write_rows([{"a": 2**40 if kind != pa.list_(pa.float32()) else ["x"]}])
    table = orc.ORCFile(appender.files[0]).read()
    assert table.schema.equals(schema)
    assert table["a"].to_pylist() == [value, None]


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ([], "expected at least one column"),
        ([("a", pa.timestamp("ms"))], "column a: expected one of"),
        ([("a b", pa.int64())], "found 'a b'"),
        ([("a", pa.int64()), ("a", pa.int64())], "found a more than once"),
        ([("a", pa.list_(pa.list_(pa.int64())))], "column a: expected one of"),
    ],
)
def test_a_schema_that_cannot_be_appended_is_refused(tmp_path, fields, says):
    with pytest.raises(DataError, match=says):
        Appender(str(tmp_path / "out"), pa.schema(fields))
    assert not (tmp_path / "out").exists()


def test_a_batch_of_another_schema_is_refused(tmp_path):
    with Appender(str(tmp_path), SCHEMA) as appender, pytest.raises(ValueError, match="expected a batch of"):
        appender.write(pa.RecordBatch.from_pydict({"id": [1]}))


def make_segment(path, flushes: int = 4, rest: bool = True) -> list[int]:
    """A segment of 25 rows a flush, and rows after the last one; returns its length after each flush."""
    writer = SegmentWriter(str(path), SCHEMA)
    lengths = []
    rng = np.random.default_rng(0)
    for _ in range(flushes):
        writer.write([tuple(row(int(i)).values()) for i in rng.integers(0, 10**6, 25)])
        writer.flush()
        lengths.append(writer.bytes)
    if rest:
        writer.write([tuple(row(1).values())] * 10)
    writer.close()
    return lengths


def test_whatever_is_left_of_a_segment_its_good_part_ends_at_a_flush(tmp_path):
    """Cut at any place, as after a power failure: segment and journal independently."""
    path = tmp_path / "a.segment"
    lengths = make_segment(path)
    segment, journal = path.read_bytes(), (tmp_path / "a.journal").read_bytes()
    assert flushed(str(path)).bytes == lengths[-1]
    assert flushed(str(path)).lost_bytes == 0
    rng = random.Random(0)
    for _ in range(200):
        kept, recorded = rng.randrange(len(segment) + 1), rng.randrange(len(journal) + 1)
        path.write_bytes(segment[:kept])
        (tmp_path / "a.journal").write_bytes(journal[:recorded])
        found = flushed(str(path))
        known = lengths[: recorded // 16]
        assert found.bytes == max((length for length in known if length <= kept), default=0)
        assert found.lost_bytes == (known[-1] - found.bytes if known else 0)


def test_a_wrong_byte_costs_no_more_than_what_came_after_the_flush_before(tmp_path):
    path = tmp_path / "a.segment"
    lengths = make_segment(path)
    whole = path.read_bytes()
    for position in random.Random(1).sample(range(lengths[-1]), 100):
        content = bytearray(whole)
        content[position] ^= 4
        path.write_bytes(content)
        found = flushed(str(path))
        assert found.bytes == max((length for length in lengths if length <= position), default=0)
        assert found.bytes + found.lost_bytes == lengths[-1]


def abandon(folder, numbers, flush_at) -> None:
    """A process that appends rows, flushes some and is killed."""
    script = f"""
import os, signal
from data.append.appender import Appender
from tests.data.append.test_appender import SCHEMA, row
appender = Appender({str(folder)!r}, SCHEMA)
for i in range({numbers}):
    appender.write_rows([row(i)])
    if i + 1 in {list(flush_at)}:
        appender.flush()
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr


def test_the_next_writer_finishes_the_file_of_one_that_was_killed(tmp_path):
    abandon(tmp_path, 30, [10, 20])
    assert os.listdir(tmp_path) == [".append"]
    with Appender(str(tmp_path), SCHEMA) as appender:
        (recovered,) = appender.recovered
        assert (recovered.rows, recovered.damaged) == (20, ())
        assert rows_of(tmp_path) == [list(range(20))]
        appender.write_rows([row(7)])
    assert rows_of(tmp_path) == [list(range(20)), [7]]
    assert sorted(os.listdir(tmp_path)) == sorted(os.path.basename(p) for p in [recovered.path, *appender.files])


def test_of_a_killed_writer_without_a_flush_nothing_stays(tmp_path):
    abandon(tmp_path, 30, [])
    with Appender(str(tmp_path), SCHEMA) as appender:
        assert appender.recovered == ()
    assert os.listdir(tmp_path) == []


def test_what_the_disk_lost_is_told_and_kept_apart(tmp_path):
    abandon(tmp_path, 30, [10, 20])
    (segment,) = glob.glob(f"{tmp_path}/.append/*.segment")
    with open(segment, "rb+") as file:
        file.seek(-100 - os.path.getsize(segment) + flushed(segment).bytes, os.SEEK_END)
        file.write(b"\0" * 50)
    before = open(segment, "rb").read()  # noqa: SIM115
    with Appender(str(tmp_path), SCHEMA) as appender:
        (recovered,) = appender.recovered
    assert recovered.rows == 10
    (kept,) = recovered.damaged
    assert open(kept, "rb").read() == before  # noqa: SIM115
    assert rows_of(tmp_path) == [list(range(10))]


def test_a_crash_between_the_name_and_the_cleaning_doubles_no_row(tmp_path, monkeypatch):
    monkeypatch.setattr(append_segments, "remove", lambda segments: None)
    with Appender(str(tmp_path), SCHEMA) as appender:
        appender.write_rows([row(i) for i in range(5)])
    assert glob.glob(f"{tmp_path}/.append/*.segment")
    monkeypatch.undo()
    with Appender(str(tmp_path), SCHEMA) as appender:
        assert len(appender.recovered) == 1
    assert rows_of(tmp_path) == [list(range(5))]
    assert len(os.listdir(tmp_path)) == 1


def test_a_full_disk_is_an_error_that_costs_only_what_was_not_flushed(tmp_path):
    """A process whose files may not grow over 64 KiB: the kernel refuses the write as a full disk would."""
    script = f"""
import resource, signal
from data.append.appender import Appender
from tests.data.append.test_appender import SCHEMA, row
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))
flushed = 0
try:
    with Appender({str(tmp_path)!r}, SCHEMA) as appender:
        for i in range(100_000):
            appender.write_rows([row(i)])
            if i % 100 == 0:
                appender.flush()
                flushed = i + 1
except OSError as error:
    print(flushed)
"""
    done = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    count = int(done.stdout)
    assert count > 0
    with Appender(str(tmp_path), SCHEMA):
        pass
    assert rows_of(tmp_path) == [list(range(count))]


# One life: numbers its rows from 0 behind its own name, tells what it flushed, rolls all the time.
LIFE = """
import os, random, sys
from data.append.appender import Appender, Roll
from tests.data.append.test_appender import SCHEMA, row
base = int(sys.argv[2]) * 1_000_000
rng = random.Random(base)
print("begin", flush=True)
with Appender(sys.argv[1], SCHEMA, Roll(rows=400)) as appender:
    done = 0
    for _ in range(int(sys.argv[3])):
        count = rng.randrange(1, 200)
        appender.write_rows([row(base + done + i) for i in range(count)])
        done += count
        if rng.random() < 0.5:
            appender.flush()
            print(done, flush=True)
print("closed", done, flush=True)
"""


def live(folder, number: int, writes: int = 10**6) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-c", LIFE, str(folder), str(number), str(writes)], stdout=subprocess.PIPE, text=True
    )


def check_lives(folder, told: dict[int, list[str]]) -> None:
    """Of each life the rows are there from its first one on, at least as many as it told, each once, in order."""
    by_life: dict[int, list[int]] = {}
    for ids in rows_of(folder):
        for i in ids:
            by_life.setdefault(i // 1_000_000, []).append(i % 1_000_000)
    for number, lines in told.items():
        found = by_life.get(number, [])
        assert found == list(range(len(found))), number
        counts = [int(text) for text in re.findall(r"\d+", " ".join(lines))]
        assert len(found) >= max(counts, default=0), number
    assert sum(map(len, by_life.values())) > 0


def test_killed_at_random_moments_and_started_again_nothing_flushed_is_lost(tmp_path):
    rng = random.Random(11)
    told = {}
    for number in range(5):
        life = live(tmp_path, number)
        assert life.stdout.readline() == "begin\n"
        # From the very start, while what is left of the one before is being finished.
        time.sleep(rng.choice([0.0, 0.02, 0.1, 0.3, 0.6]))
        life.kill()
        told[number] = life.communicate()[0].splitlines()
        assert life.returncode == -signal.SIGKILL
    assert any(told.values())
    with Appender(str(tmp_path), SCHEMA):
        pass
    check_lives(tmp_path, told)
    assert all(name.endswith(".orc") for name in os.listdir(tmp_path))


@pytest.mark.slow
def test_a_hundred_kills_lose_nothing_that_was_flushed(tmp_path):
    rng = random.Random(5)
    told: dict[int, list[str]] = {}
    for turn in range(50):
        lives = {number: live(tmp_path, number) for number in (2 * turn, 2 * turn + 1)}
        for life in lives.values():
            assert life.stdout.readline() == "begin\n"
        for number, life in lives.items():
            time.sleep(rng.random() * 0.5)
            life.kill()
            told[number] = life.communicate()[0].splitlines()
    with Appender(str(tmp_path), SCHEMA):
        pass
    check_lives(tmp_path, told)
    assert all(name.endswith(".orc") for name in os.listdir(tmp_path))


def test_writers_of_one_folder_do_each_other_no_harm(tmp_path):
    """Three at once, one of which is killed while the others go on; a fourth finishes for it."""
    lives = {number: live(tmp_path, number, 10**6 if number == 0 else 30) for number in range(3)}
    for life in lives.values():
        assert life.stdout.readline() == "begin\n"
    time.sleep(0.3)
    lives[0].kill()
    lives[3] = live(tmp_path, 3, 5)
    told = {number: life.communicate(timeout=60)[0].splitlines() for number, life in lives.items()}
    assert [lives[number].returncode for number in range(4)] == [-signal.SIGKILL, 0, 0, 0]
    with Appender(str(tmp_path), SCHEMA):
        pass
    check_lives(tmp_path, told)
    assert all(name.endswith(".orc") for name in os.listdir(tmp_path))


def test_two_appenders_of_one_process_leave_each_other_alone(tmp_path):
    with Appender(str(tmp_path), SCHEMA) as first:
        first.write_rows([row(1)])
        first.flush()
        with Appender(str(tmp_path), SCHEMA) as second:
            assert second.recovered == ()
            second.write_rows([row(2)])
        first.write_rows([row(3)])
    assert sorted(rows_of(tmp_path)) == [[1, 3], [2]]
    assert not (tmp_path / ".append").exists()


def test_a_folder_that_a_manifest_closes_is_refused_and_left_as_it_was(tmp_path):
    (tmp_path / "manifest.json").write_text("{}")
    with pytest.raises(DataError, match=r"expected a folder without a manifest, found manifest\.json"):
        Appender(str(tmp_path), SCHEMA)
    assert os.listdir(tmp_path) == ["manifest.json"]
