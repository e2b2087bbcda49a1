"""Which nodes pods go to."""

from __future__ import annotations

from ps_cluster.kubernetes.names import COMPONENT, NAME, selector
from ps_cluster.kubernetes.run import Object, Run

_HOST = "kubernetes.io/hostname"


def placement(run: Run, component: str) -> Object:
    """Fields of a pod: spread over the nodes, away from the same component of other jobs, where that is possible."""
    found: Object = {
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": _HOST,
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": selector(run.job.name, component)},
            }
        ],
        "affinity": {
            "podAntiAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "weight": 100,
                        "podAffinityTerm": {
                            "topologyKey": _HOST,
                            "labelSelector": {"matchLabels": {NAME: "ps-cluster", COMPONENT: component}},
                        },
                    }
                ]
            }
        },
    }
    return {**found, **nodes(run)}


def nodes(run: Run) -> Object:
    """Fields of a pod: nodes, taints and priority as the job file says."""
    settings = run.settings
    found: Object = {}
    if settings.node_selector:
        found["nodeSelector"] = dict(settings.node_selector)
    if settings.tolerations:
        found["tolerations"] = [_toleration(one.key, one.value, one.effect) for one in settings.tolerations]
    if settings.priority_class is not None:
        found["priorityClassName"] = settings.priority_class
    return found


def _toleration(key: str | None, value: str | None, effect: str | None) -> Object:
    told: Object = {"operator": "Exists" if value is None else "Equal"}
    told |= {name: one for name, one in (("key", key), ("value", value), ("effect", effect)) if one is not None}
    return told
