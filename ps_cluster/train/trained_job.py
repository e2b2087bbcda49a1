"""What of a job gives a checkpoint's numbers their meaning, and whether a job file still says the same."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ps_cluster.errors import UserError
from ps_cluster.job.resolve import JobFile, output_width, tables_of
from ps_cluster.job.schema import Job
from ps_cluster.job.table_schema import Table

_SHOWN = 10


def meaning_of(job: Job) -> dict[str, Any]:
    """Features, model and widths of tables as plain JSON values; what only matters while training is left out."""
    told = job.model_dump(
        mode="json", include={"features": True, "model": True}, exclude={"features": {"__all__": {"admission"}}}
    )
    _leave_out_of_training(told["model"])
    told["tables"] = {name: _widths(table) for name, table in tables_of(job).items()}
    return told


def _leave_out_of_training(model: dict[str, Any]) -> None:
    """What of a model only matters while training, or for the speed; and what had no field at its default once."""
    for name in ("dropout", "fused", "precision"):
        model.pop(name, None)
    for name, default in (("norm", "post_ln"), ("activation", "gelu"), ("experts", None)):
        if model.get(name, default) == default:
            model.pop(name, None)
    if experts := model.get("experts"):
        model["experts"] = {name: experts[name] for name in ("count", "hidden", "dense_training")}


def _widths(table: Table) -> dict[str, Any]:
    if table.tiers is None:
        return {"dim": table.dim}
    return {"tiers": [tier.dim for tier in table.tiers], "output": output_width(table)}


def check_as_trained(job_file: JobFile, trained: dict[str, Any]) -> None:
    """Returns when the job still means what `trained`, from a checkpoint, says.

    Raises:
      UserError: it does not; one line for each field that differs.
    """
    lines = [
        f"{job_file.path}: {place}: expected {_told(before)} as in the training of the checkpoint, found {_told(now)}"
        for place, before, now in _differences("", trained, meaning_of(job_file.job))
    ]
    if len(lines) > _SHOWN:
        lines[_SHOWN:] = [f"{job_file.path}: and {len(lines) - _SHOWN} more differences"]
    if lines:
        raise UserError("\n".join(lines))


def _told(value: Any) -> str:
    return "nothing" if value is None else repr(value)


def _differences(place: str, before: Any, now: Any) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(before, dict) and isinstance(now, dict):
        for key in dict.fromkeys([*before, *now]):
            yield from _differences(f"{place}.{key}" if place else key, before.get(key), now.get(key))
    elif isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        for index, (one, other) in enumerate(zip(before, now)):
            yield from _differences(f"{place}[{index}]", one, other)
    elif isinstance(before, list) and isinstance(now, list):
        yield place, f"{len(before)} entries", f"{len(now)} entries"
    elif before != now:
        yield place, before, now
