"""What is said once: the head of a run, and its result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ps_cluster.report.status import Status
from ps_cluster.report.text import age, count, counted, duration, figure, may_match, share, size
from ps_cluster.report.tiers import in_words

_SHOWN_FILES = 5
_SHOWN_COLUMNS = 5
_SHOWN_IDS = 10


class Block(NamedTuple):
    """A title over rows of (label, text)."""

    title: str
    rows: list[tuple[str, str]]


def head(start: Mapping[str, Any]) -> Block:
    """Data, model size and cluster of a run, from its start event."""
    rows = [counted(start["rows"], "row") + " to train on"] if start["rows"] else []
    if start.get("test_rows") is not None:
        rows.append(f"{count(start['test_rows'])} to test on")
    model = [counted(start["dense_parameters"], "dense parameter")]
    if start.get("tables") is not None:
        model.append(counted(start["tables"], "embedding table"))
    plan = []
    if start.get("epochs") is not None:
        plan.append(counted(start["epochs"], "epoch"))
    if start.get("steps_total") is not None:
        plan.append(counted(start["steps_total"], "step"))
    if start.get("batch_size") is not None:
        each = f"{counted(start['batch_size'], 'row')} a worker and step"
        plan.append(each if start["workers"] > 1 else f"{counted(start['batch_size'], 'row')} a step")
    if start.get("seed") is not None:
        plan.append(f"seed {start['seed']}")
    ps = counted(start["ps"], "PS", "PS") if start["ps"] else "tables inside the worker"
    lines = [
        ("data", start["data"]),
        ("", _joined(rows)),
        ("where", start.get("where") or ""),
        ("", may_match(start["pruned"]) if start.get("pruned") else ""),
        *_left_out(start.get("files_lost") or []),
        ("model", start["model"]),
        ("", _joined(model)),
        ("", start.get("block") or ""),
        ("cluster", _joined([ps, counted(start["workers"], "worker")])),
        ("plan", _joined(plan)),
    ]
    job = start.get("job")
    return Block(f"Job {job}" if job else "Job", [line for line in lines if line[1]])


def line(event: Mapping[str, Any]) -> str:
    """A checkpoint that was written, or was not, or that tables or training start from, a restart, a file that was
    trained on, an export, in one line; damaged files of checkpoints in one each."""
    if event["event"] == "restart":
        return str(event["told"])
    if event["event"] == "damaged":
        return "\n".join(event["lines"])
    if event["event"] == "file":
        return _file(event)
    step = f"step {count(event['step'])}"
    if event["event"] == "recovered":
        ps = " and ".join(f"PS {index}" for index in event["ps"])
        part = f"its part of the checkpoint of step {count(event['checkpoint_step'])}"
        what = f"{ps} with {part if event['checkpoint_step'] else 'empty tables'}" if ps else "the same PS"
        return f"after {step}: training goes on with {what}, {float(event['seconds']):.1f} s after the loss"
    if event["event"] == "checkpoint_failed":
        return f"checkpoint of {step} NOT written: {event['problem']}"
    if event["event"] == "export_failed":
        return f"export of {step} NOT made: {event['problem']}"
    if event["event"] == "exported":
        delta = "changes only, " if event["delta"] else ""
        return f"exported {event['path']}: {delta}{size(event['size_bytes'])} in {float(event['seconds']):.1f} s"
    if event["event"] == "warm_start":
        tables = ", ".join(f"{name} {counted(rows, 'row')}" for name, rows in event["tables"].items())
        return f"warm start from {step} of {event['path']}: {tables}"
    if event["event"] == "resume":
        again = f"; {counted(event['rows_retrained'], 'row')} are trained again" if event["rows_retrained"] else ""
        if event.get("checkpoint") is None:
            return f"no checkpoint to go on from: training begins anew{again}"
        return f"goes on after {step} of {event['checkpoint']}: {counted(event['rows_trained'], 'row')} trained{again}"
    delta = "changes only, " if event["delta"] else ""
    seconds, pause = float(event["seconds"]), float(event["pause_seconds"])
    written = f"{delta}{size(event['size_bytes'])} in {seconds:.1f} s, training paused {pause * 1e3:.0f} ms"
    return f"checkpoint of {step}: {written}"


def _retrained(last: Mapping[str, Mapping[str, Any]]) -> int:
    """Rows that were trained again; of the last event of each kind that tells of them."""
    told = last.get("done", {}).get("rows_retrained")
    return int(told if told is not None else last.get("resume", {}).get("rows_retrained", 0))


def result(status: Status) -> Block:
    """Figures, tables and places of a finished run."""
    last = status.last
    rows: list[tuple[str, str]] = []
    if step := last.get("step"):
        figures = [
            f"AUC {figure(step.get('auc'))}",
            f"loss {figure(step['loss'])}",
            f"in the last steps, up to step {count(step['step'])}",
        ]
        rows.append(("training", "   ".join(figures)))
        if experts := step.get("experts"):
            rows += [("experts" if not number else "", text) for number, text in enumerate(_experts(experts))]
    resumed, retrained = last.get("resume", {}), _retrained(last)
    if step and (resumed or retrained):
        restarts = [counted(resumed["restarts"], "restart")] if resumed else []
        again = f"{counted(retrained, 'row')} trained again"
        rows.append(("rows", _joined([f"{counted(step['rows'], 'row')} trained", again, *restarts])))
    if found := last.get("evaluation"):
        figures = [
            f"AUC {figure(found['auc'])}" if found["auc"] is not None else "no AUC (one class only)",
            f"log-loss {figure(found['log_loss'])}",
            f"calibration {figure(found['calibration'], 3)}",
            f"on {counted(found['rows'], 'row')}",
        ]
        rows.append(("test", "   ".join(figures)))
    rows += [line for side, read in status.reading.items() for line in _damage(side, read)]
    if "tables" in last:
        rows += _tables(last["tables"]["tables"])
    if exported := last.get("exported"):
        written = exported.get("size_bytes")
        rows.append(("SavedModel", exported["path"] + (f" ({size(written)})" if written is not None else "")))
    rows += list(status.saved.items())
    if done := last.get("done"):
        speed = done.get("samples_per_second")
        suffix = f"   {count(float(speed))} samples/s while training" if speed is not None else ""
        suffix += f", MFU {share(float(done['mfu']))}" if done.get("mfu") is not None else ""
        rows.append(("time", duration(float(done["seconds"])) + suffix))
    return Block("Result", rows)


def commands(event: Mapping[str, Any]) -> Block:
    """The next commands to try, from a `next` event."""
    return Block("Next", [("", line) for command, why in event["commands"] for line in (command, f"    {why}")])


def evicted(event: Mapping[str, Any]) -> str:
    """The ids that eviction removed, as a line."""
    ids = event["ids"]
    more = f" and {count(len(ids) - _SHOWN_IDS)} more" if len(ids) > _SHOWN_IDS else ""
    shown = ", ".join(str(one) for one in ids[:_SHOWN_IDS])
    return f"step {count(event['step'])}: {counted(len(ids), 'id')} evicted from {event['table']}: {shown}{more}"


def _file(event: Mapping[str, Any]) -> str:
    name = f"file {count(event['files'])}, {event['path'].rpartition('/')[2]}"
    if event.get("problem"):
        return f"{name}: left out: {event['problem']}"
    parts = [counted(event["rows"], "row")]
    if event["scored"]:
        before = f"AUC {figure(event['auc'])}, log-loss {figure(event['log_loss'])} before training on it"
        parts.append(before if event["scored"] == event["rows"] else f"{before} ({count(event['scored'])} of them)")
    if event.get("newest_event_time") is not None:
        parts.append(f"newest event {age(event['time'] - float(event['newest_event_time']))}")
    return f"{name}: {', '.join(parts)}"


def _left_out(files: Sequence[str]) -> list[tuple[str, str]]:
    shown = [("left out" if not number else "", problem) for number, problem in enumerate(files[:_SHOWN_FILES])]
    if len(files) > len(shown):
        shown.append(("", f"and {counted(len(files) - len(shown), 'more file')}"))
    return shown


def _damage(side: str, read: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    lost = [counted(read["rows_lost"], "row")] if read["rows_lost"] else []
    lost += [counted(read["files_lost"], "file")] if read["files_lost"] else []
    if lost:
        yield "left out", f"{_joined(lost)} of the {side} data"
    nulls = read["nulls_filled"]
    if nulls:
        most = sorted(nulls, key=lambda name: -nulls[name])
        shown = ", ".join(f"{name} {count(nulls[name])}" for name in most[:_SHOWN_COLUMNS])
        more = f" and {counted(len(most) - _SHOWN_COLUMNS, 'more column')}" if len(most) > _SHOWN_COLUMNS else ""
        yield "nulls", f"filled in the {side} data: {shown}{more}"


def _experts(experts: Mapping[str, Any]) -> Iterator[str]:
    """How much the experts were used in the last steps, and how evenly."""
    yield (
        f"{share(experts['active'])} active, wanted {share(experts['target'])}, by a penalty of "
        f"{experts['penalty']:.1e}"
        + (f"; {count(experts['idle'])} of {count(experts['experts'])} in no row" if experts["idle"] else "")
    )
    for number, (least, mean, most) in enumerate(experts["layers"]):
        yield f"  layer {number}: {share(mean)}, the least used expert {share(least)}, the most used {share(most)}"


def _tables(tables: list[Mapping[str, Any]]) -> list[tuple[str, str]]:
    total = sum(table["rows"] for table in tables)
    total_bytes = sum(table["bytes"] for table in tables)
    lines = [f"{counted(len(tables), 'table')}, {counted(total, 'row')}, {size(total_bytes)}"]
    if len(tables) > 1:
        name = max(len(table["name"]) for table in tables)
        number = max(len(count(table["rows"])) for table in tables)
        lines += [
            f"  {table['name']:{name}}  {count(table['rows']):>{number}} rows  {size(table['bytes']):>8}"
            for table in tables
        ]
    for table in tables:
        if words := in_words(table):
            lines.append(f"  {table['name']}: {words}")
    lines += _statistics([table["statistics"] for table in tables if table.get("statistics")])
    return [("embeddings" if not number else "", line) for number, line in enumerate(lines)]


def _statistics(tables: list[Mapping[str, Any]]) -> list[str]:
    """What is worth a word: memory, hits, what admission, eviction and tiers did."""
    if not tables:
        return []
    memory = sum(table["memory_bytes"] for table in tables)
    looked_up = sum(table["looked_up"] for table in tables)
    hits = sum(table["looked_up"] * (table["hit_share"] or 0.0) for table in tables)
    pause = max(seconds for table in tables for seconds in table["longest_pause_seconds"].values())
    first = [f"{size(memory)} of memory", f"longest pause {1000 * pause:.1f} ms"]
    if looked_up:
        first.insert(1, f"{hits / looked_up:.1%} of look-ups found a row")
    lines = [_joined(first)]
    admitted = sum(table["admitted"] for table in tables)
    refused = sum(table["refused"] for table in tables)
    if refused:
        lines.append(_joined([f"{counted(admitted, 'id')} admitted", f"{counted(refused, 'update')} refused"]))
    evicted = {reason: sum(table["evicted"][reason] for table in tables) for reason in tables[0]["evicted"]}
    if any(evicted.values()):
        lines.append("evicted " + _joined([f"{count(rows)} by {reason}" for reason, rows in evicted.items() if rows]))
    return lines


def _joined(parts: list[str]) -> str:
    return " · ".join(part for part in parts if part)
