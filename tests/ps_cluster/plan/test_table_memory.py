"""Bytes that a plan says of a table are those that the table counts."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from ops import embedding as ops
from ops import table as native
from ps_cluster.plan.figure import figure, given
from ps_cluster.plan.native_memory import slab_rest_bytes
from ps_cluster.plan.table_bytes import bytes_figures
from ps_cluster.plan.types import TableShape
from tests.ps_cluster.ps_processes import ROOT

_names = (f"plan-{number}" for number in itertools.count())
_SETTINGS = {"adam": (0.9, 0.999, 1e-7, 0.0), "sgd": (0.0,)}
_SLOTS = {"adam": 2, "sgd": 0}


def filled(rows: int, tiers, optimizer: str, value_type: str, admission: ops.Admission, eviction: ops.Eviction) -> dict:
    """What a table counts after so many different random ids have come once each."""
    layout = ops.RowLayout(
        tiers=tuple(ops.Tier(*tier) for tier in tiers), engine="native", value_type=value_type, optimizer=optimizer,
        optimizer_settings=_SETTINGS[optimizer], salts=(7,), initial_kinds=(0,), initial_scales=(0.0,),
        admissions=(admission,), evictions=(eviction,), seed=1,
    )  # fmt: skip
    name = next(_names)
    handle = native.create(name, native.config_of(layout, 0))
    keys = np.random.default_rng(rows).integers(-(2**62), 2**62, rows)
    for step, start in enumerate(range(0, rows, 20_000), 1):
        some = keys[start : start + 20_000]
        header = ops.request_header(0, tf.constant(step, tf.int64), tf.constant(1, tf.int64), tf.constant(0.1))
        requests, _ = ops.route_ids(header, [tf.constant(some)], [0], layout.salts, 1)
        ops.push([handle], requests[0], tf.zeros([len(some), layout.dim]), layout, 1, name)
    return json.loads(native.stats(handle).numpy())


def planned(shape: TableShape, rows: float, counted: float) -> dict:
    figures = {"rows": given("rows", "rows", rows, ""), "ids": given("ids", "ids", rows + counted, "")}
    if counted:
        figures["counted_ids"] = given("ids", "counted", counted, "")
    if len(shape.tiers) > 1:
        for dim, least in shape.tiers:
            figures[f"rows_of_{dim}"] = figure("rows", f"{rows if not least else 0}")
    return bytes_figures(shape, figures, 1)


@pytest.mark.parametrize("rows", [40, 5_000, 120_000])
@pytest.mark.parametrize(
    ("tiers", "optimizer", "value_type"),
    [(((8, 0),), "adam", "float32"), (((33, 0),), "sgd", "bfloat16"), (((4, 0), (32, 9)), "adam", "float32")],
    ids=["adam", "16 bits", "tiers"],
)
def test_a_native_table_counts_the_bytes_that_were_planned(rows: int, tiers, optimizer: str, value_type: str) -> None:
    told = filled(rows, tiers, optimizer, value_type, ops.Admission(), ops.Eviction())
    shape = TableShape("t", "native", tiers, 4 if value_type == "float32" else 2, _SLOTS[optimizer])
    found = planned(shape, rows, 0)
    assert found["bytes_per_ps"].value == pytest.approx(told["bytes"], rel=0.02)
    assert found["payload_bytes"].value == told["payload_bytes"]


def test_ids_that_are_only_counted_take_what_was_planned() -> None:
    admission = ops.Admission(kind="exact", threshold=2)
    told = filled(100_000, ((16, 0),), "adam", "float32", admission, ops.Eviction())
    shape = TableShape("t", "native", ((16, 0),), 4, 2, admission="exact", threshold=2)
    found = planned(shape, 0, told["counted_keys"])
    assert told["counted_keys"] == 100_000
    assert found["bytes_per_ps"].value == pytest.approx(told["bytes"], rel=0.02)


@pytest.mark.parametrize(("capacity", "error", "threshold"), [(30_000, 0.01, 3), (200_000, 0.2, 300), (5_000, 1e-4, 2)])
def test_a_bloom_filter_takes_what_was_planned(capacity: int, error: float, threshold: int) -> None:
    admission = ops.Admission(kind="bloom", threshold=threshold, capacity=capacity, error=error)
    # So many ids that every segment has one.
    told = filled(60_000, ((4, 0),), "sgd", "float32", admission, ops.Eviction())
    shape = TableShape(
        "t", "native", ((4, 0),), 4, 0, admission="bloom", threshold=threshold, capacity=capacity, error=error
    )
    found = planned(shape, told["rows"], 0)
    # The sub-tables are small, and a slab's size jumps.
    assert found["bytes_per_ps"].value == pytest.approx(told["bytes"], rel=0.04)


def test_a_limit_of_bytes_bounds_what_is_planned() -> None:
    eviction = ops.Eviction(max_bytes=4 * 2**20)
    told = filled(60_000, ((32, 0),), "adam", "float32", ops.Admission(), eviction)
    shape = TableShape("t", "native", ((32, 0),), 4, 2, max_bytes=4 * 2**20)
    found = planned(shape, 60_000, 0)
    assert told["bytes"] <= found["bytes_per_ps"].value == 4 * 2**20
    assert told["bytes"] > 0.8 * 4 * 2**20


@pytest.mark.parametrize(
    ("tables", "rows", "dim", "optimizer", "within"),
    [(1, 2_100_000, 8, "sgd", 0.08), (8, 100_000, 64, "adam", 0.08), (16, 40_000, 16, "adam", 0.2)],
    ids=["an index that has come into units", "tables of some units", "slabs that have just become units"],
)
def test_what_growth_leaves_behind_is_resident_as_planned(
    tables: int, rows: int, dim: int, optimizer: str, within: float
) -> None:
    command = [sys.executable, "-m", "tests.ps_cluster.plan.growing_tables"]
    command += [*map(str, (tables, rows, dim)), optimizer]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    told = json.loads(done.stdout)
    found = planned(TableShape("t", "native", ((dim, 0),), 4, _SLOTS[optimizer]), rows, 0)
    counted, resident = (tables * found[name].value for name in ("bytes_per_ps", "peak_bytes_per_ps"))
    assert counted == pytest.approx(told["counted"], rel=0.02)
    # Of what malloc could keep half is planned: it may keep none, and all right after pieces were given back.
    assert counted < told["resident"] < counted + 2 * (resident - counted)
    assert resident == pytest.approx(told["resident"], rel=within)


def test_what_is_left_in_units_behind_wide_rows_is_planned() -> None:
    # Five rows of 12,304 bytes with their bits are 61,632 bytes of a unit's 65,536; nothing smaller came before.
    assert slab_rest_bytes(256 * 10_000, 12_304) == pytest.approx(256 * 2_000 * (65_536 - 61_632), rel=0.01)
    # Rows of which a unit holds less than four stay with malloc.
    assert slab_rest_bytes(256 * 10_000, 20_000) == 0
