"""Values of any type as 64-bit codes, so that they can be counted and compared in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_U64 = np.uint64
_STEP = _U64(0x9E3779B97F4A7C15)
_NULL = _U64(0x6C62272E07BB0142)


def mixed(values: np.ndarray) -> np.ndarray:
    """uint64 `[n]`: SplitMix64's finaliser, which maps different values to different ones."""
    with np.errstate(over="ignore"):
        values = (values ^ (values >> _U64(30))) * _U64(0xBF58476D1CE4E5B9)
        values = (values ^ (values >> _U64(27))) * _U64(0x94D049BB133111EB)
        return values ^ (values >> _U64(31))


def codes(array: pa.Array) -> np.ndarray:
    """uint64 `[rows]`: equal for equal values, whatever the width of their integer or float type.

    Different numbers, booleans and times have different codes for certain; different texts, lists and so on but for a
    chance of 2^-64. Zeros of both signs are equal, and so are all NaN. A null has a code that some value may have, too.
    """
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    kind = array.type
    if _is_list(kind):
        result = _list_codes(array)
    elif pa.types.is_floating(kind):
        numbers = _filled(array.cast(pa.float64()), 0.0).to_numpy(zero_copy_only=False) + 0.0  # -0.0 + 0.0 is 0.0
        bits = np.where(np.isnan(numbers), np.nan, numbers).view(np.uint64)
        result = mixed(bits + _STEP)
    elif pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        result = _integer_codes(array)
    elif pa.types.is_timestamp(kind) or pa.types.is_date64(kind):
        result = _integer_codes(array.cast(pa.int64()))
    elif pa.types.is_date32(kind):
        result = _integer_codes(array.cast(pa.int32()))
    elif pa.types.is_string(kind) or pa.types.is_binary(kind):
        encoded = array.dictionary_encode()
        table = [blake2b(value.as_buffer(), digest_size=8).digest() for value in encoded.dictionary]
        places = _filled(encoded.indices, 0).to_numpy(zero_copy_only=False)
        result = np.frombuffer(b"".join(table) or b"\0" * 8, np.uint64)[places]
    else:  # structs, maps, decimals: rare in samples, so slow is well
        texts = (repr(value.as_py()).encode("utf-8", "surrogateescape") for value in array)
        digests = b"".join(blake2b(text, digest_size=8).digest() for text in texts)
        result = np.frombuffer(digests, np.uint64)
    if array.null_count:
        result = np.where(array.is_null().to_numpy(zero_copy_only=False), _NULL, result)
    return result


def combined(parts: list[np.ndarray]) -> np.ndarray:
    """uint64 `[rows]`: one code of the codes of several columns."""
    with np.errstate(over="ignore"):
        result = np.zeros(len(parts[0]), np.uint64)
        for part in parts:
            result = mixed(result * _STEP + part + _STEP)
        return result


def value_class(kind: pa.DataType) -> str:
    """Types whose values can be compared by their codes have the same class."""
    if _is_list(kind):
        return f"list of {value_class(kind.value_type)}"
    tests: tuple[tuple[Callable[[pa.DataType], bool], str], ...] = (
        (pa.types.is_floating, "float"),
        (pa.types.is_integer, "integer"),
        (pa.types.is_boolean, "integer"),
        (pa.types.is_string, "text"),
        (pa.types.is_binary, "binary"),
    )
    return next((name for test, name in tests if test(kind)), str(kind))


def _is_list(kind: pa.DataType) -> bool:
    return pa.types.is_list(kind) or pa.types.is_large_list(kind)


def _filled(array: pa.Array, value: float) -> pa.Array:
    return pc.fill_null(array, pa.scalar(value, array.type)) if array.null_count else array


def _integer_codes(array: pa.Array) -> np.ndarray:
    values: np.ndarray = _filled(array.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
    with np.errstate(over="ignore"):
        return mixed(values.view(np.uint64) + _STEP)


def _list_codes(array: pa.Array) -> np.ndarray:
    """A sum over the items, each mixed with its place: it can be taken for all lists at once."""
    lengths = _filled(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    items = array.flatten()  # leaves out what lies under a null list
    ends = np.cumsum(lengths)
    places = np.arange(len(items)) - np.repeat(ends - lengths, lengths)
    with np.errstate(over="ignore"):
        nulls = items.is_null().to_numpy(zero_copy_only=False).astype(np.uint64)
        mixed_items = mixed(codes(items) * _STEP + mixed(places.astype(np.uint64) + _STEP) + nulls)
        sums = np.zeros(len(items) + 1, np.uint64)
        np.cumsum(mixed_items, out=sums[1:])
        return mixed(sums[ends] - sums[ends - lengths] + lengths.astype(np.uint64) * _STEP)
