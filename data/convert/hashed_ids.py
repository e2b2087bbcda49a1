"""Ids of texts: their stable 64-bit hash, kept apart from what is no text.

The id of a text is FarmHash Fingerprint64 of its UTF-8 bytes, as a signed integer; with a seed other than 0, of
`SEED:text`. In TensorFlow: `tf.bitcast(tf.fingerprint(tf.strings.join(["SEED:", text])), tf.int64)`; in BigQuery:
`FARM_FINGERPRINT(CONCAT("SEED:", text))`. Two ids are reserved: `EMPTY_ID` for the empty text, `MISSING_ID` for jobs to
declare as the stand-in of a null (a null itself stays a null). A text whose hash is one of them gets another id, its
hash with the highest bit flipped.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from data.convert.fingerprint import fingerprint64, second_hash

HASH_NAME = "farmhash.fingerprint64"
EMPTY_ID = 0
MISSING_ID = -1
_RESERVED = np.array([EMPTY_ID, MISSING_ID])
_HIGHEST_BIT = np.int64(-(2**63))


@dataclass(frozen=True)
class HashedTexts:
    """Ids `[n]` int64 of n texts; `seconds` uint64 `[n]`: another hash of each, to tell collisions."""

    ids: np.ndarray
    seconds: np.ndarray
    moved: int  # texts whose hash is reserved


def hashed_texts(texts: pa.Array, seed: int) -> HashedTexts:
    """The ids of texts (or bytes) without nulls."""
    salted = texts
    if seed:
        salted = pc.binary_join_element_wise(pa.scalar(f"{seed}:", texts.type), texts, pa.scalar("", texts.type))
    hashes = fingerprint64(salted).view(np.int64)
    empty = pc.binary_length(texts).to_numpy(zero_copy_only=False) == 0
    moved = int(np.count_nonzero(np.isin(hashes, _RESERVED) & ~empty))
    return HashedTexts(apart(hashes, empty), second_hash(texts), moved)


def apart(hashes: np.ndarray, empty: np.ndarray) -> np.ndarray:
    """Hashes int64 `[n]` as ids: `EMPTY_ID` where `empty`, off the reserved ids elsewhere."""
    ids = np.where(np.isin(hashes, _RESERVED), hashes ^ _HIGHEST_BIT, hashes)
    ids[empty] = EMPTY_ID
    return ids
