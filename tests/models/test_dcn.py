"""DCN-v2 against its formulas in NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from models.dcn import DCN


@pytest.mark.parametrize("batch", [0, 1, 4])
@pytest.mark.parametrize(("cross_rank", "hidden"), [(None, [5, 3]), (2, [5]), (None, []), (1, [])])
def test_logit_is_of_cross_layers_beside_a_deep_network(batch, cross_rank, hidden):
    widths = [4, 3, 1]
    model = DCN(widths, cross_layers=3, cross_rank=cross_rank, hidden=hidden, dropout=0.0, seed=0)
    rng = np.random.default_rng(0)
    for weight in model.weights:
        weight.assign(rng.normal(size=weight.shape) / 2)
    weights = {weight.name[len("dcn/") : -2]: weight.numpy().astype(float) for weight in model.weights}
    values = [rng.normal(size=(batch, width)).astype(np.float32) for width in widths]
    first = np.concatenate(values, axis=1).astype(float)
    crossed, deep = first, first
    for layer in range(3):
        kernel = weights[f"cross_{layer}/linear/kernel"]
        if cross_rank is not None:
            kernel = weights[f"cross_{layer}/reduce/kernel"] @ kernel
        assert kernel.shape == (8, 8)
        crossed = first * (crossed @ kernel + weights[f"cross_{layer}/linear/bias"]) + crossed
    for layer in range(len(hidden)):
        deep = np.maximum(deep @ weights[f"deep/layer_{layer}/kernel"] + weights[f"deep/layer_{layer}/bias"], 0)
    both = np.concatenate([crossed, deep], axis=1) if hidden else crossed
    expected = both @ weights["click/logit/kernel"] + weights["click/logit/bias"]
    np.testing.assert_allclose(model(values), expected, rtol=1e-4, atol=1e-4)
