"""What follows from a job: tables, columns, inputs."""

from __future__ import annotations

from pathlib import Path

from data.columns import Column
from models.inputs import InputSpec
from ps_cluster.job.load import load_job
from ps_cluster.job.resolve import columns_of, inputs_of, tables_of, training_columns_of
from ps_cluster.job.table_schema import AdmitByCount
from tests.ps_cluster.job_texts import DEEPFM, LOCAL, REMOTE, STORE, write


def test_tables_are_the_declared_ones_and_the_features_own(tmp_path: Path) -> None:
    tables = tables_of(load_job(write(tmp_path, LOCAL)).job)
    assert {name: table.dim for name, table in tables.items()} == {"users": 16, "items": 16, "genres": 8}
    assert tables["users"].optimizer is not None and tables["users"].optimizer.name == "adagrad"
    assert tables["genres"].optimizer is None and tables["genres"].initializer.kind == "uniform"


def test_columns_are_the_label_and_every_features(tmp_path: Path) -> None:
    assert columns_of(load_job(write(tmp_path, LOCAL)).job) == [
        Column("label", "float32"),
        Column("user_id", "int64", -1),
        Column("item", "int64"),
        Column("history", "int64_list", "empty", 50),
        Column("genres", "int64_list"),
        Column("user_share", "float32", 0.0),
    ]


def test_a_column_of_two_features_is_read_once(tmp_path: Path) -> None:
    again = "features:\n  - name: visitor\n    kind: id\n    column: user_id\n    dim: 2\n"
    job = load_job(write(tmp_path, REMOTE.replace("features:\n", again))).job
    assert [column.name for column in columns_of(job)] == ["click", "user_id", "price_eur"]


def test_inputs_are_vectors_sequences_and_numbers(tmp_path: Path) -> None:
    assert inputs_of(load_job(write(tmp_path, LOCAL)).job) == [
        InputSpec("user_id", "vector", 16),
        InputSpec("item_id", "vector", 16),
        InputSpec("history", "sequence", 16, "item_id"),
        InputSpec("genres", "vector", 8),
        InputSpec("user_share", "dense", 1),
    ]


def test_without_a_ps_there_is_one_worker(tmp_path: Path) -> None:
    assert load_job(write(tmp_path, DEEPFM)).job.cluster.workers == 1


def test_with_ps_there_are_two_workers_unless_said_otherwise(tmp_path: Path) -> None:
    text = DEEPFM.replace("ps: 0", "ps: 1")
    assert load_job(write(tmp_path, text)).job.cluster.workers == 2


def test_a_table_of_several_widths_is_projected_to_its_output(tmp_path: Path) -> None:
    assert inputs_of(load_job(write(tmp_path, STORE)).job) == [
        InputSpec("user_id", "vector", 16, table="users", table_dim=32),
        InputSpec("item_id", "vector", 4),
        InputSpec("shop_id", "vector", 6),
    ]
    widest = STORE.replace("    output: 16\n", "")
    assert inputs_of(load_job(write(tmp_path, widest)).job)[0].dim == 32


def test_a_features_own_table_has_the_features_admission(tmp_path: Path) -> None:
    tables = tables_of(load_job(write(tmp_path, STORE)).job)
    assert tables["item_id"].admission == AdmitByCount(kind="exact", threshold=2)
    assert tables["shops"].admission.kind == "none"


def test_a_budget_may_have_a_unit(tmp_path: Path) -> None:
    for text, expected in {"512MiB": 2**29, "3 GiB": 3 * 2**30, "1024KiB": 2**20, "1048577": 2**20 + 1}.items():
        job = load_job(write(tmp_path, STORE.replace("512MiB", text))).job
        assert job.tables["users"].eviction.max_bytes == expected


def test_the_time_is_read_while_training_only(tmp_path: Path) -> None:
    job = load_job(write(tmp_path, STORE)).job
    assert training_columns_of(job)[-1] == Column("time", "int64")
    assert "time" not in [column.name for column in columns_of(job)]
    of_feature = load_job(write(tmp_path, STORE.replace("column: time", "column: shop_id"))).job
    assert training_columns_of(of_feature) == columns_of(of_feature)
