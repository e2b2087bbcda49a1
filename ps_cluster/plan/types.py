"""What the planner knows of a job before it computes: tables, load, cluster, constants, the horizon."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ps_cluster.plan.curve import Growth


@dataclass(frozen=True)
class TableLoad:
    """What the samples, or a person, say of a table.

    ids: different ids in all, when told; else `growth` says them. occurrences_per_row: ids looked up for a row of
    samples. ids_in_a_batch: expected different ids in a worker's batch. source: in words, where it is from.
    """

    occurrences_per_row: float
    ids_in_a_batch: float
    growth: Growth | None
    ids: float | None
    source: str
    rows: float | None = None
    """Rows that a finished run had, which stand in the place of a forecast."""
    hot: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True)
class TableShape:
    """A table as its bytes depend on it. tiers: (width, least frequency), the narrowest first. slots: vectors beside
    each embedding. Rules that are not set are 0."""

    name: str
    engine: str
    tiers: tuple[tuple[int, int], ...]
    value_bytes: int
    slots: int
    admission: str = "none"
    threshold: int = 1
    capacity: int = 0
    error: float = 0.0
    probability: float = 1.0
    max_age_steps: int = 0
    max_age_hours: int = 0
    half_life_steps: float = 0.0
    min_frequency: float = 0.0
    max_bytes: int = 0
    salt: int = 0

    @property
    def width(self) -> int:
        """Of what travels: the widest tier's."""
        return self.tiers[-1][0]

    @property
    def with_hour(self) -> bool:
        return self.max_age_hours > 0


@dataclass(frozen=True)
class Groups:
    """Tables that travel together: name of a group by table."""

    of_table: Mapping[str, str]

    def count(self) -> int:
        return len(set(self.of_table.values()))


@dataclass(frozen=True)
class Dense:
    """The ranker. parameters: numbers in its weights. slots: vectors of its optimiser. flops_per_row: of training.
    input_width: numbers that a row gives to it."""

    parameters: int
    slots: int
    flops_per_row: float
    input_width: int


@dataclass(frozen=True)
class Cluster:
    """ps 0: the tables are inside the one worker."""

    ps: int
    workers: int
    batch_rows: int
    epochs: int
    transport_bytes: int
    synchronous: bool


@dataclass(frozen=True)
class Reading:
    """Of a worker: rows in its shuffle window, stripes it holds, their rows, bytes of a decoded row, whether another
    process decodes."""

    shuffle_rows: int
    stripes: int
    stripe_rows: float
    row_bytes: float
    own_process: bool


@dataclass(frozen=True)
class Wishes:
    """What a person says beside the job: `planning:` of the job file and the command line."""

    margin: float
    bandwidth: float
    """Bytes per second of a process."""
    ps_memory_bytes: int | None
    machine_memory_bytes: int | None
    ps_cores: float
    worker_cores: float
    price_gib_hour: float | None
    price_core_hour: float | None
    currency: str


@dataclass(frozen=True)
class Horizon:
    """rows: samples up to the end. rows_per_day, days: where days are spoken of."""

    rows: float
    rows_per_day: float | None
    days: float | None
    source: str


@dataclass(frozen=True)
class Facts:
    """All of it."""

    job: str
    tables: tuple[TableShape, ...]
    loads: Mapping[str, TableLoad]
    groups: Groups
    dense: Dense
    cluster: Cluster
    reading: Reading
    wishes: Wishes
    horizon: Horizon
    constants: Mapping[str, float]
    constants_source: str
    checkpoint_every_steps: int | None
