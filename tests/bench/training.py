"""Training steps per second of this trainer against stock TFRA, on the same two PS and two workers.

`step_vs_tfra`: `DynamicEmbeddingOptimizer` with one `embedding_lookup` a feature, 26 features of dim 16, Adam, dense
all-reduce by Horovod, against our store. Both step functions live in the same worker processes and take turns, so that
the machine's other load hits both. Answers are compared on ids that occur once: stock TFRA drops duplicates' gradients.
"""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from ps_cluster.launch.ports import reserved_addresses
from ps_cluster.launch.processes import Processes
from tests.bench.reporting import Result, run_cases

_ROOT = Path(__file__).resolve().parents[2]
_PS = 2
_WORKERS = 2


def step_vs_tfra(full: bool) -> Result:
    batch, repeats, steps = (4096, 15, 20) if full else (1024, 5, 6)
    found = _run_workers(batch, repeats, steps)
    equal = found["worst_loss_difference"] <= 1e-5 and found["losses_move"]
    return Result(
        case="step_vs_tfra",
        ours=found["ours"],
        theirs=found["theirs"],
        unit="samples/s",
        ratio=statistics.median(found["pairs"]),
        answers_equal=equal,
        compared=(
            f"training step: ours against stock TFRA, {_PS} PS, {_WORKERS} workers, {batch} rows a worker, "
            f"{repeats} pairs of {steps} steps in turn; losses differ by at most {found['worst_loss_difference']:.1e}"
        ),
    )


def _run_workers(batch: int, repeats: int, steps: int) -> dict:
    environment = {**os.environ, "PYTHONPATH": str(_ROOT), "TF_CPP_MIN_LOG_LEVEL": "3"}
    with contextlib.ExitStack() as stack:
        logs = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        addresses = stack.enter_context(reserved_addresses(_PS + _WORKERS + 1))
        ps, workers, rendezvous = addresses[:_PS], addresses[_PS:-1], addresses[-1]
        place = ["--ps", ",".join(ps), "--workers", ",".join(workers), "--rendezvous", rendezvous]
        processes = stack.enter_context(Processes())
        for index in range(_PS):
            command = [sys.executable, "-m", "ps_cluster", "ps", *place, "--index", str(index)]
            processes.start(f"ps {index}", command, environment, logs / f"ps-{index}.log")
        for index in range(_WORKERS):
            size = ["--batch", str(batch), "--repeats", str(repeats), "--steps", str(steps)]
            command = [sys.executable, "-m", "tests.bench.training_worker", *place, "--index", str(index), *size]
            processes.start(f"worker {index}", command, environment, logs / f"worker-{index}.log")
        waiting = {f"worker {index}" for index in range(_WORKERS)}
        while waiting:
            for end in processes.ended():
                if end.name not in waiting and end.name.startswith("worker"):
                    continue
                if end.status != 0:
                    raise SystemExit(f"{end.name} ended with status {end.status}:\n{end.log.read_text()[-3000:]}")
                waiting.discard(end.name)
            time.sleep(0.2)
        lines = (logs / "worker-0.log").read_text().splitlines()
        return json.loads(next(line for line in reversed(lines) if line.startswith("{")))


if __name__ == "__main__":
    sys.exit(run_cases("training", {"step_vs_tfra": step_vs_tfra}))
