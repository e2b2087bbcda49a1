"""Memory of the reader process over many rows: flat, or a leak."""

from __future__ import annotations

import psutil

from data.orc import open_reader
from tests.bench.memory import looked_at
from tests.bench.orc_reading import SHUFFLE_ROWS, spec
from tests.bench.orc_samples import Samples, write_orc
from tests.bench.reporting import Result

_LOG_ROWS = {False: 120_000, True: 1_000_000}
_PASSES = {False: 12, True: 20}


def case(name: str, samples: Samples, full: bool) -> Result:
    """The most that the process has in the last half of a shuffled read, against the most in the second fifth."""
    rows = _LOG_ROWS[full]
    table = samples.table("synth", rows, "time")
    path = samples.file(f"memory-{rows}", table, write_orc)
    with open_reader(spec(path, table, table.column_names, epochs=_PASSES[full], shuffle_rows=SHUFFLE_ROWS)) as reader:
        (child,) = psutil.Process().children()
        done = 0.0
        found: list[tuple[float, int]] = []
        with looked_at(lambda: found.append((done, child.memory_info().rss))):
            for number, _ in enumerate(reader.dataset):
                done = number / reader.batches
    early = max(size for when, size in found if 0.2 <= when <= 0.4)
    late = max(size for when, size in found if 0.5 <= when <= 1.0)
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
