"""The learning rates' factor at a step: linear warm-up, then decay; and where a resumed training stands in that."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ps_cluster.job.schema import Schedule


@dataclass(frozen=True)
class Course:
    """Which step of the schedule a step of training is: after `step` steps `position` of them have passed, and each
    further one counts `pace`.

    total: steps of the whole training as it was planned at its start. While nothing changes, the two are the same.
    """

    total: int
    step: int = 0
    position: float = 0.0
    pace: float = 1.0

    def at(self, step: int) -> float:
        """The schedule's step at `step`."""
        return self.position + (step - self.step) * self.pace

    def stretched(self, schedule: Schedule, step: int, steps_left: int) -> Course:
        """From `step` on, for a training that then has another number of steps left than was planned.

        A decay that ends with training does so still, without a jump: each step left counts as many of the schedule's
        as it takes. A schedule in numbers of steps (`decay_steps`, or without decay) goes on step by step.
        """
        position = self.at(step)
        if schedule.decay == "none" or schedule.decay_steps is not None:
            return Course(self.total, step, position)
        return Course(self.total, step, position, max(self.total - position, 0.0) / max(steps_left, 1))


def rate_factor(schedule: Schedule, step: float, total_steps: int) -> float:
    """The factor on all learning rates at `step` (counted from 1, of `Course.at`) of `total_steps`.

    Warm-up rises linearly and reaches 1 at step `warmup_steps`. Decay then goes from 1 to `final`, which it reaches at
    step `decay_steps` (by default the last of training), and stays there: cosine as in SGDR (arXiv 1608.03983, one
    period), exponential as `final ** progress`, or linear.
    """
    if step <= schedule.warmup_steps:
        return step / schedule.warmup_steps
    if schedule.decay == "none":
        return 1.0
    length = (schedule.decay_steps or total_steps) - schedule.warmup_steps
    progress = min((step - schedule.warmup_steps) / max(length, 1), 1.0)
    if schedule.decay == "cosine":
        return schedule.final + (1 - schedule.final) * 0.5 * (1 + math.cos(math.pi * progress))
    if schedule.decay == "exponential":
        return schedule.final**progress
    return 1.0 + (schedule.final - 1.0) * progress
