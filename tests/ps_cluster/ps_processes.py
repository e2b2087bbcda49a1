"""Real PS processes for tests, and clients of theirs that run a script."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator

from ps_cluster.launch.ports import reserved_addresses

START_SECONDS = 120
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


@contextlib.contextmanager
def running_ps(count: int, clients: int, job: str | None = None) -> Iterator[tuple[list[str], list[str]]]:
    """Addresses of `count` ready PS, of a job file if one is given, and as many for clients; ends every PS
    afterwards."""
    with reserved_addresses(count + clients) as addresses:
        ps, workers = addresses[:count], addresses[count:]
        servers = [
            start(
                *("-m", "ps_cluster", "ps", *([job] if job else [])),
                *("--ps", ",".join(ps), "--workers", workers[0], "--index", str(index)),
            )
            for index in range(count)
        ]
        try:
            for index, server in enumerate(servers):
                said = []
                for line in server.stdout:
                    said.append(line)
                    if line == f"ps {index} is ready at {ps[index]}\n":
                        break
                else:
                    raise AssertionError(f"ps {index} ended: {said} {server.stderr.read()}")
            yield ps, workers
        finally:
            for server in servers:
                server.terminate()
            for server in servers:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    server.communicate(timeout=10)
                server.kill()
                server.communicate()


def start(*arguments: str) -> subprocess.Popen[str]:
    """A Python process at the root of the project."""
    environment = {name: value for name, value in os.environ.items() if name != "TF_CONFIG"}
    return subprocess.Popen(
        [sys.executable, *arguments],
        cwd=ROOT,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
