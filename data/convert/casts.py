"""Arrow arrays of texts and numbers as arrays of one type, with a mask of the values that do not fit.

Each function takes an array that may hold nulls and gives (values, wrong): `values` has a null wherever the input has
one and wherever `wrong`, a bool array `[rows]` or None for "nothing", is true.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Cast = tuple[pa.Array, "np.ndarray | None"]

_MILLISECOND_UNITS = {"epoch_seconds": 1000, "epoch_milliseconds": 1}
# A label as text.
_LABEL_TEXTS = {"0": 0, "1": 1, "0.0": 0, "1.0": 1, "false": 0, "true": 1, "False": 0, "True": 1}
# What strptime of C reads, and Python's does not.
_SHORT_DIRECTIVES = {"%F": "%Y-%m-%d", "%D": "%m/%d/%y", "%T": "%H:%M:%S", "%R": "%H:%M", "%e": "%d", "%h": "%b"}
# Up to here every integer is a float64 of its own.
_EXACT = float(2**53)


def is_text(kind: pa.DataType) -> bool:
    """Whether values are texts or bytes."""
    return (
        pa.types.is_string(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_large_binary(kind)
    )


def as_bytes(array: pa.Array) -> pa.Array:
    """Texts as bytes with 32-bit offsets."""
    return array if pa.types.is_binary(array.type) else array.cast(pa.binary())


def content(texts: pa.Array) -> bytes:
    """All bytes of an array of texts with 32-bit offsets, in one."""
    if not len(texts) or texts.buffers()[2] is None:
        return b""
    offsets = np.frombuffer(texts.buffers()[1], np.int32, len(texts) + 1, texts.offset * 4)
    return texts.buffers()[2].slice(int(offsets[0]), int(offsets[-1] - offsets[0])).to_pybytes()


def without_empty(texts: pa.Array) -> pa.Array:
    """Texts whose empty ones are null."""
    empty = pc.equal(pc.binary_length(texts), 0)
    if not pc.any(empty).as_py():
        return texts
    return pc.if_else(empty, pa.scalar(None, texts.type), texts)


def integers(array: pa.Array) -> Cast:
    """int64 from any integer, boolean, whole float, decimal or text of digits (or `12.0`). An empty text is null."""
    kind = array.type
    if is_text(kind):
        return _integers_of_texts(without_empty(as_bytes(array)))
    if pa.types.is_floating(kind):
        values = array.cast(pa.float64())
        numbers = values.to_numpy(zero_copy_only=False)
        with np.errstate(invalid="ignore"):
            whole = (np.abs(numbers) <= _EXACT) & (np.floor(numbers) == numbers)
        wrong = ~whole & values.is_valid().to_numpy(zero_copy_only=False)
        return _masked(values, wrong).cast(pa.int64()), _none_if_clear(wrong)
    return _isolated(array, lambda part: part.cast(pa.int64()), pa.int64())


def floats(array: pa.Array, nan_is_missing: bool = False) -> Cast:
    """Finite float32, the nearest, from any number or text of one. An empty text is null."""
    if is_text(array.type):
        texts, wrong = _isolated(without_empty(as_bytes(array)), lambda part: part.cast(pa.string()), pa.string())
        values, more = _isolated(texts, lambda part: pc.utf8_trim_whitespace(part).cast(pa.float32()), pa.float32())
        wrong = _either(wrong, more)
    else:
        values, wrong = array.cast(pa.float32(), safe=False), None
    numbers = values.to_numpy(zero_copy_only=False)
    valid = values.is_valid().to_numpy(zero_copy_only=False)
    if nan_is_missing:
        missing = np.isnan(numbers) & valid
        if missing.any():
            values, valid = _masked(values, missing), valid & ~missing
    infinite = ~np.isfinite(numbers) & valid
    return _masked(values, infinite), _either(wrong, _none_if_clear(infinite))


def labels(array: pa.Array) -> Cast:
    """int8, 0 or 1."""
    if is_text(array.type):
        texts = without_empty(as_bytes(array))
        known = pa.array([text.encode() for text in _LABEL_TEXTS])
        values = pa.array(list(_LABEL_TEXTS.values()), pa.int8()).take(pc.index_in(texts, value_set=known))
        wrong = (values.is_null().to_numpy(zero_copy_only=False)) & texts.is_valid().to_numpy(zero_copy_only=False)
        return values, _none_if_clear(wrong)
    values, wrong_integers = integers(array)
    numbers = values.fill_null(0).to_numpy()
    outside = (numbers != 0) & (numbers != 1)
    return _masked(values, outside).cast(pa.int8()), _either(wrong_integers, _none_if_clear(outside))


def times(array: pa.Array, form: str, pattern: str | None, zone: str) -> Cast:
    """Epoch milliseconds, int64, rounded down. Arrow times know their unit; else `form` says how to read."""
    if pa.types.is_date(array.type):
        array = array.cast(pa.timestamp("ms"))
    if pa.types.is_timestamp(array.type):
        inside, outside = _of_calendar(array)
        return _milliseconds(_in_utc(inside, zone)), outside
    if form == "iso8601":
        return _of_texts(array, lambda texts: _iso(texts, zone))
    if form == "pattern":
        assert pattern is not None
        return _of_texts(array, lambda texts: _by_pattern(texts, pattern, zone))
    return _epochs(array, form)


def texts(array: pa.Array) -> Cast:
    """Bytes of texts, or the digits of integers."""
    if is_text(array.type):
        return as_bytes(array), None
    return array.cast(pa.string()).cast(pa.binary()), None


def _integers_of_texts(raw: pa.Array) -> Cast:
    digits, wrong = _isolated(raw, lambda part: part.cast(pa.string()), pa.string())
    # Arrow also reads 0x1F; here digits are decimal.
    if b"x" in content(digits).lower():
        hexadecimal = pc.match_substring(digits, "x", ignore_case=True).fill_null(False).to_numpy(zero_copy_only=False)
        digits, wrong = _masked(digits, hexadecimal), _either(wrong, _none_if_clear(hexadecimal))
    try:
        return digits.cast(pa.int64()), wrong
    except pa.ArrowInvalid:
        # 12.0 is what a column of integers with missing values becomes in many a program.
        trimmed = pc.replace_substring_regex(pc.utf8_trim_whitespace(digits), r"^(-?\d+)\.0+$", r"\1")
        values, more = _isolated(trimmed, lambda part: part.cast(pa.int64()), pa.int64())
        return values, _either(wrong, more)


def _epochs(array: pa.Array, form: str) -> Cast:
    if is_text(array.type):
        return _epochs_of_texts(as_bytes(array), form)
    if pa.types.is_floating(array.type):
        return _fractions(array.cast(pa.float64()), form)
    return _scaled(*integers(array), form)


def _epochs_of_texts(array: pa.Array, form: str) -> Cast:
    whole, wrong = _scaled(*integers(array), form)
    if wrong is None:
        return whole, None
    # Each text by itself: what one becomes must not depend on those around it.
    texts, _ = _isolated(array.filter(pa.array(wrong)), lambda part: part.cast(pa.string()), pa.string())
    fraction = pc.match_substring_regex(texts, r"^\s*[-+]?\d+\.\d+\s*$|^\s*[-+]?\d+(\.\d*)?[eE][-+]?\d+\s*$")
    texts = pc.if_else(fraction, pc.utf8_trim_whitespace(texts), pa.scalar(None, pa.string()))
    numbers, _ = _isolated(texts, lambda part: part.cast(pa.float64()), pa.float64())
    values, _ = _fractions(numbers, form)
    merged = pc.replace_with_mask(whole, pa.array(wrong), values)
    still = wrong.copy()
    still[wrong] = values.is_null().to_numpy(zero_copy_only=False)
    return merged, _none_if_clear(still)


def _fractions(numbers: pa.Array, form: str) -> Cast:
    factor = {"epoch_seconds": 1000.0, "epoch_milliseconds": 1.0, "epoch_microseconds": 1e-3}[form]
    scaled = numbers.to_numpy(zero_copy_only=False) * factor
    # 1577836800.001 is not a float64: round what is a hair below its millisecond.
    whole = np.floor(scaled + 1e-4)
    valid = numbers.is_valid().to_numpy(zero_copy_only=False)
    with np.errstate(invalid="ignore"):
        outside = ~(np.abs(whole) <= _EXACT) & valid
    result = pa.array(np.where(valid & ~outside, whole, 0).astype(np.int64), mask=~valid | outside)
    return result, _none_if_clear(outside)


def _scaled(values: pa.Array, wrong: np.ndarray | None, form: str) -> Cast:
    numbers = values.fill_null(0).to_numpy()
    if form == "epoch_microseconds":
        return pa.array(numbers // 1000, mask=values.is_null().to_numpy(zero_copy_only=False)), wrong
    factor = _MILLISECOND_UNITS[form]
    outside = np.abs(numbers.astype(np.float64)) > (2.0**63 - 2.0**12) / factor
    numbers = np.where(outside, 0, numbers) * factor
    mask = values.is_null().to_numpy(zero_copy_only=False) | outside
    return pa.array(numbers, mask=mask), _either(wrong, _none_if_clear(outside))


def _of_texts(array: pa.Array, read: Callable[[pa.Array], pa.Array]) -> Cast:
    if not is_text(array.type):
        array = array.cast(pa.string())  # 20200131 as an integer
    given, wrong = _isolated(without_empty(as_bytes(array)), lambda part: part.cast(pa.string()), pa.string())
    values, more = _isolated(given, read, pa.int64())
    unread = values.is_null().to_numpy(zero_copy_only=False) & given.is_valid().to_numpy(zero_copy_only=False)
    return values, _either(_either(wrong, more), _none_if_clear(unread))


def _iso(given: pa.Array, zone: str) -> pa.Array:
    """ISO 8601 texts as milliseconds; with or without an offset, a fraction of up to nine digits."""
    with_offset = pc.match_substring_regex(given, r"[Tt ]\d.*(Z|[+-]\d\d(:?\d\d)?)$").fill_null(False)
    nothing = pa.scalar(None, pa.string())
    parts = []
    for texts_of_kind, target in (
        (pc.if_else(with_offset, given, nothing), "UTC"),
        (pc.if_else(with_offset, nothing, given), None),
    ):
        try:
            read = texts_of_kind.cast(pa.timestamp("us", target))
        except pa.ArrowInvalid:
            read = texts_of_kind.cast(pa.timestamp("ns", target))
        parts.append(_milliseconds(_in_utc(read, zone)))
    return pc.coalesce(*parts)


def _by_pattern(given: pa.Array, pattern: str, zone: str) -> pa.Array:
    stamps = pc.strptime(given, pattern, "ms", error_is_null=True)
    return _milliseconds(_in_utc(_without_rolled(given, stamps, pattern), zone))


def _without_rolled(given: pa.Array, stamps: pa.Array, pattern: str) -> pa.Array:
    """Without days that their month does not have: 30 February is read as 1 March, or 2."""
    suspect = pc.less_equal(pc.day(stamps), 3)
    if "%z" in pattern:  # which has moved the stamp by up to a day
        suspect = pc.or_(pc.less_equal(pc.day(stamps), 4), pc.greater_equal(pc.day(stamps), 28))
    if not pc.any(suspect).as_py():
        return stamps
    places = pc.indices_nonzero(suspect.fill_null(False))
    texts = given.take(places).dictionary_encode()
    plain = pattern
    for short, long in _SHORT_DIRECTIVES.items():
        plain = plain.replace(short, long)
    rolled = pa.array([_has_no_such_day(text, plain) for text in texts.dictionary.to_pylist()], pa.bool_())
    marked = np.zeros(len(given), bool)
    marked[places.to_numpy()] = rolled.take(texts.indices).to_numpy(zero_copy_only=False)
    return _masked(stamps, marked)


def _has_no_such_day(text: str, pattern: str) -> bool:
    try:
        datetime.strptime(text, pattern)
    except ValueError as error:
        return "day is out of range for month" in str(error)
    return False


def _in_utc(stamps: pa.Array, zone: str) -> pa.Array:
    if stamps.type.tz is not None:
        return stamps
    if zone == "UTC":
        return stamps.cast(pa.timestamp(stamps.type.unit, "UTC"))
    return pc.assume_timezone(stamps, zone, ambiguous="earliest", nonexistent="earliest")


def _of_calendar(stamps: pa.Array) -> Cast:
    """Without what lies outside of the years 1 to 9999: an overflow on the way, and no time that anyone meant."""
    per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[stamps.type.unit]
    least = max(-62135596800 * per_second, -(2**63))
    most = min(253402300800 * per_second, 2**63) - 1
    numbers = stamps.cast(pa.int64()).fill_null(0).to_numpy()
    outside = (numbers < least) | (numbers > most)
    return _masked(stamps, outside), _none_if_clear(outside)


def _milliseconds(stamps: pa.Array) -> pa.Array:
    """A timestamp array as epoch milliseconds, rounded down."""
    numbers = stamps.cast(pa.int64()).fill_null(0).to_numpy()
    unit = stamps.type.unit
    numbers = numbers * 1000 if unit == "s" else numbers // {"ms": 1, "us": 1000, "ns": 1_000_000}[unit]
    return pa.array(numbers, mask=stamps.is_null().to_numpy(zero_copy_only=False))


def _isolated(array: pa.Array, cast: Callable[[pa.Array], pa.Array], kind: pa.DataType) -> Cast:
    """`cast(array)`; values it refuses become null and are marked. Halves what fails until single values are left."""
    try:
        return cast(array), None
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        if len(array) <= 1:  # there may be no cast at all from a type: then an empty array fails too
            return pa.nulls(len(array), kind), np.ones(len(array), bool)
    parts, masks = [], []
    for part in (array[: len(array) // 2], array[len(array) // 2 :]):
        values, wrong = _isolated(part, cast, kind)
        parts.append(values)
        masks.append(np.zeros(len(part), bool) if wrong is None else wrong)
    return pa.concat_arrays(parts), np.concatenate(masks)


def _masked(values: pa.Array, hidden: np.ndarray) -> pa.Array:
    return pc.if_else(pa.array(hidden), pa.scalar(None, values.type), values) if hidden.any() else values


def _none_if_clear(mask: np.ndarray) -> np.ndarray | None:
    return mask if mask.any() else None


def _either(one: np.ndarray | None, other: np.ndarray | None) -> np.ndarray | None:
    if one is None or other is None:
        return one if other is None else other
    return one | other
