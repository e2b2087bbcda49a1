"""What a model is told about the inputs it will be called with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class InputSpec:
    """One input of a model.

    Attributes:
        name: Key of the input in the dictionary that the model is called with.
        kind: `vector`: float32 `[batch, dim]`. `sequence`: a pair of elements float32 `[batch, length, dim]`
            and mask bool `[batch, length]`, true where an element is real; length may be 0. `dense`: float32
            `[batch]`.
        dim: Width of the vector or of a sequence's element; 1 for `dense`.
        table_dim: Width that the values have when it is not `dim`, on a vector or a sequence: the model projects
            them to `dim` first.
        table: Beside `table_dim`: inputs of one name share the projection.
        query: Only for `sequence`: name of the vector input that attends to it, of the same width. None: a
            learned vector attends.
    """

    name: str
    kind: Literal["vector", "sequence", "dense"]
    dim: int
    query: str | None = None
    table_dim: int | None = None
    table: str | None = None

    def __post_init__(self) -> None:
        if self.kind not in ("vector", "sequence", "dense"):
            raise ValueError(f"input {self.name}: expected kind vector, sequence or dense, found {self.kind!r}")
        if self.dim < 1 or (self.kind == "dense" and self.dim != 1):
            expected = "1" if self.kind == "dense" else "at least 1"
            raise ValueError(f"input {self.name}: expected dim {expected}, found {self.dim}")
        if (self.table_dim is None) != (self.table is None):
            raise ValueError(f"input {self.name}: expected table_dim and table together, found one of them")
        if self.table_dim is not None and (self.kind == "dense" or self.table_dim < 1):
            raise ValueError(
                f"input {self.name}: expected a table_dim of at least 1, on a vector or sequence, found "
                f"{self.table_dim} on a {self.kind}"
            )
        if self.query is not None and self.kind != "sequence":
            raise ValueError(f"input {self.name}: expected no query on a {self.kind}, found {self.query!r}")


def check_inputs(inputs: Sequence[InputSpec]) -> list[str]:
    """All that is wrong between the inputs, one line each; empty when nothing is."""
    if not inputs:
        return ["inputs: expected at least one, found none"]
    problems = []
    names = [spec.name for spec in inputs]
    vectors = {spec.name: spec for spec in inputs if spec.kind == "vector"}
    for name in dict.fromkeys(names):
        if names.count(name) > 1:
            problems.append(f"inputs.{name}: expected a name of its own, found {names.count(name)} inputs")
    shared: dict[str, InputSpec] = {}
    for spec in inputs:
        if spec.table is None:
            continue
        first = shared.setdefault(spec.table, spec)
        if (first.table_dim, first.dim) != (spec.table_dim, spec.dim):
            problems.append(
                f"inputs.{spec.name}.table: expected a projection of width {first.table_dim} to {first.dim} as on "
                f"{first.name}, found {spec.table_dim} to {spec.dim}"
            )
    for spec in inputs:
        if spec.query is None:
            continue
        if spec.query not in vectors:
            choices = ", ".join(vectors) or "there is none"
            problems.append(f"inputs.{spec.name}.query: expected a vector input ({choices}), found {spec.query!r}")
        elif vectors[spec.query].dim != spec.dim:
            problems.append(
                f"inputs.{spec.name}.query: expected a vector of the elements' width {spec.dim}, "
                f"found {spec.query!r} of width {vectors[spec.query].dim}"
            )
    return problems
