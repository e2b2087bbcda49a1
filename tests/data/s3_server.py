"""A real S3 server on this machine, for all tests that read over the network."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow.fs as fs
import pytest

_START_SECONDS = 60


@dataclass(frozen=True)
class S3:
    """An empty bucket of a server that the environment names."""

    endpoint: str
    bucket: str

    @property
    def url(self) -> str:
        return f"s3://{self.bucket}"

    def put(self, key: str, content: bytes) -> str:
        """Stores an object; its address."""
        with self.filesystem().open_output_stream(f"{self.bucket}/{key}") as file:
            file.write(content)
        return f"{self.url}/{key}"

    def filesystem(self) -> fs.S3FileSystem:
        return fs.S3FileSystem(
            access_key="test",
            secret_key="test",
            region="us-east-1",
            scheme="http",
            endpoint_override=self.endpoint.removeprefix("http://"),
            allow_bucket_creation=True,
        )


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a server that lives as long as the tests."""
    log = tmp_path_factory.mktemp("s3") / "log"
    with log.open("wb") as file:
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"]
        server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=file)
    try:
        yield _address(server, log)
    finally:
        server.kill()
        server.wait()


def _address(server: subprocess.Popen[bytes], log: Path) -> str:
    end = time.monotonic() + _START_SECONDS
    while time.monotonic() < end and server.poll() is None:
        found = re.search(r"Running on (http://127\.0\.0\.1:\d+)", log.read_text(errors="replace"))
        if found:
            return found.group(1)
        time.sleep(0.05)
    raise AssertionError(f"the S3 server did not start: {log.read_text(errors='replace')}")


@pytest.fixture
def s3(s3_server: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> S3:
    """A bucket for one test, which this process and those it starts find by the environment."""
    for name in ("AWS_ENDPOINT_URL_S3", "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_server)
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    server = S3(s3_server, f"bucket-{time.monotonic_ns()}")
    server.filesystem().create_dir(server.bucket)
    return server
