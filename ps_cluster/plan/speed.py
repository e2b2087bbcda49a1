"""Time of a step and of an epoch, and which layer bounds it."""

from __future__ import annotations

from collections.abc import Mapping

from ps_cluster.plan.figure import Figure, figure
from ps_cluster.plan.servers import mean_width
from ps_cluster.plan.types import Facts

LAYERS = {
    "reading_seconds": "reading samples",
    "dense_seconds": "the dense model on the workers",
    "exchange_seconds": "the workers' exchange of rows and gradients with the PS",
    "ps_seconds": "the CPUs of the PS",
    "network_seconds": "the network between workers and PS",
    "all_reduce_seconds": "the all-reduce among the workers",
    "latency_seconds": "round trips to the PS",
}


def worker_cpu_figures(facts: Facts, network: Mapping[str, Figure]) -> dict[str, Figure]:
    """CPU seconds of a worker for a step, by what they are for."""
    constants, cluster, reading = facts.constants, facts.cluster, facts.reading
    found = {
        "reading_cpu_seconds": figure(
            "CPU-s", "batch * (of_row + row_bytes * of_byte)",
            "of a process of its own" if reading.own_process else "in the worker",
            batch=cluster.batch_rows, of_row=constants["read_row_seconds"], row_bytes=reading.row_bytes,
            of_byte=constants["read_byte_seconds"],
        ),
        "dense_cpu_seconds": figure(
            "CPU-s", "batch * flops_per_row / (flops * share)", batch=cluster.batch_rows,
            flops_per_row=facts.dense.flops_per_row, flops=constants["dense_flops"], share=constants["dense_share"],
        ),
        "exchange_cpu_seconds": figure(
            "CPU-s", "ids * (of_id + width * of_float) + groups * of_call",
            "ids are made one and sent, rows received, gradients summed and pushed",
            ids=network["ids_per_worker"], of_id=constants["worker_id_seconds"], width=mean_width(facts),
            of_float=constants["worker_float_seconds"], groups=facts.groups.count(),
            of_call=constants["worker_call_seconds"],
        ),
    }  # fmt: skip
    found["cpu_seconds_per_step"] = figure(
        "CPU-s", "own * reading + dense + exchange", "of the worker's process",
        own=0 if reading.own_process else 1, reading=found["reading_cpu_seconds"], dense=found["dense_cpu_seconds"],
        exchange=found["exchange_cpu_seconds"],
    )  # fmt: skip
    return found


def step_figures(
    facts: Facts, network: Mapping[str, Figure], worker_cpu: Mapping[str, Figure], ps_cpu: Figure, ps: int
) -> dict[str, Figure]:
    """Seconds of a step, layer by layer, where each process has the cores that it asks for. ps_cpu: of a PS."""
    constants, wishes = facts.constants, facts.wishes
    found = {
        "reading_seconds": figure(
            "s", "cpu_seconds / cores", "beside everything else", cpu_seconds=worker_cpu["reading_cpu_seconds"],
            cores=max(wishes.worker_cores / 2, 0.5),
        ),
        "dense_seconds": figure("s", "cpu_seconds / cores", cpu_seconds=worker_cpu["dense_cpu_seconds"],
                                cores=wishes.worker_cores),
        "exchange_seconds": figure("s", "cpu_seconds / cores", cpu_seconds=worker_cpu["exchange_cpu_seconds"],
                                   cores=wishes.worker_cores),
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
        "s", "max(reading, dense + exchange + ps + network + all_reduce + latency)",
        "reading goes on beside; the rest waits for each other",
        reading=found["reading_seconds"], dense=found["dense_seconds"], exchange=found["exchange_seconds"],
        ps=found["ps_seconds"],
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
