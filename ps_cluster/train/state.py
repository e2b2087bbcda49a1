"""Where a training stands between two steps, beside its weights and tables: what a checkpoint keeps of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ps_cluster.checkpoint.dense import TRAINING, training_arrays
from ps_cluster.checkpoint.finding import Checkpoint
from ps_cluster.checkpoint.manifest import MANIFEST
from ps_cluster.checkpoint.storage import join
from ps_cluster.errors import UserError
from ps_cluster.train.ledger import Ledger
from ps_cluster.train.schedule import Course

_WINDOW, _CALIBRATION, _EXPERTS, _FOLLOWED = (
    TRAINING + name for name in ("window", "calibration", "experts", "followed")
)


@dataclass(frozen=True)
class TrainingState:
    """After `step` steps; figures are of all workers together.

    rows: trained so far, those of each epoch once. rows_retrained: that were trained again, as a checkpoint before them
    was gone back to. restarts: how often training went on from a checkpoint. max_steps: of the job. reading: of
    `ps_cluster.train.work.reading_of`. counts: of the batches so far, rows lost, then nulls filled of each column.
    losses: (mean loss, rows) of each step of the window that is open. window: `WindowAuc.counts` of that window;
    calibration: `WindowCalibration.sums` of it. experts: float32 `[layers, tokens, experts]`, of the window's
    `experts_rows` rows in how many each gate was above 0; None without experts. followed: `data.follow.name_hash` of
    each file that was seen in the folder, int64; None where none is followed. newest_event: time of the newest row
    trained, in seconds since 1970, in such a training with `data.time`.
    """

    step: int
    rows: int
    rows_retrained: int
    restarts: int
    course: Course
    max_steps: int | None
    reading: dict[str, Any]
    ledger: Ledger
    counts: tuple[int, ...]
    losses: tuple[tuple[float, int], ...]
    window: np.ndarray
    calibration: np.ndarray
    experts: np.ndarray | None = None
    experts_rows: int = 0
    followed: np.ndarray | None = None
    newest_event: float | None = None

    def to_json(self) -> dict[str, Any]:
        """All but the arrays, as plain values."""
        return {
            "step": self.step,
            "rows": self.rows,
            "rows_retrained": self.rows_retrained,
            "restarts": self.restarts,
            "course": asdict(self.course),
            "max_steps": self.max_steps,
            "reading": self.reading,
            "ledger": self.ledger.to_json(),
            "counts": list(self.counts),
            "losses": [list(one) for one in self.losses],
            "experts_rows": self.experts_rows,
            "newest_event": self.newest_event,
        }

    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays, by name."""
        arrays = {_WINDOW: self.window, _CALIBRATION: self.calibration}
        if self.experts is not None:
            arrays[_EXPERTS] = self.experts
        if self.followed is not None:
            arrays[_FOLLOWED] = self.followed
        return arrays

    @staticmethod
    def of(content: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> TrainingState:
        """The inverse of `to_json` and `arrays`."""
        return TrainingState(
            **{
                **content,
                "course": Course(**content["course"]),
                "ledger": Ledger.from_json(content["ledger"]),
                "counts": tuple(content["counts"]),
                "losses": tuple((loss, rows) for loss, rows in content["losses"]),
            },
            window=arrays[_WINDOW],
            calibration=arrays[_CALIBRATION],
            experts=arrays.get(_EXPERTS),
            followed=arrays.get(_FOLLOWED),
        )


def state_in(checkpoint: Checkpoint) -> TrainingState:
    """Where training stood when the checkpoint was written.

    Raises:
      UserError: it does not say so.
    """
    if checkpoint.manifest.training is None:
        raise UserError(
            f"{join(checkpoint.folder, MANIFEST)}: expected where training stood, found nothing of it: an earlier "
            "release, or another program, wrote this checkpoint, and training cannot go on from it "
            "(`checkpoint.warm_start` takes its tables)"
        )
    return TrainingState.of(checkpoint.manifest.training, training_arrays(checkpoint))
