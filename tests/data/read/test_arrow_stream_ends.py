"""A stream that ends or is cut where it should not never gives a wrong batch."""

import contextlib
import itertools
import os
import signal
import socket
import threading
import time

import numpy as np
import pyarrow as pa
import pyarrow.orc as orc
import pytest
import tensorflow as tf

from data.columns import Column
from data.read.arrow_stream import BatchReader, _dataset
from data.read.batches import Batches
from data.read.part_reader import output_schema
from data.read.read_spec import ReadSpec
from data.read.stream_format import stream_schema, to_messages
from tests.data import orc_files
from tests.data.read.children import in_child

COLUMNS = (Column("items", "int64_list"), Column("id", "int64"), Column("score", "float32"))
END_OF_STREAM = b"\xff\xff\xff\xff\0\0\0\0"
KEY = 0x0123456789ABCDEF


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
    script = "import sys; from tests.data.read.test_arrow_stream_ends import *; read_cut_messages(sys.argv[1])"
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
