"""A job that is rendered and run by `python -m tests.pods`, for tests: what it says and leaves, how it is disturbed."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ps_cluster.train.last_step import LastStep
from tests.pods import image
from tests.pods.network import firewall
from tests.ps_cluster import small_cluster
from tests.ps_cluster.last_told import last_told

CLAIM = "trial"
LIMIT_SECONDS = 1500
KUBERNETES: dict[str, Any] = {
    "storage": {"name": CLAIM},
    "ps": {"memory": "2GiB", "cpu": 0.5},
    "worker": {"memory": "3GiB", "cpu": 0.5},
    "retries": 3,
    "deadline_minutes": 60,
}


outside_tmp = pytest.mark.skipif(
    any(folder.startswith("/tmp/") for folder in image.shown_folders()),
    reason="this environment lies in /tmp, where a volume of the pods would hide it",
)
"""For tests whose pods have a volume at /tmp, as rendered ones do."""


def needs_pods() -> None:
    """Skips a test where pods cannot be run."""
    if os.geteuid() != 0 or subprocess.run(["unshare", "--net", "--pid", "--fork", "true"], check=False).returncode:
        pytest.skip("needs the right to make namespaces")
    try:
        firewall()
    except Exception as error:
        pytest.skip(str(error))


def rendered(folder: Path, description: dict[str, Any]) -> str:
    """What `ps-cluster render` prints for a job."""
    (folder / "job.yaml").write_text(json.dumps(description, indent=1))
    done = small_cluster.command(folder, "render", str(folder / "job.yaml"))
    assert done.returncode == 0, done.stderr
    return done.stdout


def small_job(**changes: Any) -> dict[str, Any]:
    """The job of `small_cluster`, for pods."""
    kubernetes = {**KUBERNETES, **changes.pop("kubernetes", {})}
    return small_cluster.job(cluster__workers=2, kubernetes=kubernetes, **changes)


@dataclass
class Trial:
    """A run of the harness. storage: the folder of the job's claim."""

    folder: Path
    storage: Path
    process: subprocess.Popen[str]
    lines: list[str] = field(default_factory=list)

    @property
    def output(self) -> Path:
        return self.storage / "out"

    @property
    def says(self) -> str:
        """All that the harness has said by now."""
        return (self.folder / "said.log").read_text()

    def order(self, *words: str) -> subprocess.CompletedProcess[str]:
        """A command of the harness, such as `kill POD`."""
        command = [sys.executable, "-m", "tests.pods", words[0], *words[1:], "--folder", str(self.folder / "pods")]
        if words[0] == "exec":
            command = [*command[:4], "--folder", str(self.folder / "pods"), *words[1:]]
        return subprocess.run(command, cwd=small_cluster.ROOT, capture_output=True, text=True, timeout=120, check=False)

    def does(self, *words: str) -> None:
        """A command that must succeed."""
        done = self.order(*words)
        assert done.returncode == 0, done.stderr

    def pods(self) -> dict[str, dict[str, str]]:
        """State, attempt, address and first process of each pod that is there."""
        rows = [line.split() for line in self.order("list").stdout.splitlines()]
        return {row[0]: dict(zip(("state", "attempt", "address", "pid"), row[1:])) for row in rows}

    def last(self) -> LastStep:
        """What was trained last, by the trainer's account."""
        return last_told(self.output)

    def checkpoints(self) -> list[int]:
        """Steps of the whole checkpoints that are there."""
        found = (self.output / "checkpoint").glob("step-*/manifest.json")
        return sorted(int(path.parent.name.removeprefix("step-")) for path in found)

    def until(self, condition: Callable[[], object]) -> None:
        """Waits for something to happen while the pods run."""
        deadline = time.monotonic() + LIMIT_SECONDS
        while not condition():
            assert self.process.poll() is None, f"it ended before it happened\n{self.all_logs()}"
            assert time.monotonic() < deadline, f"it never happened\n{self.all_logs()}"
            time.sleep(0.05)

    def ends(self) -> int:
        """Waits for the end; returns the harness's exit code."""
        try:
            return self.process.wait(timeout=LIMIT_SECONDS)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it did not end\n{self.all_logs()}") from None

    def log(self, pod: str) -> str:
        """All that attempts of a pod have written."""
        return "\n".join(path.read_text() for path in sorted((self.folder / "pods" / "logs").glob(f"{pod}*.log")))

    def all_logs(self) -> str:
        logs = sorted((self.folder / "pods" / "logs").glob("*.log"))
        return self.says + "\n".join(f"== {path.name}\n{path.read_text()[-1500:]}" for path in logs)


@contextlib.contextmanager
def running(folder: Path, objects: str, *flags: str, back_off: float = 1.0) -> Iterator[Trial]:
    """Runs objects; the claim's folder is `folder`/storage. Whatever happens, nothing is left at the end."""
    storage = folder / "storage"
    storage.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "tests.pods", "--folder", str(folder / "pods"), "--back-off", str(back_off)]
    if f"claimName: {CLAIM}" in objects or f'claimName: "{CLAIM}"' in objects:
        command += ["--volume", f"{CLAIM}={storage}"]
    with (folder / "said.log").open("a") as said:
        process = subprocess.Popen(
            [*command, *flags], cwd=small_cluster.ROOT, stdin=subprocess.PIPE, stdout=said, stderr=said, text=True
        )
    assert process.stdin is not None
    process.stdin.write(objects)
    process.stdin.close()
    trial = Trial(folder, storage, process)
    try:
        yield trial
    finally:
        for _ in range(2):  # the second time: at once
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.send_signal(signal.SIGTERM)
                process.wait(timeout=1)
        try:
            process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def left(folder: Path) -> Sequence[str]:
    """What a run has left on this machine: processes, namespaces, folders."""
    found = [
        f"process {pid}: {line}"
        for pid, line in _command_lines().items()
        if str(folder) in line and "tests.pods" in line and pid != os.getpid()
    ]
    found += [f"folder {path}" for path in (folder / "pods" / "scratch",) if path.exists()]
    if Path("/run/ps-cluster-pods").exists():
        found += [
            f"folder {path.parent}"
            for path in Path("/run/ps-cluster-pods").glob("*/scratch")
            if path.read_text().startswith(str(folder))
        ]
    found += [line for line in Path("/proc/self/mounts").read_text().splitlines() if str(folder) in line]
    return found


def _command_lines() -> dict[int, str]:
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                found[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return found
