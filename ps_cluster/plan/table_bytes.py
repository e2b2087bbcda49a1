"""Bytes of one table that has so many rows: on a PS, over all of them, in a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ps_cluster.plan import native_memory as native
from ps_cluster.plan.figure import Figure, figure, total
from ps_cluster.plan.types import TableShape


def bytes_figures(shape: TableShape, rows: Mapping[str, Figure], ps: int) -> dict[str, Figure]:
    """Bytes of a table on one of `ps` PS and over all of them."""
    tiers = _tiers(shape, rows)
    found = {
        "embedding_bytes": figure(
            "B",
            " + ".join(f"rows_of_{dim} * {dim} * value_bytes" for dim in tiers),
            "embeddings alone, over all PS",
            **{f"rows_of_{dim}": one for dim, one in tiers.items()}, value_bytes=shape.value_bytes,
        ),
    }  # fmt: skip
    payload = {dim: 16 + native.row_bytes(dim, shape.slots, shape.value_bytes) for dim in tiers}
    found["payload_bytes"] = figure(
        "B",
        " + ".join(f"rows_of_{dim} * {payload[dim]}" for dim in tiers),
        f"keys, frequencies, last steps, embeddings and {shape.slots} slots of all rows, over all PS",
        **{f"rows_of_{dim}": one for dim, one in tiers.items()},
    )
    if shape.engine != "native":
        floats = shape.width * (1 + shape.slots) + 2
        found["bytes_per_ps"] = figure(
            "B", "cuckoo_bytes(rows / ps, row_floats)", "TFRA's cuckoo table", rows=rows["rows"], ps=ps,
            row_floats=floats,
        )  # fmt: skip
        found["peak_bytes_per_ps"] = figure(
            "B", "bytes_per_ps", "resident: what a doubling leaves behind is in it", bytes_per_ps=found["bytes_per_ps"]
        )  # fmt: skip
        return found
    found |= _native_bytes(shape, rows, tiers, ps)
    return found


def _tiers(shape: TableShape, rows: Mapping[str, Figure]) -> dict[int, Figure]:
    if len(shape.tiers) == 1 or f"rows_of_{shape.width}" not in rows:
        return {shape.width: rows["rows"]}
    return {dim: rows[f"rows_of_{dim}"] for dim, _ in shape.tiers}


def _native_bytes(
    shape: TableShape, rows: Mapping[str, Figure], tiers: Mapping[int, Figure], ps: int
) -> dict[str, Figure]:
    widest = native.row_stride(shape.width, shape.slots, shape.value_bytes, shape.with_hour)
    sub_tables, unit = native.sub_tables_of(shape.max_bytes, widest)
    spread = sub_tables
    if shape.admission == "bloom" and shape.threshold > 1:
        spread = max(min(sub_tables, native.BLOOM_SEGMENTS // ps), 1)
    cut = {"ps": ps, "sub_tables": spread, "unit": unit}
    counted = rows.get("counted_ids")
    classes = {
        f"of_{dim}": (rows.get(f"most_rows_of_{dim}", one), _stride(shape, dim),
                      f"rows of {_stride(shape, dim)} bytes: header, {dim} values, slots; in slabs")
        for dim, one in tiers.items()
    }  # fmt: skip
    if counted is not None:
        classes["of_counts"] = counted, native.row_stride(0, 0, 4, shape.with_hour), "ids that are only counted"
    parts: dict[str, Figure] = {}
    for name, (some, stride, words) in classes.items():
        parts[f"slabs_{name}"] = figure("B", "slab_bytes(rows / ps, stride, sub_tables, unit)", words,
                                        rows=some, stride=stride, **cut)  # fmt: skip
    entries = {"rows": rows["rows"], "counted": counted if counted is not None else 0}
    parts["index"] = figure("B", "index_bytes((rows + counted) / ps, sub_tables, unit)", **entries, **cut)
    if shape.admission == "bloom" and shape.threshold > 1:
        parts["bloom"] = figure(
            "B", "bloom_bytes(capacity, error, threshold, ps)", capacity=shape.capacity, error=shape.error,
            threshold=shape.threshold, ps=ps,
        )  # fmt: skip
    parts["sub_tables"] = figure(
        "B", "sub_tables * (of_one + classes * of_class) + segments * of_segment",
        sub_tables=sub_tables, of_one=native.SUB_TABLE_BYTES, classes=1 + len(shape.tiers),
        of_class=native.CLASS_BYTES, segments=native.BLOOM_SEGMENTS if "bloom" in parts else 0,
        of_segment=native.BLOOM_SEGMENT_BYTES,
    )  # fmt: skip
    needed = total("B", parts, "what the table itself counts as its memory on a PS")
    whole = needed
    if shape.max_bytes:
        whole = figure("B", "min(needed, max_bytes)", "new rows push out others at the limit", needed=needed,
                       max_bytes=shape.max_bytes)  # fmt: skip
    beside = _beside(classes, entries, cut)
    found = {f"{name}_per_ps": one for name, one in (parts | beside).items()}
    found["bytes_per_ps"] = whole
    within = "bytes_per_ps / needed * " if shape.max_bytes else ""
    found["peak_bytes_per_ps"] = figure(
        "B", f"bytes_per_ps + {within}({' + '.join(beside)})",
        "resident: with what lies between the rows and what growth leaves behind",
        bytes_per_ps=whole, **({"needed": needed} if within else {}), **beside,
    )  # fmt: skip
    return found


def _stride(shape: TableShape, dim: int) -> int:
    return native.row_stride(dim, shape.slots, shape.value_bytes, shape.with_hour)


def _beside(
    classes: Mapping[str, tuple[Figure, int, str]], entries: Mapping[str, Any], cut: Mapping[str, Any]
) -> dict[str, Figure]:
    """What is resident of a table on a PS beside what it counts itself."""
    found: dict[str, Figure] = {}
    arena = 0.0
    for name, (some, stride, _) in classes.items():
        found[f"rest_{name}"] = figure(
            "B", "slab_rest_bytes(rows / ps, stride, sub_tables, unit)",
            "behind the rows of each unit, and left by first slabs that grew", rows=some, stride=stride, **cut,
        )  # fmt: skip
        arena += figure("B", "unit_bytes(rows / ps, stride, sub_tables, unit)", rows=some, stride=stride, **cut).value
    found["rest_of_index"] = figure("B", "index_rest_bytes((rows + counted) / ps, sub_tables, unit)",
                                    "left by indices that grew", **entries, **cut)  # fmt: skip
    found["page"] = figure("B", "min(units, 2 ** 20)", "the arena's newest huge page is half used", units=arena)
    return found


def checkpoint_figure(shape: TableShape, rows: Mapping[str, Figure]) -> Figure:
    """Bytes of a table in a full checkpoint, over all PS."""
    meta = 16 + (4 if shape.with_hour and shape.engine == "native" else 0)
    tiers = _tiers(shape, rows)
    terms = [f"rows_of_{dim} * {meta + native.row_bytes(dim, shape.slots, shape.value_bytes)}" for dim in tiers]
    inputs = {f"rows_of_{dim}": one for dim, one in tiers.items()}
    if "counted_ids" in rows:
        terms.append(f"counted_ids * {meta}")
        inputs["counted_ids"] = rows["counted_ids"]
    if shape.admission == "bloom" and shape.threshold > 1:
        terms.append("bloom")
        inputs["bloom"] = figure(
            "B", "bloom_bytes(capacity, error, threshold, 1)", capacity=shape.capacity, error=shape.error,
            threshold=shape.threshold,
        )  # fmt: skip
    return figure("B", " + ".join(terms), "a row's key, step and frequency, embedding and slots", **inputs)
