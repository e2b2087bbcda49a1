"""A worker's memory."""

from __future__ import annotations

from collections.abc import Mapping

from ps_cluster.plan.figure import Figure, figure
from ps_cluster.plan.types import Facts


def worker_figures(facts: Facts, network: Mapping[str, Figure]) -> dict[str, Figure]:
    """Resident memory of a worker and of the process that decodes for it, together."""
    constants, reading, cluster = facts.constants, facts.reading, facts.cluster
    found = {
        "window_bytes": figure(
            "B", "(2 * min(shuffle_rows, rows / workers) + min(stripes * stripe_rows, rows / workers)) * row_bytes",
            "a shuffle window in two orders, and the stripes that take turns, as far as there are rows",
            shuffle_rows=reading.shuffle_rows, rows=facts.horizon.rows or 1e18, workers=cluster.workers,
            row_bytes=reading.row_bytes, stripes=reading.stripes, stripe_rows=reading.stripe_rows,
        ),
        "weight_bytes": figure(
            "B", "4 * parameters * (3 + slots)", "weights, gradients and their sum, slots of the optimiser",
            parameters=facts.dense.parameters, slots=facts.dense.slots,
        ),
        "batch_bytes": figure(
            "B", "4 * batch * width * 8 + 3 * (pull + push)",
            "inputs and what the layers keep for the way back, about eight times the inputs; vectors and gradients",
            batch=cluster.batch_rows, width=facts.dense.input_width, pull=network["pull_bytes"],
            push=network["push_bytes"],
        ),
    }  # fmt: skip
    base = constants["worker_base_bytes"] + constants["model_bytes"]
    base += constants["reader_base_bytes"] if reading.own_process else 0
    found["memory_bytes"] = figure(
        "B", "base + windows + weights + batches", "its reader's process included" if reading.own_process else "",
        base=base, windows=found["window_bytes"], weights=found["weight_bytes"], batches=found["batch_bytes"],
    )  # fmt: skip
    found["memory_request_bytes"] = figure(
        "B", "ceil(memory_bytes * margin / 2 ** 20) * 2 ** 20", "the margin, whole MiB",
        memory_bytes=found["memory_bytes"], margin=facts.wishes.margin,
    )  # fmt: skip
    return found
