"""Does shuffling a log that is sorted by user cost quality? The same training on a log in fully random order tells.

Rows of a user that come together make worse steps than rows of many users do, and rows that come at one time of the
pass learn at the rates of that time only; how much of that the default shuffle takes away shows in the AUC of a small
DeepFM after one pass.
"""

from __future__ import annotations

import json
import math
import os
import statistics
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import yaml

from ps_cluster.job.schema import DataSection
from tests.bench.orc_answers import table_fingerprint
from tests.bench.orc_samples import Samples, ordered, write_orc
from tests.bench.reporting import Result

GAP = 0.001
_ROWS = {False: (300_000, 60_000), True: (900_000, 100_000)}
"""Of the training and of the test. The loss of one seed is uncertain by about 0.001 in the small run: only the large
one, by the mean of its seeds, decides."""
_SEEDS = {False: (1,), True: (201, 202, 203, 204, 205, 206)}
"""None of the large run's was used while the defaults were chosen."""
_AT_ONCE = 2
_ROOT = Path(__file__).resolve().parents[2]
_EXAMPLE = _ROOT / "ps_cluster" / "examples" / "synth.yaml"
_SETTINGS = ("shuffle_rows", "interleave_stripes", "stripe_slices")
_WINDOW, _INTERLEAVE, _SLICES = (int(DataSection.model_fields[name].default) for name in _SETTINGS)
_RANDOM, _OURS, _AS_THEY_ARE = "random order", "by user, default shuffle", "by user, not shuffled"


def case(name: str, samples: Samples, full: bool) -> Result:
    """AUC with our shuffle of the log by user against that of the log in random order."""
    (rows, test_rows), seeds = _ROWS[full], _SEEDS[full]
    folder = samples.folder("shuffle")
    table = samples.table("synth", rows + test_rows, "time")
    train, test = table.slice(0, rows), table.slice(rows)
    by_user, in_random = ordered(train, "user"), ordered(train, "random")
    for kind, some in (("user", by_user), ("random", in_random), ("test", test)):
        write_orc(some, str(folder / f"{kind}.orc"))
    ways: dict[str, tuple[str, dict[str, int]]] = {
        # Shuffled as well, so that every seed has an order of its own.
        _RANDOM: ("random", {}),
        _OURS: ("user", {}),
    }
    seeds_of = dict.fromkeys(ways, seeds)
    if full:
        ways[_AS_THEY_ARE] = ("user", {"shuffle_rows": 0})
        seeds_of[_AS_THEY_ARE] = seeds[:1]
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        runs = {
            (label, seed): threads.submit(_auc, folder, kind, seed, data)
            for label, (kind, data) in ways.items()
            for seed in seeds_of[label]
        }
        found = {label: [runs[label, seed].result() for seed in seeds_of[label]] for label in ways}
    ours, theirs = statistics.mean(found[_OURS]), statistics.mean(found[_RANDOM])
    by_seed = [theirs_of - ours_of for ours_of, theirs_of in zip(found[_OURS], found[_RANDOM])]
    error = statistics.stdev(by_seed) / math.sqrt(len(by_seed)) if len(by_seed) > 1 else math.nan
    lines = [
        f"  {label:32} AUC {statistics.mean(values):.5f}  ({', '.join(f'{value:.5f}' for value in values)})"
        for label, values in found.items()
    ]
    names = table.column_names
    return Result(
        case=name,
        ours=ours,
        theirs=theirs,
        unit="AUC",
        ratio=GAP / max(theirs - ours, GAP / 100),
        answers_equal=table_fingerprint(by_user, names) == table_fingerprint(in_random, names),
        compared=(
            f"synthetic log, one pass of a small DeepFM over {rows:,} rows, AUC on the {test_rows:,} rows after them, "
            f"{len(seeds)} seed{'s' * (len(seeds) > 1)}: sorted by user, in windows of {_WINDOW:,} rows over "
            f"{_INTERLEAVE} interleaved parts, each 1/{_SLICES} of a stripe, against fully random order; the ratio is "
            f"{GAP} over the loss of {theirs - ours:.5f} (standard error over seeds {error:.5f})\n" + "\n".join(lines)
        ),
    )


def _auc(folder: Path, kind: str, seed: int, data: Mapping[str, int]) -> float:
    job = yaml.safe_load(_EXAMPLE.read_text())
    job["data"] |= {"train": [str(folder / f"{kind}.orc")], "test": [str(folder / "test.orc")], **data}
    job["model"] = {"name": "deepfm", "hidden": [64, 32], "dense_transform": "none"}
    job["training"] |= {"seed": seed, "batch_size": 512}
    job["cluster"] = {"ps": 0}
    run = "-".join(map(str, ("run", kind, seed, *data.values())))
    job["output"] = run
    path = folder / f"{run}.yaml"
    path.write_text(yaml.safe_dump(job, sort_keys=False))
    command = [sys.executable, "-m", "ps_cluster", "train", str(path), "--report", f"{path}.json"]
    done = subprocess.run(
        command,
        env={**os.environ, "PYTHONPATH": str(_ROOT)},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command[1:])}: status {done.returncode}\n{done.stdout}{done.stderr}")
    return float(json.loads(Path(f"{path}.json").read_text())["auc"])
