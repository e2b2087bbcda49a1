"""The fused look-up puts every input where its arrangement says, and finds what a dictionary finds."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from ops.lookup_concat import Arrangement, FrozenTable, GivenInput, IdInput, Segment, hash_order, lookup_concat
from tests.ops.frozen_tables import Dictionary, expected_matrix, frozen, narrowed

LEAST, MOST = -(1 << 63), (1 << 63) - 1
ENDS = np.array([LEAST, LEAST + 1, -1, 0, 1, MOST - 1, MOST])
POOLINGS = ["id", "sum", "mean", "sqrtn"]


class Case:
    """Random inputs and tables of an arrangement in which every input stands whole, in random places."""

    def __init__(
        self, seed: int, batch: int, dims: list[int], features: list[IdInput], given: list[GivenInput]
    ) -> None:
        random = np.random.default_rng(seed)
        self.tables, self.dictionaries = [], []
        for dim in dims:
            keys = random.permutation(np.unique(np.append(random.integers(-40, 40, 30), random.choice(ENDS, 3))))
            rows = random.normal(size=[len(keys), dim]).astype(np.float32)
            unknown = np.full(dim, random.choice([0, 0.25]), np.float32)
            self.tables.append(frozen(keys, rows, unknown))
            self.dictionaries.append(Dictionary(keys, rows, unknown))
        self.ids: list[np.ndarray] = []
        self.lengths: list[np.ndarray] = []
        draw = lambda shape: np.where(  # noqa: E731
            random.random(shape) < 0.1, random.choice(ENDS, shape), random.integers(-50, 50, shape)
        )
        for feature in features:
            if feature.pooling == "id":
                self.ids.append(draw([batch]))
                continue
            longest = int(random.integers(0, 150))
            self.ids.append(draw([batch, longest]))
            self.lengths.append(random.integers(-1, longest + 3, batch))
        widths = [dims[feature.table] for feature in features]
        self.given = []
        for _ in given:
            wide = random.random() < 0.5
            widths.append(int(random.integers(1, 4)) if wide else 1)
            values = random.normal(size=[batch, widths[-1]]).astype(np.float32) * 30
            self.given.append(values if wide else values[:, 0])
        parts = int(random.integers(1, 4))
        ends = np.zeros(parts, np.int64)
        segments = []
        for number in random.permutation([*range(len(widths)), *random.integers(0, len(widths), 2)]):
            part, gap = int(random.integers(0, parts)), int(random.integers(0, 2))
            segments.append(Segment(int(number), 0, widths[number], part, int(ends[part]) + gap))
            ends[part] += gap + widths[number]
        width = int(ends.max())
        self.arrangement = Arrangement(tuple(features), tuple(given), tuple(segments), parts, width)

    def got_of(self, *ids: np.ndarray | tf.Tensor) -> tf.Tensor:
        return lookup_concat(self.arrangement, ids, self.lengths, self.given, self.tables)

    def got(self) -> np.ndarray:
        return self.got_of(*self.ids).numpy()

    def check(self) -> None:
        want = expected_matrix(self.arrangement, self.ids, self.lengths, self.given, self.dictionaries)
        got = self.got()
        assert got.dtype == np.float32 and got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def features_of(tables: int) -> st.SearchStrategy:
    feature = st.builds(
        IdInput, st.just("f"), st.integers(0, tables - 1), st.sampled_from(POOLINGS), st.sampled_from([0, 1, 3, 100])
    )
    return st.lists(feature, max_size=5)


@settings(max_examples=120)
@given(
    st.integers(0, 2**32),
    st.integers(0, 150),
    st.lists(st.integers(1, 9), min_size=2, max_size=2),
    features_of(2),
    st.lists(st.builds(GivenInput, st.just("g"), st.booleans()), max_size=3),
)
def test_the_matrix_is_what_its_definition_says(seed: int, batch: int, dims: list, features: list, given: list) -> None:
    if features or given:
        Case(seed, batch, dims, features, given).check()


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("dim", [1, 16, 33, 130])
def test_rows_of_any_width_are_whole(pooling: str, dim: int) -> None:
    Case(dim, 100, [dim], [IdInput("f", 0, pooling)], []).check()


@pytest.mark.parametrize("kind", ["float16", "int8"])
@pytest.mark.parametrize("dim", [1, 16, 33])
def test_narrow_rows_are_those_of_float32_that_they_stand_for(kind: str, dim: int) -> None:
    features = [IdInput("f", number % 2, pooling) for number, pooling in enumerate(POOLINGS)]
    case = Case(dim, 70, [dim, dim + 3], features, [GivenInput("g")])
    pairs = [narrowed(table, kind) for table in case.tables]
    got, want = (lookup_concat(case.arrangement, case.ids, case.lengths, case.given, some) for some in zip(*pairs))
    np.testing.assert_array_equal(got, want)


def test_scales_that_do_not_fit_are_named() -> None:
    case = Case(1, 5, [4], [IdInput("f", 0)], [])
    table, _ = narrowed(case.tables[0], "int8")
    for scales, message in (
        (None, "table 0: expected scales of 1 tables, which those of int8 have, found 0"),
        (tf.zeros([3]), r"table 0: expected scales \[\d+\], one for each row, found \[3\]"),
    ):
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            lookup_concat(case.arrangement, case.ids, [], [], [table._replace(scales=scales)])
    with pytest.raises(tf.errors.InvalidArgumentError, match="table 0: expected scales of 0 tables"):
        lookup_concat(case.arrangement, case.ids, [], [], [case.tables[0]._replace(scales=table.scales)])


@pytest.mark.parametrize("batch", [0, 1])
def test_small_batches_have_the_shape_of_large_ones(batch: int) -> None:
    features = [IdInput("f", 0), IdInput("g", 0, "mean", 3)]
    case = Case(3, batch, [4], features, [GivenInput("h")])
    case.check()
    assert case.got().shape[1] == batch


@pytest.mark.parametrize("num_keys", [0, 1, 2, 3, 64, 65, 50_000])
@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_every_key_of_a_table_is_found_and_no_other_id(num_keys: int, index: type) -> None:
    random = np.random.default_rng(num_keys)
    keys = random.permutation(np.unique(random.integers(LEAST, MOST, num_keys)))
    rows = np.arange(len(keys), dtype=np.float32)[:, np.newaxis]
    table = frozen(keys, rows, np.array([-1], np.float32), index)
    arrangement = Arrangement((IdInput("f", 0),), (), (Segment(0, 0, 1, 0, 0),), 1, 1)
    np.testing.assert_array_equal(lookup_concat(arrangement, [keys], [], [], [table])[0], rows)
    others = np.setdiff1d(np.concatenate([keys + 1, keys ^ LEAST, ENDS]), keys)
    assert (lookup_concat(arrangement, [others], [], [], [table]).numpy() == -1).all()


@pytest.mark.parametrize("keys", [[MOST], [LEAST], [LEAST, MOST], [LEAST, -1, 0, MOST]])
def test_the_ends_of_int64_are_ids_like_others(keys: list[int]) -> None:
    rows = np.arange(1, len(keys) + 1, dtype=np.float32)[:, np.newaxis]
    table = frozen(np.array(keys), rows, np.zeros(1, np.float32))
    arrangement = Arrangement((IdInput("f", 0),), (), (Segment(0, 0, 1, 0, 0),), 1, 1)
    want = [[keys.index(one) + 1 if one in keys else 0] for one in ENDS.tolist()]
    np.testing.assert_array_equal(lookup_concat(arrangement, [ENDS], [], [], [table])[0], want)


def test_a_list_is_cut_to_its_newest_ids_before_it_is_pooled() -> None:
    table = frozen(np.arange(10), 2.0 ** np.arange(10, dtype=np.float32)[:, np.newaxis], np.zeros(1, np.float32))
    arrangement = Arrangement((IdInput("f", 0, "sum", 2),), (), (Segment(0, 0, 1, 0, 0),), 1, 1)
    ids = np.array([[1, 2, 3, 9], [4, 9, 9, 9], [5, 6, 7, 8], [9, 9, 9, 9], [1, 1, 1, 9], [0, 1, 2, 3]])
    got = lookup_concat(arrangement, [ids], [np.array([3, 1, 4, 0, 3, 77])], [], [table])
    np.testing.assert_array_equal(got[0, :, 0], [2**2 + 2**3, 2**4, 2**7 + 2**8, 0, 2 + 2, 2**2 + 2**3])


def test_padding_and_the_company_of_a_row_change_no_bit() -> None:
    features = [IdInput("f", 0, pooling, 20) for pooling in POOLINGS]
    case = Case(11, 130, [7], features, [GivenInput("g", True)])
    whole = case.got()
    for feature, ids, lengths in zip(features[1:], case.ids[1:], case.lengths):
        assert feature.pooling != "id"
        ids[np.arange(ids.shape[1]) >= lengths[:, np.newaxis]] = MOST
    np.testing.assert_array_equal(case.got(), whole)
    rows = slice(40, 47)
    case.ids, case.lengths, case.given = ([one[rows] for one in some] for some in (case.ids, case.lengths, case.given))
    np.testing.assert_array_equal(case.got(), whole[:, rows])


THREADS = """
import sys
import numpy as np
import tensorflow as tf
tf.config.threading.set_intra_op_parallelism_threads(int(sys.argv[1]))
from ops.lookup_concat import GivenInput, IdInput
from tests.ops.test_lookup_concat import POOLINGS, Case
features = [IdInput("f", number % 2, pooling, 50) for number, pooling in enumerate(POOLINGS * 2)]
np.save(sys.argv[2], Case(5, 3000, [8, 17], features, [GivenInput("g", True)]).got())
"""


def test_any_number_of_threads_gives_the_same_bits(tmp_path) -> None:
    found = []
    for threads in ("1", "5"):
        path = tmp_path / f"{threads}.npy"
        subprocess.run([sys.executable, "-c", THREADS, threads, str(path)], check=True, timeout=300)
        found.append(np.load(path))
    np.testing.assert_array_equal(found[1], found[0])


def test_a_value_that_is_not_a_number_stays_one_and_in_its_row() -> None:
    case = Case(2, 5, [3], [IdInput("f", 0)], [GivenInput("g", True), GivenInput("h")])
    for values in case.given:
        values[2] = np.nan
    where = np.isnan(case.got()).any(axis=(0, 2))
    np.testing.assert_array_equal(where, [False, False, True, False, False])


def test_the_shape_of_the_result_is_known_beforehand() -> None:
    case = Case(4, 6, [3], [IdInput("f", 0), IdInput("g", 0, "sum")], [GivenInput("h")])
    specs = [tf.TensorSpec([None] * one.ndim, tf.int64) for one in case.ids]
    graph = tf.function(case.got_of, autograph=False).get_concrete_function(*specs)
    assert graph.outputs[0].shape.as_list() == [case.arrangement.parts, 6, case.arrangement.width]


def two() -> Case:
    """A case with an id, a list and a given value, to be spoiled."""
    case = Case(6, 4, [3], [IdInput("one", 0), IdInput("many", 0, "mean")], [GivenInput("price")])
    case.given[0] = np.zeros(4, np.float32)
    segments = [Segment(0, 0, 3, 0, 0), Segment(1, 0, 3, 0, 3), Segment(2, 0, 1, 0, 6)]
    case.arrangement = replace(case.arrangement, segments=tuple(segments), parts=1, width=7)
    return case


def spoil(case: Case, how: str) -> None:
    table = case.tables[0]
    segments = case.arrangement.segments
    if how == "id of rank 2":
        case.ids[0] = case.ids[0][:, np.newaxis]
    elif how == "list of rank 1":
        case.ids[1] = case.ids[0]
    elif how == "batch":
        case.ids[1], case.lengths[0] = case.ids[1][:3], case.lengths[0][:3]
    elif how == "lengths":
        case.lengths[0] = case.lengths[0][:3]
    elif how == "given":
        case.given[0] = np.zeros([3], np.float32)
    elif how == "number of lengths":
        case.lengths.append(case.lengths[0])
    elif how == "table":
        case.arrangement = replace(case.arrangement, ids=(IdInput("one", 1), case.arrangement.ids[1]))
    elif how == "rows":
        case.tables[0] = table._replace(rows=table.rows[1:])
    elif how == "starts":
        case.tables[0] = table._replace(starts=table.starts[1:])
    elif how == "last start":
        case.tables[0] = table._replace(starts=tf.concat([table.starts[:-1], [7]], 0))
    elif how == "narrow table":
        case.tables[0] = table._replace(rows=table.rows[:, :2])
    elif how == "beyond the width":
        case.arrangement = replace(case.arrangement, segments=(*segments[:2], Segment(2, 0, 1, 0, 7)))
    elif how == "taken":
        case.arrangement = replace(case.arrangement, segments=(*segments[:2], Segment(2, 0, 1, 0, 5)))
    elif how == "no such input":
        case.arrangement = replace(case.arrangement, segments=(*segments[:2], Segment(3, 0, 1, 0, 6)))


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("id of rank 2", r"one: expected the shape \[batch\] with"),
        ("list of rank 1", r"many: expected the shape \[batch, length\] with"),
        ("batch", r"many: expected the shape \[batch, length\] with the batch of the other inputs, 4, found \[3,"),
        ("lengths", r"many's lengths: expected the shape \[batch\] with the batch of the other inputs, 4, found \[3\]"),
        ("given", r"price: expected the shape \[batch\] or \[batch, width\] with .* 4, found \[3\]"),
    ],
)
def test_known_shapes_that_do_not_fit_are_named_while_tracing(how: str, message: str) -> None:
    case = two()
    spoil(case, how)
    with pytest.raises(ValueError, match=message):
        tf.function(case.got_of, autograph=False).get_concrete_function(*case.ids)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("number of lengths", r"lengths: expected 1, found 2"),
        ("table", r"one: expected a table below 1, found 1"),
        ("rows", r"table 0: expected rows \[\d+, dim\], one more than keys, found"),
        ("starts", r"table 0: expected starts \[2\^k \+ 1\], found \[\d+\]"),
        ("last start", r"table 0: expected starts from 0 to the number of keys, \d+, found 0 to 7"),
        ("narrow table", r"one: expected a table at least 3 wide, found 2"),
        ("beyond the width", r"price: expected a segment within 1 parts of 7 columns, found 1 values from 0 in part 0"),
        ("taken", r"price: expected columns that nothing else takes, found column 5 of part 0 taken"),
        ("no such input", r"segments: expected an input below 3, found 3"),
    ],
)
def test_what_does_not_fit_is_named(how: str, message: str) -> None:
    case = two()
    case.check()
    spoil(case, how)
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        case.got()


def test_shapes_that_only_a_call_shows_are_named_too() -> None:
    case = two()
    specs = [tf.TensorSpec(None, tf.int64)] * 2 + [tf.TensorSpec(None, tf.int64), tf.TensorSpec(None, tf.float32)]
    call = tf.function(
        lambda one, many, lengths, price: lookup_concat(case.arrangement, [one, many], [lengths], [price], case.tables),
        input_signature=specs,
        autograph=False,
    )
    inputs = [*case.ids, *case.lengths, *case.given]
    np.testing.assert_array_equal(call(*inputs), case.got())
    for number, wrong, message in [
        (0, case.ids[1], r"one: expected ids \[batch\], found \[4,"),
        (1, case.ids[0], r"many: expected ids \[batch, length\], found \[4\]"),
        (1, case.ids[1][:3], r"many: expected 3 lengths, one for each list, found \[4\]"),
        (2, case.lengths[0][:3], r"many: expected 4 lengths, one for each list, found \[3\]"),
        (3, case.given[0][:3], r"price: expected the shape \[4\] or \[4, width\], found \[3\]"),
        (3, np.zeros([4, 0], np.float32), r"price: expected at least 1 columns, found 0"),
    ]:
        spoiled = [*inputs[:number], wrong, *inputs[number + 1 :]]
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            call(*spoiled)


def test_a_damaged_index_does_not_lead_out_of_the_table() -> None:
    case = Case(9, 60, [4], [IdInput("f", 0)], [])
    table = case.tables[0]
    starts = table.starts.numpy()
    starts[1:-1] = np.random.default_rng(0).integers(-(2**31), 2**31, len(starts) - 2)
    case.tables[0] = FrozenTable(table.keys, tf.constant(starts), table.rows)
    known = {tuple(row) for row in table.rows.numpy()}
    got = lookup_concat(
        Arrangement((IdInput("f", 0),), (), (Segment(0, 0, 4, 0, 0),), 1, 4), case.ids, [], [], case.tables
    )
    assert {tuple(row) for row in got[0].numpy()} <= known


def test_buckets_hold_one_or_two_keys_on_average() -> None:
    for num_keys in (1, 2, 3, 1000, 1024, 1025):
        order, starts = hash_order(np.arange(num_keys) * 1000)
        assert sorted(order) == list(range(num_keys))
        assert starts[0] == 0 and starts[-1] == num_keys and (np.diff(starts) >= 0).all()
        assert 1 <= num_keys / (len(starts) - 1) <= 2
