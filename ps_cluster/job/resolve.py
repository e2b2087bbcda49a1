"""What follows from a job: its tables, the columns it reads, the model's inputs, its places on disk."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from data.columns import Column
from data.sample.sampling import OFFSET, WEIGHT
from models.inputs import InputSpec
from ps_cluster.job.sampling_schema import Time
from ps_cluster.job.schema import DenseFeature, Feature, IdFeature, IdListFeature, Job
from ps_cluster.job.table_schema import AdmitAll, Table

LENGTH_SUFFIX = "_length"
"""Behind a list feature's name: the export's input with the lengths of its lists."""


@dataclass(frozen=True)
class JobFile:
    """A job and the file it was read from."""

    job: Job
    path: str  # as it was given
    folder: str  # absolute; paths in the job start here
    text: str

    @property
    def output(self) -> str:
        """The output folder, absolute."""
        return os.path.normpath(os.path.join(self.folder, self.job.output))

    @property
    def checkpoints(self) -> str:
        """The folder of checkpoints: absolute, or an address."""
        folder = self.job.checkpoint.folder
        return os.path.join(self.output, "checkpoint") if folder is None else self.place(folder)

    @property
    def checkpoint_places(self) -> list[str]:
        """Where the job writes checkpoints, and where it reads one from."""
        start = self.job.checkpoint.warm_start
        return [self.checkpoints, *([self.place(start.folder)] if start is not None else [])]

    def place(self, path: str) -> str:
        """A path of the job file: absolute, or an address such as s3://bucket/folder."""
        return path if "://" in path else os.path.normpath(os.path.join(self.folder, path))


def training_patterns(job: Job) -> list[str]:
    """Files, folders or globs of the training samples, those that are there by now of a folder that is followed."""
    return [job.data.follow] if job.data.follow is not None else list(job.data.train)


def tables_of(job: Job) -> dict[str, Table]:
    """All tables by name: the declared ones, then the features' own, each in the order of the job file."""
    own = {
        f.name: Table(dim=f.dim, admission=f.admission or AdmitAll(kind="none"))
        for f in job.features
        if not isinstance(f, DenseFeature) and f.dim
    }
    return {**job.tables, **own}


def output_width(table: Table) -> int | None:
    """Width of the vectors that the model is given of the table's ids; None where the table is not right."""
    if table.tiers is None:
        return table.dim
    return table.output or max(tier.dim for tier in table.tiers)


def table_name(feature: IdFeature | IdListFeature) -> str:
    """Name of the table a feature's ids are looked up in."""
    return feature.table or feature.name


def columns_of(job: Job) -> list[Column]:
    """The label's column, then every column a feature needs, each once; the label as float32."""
    columns = [label_column(job.data.label), *(column_of(feature) for feature in job.features)]
    return list(dict.fromkeys(columns))


def training_columns_of(job: Job) -> list[Column]:
    """`columns_of`, the time, and where the training files hold them already the columns that sampling adds."""
    added = [time_column(job.data.time)] if job.data.time else []
    sampling = job.data.sampling
    if sampling and sampling.presampled:
        added += [Column(WEIGHT, "float32"), Column(OFFSET, "float32")]
    return list(dict.fromkeys([*columns_of(job), *added]))


def time_column(time: Time) -> Column:
    """The column of event times; a null in it is an error."""
    return Column(time.column, "int64")


def label_column(name: str) -> Column:
    """The column of labels; a null in it is an error."""
    return Column(name, "float32")


def column_of(feature: Feature) -> Column:
    """The column one feature is read from."""
    name = feature.column or feature.name
    if isinstance(feature, IdFeature):
        return Column(name, "int64", feature.missing)
    if isinstance(feature, IdListFeature):
        return Column(name, "int64_list", feature.missing, feature.max_length)
    return Column(name, "float32", feature.missing)


def inputs_of(job: Job) -> list[InputSpec]:
    """What the model is given, in the order of the features."""
    return inputs(job.features, job.tables)


def inputs(features: Sequence[Feature], tables: Mapping[str, Table]) -> list[InputSpec]:
    """`inputs_of` for features and declared tables, which are right."""
    specs = []
    for feature in features:
        if isinstance(feature, DenseFeature):
            specs.append(InputSpec(feature.name, "dense", 1))
            continue
        table = None if feature.dim else tables[table_name(feature)]
        dim = feature.dim or (output_width(table) if table else None)
        assert dim is not None, "the tables are checked"
        spec = InputSpec(feature.name, "vector", dim)
        if isinstance(feature, IdListFeature) and feature.pooling == "none":
            spec = replace(spec, kind="sequence", query=feature.query)
        if table and table.tiers:
            spec = replace(spec, table=table_name(feature), table_dim=max(tier.dim for tier in table.tiers))
        specs.append(spec)
    return specs
