"""How the small log of these tests is declared."""

from __future__ import annotations

from typing import Any

from data.convert.schema import SamplesSchema

COLUMNS = [
    {"name": "user_id", "source": "user", "kind": "id"},
    {"name": "timestamp", "source": "time", "kind": "time", "format": "epoch_seconds"},
    {"name": "label", "kind": "label"},
    {"name": "city", "kind": "hashed_id"},
    {"name": "history", "kind": "id_list"},
    {"name": "tags", "kind": "hashed_id_list", "separator": "|"},
    {"name": "price", "kind": "dense"},
]


def schema(**rest: Any) -> SamplesSchema:
    values = {"columns": COLUMNS, "sort": ["user_id", "timestamp"], "output": {"rows_per_file": 300}, **rest}
    return SamplesSchema.model_validate(values, strict=True)
