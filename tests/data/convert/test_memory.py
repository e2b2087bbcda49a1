"""The memory of a conversion does not grow with its input."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv

RUN_BYTES = 8 << 20


def write_log(path: str, rows: int) -> int:
    """A CSV file in the columns of the small log; bytes of its rows in memory, about."""
    rng = np.random.default_rng(3)
    texts = [",".join(map(str, rng.integers(0, 2**40, rng.integers(0, 30)))) for _ in range(1000)]
    pool = pa.array(texts)
    with csv.CSVWriter(path, schema := pa.schema(
        [("user", pa.int64()), ("time", pa.int64()), ("label", pa.int64()), ("city", pa.string()),
         ("history", pa.string()), ("tags", pa.string()), ("price", pa.float64())]
    )) as writer:  # fmt: skip
        for _ in range(0, rows, 50_000):
            picked = pa.array(rng.integers(0, 1000, 50_000))
            cities = pa.array(rng.integers(0, 10**9, 50_000)).cast(pa.string())
            columns = [
                pa.array(rng.integers(0, 10**6, 50_000)),
                pa.array(rng.integers(1_600_000_000, 1_700_000_000, 50_000)),
                pa.array(rng.integers(0, 2, 50_000)),
                cities,
                pool.take(picked),
                cities,
                pa.array(rng.random(50_000)),
            ]
            writer.write_table(pa.Table.from_arrays(columns, schema=schema))
    items = sum(0 if not text else text.count(",") + 1 for text in texts) / 1000
    return int(rows * (8 * 5 + 8 * items))


def peak_bytes(out: str, source: str) -> int:
    done = subprocess.run(
        [sys.executable, "-m", "tests.data.convert.convert_child", out, "1", str(RUN_BYTES), source],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return int(done.stdout.splitlines()[-1]) << 10


@pytest.mark.slow
def test_peak_memory_stays_flat_while_the_input_grows_fourfold(tmp_path):
    peaks, sizes = [], []
    for rows in (500_000, 2_000_000):
        sizes.append(write_log(str(tmp_path / "log.csv"), rows))
        peaks.append(peak_bytes(str(tmp_path / f"out-{rows}"), str(tmp_path / "log.csv")))
        manifest = json.loads((tmp_path / f"out-{rows}" / "manifest.json").read_text())
        assert manifest["rows"] == rows
        assert manifest["counts"]["hashed"]["city"]["distinct_ids"] > 0.99 * rows
    growth = sizes[1] - sizes[0]
    assert growth > 200 << 20
    assert peaks[1] - peaks[0] < growth / 6, (peaks, sizes)
