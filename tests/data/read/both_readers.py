"""What the native reader gives beside what the tfio reader's process makes of the same plan."""

import itertools

import numpy as np
import pyarrow as pa
import tensorflow as tf

from data.columns import Column
from data.errors import DataError
from data.read.batches import Shard, batches
from data.read.native_reader import NativeReader, orc_read
from data.read.plan import plan as make_plan
from ops.orc_dataset import OrcDataset

COLUMNS = (Column("id", "int64"), Column("score", "float32"), Column("items", "int64_list"))


class NoWatcher:
    def reading(self, part):
        pass

    def read(self, part):
        pass


def plain(values):
    """A column's values as Python's; floats by their bits, so that NaN equals itself and -0.0 differs from 0.0."""
    values = np.asarray(values)
    return (values.view(np.int32) if values.dtype == np.float32 else values).tolist()


def by_python(spec, plan):
    """The batches as the tfio reader's process makes them: (info, columns)."""
    found = []
    for number, batch in enumerate(batches(Shard.of(spec, plan), 1, NoWatcher())):
        info = [number, batch.rows.num_rows, batch.epoch, *batch.counts[0].tolist()]
        columns = [c.to_pylist() if pa.types.is_list(c.type) else plain(c) for c in batch.rows.columns]
        found.append((info, columns))
    return found


def flat_batches(spec, iterator):
    """The rest of an iterator of `OrcDataset` in the form of `by_python`."""
    found = []
    for *tensors, info in iterator:
        arrays = iter([tensor.numpy() for tensor in tensors])
        columns = []
        for column in spec.columns:
            values = next(arrays)
            if column.kind == "int64_list":
                splits = next(arrays)
                values = [values[a:b].tolist() for a, b in itertools.pairwise(splits)]
            columns.append(values if column.kind == "int64_list" else plain(values))
        columns += [plain(array) for array in arrays]
        found.append((info.numpy().tolist(), columns))
    return found


def by_op(spec, plan):
    try:
        return flat_batches(spec, OrcDataset(orc_read(spec, plan)))
    except tf.errors.DataLossError as error:
        raise NativeReader(spec, plan).cause(error) from error


def outcome(read, spec, plan):
    """The batches, or the text of the `DataError`."""
    try:
        return read(spec, plan)
    except DataError as error:
        return str(error)


def same(spec, plan=None):
    plan = plan or make_plan(spec)
    expected = outcome(by_python, spec, plan)
    assert outcome(by_op, spec, plan) == expected
    return expected
