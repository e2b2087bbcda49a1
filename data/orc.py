"""Samples in ORC files as batches for training: what a user of this package needs, in one place.

spec = ReadSpec(paths, (Column("label", "float32"), Column("items", "int64_list")), batch_rows=1024)
with open_reader(spec) as reader:
    for values, info in reader.dataset:
        ...
"""

from __future__ import annotations

from types import TracebackType
from typing import Protocol, Self

import tensorflow as tf

from data.columns import Column
from data.errors import DataError
from data.read.counting import Progress
from data.read.plan import Plan
from data.read.plan import plan as make_plan
from data.read.read_spec import Position, ReadSpec

__all__ = ["Column", "DataError", "Plan", "Position", "ReadSpec", "Reader", "make_plan", "open_reader"]


class Reader(Protocol):
    """What both readers are; `data.read.arrow_stream.BatchReader` says what each member means."""

    dataset: tf.data.Dataset
    spec: ReadSpec
    plan: Plan
    rows: int
    batches: int

    def cause(self, error: BaseException) -> Exception: ...

    def close(self) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...


def open_reader(spec: ReadSpec, plan: Plan | None = None, progress: Progress | None = None) -> Reader:
    """The reader that `spec.reader` names. Close it, or use it in a `with`.

    Args:
      plan: of `spec` (`make_plan`); by default it is made here.
      progress: told (rows done, rows in total) while rows are counted, which is needed with a filter.

    Raises:
      DataError: of `make_plan`.
    """
    plan = plan or make_plan(spec, progress)
    if spec.reader == "native":
        from data.read.native_reader import NativeReader

        return NativeReader(spec, plan)
    from data.read.arrow_stream import BatchReader

    return BatchReader(spec, plan)
