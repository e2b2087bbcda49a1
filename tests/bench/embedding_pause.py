"""The longest that a look-up waits while the table grows, is saved or evicts; the limit is 50 ms.

One thread looks batches up all the time while another one works. What the machine itself takes away shows in the
longest look-up of a table that nothing happens to, measured for as long just before.
"""

from __future__ import annotations

import gc
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import tensorflow as tf

from ops.embedding import Eviction
from tests.bench.embedding_tables import Ours, fill, values_of
from tests.bench.reporting import Result

LIMIT_MS = 50.0
WIDTH = 16
BATCH = 1024
ROWS = {False: 10_000_000, True: 30_000_000}
_STEADY_ROWS = 1_000_000
_NEW = 8192  # ids a step


def growth_case(case: str, full: bool) -> Result:
    """Growing from 1 million rows."""
    table, rows = Ours(WIDTH), ROWS[full]
    fill(table.insert, _STEADY_ROWS, WIDTH)
    values = tf.constant(values_of(np.arange(_NEW), WIDTH))
    new = tf.range(_NEW, dtype=tf.int64)

    def grow() -> None:
        for start in range(_STEADY_ROWS, rows, _NEW):
            table.insert(new + start, values)

    return _result(case, table, grow, f"grows from {_STEADY_ROWS:,} to {rows:,} rows", lambda: table.size() >= rows)


def save_case(case: str, full: bool) -> Result:
    """Writing a checkpoint of the whole table while it is also updated."""
    from ops.shards import begin_save, check_shard, write_table

    table, rows, random = Ours(WIDTH, "adam"), ROWS[full] // 2, np.random.default_rng(1)
    fill(table.insert, rows, WIDTH)
    requests = [table.request(random.integers(0, rows, BATCH), step) for step in range(1, 9)]
    gradients = tf.ones([BATCH, WIDTH])
    saved: list[int] = []

    def save() -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder) / "table")
            begin_save(table.handle, False)
            writing = threading.Thread(target=lambda: saved.append(int(write_table(table.handle, path, "{}")[0])))
            writing.start()
            while writing.is_alive():
                for request in requests:
                    table.push(request, gradients[: _keys(request)])
            writing.join()
            saved.append(int(check_shard(path)[0]))

    about = f"of {rows:,} rows is updated and written to a file"
    return _result(case, table, save, about, lambda: saved == [rows, rows])


def evict_case(case: str, full: bool) -> Result:
    """New ids into a table that is full: every insertion evicts."""
    rows = ROWS[full] // 5
    limit = rows * 150
    table = Ours(WIDTH, "sgd", eviction=Eviction(max_bytes=limit, max_age_steps=1_000_000))
    fill(table.insert, rows, WIDTH)
    gradients = tf.ones([BATCH, WIDTH])
    peak: list[int] = []

    def evict() -> None:
        for step in range(1, 2 * rows // BATCH):
            keys = np.arange(rows + step * BATCH, rows + (step + 1) * BATCH)
            table.push(table.request(keys, step), gradients)
            if step % 100 == 0:
                peak.append(table.stats()["bytes"])

    about = f"holds at most {limit / 2**20:.0f} MiB and takes {2 * rows:,} new ids"
    return _result(case, table, evict, about, lambda: max(peak) <= limit and table.stats()["evicted_bytes"] > 0)


def _keys(request: tf.Tensor) -> int:
    return int(request[5])


def _result(case: str, table: Ours, work: Callable[[], None], about: str, good: Callable[[], bool]) -> Result:
    switch = sys.getswitchinterval()
    # So that a thread that waits for Python or its garbage collector is not taken for one that waits for the table.
    sys.setswitchinterval(1e-4)
    gc.collect()
    gc.disable()
    try:
        working = threading.Thread(target=work)
        longest, batches, seconds = _look_up_while(table, working)
        idle = threading.Thread(target=lambda: time.sleep(min(seconds, 5)))
        quiet, _, _ = _look_up_while(table, idle)
    finally:
        gc.enable()
        sys.setswitchinterval(switch)
    stats = table.stats()
    held = {name: stats[f"pause_{name}_us"] / 1000 for name in ("growth", "evict", "snapshot")}
    return Result(
        case=case,
        ours=longest,
        theirs=LIMIT_MS,
        unit="ms",
        ratio=LIMIT_MS / longest,
        answers_equal=good(),
        compared=(
            f"longest of {batches:,} look-ups of {BATCH:,} keys while the table {about}, {seconds:.1f} s; "
            f"limit {LIMIT_MS:.0f} ms; {quiet:.1f} ms while nothing happens; longest that the table held a latch: "
            + ", ".join(f"{name} {ms:.2f} ms" for name, ms in held.items())
        ),
    )


def _look_up_while(table: Ours, working: threading.Thread) -> tuple[float, int, float]:
    """The longest look-up in ms while `working` runs, how many there were, and seconds."""
    random = np.random.default_rng(3)
    keys = [tf.constant(random.integers(0, _STEADY_ROWS, BATCH)) for _ in range(16)]
    table.find(keys[0])
    longest = 0.0
    batches = 0
    begun = time.perf_counter()
    working.start()
    while working.is_alive():
        started = time.perf_counter()
        table.find(keys[batches % 16])
        longest = max(longest, time.perf_counter() - started)
        batches += 1
    working.join()
    return longest * 1000, batches, time.perf_counter() - begun
