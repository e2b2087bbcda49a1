"""The semantic tokeniser against one projection a token."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from models.tokenizer import Tokenizer, even_cut


def matrices(widths, batch, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=(batch, width)).astype(np.float32) for width in widths]


def project(tokenizer, parts):
    """Token by token: part t `[batch, width]` times the first `width` rows of kernel t."""
    kernel, bias = tokenizer.kernel.numpy().astype(float), tokenizer.bias.numpy().astype(float)
    tokens = [part.astype(float) @ kernel[t, : part.shape[1]] + bias[t] for t, part in enumerate(parts)]
    return np.stack(tokens, axis=1)


def from_pieces(tokenizer, values):
    """The tokens of parts that are made by `pieces` alone."""
    parts = np.zeros([tokenizer.tokens, len(values[0]), max(tokenizer.part_widths)], np.float32)
    for feature, start, width, token, column in tokenizer.pieces():
        parts[token, :, column : column + width] = values[feature][:, start : start + width]
    return tokenizer(tf.constant(parts))


def randomise_bias(tokenizer, seed=1):
    tokenizer.bias.assign(np.random.default_rng(seed).normal(size=tokenizer.bias.shape))


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(1, 7), min_size=1, max_size=6), st.integers(1, 6), st.integers(0, 3))
def test_without_groups_features_side_by_side_are_cut_into_even_parts(widths, tokens, batch):
    tokens = min(tokens, sum(widths))
    tokenizer = Tokenizer(widths, tokens, 5, seed=0)
    randomise_bias(tokenizer)
    values = matrices(widths, batch)
    row, parts, start = np.concatenate(values, axis=1), [], 0
    for width in even_cut(sum(widths), tokens):
        parts.append(row[:, start : start + width])
        start += width
    assert start == row.shape[1]
    np.testing.assert_allclose(tokenizer(values), project(tokenizer, parts), rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(from_pieces(tokenizer, values), tokenizer(values))


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.integers(1, 5), min_size=1, max_size=5).flatmap(
        lambda widths: st.tuples(
            st.just(widths),
            st.lists(st.lists(st.sampled_from(range(len(widths))), min_size=1, unique=True), min_size=1, max_size=4),
        )
    ),
    st.integers(0, 3),
)
def test_with_groups_a_token_sees_its_own_features_only(widths_and_groups, batch):
    widths, groups = widths_and_groups
    tokenizer = Tokenizer(widths, len(groups), 4, groups, seed=0)
    randomise_bias(tokenizer)
    values = matrices(widths, batch)
    parts = [np.concatenate([values[index] for index in group], axis=1) for group in groups]
    np.testing.assert_allclose(tokenizer(values), project(tokenizer, parts), rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(from_pieces(tokenizer, values), tokenizer(values))


@given(st.integers(1, 500), st.integers(1, 40))
def test_parts_are_never_empty_and_differ_by_at_most_one(width, tokens):
    tokens = min(tokens, width)
    parts = even_cut(width, tokens)
    assert sum(parts) == width and len(parts) == tokens
    assert min(parts) >= 1 and max(parts) - min(parts) <= 1


def test_rows_of_the_kernel_that_meet_padding_start_at_zero_and_get_no_gradient():
    tokenizer = Tokenizer([3, 2, 2], 2, 4, [[0], [1, 2]], seed=0)
    assert tokenizer.part_widths == (3, 4)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tokenizer(matrices([3, 2, 2], 6)) ** 2)
    gradient = tf.convert_to_tensor(tape.gradient(loss, tokenizer.kernel)).numpy()
    assert not tokenizer.kernel.numpy()[0, 3:].any() and not gradient[0, 3:].any()
    assert gradient[0, :3].all() and gradient[1].all()
