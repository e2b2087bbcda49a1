"""Bytes on the wire: ids, vectors and gradients between workers and PS, and the sum of dense gradients."""

from __future__ import annotations

from ps_cluster.plan.figure import Figure, figure, total
from ps_cluster.plan.types import Facts

_HEADER_WORDS = 5


def network_figures(facts: Facts, ps: int) -> dict[str, Figure]:
    """Of one step."""
    cluster, found = facts.cluster, {}
    constants = facts.constants
    places = max(ps, 1)
    used = [shape for shape in facts.tables if shape.name in facts.groups.of_table]
    found["ids_per_worker"] = figure(
        "ids",
        " + ".join(f"ids_of_{shape.name}" for shape in used) or "0",
        "different ids in a worker's batch; each travels once",
        **{f"ids_of_{shape.name}": facts.loads[shape.name].ids_in_a_batch for shape in used},
    )
    found["request_bytes"] = figure(
        "B",
        "12 * ids + ps * (8 * (groups * header_words + tables) + 4 * groups * 0.5)",
        "a worker's: an id in 8 bytes, how often it came in 4; a header for each PS and group of tables",
        ids=found["ids_per_worker"], ps=places, groups=facts.groups.count(), header_words=_HEADER_WORDS,
        tables=len(used),
    )  # fmt: skip
    found["pull_bytes"] = figure(
        "B",
        " + ".join(f"ids_of_{shape.name} * {shape.width} * value_bytes" for shape in used) or "0",
        "a worker's vectors, as wide as the widest tier",
        **{f"ids_of_{shape.name}": facts.loads[shape.name].ids_in_a_batch for shape in used},
        value_bytes=cluster.transport_bytes,
    )  # fmt: skip
    found["push_bytes"] = figure("B", "pull_bytes", "a worker's gradients, one for each vector",
                                 pull_bytes=found["pull_bytes"])  # fmt: skip
    found["worker_bytes"] = figure(
        "B",
        "(request + pull + push + ps * calls) * wire_overhead",
        "between a worker and all PS",
        request=found["request_bytes"], pull=found["pull_bytes"], push=found["push_bytes"], ps=places,
        calls=constants["call_overhead_bytes"], wire_overhead=constants["wire_overhead"],
    )  # fmt: skip
    found["ps_bytes"] = figure("B", "worker_bytes * workers / ps", "between a PS and all workers",
                               worker_bytes=found["worker_bytes"], workers=cluster.workers, ps=places)  # fmt: skip
    found["all_reduce_bytes"] = figure(
        "B",
        "2 * (workers - 1) * dense_bytes / workers",
        "that a worker sends, and as much that it receives: the ring's sum of gradients of the dense weights",
        workers=cluster.workers, dense_bytes=4.0 * facts.dense.parameters,
    )  # fmt: skip
    found["all_bytes"] = total(
        "B",
        {
            "with_ps": figure("B", "worker_bytes * workers", worker_bytes=found["worker_bytes"],
                              workers=cluster.workers),
            "all_reduce": figure("B", "all_reduce_bytes * workers", all_reduce_bytes=found["all_reduce_bytes"],
                                 workers=cluster.workers),
        },
        "sent by all processes together",
    )  # fmt: skip
    if ps == 0:
        for name in ("request_bytes", "pull_bytes", "push_bytes", "worker_bytes", "ps_bytes"):
            found[name] = figure("B", "0", "tables inside the worker: nothing travels")
        found["all_bytes"] = figure("B", "0", "one process")
    return found
