"""Reading Parquet and ORC sources."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc

from data.convert.raw import BATCH_BYTES, BATCH_ROWS, Raw
from data.convert.schema import SamplesSchema
from data.convert.sources import SourceFile, Unit, damaged, opened


def schema_of(source: SourceFile) -> pa.Schema:
    """The file's columns. Raises DataError."""
    try:
        with opened(source.path) as file:
            return pq.read_schema(file) if source.format == "parquet" else orc.ORCFile(file).schema
    except (pa.ArrowException, OSError) as error:
        raise damaged(source, error) from None


def read(unit: Unit, schema: SamplesSchema, start_row: int) -> Iterator[Raw]:
    """The unit's rows from `start_row` of the source on."""
    row = unit.first_row
    batches = _parquet if unit.source.format == "parquet" else _orc
    try:
        for batch, share in batches(unit, schema.source_names):
            skipped = min(max(start_row - row, 0), batch.num_rows)
            row += batch.num_rows
            if skipped < batch.num_rows:
                rows = np.arange(row - batch.num_rows + skipped, row)
                yield Raw(batch.slice(skipped), rows, row, int(unit.source.bytes * share))
    except (pa.ArrowException, OSError) as error:
        nothing = pa.RecordBatch.from_pydict({})
        yield Raw(nothing, np.zeros(0, np.int64), max(row, start_row), 0, damage=str(damaged(unit.source, error)))


def _parquet(unit: Unit, names: list[str]) -> Iterator[tuple[pa.RecordBatch, float]]:
    with (
        opened(unit.source.path) as whole,
        pq.ParquetFile(whole, pre_buffer=False, buffer_size=1 << 20) as file,
    ):
        groups = file.metadata.num_row_groups
        for group in range(unit.first, unit.last):
            info = file.metadata.row_group(group)
            per_row = info.total_byte_size / max(1, info.num_rows)
            rows = int(min(BATCH_ROWS, max(16, BATCH_BYTES / max(1.0, per_row))))
            done = 0
            for batch in file.iter_batches(rows, row_groups=[group], columns=names, use_threads=False):
                done += batch.num_rows
                yield batch, (group - unit.first + done / max(1, info.num_rows)) / groups


def _orc(unit: Unit, names: list[str]) -> Iterator[tuple[pa.RecordBatch, float]]:
    file = orc.ORCFile(opened(unit.source.path))
    for stripe in range(unit.first, unit.last):
        whole = file.read_stripe(stripe, columns=names)
        for first in range(0, whole.num_rows, BATCH_ROWS):
            yield whole.slice(first, BATCH_ROWS), (stripe + 1 - unit.first) / file.nstripes
