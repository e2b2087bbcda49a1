"""The part of the job file about exports while training goes on."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, PositiveFloat, PositiveInt


class Export(BaseModel):
    """When the newest checkpoint is exported while training goes on, and as what.

    A process of its own does it, at low priority, one at a time; one that fails is told, and training goes on.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    every_checkpoints: PositiveInt | None = Field(
        None, description="Checkpoints from one export to the next. Give this or `every_minutes`."
    )
    every_minutes: PositiveFloat | None = Field(
        None,
        description="Minutes from one export to the next, which comes with the first checkpoint that is whole then. "
        "Give this or `every_checkpoints`.",
    )
    form: Literal["plain", "ops", "sharded"] = Field(
        "plain", description="As of `ps-cluster export --form`; versions lie where that puts them."
    )
    shards: PositiveInt | None = Field(None, description="SavedModels with rows, of the form `sharded`.")
    rows: Literal["float32", "float16", "int8"] = Field("float32", description="How rows of tables are stored.")
    delta: bool = Field(
        False,
        description="Export what has changed since the version before (`delta-V-to-W`) where that can be told, else a "
        "whole version.",
    )
    full_every: PositiveInt = Field(
        24, description="With `delta`: a whole version at least after so many exports less one that are deltas."
    )
