"""The model card: what an export was made of and how good it is, for a person and for programs."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from data.errors import DataError
from data.files import is_address, open_input
from data.format.tail import column_id, read_tail
from data.paths import expand
from ps_cluster.export.check import Checked
from ps_cluster.export.description import EXTRA, Description, write_extra
from ps_cluster.export.version_folder import folder_bytes
from ps_cluster.job.resolve import JobFile, training_patterns
from ps_cluster.report.event_log import AGAIN, before
from ps_cluster.report.versions import package_versions, revision_of

CARD = os.path.join(EXTRA, "model_card.json")
CARD_TEXT = os.path.join(EXTRA, "model_card.md")

_METRICS = ("auc", "log_loss", "calibration", "rows")


def write_card(
    model: str,
    job_file: JobFile,
    described: Description,
    folded: tuple[str, ...],
    sampling: Mapping[str, Any] | None,
    checked: Checked | None,
) -> None:
    """Writes the card into a SavedModel's folder.

    checked: how the export's scores differ from the trainer's; None: they were not compared.
    """
    job = job_file.job
    card = {
        "format_version": 1,
        "name": job.name,
        "job_file": job_file.text or None,
        "job_file_revision": revision_of(job_file.folder),
        "checkpoint": {"step": described.source.step, "manifest_crc32": described.source.crc32},
        "data": {"train": training_patterns(job), "test": list(job.data.test), "where": job.data.where}
        | {"sampling": sampling, "time": _window(job_file)},
        "model": job.model.model_dump(mode="json"),
        "metrics": _metrics(job_file, described.source.step),
        "export": {
            "form": described.form,
            "kind": described.kind,
            "rows": described.rows,
            "shards": described.shards,
            "folded": list(folded),
            "error": asdict(checked) if checked is not None else None,
        },
        "sizes": {
            "tables": {name: {"rows": size.rows, "width": size.width} for name, size in described.tables.items()},
            "variables_bytes": folder_bytes(os.path.join(model, "variables")),
        },
        "versions": package_versions(),
    }
    _write(model, card)


def set_sizes(model: str, rows: Mapping[str, int]) -> None:
    """Corrects the sizes on the card of a model whose tables have been filled since it was written."""
    with open(os.path.join(model, CARD), encoding="utf-8") as file:
        card = json.load(file)
    for name, count in rows.items():
        card["sizes"]["tables"][name]["rows"] = count
    card["sizes"]["variables_bytes"] = folder_bytes(os.path.join(model, "variables"))
    _write(model, card)


def _write(model: str, card: Mapping[str, Any]) -> None:
    write_extra(model, "model_card.json", card)
    with open(os.path.join(model, CARD_TEXT), "w", encoding="utf-8") as file:
        file.write("\n".join(_text(card)) + "\n")


def _text(card: Mapping[str, Any]) -> Iterator[str]:
    """The card in Markdown."""
    export, data, metrics = card["export"], card["data"], card["metrics"]
    yield f"# {card['name']}\n"
    yield f"- checkpoint of step {card['checkpoint']['step']:,}, manifest {card['checkpoint']['manifest_crc32']:08x}"
    yield f"- job file at revision {card['job_file_revision'] or 'none: it is in no git repository'}"
    yield f"- trained on {', '.join(data['train'])}{' where ' + data['where'] if data['where'] else ''}"
    if time := data["time"]:
        yield f"- times ({time['column']}, {time['unit']}): {time['first']} to {time['last']}"
    if data["sampling"]:
        yield "- training rows were sampled; the logits are those of all rows"
    if metrics:
        yield (
            f"- test: AUC {metrics['auc']:.4f}, log-loss {metrics['log_loss']:.4f}, calibration "
            f"{metrics['calibration']:.3f}, on {metrics['rows']:,} rows"
        )
    else:
        yield "- test: no figures of this step"
    shards = f", {export['shards']} shards" if export["shards"] else ""
    yield f"- form `{export['form']}`{shards}, rows {export['rows']}"
    error = export["error"]
    if error is None:
        yield "- scores not compared with the trainer's (`ps-cluster export --check`)"
    else:
        yield (
            f"- logits against the trainer's on {error['rows']:,} rows: at most {error['largest']:.2e} apart, "
            f"{error['mean']:.2e} in the mean (limit {error['tolerance']:g})"
        )
        if error["auc_trainer"] is not None:
            yield f"- AUC on these: {error['auc_trainer']:.4f} of the trainer, {error['auc_export']:.4f} of the export"
    yield f"- {card['sizes']['variables_bytes']:,} bytes of variables\n"
    yield "| table | rows | width |\n|---|---|---|"
    for name, size in card["sizes"]["tables"].items():
        yield f"| {name} | {size['rows']:,} | {size['width']} |"
    if card["job_file"]:
        yield f"\n```yaml\n{card['job_file'].rstrip()}\n```"


def _metrics(job_file: JobFile, step: int) -> dict[str, Any] | None:
    """Test figures of the run, where they are those of this step; from the run's events."""
    last: dict[str, Mapping[str, Any]] = {}
    events = os.path.join(job_file.output, "events.jsonl")
    for path in (before(events), events):
        try:
            with open(path, "rb") as file:
                for line in file:
                    try:
                        event = json.loads(line)
                    except (ValueError, RecursionError):
                        continue  # of a run that is writing it
                    if not isinstance(event, dict) or AGAIN in event:
                        continue
                    if event.get("event") == "start":
                        last = {}
                    last[str(event.get("event"))] = event
        except FileNotFoundError:
            continue
        except OSError:
            return None
    test = last.get("evaluation")
    if test is None or last.get("step", {}).get("step") != step:
        return None
    found = {name: test.get(name) for name in _METRICS}
    return None if any(value is None or isinstance(value, str) for value in found.values()) else found


def _window(job_file: JobFile) -> dict[str, Any] | None:
    """First and last time of the training files, by what their footers say; None where that is not known."""
    time = job_file.job.data.time
    patterns = training_patterns(job_file.job)
    if time is None or any(is_address(pattern) for pattern in patterns):
        return None
    first: float | None = None
    last: float | None = None
    try:
        for path in expand(patterns, job_file.folder):
            with open_input(path) as file:
                tail = read_tail(file, path)
            of_column = tail.column_statistics[column_id(tail, time.column)]
            if of_column.minimum is None or of_column.maximum is None:
                return None
            first = of_column.minimum if first is None else min(first, of_column.minimum)
            last = of_column.maximum if last is None else max(last, of_column.maximum)
    except (DataError, OSError, LookupError):
        return None
    return {"column": time.column, "unit": time.unit, "first": first, "last": last}
