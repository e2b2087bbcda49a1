"""Does shuffling a log that is sorted by user cost quality? The same training on a log in fully random order tells.

Two stripes' worth of rows of a user that come together make a worse step than rows of many users do; how much of that
the window and the interleaving of stripes take away shows in the AUC of a small DeepFM after one pass.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

import yaml

from tests.bench.orc_answers import table_fingerprint
from tests.bench.orc_samples import Samples, ordered, write_orc
from tests.bench.reporting import Result

GAP = 0.001
_ROWS = {False: 60_000, True: 1_000_000}
_SEEDS = {False: (1,), True: (1, 2, 3)}
_ROOT = Path(__file__).resolve().parents[2]
_EXAMPLE = _ROOT / "ps_cluster" / "examples" / "synth.yaml"


def case(name: str, samples: Samples, full: bool) -> Result:
    """AUC with our shuffle of the log by user against that of the log in random order."""
    rows = _ROWS[full]
    folder = samples.folder("shuffle")
    table = samples.table("synth", rows, "time")
    train, test = table.slice(0, rows * 9 // 10), table.slice(rows * 9 // 10)
    by_user, in_random = ordered(train, "user"), ordered(train, "random")
    for kind, some in (("user", by_user), ("random", in_random), ("test", test)):
        write_orc(some, str(folder / f"{kind}.orc"))
    interleaves = (1, 8, 32) if full else (8,)
    found: dict[str, list[float]] = {}
    for seed in _SEEDS[full]:
        found.setdefault("random order, not shuffled", []).append(_auc(folder, "random", seed, {"shuffle_rows": 0}))
        for interleave in interleaves:
            label = f"by user, shuffled, {interleave} stripes interleaved"
            found.setdefault(label, []).append(_auc(folder, "user", seed, {"interleave_stripes": interleave}))
        if full:
            found.setdefault("by user, not shuffled", []).append(_auc(folder, "user", seed, {"shuffle_rows": 0}))
    means = {label: statistics.mean(values) for label, values in found.items()}
    ours, theirs = means["by user, shuffled, 8 stripes interleaved"], means["random order, not shuffled"]
    gap = theirs - ours
    lines = [f"  {label:42} AUC {mean:.5f}" for label, mean in means.items()]
    names = table.column_names
    return Result(
        case=name,
        ours=ours,
        theirs=theirs,
        unit="AUC",
        ratio=GAP / max(gap, GAP / 100),
        answers_equal=table_fingerprint(by_user, names) == table_fingerprint(in_random, names),
        compared=(
            f"synthetic log of {rows:,} rows, one pass of a small DeepFM, {len(_SEEDS[full])} seeds: sorted by user "
            f"with the default shuffle against fully random order; the ratio is {GAP} over the loss of {gap:.5f}\n"
            + "\n".join(lines)
        ),
    )


def _auc(folder: Path, kind: str, seed: int, data: dict[str, int]) -> float:
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
