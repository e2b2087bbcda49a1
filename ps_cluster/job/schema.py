"""The job file as data: every field with its meaning, unit and default."""

from __future__ import annotations

from typing import Annotated, Literal, Union

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, NonNegativeInt, PositiveFloat, PositiveInt

from models.config import ModelConfig
from ps_cluster.job.export_schema import Export
from ps_cluster.job.failures_schema import MOST_SECONDS, Failures
from ps_cluster.job.kubernetes_schema import Kubernetes
from ps_cluster.job.planning_schema import Planning
from ps_cluster.job.sampling_schema import Sampling, Time
from ps_cluster.job.table_schema import Admission, Name, SparseOptimizer, Table, Width

# `expected` is what a message about a wrong value calls a right one.
JobName = Annotated[
    str,
    Field(
        pattern=r"^[a-z]([a-z0-9-]*[a-z0-9])?$",
        max_length=40,
        json_schema_extra={
            "expected": "a name: a lower-case letter, then lower-case letters, digits or inner -, at most 40"
        },
    ),
]
Address = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]+:[0-9]{1,5}$", json_schema_extra={"expected": "host:port"})]
Text = Annotated[str, Field(min_length=1)]


def _auto_or_count(value: object) -> object:
    if value == "auto" or (isinstance(value, int) and not isinstance(value, bool) and value > 0):
        return value
    raise ValueError("expected 'auto' or an integer above 0")


# Checked before the union, which would tell two problems of one value.
AutoOrCount = Annotated[
    Union[Literal["auto"], PositiveInt],
    BeforeValidator(_auto_or_count),
    Field(json_schema_extra={"expected": "'auto' or an integer above 0"}),
]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class DataSection(_Section):
    """Where the samples lie and how they are read."""

    train: list[Text] = Field(
        default_factory=list,
        min_length=1,
        description="ORC files, folders or globs to train on; relative to the job file's folder. Give this or "
        "`follow`.",
    )
    follow: Text | None = Field(
        None,
        description="Folder, relative to the job file's folder, or address whose ORC files are trained as they appear, "
        "each once, for ever. Files get there whole, by renaming; names that begin with a dot or end in `.partial.orc` "
        "are left alone. Give this or `train`.",
    )
    poll_seconds: PositiveFloat = Field(
        5.0, le=MOST_SECONDS, description="With `follow`: seconds between two looks at the folder."
    )
    idle_seconds: PositiveFloat | None = Field(
        None, description="With `follow`: training ends when no file has appeared for so long. Default: it never ends."
    )
    test: list[Text] = Field([], description="ORC files, folders or globs to evaluate on after training.")
    label: Text = Field(description="Column with the label: 0 or 1.")
    time: Time | None = Field(
        None, description="When a row happened; for tables that evict by hours. Read while training only."
    )
    where: Text | None = Field(
        None,
        description="Only rows for which this is true are read, for training and testing alike: comparisons of number "
        "columns with numbers, e.g. `day >= 20260101 and country in (3, 7)`. Default: all rows.",
    )
    shuffle_rows: NonNegativeInt = Field(
        262_144,
        description="Rows in the shuffle window of training data; 0 keeps the files' order. Each worker has about two "
        "windows in memory. A log in the order of its users needs a large one.",
    )
    interleave_stripes: PositiveInt = Field(
        8, description="Stripes of training data that take turns while shuffling; all of them are in memory."
    )
    stripe_slices: PositiveInt = Field(
        2,
        description="While shuffling, the rows of a stripe are dealt out to so many parts that come at times of their "
        "own, which spreads the rows of a user over the epoch. A stripe is decoded for each of them.",
    )
    drop_remainder: bool = Field(
        False, description="Leave out the last batch of an epoch of training when it has fewer than `batch_size` rows."
    )
    on_bad: Literal["error", "skip"] = Field(
        "error",
        description="A file that cannot be read, a damaged stripe, a wrong value: `error` ends the run; `skip` leaves "
        "out the file, the stripe or the row and counts what is lost.",
    )
    verify_checksums: bool = Field(
        True,
        description="Compare what is read with the checksums in the files; files without any are read as they are.",
    )
    reader: Literal["tfio", "native"] = Field(
        "tfio",
        description="`tfio`: a process beside each worker decodes, tensorflow-io receives. `native`: an op inside the "
        "worker decodes. Both give the same batches.",
    )
    decode_threads: AutoOrCount = Field(
        "auto",
        description="Threads that decode for each worker. `auto`: the machine's cores divided by the workers on it, "
        "at most 4.",
    )
    prefetch_batches: AutoOrCount = Field(
        "auto", description="Batches that are ready before the worker asks. `auto`: tuned while running."
    )
    sampling: Sampling | None = Field(
        None, description="Which training rows are kept, and how much they count. Default: all, equally."
    )


class IdFeature(_Section):
    """One integer id per row, looked up in a table."""

    name: Name = Field(description="Name of the feature, unique in the job; the model knows it by this name.")
    kind: Literal["id"] = Field(description="One integer id per row.")
    column: Text | None = Field(None, description="ORC column (any integer type). Default: the feature's name.")
    table: Name | None = Field(None, description="Table to look the id up in. Give this or `dim`.")
    dim: Width | None = Field(
        None,
        description="Width of a table of the feature's own, named like the feature. Give this or `table`.",
    )
    admission: Admission | None = Field(
        None, description="Beside `dim`: which ids get a row in the feature's own table. Default: all."
    )
    missing: int | None = Field(None, description="Id that stands for a null. Default: a null is an error.")


class IdListFeature(_Section):
    """A list of integer ids per row, looked up in a table and pooled."""

    name: Name = Field(description="Name of the feature, unique in the job; the model knows it by this name.")
    kind: Literal["id_list"] = Field(description="A list of integer ids per row.")
    column: Text | None = Field(
        None, description="ORC column (array of any integer type). Default: the feature's name."
    )
    table: Name | None = Field(None, description="Table to look the ids up in. Give this or `dim`.")
    dim: Width | None = Field(
        None,
        description="Width of a table of the feature's own, named like the feature. Give this or `table`.",
    )
    admission: Admission | None = Field(
        None, description="Beside `dim`: which ids get a row in the feature's own table. Default: all."
    )
    pooling: Literal["mean", "sum", "sqrtn", "none"] = Field(
        "mean",
        description="How the list becomes one vector; `none` hands the sequence to the model, which attends to it.",
    )
    query: Name | None = Field(
        None,
        description="With `pooling: none`: the id feature whose vector the model attends with. "
        "Default: a learned vector.",
    )
    max_length: PositiveInt | None = Field(
        None, description="Only the last (newest) so many ids of a list are used. Default: all."
    )
    missing: Literal["empty"] | None = Field(
        None, description="`empty`: a null list counts as an empty one. Default: a null is an error."
    )


class DenseFeature(_Section):
    """One number per row, handed to the model as it is."""

    name: Name = Field(description="Name of the feature, unique in the job; the model knows it by this name.")
    kind: Literal["dense"] = Field(description="One number per row.")
    column: Text | None = Field(None, description="ORC column (any number type). Default: the feature's name.")
    missing: float | None = Field(None, description="Number that stands for a null. Default: a null is an error.")


Feature = Annotated[Union[IdFeature, IdListFeature, DenseFeature], Field(discriminator="kind")]


class DenseOptimizer(_Section):
    """A tf-keras optimiser of that name for the dense weights."""

    name: Literal["sgd", "adagrad", "adam", "adamw"] = Field(description="Which optimiser.")
    learning_rate: PositiveFloat = Field(description="Peak learning rate.")
    weight_decay: float = Field(0.0, ge=0, description="Decoupled weight decay; only for `adamw`.")


class Optimizers(_Section):
    """One optimiser for table rows, one for everything else."""

    sparse: SparseOptimizer = Field(description="Optimiser of table rows, run on the PS.")
    dense: DenseOptimizer = Field(description="Optimiser of the dense weights, run on every worker.")


class Schedule(_Section):
    """A factor on all learning rates: linear warm-up from 0 to 1, then decay."""

    warmup_steps: NonNegativeInt = Field(0, description="Steps of linear warm-up.")
    decay: Literal["none", "cosine", "exponential", "linear"] = Field(
        "none", description="Shape of the decay after warm-up."
    )
    decay_steps: PositiveInt | None = Field(
        None,
        description="Step at which the factor reaches `final`, counted from the first step of training, "
        "warm-up included. Default: the last step of training.",
    )
    final: float = Field(
        0.0,
        ge=0,
        le=1,
        description="Factor at the end of the decay, held from there on; above 0 for `exponential`.",
    )


class Training(_Section):
    """How long, in what steps, from which seed."""

    batch_size: PositiveInt = Field(description="Rows per worker and step.")
    epochs: PositiveInt = Field(1, description="Passes over the training data.")
    seed: NonNegativeInt = Field(0, description="Seed of initial values, shuffling and dropout.")
    max_steps: PositiveInt | None = Field(None, description="Stop after so many steps. Default: no limit.")
    sparse_updates: Literal["synchronous", "asynchronous"] = Field(
        "synchronous",
        description="`synchronous`: a PS applies a step once, when every worker's gradients are there, in "
        "rank order. `asynchronous`: each worker's gradients at once.",
    )
    log_every_steps: PositiveInt = Field(50, description="Steps between two progress reports.")


class Embeddings(_Section):
    """How embeddings travel between the workers and the PS."""

    transport: Literal["float32", "float16", "bfloat16"] = Field(
        "float32",
        description="Type of embeddings and gradients on the way; the 16-bit types halve the bytes and round. The PS "
        "sum and update in float32.",
    )


class WarmStart(_Section):
    """Tables that start where an earlier training has ended; steps start anew."""

    folder: Text = Field(
        alias="from",
        description="A checkpoint (`…/checkpoint/step-N`), or the output folder of a job, whose newest whole "
        "checkpoint is taken; relative to the job file's folder, or s3:// or hdfs://.",
    )
    take: Literal["embeddings", "all"] = Field(
        "embeddings",
        description="`embeddings`: of whatever optimizer, type and width they were (not wider than here), with their "
        "frequencies. `all`: slots and the counts of the admission too; rows must be the same.",
    )
    tables: list[Name] | None = Field(
        None, min_length=1, description="Tables to take. Default: all tables that both jobs have."
    )


class Checkpoint(_Section):
    """When and where checkpoints are written and how many are kept; one is written at the end in any case."""

    folder: Text | None = Field(
        None,
        description="Where they lie: a folder relative to the job file's folder, or an s3:// or hdfs:// address; one "
        "place for all processes. Default: `checkpoint` in the output folder.",
    )

    every_steps: PositiveInt | None = Field(
        None, description="Steps between two checkpoints, written while training goes on. Default: only at the end."
    )
    every_minutes: PositiveFloat | None = Field(
        None, description="Minutes between two checkpoints, beside those of `every_steps`. Default: none by time."
    )
    keep: PositiveInt = Field(
        3, description="So many newest checkpoints are kept, and those that their deltas are based on."
    )
    deltas: NonNegativeInt = Field(
        0,
        description="Checkpoints with only the changed rows between two full ones; needs `every_steps` or "
        "`every_minutes`.",
    )
    grace_seconds: PositiveFloat = Field(
        120.0,
        le=MOST_SECONDS,
        description="When `ps-cluster train` gets SIGTERM or Ctrl-C, so long its workers have for a last checkpoint "
        "before they are killed; a second signal does not wait.",
    )
    warm_start: WarmStart | None = Field(
        None, description="Tables that start from another job's checkpoint. Default: all from initial values."
    )


class Metrics(_Section):
    """Where each process serves its figures: `/metrics` in Prometheus' format, `/healthz`."""

    serve: bool = Field(
        True,
        description="Whether they are served. A process whose own address is on the loopback interface serves there "
        "only, any other on all interfaces.",
    )
    port: int | None = Field(
        None,
        ge=1,
        le=65535,
        description="Port of a process; processes of the job that share a host take this and the following ones, PS "
        "first. Default: each takes a free port; where, lies in `metrics` in the output folder.",
    )


class Cluster(_Section):
    """How many processes, and where they are when they are not on this machine."""

    ps: NonNegativeInt = Field(2, description="Number of PS processes; 0 keeps the tables inside the one worker.")
    workers: PositiveInt = Field(
        default_factory=lambda given: 1 if given.get("ps") == 0 else 2,
        description="Number of workers; 1 when `ps` is 0. Default: 1 when `ps` is 0, else 2.",
    )
    ps_addresses: list[Address] | None = Field(
        None,
        description="host:port of each PS. Default: free ports of this machine. The addresses of a cluster "
        "are given together or not at all.",
    )
    worker_addresses: list[Address] | None = Field(
        None, description="host:port of each worker. Default: free ports of this machine."
    )
    rendezvous_address: Address | None = Field(
        None,
        description="host:port on worker 0 where the workers find each other. Default: a free port of this machine.",
    )


class Job(_Section):
    """One training job: the only place where it is described; every command reads it."""

    name: JobName = Field(description="Name of the job: lower-case letters, digits and dashes.")
    data: DataSection = Field(description="Where the samples lie and how they are read.")
    features: list[Feature] = Field(min_length=1, description="What the model sees of a row.")
    tables: dict[Name, Table] = Field(
        {}, description="Embedding tables by name.", json_schema_extra={"additionalProperties": False}
    )
    embeddings: Embeddings = Field(default_factory=Embeddings, description="How embeddings travel.")
    model: ModelConfig = Field(description="The ranker and its sizes.")
    optimizers: Optimizers = Field(description="How table rows and dense weights learn.")
    schedule: Schedule = Field(default_factory=Schedule, description="Course of the learning rates over the steps.")
    training: Training = Field(description="Batch size, epochs, seed.")
    checkpoint: Checkpoint = Field(
        default_factory=Checkpoint, description="When checkpoints are written, and how many are kept."
    )
    export: Export | None = Field(
        None, description="Exports while training goes on. Default: one, when training has ended."
    )
    metrics: Metrics = Field(default_factory=Metrics, description="Figures that each process serves.")
    cluster: Cluster = Field(default_factory=Cluster, description="Processes of the job.")
    failures: Failures = Field(
        default_factory=Failures, description="What happens when a process dies, and how long anything is waited for."
    )
    planning: Planning = Field(default_factory=Planning, description="What only `ps-cluster plan` reads.")
    kubernetes: Kubernetes = Field(
        default_factory=Kubernetes, description="How the job runs on Kubernetes; nothing of it counts elsewhere."
    )
    output: Text = Field(
        description="Folder for logs, checkpoint, TensorBoard events, report and SavedModel; relative to the "
        "job file's folder. Not the job file's own folder: a run may be told to overwrite it."
    )
