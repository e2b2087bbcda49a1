"""Some rows of a job's samples in a file of their own, to score them twice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyarrow import orc

from data.columns import canonical, wrong_rows
from data.errors import DataError
from data.files import open_input
from data.orc_writer import OrcWriter
from data.paths import expand
from data.read.footers import Footer, read_footers
from data.read.pruning import prune_each
from data.read.stripes import Stripe
from data.where import Where, mask, type_problems
from ps_cluster.errors import UserError
from ps_cluster.job.resolve import JobFile, columns_of, training_patterns
from ps_cluster.job.samples import where_of

_STRIPES = 8


@dataclass(frozen=True)
class Sample:
    """Rows in a file, and by row where it comes from: a file, and its number there from 0."""

    path: str
    rows: int
    origins: tuple[tuple[str, int], ...]


def write_sample(job_file: JobFile, rows: int, path: str) -> Sample:
    """Writes up to `rows` rows of the test samples, or of those for training where there are none, to `path`.

    They come from a few stripes spread over all files that may hold rows of `data.where`, evenly from each; rows with
    wrong values are left out.

    Raises:
        UserError: no row of these stripes can be taken.
        DataError: the samples are not there, or not what the job says.
    """
    job = job_file.job
    patterns = job.data.test or training_patterns(job)
    columns, where = columns_of(job), where_of(job)
    names = list(dict.fromkeys([*(column.name for column in columns), *(where.columns if where else ())]))
    footers = read_footers(expand(patterns, job_file.folder), columns)
    stripes = _stripes(footers, where, job.data.verify_checksums)
    chosen = [stripes[i] for i in sorted({len(stripes) * k // _STRIPES for k in range(_STRIPES)})] if stripes else []
    schema = pa.schema([(column.name, column.arrow_type) for column in columns])
    origins: list[tuple[str, int]] = []
    with OrcWriter(path, schema) as writer:
        for left, stripe in zip(range(len(chosen), 0, -1), chosen):
            wanted = -(-(rows - len(origins)) // left)
            batch = _stripe(stripe.path, stripe.index, names)
            kept = mask(where, {name: batch[name] for name in where.columns}) if where else True
            good = np.flatnonzero(kept & ~np.any([wrong_rows(batch[c.name], c) for c in columns], axis=0))
            taken = good[np.unique(np.linspace(0, len(good) - 1, min(wanted, len(good))).astype(np.int64))]
            part = batch.take(pa.array(taken))
            first = stripe.first_row + taken
            arrays = [canonical(part[column.name], column, stripe.path, first) for column in columns]
            writer.write(pa.RecordBatch.from_arrays(arrays, schema=schema))
            origins += [(stripe.path, int(row)) for row in first]
    if not origins:
        right = f"right and pass data.where, {job.data.where}" if where else "right"
        raise UserError(f"{', '.join(patterns)}: expected rows to compare scores on, found none that are {right}")
    return Sample(path, len(origins), tuple(origins))


def _stripes(footers: Sequence[Footer], where: Where | None, verify: bool) -> list[Stripe]:
    """Stripes that have rows, without those that certainly have none of `where`."""
    if where is None:
        return [stripe for footer in footers for stripe in footer.stripes if stripe.rows]
    for footer in footers:
        for problem in type_problems(where, footer.schema, footer.path):
            raise DataError(problem)
    found: dict[tuple[str, int], Stripe] = {}
    for of_file in prune_each(footers, where, verify):
        if isinstance(of_file, DataError):
            raise of_file
        found.update({(part.stripe.path, part.stripe.index): part.stripe for part in of_file[0]})
    return list(found.values())


def _stripe(path: str, index: int, names: list[str]) -> pa.RecordBatch:
    try:
        with open_input(path) as file:
            return orc.ORCFile(file).read_stripe(index, names)
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"{path}: stripe {index}: expected readable ORC data, found: {error}") from error
