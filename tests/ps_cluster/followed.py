"""A folder whose files appear while a job trains on it: each row an id of its own, each file users of its own."""

from __future__ import annotations

import os
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from ps_cluster.checkpoint.finding import checkpoint_at
from ps_cluster.checkpoint.rows import rows_of
from tests.data import orc_files
from tests.ps_cluster import small_cluster

SCHEMA = "struct<row:bigint,user:bigint,item:bigint,price:double,timestamp:bigint,label:tinyint>"
ITEMS = 12


def rows_of_file(number: int, rows: int) -> list[tuple]:
    """Rows whose ids no other file has; half of the users are new in it. The label depends on item and price."""
    rng = np.random.default_rng(number)
    made = []
    for index in range(rows):
        new = rng.random() < 0.5
        user = 1_000 * number + int(rng.integers(10)) if new else 1_000 * max(number - 1, 0) + int(rng.integers(10))
        item, price = int(rng.integers(ITEMS)), float(rng.normal())
        label = int(rng.random() < 1 / (1 + np.exp(-(2.0 * (item % 3 - 1) + price))))
        made.append((number * 1_000_000 + index, user, item, price, int(1000 * time.time()), label))
    return made


def add(folder: Path, number: int, rows: int) -> Path:
    """The file appears, whole."""
    folder.mkdir(exist_ok=True)
    beside, path = folder / f".part-{number:05}.orc.tmp", folder / f"part-{number:05}.orc"
    made = rows_of_file(number, rows)
    orc_files.write(beside, SCHEMA, [made[: rows // 2], made[rows // 2 :]])
    os.rename(beside, path)
    return path


def job(**changes: Any) -> dict[str, Any]:
    """A job that follows the folder `live`."""
    settings: dict[str, Any] = {
        "data": {
            "follow": "live",
            "label": "label",
            "shuffle_rows": 100,
            "poll_seconds": 0.3,
            "reader": "native",
            "time": {"column": "timestamp"},
        },
        "features": [
            {"name": "row", "kind": "id", "dim": 1},
            {"name": "user", "kind": "id", "dim": 4},
            {"name": "item", "kind": "id", "dim": 4},
            {"name": "price", "kind": "dense"},
        ],
        "tables": {},
        "model": {"name": "dcn"},
        "schedule": {},
        "training": {"batch_size": 32, "seed": 3, "log_every_steps": 10},
        "cluster": {"ps": 1, "workers": 2},
        "checkpoint": {"every_steps": 10, "deltas": 3},
        "failures": {"max_restarts": 0},
    }
    return small_cluster.job(**{**settings, **changes})


def trained(output: Path) -> Counter[int]:
    """How often each row has been trained on, by what the table of their ids has counted."""
    found: Counter[int] = Counter()
    for block in rows_of(checkpoint_at(str(output)), "row"):
        found.update(dict(zip(block.keys.tolist(), block.frequencies.tolist())))
    return found


def each_once(files: dict[int, int]) -> dict[int, int]:
    """What `trained` gives when every row of these files (rows by number) was trained on once."""
    return {number * 1_000_000 + index: 1 for number, rows in files.items() for index in range(rows)}
