"""Batches as TensorFlow gets them, from a real reader process."""

import contextlib
import itertools
import math
import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.orc as orc
import pytest
import tensorflow as tf

from data.columns import Column
from data.errors import DataError
from data.files import open_input
from data.format.tail import column_id, read_tail, stripe_streams
from data.orc_writer import OrcWriter, Settings
from data.read.arrow_stream import BatchReader, _dataset
from data.read.batches import Batches
from data.read.footers import read_footer
from data.read.part_reader import output_schema
from data.read.read_spec import ReadSpec
from data.read.stream_format import stream_schema, to_messages
from data.sample.sampling import Constant, Factor, Sampling, sample
from data.where import parse
from tests.data import orc_files

ROOT = Path(__file__).resolve().parents[3]
COLUMNS = (Column("items", "int64_list"), Column("id", "int64"), Column("score", "float32"))
END_OF_STREAM = b"\xff\xff\xff\xff\0\0\0\0"
KEY = 0x0123456789ABCDEF


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("a folder")
    a = orc_files.numbered(folder / "a.orc", [40, 3, 25])
    b = orc_files.numbered(folder / "b.orc", [1, 31], start=68)
    return (a, b)


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


@pytest.mark.parametrize(
    "trailer",
    [[1, 3, 0, 0, 0, 0, KEY], [1, 3, 0, 0, 0, 0, KEY + 2], [1, 3, 0, 0, 0, 0, 1], [1, 3, 0, 0, 0, KEY + 1], []],
    ids=["of the batch before", "of the batch after", "of another reader", "too short", "empty"],
)
def test_a_batch_without_its_seal_is_refused(tmp_path, trailer):
    columns = (Column("id", "int64"), Column("items", "int64_list"))
    spec = ReadSpec((), columns, 3)
    schema = stream_schema(spec)

    def message(last):
        arrays = [[7, 8, 9], [1, 2], [0, 1, 1, 2], last]
        return pa.record_batch([pa.array([a], pa.list_(pa.int64())) for a in arrays], schema=schema).serialize()

    stream = [schema.serialize(), message([0, 3, 0, 0, 0, 0, KEY]), message(trailer), END_OF_STREAM]
    with sent(b"".join(stream), tmp_path) as endpoint:
        iterator = iter(_dataset(endpoint, KEY, spec, 2, True))
        values, info = next(iterator)
        assert values["items"].to_list() == [[1], [], [2]] and info.numpy().tolist() == [0, 3, 0, 0, 0, 0]
        with pytest.raises(tf.errors.InvalidArgumentError):
            next(iterator)


CUT_TRAILER_BYTES = 8 * 6


def read_cut_messages(folder):
    """Reads a stream of two messages of two batches each, whose second is cut, at every position within the trailers
    and some before, from the end on; tells each position and what arrived wrong."""
    spec = ReadSpec((), (Column("items", "int64_list"),), 3)
    schema = stream_schema(spec)
    items = [[[number], [], [7, number]] for number in range(4)]
    counts = np.stack([np.arange(4), np.full(4, 9)], axis=1)
    batches = Batches(0, pa.record_batch([list(itertools.chain(*items))], output_schema(spec)), counts)
    expected = [(rows, [number, 3, 0, number, 9]) for number, rows in enumerate(items)]
    cuts = None
    for attempt in itertools.count():
        # Memory may still hold the messages of the attempts before: no byte of a seal may be the same.
        key = int.from_bytes(bytes([1 + attempt % 100] * 8), "little")
        whole, cut = (
            b"".join(m.serialize().to_pybytes() for m in to_messages(batches[n : n + 2], schema, key, n))
            for n in (0, 2)
        )
        cuts = cuts or [*range(1, 2 * CUT_TRAILER_BYTES + 1), *range(2 * CUT_TRAILER_BYTES + 1, len(cut), 61)]
        if attempt == len(cuts):
            return
        missing = cuts[attempt]
        arrived = []
        with sent(schema.serialize().to_pybytes() + whole + cut[:-missing], folder) as endpoint:
            try:
                for values, info in _dataset(endpoint, key, spec, 4, True):
                    arrived.append((values["items"].to_list(), info.numpy().tolist()))
                print("WRONG: no error", missing)
            except tf.errors.OpError:
                pass
        # A batch may arrive once the first byte of its seal has: the other seven may still lie there from the seal of a
        # batch before, and are the same.
        most = 2 + (missing < 8) + (missing < CUT_TRAILER_BYTES + 8)
        if not 2 <= len(arrived) <= most or arrived != expected[: len(arrived)]:
            print("WRONG:", missing, arrived)
        print("refused", missing, flush=True)


def test_a_message_cut_anywhere_gives_no_batch_that_has_not_arrived(tmp_path):
    """tensorflow-io's client may abort its process when a cut lies before the trailers, so this runs in one of its
    own."""
    script = "import sys; from tests.data.read.test_arrow_stream import *; read_cut_messages(sys.argv[1])"
    child = in_child(script, tmp_path)
    out, err = child.communicate(timeout=120)
    assert "WRONG" not in out, out
    refused = [int(line.split()[1]) for line in out.splitlines()]
    assert refused[: 2 * CUT_TRAILER_BYTES] == list(range(1, 2 * CUT_TRAILER_BYTES + 1)), err
    assert child.returncode in (0, -signal.SIGABRT, -signal.SIGSEGV), err


@contextlib.contextmanager
def sent(stream, folder):
    """The endpoint of a server that sends `stream` to one client and closes the connection."""
    path = f"{folder}/s"

    def serve():
        connection, _ = listener.accept()
        listener.close()  # tensorflow-io's client connects again after an error
        with connection:
            connection.sendall(stream)

    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(path)
        listener.listen()
        server = threading.Thread(target=serve)
        server.start()
        yield f"unix://{path}"
        server.join()
    os.unlink(path)


def in_child(script, *arguments):
    """Runs a script that may be killed or abort, with the project in its path."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script), *map(str, arguments)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd="/",
    )


def test_a_reader_killed_between_two_messages_is_told_by_cause(tmp_path, monkeypatch):
    # On this slow disk the reader process waits for the second file, between two messages.
    (tmp_path / "sitecustomize.py").write_text(
        "import time, pyarrow\n"
        "fast = pyarrow.memory_map\n"
        "pyarrow.memory_map = lambda path, *more: time.sleep(600 * path.endswith(b'b.orc')) or fast(path, *more)\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    first = orc_files.numbered(tmp_path / "a.orc", [35])
    second = orc_files.numbered(tmp_path / "b.orc", [30], start=35)
    with BatchReader(ReadSpec((first, second), COLUMNS, 10)) as reader:
        iterator = iter(reader.dataset)
        assert [int(next(iterator)[1][0]) for _ in range(3)] == [0, 1, 2]
        while reader._process._read_status() != {"reading": f"{second}, stripe 0"}:
            time.sleep(0.01)
        os.kill(reader._process.pid, signal.SIGKILL)
        with pytest.raises(tf.errors.OpError) as error:
            next(iterator)
        cause = reader.cause(error.value)
    assert isinstance(cause, RuntimeError)
    assert str(cause) == f"the reader process died: signal 9 (SIGKILL) while reading {second}, stripe 0"


def test_a_reader_killed_before_the_first_message_is_told_by_cause(files):
    with BatchReader(ReadSpec(files, COLUMNS, 10)) as reader:
        os.kill(reader._process.pid, signal.SIGKILL)
        with pytest.raises(tf.errors.OpError) as error:
            list(reader.dataset)
        cause = reader.cause(error.value)
    assert str(cause) == "the reader process died: signal 9 (SIGKILL) before it read anything"


def test_a_reader_killed_in_mid_message_never_gives_a_wrong_batch(tmp_path):
    """tensorflow-io's client may abort its process then, so this runs in one of its own."""
    path = tmp_path / "big.orc"
    orc.write_table(pa.table({"id": np.arange(400_000)}), path, compression="zstd", stripe_size=1 << 20)
    script = """
        import os, signal, sys, time
        import numpy as np
        import tensorflow as tf
        from data.read.arrow_stream import BatchReader
        from data.orc import Column, ReadSpec
        with BatchReader(ReadSpec((sys.argv[1],), (Column("id", "int64"),), 100_000, epochs=50)) as reader:
            iterator = iter(reader.dataset)
            next(iterator)
            time.sleep(0.5)
            os.kill(reader._process.pid, signal.SIGKILL)
            try:
                for number, (values, info) in enumerate(iterator, 1):
                    start = number % 4 * 100_000
                    assert np.array_equal(values["id"], np.arange(start, start + 100_000)), "WRONG BATCH"
                print("END")
            except tf.errors.OpError as error:
                print("CAUSE", reader.cause(error))
    """
    child = in_child(script, path)
    out, err = child.communicate(timeout=120)
    assert "WRONG BATCH" not in err and "END" not in out
    assert out.startswith("CAUSE the reader process died: signal 9 (SIGKILL)") or child.returncode == -signal.SIGABRT


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


@pytest.fixture
def checked(tmp_path):
    """Three stripes of 50 rows, with checksums."""
    path = f"{tmp_path}/checked.orc"
    score = pa.array([None if i % 10 == 0 else i / 4 for i in range(150)], pa.float32())
    table = pa.table({"id": np.arange(150), "score": score, "label": np.arange(150) % 2})
    with OrcWriter(path, table.schema, settings=Settings(stripe_rows=50)) as writer:
        writer.write(table)
    return path


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
