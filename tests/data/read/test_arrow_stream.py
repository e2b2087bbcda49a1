"""Batches as TensorFlow gets them, from a real reader process."""

import math

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf

from data.columns import Column
from data.errors import DataError
from data.read.arrow_stream import BatchReader
from data.read.footers import read_footer
from data.read.read_spec import ReadSpec
from data.sample.sampling import Constant, Factor, Sampling, sample
from data.where import parse
from tests.data import orc_files
from tests.data.read.children import in_child

COLUMNS = (Column("items", "int64_list"), Column("id", "int64"), Column("score", "float32"))


def rows_of(values):
    columns = (values["id"].numpy().tolist(), values["score"].numpy().tolist(), values["items"].to_list())
    return list(zip(*columns))


def test_values_types_and_shapes_are_those_declared(files):
    with BatchReader(ReadSpec(files, COLUMNS, 30)) as reader:
        values, info = reader.dataset.element_spec
        assert values == {
            "items": tf.RaggedTensorSpec([None, None], tf.int64, 1, tf.int64),
            "id": tf.TensorSpec([None], tf.int64),
            "score": tf.TensorSpec([None], tf.float32),
        }
        assert info == tf.TensorSpec([7], tf.int64)
        batches = list(reader.dataset)
    assert [row for values, _ in batches for row in rows_of(values)] == orc_files.read(files[0]) + orc_files.read(
        files[1]
    )
    assert [info.numpy()[:3].tolist() for _, info in batches] == [[0, 30, 0], [1, 30, 0], [2, 30, 0], [3, 10, 0]]
    assert [len(values["id"]) for values, _ in batches] == [30, 30, 30, 10]


def test_all_epochs_come_in_one_stream_and_the_batch_number_counts_on(files):
    with BatchReader(ReadSpec(files, COLUMNS, 60, epochs=3, shuffle_rows=64, seed=1)) as reader:
        assert (reader.rows, reader.batches, int(reader.dataset.cardinality())) == (100, 6, 6)
        batches = list(reader.dataset)
    infos = [info.numpy()[:3].tolist() for _, info in batches]
    assert infos == [[0, 60, 0], [1, 40, 0], [2, 60, 1], [3, 40, 1], [4, 60, 2], [5, 40, 2]]
    epochs = [[i for v, info in batches if info[2] == e for i in v["id"].numpy()] for e in range(3)]
    assert all(sorted(epoch) == list(range(100)) for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) == 3


def test_shards_read_every_row_once(files):
    seen = []
    for shard in range(3):
        with BatchReader(ReadSpec(files, COLUMNS, 16, shard=shard, num_shards=3)) as reader:
            ids = [i for values, _ in reader.dataset for i in values["id"].numpy()]
            assert len(ids) == reader.rows
            assert int(reader.dataset.cardinality()) == reader.batches == math.ceil(reader.rows / 16)
            seen += ids
    assert sorted(seen) == list(range(100))


def test_a_shard_without_rows_is_an_empty_dataset_of_the_same_kind(tmp_path):
    path = orc_files.numbered(tmp_path / "a.orc", [2])
    spec = [ReadSpec((path,), COLUMNS, 10, shard=shard, num_shards=3) for shard in range(3)]
    counts = []
    for one in spec:
        with BatchReader(one) as reader:
            counts.append((reader.rows, reader.batches, len(list(reader.dataset))))
            assert reader.dataset.element_spec[1] == tf.TensorSpec([7], tf.int64)
    assert sorted(counts) == [(0, 0, 0), (1, 1, 1), (1, 1, 1)]


def test_empty_lists_only_missing_values_and_cut_lists_arrive(tmp_path):
    rows = [(None, None, None), (None, 0.5, []), (3, None, None), (4, 1.5, [1, 2, 3, 4])]
    path = orc_files.write(tmp_path / "a.orc", "struct<id:int,score:double,items:array<int>>", [rows])
    columns = (
        Column("id", "int64", missing=-1),
        Column("score", "float32", missing=0.25),
        Column("items", "int64_list", missing="empty", max_length=2),
    )
    with BatchReader(ReadSpec((path,), columns, 3)) as reader:
        first, last = (rows_of(values) for values, _ in reader.dataset)
    assert first == [(-1, 0.25, []), (-1, 0.5, []), (3, 0.25, [])]
    assert last == [(4, 1.5, [3, 4])]


def test_every_iterator_starts_from_the_first_batch_and_may_be_dropped_half_way(files):
    with BatchReader(ReadSpec(files, COLUMNS, 5)) as reader:
        for _ in range(3):
            assert next(iter(reader.dataset))[1][0] == 0
        one, two = iter(reader.dataset), iter(reader.dataset)
        pairs = [(next(one)[1][0], next(two)[1][0]) for _ in range(20)]
    assert pairs == [(i, i) for i in range(20)]


def test_the_dataset_runs_inside_a_graph(files):
    @tf.function
    def total(dataset):
        result = tf.constant(0, tf.int64)
        for values, info in dataset:
            result += tf.reduce_sum(values["id"]) + tf.reduce_sum(values["items"]) * 0 + info[1] * 0
        return result

    with BatchReader(ReadSpec(files, COLUMNS, 7)) as reader:
        assert int(total(reader.dataset)) == sum(range(100))


def test_wrong_files_are_told_before_a_process_starts(files, tmp_path):
    with pytest.raises(DataError, match=r"none\.orc: expected an ORC file, found no file by that name"):
        BatchReader(ReadSpec((*files, f"{tmp_path}/none.orc"), COLUMNS, 7))


@pytest.mark.parametrize(
    "wrong",
    [
        {"batch_rows": 0},
        {"epochs": 0},
        {"shuffle_rows": -1},
        {"seed": -1},
        {"num_shards": 0},
        {"shard": 2, "num_shards": 2},
        {"columns": ()},
        {"columns": (Column("id", "int64"), Column("id", "float32"))},
    ],
)
def test_settings_without_sense_are_refused(wrong):
    with pytest.raises(ValueError, match=r"expected .* found"):
        ReadSpec(**{"paths": ("a.orc",), "columns": COLUMNS, "batch_rows": 8, **wrong})


def test_a_damaged_stripe_in_mid_stream_is_told_by_cause(tmp_path):
    path = orc_files.numbered(tmp_path / "a.orc", [50, 50, 50])
    orc_files.damage_stripe(path, 1)
    with BatchReader(ReadSpec((path,), COLUMNS, 10)) as reader:
        arrived = []
        with pytest.raises(tf.errors.OpError) as error:
            arrived.extend(values for values, _ in reader.dataset)
        cause = reader.cause(error.value)
    assert isinstance(cause, DataError)
    assert str(cause).startswith(f"{path}: stripe 1 (rows 50 to 99, counted from 0): expected a readable stripe")


def test_a_wrong_value_in_mid_stream_is_told_by_cause(tmp_path):
    rows = [(i,) for i in range(100)]
    rows[77] = (None,)
    path = orc_files.write(tmp_path / "a.orc", "struct<id:bigint>", [rows[:50], rows[50:]])
    with BatchReader(ReadSpec((path,), (Column("id", "int64"),), 10)) as reader:
        with pytest.raises(tf.errors.OpError) as error:
            list(reader.dataset)
        cause = reader.cause(error.value)
    assert isinstance(cause, DataError)
    assert str(cause).startswith(f"{path}: column id: row 77 (counted from 0): expected an integer, found null")


def test_an_error_that_is_not_the_readers_is_its_own_cause(files):
    with BatchReader(ReadSpec(files, COLUMNS, 10)) as reader:
        list(reader.dataset)
        error = ZeroDivisionError("elsewhere")
        assert reader.cause(error) is error


def test_the_dataset_stays_on_the_workers_own_cpu_in_a_cluster(files):
    script = """
        import json, socket, subprocess, sys
        import tensorflow as tf
        from data.read.arrow_stream import BatchReader
        from data.orc import Column, ReadSpec
        server = '''
        import sys, tensorflow as tf
        s = tf.distribute.Server(tf.train.ClusterSpec({"ps": ["localhost:0"]}), job_name="ps", task_index=0)
        print(s.target, flush=True); sys.stdin.read()
        '''
        server = "\\n".join(line.strip() for line in server.splitlines())
        ps = subprocess.Popen(
            [sys.executable, "-c", server], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        address = ps.stdout.readline().strip().removeprefix("grpc://")
        with socket.socket() as free:
            free.bind(("localhost", 0))
            own = "localhost:%d" % free.getsockname()[1]
        tf.config.experimental_connect_to_cluster(
            tf.train.ClusterSpec({"ps": [address], "worker": {3: own}}), job_name="worker", task_index=3)
        with tf.device("/job:ps/task:0"):
            table = tf.Variable(tf.zeros([], tf.int64))
            columns = (Column("id", "int64"), Column("items", "int64_list"))
            reader = BatchReader(ReadSpec(tuple(sys.argv[1:]), columns, 30))
        @tf.function
        def step(values):
            with tf.device("/job:ps/task:0"):
                table.assign_add(tf.reduce_sum(values["id"]))
        with reader:
            devices = set()
            for values, info in reader.dataset:
                devices |= {values["id"].device, values["items"].values.device, info.device}
                step(values)
        print(json.dumps([sorted(devices), int(table), table.device]))
        ps.stdin.close(); ps.wait()
    """
    child = in_child(script, *files)
    out, err = child.communicate(timeout=120)
    assert child.returncode == 0, err
    assert out.strip() == (
        '[["/job:worker/replica:0/task:3/device:CPU:0"], 4950, "/job:ps/replica:0/task:0/device:CPU:0"]'
    )


def test_a_condition_and_a_dropped_remainder(files):
    spec = ReadSpec(files, COLUMNS, 16, where=parse("id >= 20 and id != 50"), drop_remainder=True, epochs=2)
    with BatchReader(spec) as reader:
        assert (reader.rows, reader.batches, int(reader.dataset.cardinality())) == (79, 8, 8)
        batches = list(reader.dataset)
    ids = [i for values, _ in batches for i in values["id"].numpy()]
    kept = [i for i in range(20, 100) if i != 50]
    assert ids == kept[:64] * 2
    assert [len(values["id"]) for values, _ in batches] == [16] * 8


def test_a_condition_that_no_row_meets_gives_no_batch(files):
    with BatchReader(ReadSpec(files, COLUMNS, 16, where=parse("score < 0"))) as reader:
        assert (reader.rows, reader.batches, len(list(reader.dataset))) == (0, 0, 0)


def test_a_condition_on_a_column_that_is_missing_is_told(files):
    with pytest.raises(DataError, match=r"a\.orc: column scor: .* as where compares it, found no such column; did you"):
        BatchReader(ReadSpec(files, COLUMNS, 16, where=parse("scor < 0")))


WITH_SCORE = (Column("id", "int64"), Column("score", "float32", missing=-1.0))


@pytest.mark.parametrize("how", [{}, {"shuffle_rows": 60}, {"where": parse("id > 30")}])
def test_sampling_keeps_rows_and_adds_weights_and_offsets(checked, how):
    sampling = Sampling("label", 3, (Factor("keep", Constant(0.5), 0), Factor("weight", Constant(2.0), 1)))
    with BatchReader(ReadSpec((checked,), WITH_SCORE, 32, sampling=sampling, **how)) as reader:
        spec = reader.dataset.element_spec[0]
        assert [spec[name] for name in ("sample_weight", "sample_offset")] == [tf.TensorSpec([None], tf.float32)] * 2
        batches = [values for values, _ in reader.dataset]
    table = {"label": pa.array(np.arange(150) % 2)}
    expected = sample(sampling, table, read_footer(checked).file_key, np.arange(150))
    ids = np.flatnonzero(expected.keep)
    rows = dict(zip(ids.tolist(), zip(expected.weight.tolist(), expected.offset.tolist())))
    rows = {i: row for i, row in rows.items() if i > 30 or "where" not in how}
    names = ("id", "sample_weight", "sample_offset")
    found = [row for values in batches for row in zip(*(values[name].numpy().tolist() for name in names))]
    assert {i: (weight, offset) for i, weight, offset in found} == rows
    assert len(found) == len(rows) == reader.rows < 130
    assert sum(i % 2 for i, *_ in found) > 10 and {rows[i][0] for i in rows} == {1.0, 2.0}


def test_a_number_of_batches_ready_can_be_asked_for(files):
    with BatchReader(ReadSpec(files, COLUMNS, 10, prefetch_batches=2)) as reader:
        assert len(list(reader.dataset)) == 10
