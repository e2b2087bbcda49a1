"""Real clusters on a small data set with a planted signal: their files, their jobs, and runs of `ps-cluster`."""

from __future__ import annotations

import contextlib
import copy
import functools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tests.data import orc_files

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_SECONDS = 240  # of a test that waits for a cluster; a machine may be busy with others
_OWN_END_SECONDS = 5.0
MARK = "PS_CLUSTER_TEST_RUN"  # environment variable by which a run's processes, grandchildren too, are known

SCHEMA = (
    "struct<user:bigint,item:int,shop:bigint,tags:array<bigint>,liked:array<int>,price:double,age:float,label:tinyint>"
)
HUGE = 2**63 - 1  # the largest id there is: also the end mark of the exported tables


def rows(count: int, seed: int, users: int = 40) -> list[tuple]:
    """Rows of `SCHEMA`; whether one is clicked depends on user, item, tags and price."""
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(count):
        user, item, price = int(rng.integers(users)), int(rng.integers(25)), float(rng.normal())
        tags = None if rng.random() < 0.1 else [int(tag) - 3 for tag in rng.integers(8, size=rng.integers(4))]
        liked = [int(one) for one in rng.integers(25, size=rng.integers(6))]
        logit = 1.5 * (user % 3 - 1) + (item % 4 - 1.5) + 0.8 * price + sum(tag % 2 for tag in tags or [])
        shop = None if rng.random() < 0.1 else HUGE - int(rng.integers(4))
        label = int(rng.random() < 1 / (1 + np.exp(-logit)))
        made.append((user, item, shop, tags, liked, price, None if rng.random() < 0.1 else float(user % 5), label))
    return made


def write_samples(folder: Path, stripes: Sequence[int] = (90, 50, 120, 60), test: Sequence[int] = (70, 60)) -> None:
    """`train.orc` and `test.orc` with such stripes; some users and items of the test part are in no training row."""
    for name, sizes, seed, users in (("train", stripes, 1, 40), ("test", test, 2, 50)):
        made = rows(sum(sizes), seed, users)
        ends = np.cumsum(sizes)
        orc_files.write(
            folder / f"{name}.orc", SCHEMA, [made[end - size : end] for size, end in zip(sizes, ends, strict=True)]
        )


JOB: dict[str, Any] = {
    "name": "clicks",
    "data": {"train": ["train.orc"], "test": ["test.orc"], "label": "label", "shuffle_rows": 100},
    "features": [
        {"name": "user", "kind": "id", "dim": 4},
        {"name": "item", "kind": "id", "table": "items"},
        {"name": "shop", "kind": "id", "dim": 6, "missing": -1},
        {"name": "tags_mean", "kind": "id_list", "column": "tags", "table": "tags", "missing": "empty"},
        {
            "name": "tags_sum",
            "kind": "id_list",
            "column": "tags",
            "table": "tags",
            "missing": "empty",
            "pooling": "sum",
        },
        {"name": "liked_root", "kind": "id_list", "column": "liked", "table": "items", "pooling": "sqrtn"},
        {
            "name": "liked_last",
            "kind": "id_list",
            "column": "liked",
            "table": "items",
            "pooling": "none",
            "query": "item",
        },
        {"name": "liked_any", "kind": "id_list", "column": "liked", "table": "items", "pooling": "none"},
        {"name": "price", "kind": "dense"},
        {"name": "age", "kind": "dense", "missing": 2.5},
    ],
    "tables": {
        "items": {"dim": 4, "initializer": {"kind": "normal", "scale": 0.1}},
        "tags": {"dim": 6, "optimizer": {"name": "adagrad", "learning_rate": 0.1}},
    },
    "model": {"name": "rankmixer", "tokens": 4, "dim": 8, "layers": 1, "expansion": 2, "dropout": 0.1},
    "optimizers": {
        "sparse": {"name": "adam", "learning_rate": 0.02},
        "dense": {"name": "adam", "learning_rate": 0.01},
    },
    "schedule": {"warmup_steps": 3, "decay": "cosine", "final": 0.1},
    "training": {"batch_size": 32, "epochs": 2, "seed": 5, "log_every_steps": 1},
    "cluster": {"ps": 2, "workers": 1},
    "output": "out",
}


def job(**changes: Any) -> dict[str, Any]:
    """`JOB` with some fields set: `training__epochs=3`; a section given as a whole replaces the old one."""
    changed = copy.deepcopy(JOB)
    for path, value in changes.items():
        *above, last = path.split("__")
        functools.reduce(lambda section, name: section.setdefault(name, {}), above, changed)[last] = value
    return changed


@dataclass
class Run:
    """A run of `ps-cluster train` that has ended or still goes on."""

    folder: Path
    launcher: subprocess.Popen[str]
    status: int | None = None
    out: str = ""
    err: str = ""

    @property
    def output(self) -> Path:
        return self.folder / "out"

    def wait(self) -> Run:
        """Waits for the launcher's end."""
        self.out, self.err = self.launcher.communicate(timeout=PATIENCE_SECONDS)
        self.status = self.launcher.returncode
        return self

    def events(self, kind: str) -> list[dict[str, Any]]:
        """The events of one kind that are written by now."""
        path = self.output / "events.jsonl"
        whole = path.read_text().rpartition("\n")[0] if path.exists() else ""
        return [event for event in map(json.loads, whole.splitlines()) if event["event"] == kind]

    def losses(self) -> list[float]:
        """Loss of each step."""
        steps = self.events("step")
        assert [event["step"] for event in steps] == list(range(1, len(steps) + 1))
        return [event["loss"] for event in steps]

    def processes(self) -> dict[int, str]:
        """Command lines of all processes of this run, by process id; those that have ended are not among them."""
        return _processes(self.folder)

    def find(self, role: str, index: int) -> int | None:
        """Process id of one role; None: it is not there."""
        place = json.dumps({"type": role, "index": index})
        for pid, line in self.processes().items():
            if f" -m ps_cluster {role} " in line and place in _environment(pid).get("TF_CONFIG", ""):
                return pid
        return None

    def pid_of(self, role: str, index: int) -> int:
        """Process id of one role that is there."""
        found = self.find(role, index)
        assert found is not None, f"no {role} {index} among {self.processes()}"
        return found

    def ports(self) -> list[int]:
        """All ports of the running cluster."""
        cluster = json.loads(_environment(self.pid_of("worker", 0))["TF_CONFIG"])["cluster"]
        return [int(address.rpartition(":")[2]) for group in cluster.values() for address in group]

    def until(self, condition: Callable[[], object]) -> None:
        """Waits for something to happen while the run goes on."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not condition():
            if self.launcher.poll() is not None:
                self.wait()
                raise AssertionError(f"ended with {self.status} before it happened: {self.out}\n{self.err}")
            assert time.monotonic() < deadline, f"it never happened; logs: {self.logs()}"
            time.sleep(0.05)

    def logs(self) -> str:
        """All logs, for a message."""
        return "\n".join(f"{log.name}:\n{log.read_text()}" for log in sorted((self.output / "logs").glob("*.log")))

    def kill_rest(self) -> None:
        """Ends whatever a failed test has left."""
        self.launcher.kill()
        deadline = time.monotonic() + _OWN_END_SECONDS  # a reader process puts its socket away before it ends
        while self.processes() and time.monotonic() < deadline:
            time.sleep(0.05)
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.launcher.wait()
        for stream in (self.launcher.stdout, self.launcher.stderr):
            if stream is not None:
                stream.close()


def start(folder: Path, description: dict[str, Any], *flags: str) -> Run:
    """Starts `ps-cluster train` on a job in `folder`, where its samples are."""
    # JSON is YAML, too.
    (folder / "job.yaml").write_text(json.dumps(description, indent=1))
    launcher = subprocess.Popen(
        [*COMMAND, "train", str(folder / "job.yaml"), *flags],
        cwd=folder,
        env=environment(folder),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    return Run(folder, launcher)


def train(folder: Path, description: dict[str, Any], *flags: str) -> Run:
    """A whole run of `ps-cluster train`."""
    run = start(folder, description, *flags)
    try:
        return run.wait()
    finally:
        run.kill_rest()


def command(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Another command of `ps-cluster`, in the job's folder."""
    return subprocess.run(
        [*COMMAND, *arguments],
        cwd=folder,
        env=environment(folder),
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )


COMMAND = (sys.executable, "-m", "ps_cluster")


def environment(folder: Path) -> dict[str, str]:
    """Of a user who has this package installed, with the mark of a run and a folder of its own for temporary files."""
    temporary = folder / "tmp"
    temporary.mkdir(exist_ok=True)
    variables = {name: value for name, value in os.environ.items() if not name.startswith("TF_")}
    return {
        **variables,
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "PYTHONPATH": str(ROOT),
        "PYTHONSAFEPATH": "1",
        "TMPDIR": str(temporary),
        MARK: str(folder),
    }


def _processes(folder: Path) -> dict[int, str]:
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and _environment(int(entry.name)).get(MARK) == str(folder):
            try:
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            found[int(entry.name)] = line
    return found


def _environment(pid: int) -> dict[str, str]:
    """A process's variables at its start; empty when it is gone, a zombie or somebody else's."""
    try:
        text = Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace")
    except OSError:
        return {}
    return dict(variable.partition("=")[::2] for variable in text.split("\0") if "=" in variable)
