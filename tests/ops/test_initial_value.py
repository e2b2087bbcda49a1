"""A row starts with values that follow from seed, table and key alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ops.embedding import table_salt
from tests.ops.reference import initial_value
from tests.ops.tables import Group, layout_of

KEYS = st.lists(st.integers(-(1 << 63), (1 << 63) - 1), min_size=1, max_size=20, unique=True)


@settings(max_examples=40, deadline=None)
@given(KEYS, st.sampled_from(["uniform", "zeros"]), st.integers(1, 9), st.integers(0, 1 << 62))
def test_uniform_and_zeros_equal_the_reference_bit_for_bit(keys: list[int], kind: str, dim: int, seed: int) -> None:
    got = Group(layout_of(dim, kind=kind, scale=0.3, seed=seed)).pull(keys)
    want = np.stack([initial_value(kind, 0.3, seed, table_salt("table"), key, dim) for key in keys])
    np.testing.assert_array_equal(got.view(np.int32), want.view(np.int32))


@settings(max_examples=20, deadline=None)
@given(KEYS, st.integers(1, 9), st.integers(0, 1 << 62))
def test_normal_equals_the_reference_within_the_last_bit(keys: list[int], dim: int, seed: int) -> None:
    got = Group(layout_of(dim, kind="normal", scale=0.3, seed=seed)).pull(keys)
    want = np.stack([initial_value("normal", 0.3, seed, table_salt("table"), key, dim) for key in keys])
    np.testing.assert_array_max_ulp(got, want, maxulp=1)


def test_position_and_company_do_not_matter() -> None:
    group = Group(layout_of(4))
    keys = np.arange(50) * 7 - 100
    together = dict(zip(keys.tolist(), group.pull(keys)))
    shuffled = np.random.default_rng(1).permutation(keys)
    for key, row in zip(shuffled.tolist(), group.pull(shuffled)):
        np.testing.assert_array_equal(row, together[key])
        np.testing.assert_array_equal(group.pull([key])[0], row)


def test_push_starts_a_row_where_pull_said_it_would() -> None:
    for optimizer in ("sgd", "adagrad", "adam"):
        group = Group(layout_of(5, optimizer, "normal"))
        before = group.pull([3, -8])
        group.push([3, -8], np.zeros([2, 5]))
        assert group.size() == 2
        np.testing.assert_array_equal(group.pull([3, -8], training=False), before)


def test_no_two_new_ids_share_a_vector() -> None:
    for kind in ("uniform", "normal"):
        rows = Group(layout_of(4, kind=kind)).pull(np.arange(100_000))
        assert len(np.unique(rows, axis=0)) == 100_000


def test_tables_and_seeds_differ() -> None:
    keys = np.arange(1000)
    first, second = np.split(Group(layout_of(4, tables=("a", "b"))).pull([keys, keys]), 2)
    other_seed = Group(layout_of(4, tables=("a",), seed=8)).pull(keys)
    assert not (first == second).all(axis=1).any()
    assert not (first == other_seed).all(axis=1).any()


@pytest.mark.parametrize(("kind", "deviation"), [("uniform", 0.2 / np.sqrt(3)), ("normal", 0.2)])
def test_mean_deviation_and_range_are_as_configured(kind: str, deviation: float) -> None:
    values = Group(layout_of(8, kind=kind, scale=0.2)).pull(np.arange(50_000) * 1024).astype(np.float64)
    error = deviation / np.sqrt(values.size)
    assert abs(values.mean()) < 6 * error
    assert abs(values.std() / deviation - 1) < 0.01
    # Neither columns nor neighbours move together.
    correlation = np.corrcoef(values, rowvar=False) - np.eye(8)
    assert np.abs(correlation).max() < 0.03
    assert abs(np.corrcoef(values[:-1, 0], values[1:, 0])[0, 1]) < 0.03
    if kind == "uniform":
        assert -0.2 <= values.min() < -0.199
        assert 0.199 < values.max() < 0.2
