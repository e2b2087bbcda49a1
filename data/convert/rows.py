"""One batch of source rows as training rows: a pure function, the same on one machine and on Spark."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from data.convert import casts
from data.convert.hashed_ids import HashedTexts, hashed_texts
from data.convert.lists import Items, items_of
from data.convert.schema import HASHED, LISTS, Column, HashedIdListColumn, IdListColumn, SamplesSchema, arrow_schema
from data.errors import DataError

_FOUND_CHARACTERS = 60
_EXPECTED = {
    "id": "an integer of 64 bits",
    "hashed_id": "a text or an integer",
    "id_list": "integers of 64 bits",
    "hashed_id_list": "texts or integers",
    "dense": "a finite float32 number",
    "label": "0 or 1",
}


@dataclass(frozen=True)
class BadRow:
    """A row that cannot be converted, and why."""

    row: int  # in its source, from 0
    column: str  # of the source
    expected: str
    found: str

    @property
    def reason(self) -> str:
        """What rows are counted by."""
        return f"{self.column}: expected {self.expected}" if self.column else f"expected {self.expected}"


@dataclass(frozen=True)
class Converted:
    """Training rows of one batch."""

    batch: pa.RecordBatch
    kept: np.ndarray  # int64 [rows]: their places in the source batch
    bad: list[BadRow]
    nulls: dict[str, int]  # missing values by column, before they were filled
    hashes: dict[str, HashedTexts] = field(default_factory=dict)  # by hashed column


@dataclass(frozen=True)
class _Values:
    """One converted column."""

    array: pa.Array
    wrong: np.ndarray | None  # bool [rows]
    nulls: int
    expected: str
    hashes: HashedTexts | None = None


def convert_batch(raw: pa.RecordBatch, schema: SamplesSchema, rows: np.ndarray, where: str) -> Converted:
    """The rows of `raw`, whose numbers in the source are `rows`, int64 `[rows]`.

    Rows with a value that does not fit are left out and told in `bad`, each with its first wrong column. Raises
    DataError when a column's type can never fit; `where` names the source in it.
    """
    columns = [_convert(raw.column(column.source_name), column, schema.hash_seed, where) for column in schema.columns]
    wrong = [values.wrong for values in columns if values.wrong is not None]
    kept = np.arange(raw.num_rows)
    bad: list[BadRow] = []
    if wrong:
        mask = np.logical_or.reduce(wrong)
        for place in np.flatnonzero(mask):
            index = next(i for i, values in enumerate(columns) if values.wrong is not None and values.wrong[place])
            source = schema.columns[index].source_name
            found = _found(raw.column(source)[int(place)])
            bad.append(BadRow(int(rows[place]), source, columns[index].expected, found))
        kept = np.flatnonzero(~mask)
        # Once more without the bad rows, so that no count and no hash is theirs.
        clean = raw.take(pa.array(kept))
        columns = [_convert(clean.column(c.source_name), c, schema.hash_seed, where) for c in schema.columns]
    batch = pa.RecordBatch.from_arrays([values.array for values in columns], schema=arrow_schema(schema))
    named = list(zip((column.name for column in schema.columns), columns))
    return Converted(
        batch,
        kept,
        bad,
        {name: values.nulls for name, values in named},
        {name: values.hashes for name, values in named if values.hashes is not None},
    )


def type_problems(found: pa.Schema, schema: SamplesSchema, where: str) -> list[str]:
    """A line for each column whose source is absent or of a type that never fits."""
    problems = []
    for column in schema.columns:
        index = found.get_all_field_indices(column.source_name)
        if len(index) != 1:
            names = ", ".join(found.names[:20]) + (", …" if len(found.names) > 20 else "")
            told = "no such column" if not index else f"{len(index)} columns of that name"
            problems.append(
                f"{where}: column {column.source_name}: expected it among the columns {names}, found {told}"
            )
        elif not _accepts(column, found.field(index[0]).type):
            problems.append(_type_problem(column, found.field(index[0]).type, where))
    return problems


def _convert(raw: pa.Array, column: Column, seed: int, where: str) -> _Values:
    if isinstance(raw, pa.ChunkedArray):
        raw = raw.combine_chunks()
    if pa.types.is_dictionary(raw.type):
        raw = raw.dictionary_decode()
    if not _accepts(column, raw.type):
        raise DataError(_type_problem(column, raw.type, where))
    if pa.types.is_null(raw.type):
        raw = raw.cast(pa.list_(pa.int64()) if column.kind in LISTS else pa.int64())
    if isinstance(column, (IdListColumn, HashedIdListColumn)):
        return _convert_list(raw, column, seed)
    wrong: np.ndarray | None = None
    if pa.types.is_list(raw.type) or pa.types.is_large_list(raw.type):
        raw, wrong = _single(raw)
    return _convert_scalar(raw, wrong, column, seed)


def _convert_scalar(raw: pa.Array, wrong: np.ndarray | None, column: Column, seed: int) -> _Values:
    hashes: HashedTexts | None = None
    expected = _EXPECTED.get(column.kind, "")
    more: np.ndarray | None
    if column.kind == "id":
        values, more = casts.integers(raw)
    elif column.kind == "dense":
        values, more = casts.floats(raw, column.nan == "missing")
    elif column.kind == "label":
        values, more = casts.labels(raw)
    elif column.kind == "time":
        values, more = casts.times(raw, column.format, column.pattern, column.zone)
        how = f"pattern {column.pattern!r}" if column.pattern else column.format
        expected = f"a time ({how})"
    else:
        texts, more = casts.texts(raw)
        valid = texts.is_valid().to_numpy(zero_copy_only=False)
        hashes = hashed_texts(texts.drop_null(), seed)
        ids = np.zeros(len(texts), np.int64)
        ids[valid] = hashes.ids
        values = pa.array(ids, mask=~valid)
    wrong = _either(wrong, more)
    null = values.is_null().to_numpy(zero_copy_only=False)
    if wrong is not None:
        null = null & ~wrong
    nulls = int(np.count_nonzero(null))
    if nulls and column.missing == "error":
        expected = f"{expected}, not a missing value"
        wrong = _either(wrong, null)
    fill = getattr(column, "fill", None)
    if nulls and fill is not None:
        values = values.fill_null(pa.scalar(fill, values.type))
    return _Values(values, wrong, nulls, expected, hashes)


def _convert_list(raw: pa.Array, column: IdListColumn | HashedIdListColumn, seed: int) -> _Values:
    items = items_of(raw, column.separator)
    expected = _EXPECTED[column.kind]
    wrong: np.ndarray | None = None
    if casts.is_text(items.values.type):
        empty = pc.binary_length(items.values).fill_null(1).to_numpy() == 0
        if empty.any():
            if column.empty_items == "drop":
                items = items.keep(~empty)
            else:
                wrong = _rows_with(items, empty)
                expected += ", no empty item"
    absent = items.values.is_null().to_numpy(zero_copy_only=False)
    if absent.any():
        wrong = _either(wrong, _rows_with(items, absent))
        expected += ", no null"
    hashes: HashedTexts | None = None
    if column.kind == "id_list":
        values, misfits = casts.integers(items.values)
        if misfits is not None:
            wrong = _either(wrong, _rows_with(items, misfits))
        numbers = values.fill_null(0).to_numpy()
    else:
        texts, _ = casts.texts(items.values)
        hashes = hashed_texts(texts.fill_null(b"") if texts.null_count else texts, seed)
        numbers = hashes.ids
    nulls = int(np.count_nonzero(items.null))
    if nulls and column.missing == "error":
        wrong = _either(wrong, items.null)
        expected += ", not a missing list"
    elif nulls and column.missing == "empty":
        items = Items(items.values, items.splits, np.zeros_like(items.null))
    return _Values(items.lists(numbers), wrong, nulls, expected, hashes)


def _rows_with(items: Items, marked: np.ndarray) -> np.ndarray:
    result = np.zeros(len(items.null), bool)
    result[items.rows_of(np.flatnonzero(marked))] = True
    return result


def _single(raw: pa.Array) -> tuple[pa.Array, np.ndarray | None]:
    """Lists of at most one value as that value; longer ones are wrong."""
    lengths = pc.list_value_length(raw).fill_null(0).to_numpy()
    starts = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])[:-1]
    places = pa.array(starts, mask=lengths == 0)
    long = lengths > 1
    return raw.flatten().take(places), (long if long.any() else None)


def _accepts(column: Column, kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_null(kind):
        return True
    nested = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    if nested:
        kind = kind.value_type
    elif column.kind in LISTS:
        return casts.is_text(kind)
    if casts.is_text(kind) or pa.types.is_integer(kind):
        return True
    if column.kind in HASHED:
        return False
    if column.kind == "time":
        return pa.types.is_floating(kind) or pa.types.is_timestamp(kind) or pa.types.is_date(kind)
    return pa.types.is_floating(kind) or pa.types.is_boolean(kind) or pa.types.is_decimal(kind)


def _type_problem(column: Column, found: pa.DataType, where: str) -> str:
    expected = {
        "id": "integers or texts of digits",
        "hashed_id": "texts or integers",
        "id_list": "texts or lists of integers or texts",
        "hashed_id_list": "texts or lists of texts or integers",
        "dense": "numbers or texts of numbers",
        "label": "numbers, booleans or texts of 0 and 1",
        "time": "times, numbers or texts of times",
    }[column.kind]
    return f"{where}: column {column.source_name}: expected {expected} for kind {column.kind}, found {found}"


def _found(value: pa.Scalar) -> str:
    try:
        plain = value.as_py()
    except UnicodeDecodeError:
        is_list = isinstance(value, pa.ListScalar)
        plain = value.values.cast(pa.binary()).to_pylist() if is_list else value.as_buffer().to_pybytes()
    if plain is None:
        return "a missing value"
    if isinstance(plain, list) and len(plain) == 1:
        plain = plain[0]
    if isinstance(plain, bytes):
        plain = plain.decode("utf-8", "backslashreplace")
    text = repr(plain)
    return text if len(text) <= _FOUND_CHARACTERS else text[: _FOUND_CHARACTERS - 1] + "…"


def _either(one: np.ndarray | None, other: np.ndarray | None) -> np.ndarray | None:
    if one is None or other is None:
        return one if other is None else other
    return one | other
