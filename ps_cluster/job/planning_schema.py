"""The part of the job file that only the planner reads: the horizon, what the machines have, prices."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, PositiveFloat, PositiveInt

from ps_cluster.job.table_schema import Bytes, Name


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Prices(_Section):
    """What memory and cores cost; the plan then says what the job costs."""

    gib_hour: float | None = Field(None, ge=0, description="Of a GiB of memory for an hour. Default: not counted.")
    core_hour: float | None = Field(None, ge=0, description="Of a core for an hour. Default: not counted.")
    currency: str = Field("USD", min_length=1, max_length=8, description="In which the prices are.")


class Planning(_Section):
    """For `ps-cluster plan` alone: how far to look ahead, what the machines have, what they cost."""

    days: PositiveFloat | None = Field(
        None,
        description="Days of the log that the plan looks at, from its beginning. Default: all rows of `data.train`.",
    )
    rows_per_day: PositiveFloat | None = Field(
        None, description="Rows of samples in a day. Default: as `data.time` tells of the samples."
    )
    margin: float = Field(1.2, ge=1, le=10, description="Memory requests over what is expected.")
    bandwidth: PositiveFloat = Field(10.0, description="Of each process, in gigabits per second.")
    ps_memory: Bytes | None = Field(
        None,
        description="Most memory that one PS may request, such as 16GiB; the plan then says how many PS hold the "
        "horizon. Default: no limit, and as many PS as `cluster.ps`.",
    )
    machine_memory: Bytes | None = Field(
        None, description="Memory of a machine on which everything may run. Default: this machine's."
    )
    ps_cores: PositiveFloat = Field(2.0, description="Cores of each PS.")
    worker_cores: PositiveFloat = Field(2.0, description="Cores of each worker, its reader's included.")
    ids: dict[Name, PositiveInt] = Field(
        {},
        description="By table: different ids at the horizon, where there are no samples that tell.",
        json_schema_extra={"additionalProperties": False},
    )
    prices: Prices = Field(default_factory=Prices, description="What memory and cores cost.")
