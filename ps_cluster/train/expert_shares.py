"""How much a model's experts are used, over a window of steps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from models.sparsity import SparsityControl


@dataclass(frozen=True)
class ExpertShares:
    """Shares are of rows in which a gate was above 0.

    Attributes:
        active: Of all gates.
        target: What `active` is steered to.
        penalty: λ, the weight of the mean gate in the loss, after the window's last step.
        layers: Of each layer, as `[least, mean, most]`: the mean and its least and most used expert of any token.
        idle: Experts (of a token and layer) that were active in no row.
        experts: Experts altogether.
    """

    active: float
    target: float
    penalty: float
    layers: list[list[float]]
    idle: int
    experts: int


class ExpertWindow:
    """Adds up `TrainingCall.active` of all workers."""

    def __init__(self, control: SparsityControl):
        self._control = control
        self._active: np.ndarray | float = 0.0
        self._rows = 0

    def add(self, active: np.ndarray, rows: int) -> None:
        """A step. active: float `[layers, tokens, experts]`."""
        self._active = self._active + active
        self._rows += rows

    def restore(self, active: np.ndarray, rows: int) -> None:
        """The window is one that had begun, with these sums."""
        self._active, self._rows = active, rows

    @property
    def sums(self) -> tuple[np.ndarray | None, int]:
        """What `restore` takes; None while the window is empty."""
        return (self._active if isinstance(self._active, np.ndarray) else None), self._rows

    def shares(self) -> ExpertShares:
        """Of the window so far; at least one row."""
        shares = np.asarray(self._active) / max(self._rows, 1)
        return ExpertShares(
            active=float(shares.mean()),
            target=self._control.target,
            penalty=float(self._control.strength.numpy()),
            layers=[[float(layer.min()), float(layer.mean()), float(layer.max())] for layer in shares],
            idle=int((shares == 0).sum()),
            experts=shares.size,
        )

    def reset(self) -> None:
        """A new window."""
        self._active = 0.0
        self._rows = 0
