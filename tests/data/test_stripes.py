"""Which rows a shard reads, in which order."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from data.stripes import Stripe, batches_per_epoch, epoch_order, shard_parts, window_order

FILES = st.lists(st.lists(st.integers(1, 30), max_size=6), max_size=4)


def stripes_of(files):
    stripes = []
    for number, rows_of_stripes in enumerate(files):
        first_row = 0
        for index, rows in enumerate(rows_of_stripes):
            stripes.append(Stripe(f"{number}.orc", index, first_row, rows))
            first_row += rows
    return stripes


def rows_of(parts):
    return [(p.stripe.path, p.stripe.first_row + p.start + i) for p in parts for i in range(p.rows)]


@given(FILES, st.integers(1, 7))
def test_all_shards_together_hold_every_row_once(files, num_shards):
    stripes = stripes_of(files)
    shards = [shard_parts(stripes, shard, num_shards) for shard in range(num_shards)]
    every_row = [(f"{n}.orc", row) for n, rows in enumerate(files) for row in range(sum(rows))]
    assert Counter(row for parts in shards for row in rows_of(parts)) == Counter(every_row)


@given(FILES, st.integers(1, 7))
def test_shards_differ_by_at_most_one_row(files, num_shards):
    sizes = [len(rows_of(shard_parts(stripes_of(files), shard, num_shards))) for shard in range(num_shards)]
    assert max(sizes) - min(sizes) <= 1


@given(FILES, st.integers(1, 7))
def test_a_shard_keeps_the_order_of_the_files_and_holds_no_empty_part(files, num_shards):
    stripes = stripes_of(files)
    for shard in range(num_shards):
        parts = shard_parts(stripes, shard, num_shards)
        assert rows_of(parts) == sorted(rows_of(parts))
        assert all(part.rows > 0 for part in parts)


@given(FILES, st.integers(1, 7))
def test_at_most_one_stripe_fewer_than_shards_is_decoded_again(files, num_shards):
    stripes = stripes_of(files)
    parts = sum(len(shard_parts(stripes, shard, num_shards)) for shard in range(num_shards))
    assert parts <= len(stripes) + num_shards - 1


def test_shards_move_through_the_stripes_side_by_side():
    stripes = stripes_of([[10] * 6])
    assert [p.stripe.index for p in shard_parts(stripes, 0, 2)] == [0, 2, 4]
    assert [p.stripe.index for p in shard_parts(stripes, 1, 2)] == [1, 3, 5]


def test_one_stripe_is_cut_into_row_ranges():
    parts = [shard_parts(stripes_of([[10]]), shard, 3) for shard in range(3)]
    assert sorted((p.start, p.rows) for (p,) in parts) == [(0, 4), (4, 3), (7, 3)]


def test_the_order_of_an_epoch_depends_on_seed_and_epoch():
    parts = shard_parts(stripes_of([[3] * 50]), 0, 1)
    orders = [epoch_order(parts, seed, epoch) for seed in (1, 2) for epoch in (0, 1)]
    assert all(Counter(order) == Counter(parts) for order in orders)
    assert len({tuple(order) for order in orders}) == 4
    assert orders[0] == epoch_order(parts, 1, 0)


def test_the_order_of_a_window_depends_on_seed_epoch_and_window():
    orders = {tuple(window_order(50, s, e, w)) for s in (1, 2) for e in (0, 1) for w in (0, 1)}
    assert len(orders) == 8
    assert all(sorted(order) == list(range(50)) for order in orders)


def test_the_last_partial_batch_counts():
    parts = shard_parts(stripes_of([[10, 11]]), 0, 1)
    assert [batches_per_epoch(parts, rows) for rows in (7, 10, 21, 22)] == [3, 3, 1, 1]
    assert batches_per_epoch((), 5) == 0
