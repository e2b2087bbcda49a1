"""The same conversion on Spark, for data that outgrow one machine.

Spark shares out the units of the sources, sorts and retries; what becomes of a batch of rows, and how a file is
written, is the very code that one machine runs. Executors need this package and the paths of sources and output.

The rows of a unit travel in one table together with what there is to say about them: `_kind` 0 is a row (`_a`, `_b`:
unit and row of its source), 1 a bad row (`_text`: reason and error text), 2 counts of a unit (`_text`), 3 a hashed
text (`_a`, `_b`: id and second hash, `_text`: column).
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from data.convert.collisions import PAIR, distinct
from data.convert.convert import Settings, identity_of, manifest_of
from data.convert.hashed_ids import HashedTexts
from data.convert.merge import CHUNK_ROWS, FileInfo, rebuilt, write_file
from data.convert.reading import find, read, told
from data.convert.rows import BadRow, convert_batch
from data.convert.schema import SamplesSchema, arrow_schema
from data.convert.sources import Unit, units_of
from data.convert.work import Work, output_folder
from data.convert.workers import WorkerError
from data.errors import DataError

_EXTRA = [("_kind", pa.int8()), ("_a", pa.int64()), ("_b", pa.int64()), ("_text", pa.string())]
_ROW, _BAD, _COUNTS, _TEXT = range(4)
_NO_SPARK = "--engine spark: expected the package pyspark, found none; pip install 'ps-cluster[spark]' brings it"


def convert_on_spark(
    patterns: list[str], schema: SamplesSchema, out: str, settings: Settings, master: str | None, base: str = "."
) -> dict[str, Any]:
    """As `data.convert.convert.convert`, with Spark's processes and memory. A killed one starts again.

    Files hold about `rows_per_file` rows. Raises DataError.
    """
    try:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession
    except ImportError:
        raise DataError(_NO_SPARK) from None
    work = Work(os.path.abspath(output_folder(out)), settings.work)
    sources = find(patterns, base, schema)
    work.check([source.path for source in sources])
    with work.locked():
        identity = {**identity_of(schema, sources), "engine": "spark"}
        done = work.begin(identity, settings.overwrite)
        if done is not None:
            return done
        units = [unit for source in sources for unit in units_of(source)]
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        builder = SparkSession.builder.appName("ps-cluster data convert")
        if master is not None:
            builder = builder.master(master)
        root = str(Path(__file__).resolve().parents[2])
        paths = os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])
        builder = builder.config("spark.executorEnv.PYTHONPATH", paths)
        spark = builder.getOrCreate()
        try:
            manifest = _convert(spark, work, units, schema, settings, identity)
        except (PySparkException, Py4JError) as error:
            raise WorkerError(f"Spark failed: {_cause(str(error))}") from error
        finally:
            spark.stop()
        work.finish(manifest)
        return manifest


def _convert(
    spark: Any, work: Work, units: list[Unit], schema: SamplesSchema, settings: Settings, identity: dict[str, Any]
) -> dict[str, Any]:
    from pyspark import StorageLevel
    from pyspark.sql import functions
    from pyspark.sql.pandas.types import from_arrow_schema

    paths = [source["path"] for source in identity["sources"]]
    convert = _Converter(units, schema)
    everything = spark.range(0, len(units), 1, len(units)).mapInArrow(
        convert, from_arrow_schema(_table_schema(schema), prefer_timestamp_ntz=True)
    )
    everything.persist(StorageLevel.DISK_ONLY)
    try:
        kind = functions.col("_kind")
        bad = everything.where(kind == _BAD)
        if settings.on_bad == "error":
            first = bad.orderBy("_a", "_b").select("_text").head(1)
            if first:
                raise DataError(json.loads(first[0]["_text"])["told"])
        reasons = bad.select(functions.get_json_object("_text", "$.reason").alias("reason")).groupBy("reason").count()
        counts = [json.loads(row["_text"]) for row in everything.where(kind == _COUNTS).select("_text").collect()]
        damaged = [count["damage"] for count in counts if count["damage"] is not None]
        if damaged and settings.on_bad == "error":
            raise DataError(damaged[0])
        hashed = (
            everything.where(kind == _TEXT)
            .select("_text", "_a", "_b")
            .distinct()
            .groupBy("_text")
            .agg(functions.count("*").alias("texts"), functions.countDistinct("_a").alias("ids"))
            .collect()
        )
        rows = everything.where(kind == _ROW)
        total = rows.count()
        files = max(1, -(-total // schema.output.rows_per_file))
        order = [*schema.sort_columns, "_a", "_b"]  # Spark's ascending order has nulls first, as ours
        written = (
            rows.drop("_kind", "_text")
            .repartitionByRange(files, *order)
            .sortWithinPartitions(*order)
            .mapInArrow(_Writer(work.out, schema, paths), "info string")
            .collect()
        )
        bad_rows = Counter({row["reason"]: row["count"] for row in reasons.collect()})
    finally:
        everything.unpersist()
    infos = sorted((FileInfo(**json.loads(row["info"])) for row in written), key=lambda info: info.name)
    if not infos:  # no rows: a file that says so, as on one machine
        infos = [write_file(os.path.join(work.out, "part-00000.orc"), 0, iter(()), schema, paths)]
    nulls, moved = Counter[str](), Counter[str]()
    for count in counts:
        nulls.update(count["nulls"])
        moved.update(count["moved"])
    collisions = {row["_text"]: (row["ids"], row["texts"] - row["ids"]) for row in hashed}
    return manifest_of(identity, infos, schema, bad_rows, nulls, moved, collisions, damaged)


def _cause(text: str) -> str:
    """The line of an executor's trace that names the error."""
    errors = [line.strip() for line in text.splitlines() if re.match(r"\S*(Error|Exception)\b.*: ", line.strip())]
    return (errors or text.strip().splitlines() or ["no words"])[0]


def _table_schema(schema: SamplesSchema) -> pa.Schema:
    return pa.schema([*arrow_schema(schema), *(pa.field(name, kind) for name, kind in _EXTRA)])


class _Converter:
    """From batches of unit numbers to batches of rows, in an executor."""

    def __init__(self, units: list[Unit], schema: SamplesSchema):
        self._units, self._schema = units, schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from self._unit(number, self._units[number])

    def _unit(self, number: int, unit: Unit) -> Iterator[pa.RecordBatch]:
        nulls, moved = Counter[str](), Counter[str]()
        damage = None
        for raw in read(unit, self._schema, unit.first_row):
            if raw.damage is not None:
                damage = raw.damage
                break
            bad = list(raw.bad)
            if raw.batch.num_rows:
                converted = convert_batch(raw.batch, self._schema, raw.rows, unit.source.path)
                bad += converted.bad
                nulls.update(converted.nulls)
                moved.update({name: hashes.moved for name, hashes in converted.hashes.items()})
                count = converted.batch.num_rows
                extra = [
                    pa.array(np.full(count, _ROW, np.int8)),
                    pa.array(np.full(count, number, np.int64)),
                    pa.array(raw.rows[converted.kept]),
                    pa.nulls(count, pa.string()),
                ]
                yield pa.RecordBatch.from_arrays([*converted.batch.columns, *extra], schema=_table_schema(self._schema))
                for name, hashes in converted.hashes.items():
                    pairs = _pairs(hashes)
                    yield self._told(_TEXT, pairs["id"], pairs["second"].view(np.int64), [name] * len(pairs))
            if bad:
                yield self._told(
                    _BAD, [number] * len(bad), [row.row for row in bad], [self._bad_text(row, unit) for row in bad]
                )
        counts = {"nulls": dict(nulls), "moved": dict(moved), "damage": damage}
        yield self._told(_COUNTS, [number], [0], [json.dumps(counts)])

    def _told(self, kind: int, a: Any, b: Any, texts: list[str]) -> pa.RecordBatch:
        schema = _table_schema(self._schema)
        count = len(texts)
        columns = [pa.nulls(count, field.type) for field in arrow_schema(self._schema)]
        extra = [np.full(count, kind, np.int8), a, b, texts]
        columns += [pa.array(values, found) for values, (_, found) in zip(extra, _EXTRA)]
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    def _bad_text(self, bad: BadRow, unit: Unit) -> str:
        return json.dumps({"reason": bad.reason, "told": told(bad, unit.source, self._schema)})


def _pairs(hashes: HashedTexts) -> np.ndarray:
    pairs = np.empty(len(hashes.ids), PAIR)
    pairs["id"], pairs["second"] = hashes.ids, hashes.seconds
    return distinct(pairs)


class _Writer:
    """From the sorted rows of a partition to one training file and its info, in an executor."""

    def __init__(self, out: str, schema: SamplesSchema, sources: list[str]):
        self._out, self._schema, self._sources = out, schema, sources

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        schema = arrow_schema(self._schema)
        # On disk first: how many rows there are goes into the file's metadata.
        with tempfile.TemporaryFile() as spool:
            rows = 0
            with pa.ipc.new_stream(spool, schema) as stream:
                for batch in batches:
                    columns = [batch.column(name).cast(schema.field(name).type) for name in schema.names]
                    stream.write_batch(pa.RecordBatch.from_arrays(columns, schema=schema))
                    rows += batch.num_rows
            if not rows:
                return
            spool.seek(0)
            os.makedirs(self._out, exist_ok=True)
            path = os.path.join(self._out, f"part-{TaskContext.get().partitionId():05d}.orc")
            with pa.ipc.open_stream(spool) as read_again:
                info = write_file(path, rows, _chunks(read_again), self._schema, self._sources)
        yield pa.RecordBatch.from_pydict({"info": [json.dumps(asdict(info))]})


def _chunks(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """The rows in tables of `CHUNK_ROWS`."""
    waiting: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        waiting.append(batch)
        count += batch.num_rows
        while count >= CHUNK_ROWS:
            table = pa.Table.from_batches(waiting)
            yield rebuilt(table.slice(0, CHUNK_ROWS))
            waiting = table.slice(CHUNK_ROWS).to_batches()
            count -= CHUNK_ROWS
    if count:
        yield rebuilt(pa.Table.from_batches(waiting))
