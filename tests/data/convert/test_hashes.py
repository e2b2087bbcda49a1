"""The hash of texts: TensorFlow's own values, and ids that nothing else has."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from data.convert.collisions import PAIR, Pairs, count_collisions, distinct
from data.convert.fingerprint import fingerprint64, second_hash
from data.convert.hashed_ids import EMPTY_ID, MISSING_ID, hashed_texts
from tests.data.convert.preimages import text_with_hash

LENGTHS = st.one_of(st.integers(0, 70), st.integers(0, 300))


def tensorflow_ids(texts: list[bytes]) -> np.ndarray:
    return tf.bitcast(tf.fingerprint(texts), tf.int64).numpy()


@settings(deadline=None, max_examples=60)
@given(st.lists(LENGTHS.flatmap(lambda n: st.binary(min_size=n, max_size=n)), min_size=1, max_size=30), st.data())
def test_the_hash_is_tensorflows_for_every_length_offset_and_type(texts, data):
    first = data.draw(st.integers(0, len(texts) - 1))
    for kind in (pa.binary(), pa.large_binary()):
        found = fingerprint64(pa.array(texts, kind)[first:])
        assert found.view(np.int64).tolist() == tensorflow_ids(texts[first:]).tolist()


def test_texts_of_all_lengths_up_to_1000_bytes_in_one_array():
    texts = [bytes(np.random.default_rng(n).integers(0, 256, n, np.uint8)) for n in range(1000)]
    assert fingerprint64(pa.array(texts)).view(np.int64).tolist() == tensorflow_ids(texts).tolist()


@pytest.mark.parametrize("others", [0, 20])
def test_long_texts_among_few_and_among_many(others):
    draw = np.random.default_rng(0)
    lengths = [65, 4096, 4097, 30_001, *range(120, 120 + 60 * others, 60)]
    texts = [draw.integers(0, 256, length, np.uint8).tobytes() for length in lengths]
    array = pa.array([b"before", *texts])[1:]
    assert fingerprint64(array).view(np.int64).tolist() == tensorflow_ids(texts).tolist()
    found = second_hash(array).tolist()
    assert found == [int(second_hash(pa.array([text] * 20))[7]) for text in texts]  # in array operations to the end


@settings(deadline=None, max_examples=40)
@given(st.lists(st.text(), max_size=20), st.integers(1, 2**40))
def test_a_seed_is_written_in_front_of_the_text_as_a_graph_can_do(texts, seed):
    joined = tf.strings.join([f"{seed}:", tf.constant(texts, tf.string)])
    expected = tf.bitcast(tf.fingerprint(joined), tf.int64).numpy()
    expected[[text == "" for text in texts]] = EMPTY_ID
    assert hashed_texts(pa.array(texts, pa.string()), seed).ids.tolist() == expected.tolist()


@settings(deadline=None, max_examples=40)
@given(st.lists(st.binary(max_size=40), max_size=60))
def test_the_second_hash_tells_texts_apart_and_depends_on_the_text_alone(texts):
    found = second_hash(pa.array([b"before", *texts], pa.binary())[1:]).tolist()
    alone = [int(second_hash(pa.array([text], pa.binary()))[0]) for text in texts]
    assert found == alone
    assert len(set(found)) == len(set(texts))


@pytest.mark.parametrize("reserved", [EMPTY_ID, MISSING_ID])
def test_a_text_whose_hash_is_reserved_gets_another_id(reserved):
    text = text_with_hash(reserved % 2**64, 1)
    assert tensorflow_ids([text]).tolist() == [reserved]
    found = hashed_texts(pa.array([b"", text, b"x"]), 0)
    assert found.moved == 1
    assert found.ids.tolist() == [EMPTY_ID, reserved ^ -(2**63), int(tensorflow_ids([b"x"])[0])]


def test_texts_that_share_a_hash_are_counted():
    twins = [text_with_hash(12345, seed) for seed in range(4)]
    assert set(tensorflow_ids(twins).tolist()) == {12345}
    pairs = Pairs()
    pairs.add(hashed_texts(pa.array([*twins[:3], b"a", b"b"]), 0))
    other = Pairs()
    other.add(hashed_texts(pa.array([*twins[2:], b"b", b"c"]), 0))
    assert count_collisions([pairs.take(), other.take()], 1000) == (4, 3)


@settings(deadline=None, max_examples=60)
@given(
    st.lists(
        st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3), st.integers(0, 3)), max_size=40),
        max_size=4,
    ),
    st.integers(1, 50),
)
def test_collisions_are_counted_exactly_in_ranges_of_any_size(runs, most):
    files = [distinct(np.array(run, PAIR)) for run in runs]
    texts = {pair for run in runs for pair in run}
    ids = {pair[0] for pair in texts}
    assert count_collisions(files, most) == (len(ids), len(texts) - len(ids))


def test_pairs_of_many_batches_are_kept_once(monkeypatch):
    monkeypatch.setattr("data.convert.collisions._HELD", 100)
    pairs = Pairs()
    for batch in range(50):
        pairs.add(hashed_texts(pa.array([f"text {(batch * 7 + i) % 90}" for i in range(20)]), 0))
        assert pairs.bytes <= 16 * 220
    assert len(pairs.take()) == 90
    assert len(pairs.take()) == 0
