"""The memory of a reader process does not grow with the rows it reads."""

import numpy as np
import pyarrow as pa
import pytest

from data.columns import Column
from data.orc_writer import OrcWriter, Settings
from data.read.arrow_stream import BatchReader
from data.read.read_spec import ReadSpec

COLUMNS = (Column("id", "int64"), Column("score", "float32", missing=0.0), Column("items", "int64_list"))
FILE_ROWS = 250_000


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """Stripes of about 0.5 MB when decoded."""
    path = str(tmp_path_factory.mktemp("memory") / "a.orc")
    random = np.random.default_rng(1)
    schema = pa.schema([("id", pa.int64()), ("score", pa.float32()), ("items", pa.list_(pa.int64()))])
    with OrcWriter(path, schema, settings=Settings(stripe_rows=5_000)) as writer:
        for start in range(0, FILE_ROWS, 5_000):
            lengths = random.integers(0, 11, 5_000)
            splits = np.concatenate([[0], np.cumsum(lengths)])
            score = pa.array(random.normal(size=5_000).astype(np.float32), mask=random.random(5_000) < 0.1)
            items = pa.ListArray.from_arrays(
                pa.array(splits, pa.int32()), pa.array(random.integers(0, 10**6, splits[-1]))
            )
            writer.write(pa.record_batch([pa.array(np.arange(start, start + 5_000)), score, items], schema=schema))
    return path


def resident_bytes(pid):
    with open(f"/proc/{pid}/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmRSS:"))


def peaks(spec):
    """Most memory of the reader process in each tenth of the stream, and the rows it read."""
    with BatchReader(spec) as reader:
        found, rows = np.zeros(10, np.int64), 0
        for number, (_, info) in enumerate(reader.dataset):
            rows += int(info[1])
            tenth = number * 10 // reader.batches
            found[tenth] = max(found[tenth], resident_bytes(reader._process.pid))
    return found, rows


HOWS = [{}, {"shuffle_rows": 65_536, "stripe_slices": 2}]


@pytest.mark.parametrize("how", HOWS)
def test_memory_is_flat_over_two_million_rows(path, how):
    found, rows = peaks(ReadSpec((path,), COLUMNS, 4_096, epochs=8, decode_threads=2, **how))
    assert rows == 8 * FILE_ROWS
    assert found[5:].max() < found[1:5].max() + 32 * 2**20


@pytest.mark.slow
@pytest.mark.parametrize("how", HOWS)
def test_memory_is_flat_over_twenty_million_rows(path, how):
    found, rows = peaks(ReadSpec((path,), COLUMNS, 4_096, epochs=80, decode_threads=2, **how))
    assert rows == 80 * FILE_ROWS
    assert found[2:].max() < found[:2].max() + 32 * 2**20
    assert found.max() < 400 * 2**20
