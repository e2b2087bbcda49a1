"""The dataset op that reads ORC files, as typed Python."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import tensorflow as tf
from tensorflow.python.data.ops import dataset_ops

from ops.library import load_orc

KINDS = {"int64": 0, "float32": 1, "int64_list": 2}
UNKNOWN_BATCHES = -2


@dataclass(frozen=True)
class OutputColumn:
    """One column of the batches."""

    name: str
    source: str
    """Name of the file's column."""
    kind: str
    """One of `KINDS`."""
    missing: int | float | str | None
    """What a null stands for (`"empty"` for lists); None: a null is an error."""
    max_length: int | None
    """Of lists: the last so many items are kept."""


@dataclass(frozen=True)
class Condition:
    """A program over the sources, in the form of `data.where.Program`."""

    steps: np.ndarray  # int64 [steps, 5]
    ints: np.ndarray  # int64 [ints]
    floats: np.ndarray  # float64 [floats]


@dataclass(frozen=True)
class SamplingFactor:
    """One factor of a keep probability or weight; `data.sampling` says what each does."""

    keep: bool
    """Else a weight."""
    label: int | None
    when: Condition | None
    source: str | None
    """Name of the column that its value depends on; None: it is constant."""
    table: np.ndarray  # float64 [values]; of null and unknown keys last
    log_table: np.ndarray  # float64 [values]
    bounds: np.ndarray | None = None  # float64 [values - 2]
    keys: np.ndarray | None = None  # int64 [values - 1]


@dataclass(frozen=True)
class RowSampling:
    """Which rows are kept, and how much they count."""

    label: str
    seed: int
    factors: tuple[SamplingFactor, ...]


@dataclass(frozen=True)
class OrcRead:
    """Everything the op reads by."""

    paths: tuple[bytes, ...]
    file_keys: np.ndarray  # uint64 [files]
    parts: np.ndarray  # int64 [parts, 7]: file, stripe, its first row in the file, its rows, first row, rows, step
    kept: np.ndarray | None  # int64 [parts]; None: not known
    sources: tuple[str, ...]
    """Names of the columns that are decoded; programs have them by position."""
    columns: tuple[OutputColumn, ...]
    where: Condition | None
    where_sources: tuple[str, ...]
    sampling: RowSampling | None
    batch_rows: int
    epochs: int
    shuffle_rows: int
    seed: int
    interleave: int
    drop_remainder: bool
    skip_bad: bool
    verify: bool
    decode_threads: int
    start: tuple[int, int]
    batches: int | None
    """Cardinality, where it is known."""


class OrcDataset(dataset_ops.DatasetSource):
    """Elements are flat tuples: of each column its values `[rows]`, or the items `[items]` of a list and its row splits
    int64 `[rows + 1]`; when sampling, weights and offsets float32 `[rows]`; then int64 `[4 + columns]`: batch number,
    rows, epoch, rows lost, nulls that were filled of each column.

    Its iterators can be saved, and go on behind the last batch they gave.

    Memory: beside one batch, rows that are decoded. Without shuffling those of `decode_threads + 3` parts at most; with
    shuffling those of `interleave + max(interleave, decode_threads + 1)` parts, and of the parts that a window's rows
    lie in.
    """

    def __init__(self, read: OrcRead):
        types = []
        for column in read.columns:
            types += [tf.int64, tf.int64] if column.kind == "int64_list" else [tf.as_dtype(column.kind)]
        types += [tf.float32, tf.float32] if read.sampling else []
        self._specs = (
            *(tf.TensorSpec([None], kind) for kind in types),
            tf.TensorSpec([4 + len(read.columns)], tf.int64),
        )
        super().__init__(_variant(read, self._specs))

    @property
    def element_spec(self) -> tuple[tf.TensorSpec, ...]:
        return self._specs


def _variant(read: OrcRead, specs: Sequence[tf.TensorSpec]) -> tf.Tensor:
    conditions = [read.where] if read.where else []
    factors = read.sampling.factors if read.sampling else ()
    rows = []
    for factor in factors:
        condition = -1
        if factor.when is not None:
            condition = len(conditions)
            conditions.append(factor.when)
        rate = 1 if factor.bounds is not None else 2 if factor.keys is not None else 0
        bound = factor.bounds if factor.bounds is not None else factor.keys
        rows.append(
            (
                0 if factor.keep else 1,
                -1 if factor.label is None else factor.label,
                rate,
                read.sources.index(factor.source) if factor.source is not None else 0,
                condition,
                len(factor.table),
                0 if bound is None else len(bound),
            )
        )
    return load_orc().ps_cluster_orc_dataset(
        paths=tf.constant(read.paths, tf.string, [len(read.paths)]),
        file_keys=tf.constant(np.asarray(read.file_keys, np.uint64).view(np.int64)),
        parts=tf.constant(read.parts, tf.int64, [len(read.parts), 7]),
        kept=tf.constant([] if read.kept is None else read.kept, tf.int64),
        columns=tf.constant([_column(column, read.sources) for column in read.columns], tf.int64),
        missing_floats=tf.constant([_missing_float(column) for column in read.columns], tf.float32),
        condition_steps=_joined([c.steps for c in conditions], tf.int64, [-1, 5]),
        condition_ints=_joined([c.ints for c in conditions], tf.int64),
        condition_floats=_joined([c.floats for c in conditions], tf.float64),
        factors=tf.constant(rows, tf.int64, [len(rows), 7]),
        factor_tables=_joined([f.table for f in factors], tf.float64),
        factor_log_tables=_joined([f.log_table for f in factors], tf.float64),
        factor_bounds=_joined([f.bounds for f in factors if f.bounds is not None], tf.float64),
        factor_keys=_joined([f.keys for f in factors if f.keys is not None], tf.int64),
        sources=list(read.sources),
        needed_first=[name in read.where_sources for name in read.sources],
        names=[column.name for column in read.columns],
        condition_sizes=[size for c in conditions for size in (len(c.steps), len(c.ints), len(c.floats))],
        filtered=read.where is not None,
        sampled=read.sampling is not None,
        label=read.sources.index(read.sampling.label) if read.sampling else 0,
        sampling_seed=_signed(read.sampling.seed if read.sampling else 0),
        batch_rows=read.batch_rows,
        epochs=read.epochs,
        shuffle_rows=read.shuffle_rows,
        seed=_signed(read.seed),
        interleave=read.interleave,
        drop_remainder=read.drop_remainder,
        skip_bad=read.skip_bad,
        verify=read.verify,
        decode_threads=read.decode_threads,
        start_epoch=read.start[0],
        start_row=read.start[1],
        batches=UNKNOWN_BATCHES if read.batches is None else read.batches,
        output_types=[spec.dtype for spec in specs],
        output_shapes=[spec.shape for spec in specs],
    )


def _column(column: OutputColumn, sources: Sequence[str]) -> tuple[int, int, int, int, int]:
    missing = column.missing if column.kind == "int64" and column.missing is not None else 0
    return (
        sources.index(column.source),
        KINDS[column.kind],
        int(column.missing is not None),
        int(missing),
        column.max_length or 0,
    )


def _missing_float(column: OutputColumn) -> float:
    return float(column.missing) if column.kind == "float32" and column.missing is not None else 0.0


def _joined(arrays: Sequence[np.ndarray], kind: tf.DType, shape: Sequence[int] = (-1,)) -> tf.Tensor:
    numbers = [np.asarray(array, kind.as_numpy_dtype).reshape(shape) for array in arrays]
    empty = np.zeros([0, *shape[1:]], kind.as_numpy_dtype)
    return tf.constant(np.concatenate([empty, *numbers]))


def _signed(value: int) -> int:
    """The int64 with the same lower 64 bits."""
    value &= 2**64 - 1
    return value - 2**64 if value >= 2**63 else value
