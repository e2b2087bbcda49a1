"""Files wherever they lie: local paths and `file://`, `s3://` and `hdfs://` addresses behind one small face.

S3 is set up by the variables that AWS's own tools read: AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL (for servers that are
not Amazon's), AWS_REGION or AWS_DEFAULT_REGION, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN,
AWS_PROFILE and ~/.aws. A key is written as it is, not percent-encoded. HDFS is reached through the machine's Hadoop
(JAVA_HOME, HADOOP_HOME, CLASSPATH); `hdfs:///path` is the cluster of its core-site.xml.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.fs as fs

from data.errors import DataError

_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
_SCHEMES = {"s3": "s3", "s3a": "s3", "hdfs": "hdfs"}

# A wrong address fails within seconds: at most three tries, about 10 s without a connection, 30 s without an answer.
_CONNECT_SECONDS = 3.0
_ANSWER_SECONDS = 10.0
_ATTEMPTS = 3


@dataclass(frozen=True)
class Entry:
    """What a path names."""

    path: str
    kind: Literal["file", "folder", "nothing"]
    file_bytes: int
    """Of a file; else 0."""


def is_address(path: str) -> bool:
    """Whether `path` starts with a scheme, so that it is not relative to any folder."""
    return _ADDRESS.match(path) is not None


def is_remote(path: str) -> bool:
    """Whether `path` is on no local file system."""
    match = _ADDRESS.match(path)
    return match is not None and match.group(1).lower() != "file"


def local_path(path: str) -> str:
    """`path` without a `file://` in front, whose rest is percent-decoded. Raises `DataError` for another host's."""
    match = _ADDRESS.match(path)
    if match is None or match.group(1).lower() != "file":
        return path
    host, slash, rest = match.group(2).partition("/")
    if host not in ("", "localhost") or not slash:
        raise DataError(f"{path}: expected file:///and an absolute path, found the host {host!r}")
    return "/" + unquote(rest, errors="surrogateescape")


def open_input(path: str) -> pa.NativeFile:
    """The file `path`, to be read at any position. A local one is memory-mapped: its slices are not copied.

    Raises `FileNotFoundError`, another `OSError` with an errno for a local file, `DataError` for a remote one whose
    file system does not answer or refuses.
    """
    if not is_remote(path):
        return _map(local_path(path))
    filesystem, inner = _remote(path)
    try:
        return filesystem.open_input_file(inner)
    except FileNotFoundError:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path) from None
    except (OSError, pa.ArrowException) as error:
        raise _unreadable(path, error) from error


def keep_end(file: pa.NativeFile, count: int) -> pa.NativeFile:
    """`file`, whose last `count` bytes are read once, now. For remote files, where every read is a request."""
    return pa.PythonFile(_EndKept(file, count), mode="r")


class _EndKept:
    """What `pa.PythonFile` needs to read `file`, with its end in memory."""

    closed = False

    def __init__(self, file: pa.NativeFile, count: int):
        self._file = file
        self._size = file.size()
        self._end_start = max(self._size - count, 0)
        self._end = file.read_at(self._size - self._end_start, self._end_start)
        self._position = 0

    def seek(self, position: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}[whence]
        self._position = start + position
        return self._position

    def tell(self) -> int:
        return self._position

    def read(self, count: int = -1) -> bytes:
        left = max(self._size - self._position, 0)
        count = left if count < 0 else min(count, left)
        if self._position >= self._end_start:
            start = self._position - self._end_start
            content = self._end[start : start + count]
        else:
            content = self._file.read_at(count, self._position)
        self._position += len(content)
        return content

    def close(self) -> None:
        """`file` is closed by whoever opened it."""


def file_bytes(path: str) -> int:
    """Size of the file `path`. Raises as `open_input` does."""
    if not is_remote(path):
        return os.stat(local_path(path)).st_size
    (entry,) = describe([path])
    if entry.kind == "nothing":
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    return entry.file_bytes


def describe(paths: Sequence[str]) -> list[Entry]:
    """What each of `paths` names. Raises `DataError` when a remote file system does not answer or refuses."""
    entries = []
    for path in paths:
        if not is_remote(path):
            entries.append(_describe_local(path))
            continue
        filesystem, inner = _remote(path)
        try:
            entries.append(_entry(path, filesystem.get_file_info(inner)))
        except (OSError, pa.ArrowException) as error:
            raise _unreadable(path, error) from error
    return entries


def list_folder(path: str, recursive: bool = False) -> list[Entry]:
    """The remote folder `path`, sorted by path; empty when there is none. Raises `DataError` as `describe` does."""
    filesystem, inner = _remote(path)
    try:
        found = filesystem.get_file_info(fs.FileSelector(inner, allow_not_found=True, recursive=recursive))
    except (OSError, pa.ArrowException) as error:
        raise _unreadable(path, error) from error
    # The file system tells paths from its own root.
    above = inner.rstrip("/") + "/"
    root = path if path.endswith("/") else path + "/"
    entries = [_entry(root + info.path.removeprefix(above), info) for info in found if info.path.startswith(above)]
    return sorted(entries, key=lambda entry: entry.path)


def _entry(path: str, info: fs.FileInfo) -> Entry:
    if info.type == fs.FileType.File:
        return Entry(path, "file", info.size)
    return Entry(path, "folder" if info.type == fs.FileType.Directory else "nothing", 0)


def _describe_local(path: str) -> Entry:
    try:
        found = os.stat(local_path(path))
    except OSError:
        return Entry(path, "nothing", 0)
    if stat.S_ISDIR(found.st_mode):
        return Entry(path, "folder", 0)
    return Entry(path, "file", found.st_size)


def _map(path: str) -> pa.NativeFile:
    mode = os.stat(path).st_mode
    if not stat.S_ISREG(mode):  # to open a pipe would wait for its writer
        code = errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL
        raise OSError(code, os.strerror(code) if code == errno.EISDIR else "Not a regular file", path)
    try:
        return pa.memory_map(os.fsencode(path))
    except OSError as error:
        code = error.errno or errno.EIO
        raise OSError(code, os.strerror(code), path) from error


def _unreadable(path: str, error: BaseException) -> DataError:
    words = " ".join(str(error).split("\n", 1)[0].split())[:300]
    endpoint = _endpoint()
    through = f" (endpoint {endpoint})" if endpoint and _scheme(path) == "s3" else ""
    return DataError(f"{path}: expected a readable file, found: {words}{through}")


def _scheme(path: str) -> str | None:
    match = _ADDRESS.match(path)
    return _SCHEMES.get(match.group(1).lower()) if match else None


def _remote(path: str) -> tuple[fs.FileSystem, str]:
    """The file system of `path`, and its path there."""
    match = _ADDRESS.match(path)
    assert match is not None
    scheme, rest = match.groups()
    kind = _SCHEMES.get(scheme.lower())
    if kind is None:
        raise DataError(f"{path}: expected a local path or file://, s3:// or hdfs://, found {scheme}://")
    host, _, inner = rest.partition("/")
    if kind == "s3":
        if not host:
            raise DataError(f"{path}: expected s3://bucket/key, found no bucket")
        settings = (_endpoint(), os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION"))
        credentials = tuple(os.environ.get(name) for name in _CREDENTIALS)
        try:
            return _s3("" if any(settings) else host, *settings, credentials), f"{host}/{inner}".rstrip("/")
        except (OSError, ValueError, pa.ArrowException) as error:
            raise _unreadable(path, error) from error
    try:
        return _hdfs(host), f"/{inner}"
    except ValueError as error:
        raise DataError(f"{path}: expected hdfs://host:port/path, found: {error}") from None
    except (OSError, pa.ArrowException) as error:
        raise _unreadable(path, error) from error


_CREDENTIALS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE")


def _endpoint() -> str | None:
    return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or None


@lru_cache(maxsize=32)
def _s3(bucket: str, endpoint: str | None, region: str | None, credentials: tuple[str | None, ...]) -> fs.S3FileSystem:
    """Amazon's S3 in the region of `bucket`, or the server `endpoint`. `credentials` are read by AWS's library."""
    options = {}
    if endpoint:
        address = urlsplit(endpoint if "://" in endpoint else f"https://{endpoint}")
        if address.scheme not in ("http", "https") or not address.netloc:
            raise ValueError(f"AWS_ENDPOINT_URL: expected http://host:port or https://host:port, found {endpoint!r}")
        options = {"scheme": address.scheme, "endpoint_override": address.netloc + address.path.rstrip("/")}
        region = region or "us-east-1"  # else the library asks Amazon's machines which one it is
    elif not region:
        region = fs.resolve_s3_region(bucket)
    return fs.S3FileSystem(
        region=region,
        connect_timeout=_CONNECT_SECONDS,
        request_timeout=_ANSWER_SECONDS,
        retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=_ATTEMPTS),
        **options,
    )


@lru_cache(maxsize=32)
def _hdfs(authority: str) -> fs.HadoopFileSystem:
    address = urlsplit(f"hdfs://{authority}")
    # Port 0: the default one, or that of a name of several name nodes.
    return fs.HadoopFileSystem(address.hostname or "default", address.port or 0, user=address.username)
