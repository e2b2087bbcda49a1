"""The scales and shifts of a RankMixer's norms in the weights behind them, where nothing else reads the norm's result.

With n the normed values, k and b the head's weights:

- post_ln, the last block: mean over tokens of (γ2 n + β2), times k, plus b = (mean of n) (γ2 k) + (β2 k + b). Another
  block's is read by the next one's mixing and residual too.
- post_ln, the first norm of a block: its result is the residual as well as what the networks read: not to be folded.
- pre_rms, the second norm of each block: only the networks, and the routers of experts, read it: (γ2 n) w1 = n (γ2 w1).
  The first norm's is only moved about before it is added: no weight follows.
- pre_rms, the last norm: as the last block's of post_ln.

In bfloat16 a folded scale would round elsewhere, so nothing is folded then.
"""

from __future__ import annotations

import numpy as np

from models.experts import ExpertsBlock
from models.head import ClickHead
from models.rankmixer import RankMixer
from models.rankmixer_block import RankMixerBlock


def fold_rankmixer(body: RankMixer) -> list[str]:
    """Folds in place; what was folded, one line each."""
    if body.precision != "float32":
        return []
    if body.final_gamma is None:
        last = body.blocks[-1]
        assert last.beta2 is not None
        _into_head(body.head, last.gamma2.numpy(), last.beta2.numpy())
        _make_plain(last)
        return [f"{last.name}: gamma2 and beta2 into {body.head.name}"]
    for block in body.blocks:
        scale = block.gamma2.numpy().astype(np.float64)
        readers = [block.w1, block.router.kernel] if isinstance(block, ExpertsBlock) else [block.w1]
        for kernel in readers:
            kernel.assign(scale[:, np.newaxis] * kernel.numpy())  # [tokens, …, D, units]
        _make_plain(block)
    _into_head(body.head, body.final_gamma.numpy(), np.zeros(body.final_gamma.shape))
    body.final_gamma.assign(np.ones(body.final_gamma.shape))
    body.plain_final_norm = True
    return [
        *(f"{block.name}: gamma2 into w1{' and router' * isinstance(block, ExpertsBlock)}" for block in body.blocks),
        f"{body.name}: final_gamma into {body.head.name}",
    ]


def _into_head(head: ClickHead, gamma: np.ndarray, beta: np.ndarray) -> None:
    """`gamma * x + beta` before the head, `[D]` each."""
    kernel, bias = head.linear.kernel, head.linear.bias
    assert bias is not None
    values = kernel.numpy().astype(np.float64)
    bias.assign(bias.numpy() + beta @ values)
    kernel.assign(gamma[:, np.newaxis] * values)


def _make_plain(block: RankMixerBlock | ExpertsBlock) -> None:
    """What the fused op, which always has the weights, multiplies and adds changes nothing."""
    block.gamma2.assign(np.ones(block.gamma2.shape))
    if block.beta2 is not None:
        block.beta2.assign(np.zeros(block.beta2.shape))
    block.plain_norm2 = True
