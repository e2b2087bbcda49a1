"""A reader process comes and goes with its trainer and leaves nothing behind."""

import glob
import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from data.columns import Column
from data.read.arrow_server import Request
from data.read.batches import Shard
from data.read.plan import plan
from data.read.read_spec import Position, ReadSpec
from data.read.reader_process import ReaderProcess
from data.read.stripes import Part, Stripe
from data.sample.sampling import Constant, Factor, Lookup, Sampling
from data.where import parse
from tests.data import orc_files

ROOT = Path(__file__).resolve().parents[3]
COLUMNS = (Column("id", "int64"),)


@pytest.fixture
def path(tmp_path):
    return orc_files.numbered(tmp_path / "a.orc", [50, 50])


def start(path, epochs=1):
    spec = ReadSpec((str(path),), COLUMNS, 30, epochs=epochs)
    return ReaderProcess(Shard.of(spec, plan(spec)), 1)


def connect(endpoint):
    client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    client.connect(endpoint.removeprefix("unix://"))
    return client


def is_gone(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    with open(f"/proc/{pid}/stat") as stat:
        return stat.read().rsplit(")", 1)[1].split()[0] == "Z"


def wait_until(condition):
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_the_stream_is_plain_arrow_with_one_row_a_batch_and_a_sealed_trailer(path):
    reader = start(path)
    with connect(reader.endpoint) as client, client.makefile("rb") as stream:
        batches = list(pa.ipc.open_stream(stream))
    reader.stop()
    assert [trailer for batch in batches for trailer in batch.column(1).to_pylist()] == [
        [0, 30, 0, 0, 0, reader.key],
        [1, 30, 0, 0, 0, reader.key + 1],
        [2, 30, 0, 0, 0, reader.key + 2],
        [3, 10, 0, 0, 0, reader.key + 3],
    ]
    assert [i for batch in batches for entry in batch.column(0).to_pylist() for i in entry] == list(range(100))


def test_stopping_leaves_no_process_and_no_socket(path):
    reader = start(path)
    folder = os.path.dirname(reader.endpoint.removeprefix("unix://"))
    assert os.path.exists(folder)
    reader.stop()
    reader.stop()
    assert is_gone(reader.pid) and not os.path.exists(folder)


def test_a_reader_that_is_forgotten_is_stopped(path):
    reader = start(path)
    pid, folder = reader.pid, os.path.dirname(reader.endpoint.removeprefix("unix://"))
    del reader
    assert is_gone(pid) and not os.path.exists(folder)


def test_stopping_ends_the_stream_between_two_messages(path):
    reader = start(path, epochs=1_000_000)
    with connect(reader.endpoint) as client, client.makefile("rb") as stream:
        messages = pa.ipc.MessageReader.open_stream(stream)
        for _ in range(10):
            messages.read_next_message()
        reader._process.stdin.close()
        with pytest.raises(StopIteration):
            while True:  # a message cut short would raise an error of another kind
                messages.read_next_message()
    assert reader._process.wait(30) == 0
    reader.stop()


def test_stopping_does_not_wait_for_a_client_that_does_not_read(path):
    reader = start(path, epochs=1_000_000)
    with connect(reader.endpoint) as client:
        client.recv(1)
        wait_until(lambda: reader._read_status())
        reader.stop()
    assert reader._process.returncode == 0


def test_a_reader_that_has_not_sent_anything_is_stopped_at_once(path):
    reader = start(path)
    reader.stop()
    assert reader._process.returncode == -signal.SIGKILL


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_killed_trainer_leaves_no_process_and_no_socket(path, how, tmp_path):
    script = """
        import sys, time
        from tests.data.read.test_reader_process import connect, start
        reader = start(sys.argv[1], epochs=1_000_000)
        client = connect(reader.endpoint)
        client.recv(1)
        print(reader.pid, flush=True)
        time.sleep(600)
    """
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    trainer = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script), path],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(temporary)},
    )
    pid = int(trainer.stdout.readline())
    assert len(glob.glob(f"{temporary}/reader-*")) == 1
    trainer.send_signal(how)
    trainer.wait(30)
    wait_until(lambda: is_gone(pid) and not glob.glob(f"{temporary}/reader-*"))
    trainer.stdout.close()


def test_a_reader_outlives_the_thread_that_started_it(path):
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:
        reader = pool.submit(start, path).result()
    with connect(reader.endpoint) as client, client.makefile("rb") as stream:
        assert sum(message.num_rows for message in pa.ipc.open_stream(stream)) == 4
    assert reader.failure(0) is None
    reader.stop()


def test_a_reader_that_cannot_start_tells_its_last_words(path, monkeypatch):
    monkeypatch.setattr(sys, "executable", str(ROOT / "tests/data/no_python.sh"))
    reader = start(path)
    failure = reader.failure(30)
    reader.stop()
    assert (
        str(failure) == "the reader process died: exit code 7 before it read anything; its last words:\nno python here"
    )


def test_a_socket_folder_is_found_even_when_the_temporary_folder_has_a_long_path(path, tmp_path, monkeypatch):
    import tempfile

    long = tmp_path / ("x" * 90)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    reader = start(path)
    with connect(reader.endpoint) as client, client.makefile("rb") as stream:
        assert sum(message.num_rows for message in pa.ipc.open_stream(stream)) == 4
    reader.stop()


def test_a_relative_path_starts_at_the_trainers_folder(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    reader = start("a.orc")
    with connect(reader.endpoint) as client, client.makefile("rb") as stream:
        assert sum(message.num_rows for message in pa.ipc.open_stream(stream)) == 4
    reader.stop()


def test_a_request_survives_its_json():
    stripes = [Stripe("a b.orc", 0, 0, 5), Stripe("ü\udcff.orc", 3, 7, 9)]
    parts = (Part(stripes[1], 2, 4), Part(stripes[0], 0, 5))
    columns = (Column("é", "int64_list", missing="empty", max_length=3), Column("x", "float32", missing=0.5))
    spec = ReadSpec(
        ("ü\udcff.orc", "a b.orc"),
        columns,
        3,
        1,
        2,
        5,
        10,
        7,
        where=parse("x > 0.5 and y in (1, 2)"),
        start=Position(2, 9),
    )
    request = Request(Shard(spec, parts, np.array([3, 5])), 4, 17, "/work", "/tmp/x", 5)
    text = request.to_json()
    assert "\n" not in text and json.loads(text)
    back = Request.from_json(text)
    assert back.shard.kept.tolist() == [3, 5]
    assert replace(back, shard=replace(back.shard, kept=None)) == replace(
        request, shard=replace(request.shard, kept=None)
    )


def test_a_request_carries_the_sampling():
    factors = (
        Factor("keep", Constant(0.5), 0),
        Factor("weight", Lookup("item", np.array([3, 9]), np.array([0.5, 2.0]))),
    )
    spec = ReadSpec((), COLUMNS, 3, sampling=Sampling("label", 5, factors))
    back = Request.from_json(Request(Shard(spec, (), None), 1, 17, "/work", "/tmp/x", 5).to_json()).shard.spec.sampling
    assert (back.label, back.seed, back.factors[0]) == ("label", 5, factors[0])
    assert back.factors[1].rate.keys.tolist() == [3, 9] and back.factors[1].rate.values.tolist() == [0.5, 2.0]
