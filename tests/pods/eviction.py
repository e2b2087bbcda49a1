"""Whether a pod may be evicted: what the PodDisruptionBudgets say."""

from __future__ import annotations

from collections.abc import Iterable

from tests.pods.objects import Budget
from tests.pods.pods import Pod


def refused(pod: Pod, ready: Iterable[Pod], expected: int, budgets: Iterable[Budget]) -> str | None:
    """Which budget refuses, in words; None when the pod may be evicted.

    ready: pods that are ready. expected: how many of the pod's kind there should be. A pod that is not ready may
    always be evicted.
    """
    others = list(ready)
    if pod not in others:
        return None
    for budget in budgets:
        namespace = pod.workload.namespace
        if budget.namespace != namespace or not budget.selector.selects(pod.labels):
            continue
        healthy = sum(one.workload.namespace == namespace and budget.selector.selects(one.labels) for one in others)
        if budget.min_available is not None and healthy - 1 < budget.min_available:
            return f"budget {budget.name}: {healthy} pods are ready, {budget.min_available} have to stay"
        if budget.max_unavailable is not None and expected - healthy + 1 > budget.max_unavailable:
            return f"budget {budget.name}: {expected - healthy} are missing, {budget.max_unavailable} may be"
    return None
