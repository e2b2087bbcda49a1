"""ORC files as a `tf.data.Dataset` of training batches, decoded by an op in this process."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from types import TracebackType

import numpy as np
import pyarrow as pa
import tensorflow as tf

from data.errors import DataError
from data.read import list_lengths
from data.read.part_reader import output_schema
from data.read.plan import Plan
from data.read.plan import plan as make_plan
from data.read.prefetch import prefetched
from data.read.read_spec import ReadSpec
from data.read.stripes import Part
from data.read.threads import decode_threads
from data.sample.sampling import Lookup, Sampling, Steps
from data.where import Where, program
from ops.orc_dataset import Condition, OrcDataset, OrcRead, OutputColumn, RowSampling, SamplingFactor

# The op writes the text of an error between these.
_PROBLEM = re.compile(r"samples: (.*) \[end of message\]", re.DOTALL)


class NativeReader:
    """Reads the rows of a `ReadSpec` as batches, without another process: the same batches as
    `data.read.arrow_stream.BatchReader` gives. Close it, or use it in a `with`.

    Reads by `plan`, or else makes one, with the `DataError` of `data.read.plan.plan`. In files without checksums it
    looks at the lengths of lists before, and raises a `DataError` for damaged ones, also with `on_bad: skip`: the
    decoder, which runs in this process, would crash on them.

    `ops.orc_dataset.OrcDataset` says how much memory is needed.
    """

    dataset: tf.data.Dataset
    """Elements: as those of `data.read.arrow_stream.BatchReader.dataset`. Its iterators can be saved
    (`tf.train.Checkpoint(iterator=iter(dataset))`): a restored one gives the rest of the batches."""

    rows: int
    """Rows of this shard: what one epoch reads. With `on_bad: skip` the most it can be."""

    batches: int
    """Batches of the stream: the cardinality of `dataset`. With `on_bad: skip` the most it can be, and the cardinality
    is unknown."""

    def __init__(self, spec: ReadSpec, plan: Plan | None = None):
        self.spec = spec
        self.plan = plan or make_plan(spec)
        self.rows, self.batches = self.plan.rows, self.plan.batches
        list_lengths.check(self.plan.parts, spec.columns, spec.verify_checksums)
        self.dataset = _dataset(spec, self.plan)

    def cause(self, error: BaseException) -> Exception:
        """What really happened when using `dataset` raised `error`: a `DataError` when the samples are wrong, else
        `error` itself."""
        found = _PROBLEM.search(str(error)) if isinstance(error, tf.errors.DataLossError) else None
        if found is not None:
            return DataError(found.group(1))
        return error if isinstance(error, Exception) else RuntimeError(f"{type(error).__name__}: {error}")

    def close(self) -> None:
        """Nothing to do: what an iterator holds ends with it. May be called again."""

    def __enter__(self) -> NativeReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _dataset(spec: ReadSpec, plan: Plan) -> tf.data.Dataset:
    # In a process that is connected to a cluster, an enclosing `tf.device` must not move the dataset to
    # another machine.
    with tf.device(_own_cpu()):
        flat = OrcDataset(orc_read(spec, plan))
        # AutoGraph, which has nothing to convert here, leaves files behind in a process that ends by `os._exit`.
        assemble = tf.autograph.experimental.do_not_convert(lambda *tensors: _assemble(tensors, spec))
        return prefetched(flat.map(assemble), spec)


def _assemble(tensors: Sequence[tf.Tensor], spec: ReadSpec) -> tuple[dict[str, tf.Tensor | tf.RaggedTensor], tf.Tensor]:
    """The tensors of one batch as named values."""
    *arrays, info = tensors
    values: dict[str, tf.Tensor | tf.RaggedTensor] = {}
    arrived = iter(arrays)
    for field in output_schema(spec):
        flat = next(arrived)
        if pa.types.is_list(field.type):
            values[field.name] = tf.RaggedTensor.from_row_splits(flat, next(arrived), validate=False)
        else:
            values[field.name] = flat
    return values, info


def orc_read(spec: ReadSpec, plan: Plan) -> OrcRead:
    """`spec` and `plan` as the op takes them."""
    paths = tuple(dict.fromkeys(part.stripe.path for part in plan.parts))
    declared = [column.name for column in spec.columns]
    sources = tuple(dict.fromkeys([*declared, *spec.filter_columns]))
    return OrcRead(
        paths=tuple(os.fsencode(path) for path in paths),
        file_keys=np.array([plan.file_keys[path] for path in paths], np.uint64),
        parts=_parts(plan.parts, paths),
        kept=plan.kept if plan.exact else None,
        sources=sources,
        columns=tuple(OutputColumn(c.name, c.name, c.kind, c.missing, c.max_length) for c in spec.columns),
        where=_condition(spec.where, sources) if spec.where is not None else None,
        where_sources=tuple(spec.where.columns) if spec.where is not None else (),
        sampling=_sampling(spec.sampling, sources) if spec.sampling is not None else None,
        batch_rows=spec.batch_rows,
        epochs=spec.epochs,
        shuffle_rows=spec.shuffle_rows,
        seed=spec.seed,
        interleave=spec.interleave_stripes,
        drop_remainder=spec.drop_remainder,
        skip_bad=spec.on_bad == "skip",
        verify=spec.verify_checksums,
        decode_threads=decode_threads(spec),
        start=spec.start,
        batches=plan.batches if plan.exact else None,
    )


def _parts(parts: Sequence[Part], paths: Sequence[str]) -> np.ndarray:
    number = {path: i for i, path in enumerate(paths)}
    rows = [
        (number[p.stripe.path], p.stripe.index, p.stripe.first_row, p.stripe.rows, p.start, p.rows, p.step)
        for p in parts
    ]
    return np.array(rows, np.int64).reshape(-1, 7)


def _condition(where: Where, sources: Sequence[str]) -> Condition:
    return Condition(*program(where, sources))


def _sampling(sampling: Sampling, sources: Sequence[str]) -> RowSampling:
    factors = []
    for factor in sampling.factors:
        rate = factor.rate
        factors.append(
            SamplingFactor(
                keep=factor.kind == "keep",
                label=factor.label,
                when=_condition(factor.when, sources) if factor.when is not None else None,
                source=rate.column,
                table=rate.table,
                log_table=rate.log_table,
                bounds=np.array(rate.bounds, np.float64) if isinstance(rate, Steps) else None,
                keys=rate.keys if isinstance(rate, Lookup) else None,
            )
        )
    return RowSampling(sampling.label, sampling.seed, tuple(factors))


def _own_cpu() -> str:
    with tf.device(None):
        here = tf.zeros([]).device
    return tf.DeviceSpec.from_string(here).replace(device_type="CPU", device_index=0).to_string()
