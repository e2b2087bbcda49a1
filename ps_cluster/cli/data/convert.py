"""`ps-cluster data convert`: other files to training ORC, and back."""

from __future__ import annotations

import argparse
import os
import re
from typing import Any

from ps_cluster.cli.data.progress import Progress
from ps_cluster.errors import RunError, UserError

_CONVERT = (
    "Converts TFRecord, CSV, TSV, Parquet and ORC files to ORC training files, as a samples file declares their "
    "columns (`ps-cluster data infer` drafts one). A conversion that was interrupted continues when it is started "
    "again. With --to tfrecord, ORC files go back to TFRecord of tf.train.Example; that needs no samples file."
)
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def add_parser(kinds: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the kind to `ps-cluster data`."""
    convert = kinds.add_parser("convert", help="TFRecord, CSV, Parquet or ORC to training ORC", description=_CONVERT)
    convert.add_argument("sources", metavar="SOURCE", nargs="+", help="files, folders or globs")
    convert.add_argument("--out", metavar="FOLDER", required=True, help="folder for the files and manifest.json")
    convert.add_argument("--schema", metavar="FILE", help="samples file (YAML) that declares the columns")
    convert.add_argument("--to", choices=("orc", "tfrecord"), default="orc", help="what to write (default: orc)")
    convert.add_argument("--gzip", action="store_true", help="with --to tfrecord: compress the files")
    convert.add_argument("--processes", type=int, help="number of processes (default: one for each core)")
    convert.add_argument(
        "--memory", default="2G", metavar="SIZE", help="for rows, all processes together, e.g. 500M (default: 2G)"
    )
    convert.add_argument(
        "--on-bad", choices=("error", "skip"), default="error", help="a row that does not fit: stop, or count and go on"
    )
    convert.add_argument("--overwrite", action="store_true", help="replace an earlier conversion in FOLDER")
    convert.add_argument("--work", metavar="FOLDER", help="folder for what is in the making (default: OUT.work)")
    convert.add_argument("--engine", choices=("local", "spark"), default="local", help="where it runs (default: local)")
    convert.add_argument(
        "--master", metavar="URL", help="with --engine spark: Spark's master (default: its own setting)"
    )
    convert.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    if args.to == "tfrecord":
        if args.schema is not None:
            raise UserError("--schema: expected none with --to tfrecord, which takes the files' own columns")
        if args.engine != "local":
            raise UserError("--engine: expected local with --to tfrecord, found spark")
        return _back(args)
    if args.schema is None:
        raise UserError("--schema: expected a samples file; `ps-cluster data infer` drafts one from the sources")
    if args.gzip:
        raise UserError("--gzip: expected only with --to tfrecord")
    from data.convert.convert import convert
    from data.convert.workers import WorkerError
    from ps_cluster.cli.data.samples_file import load_samples_file

    schema = load_samples_file(args.schema)
    try:
        with _Steps() as steps:
            if args.engine == "spark":
                from data.convert.spark import convert_on_spark

                manifest = convert_on_spark(args.sources, schema, args.out, _settings(args), args.master)
            else:
                manifest = convert(args.sources, schema, args.out, _settings(args), progress=steps.show)
    except WorkerError as error:
        raise RunError(str(error)) from error
    _tell(args.out, manifest)
    return 0


def _back(args: argparse.Namespace) -> int:
    from data.convert.to_tfrecord import to_tfrecord
    from data.convert.workers import WorkerError

    try:
        with _Steps() as steps:
            manifest = to_tfrecord(args.sources, args.out, _settings(args), args.gzip, progress=steps.show)
    except WorkerError as error:
        raise RunError(str(error)) from error
    _tell(args.out, manifest)
    return 0


def _settings(args: argparse.Namespace) -> Any:
    from data.convert.convert import LEAST_MEMORY_BYTES, Settings

    cores = len(os.sched_getaffinity(0))
    processes = cores if args.processes is None else args.processes
    if processes < 1:
        raise UserError(f"--processes: expected at least 1, found {processes}")
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([kmgt]?)b?", args.memory.strip().lower())
    if match is None:
        raise UserError(f"--memory: expected a size such as 500M or 2G, found {args.memory!r}")
    memory = int(float(match.group(1)) * _UNITS[match.group(2)])
    least = LEAST_MEMORY_BYTES * processes
    if memory < least:
        raise UserError(
            f"--memory: expected at least {least >> 20}M for {processes} process{'es' * (processes > 1)}, found "
            f"{args.memory}"
        )
    return Settings(processes, memory, args.on_bad, args.overwrite, args.work)


class _Steps:
    """A progress display for one step after another."""

    def __init__(self) -> None:
        self._step = ""
        self._progress: Progress | None = None

    def show(self, step: str, done: int, total: int) -> None:
        if step != self._step:
            self._end()
            self._step, self._progress = step, Progress(step, unit="bytes" if step == "reading" else "rows")
        assert self._progress is not None
        self._progress.show(done, total)

    def _end(self) -> None:
        if self._progress is not None:
            self._progress.__exit__()

    def __enter__(self) -> _Steps:
        return self

    def __exit__(self, *error: object) -> None:
        self._end()


def _tell(out: str, manifest: dict[str, Any]) -> None:
    try:
        _print(out, manifest)
    except BrokenPipeError:
        raise
    except OSError as error:  # not an error of the folder, which is whole
        raise RunError(f"standard output: {error.strerror}") from error


def _print(out: str, manifest: dict[str, Any]) -> None:
    files, counts = manifest["files"], manifest.get("counts", {})
    size = sum(file["bytes"] for file in files)
    per_row = f", {size / manifest['rows']:,.1f} bytes a row" if manifest["rows"] else ""
    print(f"{out}  {manifest['rows']:,} rows in {len(files)} file{'s' * (len(files) != 1)}, {size:,} bytes{per_row}")
    for name, count in counts.get("nulls", {}).items():
        if count:
            print(f"  missing  {name}: {count:,}")
    for name, told in counts.get("hashed", {}).items():
        moved = f", {told['moved']:,} moved off a reserved id" if told["moved"] else ""
        print(f"  hashed   {name}: {told['distinct_ids']:,} ids, {told['collisions']:,} collisions{moved}")
    for reason, count in counts.get("bad_rows", {}).items():
        print(f"  skipped  {count:,} row{'s' * (count != 1)}: {reason}")
    for damage in manifest.get("damaged", []):
        print(f"  damaged  {damage}")
