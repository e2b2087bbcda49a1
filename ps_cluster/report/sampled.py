"""What a job's sampling did to its rows, as plain values and as a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from data.sample.sampled_files import Counts, Tally
from ps_cluster.job.sampling import Resolved

_SHOWN_DAYS = 30


def summary_of(resolved: Resolved, counts: Counts) -> dict[str, Any]:
    """The counts as JSON values.

    A group of rows has `read`, `kept` (rows before and after sampling), `share` (kept / read), `weight` (sum over the
    kept rows) and `mean_weight` (weight / kept); of a rule also `rate`, the one asked for. `positive_share` is that of
    label 1 among the rows `read` and `kept`, and among the kept ones by `weight`. In `replay`, `newest_share` is the
    share of the newest days among the kept rows, beside what was `asked` for and what the rates are `expected` to
    give.
    """
    labels = counts.labels
    told: dict[str, Any] = {
        "seed": resolved.sampling.seed,
        "newest_time": resolved.newest,
        "left_out_by_where": counts.skipped,
        "lost": counts.lost,
        "all": _row(labels.read.sum(), labels.kept.sum(), labels.weight.sum()),
        "labels": [{"label": label, **_group(labels, label)} for label in (0, 1)],
        "other_labels": _group(labels, 2),
        "positive_share": {
            name: _ratio(values[1], values[0] + values[1])
            for name, values in (("read", labels.read), ("kept", labels.kept), ("weight", labels.weight))
        },
        "rules": [],
        "replay": None,
    }
    for part, tally in zip(resolved.parts, counts.factors):
        rows = [
            {"rows": name, "rate": rate, **_group(tally, index)}
            for index, (name, rate) in enumerate(zip(part.groups, part.rates))
        ]
        if part.rule is not None:
            told["rules"].append({"rule": part.title, "kind": part.kind, "groups": rows})
        elif resolved.replay is not None:
            newest = tally.kept[: resolved.replay.newest_days].sum()
            told["replay"] = {
                "newest_days": resolved.replay.newest_days,
                "asked": resolved.replay.asked,
                "expected": resolved.replay.share,
                "newest_share": _ratio(newest, tally.kept.sum()),
                "problem": resolved.replay.problem,
                "days": rows,
            }
    return told


def table_of(summary: dict[str, Any]) -> Iterator[str]:
    """The summary for people, line by line."""
    rows: list[tuple[str, float | None, dict[str, Any]]] = [("all rows", None, summary["all"])]
    rows += [(f"  label {one['label']}", None, one) for one in summary["labels"]]
    if summary["other_labels"]["read"]:
        rows.append(("  another label or none", None, summary["other_labels"]))
    for rule in summary["rules"]:
        groups = rule["groups"]
        if len(groups) == 1:
            rows.append((rule["rule"], groups[0]["rate"], groups[0]))
            continue
        rows.append((rule["rule"], None, _sum(groups)))
        rows += [(f"  {group['rows']}", group["rate"], group) for group in groups if group["read"]]
    replay = summary["replay"]
    if replay is not None:
        newest, older = replay["days"][: replay["newest_days"]], replay["days"][replay["newest_days"] :]
        rows.append((f"replay: {_newest(replay)}", 1.0, _sum(newest)))
        rows.append(("  older", None, _sum(older)))
        rows += [(f"    {day['rows']}", day["rate"], day) for day in older[:_SHOWN_DAYS] if day["read"]]
    width = min(max(len(name) for name, _, _ in rows), 70)
    yield f"{'':{width}} {'rate':>7} {'read':>14} {'kept':>14} {'share':>7} {'weight':>7}"
    for name, rate, row in rows:
        shown = name if len(name) <= width else name[: width - 1] + "…"
        rate_text = "" if rate is None else f"{rate:.4g}"
        share = "" if row["share"] is None else f"{row['share']:.1%}"
        weight = "" if row["mean_weight"] is None else f"{row['mean_weight']:.3f}"
        yield f"{shown:{width}} {rate_text:>7} {row['read']:>14,} {row['kept']:>14,} {share:>7} {weight:>7}"
    if replay is not None and len(older) > _SHOWN_DAYS:
        more = len(older) - _SHOWN_DAYS
        yield f"    and {more:,} more day{'s' * (more != 1)} (--json shows all)"
    if summary["left_out_by_where"]:
        yield f"left out by where: {_rows(summary['left_out_by_where'])}"
    if summary["lost"]:
        yield f"left out by on_bad, as damaged or wrong: {_rows(summary['lost'])}"
    before, kept, weighted = (summary["positive_share"][name] for name in ("read", "kept", "weight"))
    if None not in (before, kept, weighted):
        yield f"label 1: {before:.2%} of the rows read, {kept:.2%} of those kept, {weighted:.2%} by weight"
    if replay is not None:
        yield (f"{_newest(replay)}: {replay['newest_share']:.2%} of the rows kept, {replay['asked']:.2%} asked for")
        if replay["problem"]:
            yield f"replay: {replay['problem']}"


def _newest(replay: dict[str, Any]) -> str:
    days = replay["newest_days"]
    return "newest day" if days == 1 else f"newest {days:,} days"


def _rows(many: int) -> str:
    return f"{many:,} row{'' if many == 1 else 's'}"


def _group(tally: Tally, index: int) -> dict[str, Any]:
    return _row(tally.read[index], tally.kept[index], tally.weight[index])


def _sum(groups: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return _row(*(sum(group[name] for group in groups) for name in ("read", "kept", "weight")))


def _row(read: int | np.integer, kept: int | np.integer, weight: float | np.floating) -> dict[str, Any]:
    return {
        "read": int(read),
        "kept": int(kept),
        "share": _ratio(kept, read),
        "weight": float(weight),
        "mean_weight": _ratio(weight, kept),
    }


def _ratio(part: float | np.number, whole: float | np.number) -> float | None:
    return float(part / whole) if whole else None
