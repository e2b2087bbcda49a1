"""The reference's gradients, derived by hand, are those of its own result."""

from __future__ import annotations

import numpy as np
import pytest

from ops.rankmixer_block import BlockOptions
from tests.models.reference import numeric_gradient
from tests.ops.rankmixer.reference import block, example


@pytest.mark.parametrize("norm", ["post_ln", "pre_rms"])
@pytest.mark.parametrize("activation", ["gelu", "gelu_tanh", "swiglu"])
def test_gradients_of_the_reference_are_its_numeric_ones(norm: str, activation: str) -> None:
    options = BlockOptions(norm=norm, activation=activation, dropout=0.25)
    x, weights, dy = example(3, 2, 4, 6, options)
    gradients = block(x, weights, options, dy, (1, 2)).gradients
    for name in gradients:

        def loss(value: np.ndarray, name: str = name) -> float:
            of = {**weights, **({} if name == "x" else {name: value})}
            return float((block(value if name == "x" else x, of, options, dy, (1, 2)).y * dy).sum())

        expected = numeric_gradient(loss, x if name == "x" else weights[name], 1e-3)
        np.testing.assert_allclose(gradients[name], expected, rtol=1e-7, atol=1e-8, err_msg=name)
