"""Target attention: a sequence becomes one vector, weighted by what a query finds in it."""

from __future__ import annotations

import math

import tensorflow as tf
import tf_keras

from models.initial import add_weight, glorot, identity, normal, zeros


class TargetAttention(tf_keras.layers.Layer):
    """Sum of a row's elements, each times the weight that `weigh` gives it.

    Call with elements `[batch, length, dim]`, mask bool `[batch, length]` and, without a learned query, query
    `[batch, dim]`; returns `[batch, dim]`. Masked elements have no influence whatever they hold (NaN
    included), and a row without elements, or a batch of length 0, gives zeros with zero gradients.

    Args:
        kind: `dot` for `DotWeights`, `din` for `DinWeights`.
        hidden: Hidden width of `DinWeights`.
        learned_query: The query is a weight `[dim]` of the layer instead of an argument of the call.
    """

    def __init__(self, dim: int, kind: str, *, hidden: int, learned_query: bool, seed: int, name: str) -> None:
        super().__init__(name=name)
        self.dim = dim
        self.query = None
        if learned_query:
            self.query = add_weight(self, "query", (dim,), normal(1 / math.sqrt(dim)), seed)
        if kind == "dot":
            self.weigh = DotWeights(dim, metric=not learned_query, seed=seed, name=f"{name}/dot")
        else:
            self.weigh = DinWeights(dim, hidden, seed=seed, name=f"{name}/din")
        self.built = True

    def call(self, elements: tf.Tensor, mask: tf.Tensor, query: tf.Tensor | None = None) -> tf.Tensor:
        # Zero times NaN is NaN, so padding is cleared before it meets a weight.
        elements = tf.where(mask[:, :, tf.newaxis], elements, tf.zeros((), elements.dtype))
        if query is None:
            query = tf.broadcast_to(self.query, [tf.shape(elements)[0], self.dim])
        weights = self.weigh(elements, mask, query)
        return tf.matmul(weights[:, tf.newaxis, :], elements)[:, 0, :]


class DotWeights(tf_keras.layers.Layer):
    """Weights `softmax((q M) · e / sqrt(dim))` over a row's real elements; `[batch, length]`.

    M `[dim, dim]` stands for both the query's and the key's projection, whose product is all that the score
    sees; it starts as the identity: elements near the query weigh more from the first step when both are from
    one table. A learned query needs no M, since `q M` would be one more learned vector.
    """

    def __init__(self, dim: int, *, metric: bool, seed: int, name: str) -> None:
        super().__init__(name=name)
        self.dim = dim
        self.scaled = False  # whether M, or the learned query, holds the 1 / sqrt(dim) already
        self.metric = add_weight(self, "metric", (dim, dim), identity, seed) if metric else None
        self.built = True

    def call(self, elements: tf.Tensor, mask: tf.Tensor, query: tf.Tensor) -> tf.Tensor:
        if self.metric is not None:
            query = tf.matmul(query, self.metric)
        scores = tf.matmul(elements, query[:, :, tf.newaxis])[:, :, 0]
        if not self.scaled:
            scores /= math.sqrt(self.dim)
        return masked_softmax(scores, mask)


class DinWeights(tf_keras.layers.Layer):
    """Weights `w · relu(q A + e B + (q * e) C + b) + c` of a row's real elements; `[batch, length]`.

    As in the paper (DIN, arXiv 1706.06978) the weights are not normalised, so that the sum keeps how strong
    an interest is. The paper feeds `q - e` too; before a linear layer that adds nothing to A and B. The
    nonlinearity is ReLU where the paper has PReLU or Dice.
    """

    def __init__(self, dim: int, hidden: int, *, seed: int, name: str) -> None:
        super().__init__(name=name)
        inputs = glorot(3 * dim, hidden)
        self.query_kernel = add_weight(self, "query_kernel", (dim, hidden), inputs, seed)
        self.element_kernel = add_weight(self, "element_kernel", (dim, hidden), inputs, seed)
        self.product_kernel = add_weight(self, "product_kernel", (dim, hidden), inputs, seed)
        self.hidden_bias = add_weight(self, "hidden_bias", (hidden,), zeros, seed)
        self.score_kernel = add_weight(self, "score_kernel", (hidden, 1), glorot(hidden, 1), seed)
        self.score_bias = add_weight(self, "score_bias", (1,), zeros, seed)
        self.built = True

    def call(self, elements: tf.Tensor, mask: tf.Tensor, query: tf.Tensor) -> tf.Tensor:
        queries = query[:, tf.newaxis, :]
        hidden = (
            tf.matmul(queries, self.query_kernel)
            + tf.matmul(elements, self.element_kernel)
            + tf.matmul(queries * elements, self.product_kernel)
            + self.hidden_bias
        )
        scores = (tf.matmul(tf.nn.relu(hidden), self.score_kernel) + self.score_bias)[:, :, 0]
        return tf.where(mask, scores, tf.zeros((), scores.dtype))


def masked_softmax(scores: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """Softmax over the true places of each row, 0 elsewhere and in rows without any; `[batch, length]`."""
    # The mask is applied before exp as well as after: exp of a masked score could overflow, and the gradient
    # of where(..., inf, 0) is NaN.
    lowest = tf.constant(scores.dtype.min, scores.dtype)
    scores = tf.where(mask, scores, lowest)
    # Of a row of length 0 the maximum is -inf.
    top = tf.maximum(tf.reduce_max(scores, axis=1, keepdims=True), lowest)
    shares = tf.where(mask, tf.exp(scores - tf.stop_gradient(top)), tf.zeros((), scores.dtype))
    # The largest share is exp(0) = 1, so 1 is a bound from below on every sum that is not empty.
    return shares / tf.maximum(tf.reduce_sum(shares, axis=1, keepdims=True), 1.0)
