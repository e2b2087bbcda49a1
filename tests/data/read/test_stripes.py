"""Which rows a shard reads, in which order."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from data.read.stripes import Part, Stripe, hulls, shard_parts, slices, whole

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
    shards = [shard_parts(whole(stripes), shard, num_shards) for shard in range(num_shards)]
    every_row = [(f"{n}.orc", row) for n, rows in enumerate(files) for row in range(sum(rows))]
    assert Counter(row for parts in shards for row in rows_of(parts)) == Counter(every_row)


@given(FILES, st.integers(1, 7))
def test_shards_differ_by_at_most_one_row(files, num_shards):
    sizes = [len(rows_of(shard_parts(whole(stripes_of(files)), shard, num_shards))) for shard in range(num_shards)]
    assert max(sizes) - min(sizes) <= 1


@given(FILES, st.integers(1, 7))
def test_a_shard_keeps_the_order_of_the_files_and_holds_no_empty_part(files, num_shards):
    stripes = stripes_of(files)
    for shard in range(num_shards):
        parts = shard_parts(whole(stripes), shard, num_shards)
        assert rows_of(parts) == sorted(rows_of(parts))
        assert all(part.rows > 0 for part in parts)


@given(FILES, st.integers(1, 7))
def test_at_most_one_stripe_fewer_than_shards_is_decoded_again(files, num_shards):
    stripes = stripes_of(files)
    parts = sum(len(shard_parts(whole(stripes), shard, num_shards)) for shard in range(num_shards))
    assert parts <= len(stripes) + num_shards - 1


@given(FILES, st.integers(1, 40))
def test_slices_of_a_part_hold_its_rows_in_turns(files, count):
    for part in whole(stripes_of(files)):
        dealt = [one.row_numbers().tolist() for one in slices([part], count)]
        rows = range(part.stripe.first_row, part.stripe.first_row + part.rows)
        assert dealt == [list(rows[first::count]) for first in range(min(count, part.rows))]
        for one, numbers in zip(slices([part], count), dealt):
            assert (one.rows, one.span) == (len(numbers), numbers[-1] - numbers[0] + 1)


def test_shards_move_through_the_stripes_side_by_side():
    stripes = stripes_of([[10] * 6])
    assert [p.stripe.index for p in shard_parts(whole(stripes), 0, 2)] == [0, 2, 4]
    assert [p.stripe.index for p in shard_parts(whole(stripes), 1, 2)] == [1, 3, 5]


def test_one_stripe_is_cut_into_row_ranges():
    parts = [shard_parts(whole(stripes_of([[10]])), shard, 3) for shard in range(3)]
    assert sorted((p.start, p.rows) for (p,) in parts) == [(0, 4), (4, 3), (7, 3)]


def test_the_hull_of_a_stripes_parts_is_one_part():
    first, second = stripes_of([[30, 20]])
    parts = [Part(first, 3, 4), Part(first, 10, 1), Part(first, 25, 5), Part(second, 2, 6)]
    assert hulls(parts) == [Part(first, 3, 27), Part(second, 2, 6)]
