"""Conversions that are killed go on where they were, and give the very same files."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.data.convert import logs


def start(out: Path, processes: int, sources: list[str]) -> subprocess.Popen:
    arguments = [str(out), str(processes), "40000", *sources]
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.data.convert.convert_child", *arguments], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout.readline() == "ready\n"
    return child


def made(out: Path) -> dict[str, int]:
    """What is done: runs and files, with the times they were made."""
    found = {}
    for folder in (Path(f"{out}.work") / "runs", Path(f"{out}.work") / "files"):
        for path in folder.glob("*.json"):
            with_time = path.stat(follow_symlinks=False) if path.exists() else None
            if with_time is not None:
                found[str(path)] = with_time.st_mtime_ns
    return found


def kill_after(child: subprocess.Popen, out: Path, steps: int) -> bool:
    """Kills the conversion once `steps` more runs or files are done; whether it was still going."""
    before = len(made(out))
    while child.poll() is None and len(made(out)) < before + steps:
        time.sleep(0.001)
    family = psutil.Process(child.pid).children(recursive=True) if child.poll() is None else []
    child.send_signal(signal.SIGKILL)
    child.wait()
    _, alive = psutil.wait_procs(family, timeout=20)
    assert not alive
    child.stdout.close()
    return child.returncode == -signal.SIGKILL


def check(tmp_path: Path, rows: int, kills: int, seed: int) -> None:
    samples = logs.make_rows(rows, seed)
    part = rows // 3
    sources = [
        logs.write(str(tmp_path / "a.csv"), samples[:part]),
        logs.write(str(tmp_path / "b.tsv.gz"), samples[part : 2 * part]),
        str(tmp_path / "c.parquet"),
    ]
    pq.write_table(pa.Table.from_pylist(samples[2 * part :]), sources[2], row_group_size=part // 4)
    whole = start(tmp_path / "whole", 1, sources)
    assert whole.wait() == 0
    whole.stdout.close()

    draw = random.Random(seed)
    out = tmp_path / "out"
    killed = kept = 0
    while killed < kills:
        before = made(out)
        child = start(out, draw.choice((1, 2)), sources)
        if not kill_after(child, out, draw.randint(1, 4)):
            break
        killed += 1
        after = made(out)
        kept += sum(after.get(path) == stamp for path, stamp in before.items())
        assert not (out / "manifest.json").exists()
        # What stands under a file's own name is whole.
        for path in out.glob("*.orc") if out.exists() else ():
            assert path.read_bytes() == (tmp_path / "whole" / path.name).read_bytes()
    last = start(out, 2, sources)
    assert last.wait() == 0
    last.stdout.close()
    assert killed >= (kills if kills > 3 else 2)
    assert kept > 0
    assert logs.contents(out) == logs.contents(tmp_path / "whole")
    assert sorted(os.listdir(tmp_path)) == ["a.csv", "b.tsv.gz", "c.parquet", "out", "whole"]
    assert logs.read(out) == logs.expected_rows(samples, logs.schema())


def test_killed_twice_it_gives_the_same_bytes(tmp_path):
    check(tmp_path, 1200, 2, 1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2, 3])
def test_killed_ten_times_it_gives_the_same_bytes(tmp_path, seed):
    check(tmp_path, 30_000, 10, seed)


def test_a_killed_worker_ends_the_conversion_with_a_message_and_it_goes_on(tmp_path):
    samples = logs.make_rows(800)
    sources = [logs.write(str(tmp_path / f"{n}.csv"), samples[400 * n : 400 * n + 400]) for n in range(2)]
    out = tmp_path / "out"
    arguments = [str(out), "2", "20000", *sources]
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.data.convert.convert_child", *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    # Every one, as soon as it is there: a worker without work is not missed.
    while child.poll() is None:
        with contextlib.suppress(psutil.NoSuchProcess):
            for worker in psutil.Process(child.pid).children():
                if "data.convert.workers" in worker.cmdline():
                    worker.send_signal(signal.SIGKILL)
        time.sleep(0.01)
    _, errors = child.communicate()
    assert child.returncode == 1
    assert "a process of the conversion ended: signal 9 (SIGKILL); start it again to continue" in errors
    last = start(out, 2, sources)
    assert last.wait() == 0
    last.stdout.close()
    assert logs.read(out) == logs.expected_rows(samples, logs.schema())
