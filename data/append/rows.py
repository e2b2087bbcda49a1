"""Rows as Python dicts (from JSON lines, or of a Python job): checked against a schema, as what pyorc writes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from data.errors import DataError

# Arrow type: (type in ORC's words, what a value must be). A list has one of these as its items.
_SCALARS: dict[pa.DataType, tuple[str, str]] = {
    pa.int8(): ("tinyint", "an integer of 8 bits"),
    pa.int16(): ("smallint", "an integer of 16 bits"),
    pa.int32(): ("int", "an integer of 32 bits"),
    pa.int64(): ("bigint", "an integer of 64 bits"),
    pa.float32(): ("float", "a finite float32 number"),
    pa.float64(): ("double", "a finite number"),
    pa.bool_(): ("boolean", "true or false"),
    pa.string(): ("string", "a text"),
}
_FLOAT32_MAX = float(np.finfo(np.float32).max)
_SHOWN_CHARACTERS = 60

TYPES = {
    "int64": pa.int64(),
    "float32": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "int64_list": pa.list_(pa.int64()),
}
"""Names of the types a column can be declared with."""


def orc_schema(schema: pa.Schema) -> str:
    """`schema` in ORC's words. Raises `DataError` for types and names that cannot be appended."""
    if not len(schema):
        raise DataError("schema: expected at least one column, found none")
    fields = []
    for field in schema:
        if schema.names.count(field.name) > 1:
            raise DataError(f"schema: expected names that differ, found {field.name} more than once")
        if not field.name.isidentifier():
            raise DataError(f"schema: expected names of letters, digits and underscores, found {field.name!r}")
        fields.append(f"{field.name}:{_orc_type(field.name, field.type)}")
    return f"struct<{','.join(fields)}>"


def _orc_type(name: str, kind: pa.DataType) -> str:
    if pa.types.is_list(kind) and kind.value_type in _SCALARS:
        return f"array<{_SCALARS[kind.value_type][0]}>"
    if kind not in _SCALARS:
        known = ", ".join(str(known) for known in _SCALARS)
        raise DataError(f"schema: column {name}: expected one of {known}, or a list of these; found {kind}")
    return _SCALARS[kind][0]


class RowChecker:
    """Turns rows as dicts into tuples in the order of the columns."""

    def __init__(self, schema: pa.Schema):
        self._columns = [(field.name, _expected(field.type), _test(field.type)) for field in schema]
        self._names = frozenset(schema.names)

    def row(self, row: object, where: str) -> tuple[Any, ...]:
        """`row` as a tuple; a field that is missing is null.

        Raises `DataError` that starts with `where` and names field, expected and found.
        """
        if not isinstance(row, Mapping):
            raise DataError(f"{where}: expected an object with the fields {self._known()}; found {_shown(row)}")
        values = []
        found = 0
        for name, expected, fits in self._columns:
            value = row.get(name)
            if value is not None and not fits(value):
                raise DataError(f"{where}: field {name}: expected {expected}, found {_shown(value)}")
            found += name in row
            values.append(value)
        if found != len(row):
            unknown = next(name for name in row if name not in self._names)
            raise DataError(f"{where}: field {unknown}: expected one of {self._known()}; found a field that is none")
        return tuple(values)

    def _known(self) -> str:
        return ", ".join(name for name, _, _ in self._columns)


def _expected(kind: pa.DataType) -> str:
    if pa.types.is_list(kind):
        return f"a list whose items are each {_SCALARS[kind.value_type][1]}"
    return _SCALARS[kind][1]


def _test(kind: pa.DataType) -> Callable[[Any], bool]:
    """Whether a value that is not None can be a value of `kind`."""
    if pa.types.is_list(kind):
        item = _test(kind.value_type)
        return lambda value: isinstance(value, (list, tuple)) and all(map(item, value))
    if pa.types.is_boolean(kind):
        return lambda value: isinstance(value, (bool, np.bool_))
    if pa.types.is_string(kind):
        return _is_text
    if pa.types.is_integer(kind):
        bound = 1 << (kind.bit_width - 1)
        return lambda value: (
            isinstance(value, (int, np.integer)) and not isinstance(value, bool) and bool(-bound <= value < bound)
        )
    most = _FLOAT32_MAX if kind == pa.float32() else float(np.finfo(np.float64).max)
    return lambda value: (
        isinstance(value, (int, float, np.number)) and not isinstance(value, bool) and bool(-most <= value <= most)
    )


def _is_text(value: Any) -> bool:
    if not isinstance(value, str):
        return False
    try:
        value.encode()
    except UnicodeEncodeError:  # half of a surrogate pair, which JSON can escape
        return False
    return True


def _shown(value: object) -> str:
    if value is None:
        return "null"
    text = {True: "true", False: "false"}.get(value, "") if isinstance(value, bool) else repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"
