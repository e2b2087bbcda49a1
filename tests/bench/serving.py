"""What scoring costs: the SavedModel with our ops against the one of plain TensorFlow, in one process, by turns.

`candidates_200`: median time of a request for 200 candidates of one user, RankMixer trained on the synthetic log.
`lookup_200` and `lookup_4096`: the look-up of all features alone, CPU time of a batch; 20 tables of half a million
rows of 16 values (`--full`: 5 of 4 million), far beyond the caches, ids at random, a tenth unknown; 16 features of one
id, 4 of lists of up to 50. Against it, as the plain form does it, binary search, gather, pooling and concatenation.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pyarrow.orc as orc
import yaml

from ps_cluster.quiet import import_tensorflow
from tests.bench.reporting import Result

_CANDIDATES = 200
_PER_ITEM = ("item_id", "category", "item_1", "item_2", "item_3", "item_4", "price", "item_age")


def candidates_case(full: bool) -> Result:
    import tensorflow as tf

    from ops.library import load_rankmixer
    from tests.bench.quality import EXAMPLES, run_command

    load_rankmixer()
    rows = 2_000_000 if full else 100_000
    with tempfile.TemporaryDirectory() as folder:
        run_command("data", "synth", f"{folder}/samples", "--rows", str(rows))
        job = yaml.safe_load((EXAMPLES / "synth.yaml").read_text())
        job["cluster"] = {"ps": 0}
        path = Path(folder, "job.yaml")
        path.write_text(yaml.safe_dump(job))
        run_command("train", str(path))
        run_command("export", str(path), "--form", "ops")
        loaded = [tf.saved_model.load(f"{folder}/run/{name}/1") for name in ("export-ops", "export")]
        requests = _requests(sorted(Path(folder, "samples").glob("test-*.orc"))[0], job["features"])
    ours, theirs = (one.signatures["serving_default"] for one in loaded)
    apart = max(float(np.max(np.abs(ours(**r)["logit"] - theirs(**r)["logit"]))) for r in requests)
    times = _by_turns({"ours": lambda i: ours(**requests[i]), "theirs": lambda i: theirs(**requests[i])}, len(requests))
    p50 = {name: 1e3 * statistics.median(one.wall) for name, one in times.items()}
    p99 = {name: 1e3 * float(np.percentile(one.wall, 99)) for name, one in times.items()}
    cpu = {name: 1e3 * statistics.mean(one.cpu) for name, one in times.items()}
    return Result(
        case="candidates_200",
        ours=p50["ours"],
        theirs=p50["theirs"],
        unit="ms (median)",
        ratio=p50["theirs"] / p50["ours"],
        answers_equal=apart < 2e-6,
        compared=f"{len(times['ours'].wall)} requests of {_CANDIDATES} candidates each, model of a synthetic log of "
        f"{rows:,} rows, form ops against form plain; logits apart at most {apart:.1e}\n"
        f"  99 %: {p99['ours']:.2f} against {p99['theirs']:.2f} ms; "
        f"CPU time: {cpu['ours']:.2f} against {cpu['theirs']:.2f} ms",
    )


def lookup_case(batch: int, full: bool) -> Result:
    import tensorflow as tf

    from ops.lookup_concat import Arrangement, IdInput, Segment, lookup_concat
    from ps_cluster.embedding.pooling import pool
    from ps_cluster.export.hashed_table import HashedTable
    from ps_cluster.export.ordered_rows import StoredRows, ordered
    from ps_cluster.export.static_table import StaticTable

    rows, dim, features, longest, batches = 4_000_000 if full else 500_000, 16, 20, 50, 20
    tables = 5 if full else features  # of each side 80 bytes a row
    random = np.random.default_rng(1)
    keys = random.integers(-(2**63), 2**63 - 1, rows)
    values = random.normal(size=[rows, dim]).astype(np.float32)
    blocks = [(keys[at : at + 10**6], values[at : at + 10**6]) for at in range(0, rows, 10**6)]
    # Same rows in every table, each in memory of its own.
    stored = StoredRows(lambda: iter(blocks), dim)
    hashed = [HashedTable(f"t{number}", dim) for number in range(tables)]
    plain = [StaticTable(f"t{number}", dim) for number in range(tables)]
    (ordered_rows,) = ordered(stored, "float32", "/nowhere", "table")
    for table in (*hashed, *plain):
        table.fill(ordered_rows)
    inputs = tuple(IdInput(f"f{n}", n % tables, "mean" if n % 5 == 4 else "id") for n in range(features))
    segments = tuple(Segment(n, 0, dim, 0, n * dim) for n in range(features))
    arrangement = Arrangement(inputs, (), segments, 1, features * dim)
    draw = lambda *shape: np.where(random.random(shape) < 0.1, 7, random.choice(keys, shape))  # noqa: E731
    given = [
        (
            [tf.constant(draw(batch) if one.pooling == "id" else draw(batch, longest)) for one in inputs],
            [tf.constant(random.integers(0, longest + 1, batch)) for one in inputs if one.pooling != "id"],
        )
        for _ in range(batches)
    ]

    @tf.function(autograph=False)
    def ours(ids: list, lengths: list) -> tf.Tensor:
        return lookup_concat(arrangement, ids, lengths, [], [table.read() for table in hashed])[0]

    @tf.function(autograph=False)
    def theirs(ids: list, lengths: list) -> tf.Tensor:
        lengths, vectors = list(lengths), []
        for one, of_one in zip(inputs, ids):
            if one.pooling == "id":
                vectors.append(plain[one.table].lookup(of_one))
                continue
            lists = tf.RaggedTensor.from_tensor(of_one, lengths=lengths.pop(0))
            vectors.append(pool(plain[one.table].lookup(lists.flat_values), lists.row_splits, one.pooling))
        return tf.concat(vectors, axis=1)

    equal = all(np.array_equal(ours(*one), theirs(*one)) for one in given[:3])
    times = _by_turns({"ours": lambda i: ours(*given[i]), "theirs": lambda i: theirs(*given[i])}, batches)
    cpu = {name: 1e3 * statistics.median(one.cpu) for name, one in times.items()}
    wall = {name: 1e3 * statistics.median(one.wall) for name, one in times.items()}
    return Result(
        case=f"lookup_{batch}",
        ours=cpu["ours"],
        theirs=cpu["theirs"],
        unit="CPU ms a batch (median)",
        ratio=cpu["theirs"] / cpu["ours"],
        answers_equal=equal,
        compared=f"batches of {batch} rows, {features} features, {tables} tables of {rows:,} rows of {dim}; the op "
        f"against searchsorted, gather, pooling and concat\n  time: {wall['ours']:.2f} against {wall['theirs']:.2f} ms",
    )


class _Times:
    def __init__(self) -> None:
        self.wall: list[float] = []
        self.cpu: list[float] = []


def _by_turns(sides: Mapping[str, Callable[[int], object]], inputs: int, repeats: int = 5) -> dict[str, _Times]:
    """Seconds of every call: each input by each side, the sides by turns, after one round that does not count."""
    times = {name: _Times() for name in sides}
    for repeat in range(repeats + 1):
        for number in range(inputs):
            for name, run in sides.items():
                wall, cpu = time.perf_counter(), time.process_time()
                run(number)
                if repeat:
                    times[name].cpu.append(time.process_time() - cpu)
                    times[name].wall.append(time.perf_counter() - wall)
    return times


def _requests(path: Path, features: list[dict]) -> list[dict]:
    """100 of them: what is of the user and the moment from one row, what is of the item from 200 rows."""
    import tensorflow as tf

    table = orc.ORCFile(path).read()
    requests = []
    for number in range(100):
        asking, items = table.slice(number * 7, 1), table.slice(number * 31, _CANDIDATES)
        request = {}
        for feature in features:
            name = feature["name"]
            values = (items if name in _PER_ITEM else asking)[name].to_pylist()
            values = values if name in _PER_ITEM else values * _CANDIDATES
            if feature["kind"] == "id_list":
                request[f"{name}_length"] = tf.constant([len(one) for one in values], tf.int64)
                longest = max(map(len, values))
                values = [one + [0] * (longest - len(one)) for one in values]
            shape = [_CANDIDATES, -1] if feature["kind"] == "id_list" else [_CANDIDATES]
            dtype = np.float32 if feature["kind"] == "dense" else np.int64
            request[name] = tf.constant(np.array(values, dtype).reshape(shape))
        requests.append(request)
    return requests


def main() -> int:
    """Runs the cases asked for."""
    import_tensorflow(gpu=False)
    from tests.bench.reporting import run_cases

    return run_cases(
        "serving",
        {
            "candidates_200": candidates_case,
            "lookup_200": lambda full: lookup_case(200, full),
            "lookup_4096": lambda full: lookup_case(4096, full),
        },
    )


if __name__ == "__main__":
    sys.exit(main())
