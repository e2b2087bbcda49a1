"""ORC files back to TFRecord of tf.train.Example, a file for each.

Integers and lists of them become an Int64List, floats a FloatList, texts a BytesList. A null is an absent feature, an
empty list a feature without values.
"""

from __future__ import annotations

import errno
import os
import uuid
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import orc

from data.convert.convert import DEFAULTS, Progress, Settings
from data.convert.merge import FORMAT_VERSION, FileInfo, sha256_of
from data.convert.read_tfrecord import tensorflow
from data.convert.sources import SourceFile, damaged, describe, opened
from data.convert.work import Work, output_folder
from data.convert.workers import run_tasks
from data.errors import DataError
from data.paths import expand
from data.read.footers import read_footer

_BATCH_ROWS = 1024


def to_tfrecord(
    patterns: Sequence[str],
    out: str,
    settings: Settings = DEFAULTS,
    gzip: bool = False,
    base: str = ".",
    progress: Progress = lambda step, done, total: None,
) -> dict[str, Any]:
    """Writes each ORC file as one TFRecord file into the folder `out`; the manifest. Raises DataError."""
    work = Work(output_folder(out), settings.work)
    sources = [describe(path, "orc") for path in expand(patterns, base)]
    footers = [read_footer(source.path) for source in sources]
    problems = [
        f"{source.path}: column {field.name}: expected integers, floats, texts or lists of them, found {field.type}"
        for source, footer in zip(sources, footers)
        for field in footer.schema
        if _kind(field.type) is None
    ]
    if problems:
        raise DataError("\n".join(problems))
    work.check([source.path for source in sources])
    with work.locked():
        identity = {
            "to": "tfrecord",
            "gzip": gzip,
            "sources": [
                {"path": source.path, "bytes": source.bytes, "mtime_ns": source.mtime_ns} for source in sources
            ],
        }
        done = work.begin(identity, settings.overwrite)
        if done is not None:
            return done
        ending = ".tfrecord.gz" if gzip else ".tfrecord"
        names = [f"part-{number:05d}{ending}" for number in range(len(sources))]
        infos = [work.finished_file(name) for name in names]
        rows = [sum(stripe.rows for stripe in footer.stripes) for footer in footers]
        written = sum(info.rows for info in infos if info is not None)
        tasks = [("make", (name, source)) for name, source, info in zip(names, sources, infos) if info is None]

        def report(count: int) -> None:
            nonlocal written
            written += count
            progress("writing", written, sum(rows))

        made = iter(run_tasks(_Maker, (work, gzip), tasks, settings.processes, report))
        files = [next(made) if info is None else info for info in infos]
        manifest = {
            "format_version": FORMAT_VERSION,
            "rows": sum(info.rows for info in files),
            "files": [asdict(info) for info in files],
            "identity": identity,
        }
        work.finish(manifest)
        return manifest


class _Maker:
    """Writes TFRecord files, in one process."""

    def __init__(self, work: Work, gzip: bool):
        self._work, self._gzip = work, gzip

    def make(self, name: str, source: SourceFile, report: Callable[[int], None]) -> FileInfo:
        path = os.path.join(self._work.out, name)
        rows = _write(path, source, self._gzip, report)
        info = FileInfo(name, rows, os.path.getsize(path), sha256_of(path), None, None, None, None)
        self._work.finish_file(info)
        return info

    def close(self) -> None:
        """Nothing is left open."""


def _write(path: str, source: SourceFile, gzip: bool, report: Callable[[int], None]) -> int:
    tf = tensorflow()
    beside = f"{path}.{uuid.uuid4().hex[:8]}.partial"
    rows = 0
    try:
        with tf.io.TFRecordWriter(os.fsencode(beside), "GZIP" if gzip else None) as writer:
            for batch in _batches(source):
                for record in _records(tf, batch, source, rows):
                    writer.write(record)
                rows += batch.num_rows
                report(batch.num_rows)
        with open(beside, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(beside, path)
    except tf.errors.OpError as error:
        number = errno.ENOSPC if isinstance(error, tf.errors.ResourceExhaustedError) else errno.EIO
        _remove(beside)
        raise OSError(number, os.strerror(number), path) from error
    except BaseException:
        _remove(beside)
        raise
    return rows


def _remove(path: str) -> None:
    if os.path.exists(path):
        os.unlink(path)


def _batches(source: SourceFile) -> Any:
    try:
        file = orc.ORCFile(opened(source.path))
        for stripe in range(file.nstripes):
            whole = file.read_stripe(stripe)
            for first in range(0, whole.num_rows, _BATCH_ROWS):
                yield whole.slice(first, _BATCH_ROWS)
    except (pa.ArrowException, OSError) as error:
        raise damaged(source, error) from None


def _records(tf: Any, batch: pa.RecordBatch, source: SourceFile, first_row: int) -> Any:
    """The rows as serialised Examples; equal rows are equal bytes."""
    train = tf.train
    columns = []
    for field, array in zip(batch.schema, batch.columns):
        kind = _kind(field.type)
        _check_exact(field, array, source, first_row)
        columns.append((field.name, kind, pa.types.is_list(field.type), array.to_pylist()))
    for row in range(batch.num_rows):
        example = train.Example()
        features = example.features.feature
        for name, kind, is_list, values in columns:
            value = values[row]
            if value is None:
                continue
            items = value if is_list else (value,)
            try:
                if kind == "bytes":
                    texts = [item if isinstance(item, bytes) else item.encode() for item in items]
                    features[name].bytes_list.value.extend(texts)
                    features[name].bytes_list.SetInParent()
                elif kind == "float":
                    features[name].float_list.value.extend(items)
                    features[name].float_list.SetInParent()
                else:
                    features[name].int64_list.value.extend(items)
                    features[name].int64_list.SetInParent()
            except (TypeError, AttributeError):
                raise DataError(
                    f"{source.path}: row {first_row + row + 1}: column {name}: expected a list without nulls, found "
                    "one inside"
                ) from None
        yield example.SerializeToString(deterministic=True)


def _kind(found: pa.DataType) -> str | None:
    if pa.types.is_list(found):
        found = found.value_type
    if pa.types.is_integer(found) or pa.types.is_boolean(found):
        return "int"
    if pa.types.is_floating(found):
        return "float"
    return "bytes" if pa.types.is_string(found) or pa.types.is_binary(found) else None


def _check_exact(field: pa.Field, array: pa.Array, source: SourceFile, first_row: int) -> None:
    """A FloatList holds float32: a double that is none is told, not rounded."""
    kind = field.type.value_type if pa.types.is_list(field.type) else field.type
    if not pa.types.is_float64(kind):
        return
    values = (array.flatten() if pa.types.is_list(field.type) else array).drop_null().to_numpy(zero_copy_only=False)
    with np.errstate(over="ignore"):
        rounded = values.astype(np.float32).astype(np.float64)
    different = (rounded != values) & ~np.isnan(values)
    if different.any():
        value = values[int(np.argmax(different))]
        raise DataError(
            f"{source.path}: rows from {first_row + 1} on: column {field.name}: expected numbers that float32 holds "
            f"exactly, as tf.train.Example does, found {value!r}"
        )
