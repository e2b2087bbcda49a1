"""The part of the job file about failures: what goes on when a process dies, and how long anything is waited for."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, PositiveInt

MOST_SECONDS = 31_536_000
"""Of a wait: a year. What waits, in the libraries below, knows no wait of any length."""


class Failures(BaseModel):
    """What happens when a process of the job dies, and the limits of all waiting."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    recovery: Literal["job", "shard"] = Field(
        "job",
        description="`job`: all processes start again from the newest whole checkpoint. `shard`: a lost PS starts "
        "alone and gets its part of the tables back from the checkpoint, while the workers keep what they have; "
        "after a lost worker all workers start again from the checkpoint, the PS stay. Needs synchronous updates.",
    )
    max_restarts: NonNegativeInt = Field(
        10, description="So many restarts of a run at most; 0: the first failure ends it."
    )
    same_step: PositiveInt = Field(
        5, description="So many failures in a row at one and the same step end the run: the step itself fails."
    )
    wait_seconds: PositiveInt = Field(
        300,
        le=MOST_SECONDS,
        description="Limit of a wait for another process: in a step, to be reached, to be back after a failure. A "
        "worker that waited longer names whom it waited for and ends with exit code 75: restart me.",
    )
    long_wait_seconds: PositiveInt = Field(
        3600,
        le=MOST_SECONDS,
        description="Limit of waits for what may take long: counting rows, reading or finishing a checkpoint, "
        "evaluation. At least `wait_seconds`.",
    )
