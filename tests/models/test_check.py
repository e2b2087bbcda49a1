"""Every mismatch between a configuration and its inputs has its own line."""

from __future__ import annotations

import subprocess
import sys

import pytest

from models.build import build_model, check_model
from models.config import DCNConfig, DeepFMConfig, RankMixerConfig
from models.inputs import InputSpec
from tests.models.examples import CONFIGS, INPUTS

VECTORS = [InputSpec("user", "vector", 4), InputSpec("item", "vector", 4)]


def rankmixer(**fields):
    return RankMixerConfig(name="rankmixer", **fields)


@pytest.mark.parametrize("config", CONFIGS)
def test_nothing_is_said_where_all_fits(config):
    assert check_model(config, INPUTS) == []


@pytest.mark.parametrize(
    ("config", "inputs", "lines"),
    [
        (DCNConfig(name="dcn"), [], ["inputs: expected at least one, found none"]),
        (
            DeepFMConfig(name="deepfm"),
            [*VECTORS, VECTORS[0]],
            ["inputs.user: expected a name of its own, found 2 inputs"],
        ),
        (
            DCNConfig(name="dcn"),
            [*VECTORS, InputSpec("past", "sequence", 4, query="itme")],
            ["inputs.past.query: expected a vector input (user, item), found 'itme'"],
        ),
        (
            DCNConfig(name="dcn"),
            [*VECTORS, InputSpec("past", "sequence", 6, query="item")],
            ["inputs.past.query: expected a vector of the elements' width 6, found 'item' of width 4"],
        ),
        (
            rankmixer(tokens=3, dim=16),
            VECTORS,
            ["tokens: expected a divisor of dim 16, found 3"],
        ),
        (
            rankmixer(tokens=2, dim=8, activation="swiglu", gelu="tanh"),
            VECTORS,
            ["gelu: expected no kind of GELU beside activation: swiglu, found 'tanh'"],
        ),
        (
            rankmixer(tokens=2, dim=8, experts={"count": 3, "target_active": 0.25}),
            VECTORS,
            [
                "experts.count: expected a divisor of 32, the width of the network, or experts.hidden, found 3",
                "experts.target_active: expected at least one of 3 experts, 0.333, found 0.25",
            ],
        ),
        (
            rankmixer(tokens=16, dim=16),
            VECTORS,
            ["tokens: expected at most 8, all features' widths added up, found 16"],
        ),
        (
            rankmixer(tokens=5, dim=16, groups=[["user", "user"], [], ["usre"], ["user"]]),
            VECTORS,
            [
                "tokens: expected a divisor of dim 16, found 5",
                "groups: expected 5 groups, one for each token, found 4",
                "groups.0: expected 'user' once, found it 2 times",
                "groups.1: expected at least one feature, found none",
                "groups.2: expected the name of a feature, found 'usre'",
                "groups: expected every feature in at least one group, found none with item",
            ],
        ),
    ],
)
def test_all_mismatches_are_listed_at_once(config, inputs, lines):
    assert check_model(config, inputs) == lines
    with pytest.raises(ValueError) as error:
        build_model(config, inputs, seed=0)
    assert str(error.value) == "\n".join(lines)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (("a", "text", 4), "input a: expected kind vector, sequence or dense, found 'text'"),
        (("a", "vector", 0), "input a: expected dim at least 1, found 0"),
        (("a", "dense", 2), "input a: expected dim 1, found 2"),
        (("a", "vector", 2, "b"), "input a: expected no query on a vector, found 'b'"),
    ],
)
def test_an_input_that_cannot_be_is_refused(fields, message):
    with pytest.raises(ValueError) as error:
        InputSpec(*fields)
    assert str(error.value) == message


def test_checking_needs_no_tensorflow():
    code = "import sys, models.check; sys.exit('tensorflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
