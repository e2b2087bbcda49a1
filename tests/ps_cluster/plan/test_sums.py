"""A plan's sums are those that people do by hand, and every formula gives its value."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from ps_cluster.job.load import load_job
from ps_cluster.plan import constants
from ps_cluster.plan.facts import facts_of
from ps_cluster.plan.figure import FUNCTIONS, Figure, evaluate
from ps_cluster.plan.plan import Plan, plan_of
from ps_cluster.plan.types import Dense, Facts

DENSE = Dense(parameters=1000, slots=2, flops_per_row=6000.0, input_width=64)


def facts_of_ids(folder: Path, ids: int, dim: int, **changes) -> Facts:
    """A job of one table, of which only the number of ids is known."""
    job = {
        "name": "sums",
        "data": {"train": ["absent.orc"], "label": "label"},
        "features": [{"name": "user", "kind": "id", "table": "users"}],
        "tables": {"users": {"dim": dim}},
        "model": {"name": "deepfm", "fm_dim": 8, "hidden": [8]},
        "optimizers": {
            "sparse": {"name": "sgd", "learning_rate": 0.1},
            "dense": {"name": "adam", "learning_rate": 0.1},
        },
        "training": {"batch_size": 64},
        "output": "out",
        **changes,
    }
    path = folder / "job.yaml"
    path.write_text(yaml.safe_dump(job))
    return facts_of(load_job(path), None, constants.defaults(), ids={"users": ids}, dense=DENSE)


@pytest.mark.parametrize(
    ("ids", "dim", "ps", "name", "gigabytes"),
    [
        pytest.param(10**8, 64, 1, "embedding_bytes", 25.6, id="plan of 1e8 ids of 64 float32 is 25.6 GB"),
        pytest.param(10**8, 128, 1, "embedding_bytes", 51.2, id="plan of 1e8 ids of 128 float32 is 51.2 GB"),
        pytest.param(3 * 10**8, 100, 8, "embedding_bytes_per_ps", 15.0, id="plan of 120 GB over 8 PS is 15 GB each"),
    ],
)
def test_plan_does_the_sums_that_are_done_by_hand(
    tmp_path: Path, ids: int, dim: int, ps: int, name: str, gigabytes: float
) -> None:
    plan = plan_of(facts_of_ids(tmp_path, ids, dim), ps)
    assert plan.server[name].value == gigabytes * 1e9
    # The table is more than its embeddings: keys, counts, index, room that is free.
    assert plan.server["memory_bytes"].value > plan.server["embedding_bytes_per_ps"].value


def test_an_all_reduce_sends_twice_the_weights_but_for_a_share(tmp_path: Path) -> None:
    plan = plan_of(facts_of_ids(tmp_path, 10, 4, cluster={"ps": 2, "workers": 4}))
    assert plan.network["all_reduce_bytes"].value == 2 * 3 * (4 * DENSE.parameters) / 4


def test_the_least_number_of_ps_holds_the_horizon_and_one_less_does_not(tmp_path: Path) -> None:
    limit = 4 * 2**30
    facts = facts_of_ids(tmp_path, 10**8, 64, planning={"ps_memory": limit, "margin": 1.3})
    plan = plan_of(facts)
    assert plan.server["memory_request_bytes"].value <= limit
    assert plan_of(facts, plan.ps - 1).server["memory_request_bytes"].value > limit
    assert any(f"{plan.ps} PS of 4 GiB hold the horizon" in verdict for verdict in plan.verdicts)


@pytest.mark.parametrize(("memory", "word"), [(2**37, "enough"), (2**32, "not enough")])
def test_one_machine_is_said_to_be_enough_when_it_is(tmp_path: Path, memory: int, word: str) -> None:
    plan = plan_of(facts_of_ids(tmp_path, 10**7, 64, planning={"machine_memory": memory}))
    assert any(verdict.startswith(f"one machine is {word}: ") for verdict in plan.verdicts)


def test_prices_make_a_cost(tmp_path: Path) -> None:
    prices = {"gib_hour": 0.01, "core_hour": 0.05, "currency": "EUR"}
    plan = plan_of(facts_of_ids(tmp_path, 10**6, 8, planning={"prices": prices, "ps_cores": 3, "worker_cores": 4}))
    memory = 2 * plan.server["memory_request_bytes"].value + 2 * plan.worker["memory_request_bytes"].value
    assert plan.cost["per_hour"].value == pytest.approx(memory / 2**30 * 0.01 + (2 * 3 + 2 * 4) * 0.05)
    assert plan.cost["per_hour"].unit == "EUR/h"
    assert not plan_of(facts_of_ids(tmp_path, 10**6, 8)).cost


def figures(plan: Plan) -> Iterator[tuple[str, Figure]]:
    for name, section in plan.tables.items():
        yield from ((f"{name}.{key}", one) for key, one in section.items())
    for section in (plan.server, plan.worker, plan.network, plan.checkpoint, plan.time, plan.cost):
        yield from section.items()


@pytest.mark.parametrize("engine", ["native", "tfra_cuckoo"])
def test_every_formula_gives_its_value_for_its_inputs(tmp_path: Path, engine: str) -> None:
    tables = {"users": {"dim": 16, "engine": engine}}
    prices = {"gib_hour": 1.0}
    plan = plan_of(facts_of_ids(tmp_path, 10**6, 16, tables=tables, planning={"prices": prices}))
    seen = 0
    for name, one in figures(plan):
        # By Python itself, which the planner does not use.
        value = eval(one.formula, {"__builtins__": {}}, {**FUNCTIONS, **one.inputs})
        assert math.isclose(value, one.value, rel_tol=1e-12), name
        seen += 1
    assert seen > 35


@pytest.mark.parametrize("formula", ["__import__('os')", "a.b", "[1][0]", "open(a)", "lambda: 1", "a if a else b"])
def test_a_formula_is_arithmetic_only(formula: str) -> None:
    with pytest.raises(ValueError, match="formula: expected numbers"):
        evaluate(formula, {"a": 1.0, "b": 2.0})
