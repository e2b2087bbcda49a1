"""A conversion from start to end: sources to runs, runs to training files, a manifest.

Both steps are shared out over processes, and what is done is kept: a conversion that was killed continues. Rows are in
a total order - sort key, then source, then row - and files are cut by rank, so the files are the same bytes whatever
the number of processes, the memory and the kills on the way.
"""

from __future__ import annotations

import os
import resource
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from data.convert.collisions import count_collisions
from data.convert.mapped import forget, map_array
from data.convert.merge import FORMAT_VERSION, FileInfo, Merge, hash_of, write_file
from data.convert.reading import find, read, told
from data.convert.rows import convert_batch
from data.convert.runs import BATCH_BYTES, Run, RunBuilder, load_runs, naming, sampled_keys
from data.convert.schema import HASHED, SamplesSchema, arrow_schema
from data.convert.sources import SourceFile, Unit, units_of
from data.convert.work import Work, output_folder
from data.convert.workers import run_tasks
from data.errors import DataError

LEAST_MEMORY_BYTES = 64 << 20  # of one process
_MOST_RUN_BYTES = 1 << 30
_SAMPLES = "samples.npy"

Progress = Callable[[str, int, int], None]  # step ("reading": bytes, "writing": rows), done, total


@dataclass(frozen=True)
class Settings:
    """How a conversion is done; none of it changes what a good row becomes."""

    processes: int = 1
    memory_bytes: int = 2 << 30
    """All processes together, beside the about 150 MB (TFRecord: 500 MB) that each needs for its programs."""
    on_bad: Literal["error", "skip"] = "error"
    overwrite: bool = False
    work: str | None = None
    """Folder for the runs. Default: beside the output."""

    @property
    def process_bytes(self) -> int:
        """Memory of one process."""
        return max(LEAST_MEMORY_BYTES, self.memory_bytes // max(1, self.processes))


DEFAULTS = Settings()


def convert(
    patterns: Sequence[str],
    schema: SamplesSchema,
    out: str,
    settings: Settings = DEFAULTS,
    base: str = ".",
    progress: Progress = lambda step, done, total: None,
) -> dict[str, Any]:
    """Converts the sources into the folder `out`; the manifest, also when it was there already.

    Raises DataError for wrong input: files, rows, an output that is another conversion's or in use.
    """
    work = Work(output_folder(out), settings.work)
    sources = find(patterns, base, schema)
    work.check([source.path for source in sources])
    with work.locked():
        identity = identity_of(schema, sources)
        done = work.begin(identity, settings.overwrite)
        if done is not None:
            return done
        units = [unit for source in sources for unit in units_of(source)]
        runs = _make_runs(work, units, schema, settings, progress)
        files = _write_files(work, runs, sources, schema, settings, progress)
        manifest = _manifest(work, identity, files, runs, schema, settings)
        work.finish(manifest)
        return manifest


def identity_of(schema: SamplesSchema, sources: Sequence[SourceFile]) -> dict[str, Any]:
    """What makes two conversions the same."""
    return {
        "format_version": FORMAT_VERSION,
        "schema": schema.model_dump(mode="json"),
        "sources": [
            {"path": source.path, "bytes": source.bytes, "mtime_ns": source.mtime_ns, "format": source.format}
            for source in sources
        ],
    }


class RunMaker:
    """Makes runs of units, in one process."""

    def __init__(self, folder: str, schema: SamplesSchema, run_bytes: int, on_bad: str):
        self._folder, self._schema, self._run_bytes, self._on_bad = folder, schema, run_bytes, on_bad

    def make(self, number: int, unit: Unit, start: int, report: Callable[[int], None]) -> list[Run]:
        """Converts the unit from row `start` on; reports bytes read."""
        schema, runs, reported = self._schema, [], 0
        builder = RunBuilder(self._folder, number, start, schema.sort_columns, arrow_schema(schema), self._run_bytes)
        end, damage = start, None
        for raw in read(unit, schema, start):
            if raw.damage is not None:
                if self._on_bad == "error":
                    raise DataError(raw.damage)
                damage = raw.damage
                break
            bad = list(raw.bad)
            if raw.batch.num_rows:
                converted = convert_batch(raw.batch, schema, raw.rows, unit.source.path)
                bad += converted.bad
            if bad and self._on_bad == "error":
                raise DataError(told(min(bad, key=lambda row: row.row), unit.source, schema))
            builder.add_bad(row.reason for row in bad)
            end = raw.next_row
            run = builder.add(converted, end) if raw.batch.num_rows else None
            if run is not None:
                runs.append(run)
            report(raw.bytes - reported)
            reported = raw.bytes
        runs.append(builder.flush(end, last=True, damage=damage))
        return runs

    def close(self) -> None:
        """Nothing is left open."""


class FileMaker:
    """Writes training files, in one process."""

    def __init__(self, work: Work, runs: list[Run], sources: list[str], schema: SamplesSchema, memory_bytes: int):
        samples = os.path.join(work.folder, _SAMPLES)
        self._merge = Merge(work.runs, runs, schema, np.load(samples) if os.path.exists(samples) else None)
        self._work, self._sources, self._schema, self._memory_bytes = work, sources, schema, memory_bytes

    def make(self, name: str, first: int, last: int, report: Callable[[int], None]) -> FileInfo:
        """Writes rows `first` to `last` - 1 of all as one file; reports rows written."""
        chunks = self._merge.chunks(first, last, self._memory_bytes)
        path = os.path.join(self._work.out, name)
        with naming(path):
            info = write_file(path, last - first, chunks, self._schema, self._sources, report)
        self._work.finish_file(info)
        return info

    def close(self) -> None:
        """Closes the runs."""
        self._merge.close()


def _make_runs(
    work: Work, units: list[Unit], schema: SamplesSchema, settings: Settings, progress: Progress
) -> list[Run]:
    chains = load_runs(work.runs, [unit.first_row for unit in units])
    tasks = []
    for number, (unit, chain) in enumerate(zip(units, chains)):
        if not chain or not chain[-1].last:
            tasks.append(("make", (number, unit, chain[-1].end if chain else unit.first_row)))
    total = sum({unit.source.path: unit.source.bytes for unit in units}.values())
    counter = _Counter(progress, "reading", total)
    # At a flush the rows are there twice, and the parser holds some.
    run_bytes = min(_MOST_RUN_BYTES, settings.process_bytes // 4)
    arguments = (work.runs, schema, run_bytes, settings.on_bad)
    made = run_tasks(RunMaker, arguments, tasks, settings.processes, counter.add)
    for (_, (number, *_rest)), runs in zip(tasks, made):
        chains[number] += runs
    runs = [run for chain in chains for run in chain]
    skipped = next((reason for run in runs for reason in run.bad), None) or next(
        (run.damage for run in runs if run.damage is not None), None
    )
    if skipped is not None and settings.on_bad == "error":
        raise DataError(
            f"{work.out}: expected a conversion without bad rows, found rows that an earlier try skipped ({skipped}); "
            "go on with --on-bad skip, or use --overwrite"
        )
    return runs


def _write_files(
    work: Work,
    runs: list[Run],
    sources: list[SourceFile],
    schema: SamplesSchema,
    settings: Settings,
    progress: Progress,
) -> list[FileInfo]:
    filled = [run for run in runs if run.rows]
    _check_memory(filled, settings)
    if schema.sort_columns and filled:
        keys = [map_array(os.path.join(work.runs, run.keys.name)) for run in filled if run.keys]
        samples = os.path.join(work.folder, _SAMPLES)
        with naming(samples):
            np.save(samples, sampled_keys(keys))
        forget(keys)
    rows = sum(run.rows for run in runs)
    size = schema.output.rows_per_file
    cuts = [(first, min(first + size, rows)) for first in range(0, rows, size)] or [(0, 0)]
    names = [f"part-{number:05d}.orc" for number in range(len(cuts))]
    infos = [work.finished_file(name) for name in names]
    tasks = [("make", (name, *cut)) for name, cut, info in zip(names, cuts, infos) if info is None]
    counter = _Counter(progress, "writing", rows)
    counter.add(sum(info.rows for info in infos if info is not None))
    arguments = (work, filled, [source.path for source in sources], schema, settings.process_bytes)
    made = iter(run_tasks(FileMaker, arguments, tasks, settings.processes, counter.add))
    return [next(made) if info is None else info for info in infos]


def _check_memory(runs: list[Run], settings: Settings) -> None:
    """A merge holds a batch of each run, and a file descriptor."""
    needed = 2 * len(runs) * BATCH_BYTES
    if needed > settings.process_bytes:
        raise DataError(
            f"memory: expected at least {needed * settings.processes >> 20} MB for a merge of {len(runs)} runs, found "
            f"{settings.memory_bytes >> 20} MB; start again with --overwrite and more memory"
        )
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < len(runs) + 100:
        wanted = len(runs) + 100 if hard == resource.RLIM_INFINITY else min(hard, len(runs) + 100)
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _manifest(
    work: Work,
    identity: dict[str, Any],
    files: list[FileInfo],
    runs: list[Run],
    schema: SamplesSchema,
    settings: Settings,
) -> dict[str, Any]:
    bad, nulls, moved = Counter[str](), Counter[str](), Counter[str]()
    for run in runs:
        bad.update(run.bad)
        nulls.update(run.nulls)
        moved.update(run.moved)
    collisions = {}
    for column in schema.columns:
        if column.kind in HASHED:
            pairs = [run.pairs[column.name] for run in runs if column.name in run.pairs]
            arrays = [map_array(os.path.join(work.runs, file.name)) for file in pairs]
            collisions[column.name] = count_collisions(arrays, settings.process_bytes // 128)
    damaged = [run.damage for run in runs if run.damage is not None]
    return manifest_of(identity, files, schema, bad, nulls, moved, collisions, damaged)


def manifest_of(
    identity: dict[str, Any],
    files: list[FileInfo],
    schema: SamplesSchema,
    bad: Counter[str],
    nulls: Counter[str],
    moved: Counter[str],
    collisions: dict[str, tuple[int, int]],
    damaged: list[str],
) -> dict[str, Any]:
    """The manifest. `bad`: rows by reason; `collisions`: distinct ids and collisions by hashed column."""
    rows = sum(info.rows for info in files)
    hashed = {}
    for column in schema.columns:
        if column.kind in HASHED:
            ids, shared = collisions.get(column.name, (0, 0))
            hashed[column.name] = {"distinct_ids": ids, "collisions": shared, "moved": moved[column.name]}
    return {
        "format_version": FORMAT_VERSION,
        "rows": rows,
        "files": [asdict(info) for info in files],
        "sort": list(schema.sort_columns),
        "hash": hash_of(schema),
        "counts": {
            "rows_read": rows + sum(bad.values()),
            "bad_rows": dict(sorted(bad.items())),
            "nulls": {column.name: nulls[column.name] for column in schema.columns},
            "hashed": hashed,
        },
        "damaged": damaged,
        "identity": identity,
    }


class _Counter:
    """Sums up what tasks report."""

    def __init__(self, progress: Progress, step: str, total: int):
        self._progress, self._step, self._total, self._done = progress, step, total, 0

    def add(self, count: int) -> None:
        self._done += count
        self._progress(self._step, min(self._done, self._total), self._total)
