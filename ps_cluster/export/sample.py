"""Some rows of a job's samples in a file of their own, to score them twice."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyarrow import orc

from data.columns import Column, canonical, wrong_rows
from data.errors import DataError
from data.files import open_input
from data.orc_writer import OrcWriter
from data.paths import expand
from data.read.footers import read_footers
from ps_cluster.errors import UserError
from ps_cluster.job.resolve import JobFile, columns_of, training_patterns

_STRIPES = 8


@dataclass(frozen=True)
class Sample:
    """Rows in a file, and by row where it comes from: a file, and its number there from 0."""

    path: str
    rows: int
    origins: tuple[tuple[str, int], ...]


def write_sample(job_file: JobFile, rows: int, path: str) -> Sample:
    """Writes up to `rows` rows of the test samples, or of those for training where there are none, to `path`.

    They come from a few stripes spread over all files, evenly from each; rows with wrong values are left out, and
    `data.where` is not asked.

    Raises:
        UserError: no row can be taken.
        DataError: the samples are not there, or not what the job says.
    """
    job = job_file.job
    patterns = job.data.test or training_patterns(job)
    columns = columns_of(job)
    footers = read_footers(expand(patterns, job_file.folder), columns)
    stripes = [stripe for footer in footers for stripe in footer.stripes if stripe.rows]
    chosen = [stripes[i] for i in sorted({len(stripes) * k // _STRIPES for k in range(_STRIPES)})]
    schema = pa.schema([(column.name, column.arrow_type) for column in columns])
    origins: list[tuple[str, int]] = []
    with OrcWriter(path, schema) as writer:
        for left, stripe in zip(range(len(chosen), 0, -1), chosen):
            wanted = -(-(rows - len(origins)) // left)
            batch = _stripe(stripe.path, stripe.index, columns)
            good = np.flatnonzero(~np.any([wrong_rows(batch[c.name], c) for c in columns], axis=0))
            taken = good[np.unique(np.linspace(0, len(good) - 1, min(wanted, len(good))).astype(np.int64))]
            part = batch.take(pa.array(taken))
            first = stripe.first_row + taken
            arrays = [canonical(part[column.name], column, stripe.path, first) for column in columns]
            writer.write(pa.RecordBatch.from_arrays(arrays, schema=schema))
            origins += [(stripe.path, int(row)) for row in first]
    if not origins:
        raise UserError(f"{', '.join(patterns)}: expected rows to compare scores on, found none that are right")
    return Sample(path, len(origins), tuple(origins))


def _stripe(path: str, index: int, columns: list[Column]) -> pa.RecordBatch:
    try:
        with open_input(path) as file:
            return orc.ORCFile(file).read_stripe(index, [column.name for column in columns])
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"{path}: stripe {index}: expected readable ORC data, found: {error}") from error
