"""The learning rates' factor at a step: linear warm-up, then decay."""

from __future__ import annotations

import math

from ps_cluster.job.schema import Schedule


def rate_factor(schedule: Schedule, step: int, total_steps: int) -> float:
    """The factor on all learning rates at `step` (counted from 1) of `total_steps`.

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
