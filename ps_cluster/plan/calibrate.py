"""Measures what a plan computes with on this machine, in about a minute, with real processes."""

from __future__ import annotations

import datetime
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from ps_cluster.errors import RunError
from ps_cluster.job.schema import Job
from ps_cluster.plan.constants import store

_BATCH = 1024
_START_SECONDS = 400.0


def calibrate(path: str, job: Job | None = None) -> None:
    """Measures and stores the constants at `path`; tells on standard error what was found. Raises RunError.

    job: whose model and batch are measured in place of a small DeepFM's.
    """
    from ps_cluster.quiet import import_tensorflow

    started = time.monotonic()
    tf = import_tensorflow(gpu=False)
    found: dict[str, float] = {}
    for title, measure in (
        ("dense model", lambda tf: _dense(tf, job)),
        ("samples", _reading),
        ("PS and worker", _ps),
    ):
        before = time.monotonic()
        some = measure(tf)
        found |= some
        numbers = ", ".join(f"{name} {value:.4g}" for name, value in some.items())
        print(f"calibrate: {title}, {time.monotonic() - before:.0f} s: {numbers}", file=sys.stderr, flush=True)
    store(path, found, machine())
    print(f"calibrate: {time.monotonic() - started:.0f} s; stored in {path}", file=sys.stderr, flush=True)


def machine() -> dict[str, Any]:
    """What the measurements are of."""
    cpu = platform.processor() or platform.machine()
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                cpu = line.partition(":")[2].strip()
                break
    except OSError:
        pass
    return {
        "cpu": cpu,
        "cores": os.cpu_count(),
        "memory_bytes": psutil.virtual_memory().total,
        "load": os.getloadavg()[0],
        "measured": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
    }


def _cpu_seconds(work: Callable[[], object], rounds: int) -> float:
    """CPU seconds of this process for one round, the least of three measurements: others may take the cores."""
    work()
    best = float("inf")
    for _ in range(3):
        before = time.process_time()
        for _ in range(rounds):
            work()
        best = min(best, (time.process_time() - before) / rounds)
    return best


def _reading(tf: Any) -> dict[str, float]:
    """Reads two logs of different width as a trainer with `reader: native` does, shuffled, and so tells a row's cost
    from a byte's."""
    import pyarrow as pa

    from data.columns import Column
    from data.orc import ReadSpec, open_reader
    from data.orc_writer import OrcWriter

    random = np.random.default_rng(0)
    rows, seconds = 131_072, {}
    with tempfile.TemporaryDirectory(prefix="ps-cluster-calibrate-") as folder:
        for columns in (2, 24):
            path = os.path.join(folder, f"{columns}.orc")
            names = [f"c{n}" for n in range(columns)]
            arrays = [pa.array(random.integers(0, 10**6, rows)) for _ in names]
            with OrcWriter(path, pa.schema([(name, pa.int64()) for name in names])) as writer:
                writer.write(pa.RecordBatch.from_arrays(arrays, names=names))
            declared = tuple(Column(name, "int64") for name in names)
            spec = ReadSpec((path,), declared, 1024, shuffle_rows=32_768, stripe_slices=2, reader="native")

            def read(spec: ReadSpec = spec) -> None:
                with open_reader(spec) as reader:
                    for _ in reader.dataset:
                        pass

            seconds[columns] = _cpu_seconds(read, 1) / rows
        with open_reader(replace(spec, reader="tfio", shuffle_rows=0)) as reader:
            next(iter(reader.dataset))
            of_reader = sum(one.memory_info().rss for one in psutil.Process().children())
    byte = max((seconds[24] - seconds[2]) / (22 * 8), 0.0)
    return {
        "read_row_seconds": max(seconds[2] - 16 * byte, 1e-8),
        "read_byte_seconds": byte,
        "reader_base_bytes": float(of_reader),
    }


def _dense(tf: Any, job: Job | None) -> dict[str, float]:
    """The rate of a large product on one core, and the share of it that training a ranker reaches, with its lists of
    one item."""
    from models.build import build_model
    from models.flops import TRAINING, forward_flops

    size = 1024
    matrix = tf.random.stateless_uniform([size, size], [1, 2])
    product = tf.function(lambda: tf.matmul(matrix, matrix)[-1, -1], autograph=False)
    peak = 2.0 * size**3 / _cpu_seconds(lambda: product().numpy(), 4)
    config, inputs, batch = _model(job)
    without = psutil.Process().memory_info().rss
    model = build_model(config, inputs, 1)
    values = {one.name: _value(tf, one, batch, number) for number, one in enumerate(inputs)}
    floats = [one for one in tf.nest.flatten(values, expand_composites=True) if one.dtype.is_floating]

    @tf.function(autograph=False)
    def step() -> Any:
        with tf.GradientTape() as tape:
            tape.watch(floats)
            loss = tf.reduce_mean(model(values, training=True))
        gradients, _ = tape.gradient(loss, [model.trainable_variables, floats])
        for weight, gradient in zip(model.trainable_variables, gradients):
            if gradient is not None:
                weight.assign_sub(0.01 * gradient)
        return loss

    of_row = forward_flops(config, inputs, training=True)
    flops = TRAINING * of_row.of(batch, dict.fromkeys(of_row.per_element, float(batch)))
    reached = flops / _cpu_seconds(lambda: step().numpy(), 8)
    return {
        "dense_flops": peak,
        "dense_share": min(reached / peak, 1.0),
        "model_bytes": float(max(psutil.Process().memory_info().rss - without, 0)),
    }


def _model(job: Job | None) -> tuple[Any, list[Any], int]:
    """Configuration, inputs and rows of a batch."""
    from models.config import DeepFMConfig
    from models.inputs import InputSpec
    from ps_cluster.job.resolve import inputs_of

    if job is not None:
        return job.model, list(inputs_of(job)), job.training.batch_size
    return DeepFMConfig(name="deepfm", hidden=[256, 128]), [InputSpec(f"v{n}", "vector", 16) for n in range(16)], _BATCH


def _value(tf: Any, spec: Any, batch: int, seed: int) -> Any:
    if spec.kind == "dense":
        return tf.random.stateless_uniform([batch], [1, seed])
    width = spec.table_dim or spec.dim
    if spec.kind == "vector":
        return tf.random.stateless_uniform([batch, width], [1, seed])
    return tf.random.stateless_uniform([batch, 1, width], [1, seed]), tf.ones([batch, 1], tf.bool)


def _ps(tf: Any) -> dict[str, float]:
    """A PS process on the loopback device and a worker: memory, CPU of calls, ids and numbers, writing of a file."""
    from ps_cluster.launch.ports import reserved_addresses

    with tempfile.TemporaryDirectory(prefix="ps-cluster-calibrate-") as folder, reserved_addresses(2) as addresses:
        ps, worker = addresses
        command = [sys.executable, "-m", "ps_cluster", "ps", "--ps", ps, "--workers", worker, "--index", "0"]
        environment = {name: value for name, value in os.environ.items() if name != "TF_CONFIG"}
        log = Path(folder) / "client.log"
        server = subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        try:
            assert server.stdout is not None
            if "is ready" not in server.stdout.readline():
                raise RunError("calibrate: expected a PS process that gets ready, found one that ended")
            time.sleep(1)
            memory = float(psutil.Process(server.pid).memory_info().rss)
            client = [sys.executable, "-m", "ps_cluster.plan.calibrate_client", ps, worker, str(server.pid)]
            with open(log, "w", encoding="utf-8") as errors:
                done = subprocess.run(
                    client, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True, timeout=_START_SECONDS
                )
            if done.returncode:
                raise RunError(f"calibrate: the client of the PS failed: {log.read_text()[-500:]}")
            found = json.loads(done.stdout.splitlines()[-1])
        except subprocess.TimeoutExpired:
            raise RunError(f"calibrate: the client of the PS did not end within {_START_SECONDS:.0f} s") from None
        finally:
            server.kill()
            server.wait()
    return {"ps_base_bytes": memory, **found}
