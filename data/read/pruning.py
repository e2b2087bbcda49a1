"""Which rows of a file may satisfy a condition, by what the file says of its stripes and row groups.

Statistics and bloom filters tell what certainly is not there. What they leave out is kept: a condition must be applied
to the rows that remain.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from typing import NamedTuple

import pyarrow as pa

from data.errors import DataError
from data.files import open_input
from data.format.bloom import BloomFilter, might_contain_double, might_contain_int
from data.format.checksums import Checksums, VerifiedIndex, load, verify_index
from data.format.statistics import Statistics
from data.format.tail import (
    StripeFooter,
    Tail,
    bloom_filters,
    column_id,
    read_stripe_footer,
    read_tail,
    row_groups,
    row_index,
)
from data.read.footers import Footer
from data.read.stripes import Part, Stripe
from data.where import And, Compare, Constant, In, IsNull, Node, Not, Or, Where

_READ_AT_ONCE = 8
# To ask a filter for more values than that takes longer than to read the row group.
_MOST_ASKED = 1000


@dataclass(frozen=True)
class Pruned:
    """What was there, and what is left to be read."""

    files: int = 0
    files_left: int = 0
    stripes: int = 0
    stripes_left: int = 0
    row_groups: int = 0
    """A stripe without row index counts as one."""
    row_groups_left: int = 0
    rows: int = 0
    rows_left: int = 0

    def __add__(self, other: Pruned) -> Pruned:
        return Pruned(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))


def prune(
    footer: Footer, tail: Tail, where: Where, checksums: Checksums | None = None, keep_damaged: bool = False
) -> list[Part]:
    """The rows of the file `footer` that may satisfy `where`, as runs of row groups in the order of the file.

    A stripe of which everything is kept is one part. `tail` is the file's own, with its statistics. Reads the stripes'
    indexes, of the columns of `where` only, and only where the statistics of the stripe do not decide.

    checksums: of `checksums.load` for the file; with them no index is trusted before it is compared.
    keep_damaged: a stripe with a damaged index is kept whole, to be found by whoever reads it.

    Raises `DataError` for a damaged index and a column that the file lacks.
    """
    columns = {name: column_id(tail, name) for name in where.columns}
    test = _compiled(where.root)
    ask_filters = sorted({columns[name] for name in _equalities(where.root, True)})
    parts: list[Part] = []
    file: pa.NativeFile | None = None
    try:
        for stripe in footer.stripes:
            if not stripe.rows:
                continue
            may = _ALL
            if tail.stripe_statistics:
                statistics = tail.stripe_statistics[stripe.index]
                may = test(_Group(stripe.rows, {name: statistics[i] for name, i in columns.items()}, {}))
            if not may.true:
                continue
            if may == _ONLY_TRUE or not row_groups(tail, stripe.index):
                parts.append(Part(stripe, 0, stripe.rows))
                continue
            file = file or open_input(footer.path)
            try:
                index = verify_index(file, checksums, stripe.index, where.columns) if checksums else file
                left = _groups_left(index, tail, stripe.index, columns, ask_filters, test)
            except DataError:
                if not keep_damaged:
                    raise
                left = [True] * row_groups(tail, stripe.index)
            parts += _parts(stripe, left, tail.row_index_stride)
    finally:
        if file is not None:
            file.close()
    return parts


def prune_each(
    footers: Sequence[Footer], where: Where, verify: bool = True, keep_damaged: bool = False
) -> list[tuple[list[Part], Pruned] | DataError]:
    """For each file its parts, as of `prune`, and a summary, or what is wrong with it; several are looked at at once.

    verify: compare what is read with the checksums in the file, where it has any.
    """

    def one(footer: Footer) -> tuple[list[Part], Pruned] | DataError:
        try:
            with open_input(footer.path) as file:
                tail = read_tail(file, footer.path)
                checksums = load(file, tail) if verify else None
            parts = prune(footer, tail, where, checksums, keep_damaged)
        except FileNotFoundError:
            return DataError(f"{footer.path}: expected an ORC file, found none any more")
        except DataError as error:
            return error
        return parts, _summary(footer, tail, parts)

    with ThreadPoolExecutor(_READ_AT_ONCE) as pool:
        return list(pool.map(one, footers))


def _summary(footer: Footer, tail: Tail, parts: Sequence[Part]) -> Pruned:
    def groups(rows: int) -> int:
        return -(-rows // tail.row_index_stride) if tail.row_index_stride else 1

    return Pruned(
        files=1,
        files_left=int(bool(parts)),
        stripes=len(footer.stripes),
        stripes_left=len({part.stripe.index for part in parts}),
        row_groups=sum(groups(stripe.rows) for stripe in footer.stripes),
        row_groups_left=sum(groups(part.rows) for part in parts),
        rows=sum(stripe.rows for stripe in footer.stripes),
        rows_left=sum(part.rows for part in parts),
    )


class _May(NamedTuple):
    """What a condition may be for some row of a group. Never says that it cannot be what it is for one."""

    true: bool
    false: bool
    unknown: bool


_ALL = _May(True, True, True)
_ONLY_TRUE = _May(True, False, False)


class _Group(NamedTuple):
    """Some rows, and what is known of them."""

    rows: int
    statistics: Mapping[str, Statistics]
    """By column; columns that nothing is known of are left out."""
    filters: Mapping[str, tuple[BloomFilter, bool]]
    """By column: the filter, and whether the column holds integers."""


_Test = Callable[[_Group], _May]


def _groups_left(
    file: pa.NativeFile | VerifiedIndex,
    tail: Tail,
    stripe: int,
    columns: Mapping[str, int],
    ask_filters: Sequence[int],
    test: _Test,
) -> list[bool]:
    """For each row group of a stripe: whether it may hold a row that satisfies the condition."""
    stripe_rows, stride = tail.stripes[stripe].rows, tail.row_index_stride
    stripe_footer: StripeFooter = read_stripe_footer(file, tail, stripe)
    indexes = {name: row_index(file, tail, stripe, i, stripe_footer) for name, i in columns.items()}
    groups = []
    for number in range(row_groups(tail, stripe)):
        known = {name: index[number] for name, index in indexes.items() if index}
        groups.append(_Group(min(stride, stripe_rows - number * stride), known, {}))
    left = [test(group).true for group in groups]
    if not any(left):
        return left
    filters = {i: bloom_filters(file, tail, stripe, i, stripe_footer) for i in ask_filters}
    if not any(filters.values()):
        return left
    for number, group in enumerate(groups):
        if left[number]:
            asked = {
                name: (filters[i][number], tail.types[i].kind not in ("float", "double"))
                for name, i in columns.items()
                if filters.get(i)
            }
            left[number] = test(group._replace(filters=asked)).true
    return left


def _parts(stripe: Stripe, left: Sequence[bool], stride: int) -> list[Part]:
    """The runs of row groups that are left."""
    ends = [(start * stride, min(end * stride, stripe.rows)) for start, end in _runs(left)]
    return [Part(stripe, start, end - start) for start, end in ends]


def _runs(left: Sequence[bool]) -> list[tuple[int, int]]:
    """[start, end) of each run of True."""
    runs: list[tuple[int, int]] = []
    for number, kept in enumerate(left):
        if kept and runs and runs[-1][1] == number:
            runs[-1] = (runs[-1][0], number + 1)
        elif kept:
            runs.append((number, number + 1))
    return runs


def _equalities(node: Node, positive: bool) -> set[str]:
    """Columns whose equality with a constant can make the condition true: only of those, filters tell anything."""
    if isinstance(node, (And, Or)):
        return set().union(*(_equalities(operand, positive) for operand in node.operands))
    if isinstance(node, Not):
        return _equalities(node.operand, not positive)
    if isinstance(node, In):
        return {node.column} if positive else set()
    if isinstance(node, Compare) and node.operator == ("==" if positive else "!="):
        return {node.column}
    return set()


def _compiled(node: Node) -> _Test:
    if isinstance(node, Not):
        inner = _compiled(node.operand)

        def negated(group: _Group) -> _May:
            true, false, unknown = inner(group)
            return _May(false, true, unknown)

        return negated
    if isinstance(node, (And, Or)):
        tests = [_compiled(operand) for operand in node.operands]
        both = isinstance(node, And)

        def joined(group: _Group) -> _May:
            mays = [test(group) for test in tests]
            trues, falses = [may.true for may in mays], [may.false for may in mays]
            unknown = any(may.unknown for may in mays)
            return _May(all(trues), any(falses), unknown) if both else _May(any(trues), all(falses), unknown)

        return joined
    if isinstance(node, IsNull):
        column = node.column

        def null(group: _Group) -> _May:
            found = group.statistics.get(column)
            if found is None:
                return _May(True, True, False)
            return _May(_may_be_null(found, group.rows), found.count > 0, False)

        return null
    return _leaf(node)


def _may_be_null(statistics: Statistics, rows: int) -> bool:
    return statistics.has_null or statistics.count != rows


def _leaf(node: Compare | In) -> _Test:
    column = node.column
    constants = sorted(node.constants if isinstance(node, In) else (node.constant,))
    member = isinstance(node, In) or node.operator in ("==", "!=")

    def test(group: _Group) -> _May:
        found = group.statistics.get(column)
        unknown = found is None or _may_be_null(found, group.rows)
        if found is not None and not found.count:
            return _May(False, False, unknown)
        low, high = (None, None) if found is None else (found.minimum, found.maximum)
        if not member:
            assert isinstance(node, Compare)
            true, false = _order(node.operator, low, high, node.constant)
            return _May(true, false, unknown)
        # Python orders integers and floats exactly.
        first = 0 if low is None else bisect_left(constants, low)
        end = len(constants) if high is None else bisect_right(constants, high)
        equal = first < end
        all_equal = low is not None and low == high and equal
        if equal and column in group.filters and end - first <= _MOST_ASKED:
            bloom, integers = group.filters[column]
            equal = any(_may_contain(bloom, value, integers) for value in constants[first:end])
        if isinstance(node, Compare) and node.operator == "!=":
            return _May(not all_equal, equal, unknown)
        return _May(equal, not all_equal, unknown)

    return test


def _may_contain(bloom: BloomFilter, value: Constant, integers: bool) -> bool:
    if integers:
        return value == value // 1 and -(2**63) <= value < 2**63 and might_contain_int(bloom, int(value))
    try:
        as_float = float(value)
    except OverflowError:
        return False
    return as_float == value and might_contain_double(bloom, as_float)


def _order(operator: str, low: int | float | None, high: int | float | None, constant: Constant) -> tuple[bool, bool]:
    """Whether `value operator constant` may be true, and may be false, of values from `low` to `high`."""
    if low is None or high is None:
        return True, True
    if operator == "<":
        return low < constant, high >= constant
    if operator == "<=":
        return low <= constant, high > constant
    if operator == ">":
        return high > constant, low <= constant
    return high >= constant, low < constant
