"""One batch of source rows as training rows: a pure function, the same on one machine and on Spark."""

from __future__ import annotations

from collections.abc import Sequence
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


Problem = tuple[np.ndarray, str]  # wrong values, bool [rows], and what was expected instead


@dataclass(frozen=True)
class _Values:
    """One converted column."""

    array: pa.Array
    problems: list[Problem]
    nulls: int
    hashes: HashedTexts | None = None

    def expected(self, place: int) -> str | None:
        """What a wrong value should have been; None for one that fits. Depends on that value alone."""
        return next((expected for wrong, expected in self.problems if wrong[place]), None)


def convert_batch(raw: pa.RecordBatch, schema: SamplesSchema, rows: np.ndarray, where: str) -> Converted:
    """The rows of `raw`, whose numbers in the source are `rows`, int64 `[rows]`.

    Rows with a value that does not fit are left out and told in `bad`, each with its first wrong column. Raises
    DataError when a column's type can never fit; `where` names the source in it.
    """
    columns = [_convert(raw.column(column.source_name), column, schema.hash_seed, where) for column in schema.columns]
    wrong = [mask for values in columns for mask, _ in values.problems]
    kept = np.arange(raw.num_rows)
    bad: list[BadRow] = []
    if wrong:
        mask = np.logical_or.reduce(wrong)
        for place in np.flatnonzero(mask):
            told = ((column, values.expected(place)) for column, values in zip(schema.columns, columns))
            source, expected = next((column.source_name, words) for column, words in told if words is not None)
            found = _found(raw.column(source)[int(place)])
            bad.append(BadRow(int(rows[place]), source, expected, found))
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


def type_problems(found: pa.Schema, columns: Sequence[Column], where: str) -> list[str]:
    """A line for each column whose source is absent or of a type that never fits."""
    problems = []
    for column in columns:
        index = found.get_all_field_indices(column.source_name)
        if len(index) != 1:
            names = shown_names(found.names)
            told = "no such column" if not index else f"{len(index)} columns of that name"
            problems.append(
                f"{where}: column {column.source_name}: expected it among the columns {names}, found {told}"
            )
        elif not _accepts(column, found.field(index[0]).type):
            problems.append(_type_problem(column, found.field(index[0]).type, where))
    return problems


def shown_names(names: Sequence[str]) -> str:
    """The first names of columns, on one line."""
    texts = [name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace") for name in names[:20]]
    short = [name if len(name) <= 40 else f"{name[:39]}…" for name in texts]
    plain = [name if name.isprintable() and name == name.strip() != "" else repr(name) for name in short]
    return ", ".join(plain) + (", …" if len(names) > 20 else "")


def _convert(raw: pa.Array, column: Column, seed: int, where: str) -> _Values:
    if isinstance(raw, pa.ChunkedArray):
        raw = raw.combine_chunks()
    plain = _plain(raw.type)
    if plain != raw.type:
        raw = raw.cast(plain)
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
    problems = [(mask, expected) for mask in (wrong, more) if mask is not None]
    null = values.is_null().to_numpy(zero_copy_only=False)
    for mask, _ in problems:
        null = null & ~mask
    nulls = int(np.count_nonzero(null))
    if nulls and column.missing == "error":
        problems.append((null, f"{expected}, not a missing value"))
    fill = getattr(column, "fill", None)
    if nulls and fill is not None:
        values = values.fill_null(pa.scalar(fill, values.type))
    return _Values(values, problems, nulls, hashes)


def _convert_list(raw: pa.Array, column: IdListColumn | HashedIdListColumn, seed: int) -> _Values:
    items = items_of(raw, column.separator)
    expected = _EXPECTED[column.kind]
    problems: list[Problem] = []
    if casts.is_text(items.values.type):
        empty = pc.binary_length(items.values).fill_null(1).to_numpy() == 0
        if empty.any():
            if column.empty_items == "drop":
                items = items.keep(~empty)
            else:
                problems.append((_rows_with(items, empty), f"{expected}, no empty item"))
    absent = items.values.is_null().to_numpy(zero_copy_only=False)
    if absent.any():
        problems.append((_rows_with(items, absent), f"{expected}, no null"))
    hashes: HashedTexts | None = None
    if column.kind == "id_list":
        values, misfits = casts.integers(items.values)
        if misfits is not None:
            problems.append((_rows_with(items, misfits), expected))
        numbers = values.fill_null(0).to_numpy()
    else:
        texts, _ = casts.texts(items.values)
        hashes = hashed_texts(texts.fill_null(b"") if texts.null_count else texts, seed)
        numbers = hashes.ids
    nulls = int(np.count_nonzero(items.null))
    if nulls and column.missing == "error":
        problems.append((items.null, f"{expected}, not a missing list"))
    elif nulls and column.missing == "empty":
        items = Items(items.values, items.splits, np.zeros_like(items.null))
    return _Values(items.lists(numbers), problems, nulls, hashes)


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


def _plain(kind: pa.DataType) -> pa.DataType:
    """The type without ways of keeping it that change no value: dictionaries, views, fixed sizes."""
    if pa.types.is_dictionary(kind):
        return _plain(kind.value_type)
    if pa.types.is_string_view(kind):
        return pa.large_string()
    if pa.types.is_binary_view(kind) or pa.types.is_fixed_size_binary(kind):
        return pa.large_binary()
    if pa.types.is_fixed_size_list(kind) or pa.types.is_list(kind):
        return pa.list_(_plain(kind.value_type))
    if pa.types.is_large_list(kind):
        return pa.large_list(_plain(kind.value_type))
    return kind


def _accepts(column: Column, kind: pa.DataType) -> bool:
    kind = _plain(kind)
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
    if not value.is_valid:
        return "a missing value"
    if isinstance(value, pa.DictionaryScalar):
        value = value.value
    try:
        plain = value.as_py()
    except UnicodeDecodeError:
        is_list = isinstance(value, (pa.ListScalar, pa.LargeListScalar, pa.FixedSizeListScalar))
        plain = value.values.cast(pa.binary()).to_pylist() if is_list else value.as_buffer().to_pybytes()
    except (OverflowError, ValueError):  # a time that Python has no object for
        plain = value.cast(pa.int64()).as_py() if pa.types.is_timestamp(value.type) else None
        return f"{value.type} {plain}" if plain is not None else f"a {value.type} that no calendar has"
    if isinstance(plain, list) and len(plain) == 1 and plain[0] is not None:
        plain = plain[0]
    if isinstance(plain, bytes):
        plain = plain.decode("utf-8", "backslashreplace")
    text = repr(plain)
    return text if len(text) <= _FOUND_CHARACTERS else text[: _FOUND_CHARACTERS - 1] + "…"
