"""Measures what a plan computes with on this machine, in about a minute, with real processes."""

from __future__ import annotations

import datetime
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from ps_cluster.errors import RunError
from ps_cluster.plan.constants import store

_ROWS = 1_500_000
_BATCH = 8_192
_ROUNDS = 24
_START_SECONDS = 180.0
_WIDE, _NARROW = 64, 8


def calibrate(path: str) -> None:
    """Measures and stores the constants at `path`; tells on standard error what was found. Raises RunError."""
    from ps_cluster.quiet import import_tensorflow

    started = time.monotonic()
    tf = import_tensorflow(gpu=False)
    found: dict[str, float] = {}
    for title, measure in (
        ("samples", _reading),
        ("dense model", _dense),
        ("native table", _table),
        ("PS process", _ps),
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
    byte = max((seconds[24] - seconds[2]) / (22 * 8), 0.0)
    return {"read_row_seconds": max(seconds[2] - 16 * byte, 1e-8), "read_byte_seconds": byte}


def _dense(tf: Any) -> dict[str, float]:
    """The rate of a large product on one core, and the share of it that a small ranker's training reaches."""
    from models.build import build_model
    from models.config import DeepFMConfig
    from models.flops import TRAINING, forward_flops
    from models.inputs import InputSpec

    size, batch = 1024, 1024
    matrix = tf.random.stateless_uniform([size, size], [1, 2])
    product = tf.function(lambda: tf.matmul(matrix, matrix)[-1, -1], autograph=False)
    peak = 2.0 * size**3 / _cpu_seconds(lambda: product().numpy(), 4)
    config = DeepFMConfig(name="deepfm", hidden=[256, 128])
    inputs = [InputSpec(f"v{n}", "vector", 16) for n in range(16)]
    model = build_model(config, inputs, 1)
    vectors = {one.name: tf.random.stateless_uniform([batch, one.dim], [1, n]) for n, one in enumerate(inputs)}

    @tf.function(autograph=False)
    def step() -> Any:
        with tf.GradientTape() as tape:
            tape.watch(vectors)
            loss = tf.reduce_mean(model(vectors, training=True))
        gradients, _ = tape.gradient(loss, [model.trainable_variables, vectors])
        for weight, gradient in zip(model.trainable_variables, gradients):
            weight.assign_sub(0.01 * gradient)
        return loss

    flops = TRAINING * forward_flops(config, inputs, training=True).of(batch, {})
    reached = flops / _cpu_seconds(lambda: step().numpy(), 8)
    return {"dense_flops": peak, "dense_share": min(reached / peak, 1.0)}


def _table(tf: Any) -> dict[str, float]:
    """Pulls and pushes on tables of two widths that are larger than the caches."""
    from ops import embedding as ops
    from ops import table as native

    found: dict[int, tuple[float, float]] = {}
    random = np.random.default_rng(0)
    for dim in (_NARROW, _WIDE):
        rows = _ROWS if dim == _NARROW else _ROWS // 4
        layout = ops.RowLayout(
            tiers=(ops.Tier(dim),), engine="native", value_type="float32", optimizer="adam",
            optimizer_settings=(0.9, 0.999, 1e-7, 0.0), salts=(1,), initial_kinds=(0,), initial_scales=(0.0,),
            admissions=(ops.Admission(),), evictions=(ops.Eviction(),), seed=1,
        )  # fmt: skip
        name = f"calibrate-{os.getpid()}-{dim}"
        handle = native.create(name, native.config_of(layout, 0))

        def request(ids: np.ndarray, step: int, layout=layout) -> Any:
            header = ops.request_header(0, tf.constant(step, tf.int64), tf.constant(1, tf.int64), tf.constant(0.01))
            return ops.route_ids(header, [tf.constant(ids, tf.int64)], [0], layout.salts, 1)[0][0]

        for start in range(0, rows, 65_536):
            asked = request(np.arange(start, min(start + 65_536, rows)), 1 + start)
            size = min(65_536, rows - start)
            ops.push([handle], asked, tf.zeros([size, dim]), layout, 1, name)
        asked = [request(random.choice(rows, _BATCH, replace=False), 10**6 + n) for n in range(_ROUNDS)]
        gradients = tf.random.stateless_uniform([_BATCH, dim], [1, 2])
        turn = iter(range(10**9))

        def pull(handle=handle, asked=asked, layout=layout, turn=turn) -> Any:
            return ops.pull([handle], asked[next(turn) % _ROUNDS], layout, True)

        def push(handle=handle, asked=asked, layout=layout, gradients=gradients, name=name, turn=turn) -> Any:
            return ops.push([handle], asked[next(turn) % _ROUNDS], gradients, layout, 1, name)

        found[dim] = (_cpu_seconds(pull, _ROUNDS) / _BATCH, _cpu_seconds(push, _ROUNDS) / _BATCH)
        native.clear(handle)
    (find, update), (find_wide, update_wide) = found[_NARROW], found[_WIDE]
    find_float = max((find_wide - find) / (_WIDE - _NARROW), 0.0)
    update_float = max((update_wide - update) / (_WIDE - _NARROW), 0.0)
    return {
        "find_seconds": max(find - _NARROW * find_float, 1e-9),
        "find_float_seconds": find_float,
        "update_seconds": max(update - _NARROW * update_float, 1e-9),
        "update_float_seconds": update_float,
    }


def _ps(tf: Any) -> dict[str, float]:
    """A PS process on the loopback device: its memory, the CPU that bytes and calls cost it, its writing of a file."""
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
            client = [sys.executable, "-m", "ps_cluster.plan.calibrate_wire", ps, worker, str(server.pid)]
            with open(log, "w", encoding="utf-8") as errors:
                done = subprocess.run(
                    client, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True, timeout=_START_SECONDS
                )
            if done.returncode:
                raise RunError(f"calibrate: the client of the PS failed: {log.read_text()[-500:]}")
            byte, call, trip, speed, connected = map(float, done.stdout.splitlines()[-1].split())
        except subprocess.TimeoutExpired:
            raise RunError(f"calibrate: the client of the PS did not end within {_START_SECONDS:.0f} s") from None
        finally:
            server.kill()
            server.wait()
    return {
        "ps_base_bytes": memory,
        "ps_client_bytes": max(connected - memory, 0.0),
        "wire_byte_seconds": byte,
        "call_seconds": call,
        "round_trip_seconds": trip,
        "checkpoint_bytes_per_second": speed,
    }
