"""Jobs whose tables need different things of a plan, and logs of any length for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import yaml

from data.orc_writer import OrcWriter

_BLOCK = 65_536
_MODEL = {"name": "deepfm", "fm_dim": 8, "hidden": [16]}
_ADAM = {"name": "adam", "learning_rate": 0.01}
_SHUFFLE_ROWS = 65_536


@dataclass(frozen=True)
class Load:
    """One of the jobs. columns: what a block of rows holds, by name, given the
    share of the log before it; of shape `[rows]` or `[rows, items]`. sparse: optimiser of the tables."""

    features: list[dict[str, Any]]
    tables: dict[str, dict[str, Any]]
    columns: Callable[[np.random.Generator, int, float], Mapping[str, np.ndarray]]
    rows: int
    sparse: Mapping[str, Any] = field(default_factory=lambda: _ADAM)


def zipf(random: np.random.Generator, exponent: float, ids: int, shape: int | tuple[int, int]) -> np.ndarray:
    """Ids of ranks 1 to `ids` under a power law, drawn by its continuous inverse; scattered over int64."""
    u = random.random(shape)
    if abs(exponent - 1) < 1e-9:
        ranks = np.exp(u * np.log(ids + 1.0))
    else:
        power = 1 - exponent
        ranks = (1 + u * ((ids + 1.0) ** power - 1)) ** (1 / power)
    with np.errstate(over="ignore"):
        return np.minimum(ranks.astype(np.int64), ids) * np.int64(-7046029254386353131)


def _few_big(users: int, items: int, flat: tuple[float, float], dims: tuple[int, int], rows: int) -> Load:
    """flat: the exponents."""

    def columns(random: np.random.Generator, rows: int, _: float) -> Mapping[str, np.ndarray]:
        return {
            "user": zipf(random, flat[0], users, rows),
            "item": zipf(random, flat[1], items, rows),
            "history": zipf(random, flat[1], items, (rows, 3)),
        }

    features = [
        {"name": "user", "kind": "id", "table": "users"},
        {"name": "item", "kind": "id", "table": "items"},
        {"name": "history", "kind": "id_list", "table": "items"},
    ]
    return Load(features, {"users": {"dim": dims[0]}, "items": {"dim": dims[1]}}, columns, rows)


def _many_small(fields: int, least: int, more: int, steeper: float, dim: int, rows: int) -> Load:
    """Every field has `more` values more than the one before, and a law that is so much steeper."""

    def columns(random: np.random.Generator, rows: int, _: float) -> Mapping[str, np.ndarray]:
        return {f"field_{n}": zipf(random, 0.3 + steeper * n, least + more * n, rows) for n in range(fields)}

    return Load([{"name": f"field_{n}", "kind": "id", "dim": dim} for n in range(fields)], {}, columns, rows)


def _long_tail(words: int, exponent: float, of_row: int, dim: int, rows: int) -> Load:
    def columns(random: np.random.Generator, rows: int, _: float) -> Mapping[str, np.ndarray]:
        return {"word": zipf(random, exponent, words, (rows, of_row))}

    table = {"dim": dim, "admission": {"kind": "exact", "threshold": 2}}
    return Load([{"name": "word", "kind": "id_list", "table": "words"}], {"words": table}, columns, rows)


def _tiers(authors: int, exponent: float, of_row: int, dims: tuple[int, int], rows: int) -> Load:
    def columns(random: np.random.Generator, rows: int, _: float) -> Mapping[str, np.ndarray]:
        return {"author": zipf(random, exponent, authors, (rows, of_row))}

    low, high = ({"dim": dim, "min_frequency": least} for dim, least in zip(dims, (0, 4)))
    table = {"tiers": [low, high], "output": dims[0]}
    return Load([{"name": "author", "kind": "id_list", "table": "authors"}], {"authors": table}, columns, rows)


def _growing(rows: int) -> Load:
    """A catalogue of which a third is there from the beginning, and pages that are looked at for a while."""

    def columns(random: np.random.Generator, rows: int, done: float) -> Mapping[str, np.ndarray]:
        video = zipf(random, 0.7, 60_000, rows)
        born = 1.5 * (video.view(np.uint64) % np.uint64(1_000_003)).astype(np.float64) / 1_000_003 - 0.5
        first = zipf(random, 0.7, 1_000, rows)
        page = zipf(random, 1.1, 20_000, (rows, 2)) + np.int64(done * 40)
        return {"video": np.where(born <= done, video, first), "page": page}

    bloom = {"kind": "bloom", "threshold": 3, "capacity": 200_000, "error": 0.01}
    return Load(
        [{"name": "video", "kind": "id", "table": "videos"}, {"name": "page", "kind": "id_list", "table": "pages"}],
        {"videos": {"dim": 96, "values": "bfloat16"}, "pages": {"dim": 32, "admission": bloom}},
        columns,
        rows,
        sparse={"name": "adagrad", "learning_rate": 0.01},
    )


_ROWS = 245_760
LOADS: Mapping[str, Load] = {
    "few_big": _few_big(3_000_000, 1_500_000, (0.6, 0.9), (64, 128), _ROWS),
    "many_small": _many_small(16, 20_000, 4_000, 0.05, 64, _ROWS),
    "long_tail": _long_tail(4_000_000, 0.8, 8, 128, _ROWS),
    "tiers": _tiers(2_000_000, 0.8, 4, (64, 128), _ROWS),
    "growing": _growing(_ROWS),
}
FULL_LOADS: Mapping[str, Load] = {
    "few_big": _few_big(6_000_000, 6_000_000, (0.6, 0.7), (32, 48), 3_014_656),
    "many_small": _many_small(48, 100_000, 2_000, 0.015, 32, 655_360),
    "long_tail": _long_tail(16_000_000, 0.6, 16, 32, 1_638_400),
    "tiers": _tiers(8_000_000, 0.6, 8, (24, 48), 2_031_616),
    "growing": _growing(1_998_848),
}
"""Of flat laws and large catalogues, so that 5 to 10 million ids have rows within minutes; `growing` has fewer. Narrow
rows, so that all processes of a run together stay below 8 GiB."""


def write_log(folder: Path, load: Load) -> None:
    """Writes the log of a job, `log.orc`."""
    random = np.random.default_rng(7)
    schema: pa.Schema | None = None
    writer = None
    done = 0
    while done < load.rows:
        count = min(_BLOCK, load.rows - done)
        arrays = {key: _array(value) for key, value in load.columns(random, count, done / load.rows).items()}
        arrays["label"] = pa.array(random.integers(0, 2, count).astype(np.int8))
        batch = pa.RecordBatch.from_arrays(list(arrays.values()), names=list(arrays))
        if writer is None:
            schema = batch.schema
            writer = OrcWriter(str(folder / "log.orc"), schema).__enter__()
        writer.write(batch)
        done += count
    assert writer is not None
    writer.__exit__(None, None, None)


def write_job(folder: Path, name: str, load: Load, ps: int) -> Path:
    """Writes the job file beside the log; returns its path."""
    job = {
        "name": name.replace("_", "-"),
        "data": {"train": ["log.orc"], "label": "label", "shuffle_rows": _SHUFFLE_ROWS, "reader": "native"},
        "features": load.features,
        "tables": load.tables,
        "model": _MODEL,
        "optimizers": {"sparse": dict(load.sparse), "dense": _ADAM},
        "training": {"batch_size": 2048},
        "cluster": {"ps": ps, "workers": 1},
        "output": "out",
    }
    path = folder / f"job-{ps}.yaml"
    path.write_text(yaml.safe_dump(job, sort_keys=False))
    return path


def _array(values: np.ndarray) -> pa.Array:
    if values.ndim == 1:
        return pa.array(values)
    offsets = np.arange(0, values.size + 1, values.shape[1], dtype=np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(values.ravel()))
