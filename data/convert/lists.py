"""List columns of a batch: from texts with separators, lists of integers or lists of texts to flat items and splits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from data.convert.casts import as_bytes, content, is_text


@dataclass(frozen=True)
class Items:
    """The items of n rows: row i holds `values[splits[i]:splits[i + 1]]`; a null list holds none."""

    values: pa.Array
    splits: np.ndarray  # int64 [n + 1]
    null: np.ndarray  # bool [n]

    def rows_of(self, items: np.ndarray) -> np.ndarray:
        """The rows of items given by number."""
        return np.searchsorted(self.splits, items, side="right") - 1

    def keep(self, kept: np.ndarray, values: pa.Array | None = None) -> Items:
        """The items where `kept`, bool `[items]`; `values`: what they are, if already picked."""
        before = np.concatenate([[0], np.cumsum(kept)])
        picked = self.values.filter(pa.array(kept)) if values is None else values
        return Items(picked, before[self.splits], self.null)

    def lists(self, values: np.ndarray) -> pa.ListArray:
        """int64 `values`, one for each item, as lists."""
        mask = pa.array(self.null) if self.null.any() else None
        return pa.ListArray.from_arrays(pa.array(self.splits, pa.int32()), pa.array(values, pa.int64()), mask=mask)


def items_of(array: pa.Array, separator: str) -> Items:
    """Texts are cut at `separator`, an empty text has no items; lists are taken as they are, their texts are cut."""
    if is_text(array.type):
        texts = as_bytes(array)
        null = texts.is_null().to_numpy(zero_copy_only=False)
        # One text a row: cutting gives at least one item for each, and none for the null ones.
        cut = pc.split_pattern(texts, separator.encode())
        splits = _splits(pc.list_value_length(cut).fill_null(0).to_numpy())
        return _without_phantoms(Items(cut.flatten(), splits, null), pc.binary_length(texts))
    null = array.is_null().to_numpy(zero_copy_only=False)
    splits = _splits(pc.list_value_length(array).fill_null(0).to_numpy())
    items = Items(array.flatten(), splits, null)
    if not is_text(array.type.value_type):
        return items
    items = _without_lone_empty(Items(as_bytes(items.values), splits, null))
    texts = items.values
    if separator.encode() not in content(texts):
        return items
    cut = pc.split_pattern(texts, separator.encode())
    inner = pc.list_value_length(cut).fill_null(0).to_numpy()
    if texts.null_count:  # a null item stays one item
        nulls = texts.is_null().to_numpy(zero_copy_only=False)
        cut = pc.if_else(pa.array(nulls), pa.scalar([None], pa.list_(pa.binary())), cut)
        inner = np.where(nulls, 1, inner)
    return Items(cut.flatten(), _splits(inner)[items.splits], null)


def _without_lone_empty(items: Items) -> Items:
    """Lists of one empty text without it: `[""]` is what cutting an empty text gave somebody else."""
    alone = items.splits[:-1][np.diff(items.splits) == 1]
    empty = pc.binary_length(items.values).fill_null(1).to_numpy() == 0
    phantoms = alone[empty[alone]]
    if not len(phantoms):
        return items
    kept = np.ones(len(items.values), bool)
    kept[phantoms] = False
    return items.keep(kept)


def _without_phantoms(items: Items, lengths: pa.Array) -> Items:
    """Without the one empty item that cutting an empty text gives."""
    empty = lengths.fill_null(1).to_numpy() == 0
    if not empty.any():
        return items
    kept = np.ones(len(items.values), bool)
    kept[items.splits[:-1][empty]] = False
    return items.keep(kept)


def _splits(lengths: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
