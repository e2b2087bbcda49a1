"""The look-up of sequences gives every list's newest elements and says which of them are real."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from ops.lookup_concat import lookup_sequence
from tests.ops.frozen_tables import Dictionary, counted, frozen, narrowed


def table_of(dim: int) -> tuple:
    random = np.random.default_rng(dim)
    keys = random.permutation(np.arange(-20, 20))
    rows = random.normal(size=[len(keys), dim]).astype(np.float32)
    unknown = np.full(dim, 0.5, np.float32)
    return frozen(keys, rows, unknown), Dictionary(keys, rows, unknown)


@settings(max_examples=60)
@given(st.integers(0, 2**32), st.integers(0, 40), st.integers(0, 150), st.integers(1, 20), st.sampled_from([0, 1, 7]))
def test_elements_and_mask_are_those_of_the_lists(seed: int, batch: int, width: int, dim: int, most: int) -> None:
    random = np.random.default_rng(seed)
    table, dictionary = table_of(dim)
    ids = random.integers(-30, 30, [batch, width])
    lengths = random.integers(-1, width + 3, batch)
    lists = [counted(one, length, most) for one, length in zip(ids, lengths)]
    longest = max(map(len, lists), default=0)
    elements, mask = lookup_sequence("history", ids, lengths, table, most)
    want = np.zeros([batch, longest, dim], np.float32)
    for row, one in enumerate(lists):
        want[row, : len(one)] = np.array([dictionary.row(key) for key in one]).reshape(-1, dim)
    np.testing.assert_array_equal(elements, want)
    np.testing.assert_array_equal(mask, np.arange(longest) < np.array([len(one) for one in lists])[:, np.newaxis])


@pytest.mark.parametrize("kind", ["float16", "int8"])
def test_narrow_rows_are_those_of_float32_that_they_stand_for(kind: str) -> None:
    random = np.random.default_rng(0)
    narrow, whole = narrowed(table_of(17)[0], kind)
    ids, lengths = random.integers(-30, 30, [20, 70]), random.integers(0, 71, 20)
    got, want = (lookup_sequence("history", ids, lengths, table, 50) for table in (narrow, whole))
    np.testing.assert_array_equal(got[0], want[0])
    np.testing.assert_array_equal(got[1], want[1])


def test_what_does_not_fit_is_named() -> None:
    table, _ = table_of(3)
    ids = np.zeros([4, 2], np.int64)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"history: expected 4 lengths, one for each list, found"):
        lookup_sequence("history", ids, np.zeros(3, np.int64), table)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"history: expected ids \[batch, length\], found \[4\]"):
        lookup_sequence("history", ids[:, 0], np.zeros(4, np.int64), table)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"history: expected rows \[41, dim\], one more than keys"):
        lookup_sequence("history", ids, np.zeros(4, np.int64), table._replace(rows=table.rows[1:]))
