"""Rows of several widths at one."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from models.build import Ranker, build_model
from models.config import DCNConfig
from models.inputs import InputSpec, check_inputs
from models.projection import Projection
from ps_cluster.embedding.pooling import pool

INPUTS = [
    InputSpec("item", "vector", 6, table="items", table_dim=8),
    InputSpec("liked", "vector", 6, table="items", table_dim=8),
    InputSpec("history", "sequence", 6, query="item", table="items", table_dim=8),
    InputSpec("user", "vector", 5),
]
CONFIG = DCNConfig(name="dcn", hidden=[8], dropout=0.0)


def values() -> dict:
    random = np.random.default_rng(0)

    def normal(*shape: int) -> tf.Tensor:
        return tf.constant(random.normal(size=shape), tf.float32)

    mask = tf.constant([[True, True, False], [True, False, False]])
    return {"item": normal(2, 8), "liked": normal(2, 8), "history": (normal(2, 3, 8), mask), "user": normal(2, 5)}


@pytest.mark.parametrize("dim", [2, 4, 6, 8, 12])
def test_a_narrow_vector_starts_as_itself_cut_or_padded(dim: int) -> None:
    layer = Projection(8, dim, seed=0, name="p")
    vectors = np.zeros([3, 8], np.float32)
    vectors[:, :4] = np.random.default_rng(1).normal(size=[3, 4])
    width = min(4, dim)
    if dim >= 4:
        np.testing.assert_array_equal(layer(tf.constant(vectors))[:, :width], vectors[:, :width])
        np.testing.assert_array_equal(layer(tf.constant(vectors))[:, width:], np.zeros([3, dim - width]))
    norms = np.linalg.norm(layer.kernel.numpy(), axis=1)
    assert norms[:dim] == pytest.approx(1) and (norms > 0.1).all()


@pytest.mark.parametrize("dim", [2, 8, 12])
def test_every_position_learns_from_the_start(dim: int) -> None:
    """Also those of a row that has just become wider, whose new positions are zero."""
    layer = Projection(8, dim, seed=0, name="p")
    vectors = tf.constant([[1.0] * 4 + [0.0] * 4])
    with tf.GradientTape() as tape:
        tape.watch(vectors)
        loss = tf.reduce_sum(layer(vectors) * tf.random.stateless_normal([1, dim], [1, 2]))
    assert (np.abs(tape.gradient(loss, vectors)) > 1e-6).all()


@pytest.mark.parametrize("pooling", ["mean", "sum", "sqrtn"])
def test_projecting_before_and_after_pooling_is_one(pooling: str) -> None:
    layer = Projection(4, 3, seed=1, name="p")
    layer.kernel.assign(tf.random.stateless_normal([4, 3], [3, 4]))
    vectors = tf.random.stateless_normal([5, 4], [1, 2])
    splits = tf.constant([0, 3, 3, 5], tf.int64)
    after, before = layer(pool(vectors, splits, pooling)), pool(layer(vectors), splits, pooling)
    np.testing.assert_allclose(after, before, rtol=1e-5, atol=1e-6)


def test_inputs_of_one_table_share_a_projection_that_is_trained() -> None:
    model = build_model(CONFIG, INPUTS, seed=3)
    kernels = [weight for weight in model.trainable_weights if "projection" in weight.name]
    assert [(weight.name.split(":")[0], tuple(weight.shape)) for weight in kernels] == [
        ("features/items/projection/kernel", (8, 6))
    ]
    given = values()
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.square(model(given)))
    assert np.abs(tape.gradient(loss, kernels[0])).max() > 0


def test_the_model_sees_the_projected_vectors() -> None:
    given = values()
    model = build_model(CONFIG, INPUTS, seed=3)
    plain = build_model(CONFIG, [InputSpec(s.name, s.kind, s.dim, s.query) for s in INPUTS], seed=3)
    kernel = model.features.projections["items"].kernel
    kernel.assign(tf.random.stateless_normal([8, 6], [5, 6]))
    elements, mask = given["history"]
    projected = {**given, "history": (elements @ kernel, mask)}
    projected.update({name: given[name] @ kernel for name in ("item", "liked")})
    np.testing.assert_allclose(model(given), plain(projected), rtol=1e-5, atol=1e-6)


def test_a_model_with_projections_is_made_again_from_its_description() -> None:
    model = build_model(CONFIG, INPUTS, seed=3)
    again = Ranker.from_config(model.get_config())
    np.testing.assert_array_equal(model(values()), again(values()))


def test_inputs_that_share_a_projection_have_its_widths() -> None:
    other = InputSpec("other", "vector", 6, table="items", table_dim=4)
    assert check_inputs([INPUTS[0], other]) == [
        "inputs.other.table: expected a projection of width 8 to 6 as on item, found 4 to 6"
    ]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"table": "items"}, "input x: expected table_dim and table together, found one of them"),
        ({"table_dim": 4}, "input x: expected table_dim and table together, found one of them"),
        ({"table": "items", "table_dim": 0}, "table_dim of at least 1, on a vector or sequence, found 0 on a vector"),
    ],
)
def test_half_a_projection_is_refused(fields: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        InputSpec("x", "vector", 6, **fields)
