"""ORC files as a `tf.data.Dataset` of training batches, through tensorflow-io's Arrow stream."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType

import pyarrow as pa
import tensorflow as tf
from tensorflow_io import arrow as tfio_arrow

from data.batches import Batches
from data.columns import Column
from data.errors import DataError
from data.footers import FileSummary, check_files, read_footers
from data.reader_process import ReaderProcess
from data.stream_format import stream_types
from data.stripes import batches_per_epoch, shard_parts

__all__ = ["BatchReader", "Column", "DataError", "FileSummary", "ReadSpec", "check_files"]

_PREFETCHED_BATCHES = 4
_CAUSE_SECONDS = 1.0


@dataclass(frozen=True)
class ReadSpec:
    """What to read. Raises `ValueError` for values that make no sense."""

    paths: tuple[str, ...]
    """ORC files, in the order to be read (`data.paths.expand`)."""
    columns: tuple[Column, ...]
    batch_rows: int
    shard: int = 0
    """This reader's share of the rows is number `shard` of `num_shards` equal ones
    (`data.stripes.shard_parts`)."""
    num_shards: int = 1
    epochs: int = 1
    """Passes over the files, all in one stream."""
    shuffle_rows: int = 0
    """Rows are shuffled in windows of this size, and stripes among each other. 0: order of the files. About
    three windows are kept in memory."""
    seed: int = 0
    """Of the shuffling; each epoch has an order of its own."""

    def __post_init__(self) -> None:
        smallest = {"batch_rows": 1, "num_shards": 1, "epochs": 1, "shuffle_rows": 0, "seed": 0}
        for field, least in smallest.items():
            if getattr(self, field) < least:
                raise ValueError(f"{field}: expected at least {least}, found {getattr(self, field)}")
        if not 0 <= self.shard < self.num_shards:
            raise ValueError(f"shard: expected 0 to {self.num_shards - 1}, found {self.shard}")
        names = [column.name for column in self.columns]
        if not names:
            raise ValueError("columns: expected at least one, found none")
        if len(set(names)) != len(names):
            raise ValueError(f"columns: expected names that differ, found {names}")


class BatchReader:
    """Reads the rows of a `ReadSpec` as batches; owns the reader process. Close it, or use it in a `with`.

    Checks the footers of all files when it is made, and raises the `DataError` of `check_files`.
    """

    dataset: tf.data.Dataset
    """Elements: `(values, info)`. `values` is a dict by column name: `int64` → int64 `[rows]`, `float32` →
    float32 `[rows]`, `int64_list` → `RaggedTensor` int64 `[rows, None]` with int64 row splits. `info` is
    int64 `[3]`: batch number (counted over all epochs), rows, epoch. All batches have `batch_rows` rows, but
    the last of an epoch may have fewer. Every iterator starts from the first batch. Lies on this process's
    own CPU. Its iterators cannot be saved.

    When iterating raises `tf.errors.OpError`, ask `cause` what happened, and make a new reader to read on:
    after an error an iterator is not to be used any more.
    """

    rows: int
    """Rows of this shard: what one epoch reads."""

    batches: int
    """Batches over all epochs: the cardinality of `dataset`."""

    def __init__(self, spec: ReadSpec):
        self.spec = spec
        footers = read_footers(spec.paths, spec.columns)
        stripes = [stripe for footer in footers for stripe in footer.stripes]
        parts = shard_parts(stripes, spec.shard, spec.num_shards)
        self.rows = sum(part.rows for part in parts)
        self.batches = spec.epochs * batches_per_epoch(parts, spec.batch_rows)
        self._process: ReaderProcess | None = None
        if self.batches:
            how = Batches(spec.batch_rows, spec.epochs, spec.shuffle_rows, spec.seed)
            self._process = ReaderProcess(spec.columns, parts, how)
        # Without rows no process is needed, and none must be asked: the client crashes on a stream without
        # batches.
        endpoint = self._process.endpoint if self._process else "unix:///nowhere"
        try:
            self.dataset = _dataset(endpoint, spec.columns, self.batches)
        except BaseException:
            self.close()
            raise

    def cause(self, error: BaseException) -> Exception:
        """What really happened when using `dataset` raised `error`.

        The reader's own `DataError`, or a `RuntimeError` that tells how the reader process failed or died;
        `error` itself when the reader has not failed.
        """
        failure = self._process.failure(_CAUSE_SECONDS) if self._process else None
        if failure is not None:
            return failure
        return error if isinstance(error, Exception) else RuntimeError(f"{type(error).__name__}: {error}")

    def close(self) -> None:
        """Ends the reader process and removes its socket. `dataset` cannot be used any more. May be called
        again."""
        if self._process is not None:
            self._process.stop()

    def __enter__(self) -> BatchReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _dataset(endpoint: str, columns: Sequence[Column], batches: int) -> tf.data.Dataset:
    types = [tf.float32 if pa.types.is_floating(kind) else tf.int64 for kind in stream_types(columns)]
    # In a process that is connected to a cluster, an enclosing `tf.device` must not move the dataset to
    # another machine.
    with tf.device(_own_cpu()):
        stream = tfio_arrow.ArrowStreamDataset(
            endpoint,
            columns=list(range(len(types))),
            output_types=tuple(types),
            output_shapes=tuple(tf.TensorShape([None]) for _ in types),
        )
        # AutoGraph, which has nothing to convert here, leaves files behind in a process that ends by `os._exit`.
        assemble = tf.autograph.experimental.do_not_convert(lambda number, tensors: _assemble(number, tensors, columns))
        stream = stream.enumerate().map(assemble)
        if not batches:
            return stream.take(0)
        return stream.apply(tf.data.experimental.assert_cardinality(batches)).prefetch(_PREFETCHED_BATCHES)


def _assemble(
    number: tf.Tensor, tensors: Sequence[tf.Tensor], columns: Sequence[Column]
) -> tuple[dict[str, tf.Tensor | tf.RaggedTensor], tf.Tensor]:
    """The tensors of one message, checked against its trailer, as named values."""
    *arrays, info = tensors
    info = tf.ensure_shape(info, [3])
    sizes = [tf.size(array, tf.int64) for array in arrays]
    rows = []
    rest = iter(sizes)
    for column in columns:
        is_list = column.kind == "int64_list"
        if is_list:
            next(rest)  # the values; the row splits tell the rows
        rows.append(next(rest) - int(is_list))
    whole = tf.logical_and(tf.equal(info[0], number), tf.reduce_all(tf.equal(info[1], tf.stack(rows))))
    # The whole function fails with it; tf.data runs it although nothing depends on it.
    tf.debugging.Assert(whole, ["batch", number, "arrived damaged; its trailer:", info])
    arrived = iter(arrays)
    values: dict[str, tf.Tensor | tf.RaggedTensor] = {}
    for column in columns:
        flat = next(arrived)
        if column.kind == "int64_list":
            values[column.name] = tf.RaggedTensor.from_row_splits(flat, next(arrived), validate=False)
        else:
            values[column.name] = flat
    return values, info


def _own_cpu() -> str:
    with tf.device(None):
        here = tf.zeros([]).device
    return tf.DeviceSpec.from_string(here).replace(device_type="CPU", device_index=0).to_string()
