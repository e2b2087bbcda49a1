"""A PS: its memory, what to request for it, how evenly the ids are spread."""

from __future__ import annotations

from collections.abc import Mapping

from ps_cluster.plan.figure import Figure, figure, total
from ps_cluster.plan.types import Facts

_BLOCK_BYTES = 4 * 2**20
MOST_PS = 512


def server_figures(
    facts: Facts, tables: Mapping[str, Mapping[str, Figure]], network: Mapping[str, Figure], ps: int,
    checkpoint_seconds: Figure, step_seconds: Figure,
) -> dict[str, Figure]:  # fmt: skip
    """Memory of one of `ps` PS at the horizon, part by part. tables: bytes of each."""
    constants, places = facts.constants, max(ps, 1)
    found: dict[str, Figure] = {}
    found["embedding_bytes"] = total(
        "B", {f"table_{name}": one["embedding_bytes"] for name, one in tables.items()}, "embeddings alone, over all PS"
    )
    found["embedding_bytes_per_ps"] = figure("B", "embedding_bytes / ps", "an even share", ps=places,
                                             embedding_bytes=found["embedding_bytes"])  # fmt: skip
    found["table_bytes"] = total(
        "B", {f"table_{name}": one["peak_bytes_per_ps"] for name, one in tables.items()},
        "tables on a PS at their peak: rows, slots, index, counts, free room",
    )  # fmt: skip
    found["unevenness"] = figure(
        "", "1 + 3 * sqrt(ps / rows) * min(ps - 1, 1)",
        "rows go to PS by a mixed hash: the fullest has three deviations more than the mean, at most",
        ps=places, rows=max(sum(one["rows"].value for one in tables.values()), 1.0),
    )  # fmt: skip
    found["buffer_bytes"] = figure(
        "B", "5.5 * ps_bytes",
        "requests, vectors, gradients: in ops, in gRPC, kept by malloc (5 to 6 measured, of tables that do not grow)",
        ps_bytes=network["ps_bytes"],
    )  # fmt: skip
    blocks = {
        f"table_{name}": figure("B", "min(1.5 * block_bytes, bytes_per_ps)", block_bytes=_BLOCK_BYTES,
                                bytes_per_ps=one["bytes_per_ps"])
        for name, one in tables.items()
    }  # fmt: skip
    found["block_bytes"] = total("B", blocks, "while a checkpoint is written: a block of each table, which doubles")
    rows_a_step = figure("rows", "ids * workers / ps", ids=network["ids_per_worker"], workers=facts.cluster.workers,
                         ps=places)  # fmt: skip
    row_bytes = max((shape.width * (shape.value_bytes + 4 * shape.slots) + 24 for shape in facts.tables), default=0)
    saves_running = facts.checkpoint_every_steps is not None
    found["save_bytes"] = figure(
        "B",
        "blocks + during * min(rows, save_seconds / step_seconds * rows_a_step) * row_bytes",
        "and the rows that change before they are written",
        blocks=found["block_bytes"], during=1 if saves_running else 0,
        rows=sum(one["rows"].value for one in tables.values()) / places, save_seconds=checkpoint_seconds,
        step_seconds=step_seconds, rows_a_step=rows_a_step, row_bytes=row_bytes,
    )  # fmt: skip
    found["memory_bytes"] = figure(
        "B",
        "base + client * workers + table_bytes * unevenness + buffers + save",
        "resident memory of the fullest PS at its peak",
        base=constants["ps_base_bytes"], client=constants["ps_client_bytes"], workers=facts.cluster.workers,
        table_bytes=found["table_bytes"], unevenness=found["unevenness"], buffers=found["buffer_bytes"],
        save=found["save_bytes"],
    )  # fmt: skip
    found["memory_request_bytes"] = figure(
        "B", "ceil(memory_bytes * margin / 2 ** 20) * 2 ** 20", "what to ask for: the margin, whole MiB",
        memory_bytes=found["memory_bytes"], margin=facts.wishes.margin,
    )  # fmt: skip
    found["cpu_seconds_per_step"] = figure(
        "CPU-s",
        "ids * (of_id + width * of_float) + workers * groups * of_call",
        "of a PS: requests are received, rows found, read, sent and updated",
        ids=rows_a_step, of_id=constants["ps_id_seconds"], width=mean_width(facts),
        of_float=constants["ps_float_seconds"], workers=facts.cluster.workers, groups=facts.groups.count(),
        of_call=constants["ps_call_seconds"],
    )  # fmt: skip
    hottest = max((share for load in facts.loads.values() for _, share in load.hot[:1]), default=0.0)
    found["hot_share"] = figure(
        "", "share", "of a table's occurrences that are of its hottest id, before ids of a batch are made one",
        share=hottest,
    )  # fmt: skip
    found["hot_request_share"] = figure(
        "", "1 / max(ids, 1) * min(batch * hottest, 1)",
        "of a worker's request that is of that id: it travels once however often it comes",
        ids=network["ids_per_worker"], batch=facts.cluster.batch_rows, hottest=hottest,
    )  # fmt: skip
    found["request_share_of_fullest"] = figure(
        "", "min(1 / ps + 3 * sqrt(1 / ps * (1 - 1 / ps) / max(ids, 1)) + hot, 1)",
        "of a worker's ids that go to the PS with the most: three deviations above an even share, and the hottest id",
        ps=places, ids=network["ids_per_worker"], hot=found["hot_request_share"],
    )  # fmt: skip
    return found


def mean_width(facts: Facts) -> float:
    """Numbers of an embedding that travels, over all ids of a batch."""
    ids = sum(facts.loads[shape.name].ids_in_a_batch for shape in facts.tables)
    if not ids:
        return 0.0
    return sum(facts.loads[shape.name].ids_in_a_batch * shape.width for shape in facts.tables) / ids
