"""Sampling of rows while they are read: which are kept, with which weight, and what that does to the log-odds.

A row with label y is kept with probability p_y and, when kept, counts w_y times in the loss. A model trained on what is
left learns the log-odds of the *sampled* rows, which are those of all rows plus s1 - s0, where s_y = log(p_y * w_y).
So each kept row carries `offset = s0 - s1`: `true log-odds = sampled log-odds + offset`. A loss on `logit - offset`
makes the model's own logit the log-odds of all rows, calibrated as if nothing had been sampled.

Whether a row is kept depends on (seed, name of its file, row number in the file) alone: not on epoch, worker, batch
size or order. The C++ reader gives the same bits; every sum and product below is in the order of the list of factors.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Union

import numpy as np
import pyarrow as pa

from data.where import Where, mask, parse, type_problems

WEIGHT = "sample_weight"
OFFSET = "sample_offset"
"""Names of the two float32 columns that sampling adds to the rows it keeps."""

_G = 0x9E3779B97F4A7C15
_ALL_BITS = 2**64 - 1


@dataclass(frozen=True)
class Constant:
    """The same value for every row."""

    value: float

    column = None

    @cached_property
    def table(self) -> np.ndarray:
        """float64 `[1]`."""
        return np.array([self.value], np.float64)

    @cached_property
    def log_table(self) -> np.ndarray:
        """Logarithms of `table`."""
        return _logs(self.table)

    def positions(self, columns: Mapping[str, pa.Array], rows: int) -> np.ndarray:
        """Each row's place in `table`: int64 `[rows]`."""
        return np.zeros(rows, np.int64)


@dataclass(frozen=True)
class Steps:
    """`values[number of bounds <= x]` of a number column's value x; `default` for null.

    Raises `ValueError` unless `bounds` (float64, at least one) ascend strictly and there is one value more than bounds.
    A NaN is above no bound.
    """

    column: str
    bounds: tuple[float, ...]
    values: tuple[float, ...]
    default: float = 1.0

    def __post_init__(self) -> None:
        bounds = self.bounds
        if not bounds or not all(map(math.isfinite, bounds)) or any(a >= b for a, b in zip(bounds, bounds[1:])):
            raise ValueError(f"bounds: expected numbers, each above the one before, found {list(bounds)}")
        if any(float(bound) != bound for bound in bounds):
            raise ValueError(f"bounds: expected numbers that a float64 holds exactly, found {list(bounds)}")
        if len(self.values) != len(bounds) + 1:
            raise ValueError(f"values: expected {len(bounds) + 1} for {len(bounds)} bounds, found {len(self.values)}")

    @cached_property
    def table(self) -> np.ndarray:
        """`values`, then `default`: float64 `[bounds + 2]`."""
        return np.array([*self.values, self.default], np.float64)

    @cached_property
    def log_table(self) -> np.ndarray:
        """Logarithms of `table`."""
        return _logs(self.table)

    def positions(self, columns: Mapping[str, pa.Array], rows: int) -> np.ndarray:
        """Each row's place in `table`: int64 `[rows]`."""
        values, null = _numbers(columns[self.column])
        # Of 64 bits and more of mantissa, so that an int64 beside a float64 is compared exactly.
        wide = values.astype(np.longdouble)
        found = np.searchsorted(np.array(self.bounds, np.longdouble), wide, side="right")
        found[np.isnan(wide)] = 0
        found[null] = len(self.values)
        return found.astype(np.int64)


@dataclass(frozen=True, eq=False)
class Lookup:
    """`values[i]` where an integer column's value is `keys[i]`, else, and for null, `default`.

    keys: int64 `[n]`, ascending strictly; values: float64 `[n]`. Raises `ValueError` when they are not.
    """

    column: str
    keys: np.ndarray
    values: np.ndarray
    default: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "keys", np.ascontiguousarray(self.keys, np.int64))
        object.__setattr__(self, "values", np.ascontiguousarray(self.values, np.float64))
        if self.keys.ndim != 1 or self.keys.shape != self.values.shape:
            raise ValueError(f"values: expected one for each of {self.keys.size} keys, found {self.values.size}")
        if (self.keys[1:] <= self.keys[:-1]).any():
            raise ValueError("keys: expected each above the one before, found others")

    @cached_property
    def table(self) -> np.ndarray:
        """`values`, then `default`: float64 `[n + 1]`."""
        return np.append(self.values, self.default)

    @cached_property
    def log_table(self) -> np.ndarray:
        """Logarithms of `table`."""
        return _logs(self.table)

    def positions(self, columns: Mapping[str, pa.Array], rows: int) -> np.ndarray:
        """Each row's place in `table`: int64 `[rows]`."""
        none = len(self.keys)
        if not none:
            return np.zeros(rows, np.int64)
        values, null = _numbers(columns[self.column])
        found = np.searchsorted(self.keys, values)
        missed = (self.keys[np.minimum(found, none - 1)] != values) | null
        found[missed] = none
        return found.astype(np.int64)


Rate = Union[Constant, Steps, Lookup]


@dataclass(frozen=True)
class Factor:
    """One factor of the keep probability or of the weight of the rows it applies to.

    Raises `ValueError` for a keep rate outside (0, 1] and a weight that is not a finite number above 0.
    """

    kind: Literal["keep", "weight"]
    rate: Rate
    label: Literal[0, 1] | None = None
    """Applies to rows with this label; None: with any."""
    when: Where | None = None
    """Applies to rows for which this is true; None: to all. May not use the label."""

    def __post_init__(self) -> None:
        if self.kind not in ("keep", "weight"):
            raise ValueError(f"kind: expected 'keep' or 'weight', found {self.kind!r}")
        if self.label not in (None, 0, 1):
            raise ValueError(f"label: expected 0, 1 or none, found {self.label!r}")
        table = self.rate.table
        most = 1.0 if self.kind == "keep" else math.inf
        wrong = table[~((table > 0) & (table <= most) & np.isfinite(table))]
        if len(wrong):
            expected = "above 0 and at most 1" if self.kind == "keep" else "above 0"
            raise ValueError(f"{self.kind}: expected a number {expected}, found {wrong[0]}")

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns that tell whether and how it applies, without the label."""
        names = [*(self.when.columns if self.when else ()), *([self.rate.column] if self.rate.column else [])]
        return tuple(dict.fromkeys(names))


@dataclass(frozen=True)
class Sampling:
    """Which rows are kept and how much they count.

    label: name of the column with 0 or 1. seed: 0 to 2^64 - 1. Raises `ValueError` when a factor uses the label column
    otherwise than by its `label`: the log-odds could not be corrected.
    """

    label: str
    seed: int
    factors: tuple[Factor, ...]

    def __post_init__(self) -> None:
        if not 0 <= self.seed <= _ALL_BITS:
            raise ValueError(f"seed: expected 0 to 2**64 - 1, found {self.seed}")
        for number, factor in enumerate(self.factors):
            if self.label in factor.columns:
                raise ValueError(f"factor {number}: expected columns other than the label, found {self.label}")

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of all columns that `sample` needs, in the order of their first use."""
        return tuple(dict.fromkeys([self.label, *(name for factor in self.factors for name in factor.columns)]))


@dataclass(frozen=True)
class Sampled:
    """What sampling made of some rows: keep bool `[rows]`; weight and offset float32 `[kept]`."""

    keep: np.ndarray
    weight: np.ndarray
    offset: np.ndarray


@dataclass(frozen=True)
class Effect:
    """What the factors say of some rows, before any is dropped.

    keep, weight: float64 `[rows]`, of the row's own label. offset: float64 `[rows]`.
    """

    keep: np.ndarray
    weight: np.ndarray
    offset: np.ndarray


def sample(sampling: Sampling, columns: Mapping[str, pa.Array], file_key: int, rows: np.ndarray) -> Sampled:
    """Samples rows of one file.

    Args:
        columns: raw values of `sampling.columns` at least, by name, `[rows]` each.
        file_key: of the rows' file, by `data.format.tail.Tail`.
        rows: int64 `[rows]`, their numbers in the file.

    A row whose label is neither 0 nor 1 (or null) is kept, with weight 1 and offset 0: whoever checks labels finds it.
    """
    found = effect(sampling, columns)
    keep = uniform(sampling.seed, file_key, rows) < found.keep
    return Sampled(keep, found.weight[keep].astype(np.float32), found.offset[keep].astype(np.float32))


def effect(sampling: Sampling, columns: Mapping[str, pa.Array]) -> Effect:
    """The factors' products for each row; `columns` as for `sample`."""
    labels = labels_of(columns[sampling.label])
    keep, weight = np.ones(len(labels)), np.ones(len(labels))
    log_sums = np.zeros((2, len(labels)))
    for factor in sampling.factors:
        applies, position = meets(factor, columns, len(labels))
        logs = np.where(applies, factor.rate.log_table[position], 0.0)
        for label in (0, 1):
            if factor.label in (None, label):
                log_sums[label] += logs
        own = applies & of_label(factor, labels)
        product = keep if factor.kind == "keep" else weight
        product *= np.where(own, factor.rate.table[position], 1.0)
    return Effect(keep, weight, np.where(labels >= 0, log_sums[0] - log_sums[1], 0.0))


def meets(factor: Factor, columns: Mapping[str, pa.Array], rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Which rows a factor applies to, their label aside, bool `[rows]`; and their places in the table of its rate."""
    applies = mask(factor.when, columns) if factor.when else np.ones(rows, bool)
    return applies, factor.rate.positions(columns, rows)


def of_label(factor: Factor, labels: np.ndarray) -> np.ndarray:
    """Which of `labels` (of `labels_of`) a factor applies to: bool `[rows]`."""
    return (labels == factor.label) if factor.label is not None else (labels >= 0)


def labels_of(column: pa.Array) -> np.ndarray:
    """int8 `[rows]`: 0, 1, or -1 for anything else."""
    values, null = _numbers(column)
    labels = np.full(len(values), -1, np.int8)
    labels[(values == 0) & ~null] = 0
    labels[(values == 1) & ~null] = 1
    return labels


def uniform(seed: int, file_key: int, rows: np.ndarray) -> np.ndarray:
    """The number in [0, 1) that decides about each row: float64 `[rows]`."""
    start = _mixed(np.array([(file_key + seed * _G) & _ALL_BITS], np.uint64))
    numbers = (np.asarray(rows).astype(np.uint64) + np.uint64(1)) * np.uint64(_G) + start
    return (_mixed(numbers) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def column_problems(sampling: Sampling, schema: pa.Schema, path: str) -> list[str]:
    """What keeps `sampling` from being done on a file of that schema, a line each."""
    expected = {sampling.label: "a number or boolean"}
    problems: list[str] = []
    for factor in sampling.factors:
        if factor.when is not None:
            problems += type_problems(factor.when, schema, path)
        if isinstance(factor.rate, Lookup):
            expected[factor.rate.column] = "an integer or boolean"
        elif isinstance(factor.rate, Steps):
            expected.setdefault(factor.rate.column, "a number or boolean")
    for name, wanted in expected.items():
        count = schema.names.count(name)
        if count != 1:
            found = "no such column" if not count else f"{count} columns of that name"
            problems.append(f"{path}: column {name}: expected {wanted}, found {found}")
            continue
        kind = schema.field(name).type
        right = pa.types.is_integer(kind) or pa.types.is_boolean(kind)
        if not right and not (wanted.startswith("a number") and pa.types.is_floating(kind)):
            problems.append(f"{path}: column {name}: expected {wanted}, found {kind}")
    return list(dict.fromkeys(problems))


def to_json(sampling: Sampling) -> dict[str, Any]:
    """`sampling` as plain JSON values, without loss; `from_json` reads it back."""
    return {
        "label": sampling.label,
        "seed": sampling.seed,
        "factors": [
            {
                "kind": factor.kind,
                "label": factor.label,
                "when": factor.when.text if factor.when else None,
                "rate": _rate_to_json(factor.rate),
            }
            for factor in sampling.factors
        ],
    }


def from_json(fields: Mapping[str, Any]) -> Sampling:
    """The inverse of `to_json`."""
    factors = tuple(
        Factor(one["kind"], _rate_from_json(one["rate"]), one["label"], parse(one["when"]) if one["when"] else None)
        for one in fields["factors"]
    )
    return Sampling(fields["label"], fields["seed"], factors)


def _rate_to_json(rate: Rate) -> dict[str, Any]:
    if isinstance(rate, Constant):
        return {"value": rate.value}
    if isinstance(rate, Steps):
        return {"column": rate.column, "bounds": rate.bounds, "values": rate.values, "default": rate.default}
    keys, values = (
        base64.b64encode(a.astype(t).tobytes()).decode() for a, t in ((rate.keys, "<i8"), (rate.values, "<f8"))
    )
    return {"column": rate.column, "keys": keys, "key_values": values, "default": rate.default}


def _rate_from_json(fields: Mapping[str, Any]) -> Rate:
    if "value" in fields:
        return Constant(fields["value"])
    if "bounds" in fields:
        return Steps(fields["column"], tuple(fields["bounds"]), tuple(fields["values"]), fields["default"])
    keys = np.frombuffer(base64.b64decode(fields["keys"]), "<i8")
    values = np.frombuffer(base64.b64decode(fields["key_values"]), "<f8")
    return Lookup(fields["column"], keys, values, fields["default"])


def _numbers(column: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """A column's values (int64, or a float kind as it is) and which are null: `[rows]` each."""
    null = column.is_null().to_numpy(zero_copy_only=False)
    if not pa.types.is_floating(column.type):
        column = column.cast(pa.int64())
    if column.null_count:
        column = column.fill_null(pa.scalar(0, column.type))
    return column.to_numpy(zero_copy_only=False), null


def _mixed(z: np.ndarray) -> np.ndarray:
    """The finaliser of SplitMix64, uint64 `[n]`."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def _logs(table: np.ndarray) -> np.ndarray:
    """Logarithms by Python's `math.log`, whose last bit NumPy's need not share."""
    distinct, place = np.unique(table, return_inverse=True)
    return np.array([math.log(value) if value > 0 else math.nan for value in distinct.tolist()], np.float64)[place]
