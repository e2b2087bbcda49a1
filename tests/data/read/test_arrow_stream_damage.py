"""Damaged bytes in files with checksums: found and named, or left out and counted."""

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from data.columns import Column
from data.errors import DataError
from data.files import open_input
from data.format.tail import column_id, read_tail, stripe_streams
from data.read.arrow_stream import BatchReader
from data.read.read_spec import ReadSpec
from tests.data import orc_files


def flip_a_bit(path, stripe, name):
    """In the middle of the data of a column: the decoder may well not notice."""
    with open_input(path) as file:
        tail = read_tail(file, path)
        column = column_id(tail, name)
        streams = [s for s in stripe_streams(file, tail, stripe) if s.column == column and not s.is_index]
        place = streams[-1].offset + streams[-1].bytes - 1
        old = file.read_at(1, place)[0]
    with open(path, "r+b") as file:
        file.seek(place)
        file.write(bytes([old ^ 4]))


WITH_SCORE = (Column("id", "int64"), Column("score", "float32", missing=-1.0))


def test_one_wrong_bit_is_found_by_the_checksum_and_names_file_stripe_and_column(checked):
    flip_a_bit(checked, 1, "score")
    with BatchReader(ReadSpec((checked,), WITH_SCORE, 10)) as reader:
        arrived = []
        with pytest.raises(tf.errors.OpError) as error:
            arrived.extend(values for values, _ in reader.dataset)
        cause = reader.cause(error.value)
    assert isinstance(cause, DataError)
    assert str(cause).startswith(f"{checked}: stripe 1: column score: expected CRC ")


def test_a_wrong_bit_of_a_column_that_is_not_read_is_nobodys_business(checked):
    flip_a_bit(checked, 1, "score")
    with BatchReader(ReadSpec((checked,), WITH_SCORE[:1], 150)) as reader:
        assert [values["id"].numpy().tolist() for values, _ in reader.dataset] == [list(range(150))]


def test_a_damaged_stripe_can_be_left_out_and_its_rows_are_counted(checked):
    flip_a_bit(checked, 1, "score")
    with BatchReader(ReadSpec((checked,), WITH_SCORE, 40, on_bad="skip", epochs=2)) as reader:
        assert int(reader.dataset.cardinality()) == tf.data.UNKNOWN_CARDINALITY
        batches = list(reader.dataset)
    for epoch in (0, 1):
        ids = [i for values, info in batches if info[2] == epoch for i in values["id"].numpy()]
        assert ids == [*range(50), *range(100, 150)]
    infos = np.array([info.numpy() for _, info in batches])
    assert infos[:, 1].tolist() == [40, 40, 20] * 2
    assert infos[:, 3:].sum(axis=0).tolist() == [100, 0, 20]


def test_files_that_cannot_be_read_can_be_left_out(checked, tmp_path):
    bad = [tmp_path / name for name in ("cut.orc", "empty.orc", "none.orc")]
    bad[0].write_bytes(Path(checked).read_bytes()[:-100])
    bad[1].write_bytes(b"")
    other = orc_files.write(tmp_path / "other.orc", "struct<id:string,score:float>", [[("x", 1.0)]])
    paths = (str(bad[0]), checked, other, str(bad[1]), str(bad[2]))
    with BatchReader(ReadSpec(paths, WITH_SCORE, 200, on_bad="skip")) as reader:
        assert [values["id"].numpy().tolist() for values, _ in reader.dataset] == [list(range(150))]
    assert [path for path, _ in reader.plan.lost] == [str(bad[0]), other, str(bad[1]), str(bad[2])]
    assert all(problem.startswith(f"{path}: ") for path, problem in reader.plan.lost)
    with pytest.raises(DataError) as error:
        BatchReader(ReadSpec(paths, WITH_SCORE, 200))
    assert str(error.value).splitlines() == [problem for _, problem in reader.plan.lost]
    with pytest.raises(DataError, match=r"cut\.orc: expected an ORC file"):
        BatchReader(ReadSpec(paths[:1], WITH_SCORE, 200, on_bad="skip"))
