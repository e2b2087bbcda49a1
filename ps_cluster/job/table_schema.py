"""The part of the job file about embedding tables: what rows are, how they learn, which ids have one."""

from __future__ import annotations

import re
from typing import Annotated, Literal, Union

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    WithJsonSchema,
)

# `expected` is what a message about a wrong value calls a right one.
Name = Annotated[
    str,
    Field(
        pattern=r"^[a-z][a-z0-9_]*$",
        max_length=63,
        json_schema_extra={"expected": "a name: a lower-case letter, then lower-case letters, digits or _, at most 63"},
    ),
]

SMALLEST_BUDGET_BYTES = 2**20
"""Below this a table has no room for its index and the first rows of each kind."""

Width = Annotated[int, Field(ge=1, le=2**16, json_schema_extra={"expected": "an integer from 1 to 65536"})]
"""Of a vector. Nothing is gained by more, and a slip of a few digits would only show when memory is full."""

_UNITS = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
_BYTES = r"^([0-9]+) ?(KiB|MiB|GiB|TiB)$"
_LARGEST_BYTES = 2**62


def _byte_count(value: object) -> object:
    if isinstance(value, str) and (match := re.match(_BYTES, value)):
        value = int(match[1]) * _UNITS[match[2]]
    if isinstance(value, int) and not isinstance(value, bool) and SMALLEST_BUDGET_BYTES <= value <= _LARGEST_BYTES:
        return value
    raise ValueError("expected bytes")


Bytes = Annotated[
    int,
    BeforeValidator(_byte_count),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": SMALLEST_BUDGET_BYTES, "maximum": _LARGEST_BYTES},
                {"type": "string", "pattern": _BYTES},
            ],
            "expected": "bytes, at least 1MiB: an integer, or one with a unit such as 512MiB or 2GiB",
        }
    ),
]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


_RATE = "Peak learning rate."
_CLIP = "Longest L2 norm of the gradient of one row and step, which is scaled down to it; 0: off."


class Initializer(_Section):
    """Initial values of a row: a function of (seed, table, key) alone."""

    kind: Literal["uniform", "normal", "zeros"] = Field("uniform", description="Distribution.")
    scale: PositiveFloat = Field(
        0.01, description="Half width of the uniform distribution, standard deviation of the normal one."
    )


class SparseSgd(_Section):
    """Gradient descent on the rows that occur in a step."""

    name: Literal["sgd"] = Field(description="Plain gradient descent.")
    learning_rate: PositiveFloat = Field(description=_RATE)
    clip_norm: float = Field(0.0, ge=0, description=_CLIP)


class SparseMomentum(_Section):
    """Lazy momentum: a row moves in steps in which it occurs; else equal to tf-keras' SGD with momentum."""

    name: Literal["momentum"] = Field(description="Gradient descent with momentum.")
    learning_rate: PositiveFloat = Field(description=_RATE)
    momentum: float = Field(0.9, ge=0, le=1, description="Share of the last movement that goes on.")
    nesterov: bool = Field(False, description="Nesterov's form: the gradient counts as taken one movement ahead.")
    clip_norm: float = Field(0.0, ge=0, description=_CLIP)


class SparseAdagrad(_Section):
    """Adagrad per row; equal to tf-keras' Adagrad where `decay` is 1."""

    name: Literal["adagrad"] = Field(description="Adagrad.")
    learning_rate: PositiveFloat = Field(description=_RATE)
    initial_accumulator: float = Field(0.1, ge=0, description="Start of the sum of squared gradients.")
    epsilon: PositiveFloat = Field(1e-7, description="Added to the sum below the root.")
    decay: float = Field(
        1.0,
        gt=0,
        le=1,
        description="Factor on the sum each time the step passes a multiple of `decay_steps`, so that old rows go on "
        "learning; the sum does not fall below `initial_accumulator`. 1: off.",
    )
    decay_steps: PositiveInt = Field(100_000, le=2**24, description="Steps between two decays of the sum.")
    clip_norm: float = Field(0.0, ge=0, description=_CLIP)


class SparseAdam(_Section):
    """Lazy Adam: a row's moments move in steps in which it occurs; bias correction by the global step."""

    name: Literal["adam"] = Field(description="Lazy Adam.")
    learning_rate: PositiveFloat = Field(description=_RATE)
    beta_1: float = Field(0.9, ge=0, lt=1, description="Decay of the first moment.")
    beta_2: float = Field(0.999, ge=0, lt=1, description="Decay of the second moment.")
    epsilon: PositiveFloat = Field(1e-7, description="Added to the root of the second moment.")
    clip_norm: float = Field(0.0, ge=0, description=_CLIP)


class SparseAdamW(_Section):
    """Lazy Adam with decoupled weight decay: a row shrinks in steps in which it occurs."""

    name: Literal["adamw"] = Field(description="Lazy Adam with weight decay.")
    learning_rate: PositiveFloat = Field(description=_RATE)
    beta_1: float = Field(0.9, ge=0, lt=1, description="Decay of the first moment.")
    beta_2: float = Field(0.999, ge=0, lt=1, description="Decay of the second moment.")
    epsilon: PositiveFloat = Field(1e-7, description="Added to the root of the second moment.")
    weight_decay: float = Field(0.004, ge=0, description="Times the learning rate: share by which the row shrinks.")
    clip_norm: float = Field(0.0, ge=0, description=_CLIP)


class SparseRmsProp(_Section):
    """Lazy RMSProp: a row's mean square moves in steps in which it occurs; else equal to tf-keras' RMSprop."""

    name: Literal["rmsprop"] = Field(description="Lazy RMSProp, not centred.")
    learning_rate: PositiveFloat = Field(description=_RATE)
    rho: float = Field(0.9, ge=0, lt=1, description="Decay of the mean square.")
    momentum: float = Field(0.0, ge=0, le=1, description="Share of the last movement that goes on.")
    epsilon: PositiveFloat = Field(1e-7, description="Added to the mean square below the root.")
    clip_norm: float = Field(0.0, ge=0, description=_CLIP)


class SparseFtrl(_Section):
    """FTRL-Proximal as in tf-keras: a row is a function of its sums, so its first update leaves its initial value."""

    name: Literal["ftrl"] = Field(description="FTRL-Proximal.")
    learning_rate: PositiveFloat = Field(description=_RATE)
    learning_rate_power: float = Field(-0.5, le=0, description="Power of the sum of squares; -0.5 is the fast one.")
    initial_accumulator: float = Field(0.1, ge=0, description="Start of the sum of squared gradients.")
    l1: float = Field(0.0, ge=0, description="Strength of the L1 penalty, which makes values exactly 0.")
    l2: float = Field(0.0, ge=0, description="Strength of the L2 penalty.")
    l2_shrinkage: float = Field(0.0, ge=0, description="Strength of the L2 penalty on the gradient.")
    beta: float = Field(0.0, ge=0, description="Beta of the paper: more of it, smaller first steps.")
    clip_norm: float = Field(0.0, ge=0, description=_CLIP)


SparseOptimizer = Annotated[
    Union[SparseSgd, SparseMomentum, SparseAdagrad, SparseAdam, SparseAdamW, SparseRmsProp, SparseFtrl],
    Field(discriminator="name"),
]

_COLD = "Every position of the vector of an id without a row."


class AdmitAll(_Section):
    """Every id gets a row when it first occurs in training."""

    kind: Literal["none"] = Field(description="No admission: all ids.")


class AdmitByCount(_Section):
    """An id gets a row when it has occurred often enough; counts are exact and take about 20 bytes an id."""

    kind: Literal["exact"] = Field(description="By an exact count.")
    threshold: int = Field(ge=1, le=2**31 - 1, description="Occurrences from which on an id has a row.")
    cold_value: float = Field(0.0, description=_COLD)


class AdmitByBloom(_Section):
    """An id gets a row when a counting Bloom filter says it has occurred often enough: never too late, rarely early."""

    kind: Literal["bloom"] = Field(description="By a counting Bloom filter, of a fixed size.")
    threshold: int = Field(ge=1, le=65535, description="Occurrences from which on an id has a row.")
    capacity: int = Field(ge=1, le=2**40, description="Different ids, over all PS, for which `error` holds.")
    error: float = Field(gt=0, lt=0.5, description="Share of ids whose count is too high.")
    cold_value: float = Field(0.0, description=_COLD)


class AdmitByChance(_Section):
    """Each occurrence of an id gives it a row with a fixed probability; nothing is counted."""

    kind: Literal["probability"] = Field(description="By chance, the same in every run of a seed.")
    probability: float = Field(gt=0, le=1, description="Of each occurrence to give the id its row.")
    cold_value: float = Field(0.0, description=_COLD)


Admission = Annotated[
    Union[AdmitAll, AdmitByCount, AdmitByBloom, AdmitByChance],
    Field(discriminator="kind"),
]


class Eviction(_Section):
    """When a row goes; an id that comes back starts anew. A row is gone for look-ups as soon as one rule says so."""

    max_age_steps: int | None = Field(
        None, ge=1, le=2**31 - 1, description="Steps after a row's last update. Default: no limit."
    )
    max_age_hours: int | None = Field(
        None, ge=1, le=2**31 - 1, description="Hours of `data.time` after a row's last update. Default: no limit."
    )
    half_life_steps: PositiveFloat | None = Field(
        None, description="Steps without occurrence in which a row's frequency halves. Default: it does not decay."
    )
    min_frequency: PositiveFloat | None = Field(
        None, description="Decayed frequency below which a row goes; needs `half_life_steps`. Default: no limit."
    )
    max_bytes: Bytes | None = Field(
        None,
        description="Most bytes of rows, index and counts on each PS, such as 512MiB; new rows push out the least "
        "useful. Default: no limit.",
    )
    log: bool = Field(False, description="Write evicted ids to the log.")


class Tier(_Section):
    """Rows of one width."""

    dim: Width = Field(description="Width of the embedding.")
    min_frequency: NonNegativeInt = Field(
        le=2**31 - 1, description="Occurrences from which on an id has this width; 0 in the first tier."
    )


class Table(_Section):
    """One embedding table; several features may share it."""

    dim: Width | None = Field(None, description="Width of a row's embedding. Give this or `tiers`.")
    tiers: list[Tier] | None = Field(
        None,
        min_length=1,
        description="Widths by frequency, the narrowest first: an id moves up when it has occurred often enough and "
        "keeps what it learned. Give this or `dim`.",
    )
    output: Width | None = Field(
        None,
        description="Beside `tiers`: width that all rows are projected to for the model. Default: the widest tier's.",
    )
    engine: Literal["native", "tfra_cuckoo"] = Field(
        "native", description="`tfra_cuckoo`: TFRA's table, without admission, eviction, tiers and 16-bit values."
    )
    values: Literal["float32", "float16", "bfloat16"] = Field(
        "float32", description="Type of stored embeddings; the optimiser's slots are float32 always."
    )
    initializer: Initializer = Field(default_factory=Initializer, description="Initial values of a row.")
    optimizer: SparseOptimizer | None = Field(
        None, description="Optimiser of this table. Default: `optimizers.sparse`."
    )
    admission: Admission = Field(
        default_factory=lambda: AdmitAll(kind="none"), description="Which ids get a row. Default: all."
    )
    eviction: Eviction = Field(default_factory=Eviction, description="Which rows go. Default: none.")
