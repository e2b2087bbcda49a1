"""What the rankers reach: AUC on MovieLens-100k, and on a synthetic log whose best AUC is known.

`movielens_user`: test = each user's last 10 %. `movielens_time`: test = the last 10 % of all by time, most of it by
users never seen. Both against a logistic regression on user and item alone, fitted here on the same rows. `synth`:
against the planted probability. One run of RankMixer by default; `--full`: RankMixer, DeepFM and DCN-v2, three seeds
each, and 2 million synthetic rows. Every run is `ps-cluster train` with the example's job file.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow.orc as orc
import yaml

from ps_cluster.metrics.exact_auc import ScoreSpill, one_worker
from tests.bench.reporting import Result, run_cases

_ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = _ROOT / "ps_cluster" / "examples"
_MODELS: dict[str, dict] = {
    "rankmixer": {},
    "deepfm": {"name": "deepfm", "hidden": [64, 32], "dropout": 0.2, "dense_transform": "none"},
    "dcn": {"name": "dcn", "cross_layers": 2, "hidden": [64, 32], "dropout": 0.2, "dense_transform": "none"},
}
_SYNTH_GAP = 0.01


def movielens(split: str, full: bool) -> Result:
    with tempfile.TemporaryDirectory() as folder:
        run_command("data", "movielens", f"{folder}/samples", "--split", split)
        theirs = _logistic_regression(Path(folder, "samples"))
        models, seeds = (list(_MODELS), (1, 2, 3)) if full else (["rankmixer"], (1,))
        lines, means = [], []
        for model in models:
            found = [_train(folder, "movielens.yaml", model, seed)["auc"] for seed in seeds]
            means.append(statistics.mean(found))
            spread = f", from {min(found):.4f} to {max(found):.4f}" if len(found) > 1 else ""
            lines.append(f"  {model}: AUC {means[-1]:.4f}{spread}, {len(found)} seeds")
    return Result(
        case=f"movielens_{split}",
        ours=max(means),
        theirs=theirs,
        unit="AUC",
        ratio=max(means) / theirs,
        answers_equal=True,
        compared="\n".join(
            [f"MovieLens-100k, split by {split}: best ranker against logistic regression on user and item", *lines]
        ),
    )


def synth(full: bool) -> Result:
    rows = 2_000_000 if full else 200_000
    with tempfile.TemporaryDirectory() as folder:
        run_command("data", "synth", f"{folder}/samples", "--rows", str(rows))
        best = json.loads(Path(folder, "samples", "summary.json").read_text())["best_auc_test"]
        ours = _train(folder, "synth.yaml", "rankmixer", 1)["auc"]
    return Result(
        case="synth",
        ours=ours,
        theirs=best,
        unit="AUC",
        ratio=_SYNTH_GAP / max(best - ours, 1e-9),
        answers_equal=True,
        compared=f"synthetic log of {rows:,} rows: RankMixer against the planted probability; the ratio is "
        f"{_SYNTH_GAP} over the gap of {best - ours:.4f}",
    )


def _train(folder: str, example: str, model: str, seed: int) -> dict:
    return train_example(folder, example, f"{model}-{seed}", _MODELS[model], seed)


def train_example(folder: str, example: str, name: str, model: dict, seed: int) -> dict:
    """The report of a run of an example's job on the samples in `folder`; an empty `model`: the example's."""
    job = yaml.safe_load((EXAMPLES / example).read_text())
    job["model"] = model or job["model"]
    job["training"]["seed"] = seed
    # One process instead of five: the same steps, of as many rows, for a fraction of the start-up.
    job["training"]["batch_size"] *= job["cluster"]["workers"]
    job["cluster"] = {"ps": 0}
    job["output"] = f"run-{name}"
    path = Path(folder, f"{name}.yaml")
    path.write_text(yaml.safe_dump(job, sort_keys=False))
    run_command("train", str(path), "--report", f"{path}.json")
    return json.loads(Path(f"{path}.json").read_text())


def run_command(*arguments: str) -> None:
    """`ps-cluster` with these arguments; ends the benchmark when that fails."""
    command = [sys.executable, "-m", "ps_cluster", *arguments]
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": str(_ROOT)}, capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command[1:])}: status {done.returncode}\n{done.stdout}{done.stderr}")


def _logistic_regression(samples: Path, rate: float = 0.1, epochs: int = 30) -> float:
    """AUC of bias + user + item, by Adagrad over single rows' sums; weights of never seen ids stay 0."""
    (users, items, labels), test = (
        [np.asarray(orc.ORCFile(samples / f"{side}.orc").read(columns=[c])[c]) for c in ("user_id", "item_id", "label")]
        for side in ("train", "test")
    )
    known_users, user = np.unique(users, return_inverse=True)
    known_items, item = np.unique(items, return_inverse=True)
    weights = [np.zeros(len(known_users) + 1), np.zeros(len(known_items) + 1)]
    sums = [np.full(len(w), 0.1) for w in weights]
    bias = float(np.log(labels.mean() / (1 - labels.mean())))
    random = np.random.RandomState(0)
    for _ in range(epochs):
        for rows in np.array_split(random.permutation(len(labels)), len(labels) // 256):
            logit = bias + weights[0][user[rows]] + weights[1][item[rows]]
            gradient = 1 / (1 + np.exp(-logit)) - labels[rows]
            for w, s, ids in zip(weights, sums, (user[rows], item[rows])):
                total = np.bincount(ids, gradient, len(w)) + 0.02 * w * np.bincount(ids, minlength=len(w))
                s += total**2
                w -= rate * total / np.sqrt(s)
    places = []
    for ids, known in ((test[0], known_users), (test[1], known_items)):
        found = np.minimum(np.searchsorted(known, ids), len(known) - 1)
        places.append(np.where(known[found] == ids, found, len(known)))
    score = bias + weights[0][places[0]] + weights[1][places[1]]
    with tempfile.TemporaryDirectory() as scratch, ScoreSpill(scratch) as spill:
        spill.add(score.astype(np.float32), test[2])
        auc = spill.auc(one_worker)
    assert auc is not None
    return auc


if __name__ == "__main__":
    sys.exit(
        run_cases(
            "quality",
            {
                "movielens_user": lambda full: movielens("user", full),
                "movielens_time": lambda full: movielens("time", full),
                "synth": synth,
            },
        )
    )
