"""Bytes of a native table on one PS, from how `ops/cc/table` lays out rows, index and counters."""

from __future__ import annotations

import functools
import math
from statistics import NormalDist

UNIT_BYTES = 64 * 2**10
"""Of the arena: a slab of rows, or a piece of an index."""
LEAST_UNIT_BYTES = 4 * 2**10
SUB_TABLES = 256
SUB_TABLE_BYTES, CLASS_BYTES = 384, 104
"""Of a sub-table itself, and more for each class of rows: one of each width, and one of ids that are only counted."""
BLOOM_SEGMENT_BYTES = 24
"""Of each segment of a Bloom filter, beside its counters."""
HEADER_BYTES = 16
"""Of a row: key, frequency, last step; 4 more with the hour."""
BUCKET_BYTES, BUCKET_SLOTS, INDEX_LOAD, INDEX_GROWTH = 64, 12, 0.65, 1.25
BLOOM_SEGMENTS = 4096
_FIRST_ROWS = 4
_ROW_BITS_BYTES = 24
"""Of 64 rows."""
_LINE = 64
_QUANTILES = 63
_MOST_HASHES = 16


def row_stride(dim: int, slots: int, value_bytes: int, with_hour: bool = False) -> int:
    """Bytes from row to row: header, embedding in `value_bytes` a value, slots in float32, padded to 8. `dim` 0: of an
    id that is only counted."""
    header = HEADER_BYTES + (4 if with_hour else 0)
    return _up(header + row_bytes(dim, slots, value_bytes), 8)


def row_bytes(dim: int, slots: int, value_bytes: int) -> int:
    """Embedding and slots of a row, as a checkpoint keeps them too."""
    return _up(dim * value_bytes, 4) + 4 * dim * slots


def sub_tables_of(max_bytes: int, stride: int) -> tuple[int, int]:
    """Sub-tables of a table with rows of up to `stride` bytes, and bytes of its arena's units, for a limit of
    `max_bytes` on a PS (0: none)."""
    sub_tables, unit = SUB_TABLES, UNIT_BYTES
    if max_bytes:
        part = max(256 * 2**10, 64 * stride)
        while sub_tables > 1 and max_bytes // sub_tables < part:
            sub_tables //= 2
        while unit > LEAST_UNIT_BYTES and unit > max_bytes // sub_tables // 32:
            unit //= 2
    return sub_tables, unit


def slab_bytes(rows: float, stride: float, sub_tables: float = SUB_TABLES, unit: float = UNIT_BYTES) -> float:
    """Slabs that hold `rows` rows of one class, spread over the sub-tables by a hash: about `rows * stride`, the free
    rows of each sub-table's last slab and three bits a row."""
    return _mean_over(rows, int(sub_tables), lambda n: _slabs(n, int(stride), int(unit)))


def index_bytes(rows: float, sub_tables: float = SUB_TABLES, unit: float = UNIT_BYTES) -> float:
    """Index of `rows` entries, which are spread over the sub-tables: buckets of 64 bytes with 12 slots, filled up to
    65 % and grown by a quarter: 8.2 to 10.3 bytes an entry."""
    return _mean_over(rows, int(sub_tables), lambda n: _index(n, int(unit)))


def bloom_bytes(capacity: float, error: float, threshold: float, ps: float = 1) -> float:
    """Counters of a Bloom filter on each of `ps` PS: the smallest filter in which at most a share `error` of ids counts
    too high when `capacity` ids are in it, in whole cache lines for each of 4,096 segments."""
    counters, _ = bloom_shape(int(capacity), error)
    return counters * (1 if threshold <= 255 else 2) * BLOOM_SEGMENTS / ps


def unit_bytes(rows: float, stride: float, sub_tables: float = SUB_TABLES, unit: float = UNIT_BYTES) -> float:
    """Units of the arena that slabs of one class take; the first slab of a sub-table has malloc's memory until it is
    as large as a unit."""
    return _mean_over(rows, int(sub_tables), lambda n: _units(n, int(stride), int(unit)) * int(unit))


def slab_rest_bytes(rows: float, stride: float, sub_tables: float = SUB_TABLES, unit: float = UNIT_BYTES) -> float:
    """Resident beside `slab_bytes`: what the units have left over behind their rows, and what malloc keeps of the slab
    that each sub-table gave back when its first one last grew. That is none of it where it lay at the end of the heap
    or others fill it, and all of it else: half is told."""
    return _mean_over(rows, int(sub_tables), lambda n: _slabs_rest(n, int(stride), int(unit)))


def index_rest_bytes(rows: float, sub_tables: float = SUB_TABLES, unit: float = UNIT_BYTES) -> float:
    """Resident beside `index_bytes`: of the piece that each sub-table gave back when its index last grew, half is told
    as in `slab_rest_bytes`. Once the index is in units, its last piece from malloc is free as well: nothing that
    grows there is left to fill it."""
    return _mean_over(rows, int(sub_tables), lambda n: _index_rest(n, int(unit)))


@functools.lru_cache(maxsize=256)
def bloom_shape(capacity: int, error: float) -> tuple[int, int]:
    """Counters of a segment, and how many of them an id has."""
    hashes = min(max(math.floor(math.log2(1 / error) + 0.5), 1), _MOST_HASHES)
    mean = capacity / BLOOM_SEGMENTS
    few, many = 1.0, 64.0
    while _bloom_error(mean, hashes, many) > error:
        many *= 2
    while many - few > 1:
        middle = math.floor((few + many) / 2)
        if _bloom_error(mean, hashes, middle) > error:
            few = middle
        else:
            many = middle
    return _up(int(many), _LINE), hashes


def _bloom_error(mean: float, hashes: int, counters: float) -> float:
    """Share of ids whose counters all belong to other ids too, where segments hold Poisson numbers of ids."""
    spread = 8 * math.sqrt(mean) + 8
    log_other = math.log1p(-1 / counters) if counters > 1 else -math.inf
    error = 0.0
    for n in range(int(max(0.0, mean - spread)), int(mean + spread) + 1):
        share = math.exp(n * math.log(mean) - mean - math.lgamma(n + 1.0))
        error += share * (-math.expm1(n * hashes * log_other) if n else 0.0) ** hashes
    return error


def _mean_over(rows: float, sub_tables: int, bytes_of) -> float:
    """Sum over sub-tables whose numbers of rows are binomial."""
    mean = rows / sub_tables
    if mean <= 0:
        return 0.0
    if mean < 30:
        return sub_tables * _poisson_mean(mean, bytes_of)
    spread = math.sqrt(mean * (1 - 1 / sub_tables))
    total = 0.0
    for i in range(_QUANTILES):
        total += bytes_of(max(round(mean + spread * _normal(i)), 0))
    return sub_tables * total / _QUANTILES


@functools.cache
def _normal(quantile: int) -> float:
    return NormalDist().inv_cdf((quantile + 0.5) / _QUANTILES)


def _poisson_mean(mean: float, bytes_of) -> float:
    share, total = math.exp(-mean), 0.0
    for n in range(int(mean + 10 * math.sqrt(mean) + 12)):
        total += share * bytes_of(n)
        share *= mean / (n + 1)
    return total


def _up(number: int, to: int) -> int:
    return -(-number // to) * to


def _rows_bytes(rows: int, stride: int) -> int:
    bits = _up(_up(rows, 64) // 64 * _ROW_BITS_BYTES, _LINE)
    return _up(bits + rows * stride, _LINE)


@functools.cache
def _slab_rows(stride: int, unit: int) -> int:
    rows = unit // stride
    while rows > 0 and _rows_bytes(rows, stride) > unit:
        rows -= 1
    return max(rows, _FIRST_ROWS)


@functools.cache
def _first_slabs(stride: int, unit: int) -> tuple[int, ...]:
    """Rows of a sub-table's only slab as it grows: four, doubled, up to a whole one; only that is a unit."""
    whole, rooms = _slab_rows(stride, unit), [0]
    while rooms[-1] < whole:
        doubled = max(_FIRST_ROWS, rooms[-1] * 2)
        rooms.append(whole if doubled > whole // 2 else doubled)
    return tuple(rooms[1:])


def _slabs(rows: int, stride: int, unit: int) -> int:
    if rows == 0:
        return 0
    whole = _slab_rows(stride, unit)
    if rows > whole:
        return -(-rows // whole) * _rows_bytes(whole, stride)
    return _rows_bytes(next(room for room in _first_slabs(stride, unit) if room >= rows), stride)


def _units(rows: int, stride: int, unit: int) -> int:
    rooms = _first_slabs(stride, unit)
    if _rows_bytes(rooms[-1], stride) > unit or rows <= (rooms[-2] if len(rooms) > 1 else 0):
        return 0
    return -(-rows // rooms[-1])


def _slabs_rest(rows: int, stride: int, unit: int) -> float:
    rooms = _first_slabs(stride, unit)
    given_back = max((room for room, after in zip(rooms, rooms[1:]) if rows > room), default=0)
    left_over = _units(rows, stride, unit) * (unit - _rows_bytes(rooms[-1], stride))
    return left_over + (_rows_bytes(given_back, stride) / 2 if given_back else 0)


@functools.cache
def _indices(unit: int) -> tuple[int, ...]:
    """Buckets of an index as it grows, until it is in units."""
    of_unit, found = unit // BUCKET_BYTES, [1]
    while found[-1] < of_unit:
        found.append(_more_buckets(found[-1], of_unit))
    return tuple(found)


def _more_buckets(buckets: int, of_unit: int) -> int:
    if buckets < of_unit // 4:
        return max(1, buckets * 2)
    wanted = int(buckets * INDEX_GROWTH) + 1
    return wanted if wanted < of_unit else _up(wanted, of_unit)


def _room_in(buckets: int) -> int:
    return max(1, int(buckets * float(BUCKET_SLOTS) * INDEX_LOAD))


def _index(entries: int, unit: int) -> int:
    if entries == 0:
        return 0
    buckets = 1
    while _room_in(buckets) < entries:
        buckets = _more_buckets(buckets, unit // BUCKET_BYTES)
    return buckets * BUCKET_BYTES


def _index_rest(entries: int, unit: int) -> float:
    grown = _indices(unit)
    before = [buckets for buckets in grown[:-1] if _room_in(buckets) < entries]
    if len(before) < len(grown) - 1:
        return BUCKET_BYTES * before[-1] / 2 if before else 0.0
    return BUCKET_BYTES * (sum(before[-1:]) + sum(before[-2:-1]) / 2)
