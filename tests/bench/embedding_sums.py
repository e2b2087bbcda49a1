"""What is left of additions that eight threads of two processes make to the same rows at once."""

from __future__ import annotations

from tests.bench.reporting import Result
from tests.ps_cluster.add_client import ROWS, THREADS
from tests.ps_cluster.add_clients import CLIENTS, added
from tests.ps_cluster.ps_processes import running_ps

_TIMES = {False: 100, True: 1_250}
"""Additions of each thread to each row."""


def sums_case(case: str, full: bool) -> Result:
    """The share of additions that the least row holds: our push against TFRA's optimiser on its own table."""
    times = _TIMES[full]
    total = CLIENTS * THREADS * times
    found = {}
    for side in ("ours", "stock"):
        with running_ps(1, clients=CLIENTS) as (ps, workers):
            found[side] = added(ps[0], workers, side, times, seconds=600)
    least = {side: one for side, (one, _) in found.items()}
    return Result(
        case=case,
        ours=least["ours"] / total,
        theirs=least["stock"] / total,
        unit="of the additions",
        ratio=least["ours"] / max(least["stock"], 1.0),
        answers_equal=found["ours"] == (total, total),
        compared=f"{CLIENTS} processes of {THREADS} threads add 1 to the same {ROWS:,} rows, {total:,} times in all: "
        f"rows hold {found['ours'][0]:,.0f} to {found['ours'][1]:,.0f} (ours) against {found['stock'][0]:,.0f} to "
        f"{found['stock'][1]:,.0f} with TFRA's optimiser and table, which reads, adds and writes in three ops",
    )
