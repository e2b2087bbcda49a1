"""The part of the job file that says which training rows are kept and how much they count."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, PositiveFloat, PositiveInt

Text = Annotated[str, Field(min_length=1)]
Label = Annotated[int, Field(ge=0, le=1)]
KeepRate = Annotated[float, Field(gt=0, le=1)]
Share = Annotated[float, Field(gt=0, lt=1)]
Weight = Annotated[float, Field(gt=0, le=1e6)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Time(_Section):
    """The column that tells when a row happened."""

    column: Text = Field(description="ORC column (any integer type) with the time; nulls are an error.")
    unit: Literal["milliseconds", "seconds"] = Field("milliseconds", description="Unit of the time.")


class Bands(_Section):
    """Rows in bands of an id's popularity or of a number, each with a rate of its own.

    The bands end at `top_ids`, `top_share` or `bounds`; there is one band, and one rate, more than ends.
    """

    column: Text = Field(description="ORC column with the id (any integer type), or with the number.")
    popularity: Text | None = Field(
        None,
        description="File of counts of the column's ids, from `ps-cluster data popularity`, relative to the job "
        "file's folder; with `top_ids` and `top_share`.",
    )
    top_ids: list[PositiveInt] | None = Field(
        None,
        description="Ends of the bands as ranks: [100, 10000] are the 100 most frequent ids, the next 9,900, and all "
        "others (also nulls and ids that were not counted).",
    )
    top_share: list[Share] | None = Field(
        None,
        description="Ends of the bands as shares of all counted rows: [0.2, 0.8] are the most frequent ids that make "
        "up 20 %, those that make up the next 60 %, and all others (also nulls and ids that were not counted).",
    )
    bounds: list[float] | None = Field(
        None,
        description="Ends of the bands as numbers: [18, 30] are the rows below 18, from 18 to below 30, and from 30 "
        "on. A null is in no band: its rate is 1.",
    )
    keep: list[KeepRate] | None = Field(
        None, description="Share of the rows of each band that is kept, the first band first. Give this or `weight`."
    )
    weight: list[Weight] | None = Field(
        None, description="Weight of the rows of each band, the first band first. Give this or `keep`."
    )


class Rule(_Section):
    """Keeps a share of some rows, or gives them a weight. The rates of all rules that meet a row are multiplied."""

    label: Label | None = Field(None, description="Only rows with this label. Default: rows with any label.")
    when: Text | None = Field(
        None,
        description="Only rows for which this is true, such as `score > 0.8 and country in (3, 7)`; the label may not "
        "stand in it. Default: all rows.",
    )
    newest_hours: PositiveFloat | None = Field(
        None, description="Only rows of so many hours before the newest time in the data (`time`). Default: all rows."
    )
    keep: KeepRate | None = Field(
        None, description="Share of these rows that is kept. Give one of `keep`, `weight`, `bands`."
    )
    weight: Weight | None = Field(
        None, description="How often each of these rows counts in the loss. Give one of `keep`, `weight`, `bands`."
    )
    bands: Bands | None = Field(
        None, description="Rates by popularity or by a number. Give one of `keep`, `weight`, `bands`."
    )


class Replay(_Section):
    """All rows of the newest days, and of older ones a share that decays, in a fixed proportion.

    A day is 24 hours, counted back from the newest time in the data. The older days are kept at rates that halve every
    `half_life_days`, of at most 1, such that the newest days make up `newest_share` of the rows after all rules.
    """

    newest_days: PositiveInt = Field(7, description="So many days are kept whole.")
    newest_share: Share = Field(0.7, description="Their share of all rows that are trained on.")
    half_life_days: PositiveFloat = Field(14.0, description="Days after which the keep rate of older rows is halved.")


class Sampling(_Section):
    """Which training rows are kept and how much they count; test rows are never sampled.

    Rows are drawn by (seed, file, row number), the same in every epoch and for any number of workers; a file is told by
    its content, not by its name. Every row carries what was done to the odds of its label, so that predictions are
    calibrated as if nothing had been sampled.
    """

    seed: Annotated[NonNegativeInt, Field(le=2**64 - 1)] | None = Field(
        None, description="Of the draw of rows. Default: `training.seed`."
    )
    time: Time | None = Field(
        None,
        description="When a row happened; for `newest_hours` and `replay`. Ages are counted back from the newest time "
        "in the training data.",
    )
    rules: list[Rule] = Field([], description="Keep rates and weights; those of all rules that meet a row multiply.")
    replay: Replay | None = Field(None, description="Proportion of newest to older rows. Default: rows of any age.")
    presampled: bool = Field(
        False,
        description="The training files were written by `ps-cluster data sample`: their weights and offsets are used, "
        "and nothing is drawn again. No other field may stand beside it.",
    )
