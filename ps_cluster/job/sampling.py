"""From what a job file says about sampling, and from the data, to the rate of every row."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from data.errors import DataError
from data.files import open_input
from data.format.tail import read_tail
from data.sample.popularity import bands as popularity_bands
from data.sample.replay import Replay, newest_time, rows_per_day, solve, steps
from data.sample.sampled_files import METADATA
from data.sample.sampling import Constant, Factor, Rate, Sampling, Steps, column_problems
from data.scan.raw_rows import Progress, open_orc
from data.where import Where, parse
from ps_cluster.job import sampling_schema as schema
from ps_cluster.job.resolve import JobFile

DAY_UNITS = {"milliseconds": 86_400_000, "seconds": 86_400}
_SHOWN_PROBLEMS = 20
_LAST_SECOND = 95_617_584_000  # 5000-01-01


@dataclass(frozen=True)
class Part:
    """What one factor of the sampling is called, and its rows in groups.

    kind: what a rate is. rates: of each group. group_of: int64 `[places]`, the group of each place in the table of the
    factor's rate. rule: number of the rule it comes from; None: the replay.
    """

    title: str
    kind: Literal["keep", "weight"]
    groups: tuple[str, ...]
    rates: tuple[float, ...]
    group_of: np.ndarray
    rule: int | None


@dataclass(frozen=True)
class Resolved:
    """The sampling of a job on its data; `parts[i]` is about `sampling.factors[i]`."""

    sampling: Sampling
    parts: tuple[Part, ...]
    newest: int | None
    """The newest time in the data; None when no rule needs it."""
    replay: Replay | None
    where: Where | None
    """Which rows are looked at, before sampling."""

    def words(self) -> str:
        """In a few words."""
        rules = sum(part.rule is not None for part in self.parts)
        told = [f"{rules} rule{'s' * (rules != 1)}"] if rules else []
        if self.replay is not None:
            told.append(f"replay ({self.replay.share:.0%} of the newest {self.replay.newest_days} days)")
        return f"sampled by {' and '.join(told)}"

    def record(self) -> dict[str, Any]:
        """All rates, as plain JSON values: what a run, a checkpoint and an export keep of the sampling."""
        rules: list[dict[str, Any]] = []
        for part, factor in zip(self.parts, self.sampling.factors):
            if part.rule is None:
                continue
            rates = [{"rows": name, "rate": rate} for name, rate in zip(part.groups, part.rates)]
            when = factor.when.text if factor.when else None
            rules.append({"rule": part.title, "kind": part.kind, "label": factor.label, "when": when, "rates": rates})
        told: dict[str, Any] = {"seed": self.sampling.seed, "newest_time": self.newest, "rules": rules, "replay": None}
        if self.replay is not None:
            told["replay"] = {
                "newest_days": self.replay.newest_days,
                "share": self.replay.share,
                "problem": self.replay.problem,
                "rates_by_day": list(self.replay.rates),
            }
        return told


@dataclass(frozen=True)
class Presampled:
    """Training files that have been sampled before."""

    told: dict[str, Any]
    """What the files say of it: the `record` of that sampling."""
    sampling = None

    def words(self) -> str:
        """In a few words."""
        return "sampled before"

    def record(self) -> dict[str, Any]:
        """As `Resolved.record`."""
        return self.told


def sampling_of(
    job_file: JobFile, paths: Sequence[str], progress: Progress | None = None
) -> Resolved | Presampled | None:
    """How the training rows, of `paths`, are sampled; None when the job does not say."""
    data = job_file.job.data
    if data.sampling is None:
        return None
    if data.sampling.presampled:
        return _presampled(paths)
    return resolve_sampling(
        data.sampling,
        data.label,
        job_file.job.training.seed,
        paths,
        job_file.folder,
        parse(data.where) if data.where else None,
        data.on_bad == "skip",
        progress,
    )


def resolve_sampling(
    section: schema.Sampling,
    label: str,
    training_seed: int,
    paths: Sequence[str],
    folder: str,
    where: Where | None = None,
    skip_bad: bool = False,
    progress: Progress | None = None,
) -> Resolved:
    """The sampling of the rows of `paths` that `where` takes; the same in every process that calls it.

    Reads the column of times when a rule needs ages, and the columns of all rules for a replay.

    Args:
        section: of a checked job file.
        label: name of the label's column.
        training_seed: the seed, when the section gives none.
        paths: all ORC files of the training data.
        folder: where relative paths of the section start.
        skip_bad: leave out stripes that cannot be decoded and rows whose time is null, in place of an error.

    Raises `DataError` for columns and files that do not fit.
    """
    schemas = {path: open_orc(path).schema for path in paths}
    newest = None
    if section.time and (section.replay or any(rule.newest_hours for rule in section.rules)):
        _raise([line for path in paths for line in time_problems(section.time.column, schemas[path], path)])
        newest = newest_time(paths, section.time.column, where, skip_bad, progress)
        if newest >= _LAST_SECOND * DAY_UNITS[section.time.unit] // 86_400:
            raise DataError(
                f"data.sampling.time: column {section.time.column}: expected {section.time.unit} since 1970, found "
                f"{newest}, which were after the year 5000; is the unit right?"
            )
    seed = (training_seed if section.seed is None else section.seed) % 2**64
    made = [_of_rule(index, rule, section, newest, folder) for index, rule in enumerate(section.rules)]
    sampling = Sampling(label, seed, tuple(factor for factor, _ in made))
    _raise([line for path in paths for line in column_problems(sampling, schemas[path], path)])
    replay = None
    if section.replay and section.time and newest is not None:
        units = DAY_UNITS[section.time.unit]
        keeps = tuple(factor for factor in sampling.factors if factor.kind == "keep")
        rows = rows_per_day(
            paths,
            section.time.column,
            newest,
            units,
            where,
            Sampling(label, seed, keeps) if keeps else None,
            skip_bad,
            progress,
        )
        how = section.replay
        replay = solve(rows, how.newest_days, how.newest_share, how.half_life_days)
        made.append(_of_replay(replay, section.time.column, newest, units))
        sampling = Sampling(label, seed, tuple(factor for factor, _ in made))
    return Resolved(sampling, tuple(part for _, part in made), newest, replay, where)


def _presampled(paths: Sequence[str]) -> Presampled:
    """What all the files say. Raises `DataError` when one says nothing, or something else than the first."""
    told: dict[str, Any] | None = None
    for path in paths:
        with open_input(path) as file:
            text = read_tail(file, path).user_metadata.get(METADATA)
        if text is None:
            raise DataError(f"{path}: expected a file made by `ps-cluster data sample`, found another")
        found = json.loads(text)
        if told is not None and found != told:
            raise DataError(f"{path}: expected the sampling of {paths[0]}, found another one")
        told = found
    return Presampled(told or {})


def _of_rule(
    index: int, rule: schema.Rule, section: schema.Sampling, newest: int | None, folder: str
) -> tuple[Factor, Part]:
    conditions = [rule.when] if rule.when else []
    named = [f"label {rule.label}"] if rule.label is not None else []
    named += conditions
    if rule.newest_hours is not None and section.time and newest is not None:
        first = newest - int(rule.newest_hours * DAY_UNITS[section.time.unit] / 24) + 1
        conditions = [f"({condition})" for condition in conditions] + [f"{section.time.column} >= {first}"]
        named.append(f"newest {rule.newest_hours:g} h")
    kind: Literal["keep", "weight"]
    if rule.bands is not None:
        kind = "keep" if rule.bands.keep is not None else "weight"
        values = tuple(rule.bands.keep or rule.bands.weight or ())
        rate, groups, group_of = _of_bands(rule.bands, values, folder)
        what = f"{kind} by {'popularity of ' if rule.bands.popularity else ''}{rule.bands.column}"
        rates = values if len(groups) == len(values) else (*values, 1.0)
    else:
        kind = "keep" if rule.keep is not None else "weight"
        rates = (float(rule.keep or rule.weight or 1.0),)
        rate, groups, group_of = Constant(rates[0]), ("all",), np.zeros(1, np.int64)
        what = f"{kind} {rates[0]:g}"
    when = parse(" and ".join(conditions)) if conditions else None
    label: Literal[0, 1] | None = None if rule.label is None else (1 if rule.label else 0)
    title = f"{', '.join(named) or 'all rows'}: {what}"
    return Factor(kind, rate, label, when), Part(title, kind, groups, rates, group_of, index)


def _of_bands(bands: schema.Bands, values: Sequence[float], folder: str) -> tuple[Rate, tuple[str, ...], np.ndarray]:
    """The rate, what its groups are called, and the group of each place in its table."""
    if bands.bounds is not None:
        ends = [f"{bound:g}" for bound in bands.bounds]
        inner = [f"{low} to below {high}" for low, high in zip(ends, ends[1:])]
        names = (f"below {ends[0]}", *inner, f"{ends[-1]} and above", "null")
        rate = Steps(bands.column, tuple(map(float, bands.bounds)), tuple(values))
        return rate, names, np.arange(len(names))
    path = popularity_path(bands, folder)
    found = popularity_bands(path, bands.column, bands.top_ids or (), bands.top_share or ())
    lookup, group_of = found.lookup(values)
    first = f"the {found.ends[0]:,} most frequent"
    inner = [f"the next {high - low:,}" for low, high in zip(found.ends, found.ends[1:])]
    return lookup, (first, *inner, "all others"), group_of


def popularity_path(bands: schema.Bands, folder: str) -> str:
    """Where the counts of the ids lie."""
    return os.path.normpath(os.path.join(folder, bands.popularity or ""))


def _of_replay(replay: Replay, column: str, newest: int, units: int) -> tuple[Factor, Part]:
    days = len(replay.rates)
    rate: Rate = steps(replay, column, newest, units) if days > 1 else Constant(1.0)
    groups = tuple(f"day {day}" for day in range(days))
    # The table runs from the oldest day to the newest; a null, which there is none of, comes last.
    group_of = np.append(np.arange(days)[::-1], days - 1) if days > 1 else np.zeros(1, np.int64)
    title = f"replay: newest {replay.newest_days} days whole, older ones less"
    return Factor("keep", rate), Part(title, "keep", groups, replay.rates, group_of, None)


def time_problems(column: str, schema: pa.Schema, path: str) -> list[str]:
    """What keeps `column` from being the time of a file of that schema, a line each."""
    place = f"{path}: column {column}: expected integers (times)"
    if schema.names.count(column) != 1:
        return [f"{place}, found no such column" if column not in schema.names else f"{place}, found several of them"]
    kind = schema.field(column).type
    return [] if pa.types.is_integer(kind) else [f"{place}, found {kind}"]


def _raise(problems: Sequence[str]) -> None:
    """Raises `DataError` with a line for each problem, when there is any."""
    if problems:
        more = len(problems) - _SHOWN_PROBLEMS
        raise DataError("\n".join([*problems[:_SHOWN_PROBLEMS], *([f"and {more} more problems"] if more > 0 else [])]))
