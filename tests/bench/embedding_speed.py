"""Keys found and updated per CPU-second, against TFRA's cuckoo table and against moving the same bytes in memory."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from tests.bench.embedding_tables import Ours, Theirs, fill, values_of
from tests.bench.reporting import Result

BATCH = 8192
_ROWS = 10_000_000
_FEWER_ROWS = 2_000_000
"""Of the widest rows, which TFRA's table holds one by one and takes minutes to fill; `--full` has all."""
_REPEATS = {False: 5, True: 15}
_FINDS = 160
"""Batches of a run. Look-ups are cheap: 40 batches take 15 ms, which one interruption of the core can double."""
_UPDATES = 40
_COPIED_BYTES = 2**30
"""Of the array that stands for plain memory: far beyond the caches is enough."""


def find_case(case: str, width: int, full: bool) -> Result:
    """Rows of `width` values by random keys that are there."""
    rows, random = _rows(width, full), np.random.default_rng(1)
    ours, theirs = Ours(width), Theirs(width, rows)
    fill(ours.insert, rows, width)
    fill(theirs.insert, rows, width)
    keys = [tf.constant(random.integers(0, rows, BATCH)) for _ in range(_FINDS)]
    slab, out = _plain_memory(rows, width), np.empty((BATCH, width), np.float32)
    positions = [one.numpy() % len(slab) for one in keys]
    costs = _in_turn(
        {
            "ours": lambda: _each(ours.find, keys),
            "theirs": lambda: _each(theirs.find, keys),
            "copy": lambda: [np.take(slab, one, axis=0, out=out, mode="clip") for one in positions],
        },
        _REPEATS[full],
    )
    expected = values_of(keys[0].numpy(), width)
    absent = tf.constant([-1, rows, 2**62])
    equal = all(
        np.array_equal(table.find(keys[0]).numpy(), expected) and not table.find(absent).numpy().any()
        for table in (ours, theirs)
    )
    return _result(case, f"find, rows of {width} float32", rows, costs, _FINDS, equal, "copy")


def update_case(case: str, width: int, full: bool) -> Result:
    """A whole step of Adam on rows of `width` values: find, compute, write."""
    rows, dim, random = _rows(width, full), width // 3, np.random.default_rng(2)
    ours, theirs = Ours(dim, "adam"), Theirs(width, rows)
    _fill_with_zeros(theirs.insert, rows, width)
    _fill_with_zeros(ours.insert, rows, dim)
    update = theirs.adam()
    keys = [random.choice(rows, BATCH, replace=False) for _ in range(_UPDATES)]
    gradients = tf.constant(random.normal(size=(BATCH, dim)), tf.float32)
    requests = [ours.request(one, 1) for one in keys]
    # Both sides see the keys in the order of the request, so that each key has the same gradient.
    ordered = [tf.constant(request.numpy()[6 : 6 + BATCH]) for request in requests]
    step = tf.constant(1, tf.int64)
    slab = _plain_memory(rows, 3 * dim)
    positions = [one % len(slab) for one in keys]

    def copy() -> None:
        for one in positions:
            slab[one] = slab[one]

    def push() -> None:
        for one in requests:
            ours.push(one, gradients)

    costs = _in_turn(
        {
            "ours": push,
            "theirs": lambda: [update(one, gradients, step) for one in ordered],
            "copy": copy,
        },
        _REPEATS[full],
    )
    some = ordered[0]
    difference = np.abs(ours.find(some).numpy() - theirs.find(some).numpy()[:, :dim]).max()
    moved = np.abs(ours.find(some).numpy()).max()
    equal = bool(difference <= 1e-6 and moved > 0)
    about = f"a step of Adam on rows of {width} float32 (embedding {dim}, m, v)"
    return _result(case, about, rows, costs, _UPDATES, equal, "copy out and back")


def _each(find: Callable[[tf.Tensor], tf.Tensor], keys: list[tf.Tensor]) -> None:
    for one in keys:
        find(one)  # the answer's memory is free for the next one, as on a server that has sent it


def _rows(width: int, full: bool) -> int:
    return _ROWS if full or width <= 100 else _FEWER_ROWS


def _plain_memory(rows: int, width: int) -> np.ndarray:
    return np.ones((min(rows, _COPIED_BYTES // (4 * width)), width), np.float32)


def _fill_with_zeros(insert: Callable[[tf.Tensor, tf.Tensor], None], rows: int, width: int) -> None:
    fill(lambda keys, values: insert(keys, tf.zeros_like(values)), rows, width)


def _in_turn(sides: dict[str, Callable[[], object]], repeats: int) -> dict[str, list[float]]:
    """CPU seconds of this process by side, the sides in turn; the first round, a warm-up, is left out."""
    costs: dict[str, list[float]] = {name: [] for name in sides}
    gc.collect()
    gc.freeze()  # else the garbage collector walks all of TensorFlow every few calls
    for repeat in range(repeats + 1):
        for name, run in sides.items():
            started = time.process_time()
            run()
            if repeat:
                costs[name].append(time.process_time() - started)
    return costs


def _result(
    case: str, about: str, rows: int, costs: dict[str, list[float]], batches: int, equal: bool, copy: str
) -> Result:
    keys, repeats = BATCH * batches, len(costs["ours"])
    rates = {name: keys / statistics.median(found) for name, found in costs.items()}
    ratio = statistics.median(theirs / ours for ours, theirs in zip(costs["ours"], costs["theirs"]))
    share = statistics.median(copied / ours for ours, copied in zip(costs["ours"], costs["copy"]))
    return Result(
        case=case,
        ours=rates["ours"],
        theirs=rates["theirs"],
        unit="keys/CPU-s",
        ratio=ratio,
        answers_equal=equal,
        compared=(
            f"{about}: {rows:,} rows in the table, batches of {BATCH:,} random keys, {repeats} repeats of {batches} "
            f"batches in turn: the native table against TFRA's cuckoo table through its Python ops; "
            f"{share:.2f} of the rate of NumPy's {copy} of random rows of the same bytes "
            f"({rates['copy']:,.0f} rows/CPU-s)"
        ),
    )
