"""What an export says of itself for programs: what it was made of, what its inputs are read from, how large it is."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from pydantic import with_config

from ps_cluster.checkpoint.finding import Checkpoint
from ps_cluster.errors import UserError
from ps_cluster.export.frozen_layout import Form
from ps_cluster.export.row_types import RowType
from ps_cluster.job.resolve import column_of
from ps_cluster.job.schema import Job
from ps_cluster.json_file import NO_OTHER_FIELDS, checked, read_mapping, taken

FORMAT_VERSION = 1
EXTRA = "assets.extra"
DESCRIPTION = os.path.join(EXTRA, "export.json")

Kind = Literal["ranker", "shard", "dense"]


@with_config(NO_OTHER_FIELDS)
@dataclass(frozen=True)
class Source:
    """The checkpoint that an export is of: the job's name, the step, the CRC-32 of its manifest."""

    job: str
    step: int
    crc32: int


@with_config(NO_OTHER_FIELDS)
@dataclass(frozen=True)
class ServedFeature:
    """A feature as it is read from samples. missing, max_length: as of `data.columns.Column`."""

    name: str
    kind: Literal["int64", "float32", "int64_list"]
    column: str
    missing: int | float | str | None
    max_length: int | None


@with_config(NO_OTHER_FIELDS)
@dataclass(frozen=True)
class TableSize:
    """Rows of a table and how wide they are."""

    rows: int
    width: int


@with_config(NO_OTHER_FIELDS)
@dataclass(frozen=True)
class Description:
    """An export.

    kind: `ranker`, all in one; of the sharded form `shard`, rows of the tables, and `dense`, what scores their vectors.
    label: the column of labels in the job's samples. shard, shards: of a shard, its number of how many; of `dense`
    shards alone. inputs, table_of: of `dense`, by table the input that takes its vectors, by feature its table.
    """

    kind: Kind
    form: Form
    rows: RowType
    source: Source
    label: str
    features: tuple[ServedFeature, ...]
    tables: dict[str, TableSize]
    shard: int | None = None
    shards: int | None = None
    inputs: dict[str, str] | None = None
    table_of: dict[str, str] | None = None

    def with_sizes(self, rows: Mapping[str, int]) -> Description:
        """The same with so many rows of each table."""
        return replace(self, tables={name: TableSize(rows[name], size.width) for name, size in self.tables.items()})


def source_of(job: Job, checkpoint: Checkpoint) -> Source:
    """What a checkpoint is known by."""
    return Source(job.name, checkpoint.step, checkpoint.manifest.crc32())


def served_features(job: Job) -> tuple[ServedFeature, ...]:
    """A job's features, in their order."""
    found = []
    for feature in job.features:
        column = column_of(feature)
        found.append(ServedFeature(feature.name, column.kind, column.name, column.missing, column.max_length))
    return tuple(found)


def write_description(model: str, description: Description) -> None:
    """Writes it into a SavedModel's folder."""
    write_extra(model, "export.json", {"format_version": FORMAT_VERSION, **asdict(description)})


def write_extra(model: str, name: str, content: Any) -> None:
    """Writes JSON beside a SavedModel's own files."""
    folder = os.path.join(model, EXTRA)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        json.dump(content, file, indent=1)
        file.write("\n")


def read_description(model: str) -> Description:
    """What an export in a folder says of itself.

    Raises:
        UserError: there is none that this release can read; names file and field.
    """
    path = os.path.join(model, DESCRIPTION)
    content = read_mapping(path, "the description of an export")
    version = taken(path, content, "format_version", int)
    if version != FORMAT_VERSION:
        raise UserError(f"{path}: expected format version {FORMAT_VERSION}, found {version}")
    return checked(path, content, Description)
