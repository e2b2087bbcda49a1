"""Whether an export gives the trainer's scores, asked before it is published.

Both are asked on the same rows, each in a process of its own, one after the other: the trainer's tables and the
export's are never in memory together, and the export is loaded as whoever serves it will load it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass

import numpy as np
from pyarrow import orc

from ps_cluster.checkpoint.finding import Checkpoint
from ps_cluster.errors import RunError, UserError
from ps_cluster.export.row_types import RowType
from ps_cluster.export.sample import Sample, write_sample
from ps_cluster.job.resolve import JobFile
from ps_cluster.launch.pdeathsig import PARENT_VARIABLE

SAMPLES = 4096
TOLERANCES: dict[RowType, float] = {"float32": 1e-5, "float16": 1e-2, "int8": 5e-2}
"""How far a logit may be from the trainer's: so much, or of logits above 1 so much of the logit."""
_BFLOAT16_TOLERANCE = 5e-2
_LIMIT_SECONDS = 3600.0


@dataclass(frozen=True)
class CheckSettings:
    """samples: how many rows are compared. tolerance: None: that of `TOLERANCES`."""

    samples: int = SAMPLES
    tolerance: float | None = None


@dataclass(frozen=True)
class Checked:
    """How the export's logits differ from the trainer's. The AUC is None where the labels are all alike."""

    rows: int
    tolerance: float
    largest: float
    mean: float
    auc_trainer: float | None
    auc_export: float | None


def check_export(
    job_file: JobFile, checkpoint: Checkpoint, row_type: RowType, model: str, settings: CheckSettings, scratch: str
) -> Checked:
    """Compares the scores of the export in `model` with the trainer's.

    Raises:
        RunError: a score is further away than the tolerance; names the worst row.
        UserError, DataError: there are no samples to compare them on.
    """
    os.makedirs(scratch, exist_ok=True)
    sample = write_sample(job_file, settings.samples, os.path.join(scratch, "sample.orc"))
    trainer, labels = _trainer_scores(job_file, checkpoint, sample, scratch)
    export = _export_scores(model, sample, scratch)
    tolerance = settings.tolerance
    if tolerance is None:
        tolerance = TOLERANCES[row_type]
        if getattr(job_file.job.model, "precision", "float32") == "bfloat16":
            tolerance = max(tolerance, _BFLOAT16_TOLERANCE)
    return compare(trainer, export, labels, sample.origins, tolerance)


def compare(
    trainer: np.ndarray, export: np.ndarray, labels: np.ndarray, origins: tuple[tuple[str, int], ...], tolerance: float
) -> Checked:
    """Compares logits, float32 `[n]` of the same rows. Raises RunError naming the worst row."""
    if trainer.shape != export.shape:
        raise RunError(f"the export was not published: expected {len(trainer)} scores of it, found {len(export)}")
    apart = np.abs(export.astype(np.float64) - trainer)
    over = np.where(np.isfinite(apart), apart / np.maximum(1.0, np.abs(trainer)), np.inf)
    worst = int(np.argmax(over))
    if over[worst] > tolerance:
        path, row = origins[worst]
        raise RunError(
            f"the export was not published: {path}: row {row} (counted from 0): expected the trainer's logit "
            f"{trainer[worst]:.8g}, found {export[worst]:.8g}, {apart[worst]:.3g} apart (tolerance {tolerance:g}, of "
            f"logits above 1 that share; beyond it: {int((over > tolerance).sum())} of {len(over)} rows)"
        )
    return Checked(
        rows=len(trainer),
        tolerance=tolerance,
        largest=float(apart.max(initial=0.0)),
        mean=float(apart.mean()) if len(apart) else 0.0,
        auc_trainer=_auc(trainer, labels),
        auc_export=_auc(export, labels),
    )


def _auc(scores: np.ndarray, labels: np.ndarray) -> float | None:
    """The share of pairs of a 1 and a 0 in which the 1 has the higher score; equal scores count half."""
    positive = labels > 0.5
    ones, zeros = int(positive.sum()), int((~positive).sum())
    if not ones or not zeros:
        return None
    _, places, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[places]
    return float((ranks[positive].sum() - ones * (ones + 1) / 2) / (ones * zeros))


def _trainer_scores(
    job_file: JobFile, checkpoint: Checkpoint, sample: Sample, scratch: str
) -> tuple[np.ndarray, np.ndarray]:
    asked, scores = os.path.join(scratch, "asked.json"), os.path.join(scratch, "trainer.npz")
    with open(asked, "w", encoding="utf-8") as file:
        json.dump(
            {
                "job": job_file.job.model_dump_json(),
                "path": job_file.path,
                "folder": job_file.folder,
                "checkpoint": checkpoint.folder,
                "samples": sample.path,
                "scores": scores,
            },
            file,
        )
    _run(["-m", "ps_cluster.export.trainer_scores", asked], "the trainer's scores")
    with np.load(scores) as found:
        return found["logit"], found["label"]


def _export_scores(model: str, sample: Sample, scratch: str) -> np.ndarray:
    scores = os.path.join(scratch, "export.orc")
    _run(["-m", "ps_cluster", "score", model, sample.path, "-o", scores], "the export's scores")
    return orc.ORCFile(scores).read(columns=["logit"])["logit"].to_numpy()


def _run(arguments: list[str], what: str) -> None:
    environment = {**os.environ, PARENT_VARIABLE: str(os.getpid()), "CUDA_VISIBLE_DEVICES": "-1"}
    environment.pop("TF_CONFIG", None)
    try:
        done = subprocess.run(
            [sys.executable, *arguments], env=environment, capture_output=True, text=True, timeout=_LIMIT_SECONDS
        )
    except subprocess.TimeoutExpired:
        raise RunError(f"the export was not published: {what} took more than {_LIMIT_SECONDS:.0f} s") from None
    if done.returncode:
        told = (done.stderr.strip() or f"status {done.returncode}").splitlines()
        error = UserError if done.returncode == 2 else RunError
        raise error(f"the export was not published: {what}: {told[-1]}")
