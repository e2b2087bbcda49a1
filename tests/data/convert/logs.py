"""A small log in every format that can be converted, and the training rows it must become."""

from __future__ import annotations

import csv
import gzip
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import tensorflow as tf
from pyarrow import orc

from data.convert.schema import SamplesSchema
from tests.data.convert import reference
from tests.data.convert.log_schema import COLUMNS, schema

__all__ = ["COLUMNS", "schema"]

FORMATS = ("csv", "tsv.gz", "parquet", "orc", "tfrecord", "tfrecord.gz")


def make_rows(count: int, seed: int = 0) -> list[dict[str, Any]]:
    """Source rows: texts, integers and floats; a text may be empty or missing."""
    rng = np.random.default_rng(seed)
    rows = []
    for number in range(count):
        length = int(rng.integers(0, 5))
        rows.append(
            {
                "user": int(rng.integers(0, 30)),
                "time": 1_600_000_000 + int(rng.integers(0, 50)),
                "label": int(rng.integers(0, 2)),
                "city": [None, "", "köln", "rome", "x" * 40][int(rng.integers(0, 5))],
                "history": ",".join(str(item) for item in rng.integers(0, 10**9, length)),
                "tags": "|".join(f"tag{item}" for item in rng.integers(0, 9, length)) if number % 7 else None,
                "price": float(np.float32(rng.random())),
            }
        )
    return rows


def expected_rows(rows: list[dict[str, Any]], of: SamplesSchema) -> list[dict[str, Any]]:
    """The training rows in their order."""
    good = [row for row in (reference.row(values, of) for values in rows) if row is not None]
    key = [lambda row, name=name: (row[name] is not None, row[name] or 0) for name in of.sort_columns]
    return sorted(good, key=lambda row: [part(row) for part in key])


def write(path: str, rows: list[dict[str, Any]]) -> str:
    """Writes rows in the format that the name's ending says."""
    if path.endswith((".csv", ".tsv", ".csv.gz", ".tsv.gz")):
        opener: Any = gzip.open if path.endswith(".gz") else open
        with opener(path, "wt", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, delimiter="\t" if ".tsv" in path else ",")
            writer.writerow(rows[0])
            writer.writerows(["\\N" if value is None else value for value in row.values()] for row in rows)
    elif path.endswith((".parquet", ".orc")):
        table = pa.Table.from_pylist(rows)
        if path.endswith(".parquet"):
            pq.write_table(table, path, row_group_size=100)
        else:
            orc.write_table(table, path, stripe_size=1 << 12)
    else:
        options = "GZIP" if path.endswith(".gz") else None
        with tf.io.TFRecordWriter(path, options) as writer:
            for row in rows:
                writer.write(example(row).SerializeToString())
    return path


def example(row: dict[str, Any]) -> tf.train.Example:
    features = {}
    for name, value in row.items():
        if isinstance(value, int):
            features[name] = tf.train.Feature(int64_list=tf.train.Int64List(value=[value]))
        elif isinstance(value, float):
            features[name] = tf.train.Feature(float_list=tf.train.FloatList(value=[value]))
        elif value is not None:
            features[name] = tf.train.Feature(bytes_list=tf.train.BytesList(value=[value.encode()]))
    return tf.train.Example(features=tf.train.Features(feature=features))


def read(folder: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """All rows that a conversion wrote, file after file as its manifest lists them."""
    with open(os.path.join(folder, "manifest.json")) as file:
        manifest = json.load(file)
    return [row for info in manifest["files"] for row in orc.ORCFile(Path(folder, info["name"])).read().to_pylist()]


def contents(folder: str | os.PathLike[str]) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(Path(folder).iterdir())}
