"""The sparse half of a training on real PS, measured: `python -m tests.bench.planning_run JOB.yaml`, in a network
namespace of its own, so that nothing else's bytes are counted.

Reads the log as a worker does, looks up and pushes every batch through the store, and tells what the PS hold: rows and
bytes of tables, resident memory over that of their empty start, bytes on the loopback device per step. With `--save` it
writes a checkpoint at the end.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.bench.memory import resident_bytes

WARM_STEPS = 12


def measure(job: Path, save: Path | None = None) -> dict[str, Any]:
    """Runs this module in a namespace of its own and returns what it tells."""
    root = Path(__file__).resolve().parents[2]
    command = ["unshare", "--net", *([] if os.geteuid() == 0 else ["--map-root-user"]), sys.executable, "-m"]
    command += ["tests.bench.planning_run", str(job), *([str(save)] if save else [])]
    environment = {**os.environ, "PYTHONPATH": str(root), "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}: status {done.returncode}\n{done.stderr[-3000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def loopback_bytes() -> int:
    """Sent over the loopback device of this namespace so far."""
    for line in Path("/proc/self/net/dev").read_text().splitlines():
        name, _, counts = line.partition(":")
        if name.strip() == "lo":
            return int(counts.split()[8])
    raise AssertionError("no loopback device")


def main() -> None:
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    from ps_cluster.quiet import import_tensorflow

    tf = import_tensorflow(gpu=False)
    from data.orc import open_reader
    from ps_cluster.embedding.ps_store import Placement, PsEmbeddingStore
    from ps_cluster.embedding.store import StepInfo
    from ps_cluster.job.load import load_job
    from ps_cluster.job.samples import read_spec
    from ps_cluster.train.session import groups_of, samples_of
    from ps_cluster.train.step import split_features
    from tests.ps_cluster.ps_processes import running_ps

    job_file = load_job(sys.argv[1])
    job = job_file.job
    with running_ps(job.cluster.ps, clients=1) as (ps, workers):
        pids = _servers()
        time.sleep(1)
        empty = [resident_bytes(pid=pid) for pid in pids]
        cluster = tf.train.ClusterSpec({"ps": ps, "worker": {0: workers[0]}})
        tf.config.experimental_connect_to_cluster(cluster, job_name="worker", task_index=0, protocol="grpc")
        devices = tuple(f"/job:ps/replica:0/task:{index}/device:CPU:0" for index in range(len(ps)))
        worker = "/job:worker/replica:0/task:0/device:CPU:0"
        store = PsEmbeddingStore(
            groups_of(job), Placement(devices, worker, 0, 1, synchronous=True), job.name, job.embeddings.transport
        )
        spec = read_spec(job, samples_of(job_file, "train").paths, training=True)
        with open_reader(spec) as reader:

            @tf.function(input_signature=[reader.dataset.element_spec[0], tf.TensorSpec([], tf.int64)], autograph=False)
            def train(columns, number):
                with tf.device(worker):
                    ids, _ = split_features(job, columns)
                    rows = tf.size(columns[job.data.label], tf.int64)
                found = store.lookup(ids, StepInfo(number, rows, tf.constant(1.0)), training=True)
                with tf.device(worker):
                    gradients = [1e-3 * part for part in found.rows]
                    keys = tf.add_n([tf.shape(part)[0] for part in found.rows])
                store.apply(found, gradients)
                return keys

            steps = keys = 0
            started_bytes = started_steps = 0
            for columns, _ in reader.dataset:
                steps += 1
                keys += int(train(columns, tf.constant(steps, tf.int64)))
                if steps == WARM_STEPS:
                    store.stats()
                    started_bytes, started_steps = loopback_bytes(), steps
        sent = loopback_bytes() - started_bytes
        stats = store.stats()
        told = {
            "steps": steps,
            "keys_per_step": keys / steps,
            "bytes_per_step": sent / (steps - started_steps),
            "empty_bytes": empty,
            "resident_bytes": [resident_bytes(pid=pid) for pid in pids],
            "peak_bytes": [resident_bytes("VmHWM", pid) for pid in pids],
            "tables": {
                one.name: {
                    "rows": one.rows,
                    "rows_by_tier": list(one.rows_by_tier),
                    "counted_ids": one.total.counted_ids,
                    "bytes": [share.bytes for share in one.per_ps],
                    "payload_bytes": one.payload_bytes,
                }
                for one in stats
            },
        }
        if len(sys.argv) > 2:
            folder = sys.argv[2]
            store.begin_save(folder, False)
            saved = store.write_save(folder, steps, None)
            told["checkpoint_bytes"] = sum(shard.bytes for table in saved for shard in table.shards)
            told["peak_bytes"] = [resident_bytes("VmHWM", pid) for pid in pids]
    print(json.dumps(told), flush=True)


def _servers() -> list[int]:
    """Processes of the PS, which this one started."""
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return [pid for pid in map(int, children) if b"\0ps\0" in Path(f"/proc/{pid}/cmdline").read_bytes()]


if __name__ == "__main__":
    main()
