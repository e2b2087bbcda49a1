"""Memory of the reader process over many rows: flat, or a leak."""

from __future__ import annotations

import threading

import psutil

from data.orc import open_reader
from tests.bench.orc_reading import SHUFFLE_ROWS, spec
from tests.bench.orc_samples import Samples, write_orc
from tests.bench.reporting import Result

_LOG_ROWS = {False: 120_000, True: 1_000_000}
_PASSES = {False: 12, True: 20}
_SECONDS = 0.05


def case(name: str, samples: Samples, full: bool) -> Result:
    """The most that the process has in the last half of a shuffled read, against the most in the second fifth."""
    rows = _LOG_ROWS[full]
    table = samples.table("synth", rows, "time")
    path = samples.file(f"memory-{rows}", table, write_orc)
    with open_reader(spec(path, table, table.column_names, epochs=_PASSES[full], shuffle_rows=SHUFFLE_ROWS)) as reader:
        (child,) = psutil.Process().children()
        with _Sampler(child) as sampler:
            for number, _ in enumerate(reader.dataset):
                sampler.done = number / reader.batches
    early, late = sampler.most(0.2, 0.4), sampler.most(0.5, 1.0)
    return Result(
        case=name,
        ours=late / 2**20,
        theirs=early / 2**20,
        unit="MiB",
        ratio=early / late,
        answers_equal=number + 1 == reader.batches,
        compared=(
            f"resident memory of the reader process over {rows * _PASSES[full]:,} rows of 37 columns, shuffled in "
            f"windows of {SHUFFLE_ROWS:,}: its most in the last half against its most from 20 to 40 % of the rows"
        ),
    )


class _Sampler:
    """Looks at a process every few milliseconds."""

    def __init__(self, process: psutil.Process):
        self.done = 0.0
        self._process = process
        self._found: list[tuple[float, int]] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def most(self, first: float, end: float) -> int:
        """Most bytes while the share done was in `[first, end]`."""
        return max(size for done, size in self._found if first <= done <= end)

    def __enter__(self) -> _Sampler:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._stop.wait(_SECONDS):
            try:
                self._found.append((self.done, self._process.memory_info().rss))
            except psutil.NoSuchProcess:
                return
