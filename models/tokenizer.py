"""Semantic tokenisation: features become T tokens of width D."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf
import tf_keras

from models.initial import Initial, add_weight, glorot, zeros


def even_cut(width: int, tokens: int) -> list[int]:
    """Widths of `tokens` parts that add up to `width` and differ by at most 1, the wider ones first.

    Even parts rather than equal ones with a padded rest: a last token of padding alone would be a constant.
    """
    short, longer = divmod(width, tokens)
    return [short + 1] * longer + [short] * (tokens - longer)


class Piece(NamedTuple):
    """Columns `start` to `start + width` of the matrix `feature` stand in the part of `token` from `column` on."""

    feature: int
    start: int
    width: int
    token: int
    column: int


class Tokenizer(tf_keras.layers.Layer):
    """Matrices `[batch, widths[i]]` of the features to tokens `[batch, tokens, dim]`.

    Token t is `P_t p_t + b_t` of its own part p_t of the features: with `groups`, the features of group t
    (indices into `widths`) side by side; without, part t of all features side by side cut into even parts:

        features  | user 6 | item 6 | age 1 | hour 1 |      widths [6, 6, 1, 1], tokens 4
        parts     |  4   |  4   |  3  |  3  |               one projection each, [4, dim], padding included

    Parts are zero-padded to the widest so that all projections are one batched product. The padding's rows of
    the kernel start at 0 and only ever meet zeros, so they stay 0.

    May also be called with the parts, `[tokens, batch, widest part]`, where something else has made them as `pieces`
    says.

    Weights: kernel `[tokens, widest part, dim]`, bias `[tokens, dim]`.
    """

    def __init__(
        self,
        widths: Sequence[int],
        tokens: int,
        dim: int,
        groups: Sequence[Sequence[int]] | None = None,
        *,
        seed: int,
        name: str = "tokenizer",
    ) -> None:
        super().__init__(name=name)
        self.tokens = tokens
        self._widths = tuple(widths)
        # Keras would wrap a list attribute for checkpoints; a tuple of tuples stays plain.
        self._groups = None if groups is None else tuple(tuple(group) for group in groups)
        if groups is None:
            self.part_widths = tuple(even_cut(sum(widths), tokens))
        else:
            self.part_widths = tuple(sum(widths[index] for index in group) for group in groups)
        self.kernel = add_weight(
            self, "kernel", (tokens, max(self.part_widths), dim), _padded_glorot(self.part_widths), seed
        )
        self.bias = add_weight(self, "bias", (tokens, dim), zeros, seed)
        self.built = True

    def pieces(self) -> list[Piece]:
        """What every part is made of."""
        if self._groups is not None:
            pieces = []
            for token, group in enumerate(self._groups):
                column = 0
                for feature in group:
                    pieces.append(Piece(feature, 0, self._widths[feature], token, column))
                    column += self._widths[feature]
            return pieces
        pieces, token, column = [], 0, 0
        for feature, whole in enumerate(self._widths):
            start = 0
            while start < whole:
                if column == self.part_widths[token]:
                    token, column = token + 1, 0
                width = min(whole - start, self.part_widths[token] - column)
                pieces.append(Piece(feature, start, width, token, column))
                start, column = start + width, column + width
        return pieces

    def call(self, matrices: Sequence[tf.Tensor] | tf.Tensor) -> tf.Tensor:
        if tf.is_tensor(matrices):
            parts = matrices
        else:
            parts = self._cut(matrices) if self._groups is None else self._grouped(matrices)
        projected = tf.matmul(parts, self.kernel) + self.bias[:, tf.newaxis, :]
        return tf.transpose(projected, [1, 0, 2])

    def _cut(self, matrices: Sequence[tf.Tensor]) -> tf.Tensor:
        """Parts `[tokens, batch, widest]`: two reshapes, since the wider parts come first."""
        row = tf.concat(matrices, axis=1)
        widest, shortest = self.part_widths[0], self.part_widths[-1]
        wide_parts = self.tokens if widest == shortest else self.part_widths.count(widest)
        wide = tf.reshape(row[:, : wide_parts * widest], [-1, wide_parts, widest])
        if wide_parts < self.tokens:
            short = tf.reshape(row[:, wide_parts * widest :], [-1, self.tokens - wide_parts, shortest])
            wide = tf.concat([wide, tf.pad(short, [[0, 0], [0, 0], [0, 1]])], axis=1)
        return tf.transpose(wide, [1, 0, 2])

    def _grouped(self, matrices: Sequence[tf.Tensor]) -> tf.Tensor:
        """Parts `[tokens, batch, widest]`."""
        widest = max(self.part_widths)
        parts = []
        for group, width in zip(self._groups or (), self.part_widths):
            part = tf.concat([matrices[index] for index in group], axis=1)
            parts.append(tf.pad(part, [[0, 0], [0, widest - width]]))
        return tf.stack(parts)


def _padded_glorot(part_widths: Sequence[int]) -> Initial:
    def initial(random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        values = np.zeros(shape)
        for token, width in enumerate(part_widths):
            values[token, :width] = glorot(width, shape[2])(random, (width, shape[2]))
        return values

    return initial
