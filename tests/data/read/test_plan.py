"""What a plan says of damaged indexes and of many files; rows and batches are compared in test_reading."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from data.columns import Column
from data.errors import DataError
from data.files import open_input
from data.format.tail import column_id, read_tail, stripe_streams
from data.orc_writer import OrcWriter, Settings
from data.read.plan import plan
from data.read.read_spec import ReadSpec
from data.where import parse

COLUMNS = (Column("id", "int64"),)


def index_bytes(path, stripe):
    """Places in the file of the row index of column `day` of one stripe."""
    with open_input(path) as file:
        tail = read_tail(file, path)
        streams = stripe_streams(file, tail, stripe)
    mine = [s for s in streams if s.is_index and s.column == column_id(tail, "day")]
    return [place for stream in mine for place in range(stream.offset, stream.offset + stream.bytes)]


@pytest.mark.parametrize("shuffle_rows", [0, 100])
def test_no_wrong_byte_of_an_index_hides_rows(tmp_path, shuffle_rows):
    path = f"{tmp_path}/a.orc"
    day = np.tile([1, 9], 20).repeat(50)  # every stripe holds both, every row group only one
    day[707] = 5
    table = pa.table({"id": np.arange(2000), "day": day})
    with OrcWriter(path, table.schema, settings=Settings(codec="none", stripe_rows=500, row_index_stride=50)) as writer:
        writer.write(table)
    spec = ReadSpec((path,), COLUMNS, 10, where=parse("day == 5"), shuffle_rows=shuffle_rows)
    assert plan(spec).rows == 1
    content = Path(path).read_bytes()
    found, unchecked = [], []
    for place in index_bytes(path, 1):
        Path(path).write_bytes(content[:place] + bytes([content[place] ^ 12]) + content[place + 1 :])
        for rows, verify in ((found, True), (unchecked, False)):
            try:
                rows.append(plan(replace(spec, verify_checksums=verify)).rows)
            except DataError:
                rows.append(None)
    assert set(found) <= {1, None} and None in found
    assert 0 in unchecked  # it would have been hidden


def test_a_plan_summarises_all_files_and_divides_the_rows(tmp_path):
    paths = []
    for number in range(5):
        paths.append(f"{tmp_path}/{number}.orc")
        table = pa.table({"id": np.arange(number * 100, number * 100 + 100)})
        with OrcWriter(paths[-1], table.schema, settings=Settings(stripe_rows=30)) as writer:
            writer.write(table)
    plans = [plan(ReadSpec(tuple(paths), COLUMNS, 16, shard, 3)) for shard in range(3)]
    assert {(p.files.files, p.files.rows, p.files.stripes) for p in plans} == {(5, 500, 20)}
    assert [p.rows for p in plans] == [166, 167, 167]
    assert all(p.kept is None and p.exact and p.part_rows.sum() == p.rows for p in plans)


def test_progress_of_the_count_is_told(tmp_path):
    path = f"{tmp_path}/a.orc"
    table = pa.table({"id": np.arange(1000)})
    with OrcWriter(path, table.schema, settings=Settings(stripe_rows=100)) as writer:
        writer.write(table)
    told = []
    spec = ReadSpec((path,), COLUMNS, 10, where=parse("id >= 250 and id != 600"))
    assert plan(spec, lambda done, total: told.append((done, total))).rows == 749
    assert told == sorted(told) and told[-1][0] == told[-1][1] <= 1000
    told.clear()
    plan(ReadSpec((path,), COLUMNS, 10), lambda done, total: told.append((done, total)))
    assert not told  # nothing is counted without a filter
