"""A plan against what then happens: rows, resident memory and bytes on the wire of jobs on real PS processes.

`rows_JOB`, `memory_JOB`, `network_JOB`: the plan is made from the first tenth of the log, and the log's rows from its
footers; then all of it is put through the store and saved. `ratio` is 5 % over the relative error, so above 1 is within
5 %. Rows: the worst of the tables' rows, tiers and counted ids, and bytes of the checkpoint. Memory: the most resident
bytes of the fullest PS over its empty start. Network: bytes on the loopback device of a namespace of its own per step.
`--full`: 5 to 10 million rows of tables on 2 and on 3 PS, the worse of both told. Cases of a job that are asked for
together (`--case rows_tiers memory_tiers network_tiers`) look at the same runs.
"""

from __future__ import annotations

import functools
import sys
import tempfile
from pathlib import Path
from typing import Any

from ps_cluster.job.load import load_job
from ps_cluster.plan.constants import load as load_constants
from ps_cluster.plan.facts import facts_of, scan_of
from ps_cluster.plan.plan import Plan, plan_of
from ps_cluster.plan.scan import Scan
from ps_cluster.plan.types import Dense, Facts
from tests.bench.planning_jobs import FULL_LOADS, LOADS, Load, write_job, write_log
from tests.bench.planning_run import measure
from tests.bench.reporting import Result, run_cases

SHARE = 0.1
LIMIT = 0.05


@functools.cache
def _log(name: str, full: bool) -> tempfile.TemporaryDirectory[str]:
    folder = tempfile.TemporaryDirectory(prefix="planning-")
    write_log(Path(folder.name), _load(name, full))
    return folder


def _load(name: str, full: bool) -> Load:
    return (FULL_LOADS if full else LOADS)[name]


def _job(name: str, full: bool, ps: int) -> Path:
    return write_job(Path(_log(name, full).name), name, _load(name, full), ps)


@functools.cache
def predicted(name: str, full: bool, ps: int) -> tuple[Facts, Plan]:
    """The plan of a job, from the first part of its log."""
    job_file = load_job(str(_job(name, full, ps)))
    facts = facts_of(job_file, _scanned(name, full), load_constants(None), dense=Dense(1, 2, 1.0, 1))
    return facts, plan_of(facts, ps)


@functools.cache
def _scanned(name: str, full: bool) -> Scan | None:
    return scan_of(load_job(str(_job(name, full, 1))), [], _log(name, full).name, SHARE, None)


@functools.cache
def measured(name: str, full: bool, ps: int) -> dict[str, Any]:
    """What its run told."""
    with tempfile.TemporaryDirectory(prefix="planning-saved-") as saved:
        return measure(_job(name, full, ps), Path(saved) / "saved")


def rows_pairs(plan: Plan, told: dict[str, Any]) -> dict[str, tuple[float, float]]:
    """Predicted and measured rows, of tables, their tiers and counted ids."""
    found = {}
    for name, section in plan.tables.items():
        real = told["tables"][name]
        found[name] = (section["rows"].value, real["rows"])
        if real["counted_ids"]:
            found[f"{name} counted"] = (section["counted_ids"].value, real["counted_ids"])
        tiers = [key for key in section if key.startswith("rows_of_")]
        for key, count in zip(tiers, real["rows_by_tier"]):
            found[f"{name} {key}"] = (section[key].value, count)
    saved = sum(one.value for name, one in plan.checkpoint.items() if name.startswith("table_"))
    found["checkpoint bytes"] = (saved, told["checkpoint_bytes"])
    return found


def memory_pairs(facts: Facts, plan: Plan, told: dict[str, Any]) -> dict[str, tuple[float, float]]:
    """Most resident bytes of the fullest PS, over its empty start."""
    added = [most - start for most, start in zip(told["peak_bytes"], told["empty_bytes"])]
    return {"resident": (plan.server["memory_bytes"].value - facts.constants["ps_base_bytes"], max(added))}


def network_pairs(plan: Plan, told: dict[str, Any]) -> dict[str, tuple[float, float]]:
    """Bytes of a step; the plan's sum over dense gradients is nothing with one worker."""
    return {"bytes a step": (plan.network["all_bytes"].value, told["bytes_per_step"])}


def _case(what: str, name: str, full: bool) -> Result:
    pairs: dict[str, tuple[float, float]] = {}
    for ps in (2, 3) if full else (2,):
        facts, plan = predicted(name, full, ps)
        told = measured(name, full, ps)
        found = {
            "rows": lambda p=plan, t=told: rows_pairs(p, t),
            "memory": lambda f=facts, p=plan, t=told: memory_pairs(f, p, t),
            "network": lambda p=plan, t=told: network_pairs(p, t),
        }[what]()
        pairs |= {f"{key} on {ps} PS": pair for key, pair in found.items()}
    worst = max(pairs, key=lambda key: abs(pairs[key][0] / pairs[key][1] - 1))
    told_before, real = pairs[worst]
    error = abs(told_before / real - 1)
    return Result(
        case=f"{what}_{name}",
        ours=told_before,
        theirs=real,
        unit={"rows": "rows", "memory": "B", "network": "B"}[what],
        ratio=LIMIT / max(error, 1e-6),
        answers_equal=real > 0,
        compared=f"predicted from the first {SHARE:.0%} of the log (ours) against measured (theirs): "
        + "; ".join(
            f"{key}: {one:,.0f} against {other:,.0f}, {one / other - 1:+.1%}" for key, (one, other) in pairs.items()
        ),
    )


CASES = {
    f"{what}_{name}": functools.partial(_case, what, name) for name in LOADS for what in ("rows", "memory", "network")
}

if __name__ == "__main__":
    sys.exit(run_cases("planning", CASES))
