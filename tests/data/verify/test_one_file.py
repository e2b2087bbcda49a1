"""Verifying files: nothing wrong is missed, nothing right is blamed, and each problem says where it is."""

from __future__ import annotations

import hashlib
import json
import math
import os
import random
import re
import struct

import numpy as np
import psutil
import pyarrow as pa
import pyorc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import orc

from data.format.tail import column_id, read_tail, stripe_streams
from data.orc_writer import OrcWriter, Settings
from data.verify.many_files import Listed, list_files, verify_files
from data.verify.one_file import verify_file
from ps_cluster.cli.main import main
from tests.data import orc_files

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("small", pa.int16()),
        ("score", pa.float32()),
        ("wide", pa.float64()),
        ("flag", pa.bool_()),
        ("items", pa.list_(pa.int64())),
        ("word", pa.string()),
    ]
)


def make_batch(rows: int, seed: int = 0) -> pa.RecordBatch:
    rng = np.random.default_rng(seed)
    mask = rng.random(rows) < 0.2
    wide = rng.choice([0.0, -0.0, 1.5, -2.5, math.nan, math.inf], rows)
    lists = [None if i % 9 == 4 else rng.integers(-5, 9, rng.integers(0, 4)).tolist() for i in range(rows)]
    columns = [
        pa.array(rng.integers(-(2**63), 2**63 - 1, rows)),
        pa.array(rng.integers(-9, 9, rows).astype(np.int16), mask=mask),
        pa.array(rng.normal(size=rows).astype(np.float32)),
        pa.array(wide, mask=mask),
        pa.array(rng.random(rows) < 0.5, mask=mask),
        pa.array(lists, pa.list_(pa.int64())),
        pa.array([f"w{i % 5}" for i in range(rows)]),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def write(path, rows: int = 300, seed: int = 0, **how) -> str:
    with OrcWriter(str(path), SCHEMA, settings=Settings(**how)) as writer:
        writer.write(make_batch(rows, seed))
    return str(path)


@settings(max_examples=15, deadline=None)
@given(
    rows=st.integers(0, 300),
    seed=st.integers(0, 99),
    codec=st.sampled_from(["zstd", "zlib", "snappy", "lz4", "none"]),
    stride=st.sampled_from([1, 50, 10_000]),
)
def test_whatever_the_writer_writes_is_right(tmp_path_factory, rows, seed, codec, stride):
    path = tmp_path_factory.mktemp("v") / "a.orc"
    blooms = ("id", "small", "score", "wide")
    write(path, rows, seed, codec=codec, row_index_stride=stride, bloom_columns=blooms)
    size = path.stat().st_size
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    report = verify_file(str(path), {"bytes": size, "rows": rows, "sha256": digest})
    assert report.problems == []
    assert (report.rows, report.file_bytes, report.has_checksums) == (rows, size, True)


def test_files_of_other_writers_are_right_too(tmp_path):
    path = orc_files.numbered(tmp_path / "a.orc", [100, 0, 250])
    report = verify_file(path)
    assert (report.problems, report.rows, report.has_checksums) == ([], 350, False)
    path = str(tmp_path / "b.orc")
    nested = pa.table({"m": pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.int64())), "s": [{"x": 1}, {"x": 2}]})
    orc.write_table(nested, path)
    assert verify_file(path).problems == []


@pytest.mark.parametrize("stride", [0, 10])
def test_nested_columns_are_right_whatever_the_writer_tells_of_them(tmp_path, stride):
    """Without a row index ORC's writers count no lists and maps; a union of Arrow has no nulls."""
    kind = "struct<l:array<int>,m:map<string,int>,s:struct<a:int>,u:uniontype<int,string>,a:array<array<int>>>"
    path = tmp_path / "a.orc"
    with open(path, "wb") as file, pyorc.Writer(file, kind, row_index_stride=stride) as writer:
        writer.writerows([([1, 2], {"a": 1}, (1,), "x", [[1], []]), (None,) * 5] * 20)
    report = verify_file(str(path))
    assert (report.problems, report.rows) == ([], 40)


def test_a_stripe_whose_footer_is_lost_does_not_hide_the_others(tmp_path):
    path = orc_files.numbered(tmp_path / "a.orc", [100, 100, 100])
    with pa.OSFile(path) as file:
        footer = read_tail(file, path).stripes[1]
    _overwrite(path, footer.footer_offset, b"\xff" * footer.footer_bytes)
    orc_files.damage_column(path, 2, "score")
    report = verify_file(path)
    assert report.rows == 100
    assert any(problem.startswith(f"{path}: stripe 2: column score: ") for problem in report.problems)
    assert any("stripe 1" in problem for problem in report.problems)


def test_one_wrong_byte_anywhere_is_a_problem_that_names_the_file(tmp_path):
    path = tmp_path / "a.orc"
    write(path, 200, bloom_columns=("id",), row_index_stride=100)
    whole = path.read_bytes()
    mutated = tmp_path / "m.orc"
    rng = random.Random(2)
    for position in rng.sample(range(len(whole) - 1 - whole[-1]), 150):
        content = bytearray(whole)
        content[position] ^= 1 << rng.randrange(8)
        mutated.write_bytes(content)
        report = verify_file(str(mutated))
        assert report.problems, position
        assert all(problem.startswith(f"{mutated}: ") and "\n" not in problem for problem in report.problems)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.6, 0.99])
def test_a_cut_file_is_a_problem(tmp_path, share):
    path = tmp_path / "a.orc"
    write(path)
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])
    (problem,) = verify_file(str(path), {"bytes": int(len(content) * share)}).problems
    assert problem.startswith(f"{path}: expected an ORC file, found")


def test_a_missing_file_is_a_problem(tmp_path):
    assert verify_file(str(tmp_path / "a.orc")).problems == [
        f"{tmp_path}/a.orc: expected an ORC file, found no file by that name"
    ]


def test_every_damaged_column_is_named_and_the_other_stripes_are_still_read(tmp_path):
    path = write(tmp_path / "a.orc", 2000, stripe_rows=1000)
    with pa.OSFile(path) as file:
        tail = read_tail(file, path)
        assert len(tail.stripes) == 2
        for name in ("small", "items"):
            stream = next(
                s for s in stripe_streams(file, tail, 1) if s.column == column_id(tail, name) and not s.is_index
            )
            _overwrite(path, stream.offset + stream.bytes // 2, b"\xff\x00\xff")
    report = verify_file(path)
    assert [problem.split(": expected")[0] for problem in report.problems] == [
        f"{path}: stripe 1: column small",
        f"{path}: stripe 1: column items",
    ]
    assert report.rows == 1000


def _overwrite(path: str, offset: int, content: bytes) -> None:
    with open(path, "rb+") as file:
        file.seek(offset)
        file.write(content)


def plain(path, rows=100, **how) -> str:
    """A file without compression and checksums, where wrong values can be put in place."""
    table = pa.table({"x": pa.array([0.5] * rows), "n": pa.array(range(rows), pa.int64())})
    orc.write_table(table, str(path), row_index_stride=40, **how)
    return str(path)


def test_values_that_the_statistics_deny_are_found_without_checksums(tmp_path):
    path = plain(tmp_path / "a.orc")
    with pa.OSFile(path) as file:
        tail = read_tail(file, path)
        data = next(s for s in stripe_streams(file, tail, 0) if s.column == 1 and s.kind == "DATA")
    _overwrite(path, data.offset + 8 * 50, struct.pack("<d", 9.0))
    where = f"{path}: stripe 0: column x: "
    expected = "expected values from 0.5 to 0.5 (statistics), found from 0.5 to 9.0"
    assert verify_file(path).problems == [f"{where}row group 1: {expected}", f"{where}{expected}"]


def test_a_bloom_filter_that_denies_its_values_is_found_without_checksums(tmp_path):
    path = plain(tmp_path / "a.orc", bloom_filter_columns=[2])
    assert verify_file(path).problems == []
    with pa.OSFile(path) as file:
        tail = read_tail(file, path)
        bloom = next(s for s in stripe_streams(file, tail, 0) if s.kind == "BLOOM_FILTER_UTF8")
    _overwrite(path, bloom.offset + 20, b"\0" * 8)
    (problem,) = verify_file(path).problems
    assert problem == (
        f"{path}: stripe 0: column n: row group 0: expected a bloom filter of its values, found one that denies some"
    )


def test_nulls_and_counts_are_compared(tmp_path):
    """Two files whose streams fit each other: the statistics of one over the data of the other."""
    paths = []
    for name, nulls in (("a", {3}), ("b", {5, 6})):
        path = str(tmp_path / f"{name}.orc")
        with open(path, "wb") as file, pyorc.Writer(file, "struct<n:bigint>", compression=0) as writer:
            writer.writerows((None if i in nulls else 7,) for i in range(8))
        paths.append(path)
    with pa.OSFile(paths[0]) as first, pa.OSFile(paths[1]) as second:
        streams = [
            next(s for s in stripe_streams(file, read_tail(file, path), 0) if s.kind == "PRESENT")
            for file, path in ((first, paths[0]), (second, paths[1]))
        ]
        present = second.read_at(streams[1].bytes, streams[1].offset)
    assert streams[0].bytes == streams[1].bytes
    _overwrite(paths[0], streams[0].offset, present)
    problems = verify_file(paths[0]).problems
    assert f"{paths[0]}: stripe 0: column n: expected 7 values that are not null (statistics), found 6" in problems


def test_a_manifest_is_compared(tmp_path):
    names = [f"{k}.orc" for k in range(4)]
    items = []
    for k, name in enumerate(names):
        write(tmp_path / name, 50 + k, k)
        content = (tmp_path / name).read_bytes()
        items.append(
            {"name": name, "rows": 50 + k, "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        )
    (tmp_path / "manifest.json").write_text(json.dumps({"format_version": 1, "files": items}))
    (tmp_path / "extra.orc").write_bytes(b"not listed, not read")
    listed = list_files(["."], str(tmp_path))
    assert [os.path.basename(one.path) for one in listed] == names
    assert [report.problems for report in verify_files(listed, 2)] == [[]] * 4
    write(tmp_path / "0.orc", 49, 7)
    os.unlink(tmp_path / "1.orc")
    listed = list_files([str(tmp_path / "manifest.json"), "2.orc"], str(tmp_path))
    assert len(listed) == 4
    reports = {os.path.basename(report.path): report.problems for report in verify_files(listed, 1)}
    assert [text.split(" (manifest)")[0].split(": expected ")[1].split()[-1] for text in reports["0.orc"]] == [
        "bytes",
        items[0]["sha256"],
        "rows",
    ]
    assert "found no file by that name" in reports["1.orc"][0]
    assert reports["2.orc"] == reports["3.orc"] == []


def test_a_file_that_ends_its_process_does_not_stop_the_others(tmp_path):
    paths = [write(tmp_path / f"{k}.orc", rows, rows, stripe_rows=250) for k, rows in enumerate([30_000, 2000, 2000])]
    killed = []

    def kill_once(rows):
        if not killed:
            (child,) = [p for p in psutil.Process().children() if "spawn_main" in " ".join(p.cmdline())]
            child.kill()
            killed.append(child)

    reports = {report.path: report for report in verify_files([Listed(path) for path in paths], 1, kill_once)}
    (problem,) = reports[paths[0]].problems
    ended = r"stripe \d+: expected values that can be decoded, the decoder ended by signal 9 \(SIGKILL\)"
    assert re.fullmatch(f"{re.escape(paths[0])}: {ended}", problem)
    assert [reports[path].rows for path in paths[1:]] == [2000, 2000]
    assert not killed[0].is_running()


def test_a_decoder_that_does_not_end_is_ended_and_does_not_stop_the_others(tmp_path):
    paths = [write(tmp_path / f"{k}.orc", 600, k, stripe_rows=200) for k in range(3)]
    stopped = []

    def stop_once(rows):
        if not stopped:
            (child,) = [p for p in psutil.Process().children() if "spawn_main" in " ".join(p.cmdline())]
            child.suspend()
            stopped.append(child)

    listed = [Listed(path) for path in paths]
    # A process needs a while to start on a busy machine, and is given the same time for it.
    reports = {report.path: report for report in verify_files(listed, 1, stop_once, patience_seconds=15)}
    (problem,) = reports[paths[0]].problems
    ended = r"stripe \d: expected values that can be decoded, the decoder did not end within 15 s"
    assert re.fullmatch(f"{re.escape(paths[0])}: {ended}", problem)
    assert [reports[path].rows for path in paths[1:]] == [600, 600]
    assert not stopped[0].is_running()


def test_no_process_stays_when_the_verifying_stops_early(tmp_path):
    paths = [write(tmp_path / f"{k}.orc", 100, k) for k in range(4)]
    before = set(psutil.Process().children())
    reports = verify_files([Listed(path) for path in paths], 2)
    next(reports)
    reports.close()
    left = [p for p in set(psutil.Process().children()) - before if "spawn_main" in " ".join(p.cmdline())]
    assert left == []


def test_the_command_tells_good_damaged_and_wrong_input_apart(tmp_path, capsys):
    def run(*args: object) -> tuple[int, str, str]:
        return main(["data", "verify", *map(str, args)]), *capsys.readouterr()

    good = write(tmp_path / "a.orc", 100)
    size = f"{os.path.getsize(good):,}"
    told = f"1 file, 100 good rows, {size} bytes; 0 without checksums\nno problem found\n"
    assert run(tmp_path, "--processes", 2) == (0, told, "")
    bad = write(tmp_path / "b.orc", 100)
    _overwrite(bad, 50, b"xyz")
    code, out, _ = run(f"{tmp_path}/*.orc")
    assert code == 1
    lines = out.splitlines()
    assert lines[0].startswith(f"{bad}: stripe 0: ")
    assert lines[-1].endswith(" in 1 file")
    for wrong in (["nowhere.orc"], [tmp_path, "--processes", 0]):
        code, out, err = run(*wrong)
        assert (code, out, err.count("\n")) == (2, "", 1)
