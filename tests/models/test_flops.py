"""Operations of a forward pass against those of the products in the graph that TensorFlow traces."""

from __future__ import annotations

import math

import pytest
import tensorflow as tf

from models.build import build_model
from models.config import RankMixerConfig
from models.flops import forward_flops
from models.inputs import InputSpec
from tests.models.examples import CONFIGS, INPUTS, values_for

ROWS, LENGTH = 3, 5
MORE = [
    RankMixerConfig(name="rankmixer", tokens=4, dim=16, norm="pre_rms", activation="swiglu", expansion=3),
    RankMixerConfig(name="rankmixer", tokens=4, dim=16, experts={"count": 4}, activation="swiglu"),
    RankMixerConfig(name="rankmixer", tokens=2, dim=8, experts={"count": 2, "hidden": 5, "dense_training": False}),
]


def products(graph: tf.Graph) -> float:
    """Operations of all products of matrices, from the shapes of the tensors that they take and give."""
    found = 0.0
    for op in graph.get_operations():
        assert op.type not in ("Einsum", "Conv2D"), op
        if op.type in ("MatMul", "BatchMatMulV2"):
            assert not op.get_attr("transpose_a" if op.type == "MatMul" else "adj_x")
            found += 2.0 * op.inputs[0].shape[-1] * math.prod(op.outputs[0].shape)
    return found


def traced(config, inputs, values, *, training: bool) -> float:
    model = build_model(config, inputs, seed=0)
    call = model.training_call if training else model
    signature = tf.nest.map_structure(lambda value: tf.TensorSpec(value.shape, value.dtype), values)
    return products(tf.function(lambda values: call(values)[0]).get_concrete_function(signature).graph)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("config", [*CONFIGS, *MORE])
def test_operations_are_those_of_the_graphs_products(config, training):
    found = forward_flops(config, INPUTS, training=training)
    elements = {name: float(ROWS * LENGTH) for name in found.per_element}
    assert set(elements) == {"history", "genres"}
    # A product that starts from a learned query is counted in the graph for every row, as in the formula.
    assert found.of(ROWS, elements) == traced(config, INPUTS, values_for(ROWS, LENGTH), training=training)


@pytest.mark.parametrize("config", CONFIGS[2:])
def test_projections_of_tables_of_several_widths_count(config):
    inputs = [
        InputSpec("user", "vector", 4, table_dim=6, table="users"),
        InputSpec("past", "sequence", 4, table_dim=6, table="users", query="user"),
    ]
    values = {
        "user": tf.zeros([ROWS, 6]),
        "past": (tf.zeros([ROWS, LENGTH, 6]), tf.ones([ROWS, LENGTH], tf.bool)),
    }
    found = forward_flops(config, inputs)
    assert found.of(ROWS, {"past": ROWS * LENGTH}) == traced(config, inputs, values, training=False)


def test_a_rankmixers_blocks_are_four_k_t_d_squared_a_row():
    inputs = [InputSpec("user", "vector", 64)]
    sizes = {"name": "rankmixer", "tokens": 8, "dim": 64, "expansion": 4}
    one, three = (forward_flops(RankMixerConfig(layers=layers, **sizes), inputs).per_row for layers in (1, 3))
    assert three - one == 2 * 4 * 4 * 8 * 64**2
