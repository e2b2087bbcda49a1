"""What a column's value becomes, one value at a time in plain Python."""

from __future__ import annotations

import functools
import math
from datetime import datetime, timezone
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import tensorflow as tf

from data.convert.schema import SamplesSchema

MISSING = object()  # what a bad value becomes


def hashed(text: Any, seed: int = 0) -> int:
    raw = text if isinstance(text, bytes) else str(text).encode()
    if not raw:
        return 0
    return fingerprint(f"{seed}:".encode() + raw if seed else raw)


@functools.cache
def fingerprint(raw: bytes) -> int:
    return int(tf.bitcast(tf.fingerprint([raw]), tf.int64)[0])


def integer(value: Any) -> Any:
    if isinstance(value, str):
        text = value.strip()
        if not text:
            return None if not value else MISSING
        if not (text.removeprefix("-").isascii() and text.removeprefix("-").isdigit()):
            return MISSING
        value = int(text)
    if isinstance(value, float):
        if not math.isfinite(value) or value != int(value) or abs(value) > 2**53:
            return MISSING
        value = int(value)
    if value is None:
        return None
    return int(value) if -(2**63) <= value < 2**63 else MISSING


def number(value: Any) -> Any:
    if isinstance(value, str):
        if not value:
            return None
        try:
            value = float(value)
        except ValueError:
            return MISSING
    if value is None:
        return None
    with np.errstate(over="ignore"):
        result = float(np.float32(value))
    return result if math.isfinite(result) else MISSING


def listed(value: Any, separator: str, item: Any, empty_items: str) -> Any:
    if value is None:
        return None
    tokens = [value] if isinstance(value, str) else list(value)
    if tokens == [""]:
        return []
    parts: list[Any] = []
    for token in tokens:
        parts += token.split(separator) if isinstance(token, str) else [token]
    if empty_items == "drop":
        parts = [part for part in parts if part != ""]
    if any(part is None or part == "" for part in parts):
        return MISSING
    result = [item(part) for part in parts]
    return MISSING if any(part is MISSING for part in result) else result


def iso(text: str, zone: str) -> int:
    stamp = datetime.fromisoformat(text)
    if stamp.tzinfo is None:
        stamp = stamp.replace(tzinfo=ZoneInfo(zone))
    epoch = datetime(1970, 1, 1, tzinfo=timezone.utc)
    return (stamp - epoch) // (datetime.resolution * 1000)


def row(values: dict[str, Any], schema: SamplesSchema) -> dict[str, Any] | None:
    """The training row, or None for a bad one."""
    result: dict[str, Any] = {}
    for column in schema.columns:
        value = values[column.source_name]
        found: Any
        if column.kind == "id":
            found = integer(value)
        elif column.kind == "hashed_id":
            found = None if value is None else hashed(value, schema.hash_seed)
        elif column.kind == "id_list":
            found = listed(value, column.separator, integer, column.empty_items)
        elif column.kind == "hashed_id_list":
            found = listed(value, column.separator, lambda text: hashed(text, schema.hash_seed), column.empty_items)
        elif column.kind == "dense":
            found = number(value)
        elif column.kind == "label":
            known = {"0": 0, "1": 1, "0.0": 0, "1.0": 1, "true": 1, "false": 0, "True": 1, "False": 0, "": None}
            found = known.get(value, MISSING) if isinstance(value, str) else integer(value)
            found = found if found in (0, 1, None) else MISSING
        elif value is None or value == "":
            found = None
        elif column.format == "iso8601":
            found = iso(value, column.zone)
        else:
            found = int(value) * {"epoch_seconds": 1000, "epoch_milliseconds": 1}[column.format]
        if found is None:
            if column.missing == "error":
                return None
            if column.missing == "empty":
                found = []
            elif getattr(column, "fill", None) is not None:
                found = column.fill
        if found is MISSING:
            return None
        result[column.name] = found
    return result
