"""Tables of one row layout travel together."""

from __future__ import annotations

import pytest

from ops.embedding import Admission, Eviction, table_salt
from ps_cluster.embedding.groups import FeatureUse, optimizer_settings, plan_groups
from ps_cluster.job.schema import IdFeature, IdListFeature
from ps_cluster.job.table_schema import (
    AdmitByBloom,
    Initializer,
    SparseAdagrad,
    SparseAdam,
    SparseAdamW,
    SparseFtrl,
    SparseMomentum,
    SparseOptimizer,
    SparseRmsProp,
    SparseSgd,
    Table,
    Tier,
)
from ps_cluster.job.table_schema import Eviction as JobEviction

ADAM = SparseAdam(name="adam", learning_rate=0.01, beta_1=0.8, beta_2=0.99, epsilon=1e-6)
ADAGRAD = SparseAdagrad(name="adagrad", learning_rate=0.1, initial_accumulator=0.2, epsilon=1e-5)


def id_of(name: str, table: str | None = None) -> IdFeature:
    return IdFeature(name=name, kind="id", table=table, dim=None if table else 4)


def list_of(name: str, table: str, pooling: str = "mean") -> IdListFeature:
    return IdListFeature(name=name, kind="id_list", table=table, pooling=pooling)


def test_tables_are_grouped_by_width_and_optimiser_in_their_order() -> None:
    tables = {
        "a": Table(dim=4),
        "b": Table(dim=8),
        "c": Table(dim=4, optimizer=ADAM),
        "d": Table(dim=4, optimizer=ADAGRAD),
        "e": Table(dim=8, optimizer=ADAGRAD),
    }
    groups = plan_groups(tables, [id_of(f"f_{name}", name) for name in tables], ADAGRAD, seed=3)
    assert [group.tables for group in groups] == [("a", "d"), ("b", "e"), ("c",)]
    assert [(group.layout.dim, group.layout.optimizer) for group in groups] == [
        (4, "adagrad"),
        (8, "adagrad"),
        (4, "adam"),
    ]
    assert [group.learning_rate for group in groups] == [0.1, 0.1, 0.01]
    assert [group.layout.row_floats for group in groups] == [10, 18, 14]
    assert len({group.name for group in groups}) == 3


def test_tables_that_differ_in_a_setting_are_apart() -> None:
    other = ADAM.model_copy(update={"learning_rate": 0.02})
    tables = {"a": Table(dim=4, optimizer=ADAM), "b": Table(dim=4, optimizer=other)}
    assert len(plan_groups(tables, [id_of("x", "a"), id_of("y", "b")], ADAM, 0)) == 2


@pytest.mark.parametrize(
    "other",
    [
        Table(tiers=[Tier(dim=2, min_frequency=0), Tier(dim=4, min_frequency=9)]),
        Table(dim=4, values="bfloat16"),
        Table(dim=4, engine="tfra_cuckoo"),
    ],
)
def test_tables_whose_rows_are_not_alike_are_apart(other: Table) -> None:
    groups = plan_groups({"a": Table(dim=4), "b": other}, [id_of("x", "a"), id_of("y", "b")], ADAM, 0)
    assert [group.tables for group in groups] == [("a",), ("b",)]
    assert [group.layout.dim for group in groups] == [4, 4]


def test_admission_and_eviction_are_each_tables_own() -> None:
    bloom = AdmitByBloom(kind="bloom", threshold=3, capacity=1000, error=0.01, cold_value=0.5)
    eviction = JobEviction(max_age_steps=7, max_bytes=2**20)
    tables = {"a": Table(dim=4, admission=bloom), "b": Table(dim=4, eviction=eviction)}
    (group,) = plan_groups(tables, [id_of("x", "a"), id_of("y", "b")], ADAM, 0)
    assert group.layout.admissions == (
        Admission("bloom", threshold=3, capacity=1000, error=0.01, cold_value=0.5),
        Admission(),
    )
    assert group.layout.evictions == (Eviction(), Eviction(max_age_steps=7, max_bytes=2**20))


def test_each_table_keeps_its_own_salt_and_initial_values() -> None:
    tables = {
        "a": Table(dim=4, initializer=Initializer(kind="normal", scale=0.5)),
        "b": Table(dim=4, initializer=Initializer(kind="zeros")),
    }
    (group,) = plan_groups(tables, [id_of("x", "a"), id_of("y", "b")], ADAM, seed=9)
    assert group.layout.salts == (table_salt("a"), table_salt("b"))
    assert group.layout.initial_kinds == (2, 0)
    assert group.layout.initial_scales[0] == 0.5
    assert group.layout.seed == 9


def test_features_are_listed_with_the_table_they_use() -> None:
    tables = {"unused": Table(dim=4), "item": Table(dim=4), "user": Table(dim=4)}
    features = [id_of("user"), list_of("history", "item", "none"), id_of("shown", "item"), list_of("liked", "item")]
    (group,) = plan_groups(tables, features, ADAM, 0)
    assert group.tables == ("item", "user")
    assert group.features == (
        FeatureUse("user", 1, None),
        FeatureUse("history", 0, "none"),
        FeatureUse("shown", 0, None),
        FeatureUse("liked", 0, "mean"),
    )


def test_without_features_there_is_no_group() -> None:
    assert plan_groups({"a": Table(dim=4)}, [], ADAM, 0) == []


@pytest.mark.parametrize(
    ("optimizer", "settings"),
    [
        (SparseSgd(name="sgd", learning_rate=1.0, clip_norm=2.0), (2.0,)),
        (SparseMomentum(name="momentum", learning_rate=1.0, momentum=0.8, nesterov=True), (0.8, 1.0, 0.0)),
        (ADAGRAD.model_copy(update={"decay": 0.5, "decay_steps": 9}), (0.2, 1e-5, 0.5, 9.0, 0.0)),
        (ADAM, (0.8, 0.99, 1e-6, 0.0)),
        (
            SparseAdamW(name="adamw", learning_rate=1.0, beta_1=0.8, beta_2=0.99, epsilon=1e-6, weight_decay=0.1),
            (0.8, 0.99, 1e-6, 0.1, 0.0),
        ),
        (SparseRmsProp(name="rmsprop", learning_rate=1.0, rho=0.8, momentum=0.5, epsilon=1e-6), (0.8, 0.5, 1e-6, 0.0)),
        (
            SparseFtrl(
                name="ftrl",
                learning_rate=1.0,
                learning_rate_power=-0.4,
                initial_accumulator=0.2,
                l1=0.3,
                l2=0.4,
                l2_shrinkage=0.5,
                beta=0.6,
            ),
            (-0.4, 0.2, 0.3, 0.4, 0.5, 0.6, 0.0),
        ),
    ],
)
def test_settings_are_in_the_order_of_the_op(optimizer: SparseOptimizer, settings: tuple[float, ...]) -> None:
    assert optimizer_settings(optimizer) == settings
