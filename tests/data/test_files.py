"""Opening files on this machine, on a real S3 server, and what is said when that does not work."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
import sys
import threading

import numpy as np
import pyarrow as pa
import pyarrow.orc as orc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data import files
from data.columns import Column
from data.errors import DataError
from data.read import footers
from data.read.footers import check_files, read_footers
from tests.data import orc_files
from tests.data.s3_server import S3

COLUMNS = (Column("id", "int64"), Column("score", "float32"), Column("items", "int64_list"))


def test_a_local_file_is_mapped_and_its_slices_are_not_copied(tmp_path):
    content = bytes(range(256)) * 100
    (tmp_path / "a b[1].bin").write_bytes(content)
    with files.open_input(f"{tmp_path}/a b[1].bin") as file:
        assert isinstance(file, pa.MemoryMappedFile)
        before = pa.total_allocated_bytes()
        whole = file.read_at(len(content), 0)
        piece = file.read_buffer(0)  # at position 0 of nothing
        part = np.frombuffer(file.read_at(100, 7), np.uint8)
        assert whole == content
        assert piece.size == 0
        assert part.tobytes() == content[7:107]
        file.seek(7)
        buffer = file.read_buffer(100)
        file.seek(0)
        assert buffer.address == file.read_buffer(1).address + 7
        assert pa.total_allocated_bytes() == before


def test_a_file_address_is_percent_decoded(tmp_path):
    (tmp_path / "a b%.bin").write_bytes(b"hello")
    path = f"file://{tmp_path}/a%20b%25.bin"
    assert files.local_path(path) == f"{tmp_path}/a b%.bin"
    assert files.file_bytes(path) == 5
    assert files.open_input(path).read() == b"hello"
    assert files.describe([path]) == [files.Entry(path, "file", 5)]
    with pytest.raises(DataError, match="expected file:///and an absolute path, found the host 'other'"):
        files.open_input("file://other/a")


def test_a_name_that_is_not_utf8_is_opened(tmp_path):
    path = os.fsdecode(os.fsencode(str(tmp_path)) + b"/\xff.bin")
    with open(path, "wb") as file:
        file.write(b"x")
    assert files.open_input(path).read() == b"x"


@pytest.mark.parametrize(("name", "code"), [("none", errno.ENOENT), ("folder", errno.EISDIR), ("pipe", errno.EINVAL)])
def test_what_is_no_local_file_is_an_os_error_with_its_name(tmp_path, name, code):
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError) as error:
        files.open_input(f"{tmp_path}/{name}")
    assert (error.value.errno, error.value.filename) == (code, f"{tmp_path}/{name}")


def test_an_unknown_scheme_is_named():
    with pytest.raises(DataError, match=r"^gs://b/a: expected a local path or file://, s3:// or hdfs://, found gs://$"):
        files.open_input("gs://b/a")


def test_an_object_is_read_at_any_position(s3: S3):
    content = bytes(range(256)) * 1000
    url = s3.put("a b/x[1]?%20.bin", content)
    assert files.file_bytes(url) == len(content)
    with files.open_input(url) as file:
        assert file.size() == len(content)
        assert file.read_at(100, 12345) == content[12345:12445]
        assert file.read_at(100, len(content) - 10) == content[-10:]


def test_objects_and_folders_are_told_apart_and_listed(s3: S3):
    s3.put("x/b.orc", b"12")
    s3.put("x/a.orc", b"1")
    s3.put("x/y/c.orc", b"123")
    kinds = [(e.kind, e.file_bytes) for e in files.describe([f"{s3.url}/{k}" for k in ("x/b.orc", "x", "x/", "none")])]
    assert kinds == [("file", 2), ("folder", 0), ("folder", 0), ("nothing", 0)]
    for folder in (f"{s3.url}/x", f"{s3.url}/x/"):
        assert [e.path for e in files.list_folder(folder)] == [f"{s3.url}/x/{n}" for n in ("a.orc", "b.orc", "y")]
    assert [e.path for e in files.list_folder(s3.url, recursive=True) if e.kind == "file"] == [
        f"{s3.url}/x/{name}" for name in ("a.orc", "b.orc", "y/c.orc")
    ]
    assert files.list_folder(f"{s3.url}/none") == []


def test_an_orc_file_on_s3_is_read_like_the_same_file_here(s3: S3, tmp_path):
    path = orc_files.numbered(tmp_path / "a.orc", [500, 300])
    with open(path, "rb") as file:
        url = s3.put("day=1/a.orc", file.read())
    (here,), (there,) = read_footers([path], COLUMNS), read_footers([url], COLUMNS)
    assert there.path == url
    assert there.schema == here.schema
    assert [s.rows for s in there.stripes] == [s.rows for s in here.stripes] == [500, 300]
    assert check_files([url], COLUMNS) == check_files([path], COLUMNS)
    with files.open_input(url) as file:
        assert orc.ORCFile(file).read().equals(orc.ORCFile(path).read())


def test_a_footer_on_s3_is_one_request_for_its_end_and_one_for_its_start(s3: S3, tmp_path, monkeypatch):
    path = orc_files.write(tmp_path / "a.orc", "struct<id:bigint>", [[(i * 7919 % 100_003,) for i in range(200_000)]])
    with open(path, "rb") as file:
        url = s3.put("a.orc", file.read())
    reads = []

    class Counted(pa.NativeFile):
        def __init__(self, file):
            self.file = file

        def size(self):
            return self.file.size()

        def read_at(self, count, offset):
            reads.append((offset, count))
            return self.file.read_at(count, offset)

        def close(self):
            self.file.close()

        def __exit__(self, *error):
            self.close()

    opened = footers.open_input
    monkeypatch.setattr(footers, "open_input", lambda path: Counted(opened(path)))
    size = files.file_bytes(url)
    assert size > 2**18
    assert [stripe.rows for stripe in footers.read_footer(url).stripes] == [200_000]
    assert reads == [(size - 2**18, 2**18), (0, 3)]


@given(st.binary(max_size=60), st.integers(0, 80), st.lists(st.tuples(st.integers(0, 70), st.integers(0, 70))))
@settings(deadline=None, max_examples=100)
def test_a_file_whose_end_is_kept_reads_the_same(content, kept, reads):
    file = files.keep_end(pa.BufferReader(content), kept)
    assert file.size() == len(content)
    for position, count in reads:
        position = min(position, len(content))
        assert file.read_at(count, position) == content[position : position + count]
        file.seek(position)
        assert file.read(count) == content[position : position + count]
    file.seek(0)
    assert file.read() == content


def test_a_missing_object_or_bucket_is_a_missing_file(s3: S3):
    for url in (f"{s3.url}/none.orc", "s3://no-such-bucket/a.orc"):
        with pytest.raises(FileNotFoundError) as error:
            files.open_input(url)
        assert error.value.filename == url
        with pytest.raises(DataError) as said:
            check_files([url], COLUMNS)
        assert str(said.value) == f"{url}: expected an ORC file, found no file by that name"


def test_bad_objects_are_told_like_bad_files(s3: S3, tmp_path):
    path = orc_files.numbered(tmp_path / "a.orc", [50, 50])
    with open(path, "rb") as file:
        content = file.read()
    empty, text, cut = s3.put("empty", b""), s3.put("text", b"id,x\n1,2\n"), s3.put("cut", content[:-9])
    with pytest.raises(DataError) as error:
        check_files([empty, text, cut], COLUMNS)
    lines = str(error.value).splitlines()
    assert lines[0] == f"{empty}: expected an ORC file, found an empty file (0 bytes)"
    assert lines[1] == f"{text}: expected an ORC file, found one that starts with b'id,'"
    assert lines[2].startswith(f"{cut}: expected an ORC file, found a truncated or damaged one")
    assert len(lines) == 3


def unreachable(url: str) -> str:
    """The one line that is said."""
    lines = []
    for attempt in (files.open_input, files.file_bytes, files.list_folder):
        with pytest.raises(DataError) as error:
            attempt(url)
        lines.append(str(error.value))
        assert "\n" not in lines[-1]
        assert lines[-1].startswith(f"{url}: expected a readable file, found: ")
    return lines[0]


def test_an_endpoint_where_nobody_listens_is_named(s3: S3, monkeypatch):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        endpoint = f"http://127.0.0.1:{free.getsockname()[1]}"
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", endpoint)  # goes before AWS_ENDPOINT_URL
    assert unreachable("s3://b/a.orc").endswith(f"(endpoint {endpoint})")


def test_an_endpoint_that_speaks_no_http_is_an_error(s3: S3, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            while True:
                try:
                    client, _ = server.accept()
                except OSError:
                    return
                with client:
                    client.sendall(b"SSH-2.0-OpenSSH_9.6\r\n")

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.getsockname()[1]}")
        assert "(endpoint http://127.0.0.1:" in unreachable("s3://b/a.orc")
        server.shutdown(socket.SHUT_RDWR)


@pytest.mark.slow
def test_an_endpoint_that_never_answers_is_given_up(s3: S3, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.getsockname()[1]}")
        with pytest.raises(DataError, match="Timeout was reached"):
            files.open_input("s3://b/a.orc")


@pytest.mark.parametrize("endpoint", ["ftp://host", "http://"])
def test_an_endpoint_that_is_no_address_is_named(s3: S3, monkeypatch, endpoint):
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    assert f"AWS_ENDPOINT_URL: expected http://host:port or https://host:port, found '{endpoint}'" in unreachable(
        "s3://b/a.orc"
    )


def test_an_address_without_bucket_is_refused():
    with pytest.raises(DataError, match=r"^s3:///a: expected s3://bucket/key, found no bucket$"):
        files.open_input("s3:///a")


def test_a_new_endpoint_is_used_at_once(s3: S3, monkeypatch):
    url = s3.put("a", b"1")
    assert files.file_bytes(url) == 1
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    with pytest.raises(DataError):
        files.file_bytes(url)


def test_hdfs_without_hadoop_is_one_line(monkeypatch):
    # In a process of its own: libhdfs is looked up once, and a machine with Hadoop would really connect.
    program = (
        "import sys\nfrom data import files\nfrom data.errors import DataError\n"
        "for path in sys.argv[1:]:\n"
        "    try:\n        files.open_input(path)\n"
        "    except DataError as error:\n        print(error)\n"
    )
    paths = ["hdfs://nowhere.invalid:8020/a b.orc", "hdfs:///a.orc", "hdfs://user@name/a.orc", "hdfs://host:port/a"]
    environment = {k: v for k, v in os.environ.items() if k not in ("JAVA_HOME", "HADOOP_HOME", "ARROW_LIBHDFS_DIR")}
    done = subprocess.run([sys.executable, "-c", program, *paths], capture_output=True, text=True, env=environment)
    lines = done.stdout.splitlines()
    assert len(lines) == len(paths), done.stderr
    for path, line in zip(paths[:3], lines):
        assert line.startswith(f"{path}: expected a readable file, found: ")
    assert lines[3].startswith("hdfs://host:port/a: expected hdfs://host:port/path, found: Port could not be cast")


def test_hdfs_addresses_reach_the_right_name_node(monkeypatch):
    asked = []

    class Stop(Exception):
        pass

    def connect(host, port, user=None):
        asked.append((host, port, user))
        raise Stop

    monkeypatch.setattr(files.fs, "HadoopFileSystem", connect)
    for path in ("hdfs://node:9000/a", "hdfs:///a", "hdfs://ha-name/a", "hdfs://me@node/a"):
        with pytest.raises(Stop):
            files.open_input(path)
    assert asked == [("node", 9000, None), ("default", 0, None), ("ha-name", 0, None), ("node", 0, "me")]
