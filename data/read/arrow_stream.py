"""ORC files as a `tf.data.Dataset` of training batches, through tensorflow-io's Arrow stream."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType

import pyarrow as pa
import tensorflow as tf
from tensorflow.python.data.ops.map_op import _MapDataset
from tensorflow_io import arrow as tfio_arrow

from data.read.batches import Shard
from data.read.part_reader import output_schema
from data.read.plan import Plan
from data.read.plan import plan as make_plan
from data.read.prefetch import prefetched
from data.read.read_spec import ReadSpec
from data.read.reader_process import ReaderProcess
from data.read.stream_format import stream_types
from data.read.threads import decode_threads

_CAUSE_SECONDS = 1.0


class BatchReader:
    """Reads the rows of a `ReadSpec` as batches; owns the reader process. Close it, or use it in a `with`.

    Reads by `plan`, or else makes one, and raises the `DataError` of `data.read.plan.plan`.
    """

    dataset: tf.data.Dataset
    """Elements: `(values, info)`. `values` is a dict by column name: `int64` → int64 `[rows]`, `float32` →
    float32 `[rows]`, `int64_list` → `RaggedTensor` int64 `[rows, None]` with int64 row splits; with sampling also
    `sample_weight` and `sample_offset`, float32 `[rows]`. `info` is int64 `[4 + columns]`: batch number (counted from
    0 over the whole stream), rows, epoch, rows lost, then of each declared column the nulls that were filled. Rows lost
    and nulls are those found while reading since the batch before. All batches have `batch_rows` rows, but the last of
    an epoch may have fewer, or is left out with `drop_remainder`. Every iterator starts from the first batch. Lies on
    this process's own CPU. Its iterators cannot be saved. A `map` behind it runs in parallel only where it is given
    `num_parallel_calls`: tf.data's own choice of that is off for the whole pipeline.

    When iterating raises `tf.errors.OpError`, ask `cause` what happened, and make a new reader to read on:
    after an error an iterator is not to be used any more.
    """

    rows: int
    """Rows of this shard: what one epoch reads. With `on_bad: skip` the most it can be."""

    batches: int
    """Batches of the stream: the cardinality of `dataset`. With `on_bad: skip` the most it can be, and the cardinality
    is unknown."""

    def __init__(self, spec: ReadSpec, plan: Plan | None = None):
        self.spec = spec
        self.plan = plan or make_plan(spec)
        self.rows, self.batches = self.plan.rows, self.plan.batches
        self._process: ReaderProcess | None = None
        if self.batches:
            self._process = ReaderProcess(Shard.of(spec, self.plan), decode_threads(spec))
        # Without batches no process is needed, and none must be asked: the client crashes on a stream without them.
        endpoint, key = (self._process.endpoint, self._process.key) if self._process else ("unix:///nowhere", 0)
        try:
            self.dataset = _dataset(endpoint, key, spec, self.batches, self.plan.exact)
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


def _dataset(endpoint: str, key: int, spec: ReadSpec, batches: int, exact: bool) -> tf.data.Dataset:
    types = [tf.float32 if pa.types.is_floating(kind) else tf.int64 for kind in stream_types(spec)]
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
        assemble = tf.autograph.experimental.do_not_convert(lambda seal, tensors: _assemble(seal, tensors, spec))
        # The ops of the function are so small that to hand them to other threads costs more than they do.
        stream = _MapDataset(stream.enumerate(key), assemble, use_inter_op_parallelism=False)
        options = tf.data.Options()
        options.experimental_optimization.map_parallelization = False
        stream = stream.with_options(options)
        if not batches:
            return stream.take(0)
        if exact:
            stream = stream.apply(tf.data.experimental.assert_cardinality(batches))
        return prefetched(stream, spec)


def _assemble(
    seal: tf.Tensor, tensors: Sequence[tf.Tensor], spec: ReadSpec
) -> tuple[dict[str, tf.Tensor | tf.RaggedTensor], tf.Tensor]:
    """The tensors of one batch, which has arrived as a whole if it ends with `seal`, as named values."""
    *arrays, trailer = tensors
    trailer = tf.ensure_shape(trailer, [5 + len(spec.columns)])
    # The whole function fails with it; tf.data runs it although nothing depends on it.
    tf.raw_ops.Assert(condition=tf.equal(trailer[-1], seal), data=["a batch arrived damaged; its trailer:", trailer])
    values: dict[str, tf.Tensor | tf.RaggedTensor] = {}
    arrived = iter(arrays)
    for field in output_schema(spec):
        flat = next(arrived)
        if pa.types.is_list(field.type):
            values[field.name] = tf.RaggedTensor.from_row_splits(flat, next(arrived), validate=False)
        else:
            values[field.name] = flat
    return values, trailer[:-1]


def _own_cpu() -> str:
    with tf.device(None):
        here = tf.zeros([]).device
    return tf.DeviceSpec.from_string(here).replace(device_type="CPU", device_index=0).to_string()
