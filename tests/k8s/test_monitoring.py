"""Alerts and board ask for figures that the processes serve, and are put together as Prometheus and Grafana expect."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest
import yaml

from ps_cluster.watch import worker_figures
from ps_cluster.watch.process_figures import registry_of
from tests.k8s.manifests import K8S, kustomization

FOLDER = K8S / "monitoring"
RULES = yaml.safe_load((FOLDER / "alerts.yaml").read_text(encoding="utf-8"))["spec"]["groups"][0]["rules"]
BOARD = json.loads((FOLDER / "board.json").read_text(encoding="utf-8"))
FOREIGN = {"kube_pod_container_resource_limits"}  # of kube-state-metrics


def expressions() -> Iterator[str]:
    for rule in RULES:
        yield rule["expr"]
    for panel in BOARD["panels"]:
        for target in panel["targets"]:
            yield target["expr"]


def served() -> set[str]:
    """Names of all figures: those of a process, and those that a worker makes of what it is told."""
    registry = registry_of("clicks", "worker", 0)
    registry.register(worker_figures.WorkerFigures(0, whole_job=True))
    names = {sample.name for family in registry.collect() for sample in family.samples}
    names |= {family.name for family in registry.collect()}
    names |= {f"{family.name}_total" for family in registry.collect() if family.type == "counter"}
    told = (*worker_figures._STEP, *worker_figures._TEST)
    names |= {f"ps_cluster_{name}" for _, name, _ in told}
    names |= {f"ps_cluster_table_{name}" for _, name, _ in worker_figures._TABLE_GAUGES}
    names |= {f"ps_cluster_table_{name}_total" for _, name, _ in worker_figures._TABLE_COUNTERS}
    source = (K8S.parent / "ps_cluster" / "watch" / "worker_figures.py").read_text(encoding="utf-8")
    checkpoint = re.findall(r'\("(\w+)", "[^"]+", .*last', source)
    return (
        names
        | {f"ps_cluster_checkpoint_{name}" for name in checkpoint}
        | set(re.findall(r'"(ps_cluster_\w+)"', source))
    )


def test_every_figure_that_is_asked_for_is_served() -> None:
    known = served()
    for expression in expressions():
        plain = re.sub(r'"[^"]*"', "", expression)
        asked = set(re.findall(r"\b(?:ps_cluster|process|kube)_\w+", plain)) - FOREIGN
        assert asked and asked <= known, (expression, asked - known)


@pytest.mark.parametrize("expression", list(expressions()))
def test_brackets_of_an_expression_close(expression: str) -> None:
    depth: list[str] = []
    for letter in re.sub(r'"[^"]*"', "", expression):
        if letter in "([{":
            depth.append({"(": ")", "[": "]", "{": "}"}[letter])
        elif letter in ")]}":
            assert depth.pop() == letter
    assert not depth


def test_an_alert_says_what_is_wrong_and_what_to_do() -> None:
    names = [rule["alert"] for rule in RULES]
    assert len(set(names)) == len(names)
    for rule in RULES:
        assert set(rule) == {"alert", "expr", "for", "labels", "annotations"}
        assert rule["labels"]["severity"] in ("info", "warning", "critical")
        assert set(rule["annotations"]) == {"summary", "description"}


def test_panels_of_the_board_lie_side_by_side() -> None:
    places = [tuple(panel["gridPos"][side] for side in "xywh") for panel in BOARD["panels"]]
    assert len({place[:2] for place in places}) == len(places)
    assert all(x + width <= 24 for x, _, width, _ in places)
    assert len({panel["id"] for panel in BOARD["panels"]}) == len(places)


def test_the_kustomization_names_every_file() -> None:
    made_of = {name for one in kustomization("monitoring")["configMapGenerator"] for name in one["files"]}
    named = {*kustomization("monitoring")["resources"], *made_of, "kustomization.yaml"}
    assert named == {path.name for path in FOLDER.iterdir()}
