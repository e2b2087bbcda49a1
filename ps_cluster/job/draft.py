"""As much of a job as is right so far, so that checks between fields need not wait for the rest."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, TypeAdapter, ValidationError

from models.config import ModelConfig
from ps_cluster.job.export_schema import Export
from ps_cluster.job.failures_schema import Failures
from ps_cluster.job.problems import Path
from ps_cluster.job.schema import (
    Checkpoint,
    Cluster,
    DataSection,
    Feature,
    Job,
    Optimizers,
    Schedule,
    Training,
)
from ps_cluster.job.table_schema import Table

_FEATURE: TypeAdapter[Feature] = TypeAdapter(Feature)
_MODEL: TypeAdapter[Any] = TypeAdapter(ModelConfig)


@dataclass(frozen=True)
class Draft:
    """Sections of a job, None where wrong. Of a wrong feature or table at least the name may be known."""

    features: tuple[Feature | None, ...] = ()
    feature_names: tuple[str | None, ...] = ()
    features_known: bool = False  # every feature is there and right
    tables: Mapping[str, Table | None] | None = None
    data: DataSection | None = None
    model: Any | None = None
    optimizers: Optimizers | None = None
    schedule: Schedule | None = None
    training: Training | None = None
    checkpoint: Checkpoint | None = None
    export: Export | None = None
    cluster: Cluster | None = None
    failures: Failures | None = None
    output: str | None = None


def draft_of_job(job: Job) -> Draft:
    """A draft with nothing missing."""
    return Draft(
        features=tuple(job.features),
        feature_names=tuple(feature.name for feature in job.features),
        features_known=True,
        tables=job.tables,
        data=job.data,
        model=job.model,
        optimizers=job.optimizers,
        schedule=job.schedule,
        training=job.training,
        checkpoint=job.checkpoint,
        export=job.export,
        cluster=job.cluster,
        failures=job.failures,
        output=job.output,
    )


def draft_of_values(values: Mapping[str, object], wrong: Collection[Path]) -> Draft:
    """The parts of a job's plain values that hold no wrong place."""

    def right(*path: str | int) -> bool:
        return not any(place[: len(path)] == path for place in wrong)

    def section(name: str, kind: type[BaseModel] | TypeAdapter[Any], default: object = None) -> Any:
        if not right(name):
            return None
        if name not in values:
            return default
        return _valid(kind, values[name])

    listed = values.get("features")
    items: list[object] = listed if isinstance(listed, list) else []
    features = tuple(_valid(_FEATURE, item) if right("features", index) else None for index, item in enumerate(items))
    names = tuple(item.get("name") if isinstance(item, dict) else None for item in items)
    tables = values.get("tables", {})
    return Draft(
        features=features,
        feature_names=tuple(name if isinstance(name, str) else None for name in names),
        features_known=bool(features) and None not in features and right("features"),
        tables={name: _valid(Table, table) if right("tables", name) else None for name, table in tables.items()}
        if isinstance(tables, dict)
        else None,
        data=section("data", DataSection),
        model=section("model", _MODEL),
        optimizers=section("optimizers", Optimizers),
        schedule=section("schedule", Schedule, Schedule()),
        training=section("training", Training),
        checkpoint=section("checkpoint", Checkpoint, Checkpoint()),
        export=section("export", Export),
        cluster=section("cluster", Cluster, Cluster()),
        failures=section("failures", Failures, Failures()),
        output=values["output"] if right("output") and isinstance(values.get("output"), str) else None,  # type: ignore[arg-type]
    )


def _valid(kind: type[BaseModel] | TypeAdapter[Any], value: object) -> Any:
    """The value as `kind`, or None where only a part of what is wrong was found before."""
    try:
        if isinstance(kind, TypeAdapter):
            return kind.validate_python(value, strict=True)
        return kind.model_validate(value, strict=True)
    except ValidationError:
        return None
