"""Time of a step and of an epoch, and which layer bounds it."""

from __future__ import annotations

from collections.abc import Mapping

from ps_cluster.plan.figure import Figure, figure
from ps_cluster.plan.types import Facts

LAYERS = {
    "reading_seconds": "reading samples",
    "dense_seconds": "the dense model on the workers",
    "ps_seconds": "the CPUs of the PS",
    "network_seconds": "the network between workers and PS",
    "all_reduce_seconds": "the all-reduce among the workers",
    "latency_seconds": "round trips to the PS",
}


def step_figures(facts: Facts, network: Mapping[str, Figure], ps_cpu: Figure, ps: int) -> dict[str, Figure]:
    """Seconds of a step, layer by layer. ps_cpu: of a PS."""
    constants, cluster, wishes, reading = facts.constants, facts.cluster, facts.wishes, facts.reading
    found = {
        "reading_seconds": figure(
            "s", "batch * (of_row + row_bytes * of_byte) / cores", "beside everything else",
            batch=cluster.batch_rows, of_row=constants["read_row_seconds"], row_bytes=reading.row_bytes,
            of_byte=constants["read_byte_seconds"], cores=max(wishes.worker_cores / 2, 0.5),
        ),
        "dense_seconds": figure(
            "s", "batch * flops_per_row / (cores * flops * share)", batch=cluster.batch_rows,
            flops_per_row=facts.dense.flops_per_row, cores=wishes.worker_cores, flops=constants["dense_flops"],
            share=constants["dense_share"],
        ),
        "ps_seconds": figure("s", "cpu_seconds / cores", cpu_seconds=ps_cpu, cores=wishes.ps_cores),
        "network_seconds": figure(
            "s", "max(worker_bytes, ps_bytes) / bandwidth", worker_bytes=network["worker_bytes"],
            ps_bytes=network["ps_bytes"], bandwidth=wishes.bandwidth,
        ),
        "all_reduce_seconds": figure("s", "bytes / bandwidth", bytes=network["all_reduce_bytes"],
                                     bandwidth=wishes.bandwidth),
        "latency_seconds": figure("s", "round_trip * min(ps, 1)", round_trip=constants["round_trip_seconds"], ps=ps),
    }  # fmt: skip
    found["step_seconds"] = figure(
        "s", "max(reading, dense + ps + network + all_reduce + latency)",
        "reading goes on beside; the rest waits for each other",
        reading=found["reading_seconds"], dense=found["dense_seconds"], ps=found["ps_seconds"],
        network=found["network_seconds"], all_reduce=found["all_reduce_seconds"], latency=found["latency_seconds"],
    )  # fmt: skip
    return found


def epoch_figures(facts: Facts, step: Figure) -> dict[str, Figure]:
    """Of a pass over the rows of the horizon."""
    cluster = facts.cluster
    steps = figure("steps", "ceil(rows / (batch * workers))", "of an epoch", rows=facts.horizon.rows,
                   batch=cluster.batch_rows, workers=cluster.workers)  # fmt: skip
    seconds = figure("s", "steps * step_seconds", steps=steps, step_seconds=step)
    return {
        "steps": steps,
        "epoch_seconds": seconds,
        "training_seconds": figure("s", "epochs * epoch_seconds", epochs=cluster.epochs, epoch_seconds=seconds),
        "rows_per_second": figure("1/s", "batch * workers / step_seconds", "of all workers", batch=cluster.batch_rows,
                                  workers=cluster.workers, step_seconds=step),
    }  # fmt: skip


def bottleneck(figures: Mapping[str, Figure]) -> str:
    """The layer that takes longest."""
    return max(LAYERS, key=lambda name: figures[name].value)
