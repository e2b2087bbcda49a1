"""Admission over five million ids, of which nine in ten occur once, against a count by brute force."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from ops import shards
from ops import table as native
from ops.embedding import INITIAL_KINDS, Admission, Eviction, RowLayout, Tier, push, request_header, route_ids

IDS = 5_000_000
FREQUENT = IDS // 10
BATCH = 131_072
DIM = 16
THRESHOLD = 2

pytestmark = pytest.mark.slow


def stream_of_ids() -> np.ndarray:
    """Every id once, one in ten of them two to eight times, in random order."""
    random = np.random.default_rng(1)
    more = np.repeat(np.arange(FREQUENT), random.integers(1, 8, FREQUENT))
    ids = np.concatenate([np.arange(IDS), more])
    random.shuffle(ids)
    return ids * 1_000_003 - 7  # not dense, some negative


def table_after(stream: np.ndarray, name: str, admission: Admission) -> tuple[tf.Tensor, dict]:
    """The table after the whole stream, and its statistics."""
    layout = RowLayout(
        tiers=(Tier(DIM),),
        engine="native",
        value_type="float32",
        optimizer="sgd",
        optimizer_settings=(0.0,),
        salts=(11,),
        initial_kinds=(INITIAL_KINDS["uniform"],),
        initial_scales=(0.01,),
        admissions=(admission,),
        evictions=(Eviction(),),
        seed=3,
    )
    table = native.create(f"at-size/{name}", native.config_of(layout, 0))
    for step, start in enumerate(range(0, len(stream), BATCH), start=1):
        header = request_header(0, tf.constant(step, tf.int64), tf.constant(1, tf.int64), tf.constant(0.1))
        (request,), _ = route_ids(header, [tf.constant(stream[start : start + BATCH])], [0], layout.salts, 1)
        push([table], request, tf.ones([int(request[5]), DIM]), layout, 1, f"at-size/{name}")
    return table, json.loads(native.stats(table).numpy())


def counts_in(table: tf.Tensor, path: Path) -> dict[int, np.ndarray]:
    """Per row class what a save holds: int64 `[n, 2]`, id and frequency, sorted by id."""
    shards.begin_save(table, False)
    shards.write_table(table, str(path), "{}")
    found: dict[int, list[np.ndarray]] = {}
    for block in shards.read_blocks(str(path)):
        if block.kind == shards.BlockKind.ROWS:
            pair = np.stack([block.keys, block.meta[:, 1].astype(np.int64)], axis=1)
            found.setdefault(block.row_class, []).append(pair)
    return {kind: one[np.argsort(one[:, 0])] for kind, one in ((k, np.concatenate(v)) for k, v in found.items())}


@pytest.fixture(scope="module")
def stream() -> np.ndarray:
    return stream_of_ids()


@pytest.fixture(scope="module")
def expected(stream) -> np.ndarray:
    """Ids and how often they occur, int64 `[ids, 2]`, sorted by id."""
    ids, counts = np.unique(stream, return_counts=True)
    return np.stack([ids, counts], axis=1)


@pytest.fixture(scope="module")
def bytes_without(stream) -> int:
    """What the table takes that admits every id."""
    table, stats = table_after(stream, "none", Admission())
    assert stats["rows"] == IDS
    assert stats["bytes"] >= IDS * (DIM * 4 + 16)
    native.clear(table)
    return stats["bytes"]


def test_exact_counts_and_rows_are_those_of_brute_force(stream, expected, bytes_without, tmp_path):
    table, stats = table_after(stream, "exact", Admission(kind="exact", threshold=THRESHOLD))
    found = counts_in(table, tmp_path / "exact")
    often = expected[:, 1] >= THRESHOLD
    np.testing.assert_array_equal(found[1], expected[often])
    np.testing.assert_array_equal(found[0], expected[~often])
    assert (stats["rows"], stats["counted_keys"]) == (often.sum(), (~often).sum())
    assert stats["bytes"] < 0.45 * bytes_without
    native.clear(table)


def test_a_bloom_filter_loses_no_id_and_admits_few_too_early(stream, expected, bytes_without, tmp_path):
    error = 0.01
    admission = dataclasses.replace(Admission(kind="bloom", threshold=THRESHOLD), capacity=IDS, error=error)
    table, stats = table_after(stream, "bloom", admission)
    found = counts_in(table, tmp_path / "bloom")[1]
    often = expected[expected[:, 1] >= THRESHOLD]
    assert np.isin(often[:, 0], found[:, 0]).all()
    early = len(found) - len(often)
    assert 0 < early <= error * IDS
    assert stats["rows"] == len(found) and stats["counted_keys"] == 0
    assert stats["bytes"] < 0.35 * bytes_without
    native.clear(table)
