"""Ids become one request per PS, and find their rows again."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from ops.embedding import HEADER_WORDS, route_ids, table_salt
from tests.ops.reference import owner_of, salt_of
from tests.ops.tables import counts_of, keys_of

HEADER = tf.constant([3, 17, 64, 1065353216, 480000], tf.int64)
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)


def route(ids: list, table_of_feature: list[int], salts: list[int], num_ps: int) -> tuple[list, np.ndarray]:
    requests, positions = route_ids(
        HEADER, [tf.constant(of_feature, tf.int64) for of_feature in ids], table_of_feature, salts, num_ps
    )
    return requests, positions.numpy()


@st.composite
def groups(draw: st.DrawFn) -> tuple[list[list[int]], list[int], int, int]:
    num_tables = draw(st.integers(1, 4))
    table_of_feature = draw(st.lists(st.integers(0, num_tables - 1), min_size=1, max_size=6))
    # Few different ids, so that they repeat within and across features; and some of any size.
    ids = draw(
        st.lists(
            st.lists(st.one_of(st.integers(-3, 12), INT64), max_size=40),
            min_size=len(table_of_feature),
            max_size=len(table_of_feature),
        )
    )
    return ids, table_of_feature, num_tables, draw(st.integers(1, 5))


@settings(max_examples=60, deadline=None)
@given(groups())
def test_requests_name_each_key_once_at_its_owner_and_positions_lead_back(group: tuple) -> None:
    ids, table_of_feature, num_tables, num_ps = group
    names = [f"table_{index}" for index in range(num_tables)]
    salts = [table_salt(name) for name in names]
    requests, positions = route(ids, table_of_feature, salts, num_ps)
    assert len(requests) == num_ps
    rows = []
    for ps, request in enumerate(requests):
        np.testing.assert_array_equal(request[:HEADER_WORDS], HEADER)
        for table, keys in enumerate(keys_of(request, num_tables)):
            assert len(set(keys)) == len(keys)
            assert all(owner_of(key, salts[table], num_ps) == ps for key in keys)
            rows += [(table, key) for key in keys]
    assert len(set(rows)) == len(rows)
    occurred = {
        (table, key): count
        for request in requests
        for table, counts in enumerate(counts_of(request, num_tables))
        for key, count in counts.items()
    }
    wanted = [(table, key) for table, of_feature in zip(table_of_feature, ids) for key in of_feature]
    assert [rows[position] for position in positions] == wanted
    assert occurred == Counter(wanted)


def test_a_tables_salt_is_the_hash_of_its_name() -> None:
    for name in ("user", "item", "a", ""):
        assert table_salt(name) == salt_of(name)


@pytest.mark.parametrize("stride", [1, 2, 3, 4, 8, 1 << 20, 1 << 32, 10**12])
@pytest.mark.parametrize("num_ps", [2, 3, 4])
def test_ids_with_a_stride_spread_over_all_ps(stride: int, num_ps: int) -> None:
    ids = [stride * i for i in range(8000)]
    requests, _ = route([ids], [0], [table_salt("user")], num_ps)
    counts = [len(keys_of(request, 1)[0]) for request in requests]
    # An even share within 6 standard deviations of a fair draw.
    share = len(ids) / num_ps
    assert all(abs(count - share) < 6 * np.sqrt(share * (1 - 1 / num_ps)) for count in counts), counts


def test_features_of_one_table_share_rows_and_tables_do_not() -> None:
    requests, positions = route([[5, 6], [6, 5, 5], [5]], [0, 0, 1], [table_salt("a"), table_salt("b")], 1)
    assert keys_of(requests[0], 2) == [[5, 6], [5]]
    assert positions.tolist() == [0, 1, 1, 0, 0, 2]


def test_one_id_may_lie_on_different_ps_in_different_tables() -> None:
    ids = list(range(200))
    salts = [table_salt("a"), table_salt("b")]
    requests, _ = route([ids, ids], [0, 1], salts, 2)
    first, second = (set(keys) for keys in keys_of(requests[0], 2))
    assert 60 < len(first ^ second) < 140


@pytest.mark.parametrize("num_ps", [1, 3])
def test_empty_features_give_requests_without_keys(num_ps: int) -> None:
    requests, positions = route([[], []], [0, 1], [1, 2], num_ps)
    assert positions.shape == (0,)
    assert [request.numpy().tolist() for request in requests] == [[*HEADER.numpy().tolist(), 0, 0]] * num_ps
    requests, positions = route([[], [9]], [0, 1], [1, 2], 1)
    assert keys_of(requests[0], 2) == [[], [9]]


def test_ids_whose_hashes_collide_in_the_lower_half_stay_apart() -> None:
    # 200 thousand ids grow the de-duplication's buckets past 2^16: chains form.
    ids = np.random.default_rng(0).permutation(np.repeat(np.arange(100_000, dtype=np.int64) << 40, 2))
    requests, positions = route([ids], [0], [table_salt("big")], 2)
    rows = np.concatenate([keys_of(request, 1)[0] for request in requests])
    assert len(rows) == 100_000
    np.testing.assert_array_equal(rows[positions], ids)


@pytest.mark.parametrize(
    ("header", "ids", "table_of_feature", "salts", "message"),
    [
        ([1, 2, 3], [[1]], [0], [1], r"header: expected shape \[5\], found \[3\]"),
        ([1, 2, 3, 4, 5], [[[1]]], [0], [1], r"must be rank 1|ids\[0\]: expected a vector, found shape \[1,1\]"),
        ([1, 2, 3, 4, 5], [[1]], [0, 0], [1], r"table_of_feature: expected 1 values, found 2"),
        ([1, 2, 3, 4, 5], [[1]], [1], [1], r"table_of_feature: expected values below 1, found 1"),
        ([1, 2, 3, 4, 5], [[1]], [-1], [1], r"table_of_feature: expected values below 1, found -1"),
        ([1, 2, 3, 4, 5], [[1]], [0], [], r"table_of_feature: expected values below 0, found 0"),
    ],
)
def test_wrong_inputs_are_named(header: list, ids: list, table_of_feature: list, salts: list, message: str) -> None:
    with pytest.raises((tf.errors.InvalidArgumentError, ValueError), match=message):
        route_ids(tf.constant(header, tf.int64), [tf.constant(i, tf.int64) for i in ids], table_of_feature, salts, 1)
