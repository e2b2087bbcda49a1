"""What a conversion costs, by one process and by two: rows per second and per CPU-second, and its memory."""

from __future__ import annotations

import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import yaml
from pyarrow import csv, orc

from tests.bench.memory import Together, looked_at
from tests.bench.orc_answers import table_fingerprint
from tests.bench.orc_samples import Samples, as_text
from tests.bench.reporting import Result

SORT = ("user_id", "timestamp")
PROCESS_MIB = 64
"""Memory for each process, the least there is, so that also the small log is sorted outside memory."""
_ROWS = {False: 240_000, True: 2_000_000}
_REPEATS = {False: 2, True: 3}
_FILES = 8
_PART = 4
"""The small log is this part of the files."""
_ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Conversion:
    """One run of `ps-cluster data convert`."""

    wall_seconds: float
    cpu_seconds: float
    peak_bytes: int  # resident, of all processes together, each at its most


def case(name: str, samples: Samples, full: bool) -> Result:
    """Two processes against one. The answers: rows, their order, and the same bytes from both."""
    folder = samples.folder("convert")
    table = samples.table("synth", _ROWS[full] // _PART, "time", _PART)
    sources, schema = _log(folder, table)
    found: dict[int, list[Conversion]] = {1: [], 2: []}
    equal = True
    for _ in range(_REPEATS[full]):
        for processes, conversions in found.items():
            conversions.append(_convert(sources, schema, folder / str(processes), processes))
            equal &= _is_log(folder / str(processes), table)
        equal &= _hashes(folder / "1") == _hashes(folder / "2")
    rates = {processes: [table.num_rows / one.wall_seconds for one in found[processes]] for processes in found}
    lines = []
    for processes, conversions in found.items():
        part = _convert(sources[: _FILES // _PART], schema, folder / "part", processes)
        cpu = statistics.median(table.num_rows / one.cpu_seconds for one in conversions)
        lines.append(
            f"  {processes} {'process' if processes == 1 else 'processes':9}  "
            f"{statistics.median(rates[processes]):>8,.0f} rows/s  {cpu:>8,.0f} rows/CPU-s  memory of all its "
            f"processes, each at its most, {max(one.peak_bytes for one in conversions) >> 20} MiB, of a log of "
            f"1/{_PART} the size {part.peak_bytes >> 20} MiB"
        )
    return Result(
        case=name,
        ours=statistics.median(rates[2]),
        theirs=statistics.median(rates[1]),
        unit="rows/s",
        ratio=statistics.median(two / one for two, one in zip(rates[2], rates[1])),
        answers_equal=equal,
        compared=(
            f"`ps-cluster data convert`, {PROCESS_MIB} MB for the rows of each process, synthetic log of "
            f"{table.num_rows:,} rows, {table.num_columns} columns, {_FILES} CSV files by time, sorted by "
            f"{' and '.join(SORT)}: two processes against one on {len(os.sched_getaffinity(0))} cores, start included, "
            f"{_REPEATS[full]} pairs in turn\n" + "\n".join(lines)
        ),
    )


def _log(folder: Path, table: pa.Table) -> tuple[list[str], str]:
    """(files of `table` as text, the samples file that declares them)."""
    sources = []
    size = -(-table.num_rows // _FILES)
    for number in range(_FILES):
        sources.append(str(folder / f"log-{number}.csv"))
        csv.write_csv(as_text(table.slice(number * size, size)), sources[-1])
    schema = folder / "log.yaml"
    samples_file = {
        "name": "log",
        "columns": _columns(table.schema),
        "sort": list(SORT),
        "output": {"rows_per_file": -(-table.num_rows // _FILES)},
    }
    schema.write_text(yaml.safe_dump(samples_file, sort_keys=False))
    return sources, str(schema)


def _columns(schema: pa.Schema) -> list[dict[str, str]]:
    kinds = {pa.int64(): "id", pa.float32(): "dense", pa.list_(pa.int64()): "id_list"}
    columns = [{"name": field.name, "kind": kinds[field.type]} for field in schema]
    columns[schema.get_field_index("label")]["kind"] = "label"
    columns[schema.get_field_index("timestamp")] |= {"kind": "time", "format": "epoch_milliseconds"}
    return columns


def _convert(sources: Sequence[str], schema: str, out: Path, processes: int) -> Conversion:
    shutil.rmtree(out, ignore_errors=True)
    command = [sys.executable, "-m", "ps_cluster", "data", "convert", *sources, "--schema", schema]
    command += ["--out", str(out), "--processes", str(processes), "--memory", f"{PROCESS_MIB * processes}M"]
    cpu, wall = _children_cpu_seconds(), time.perf_counter()
    with (
        subprocess.Popen(
            command,
            env={**os.environ, "PYTHONPATH": str(_ROOT)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as child,
    ):
        peak = Together(child.pid)
        with looked_at(peak.look):
            said, _ = child.communicate()
    if child.returncode != 0:
        raise SystemExit(f"{' '.join(command[1:])}: status {child.returncode}\n{said}")
    return Conversion(time.perf_counter() - wall, _children_cpu_seconds() - cpu, peak.bytes)


def _is_log(out: Path, table: pa.Table) -> bool:
    """Whether the files of `out` hold the rows of `table`, sorted."""
    names = [file["name"] for file in _manifest(out)["files"]]
    found = pa.concat_tables([orc.ORCFile(out / name).read() for name in names])
    # The time comes back as a number: what is compared is what a training reads.
    found = pa.table([found.column(field.name).cast(field.type) for field in table.schema], schema=table.schema)
    users, times = (found.column(name).to_numpy() for name in SORT)
    in_order = (np.diff(users) > 0) | ((np.diff(users) == 0) & (np.diff(times) >= 0))
    names = table.column_names
    return bool(in_order.all()) and table_fingerprint(found, names) == table_fingerprint(table, names)


def _hashes(out: Path) -> list[str]:
    return [file["sha256"] for file in _manifest(out)["files"]]


def _manifest(out: Path) -> dict:
    return json.loads((out / "manifest.json").read_text())


def _children_cpu_seconds() -> float:
    """Of all processes below this one that have ended and been waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
