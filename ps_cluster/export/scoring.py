"""Scores of all rows of ORC files by an exported model, a stripe at a time, into another ORC file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from data.columns import Column, accepts, canonical
from data.orc_writer import OrcWriter
from data.read.footers import Footer, read_footers
from data.scan.stripe_batches import stripe_batches
from ps_cluster.errors import RunError, UserError
from ps_cluster.export.description import Description, ServedFeature
from ps_cluster.export.sharded_client import Call
from ps_cluster.job.resolve import LENGTH_SUFFIX, label_column

BATCH_ROWS = 4096
_ADDED = ("file", "row", "logit", "probability")


def score_files(
    described: Description,
    call: Call,
    paths: Sequence[str],
    out: str,
    keep: Sequence[str] = (),
    batch_rows: int = BATCH_ROWS,
    progress: Callable[[int, int], None] | None = None,
) -> int:
    """Writes the scores of all rows of `paths` to `out`, which is whole or absent; returns how many there are.

    Columns: those of `keep`, as they are; the job's label where all files hold it, as float32; `file` and `row`, the
    row's number in it from 0; `logit` and `probability`, float32.

    Raises:
        DataError: a file, column or value is not as the model needs it.
        UserError: `keep` names what cannot be kept.
        RunError: the disk is full, or the model fails.
    """
    columns = _columns(described)
    footers = read_footers(paths, columns)
    asked = label_column(described.label)
    label = asked if all(_has(footer, asked) for footer in footers) else None
    kept = _kept(footers, keep, label)
    fields = [*kept, *([pa.field(label.name, pa.float32(), nullable=True)] if label else [])]
    added = [pa.string(), pa.int64(), pa.float32(), pa.float32()]
    schema = pa.schema([*fields, *(pa.field(name, kind) for name, kind in zip(_ADDED, added))])
    needed = list(dict.fromkeys([column.name for column in columns] + list(keep) + ([label.name] if label else [])))
    total = sum(stripe.rows for footer in footers for stripe in footer.stripes)
    try:
        with OrcWriter(out, schema) as writer:
            for stripe, batch in stripe_batches(paths, needed, progress, total):
                rows = {c.name: canonical(batch[c.name], c, stripe.path, stripe.first_row) for c in columns}
                scores = [call(inputs) for inputs in _requests(described, rows, batch.num_rows, batch_rows)]
                arrays = [batch[field.name] for field in kept]
                if label:
                    arrays.append(batch[label.name].cast(pa.float32(), safe=False))
                arrays += [
                    pa.array([stripe.path] * batch.num_rows),
                    pa.array(np.arange(stripe.first_row, stripe.first_row + batch.num_rows)),
                    *(pa.array(np.concatenate([one[name] for one in scores])) for name in ("logit", "probability")),
                ]
                writer.write(pa.RecordBatch.from_arrays(arrays, schema=schema))
            return writer.rows
    except OSError as error:
        raise RunError(f"{error.filename or out}: {error.strerror or error}") from error


def _columns(described: Description) -> list[Column]:
    columns = [Column(one.column, one.kind, one.missing, one.max_length) for one in described.features]  # type: ignore[arg-type]
    return list(dict.fromkeys(columns))


def _has(footer: Footer, column: Column) -> bool:
    if footer.schema.names.count(column.name) != 1:
        return False
    return accepts(column, footer.schema.field(column.name).type)


def _kept(footers: Sequence[Footer], keep: Sequence[str], label: Column | None) -> list[pa.Field]:
    fields = []
    for name in keep:
        if name in _ADDED or (label and name == label.name):
            raise UserError(f"--keep: expected columns that are not written anyway, found {name}")
        for footer in footers:
            if footer.schema.names.count(name) != 1:
                names = ", ".join(footer.schema.names[:12])
                raise UserError(f"--keep: expected columns of {footer.path} ({names}), found {name}")
            kind, first = footer.schema.field(name).type, footers[0].schema.field(name).type
            if kind != first:
                raise UserError(f"--keep: {name}: expected {first} in all files, found {kind} in {footer.path}")
        fields.append(pa.field(name, footers[0].schema.field(name).type))
    return fields


def _requests(
    described: Description, rows: Mapping[str, pa.Array], count: int, batch_rows: int
) -> Iterator[dict[str, np.ndarray]]:
    for start in range(0, count, batch_rows):
        length = min(batch_rows, count - start)
        request: dict[str, np.ndarray] = {}
        for feature in described.features:
            request.update(_inputs(feature, rows[feature.column].slice(start, length)))
        yield request


def _inputs(feature: ServedFeature, values: pa.Array) -> dict[str, np.ndarray]:
    """What a model takes of a feature's canonical column."""
    if feature.kind != "int64_list":
        return {feature.name: values.to_numpy()}
    offsets = values.offsets.to_numpy().astype(np.int64)
    lengths = np.diff(offsets)
    padded = np.zeros([len(lengths), max(int(lengths.max(initial=0)), 1)], np.int64)
    padded[np.arange(padded.shape[1]) < lengths[:, np.newaxis]] = values.flatten().to_numpy()
    return {feature.name: padded, feature.name + LENGTH_SUFFIX: lengths}
