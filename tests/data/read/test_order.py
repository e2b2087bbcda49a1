"""The order of a read, against the same definition in plain Python."""

from collections import Counter

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from data.columns import Column
from data.read.order import epoch_order, epoch_pieces, file_pieces, key, permutation, window_order
from data.read.read_spec import ReadSpec
from tests.data import plain_reader

ROWS = st.lists(st.integers(1, 40), max_size=30)
SEEDS = st.integers(0, 2**64 - 1)


@given(st.integers(0, 300), SEEDS)
def test_a_permutation_is_numbers_sorted_by_their_mixed_keys(n, k):
    assert permutation(n, k).tolist() == plain_reader.permutation(n, k)


@given(SEEDS, st.integers(0, 10**6), st.integers(0, 10**6))
def test_a_key_is_of_seed_epoch_and_stream(seed, epoch, stream):
    assert key(seed, epoch, stream) == plain_reader.key(seed, epoch, stream)


def test_keys_and_permutations_never_change():
    """Checkpoints hold positions in these orders."""
    assert hex(key(0, 0, 0)) == "0xd4af77485fb169f1"
    assert permutation(8, key(7, 1, 2)).tolist() == [5, 6, 7, 0, 1, 3, 2, 4]


@settings(deadline=None)
@given(ROWS, st.integers(0, 100), st.integers(0, 3), st.integers(1, 9))
def test_pieces_are_chunks_of_parts_in_turns(rows, seed, epoch, interleave):
    spec = ReadSpec((), (Column("a", "int64"),), 1, seed=seed, shuffle_rows=1, interleave_stripes=interleave)
    pieces = epoch_pieces(rows, seed, epoch, interleave)
    assert pieces.dtype == np.int64 and pieces.shape[1] == 3
    assert list(map(tuple, pieces.tolist())) == list(plain_reader.pieces_of(rows, spec, epoch))


@settings(deadline=None)
@given(ROWS, st.integers(1, 9))
def test_every_row_lies_in_one_piece(rows, interleave):
    found = Counter(
        (part, row)
        for part, start, n in epoch_pieces(rows, 1, 0, interleave).tolist()
        for row in range(start, start + n)
    )
    assert found == Counter((part, row) for part, n in enumerate(rows) for row in range(n))


def test_without_shuffling_the_pieces_are_the_parts():
    assert file_pieces([3, 1, 2]).tolist() == [[0, 0, 3], [1, 0, 1], [2, 0, 2]]
    assert file_pieces([]).shape == (0, 3)


def test_orders_differ_by_seed_epoch_and_window():
    windows = {tuple(window_order(50, s, e, w)) for s in (1, 2) for e in (0, 1) for w in (0, 1)}
    parts = {tuple(epoch_order(50, s, e)) for s in (1, 2) for e in (0, 1)}
    assert len(windows) == 8 and len(parts) == 4 and not windows & parts
