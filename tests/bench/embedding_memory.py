"""Bytes that a table of 10 million rows takes from the system, at the end and at the most while it grows.

Measured as resident memory of a process of its own, so that index, slabs, free room and allocator are all in it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.bench.memory import resident_bytes
from tests.bench.reporting import Result

WIDTH = 16
ROWS = 10_000_000
FIRST_ROWS = 1_000_000
LIMIT_BYTES, LIMIT_PEAK = 1.25, 1.3
_ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Measured:
    """Of one table: resident bytes that it added, at the end and at most while it grew; its own figures."""

    end_bytes: int
    peak_bytes: int
    rows: int
    own_bytes: int
    payload_bytes: int


def bytes_case(case: str, full: bool) -> Result:
    """Bytes per row over key, values, frequency and last step."""
    rows = ROWS * (3 if full else 1)
    found = _measure(rows)
    ratio = found.end_bytes / found.payload_bytes
    return Result(
        case=case,
        ours=ratio,
        theirs=LIMIT_BYTES,
        unit="bytes per byte of payload",
        ratio=LIMIT_BYTES / ratio,
        answers_equal=found.rows == rows and found.own_bytes <= 1.05 * found.end_bytes,
        compared=(
            f"{rows:,} rows of {WIDTH} float32: resident memory of {found.end_bytes / rows:.1f} B a row over "
            f"{found.payload_bytes / rows:.0f} B of key, values, frequency and last step; the table itself counts "
            f"{found.own_bytes / rows:.1f} B; limit {LIMIT_BYTES}"
        ),
    )


def peak_case(case: str, full: bool) -> Result:
    """Most memory while growing from 1 to 10 million rows, over that at the end."""
    rows = ROWS * (3 if full else 1)
    found = _measure(rows)
    peak = found.peak_bytes / found.end_bytes
    return Result(
        case=case,
        ours=peak,
        theirs=LIMIT_PEAK,
        unit="peak over end",
        ratio=LIMIT_PEAK / peak,
        answers_equal=found.rows == rows,
        compared=(
            f"growing from {FIRST_ROWS:,} to {rows:,} rows of {WIDTH} float32: {found.peak_bytes / 2**20:,.0f} MiB at "
            f"most, {found.end_bytes / 2**20:,.0f} MiB at the end; limit {LIMIT_PEAK}"
        ),
    )


def _measure(rows: int) -> Measured:
    command = [sys.executable, "-m", "tests.bench.embedding_memory", str(rows)]
    done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command[1:])}: status {done.returncode}\n{done.stderr[-3000:]}")
    return Measured(**json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    """Fills one table and prints what it took."""
    from ps_cluster.quiet import import_tensorflow

    rows = int(sys.argv[1])
    import_tensorflow(gpu=False)
    import numpy as np
    import tensorflow as tf

    from tests.bench.embedding_tables import FILL_ROWS, Ours, values_of

    warm = Ours(WIDTH)
    block = min(FILL_ROWS, rows)

    def insert(table: Ours, first: int, last: int) -> None:
        for start in range(first, last, block):
            keys = np.arange(start, min(start + block, last))
            table.insert(tf.constant(keys), tf.constant(values_of(keys, WIDTH)))

    insert(warm, 0, 4 * block)  # what TensorFlow and NumPy keep for blocks of this size
    before = resident_bytes("VmRSS")
    table = Ours(WIDTH)
    insert(table, 0, FIRST_ROWS)
    Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
    insert(table, FIRST_ROWS, rows)
    stats = table.stats()
    measured = Measured(
        end_bytes=resident_bytes("VmRSS") - before,
        peak_bytes=resident_bytes("VmHWM") - before,
        rows=stats["rows"],
        own_bytes=stats["bytes"],
        payload_bytes=rows * (8 + 4 * WIDTH + 8),
    )
    print(json.dumps(vars(measured)))


if __name__ == "__main__":
    main()
