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
    full_rows: int
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


def _few_big(random: np.random.Generator, rows: int, _: float) -> Mapping[str, np.ndarray]:
    return {
        "user": zipf(random, 0.6, 3_000_000, rows),
        "item": zipf(random, 0.9, 1_500_000, rows),
        "history": zipf(random, 0.9, 1_500_000, (rows, 3)),
    }


_SMALL = 16


def _many_small(random: np.random.Generator, rows: int, _: float) -> Mapping[str, np.ndarray]:
    return {f"field_{n}": zipf(random, 0.3 + 0.05 * n, 20_000 + 4_000 * n, rows) for n in range(_SMALL)}


def _long_tail(random: np.random.Generator, rows: int, _: float) -> Mapping[str, np.ndarray]:
    return {"word": zipf(random, 0.8, 4_000_000, (rows, 8))}


def _tiers(random: np.random.Generator, rows: int, _: float) -> Mapping[str, np.ndarray]:
    return {"author": zipf(random, 0.8, 2_000_000, (rows, 4))}


def _growing(random: np.random.Generator, rows: int, done: float) -> Mapping[str, np.ndarray]:
    """A catalogue of which a third is there from the beginning, and pages that are looked at for a while."""
    video = zipf(random, 0.7, 60_000, rows)
    born = 1.5 * (video.view(np.uint64) % np.uint64(1_000_003)).astype(np.float64) / 1_000_003 - 0.5
    first = zipf(random, 0.7, 1_000, rows)
    page = zipf(random, 1.1, 20_000, (rows, 2)) + np.int64(done * 40)
    return {"video": np.where(born <= done, video, first), "page": page}


LOADS: Mapping[str, Load] = {
    "few_big": Load(
        [
            {"name": "user", "kind": "id", "table": "users"},
            {"name": "item", "kind": "id", "table": "items"},
            {"name": "history", "kind": "id_list", "table": "items"},
        ],
        {"users": {"dim": 64}, "items": {"dim": 128}},
        _few_big,
        rows=245_760,
        full_rows=3_997_696,
    ),
    "many_small": Load(
        [{"name": f"field_{n}", "kind": "id", "dim": 64} for n in range(_SMALL)], {}, _many_small, 245_760, 1_998_848
    ),
    "long_tail": Load(
        [{"name": "word", "kind": "id_list", "table": "words"}],
        {"words": {"dim": 128, "admission": {"kind": "exact", "threshold": 2}}},
        _long_tail,
        rows=245_760,
        full_rows=3_997_696,
    ),
    "tiers": Load(
        [{"name": "author", "kind": "id_list", "table": "authors"}],
        {"authors": {"tiers": [{"dim": 64, "min_frequency": 0}, {"dim": 128, "min_frequency": 4}], "output": 64}},
        _tiers,
        rows=245_760,
        full_rows=5_998_592,
    ),
    "growing": Load(
        [{"name": "video", "kind": "id", "table": "videos"}, {"name": "page", "kind": "id_list", "table": "pages"}],
        {
            "videos": {"dim": 96, "values": "bfloat16"},
            "pages": {"dim": 32, "admission": {"kind": "bloom", "threshold": 3, "capacity": 200_000, "error": 0.01}},
        },
        _growing,
        rows=245_760,
        full_rows=1_998_848,
        sparse={"name": "adagrad", "learning_rate": 0.01},
    ),
}


def write_log(folder: Path, name: str, rows: int) -> None:
    """Writes the log of a job, `log.orc`."""
    load = LOADS[name]
    random = np.random.default_rng(7)
    schema: pa.Schema | None = None
    writer = None
    done = 0
    while done < rows:
        count = min(_BLOCK, rows - done)
        arrays = {key: _array(value) for key, value in load.columns(random, count, done / rows).items()}
        arrays["label"] = pa.array(random.integers(0, 2, count).astype(np.int8))
        batch = pa.RecordBatch.from_arrays(list(arrays.values()), names=list(arrays))
        if writer is None:
            schema = batch.schema
            writer = OrcWriter(str(folder / "log.orc"), schema).__enter__()
        writer.write(batch)
        done += count
    assert writer is not None
    writer.__exit__(None, None, None)


def write_job(folder: Path, name: str, ps: int) -> Path:
    """Writes the job file beside the log; returns its path."""
    load = LOADS[name]
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
