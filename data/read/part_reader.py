"""From a part of a stripe to its rows: decoded, filtered, canonical.

A row goes through three stages: `where` on the raw values; canonical values (`data.columns`); sampling on the raw
values. The columns that `where` needs are decoded first, and the others only when it is true of a row of the part.

With `on_bad: skip` a row with a wrong value is dropped in the second stage. A part one of whose columns that have to be
decoded cannot be, or does not fit its checksum, is lost as a whole.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.orc as orc

from data import where
from data.columns import Column, WrongValue, canonical, wrong_rows
from data.errors import DataError
from data.files import open_input
from data.format.checksums import load, verify_stripe
from data.format.tail import read_tail
from data.read.gather import take
from data.read.read_spec import OFFSET, WEIGHT, ReadSpec
from data.read.stripes import Part, Stripe
from data.sample import sampling

_OPEN_FILES = 16


@dataclass(frozen=True)
class PartRows:
    """What a part gives; positions are numbers of rows in the part, ascending."""

    part: Part
    rows: pa.RecordBatch
    """The kept rows, in order: a canonical column for each declared one, then those that sampling adds."""
    kept: np.ndarray | None
    """Position of each of `rows`, int64; None: all rows of the part are kept."""
    lost: np.ndarray | None
    """Positions of rows that cannot be read; None: there are none."""
    nulls: Mapping[int, np.ndarray]
    """By number of a declared column: the positions of the nulls that were filled. Columns without any are absent."""

    def piece(self, start: int, rows: int) -> pa.RecordBatch:
        """Those of the part's rows `[start, start + rows)` that are kept; not copied."""
        if rows == self.part.rows:
            return self.rows
        if self.kept is not None:
            start, end = np.searchsorted(self.kept, [start, start + rows])
            rows = end - start
        return self.rows.slice(start, rows)

    def counts(self, start: int, rows: int, columns: int) -> np.ndarray:
        """Of the part's rows `[start, start + rows)`: int64 `[1 + columns]`, rows lost, then nulls that were filled of
        each declared column (a null of a row that sampling leaves out counts, too)."""
        counts = np.zeros(1 + columns, np.int64)
        if self.lost is not None:
            counts[0] = _within(self.lost, start, rows)
        for column, positions in self.nulls.items():
            counts[1 + column] = _within(positions, start, rows)
        return counts


def _within(positions: np.ndarray, start: int, rows: int) -> int:
    first, end = np.searchsorted(positions, [start, start + rows])
    return int(end - first)


class PartReader:
    """Decodes parts for one thread; keeps the files it read last open."""

    def __init__(self, spec: ReadSpec):
        self._spec = spec
        self._where = tuple(spec.where.columns) if spec.where is not None else ()
        declared = [column.name for column in spec.columns]
        sampled = spec.sampling.columns if spec.sampling is not None else ()
        self._all = tuple(dict.fromkeys([*declared, *sampled]))
        self._schema = output_schema(spec)
        self._files = _OpenFiles(spec.verify_checksums)

    def read(self, parts: Sequence[Part]) -> list[PartRows]:
        """The rows of parts of one stripe, which is decoded once.

        Raises `DataError` for a stripe that cannot be decoded and for a wrong value; not with `on_bad: skip`.
        """
        stripe = parts[0].stripe
        try:
            raw = self._files.decode(stripe, self._where or self._all)
        except DataError:
            if self._spec.on_bad == "error":
                raise
            return [self._lost(part) for part in parts]
        masks = [self._mask(_cut(raw, part)) for part in parts]
        if self._where and any(mask is None or mask.any() for mask in masks):
            try:
                raw |= self._files.decode(stripe, [name for name in self._all if name not in raw])
            except DataError:
                if self._spec.on_bad == "error":
                    raise
                return [
                    self._nothing(part) if mask is not None and not mask.any() else self._lost(part)
                    for part, mask in zip(parts, masks)
                ]
        return [self._rows(raw, part, mask) for part, mask in zip(parts, masks)]

    def count(self, parts: Sequence[Part]) -> list[int]:
        """How many rows of each of `parts`, of one stripe, pass `where` and sampling, whatever stands in the other
        columns.

        With `on_bad: skip` a part that cannot be decoded counts in full.
        """
        spec, stripe = self._spec, parts[0].stripe
        try:
            raw = self._files.decode(stripe, self._where or spec.filter_columns)
            masks = [self._mask(_cut(raw, part)) for part in parts]
            if spec.sampling is not None and any(mask is None or mask.any() for mask in masks):
                raw |= self._files.decode(stripe, [name for name in spec.sampling.columns if name not in raw])
        except DataError:
            if spec.on_bad == "error":
                raise
            return [part.rows for part in parts]
        return [self._count(raw, part, mask) for part, mask in zip(parts, masks)]

    def _count(self, raw: Mapping[str, pa.Array], part: Part, mask: np.ndarray | None) -> int:
        if self._spec.sampling is None or (mask is not None and not mask.any()):
            return part.rows if mask is None else int(np.count_nonzero(mask))
        positions = None if mask is None else np.flatnonzero(mask)
        return int(np.count_nonzero(self._sampled(_taken(_cut(raw, part), positions), part, positions).keep))

    def _mask(self, raw: Mapping[str, pa.Array]) -> np.ndarray | None:
        """Which rows `where` keeps; None: all."""
        if self._spec.where is None:
            return None
        mask = where.mask(self._spec.where, raw)
        return None if mask.all() else mask

    def _rows(self, raw: Mapping[str, pa.Array], part: Part, mask: np.ndarray | None) -> PartRows:
        if mask is not None and not mask.any():
            return self._nothing(part)
        spec, path = self._spec, part.stripe.path
        positions = None if mask is None else np.flatnonzero(mask)
        raw = _taken(_cut({name: raw[name] for name in self._all}, part), positions)
        numbers = _numbers(part, positions)
        lost = None
        try:
            arrays = [canonical(raw[c.name], c, path, numbers) for c in spec.columns]
        except WrongValue:
            if spec.on_bad == "error":
                raise
            wrong = np.logical_or.reduce([wrong_rows(raw[c.name], c) for c in spec.columns])
            all_positions = np.arange(part.rows) if positions is None else positions
            lost, positions = all_positions[wrong], all_positions[~wrong]
            raw = _taken(raw, np.flatnonzero(~wrong))
            arrays = [canonical(raw[c.name], c, path, _numbers(part, positions)) for c in spec.columns]
        except DataError:  # another type than when the plan was made
            if spec.on_bad == "error":
                raise
            return self._lost(part)
        nulls = _nulls(raw, spec.columns, positions)
        if spec.sampling is None:
            return PartRows(part, pa.RecordBatch.from_arrays(arrays, schema=self._schema), positions, lost, nulls)
        sampled = self._sampled(raw, part, positions)
        if not sampled.keep.all():
            keep = np.flatnonzero(sampled.keep)
            positions = keep if positions is None else positions[keep]
            taken = pa.array(keep)
            arrays = [take(array, taken) for array in arrays]
        arrays += [pa.array(sampled.weight), pa.array(sampled.offset)]
        return PartRows(part, pa.RecordBatch.from_arrays(arrays, schema=self._schema), positions, lost, nulls)

    def _sampled(self, raw: Mapping[str, pa.Array], part: Part, positions: np.ndarray | None) -> sampling.Sampled:
        assert self._spec.sampling is not None
        numbers = part.row_numbers(positions)
        return sampling.sample(self._spec.sampling, raw, self._files.file_key(part.stripe.path), numbers)

    def _nothing(self, part: Part, lost: np.ndarray | None = None) -> PartRows:
        return PartRows(part, pa.RecordBatch.from_pylist([], self._schema), np.zeros(0, np.int64), lost, {})

    def _lost(self, part: Part) -> PartRows:
        return self._nothing(part, np.arange(part.rows))


def output_schema(spec: ReadSpec) -> pa.Schema:
    """The columns that reading `spec` gives, in order."""
    fields = [(column.name, column.arrow_type) for column in spec.columns]
    if spec.sampling is not None:
        fields += [(WEIGHT, pa.float32()), (OFFSET, pa.float32())]
    return pa.schema(fields)


def find_rows(spec: ReadSpec, part: Part) -> tuple[pa.RecordBatch, np.ndarray]:
    """The rows that `part` gives, and their row numbers in the file, int64 `[rows]`."""
    (found,) = PartReader(spec).read([part])
    return found.rows, part.row_numbers(found.kept)


class _OpenFiles:
    """The ORC files that were used last, with their checksums."""

    def __init__(self, verify: bool):
        self._verify = verify
        self._files: OrderedDict[str, _OpenFile] = OrderedDict()

    def decode(self, stripe: Stripe, columns: Sequence[str]) -> dict[str, pa.Array]:
        """The raw values of some columns of a stripe, by name. Raises `DataError`."""
        if not columns:
            return {}
        try:
            return self._file(stripe.path).decode(stripe, columns)
        except DataError:
            self._files.pop(stripe.path, None)
            raise
        except (OSError, pa.ArrowException) as error:
            self._files.pop(stripe.path, None)
            last_row = stripe.first_row + stripe.rows - 1
            raise DataError(
                f"{stripe.path}: stripe {stripe.index} (rows {stripe.first_row} to {last_row}, "
                f"counted from 0): expected a readable stripe, found: {error}"
            ) from error

    def file_key(self, path: str) -> int:
        """Of a file that has just been decoded."""
        return self._file(path).file_key

    def _file(self, path: str) -> _OpenFile:
        if path in self._files:
            self._files.move_to_end(path)
        else:
            self._files[path] = _OpenFile(path, self._verify)
            if len(self._files) > _OPEN_FILES:
                self._files.popitem(last=False)
        return self._files[path]


class _OpenFile:
    def __init__(self, path: str, verify: bool):
        self._file = open_input(path)
        self._orc = orc.ORCFile(self._file)
        tail = read_tail(self._file, path)
        self.file_key = tail.file_key
        self._stripe_rows = [stripe.rows for stripe in tail.stripes]
        self._names = frozenset(tail.types[0].field_names)
        self._checksums = load(self._file, tail) if verify else None

    def decode(self, stripe: Stripe, columns: Sequence[str]) -> dict[str, pa.Array]:
        if stripe.index >= len(self._stripe_rows) or self._stripe_rows[stripe.index] != stripe.rows:
            found = self._stripe_rows[stripe.index] if stripe.index < len(self._stripe_rows) else 0
            raise _changed(stripe, f"{stripe.rows} rows", str(found))
        absent = [name for name in columns if name not in self._names]
        if absent:
            raise _changed(stripe, f"a column {absent[0]}", "none")
        if self._checksums is not None:
            verify_stripe(self._file, self._checksums, stripe.index, columns)
        decoded = self._orc.read_stripe(stripe.index, columns=list(columns))
        if decoded.num_rows != stripe.rows:
            raise _changed(stripe, f"{stripe.rows} rows", str(decoded.num_rows))
        # By name: the decoder gives columns in the order of the file.
        return {name: decoded.column(name) for name in columns}


def _changed(stripe: Stripe, expected: str, found: str) -> DataError:
    return DataError(
        f"{stripe.path}: stripe {stripe.index}: expected {expected}, found {found}; "
        "the file changed after it was checked"
    )


def _cut(raw: Mapping[str, pa.Array], part: Part) -> Mapping[str, pa.Array]:
    """The part's rows of a stripe's."""
    if part.rows == part.stripe.rows:
        return raw
    cut = {name: array.slice(part.start, part.span) for name, array in raw.items()}
    return cut if part.step == 1 else _taken(cut, np.arange(0, part.span, part.step))


def _taken(raw: Mapping[str, pa.Array], positions: np.ndarray | None) -> Mapping[str, pa.Array]:
    if positions is None:
        return raw
    taken = pa.array(positions)
    return {name: take(array, taken) for name, array in raw.items()}


def _numbers(part: Part, positions: np.ndarray | None) -> int | np.ndarray:
    """Row numbers in the file of the rows at `positions`, for `canonical`."""
    if positions is None and part.step == 1:
        return part.stripe.first_row + part.start
    return part.row_numbers(positions)


def _nulls(
    raw: Mapping[str, pa.Array], columns: Sequence[Column], positions: np.ndarray | None
) -> dict[int, np.ndarray]:
    nulls = {}
    for number, column in enumerate(columns):
        array = raw[column.name]
        if array.null_count:
            found = np.flatnonzero(array.is_null().to_numpy(zero_copy_only=False))
            nulls[number] = found if positions is None else positions[found]
    return nulls
