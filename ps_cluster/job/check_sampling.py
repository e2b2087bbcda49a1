"""Rules of a job's sampling that hold between fields."""

from __future__ import annotations

import keyword
from collections.abc import Iterator, Sequence

from data.where import WhereError, parse
from ps_cluster.job.problems import Path, Problem, listed, quoted
from ps_cluster.job.sampling_schema import Bands, Rule, Sampling

_HERE: Path = ("data", "sampling")


def sampling_problems(sampling: Sampling, label: str) -> Iterator[Problem]:
    """Broken rules of the section; `label` is the name of the label's column."""
    if sampling.presampled:
        others = sorted(sampling.model_fields_set - {"presampled"})
        if others:
            yield Problem((*_HERE, others[0]), "no other field beside 'presampled'", listed(others))
        return
    if not sampling.rules and sampling.replay is None:
        yield Problem(_HERE, "'rules' or 'replay'", "neither")
    if sampling.replay is not None and sampling.time is None:
        yield Problem((*_HERE, "replay"), "'time' beside 'replay'", "no such field")
    if sampling.time is not None and sampling.time.column == label:
        yield _label_used((*_HERE, "time", "column"), label)
    for index, rule in enumerate(sampling.rules):
        yield from _rule((*_HERE, "rules", index), rule, sampling, label)


def _rule(path: Path, rule: Rule, sampling: Sampling, label: str) -> Iterator[Problem]:
    given = [name for name in ("keep", "weight", "bands") if getattr(rule, name) is not None]
    if len(given) != 1:
        yield Problem(path, "one of 'keep', 'weight' and 'bands'", listed(given) if given else "none of them")
    if rule.newest_hours is not None:
        where = (*path, "newest_hours")
        if sampling.time is None:
            yield Problem(where, f"'time' in {'.'.join(map(str, _HERE))}", "no such field")
        elif not sampling.time.column.isidentifier() or keyword.iskeyword(sampling.time.column):
            yield Problem(
                (*_HERE, "time", "column"),
                "a name of letters, digits and _ where a rule has 'newest_hours'",
                quoted(sampling.time.column),
            )
    if rule.when is not None:
        yield from _when((*path, "when"), rule.when, label)
    if rule.bands is not None:
        yield from _bands((*path, "bands"), rule.bands, label)


def _when(path: Path, text: str, label: str) -> Iterator[Problem]:
    try:
        where = parse(text)
    except WhereError as error:
        yield condition_problem(path, error)
        return
    if label in where.columns:
        yield Problem(path, "a condition without the label (there is 'label' for it)", quoted(text))


def condition_problem(path: Path, error: WhereError) -> Problem:
    """A text that is no condition, as a problem."""
    expected, found, rest = str(error).partition(", found ")
    if found and expected.startswith("expected "):
        return Problem(path, expected.removeprefix("expected "), rest)
    return Problem(path, 'a condition such as "day >= 20260101 and country in (3, 7)"', str(error))


def _bands(path: Path, bands: Bands, label: str) -> Iterator[Problem]:
    if bands.column == label:
        yield _label_used((*path, "column"), label)
    ends = {name: getattr(bands, name) for name in ("top_ids", "top_share", "bounds")}
    given = [name for name, values in ends.items() if values is not None]
    if len(given) != 1:
        yield Problem(path, "one of 'top_ids', 'top_share' and 'bounds'", listed(given) if given else "none of them")
    for name in given:
        values: Sequence[float] = ends[name]
        if not values or any(a >= b for a, b in zip(values, values[1:])):
            found = "an empty list" if not values else str(list(values))
            yield Problem((*path, name), "a list of numbers, each above the one before", found)
        elif name == "bounds" and any(float(int(value)) != value for value in values if abs(value) >= 2**53):
            yield Problem((*path, name), "numbers below 2**53", str(list(values)))
    by_popularity = given and given[0] != "bounds"
    if given and by_popularity != (bands.popularity is not None):
        if by_popularity:
            yield Problem(path, f"'popularity' beside {quoted(given[0])}", "no such field")
        else:
            yield Problem((*path, "popularity"), "'top_ids' or 'top_share' beside 'popularity'", "'bounds'")
    rates = [name for name in ("keep", "weight") if getattr(bands, name) is not None]
    if len(rates) != 1:
        yield Problem(path, "either 'keep' or 'weight'", "both" if rates else "neither")
    if len(given) == len(rates) == 1 and ends[given[0]]:
        wanted, count = len(ends[given[0]]) + 1, len(getattr(bands, rates[0]))
        if wanted != count:
            yield Problem((*path, rates[0]), f"{wanted} rates, one more than {quoted(given[0])} has ends", f"{count}")


def _label_used(path: Path, label: str) -> Problem:
    return Problem(path, "a column other than the label", quoted(label))
