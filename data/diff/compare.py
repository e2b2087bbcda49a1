"""Two sets of sample files compared row by row.

Rows are brought together by a key. Several rows of one key are compared as a multiset: first those that are equal in
all columns, then the others in the order of the sets. Without a key, all columns are the key, and the sets are equal
when they hold the same rows, in whatever order.

Values are compared as what they are: 1 equals 1 in an integer column of any width, 0.5 equals 0.5 in float and double,
NaN equals NaN, null equals null only. Texts and lists, and keys of several columns, are compared by 64-bit hashes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa

from data.diff.chunks import Chunk, merged, partitioned
from data.diff.pairs import pairs
from data.errors import DataError
from data.inspect.sort_order import SortCheck, sort_keys, sortable
from data.read.footers import Footer, read_each
from data.scan.stripe_batches import Progress, stripe_batches
from data.scan.value_codes import codes, combined, value_class

_SHOWN_COLUMNS = 12


@dataclass(frozen=True)
class Place:
    """A row of a file."""

    path: str
    row: int
    """From 0."""


@dataclass(frozen=True)
class Change:
    """A value that differs."""

    key: dict[str, Any]
    a: Any
    b: Any
    place_a: Place
    place_b: Place


@dataclass(frozen=True)
class Lone:
    """A row that the other set lacks."""

    values: dict[str, Any]
    """Of the key; without a key, of all columns."""
    place: Place


@dataclass(frozen=True)
class Difference:
    """What distinguishes two sets."""

    rows_a: int
    rows_b: int
    key: tuple[str, ...]
    """Empty: all columns."""
    is_merged: bool
    """Whether both sets are sorted by the key, so that no temporary file was needed."""
    schema: tuple[str, ...]
    """A line for each column that only one set has, or that has another type of values."""
    notes: tuple[str, ...]
    """A line for each column whose type has another width; that is no difference."""
    same: int
    """Rows that are equal in both, in the columns that both have."""
    changed: int
    only_a: int
    only_b: int
    columns: dict[str, int]
    """By column that is not in the key and was compared: changed rows in which it differs."""
    changes: dict[str, tuple[Change, ...]]
    """By column: the first of them."""
    lone_a: tuple[Lone, ...]
    """The first rows that only A has."""
    lone_b: tuple[Lone, ...]

    @property
    def equal(self) -> bool:
        """Whether nothing differs."""
        return not (self.schema or self.changed or self.only_a or self.only_b)


def diff(
    paths_a: Sequence[str],
    paths_b: Sequence[str],
    key: Sequence[str] = (),
    examples: int = 3,
    progress: Progress | None = None,
) -> Difference:
    """Compares the sets. Memory: a few decoded stripes and parts of `data.diff.chunks.PART_BYTES`.

    Raises `DataError` for files that cannot be read, files of one set that have different columns, and a key that is
    not in both sets.
    """
    a, b = _Set(paths_a), _Set(paths_b)
    schema, notes = _schema_differences(a.schema, b.schema)
    common = [
        name
        for name in a.schema.names
        if name in b.schema.names and _same_class(a, b, name) and not _has_union(a.schema.field(name).type)
    ]
    _check_key(key, a, b, common)
    total = a.rows + b.rows
    is_merged = False
    if key and all(sortable(a.schema.field(name).type) for name in key):
        is_merged = all(_sorted(side, key) for side in (a, b))
    streams = a.chunks(common, progress, 0, total), b.chunks(common, progress, a.rows, total)
    names = list(key) or common
    findings = _Findings(a, b, names, [name for name in common if name not in names], examples)
    if common:
        chunks = merged(*streams, names) if is_merged else partitioned(*streams, names, max(a.rows, b.rows))
        for one, other in chunks:
            findings.compare(one, other)
            del one, other  # or they would live on while the next are read
    return Difference(
        rows_a=a.rows,
        rows_b=b.rows,
        key=tuple(key),
        is_merged=is_merged,
        schema=tuple(schema),
        notes=tuple(notes),
        same=findings.same,
        changed=findings.changed,
        only_a=findings.only[0],
        only_b=findings.only[1],
        columns=dict(findings.columns),
        changes={name: tuple(change for _, change in found) for name, found in findings.changes.items() if found},
        lone_a=tuple(lone for _, lone in findings.lone[0]),
        lone_b=tuple(lone for _, lone in findings.lone[1]),
    )


class _Set:
    """The files of one side."""

    def __init__(self, paths: Sequence[str]):
        footers = read_each(paths)
        problems = [str(footer) for footer in footers if isinstance(footer, DataError)]
        good = [footer for footer in footers if isinstance(footer, Footer)]
        if good:
            problems += [line for footer in good for line in _unlike(footer, good[0])]
        if problems:
            raise DataError("\n".join(problems))
        self.paths = list(paths)
        self.schema = good[0].schema
        file_rows = [sum(stripe.rows for stripe in footer.stripes) for footer in good]
        self.rows = sum(file_rows)
        self._first_rows = list(accumulate(file_rows, initial=0))

    def place(self, number: int) -> Place:
        """Where row `number` of the set lies."""
        file = bisect_right(self._first_rows, number) - 1
        return Place(self.paths[file], number - self._first_rows[file])

    def chunks(self, columns: Sequence[str], progress: Progress | None, before: int, total: int) -> Iterator[Chunk]:
        """All rows, in order, in types of the same width for both sets; first of all a chunk without rows."""
        schema = pa.schema([(name, _wide(self.schema.field(name).type)) for name in columns])
        yield Chunk(schema.empty_table(), np.zeros(0, np.int64))

        def told(done: int, _: int) -> None:
            if progress:
                progress(before + done, total)

        first = 0
        for _, batch in stripe_batches(self.paths, columns, told):
            arrays = [batch.column(name).cast(schema.field(name).type) for name in columns]
            yield Chunk(pa.Table.from_arrays(arrays, schema=schema), np.arange(first, first + batch.num_rows))
            first += batch.num_rows


class _Findings:
    """What was found so far."""

    def __init__(self, a: _Set, b: _Set, key: Sequence[str], others: Sequence[str], examples: int):
        self._a, self._b = a, b
        self._key = key
        self._others = others
        self._examples = examples
        self.same = self.changed = 0
        self.only = [0, 0]
        self.columns = dict.fromkeys(others, 0)
        self.changes: dict[str, list[tuple[int, Change]]] = {name: [] for name in others}
        self.lone: tuple[list[tuple[int, Lone]], list[tuple[int, Lone]]] = ([], [])

    def compare(self, a: Chunk, b: Chunk) -> None:
        """Takes in two chunks that hold all rows of their keys."""
        columns_a, columns_b = (
            {name: _Codes(chunk.rows[name]) for name in chunk.rows.column_names} for chunk in (a, b)
        )
        keys_a, keys_b = (
            self._combined(columns, self._key, chunk) for columns, chunk in ((columns_a, a), (columns_b, b))
        )
        values_a = self._combined(columns_a, self._others, a)
        values_b = self._combined(columns_b, self._others, b)
        equal = pairs((keys_a, values_a), (keys_b, values_b))
        self.same += len(equal.a)
        found = pairs((keys_a[equal.left_a],), (keys_b[equal.left_b],))
        in_a, in_b = equal.left_a[found.a], equal.left_b[found.b]
        self.changed += len(in_a)
        for name in self._others:
            differs = np.flatnonzero(columns_a[name].differ(in_a, columns_b[name], in_b))
            self.columns[name] += len(differs)
            for place in differs[np.argsort(a.numbers[in_a[differs]], kind="stable")][: self._examples].tolist():
                self._add_change(name, a, int(in_a[place]), b, int(in_b[place]))
        for side, chunk, left in ((0, a, equal.left_a[found.left_a]), (1, b, equal.left_b[found.left_b])):
            self.only[side] += len(left)
            for row in left[np.argsort(chunk.numbers[left], kind="stable")][: self._examples].tolist():
                self._add_lone(side, chunk, row)

    def _combined(self, columns: dict[str, _Codes], names: Sequence[str], chunk: Chunk) -> np.ndarray:
        if not names:
            return np.zeros(len(chunk.numbers), np.uint64)
        return combined([part for name in names for part in (columns[name].codes, columns[name].valid)])

    def _add_change(self, name: str, a: Chunk, row_a: int, b: Chunk, row_b: int) -> None:
        number = int(a.numbers[row_a])
        values = {column: a.rows[column][row_a].as_py() for column in self._key}
        change = Change(
            key=values,
            a=a.rows[name][row_a].as_py(),
            b=b.rows[name][row_b].as_py(),
            place_a=self._a.place(number),
            place_b=self._b.place(int(b.numbers[row_b])),
        )
        self.changes[name] = sorted([*self.changes[name], (number, change)], key=lambda c: c[0])[: self._examples]

    def _add_lone(self, side: int, chunk: Chunk, row: int) -> None:
        number = int(chunk.numbers[row])
        values = {column: chunk.rows[column][row].as_py() for column in self._key}
        lone = Lone(values, (self._a, self._b)[side].place(number))
        self.lone[side][:] = sorted([*self.lone[side], (number, lone)], key=lambda found: found[0])[: self._examples]


class _Codes:
    """A column as numbers that can be compared."""

    def __init__(self, column: pa.ChunkedArray):
        self.codes = codes(column)
        self.valid = column.is_valid().to_numpy().astype(np.uint64)

    def differ(self, rows: np.ndarray, other: _Codes, other_rows: np.ndarray) -> np.ndarray:
        """bool: whether row `rows[i]` of this column and `other_rows[i]` of the other differ."""
        result: np.ndarray = self.codes[rows] != other.codes[other_rows]
        return result | (self.valid[rows] != other.valid[other_rows])


def _wide(kind: pa.DataType) -> pa.DataType:
    """The widest type of the same class, where equal values of the class may have several types."""
    if pa.types.is_list(kind):
        return pa.list_(_wide(kind.value_type))
    return {"integer": pa.int64(), "float": pa.float64()}.get(value_class(kind), kind)


def _same_class(a: _Set, b: _Set, name: str) -> bool:
    return value_class(a.schema.field(name).type) == value_class(b.schema.field(name).type)


def _has_union(kind: pa.DataType) -> bool:
    return pa.types.is_union(kind) or any(_has_union(kind.field(k).type) for k in range(kind.num_fields))


def _sorted(side: _Set, key: Sequence[str]) -> bool:
    """Whether all rows are sorted by `key`; reads its columns only."""
    check = SortCheck(key)
    for _, batch in stripe_batches(side.paths, key):
        check.add({name: sort_keys(batch.column(name)) for name in key})
        if check.first_violation is not None:
            return False
    return True


def _schema_differences(a: pa.Schema, b: pa.Schema) -> tuple[list[str], list[str]]:
    differences, notes = [], []
    for name in dict.fromkeys([*a.names, *b.names]):
        if name not in b.names:
            differences.append(f"column {name}: {a.field(name).type} in A, none in B")
        elif name not in a.names:
            differences.append(f"column {name}: none in A, {b.field(name).type} in B")
        else:
            one, other = a.field(name).type, b.field(name).type
            if value_class(one) != value_class(other):
                differences.append(f"column {name}: {one} in A, {other} in B; not compared")
            elif _has_union(one):
                differences.append(f"column {name}: {one}, of which equal values cannot be told; not compared")
            elif one != other:
                notes.append(f"column {name}: {one} in A, {other} in B")
    return differences, notes


def _unlike(footer: Footer, first: Footer) -> list[str]:
    """What distinguishes the columns of two files of one set."""
    lines = []
    for name in dict.fromkeys([*first.schema.names, *footer.schema.names]):
        for one in (first, footer):
            if one.schema.names.count(name) > 1:
                lines.append(f"{one.path}: column {name}: expected one column of that name, found several")
                return lines
        expected = first.schema.field(name).type if name in first.schema.names else None
        found = footer.schema.field(name).type if name in footer.schema.names else None
        if (expected and value_class(expected)) != (found and value_class(found)):
            wanted = f"expected {expected or 'none'} as in {first.path}"
            lines.append(f"{footer.path}: column {name}: {wanted}, found {found or 'none'}")
    return lines


def _check_key(key: Sequence[str], a: _Set, b: _Set, common: Sequence[str]) -> None:
    for name in key:
        if name in common:
            continue
        missing = [side for side, files in (("A", a), ("B", b)) if name not in files.schema.names]
        if missing:
            has = ", ".join(common[:_SHOWN_COLUMNS]) + (", …" if len(common) > _SHOWN_COLUMNS else "")
            has = has or "no column"
            raise DataError(
                f"--key: column {name}: expected in both sets, found none in {' and '.join(missing)}; both have: {has}"
            )
        types = f"{a.schema.field(name).type} in A, {b.schema.field(name).type} in B"
        raise DataError(f"--key: column {name}: expected the same type of values in both sets, found {types}")
    if len(set(key)) != len(key):
        raise DataError(f"--key: expected each column once, found {', '.join(key)}")
