"""What an export takes: memory above that of the process before it, over the size of the table; bytes on the disk.

A checkpoint of one table of 2 million rows of 16 float32 (`--full`: 10 million) is written by the saver out of a native
table; each export of it runs in a process of its own, whose most resident memory counts from after a small export.
Scores are compared with the trainer's on rows of a sample, the export's in a process without TFRA.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ps_cluster.export.row_types import ROW_TYPES, RowType
from tests.bench.memory import resident_bytes
from tests.bench.reporting import Result

WIDTH = 16
ROWS = {False: 2_000_000, True: 10_000_000}
LIMIT_PEAK = 1.3
_WARM_ROWS = 10_000
_SAMPLES = 1000
_ROOT = Path(__file__).resolve().parents[2]
_JOB: dict[str, Any] = {
    "name": "export-bench",
    "data": {"train": ["samples.orc"], "label": "label"},
    "features": [{"name": "item_id", "kind": "id", "table": "items"}, {"name": "price", "kind": "dense"}],
    "tables": {"items": {"dim": WIDTH}},
    "model": {"name": "dcn", "hidden": [32]},
    "optimizers": {"sparse": {"name": "sgd", "learning_rate": 0.1}, "dense": {"name": "adam", "learning_rate": 0.01}},
    "training": {"batch_size": 1024},
    "cluster": {"ps": 0},
    "output": "run",
}


@dataclass(frozen=True)
class Measured:
    """Of one export: most resident bytes above those before it, seconds, bytes of its variables; of the comparison
    with the trainer's logits the largest difference, or what was wrong."""

    peak_bytes: int
    seconds: float
    variables_bytes: int
    apart: float | None
    problem: str


def peak_case(full: bool) -> Result:
    """Most memory of an export over the table's size."""
    rows = ROWS[full]
    with tempfile.TemporaryDirectory() as folder:
        _child("checkpoint", folder, str(rows))
        found = Measured(**_child("export", folder, "float32"))
    table = rows * (8 + 4 * WIDTH)
    peak = found.peak_bytes / table
    return Result(
        case="peak_memory",
        ours=peak,
        theirs=LIMIT_PEAK,
        unit="of the table's bytes",
        ratio=LIMIT_PEAK / peak,
        answers_equal=not found.problem,
        compared=(
            f"exporting {rows:,} rows of {WIDTH} float32, {table / 2**20:,.0f} MiB with their ids: at most "
            f"{found.peak_bytes / 2**20:,.0f} MiB more than before; limit {LIMIT_PEAK}\n  {found.seconds:.1f} s, "
            f"{found.variables_bytes / 2**20:,.0f} MiB of variables; {_told(found)}"
        ),
    )


def int8_case(full: bool) -> Result:
    """Bytes of the variables with rows of float32 over those with rows of int8."""
    rows = ROWS[full]
    with tempfile.TemporaryDirectory() as folder:
        _child("checkpoint", folder, str(rows))
        whole, narrow = (Measured(**_child("export", folder, row_type)) for row_type in ("float32", "int8"))
    return Result(
        case="int8_size",
        ours=narrow.variables_bytes / rows,
        theirs=whole.variables_bytes / rows,
        unit="bytes a row",
        ratio=whole.variables_bytes / narrow.variables_bytes,
        answers_equal=not whole.problem and not narrow.problem,
        compared=f"variables of {rows:,} rows of {WIDTH}, ids included, int8 against float32\n"
        f"  float32: {_told(whole)}; int8: {_told(narrow)}",
    )


def _told(found: Measured) -> str:
    if found.problem:
        return found.problem
    return f"logits at most {found.apart:.1e} from the trainer's on {_SAMPLES:,} rows"


def _child(*arguments: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.bench.export", "--child", *arguments]
    done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command[1:])}: status {done.returncode}\n{done.stderr[-3000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _write_checkpoint(folder: Path, rows: int) -> None:
    """A job, samples and a checkpoint of a table of ids 0 to `rows` - 1."""
    import numpy as np
    import pyarrow as pa
    import yaml
    from pyarrow import orc

    from models.build import build_model
    from ops.embedding import table_salt
    from ops.shards import begin_save, write_table
    from ps_cluster.checkpoint.dense import dense_values
    from ps_cluster.checkpoint.manifest import Shard, StoredTable
    from ps_cluster.checkpoint.saver import Saver
    from ps_cluster.job.load import load_job
    from ps_cluster.job.resolve import inputs_of
    from ps_cluster.train.dense import make_dense_optimizer
    from ps_cluster.train.trained_job import meaning_of
    from tests.bench.embedding_tables import Ours, fill

    folder.mkdir()
    random = np.random.default_rng(1)
    columns = {
        "label": pa.array(random.integers(0, 2, 20_000)),
        "item_id": pa.array(random.integers(0, rows + rows // 10, 20_000)),  # a tenth unknown
        "price": pa.array(random.normal(size=20_000).astype(np.float32)),
    }
    orc.write_table(pa.table(columns), str(folder / "samples.orc"))
    (folder / "job.yaml").write_text(yaml.safe_dump(_JOB))
    job_file = load_job(str(folder / "job.yaml"))
    table = Ours(WIDTH, "sgd")
    fill(table.insert, rows, WIDTH)

    class Tables:
        """The one table, as a saver asks for it."""

        def begin_save(self, folder: str, delta: bool) -> None:
            os.makedirs(os.path.join(folder, "tables", "items"))
            begin_save(table.handle, delta)

        def write_save(self, folder: str, step: int, base_step: int | None) -> tuple[StoredTable, ...]:
            file = "tables/items/ps-000-of-001.table"
            numbers = write_table(table.handle, os.path.join(folder, file), "{}").numpy().tolist()
            shard = Shard(file, 0, 1, *numbers)
            salt = table_salt("items")
            return (StoredTable("items", "native", (WIDTH,), "float32", "sgd", 0, False, salt, False, (shard,)),)

    model = build_model(job_file.job.model, inputs_of(job_file.job), 1)
    optimizer = make_dense_optimizer(job_file.job.optimizers.dense)
    optimizer.build(model.trainable_variables)
    trained = meaning_of(job_file.job)
    Saver(job_file.checkpoints, Tables(), lambda: dense_values(model, optimizer), trained, None, 1).save(1)


def _export(folder: Path, warm: Path, row_type: RowType) -> Measured:
    from ps_cluster.checkpoint.finding import newest_checkpoint
    from ps_cluster.errors import RunError
    from ps_cluster.export.check import CheckSettings, check_export
    from ps_cluster.export.saved_model import export_saved_model
    from ps_cluster.export.version_folder import folder_bytes
    from ps_cluster.job.load import load_job

    export_saved_model(load_job(str(warm / "job.yaml")), rows=row_type)  # what is loaded once
    job_file = load_job(str(folder / "job.yaml"))
    before = resident_bytes("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
    started = time.perf_counter()
    model = export_saved_model(job_file, str(folder / f"export-{row_type}"), rows=row_type)
    seconds = time.perf_counter() - started
    peak = resident_bytes("VmHWM") - before
    apart, problem = None, ""
    try:
        checkpoint = newest_checkpoint(job_file.checkpoints)
        settings = CheckSettings(_SAMPLES)
        apart = check_export(
            job_file, checkpoint, row_type, model, settings, str(folder / f"scratch-{row_type}")
        ).largest
    except RunError as error:
        problem = str(error)
    return Measured(peak, seconds, folder_bytes(os.path.join(model, "variables")), apart, problem)


def _in_child(what: str, folder: str, argument: str) -> int:
    from ps_cluster.quiet import import_tensorflow

    import_tensorflow(gpu=False)
    from ops.library import load

    load()
    if what == "checkpoint":
        _write_checkpoint(Path(folder, "job"), int(argument))
        _write_checkpoint(Path(folder, "warm"), _WARM_ROWS)
        print("{}")
    else:
        row_type = next(one for one in ROW_TYPES if one == argument)
        print(json.dumps(asdict(_export(Path(folder, "job"), Path(folder, "warm"), row_type))))
    return 0


def main() -> int:
    """Runs the cases asked for."""
    if sys.argv[1:2] == ["--child"]:
        return _in_child(*sys.argv[2:])
    from tests.bench.reporting import run_cases

    return run_cases("export", {"peak_memory": peak_case, "int8_size": int8_case})


if __name__ == "__main__":
    sys.exit(main())
