"""A job trained by real clusters: the same losses every time, the same scores everywhere, every row once an epoch."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ps_cluster.checkpoint.finding import checkpoint_at
from ps_cluster.checkpoint.rows import rows_of
from tests.data import orc_files
from tests.ps_cluster import small_cluster
from tests.ps_cluster.small_cluster import Run, job

SERVED = Path(__file__).with_name("plain_serving.py")


# --- One worker, two PS; the same job twice, at the same time --------------------------------------------------------


@pytest.fixture(scope="module")
def twins(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Run, Run]]:
    """Two runs of one job that went on at the same time, in two folders; the first wrote a report."""
    runs = []
    try:
        for name in ("first run", "second run"):
            folder = tmp_path_factory.mktemp(name)
            small_cluster.write_samples(folder)
            runs.append(small_cluster.start(folder, job(), "--report", str(folder / "report.json")))
        for run in runs:
            run.wait()
            assert run.status == 0, run.err + run.logs()
        yield runs[0], runs[1]
    finally:
        for run in runs:
            run.kill_rest()


@pytest.fixture(scope="module")
def report(twins: tuple[Run, Run]) -> dict[str, Any]:
    """The first run's report."""
    return json.loads((twins[0].folder / "report.json").read_text())


@pytest.fixture(scope="module")
def served(twins: tuple[Run, Run]) -> dict[str, np.ndarray]:
    """What the exported model gives for the test rows in plain TensorFlow."""
    return serve(twins[0], twins[0].output / "export" / "1")


def test_two_runs_at_once_with_one_seed_have_the_same_losses_bit_for_bit(twins: tuple[Run, Run]) -> None:
    first, second = (run.losses() for run in twins)
    assert len(first) == 20
    assert first == second


def test_two_runs_with_one_seed_have_the_same_rows_and_weights_bit_for_bit(twins: tuple[Run, Run]) -> None:
    first, second = (tables_of(run) for run in twins)
    assert first.keys() == second.keys()
    for table in first:
        assert_same_rows(first[table], second[table], tolerance=0)
    weights, others = (dense_of(run) for run in twins)
    assert weights.keys() == others.keys()
    assert all(np.array_equal(weights[name], others[name]) for name in weights)


def test_the_planted_signal_is_learnt(twins: tuple[Run, Run]) -> None:
    losses = twins[0].losses()
    assert np.mean(losses[-5:]) < np.mean(losses[:5]) - 0.05
    assert twins[0].events("evaluation")[0]["auc"] > 0.65


def test_tables_hold_one_row_for_each_id_of_the_training_rows(twins: tuple[Run, Run]) -> None:
    rows = orc_files.read(str(twins[0].folder / "train.orc"))
    expected = {
        "user": {row[0] for row in rows},
        "items": {row[1] for row in rows} | {item for row in rows for item in row[4]},
        "shop": {-1 if row[2] is None else row[2] for row in rows},
        "tags": {tag for row in rows for tag in row[3] or []},
    }
    assert {name: set(table) for name, table in tables_of(twins[0]).items()} == expected


def test_finished_runs_leave_no_process_and_no_temporary_file(twins: tuple[Run, Run]) -> None:
    assert [run.processes() for run in twins] == [{}, {}]
    assert [path for run in twins for path in (run.folder / "tmp").iterdir()] == []
    assert [run.output / "scratch" for run in twins if (run.output / "scratch").exists()] == []


@pytest.mark.parametrize("ps", [0, 3, pytest.param(1, marks=pytest.mark.slow)])
def test_the_number_of_ps_changes_no_loss(twins: tuple[Run, Run], tmp_path: Path, ps: int) -> None:
    small_cluster.write_samples(tmp_path)
    run = small_cluster.train(tmp_path, job(cluster__ps=ps))
    assert run.status == 0, run.err + run.logs()
    np.testing.assert_allclose(run.losses(), twins[0].losses(), rtol=0, atol=1e-6)
    expected = tables_of(twins[0])
    for name, table in tables_of(run).items():
        assert_same_rows(table, expected[name], tolerance=1e-5)
    assert run.processes() == {}


def test_the_served_model_scores_test_rows_as_the_trainer_does(
    twins: tuple[Run, Run], served: dict[str, np.ndarray], tmp_path: Path
) -> None:
    outputs = tmp_path / "scores.npz"
    subprocess.run(
        [sys.executable, "-m", "tests.ps_cluster.trainer_scores", str(twins[0].folder / "job.yaml"), str(outputs)],
        env=small_cluster.environment(twins[0].folder),
        check=True,
        timeout=small_cluster.PATIENCE_SECONDS,
    )
    trainer = np.load(outputs)
    np.testing.assert_allclose(served["logit"], trainer["logit"], rtol=0, atol=1e-5)
    np.testing.assert_allclose(served["probability"], 1 / (1 + np.exp(-trainer["logit"])), rtol=0, atol=1e-5)
    assert trainer["label"].tolist() == labels_of(twins[0])


def test_test_figures_are_those_of_the_served_scores(
    twins: tuple[Run, Run], served: dict[str, np.ndarray], report: dict[str, Any]
) -> None:
    auc, log_loss = brute_force(served["logit"], labels_of(twins[0]))
    told = twins[0].events("evaluation")[0]
    for figures in (told, report):
        assert figures["auc"] == pytest.approx(auc, abs=1e-4)  # a score that moves by 1e-5 may pass another one
        assert figures["log_loss"] == pytest.approx(log_loss, abs=1e-5)
    assert told["rows"] == report["test_rows"] == len(served["logit"])


def test_evaluate_prints_the_figures_of_the_run(twins: tuple[Run, Run]) -> None:
    done = small_cluster.command(twins[0].folder, "evaluate", "job.yaml")
    assert done.returncode == 0, done.stderr
    printed, told = json.loads(done.stdout[done.stdout.index("{") :]), twins[0].events("evaluation")[0]
    assert printed["rows"] == told["rows"]
    for name in ("auc", "log_loss", "calibration"):
        assert printed[name] == pytest.approx(told[name], abs=1e-6)


def test_export_adds_a_version_that_serves_the_same(twins: tuple[Run, Run], served: dict[str, np.ndarray]) -> None:
    done = small_cluster.command(twins[0].folder, "export", "job.yaml")
    assert done.returncode == 0, done.stderr
    version = twins[0].output / "export" / "2"
    assert done.stdout.splitlines()[-1] == str(version)
    assert sorted(entry.name for entry in version.parent.iterdir()) == ["1", "2"]
    again = serve(twins[0], version)
    assert np.array_equal(again["logit"], served["logit"])


def test_the_report_tells_the_run(twins: tuple[Run, Run], report: dict[str, Any]) -> None:
    run = twins[0]
    weights = dense_of(run)
    assert report["format_version"] == 1
    assert (report["job"], report["seed"], report["ps"], report["workers"]) == ("clicks", 5, 2, 1)
    assert (report["batch_size"], report["epochs"], report["steps"], report["rows"]) == (32, 2, 20, 640)
    assert report["loss"] == run.losses()[-1]
    assert report["samples_per_second"] > 0
    assert report["flops_per_row"] > 3 * 2 * report["dense_parameters"] / 2  # most weights meet every row
    assert 0 < report["mfu"] < 1
    assert report["mfu"] == pytest.approx(report["samples_per_second"] * report["flops_per_row"] / report["peak_flops"])
    assert report["block"].startswith("rankmixer: ")
    assert 0 < report["seconds"] < small_cluster.PATIENCE_SECONDS
    assert report["dense_parameters"] == sum(
        weight.size for name, weight in weights.items() if name.startswith("model/")
    )
    # key, embedding, optimiser's slots, frequency, step of the last update
    bytes_of = {"user": 8 + 4 * (3 * 4 + 2), "items": 8 + 4 * (3 * 4 + 2), "shop": 8 + 4 * (3 * 6 + 2)}
    bytes_of["tags"] = 8 + 4 * (2 * 6 + 2)
    tables = {table["name"]: table for table in report["tables"]}
    for name, rows in tables_of(run).items():
        assert (tables[name]["rows"], tables[name]["bytes"]) == (len(rows), len(rows) * bytes_of[name])
    assert report["table_bytes"] == sum(table["bytes"] for table in report["tables"])
    assert report["saved_model"] == str(run.output / "export" / "1")
    assert report["versions"]["tensorflow"] == "2.16.2"


def test_tensorboard_shows_the_losses(twins: tuple[Run, Run]) -> None:
    from tensorboard.backend.event_processing.event_accumulator import TENSORS, EventAccumulator
    from tensorboard.util.tensor_util import make_ndarray

    board = EventAccumulator(str(twins[0].output / "tensorboard"), size_guidance={TENSORS: 0})
    board.Reload()
    shown = {event.step: make_ndarray(event.tensor_proto).item() for event in board.Tensors("train/loss")}
    losses = twins[0].losses()
    assert [shown[step] for step in sorted(shown)] == pytest.approx(losses)
    assert "test/auc" in board.Tags()["tensors"]


def test_an_output_folder_with_a_run_is_not_overwritten_unasked(twins: tuple[Run, Run]) -> None:
    before = twins[1].events("step")
    run = small_cluster.train(twins[1].folder, job())
    assert run.status == 2
    assert "--overwrite" in run.err
    assert twins[1].events("step") == before


# --- Several workers -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def uneven(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Three workers share 32 rows in batches of 10, so 2 + 2 + 1 batches an epoch; two have one test row each."""
    folder = tmp_path_factory.mktemp("uneven")
    run = small_cluster.train(folder, uneven_job(folder))
    assert run.status == 0, run.err + run.logs()
    return run


def uneven_job(folder: Path) -> dict[str, Any]:
    small_cluster.write_samples(folder, stripes=(20, 12), test=(2,))
    return job(training__batch_size=10, cluster__workers=3)


def test_workers_with_unequal_numbers_of_batches_finish_together(uneven: Run) -> None:
    assert uneven.events("step")[-1]["rows"] == 2 * 32
    assert uneven.events("start")[0]["workers"] == 3
    assert len(uneven.losses()) == 4
    assert all(math.isfinite(loss) for loss in uneven.losses())
    assert uneven.events("evaluation")[0]["rows"] == 2
    assert uneven.processes() == {}


@pytest.mark.slow
def test_three_workers_with_one_seed_have_the_same_losses_bit_for_bit(uneven: Run, tmp_path: Path) -> None:
    again = small_cluster.train(tmp_path, uneven_job(tmp_path))
    assert again.losses() == uneven.losses()
    first, second = tables_of(uneven), tables_of(again)
    for table in first:
        assert_same_rows(first[table], second[table], tolerance=0)


@pytest.mark.slow
def test_a_worker_without_any_row_finishes_with_the_others(tmp_path: Path) -> None:
    small_cluster.write_samples(tmp_path, stripes=(1, 1), test=(1,))
    run = small_cluster.train(tmp_path, job(cluster__workers=3, cluster__ps=1))
    assert run.status == 0, run.err + run.logs()
    assert run.events("step")[-1]["rows"] == 2 * 2
    assert run.events("evaluation")[0]["rows"] == 1
    assert run.events("evaluation")[0]["auc"] is None
    assert run.processes() == {}


@pytest.mark.slow
def test_asynchronous_workers_train_every_row_and_end(tmp_path: Path) -> None:
    small_cluster.write_samples(tmp_path)
    run = small_cluster.train(tmp_path, job(training__sparse_updates="asynchronous", cluster__workers=2))
    assert run.status == 0, run.err + run.logs()
    assert run.events("step")[-1]["rows"] == 2 * 320
    assert np.mean(run.losses()[-3:]) < run.losses()[0]
    assert run.events("evaluation")[0]["rows"] == 130


# --- Every model, every optimiser ------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "sparse", "dense"),
    [
        (
            {"name": "deepfm", "hidden": [16], "attention": "din"},
            {"name": "adagrad", "learning_rate": 0.1},
            {"name": "adamw", "learning_rate": 0.01, "weight_decay": 0.01},
        ),
        (
            {"name": "dcn", "hidden": [16], "cross_rank": 4},
            {"name": "sgd", "learning_rate": 0.5},
            {"name": "sgd", "learning_rate": 0.1},
        ),
        (
            {"name": "dcn", "hidden": [16]},
            {"name": "adam", "learning_rate": 0.02},
            {"name": "adagrad", "learning_rate": 0.05},
        ),
    ],
    ids=["deepfm-adagrad-adamw", "dcn-sgd-sgd", "dcn-adam-adagrad"],
)
def test_models_and_optimisers_learn_and_serve(
    tmp_path: Path, model: dict[str, Any], sparse: dict[str, Any], dense: dict[str, Any]
) -> None:
    small_cluster.write_samples(tmp_path)
    run = small_cluster.train(
        tmp_path, job(model=model, optimizers={"sparse": sparse, "dense": dense}, training__epochs=4, cluster__ps=0)
    )
    assert run.status == 0, run.err + run.logs()
    losses = run.losses()
    assert np.mean(losses[-5:]) < np.mean(losses[:5]) - 0.02
    scores = serve(run, run.output / "export" / "1")
    assert run.events("evaluation")[0]["auc"] == pytest.approx(
        brute_force(scores["logit"], labels_of(run))[0], abs=1e-4
    )


# --- What the tests look at ------------------------------------------------------------------------------------------


def checkpoint_of(run: Run) -> Path:
    (folder,) = (run.output / "checkpoint").glob("step-*")
    return folder


def tables_of(run: Run) -> dict[str, dict[int, np.ndarray]]:
    """Whole rows, optimiser state included, by table and key, over all PS."""
    tables: dict[str, dict[int, np.ndarray]] = {}
    checkpoint = checkpoint_at(str(checkpoint_of(run)))
    for name in checkpoint.tables():
        table = tables.setdefault(name, {})
        for rows in rows_of(checkpoint, name):
            assert not table.keys() & set(rows.keys.tolist()), "a key on two PS"
            whole = np.concatenate([rows.embeddings, rows.slots.reshape(len(rows.keys), -1)], axis=1)
            table.update(zip(rows.keys.tolist(), whole, strict=True))
    return tables


def dense_of(run: Run) -> dict[str, np.ndarray]:
    return dict(np.load(checkpoint_of(run) / "dense.npz"))


def assert_same_rows(rows: dict[int, np.ndarray], others: dict[int, np.ndarray], tolerance: float) -> None:
    assert rows.keys() == others.keys()
    for key, row in rows.items():
        np.testing.assert_allclose(row, others[key], rtol=0, atol=tolerance)


def labels_of(run: Run) -> list[int]:
    return [row[-1] for row in orc_files.read(str(run.folder / "test.orc"))]


def serve(run: Run, model: Path) -> dict[str, np.ndarray]:
    """The outputs of an exported model for the test rows, from a process with nothing but TensorFlow."""
    users, items, shops, tags, liked, prices, ages, _ = zip(*orc_files.read(str(run.folder / "test.orc")), strict=True)
    inputs: dict[str, np.ndarray] = {
        "user": np.array(users, np.int64),
        "item": np.array(items, np.int64),
        "shop": np.array([-1 if shop is None else shop for shop in shops], np.int64),
        "price": np.array(prices, np.float32),
        "age": np.array([2.5 if age is None else age for age in ages], np.float32),
    }
    lists = {"tags_mean": tags, "tags_sum": tags, "liked_root": liked, "liked_last": liked, "liked_any": liked}
    for name, values in lists.items():
        full = [value or [] for value in values]
        width = max(map(len, full)) + 1
        inputs[name] = np.array([[*value, *[12345] * (width - len(value))] for value in full], np.int64)
        inputs[f"{name}_length"] = np.array(list(map(len, full)), np.int64)
    given, found = run.folder / "inputs.npz", run.folder / "outputs.npz"
    np.savez(given, **inputs)
    subprocess.run(
        [sys.executable, "-I", str(SERVED), str(model), str(given), str(found)],
        env=small_cluster.environment(run.folder),
        check=True,
        timeout=small_cluster.PATIENCE_SECONDS,
    )
    return dict(np.load(found))


def brute_force(logits: np.ndarray, labels: list[int]) -> tuple[float, float]:
    """AUC over all pairs, and mean log-loss, in float64."""
    scores, clicked = logits.astype(np.float64), np.array(labels) == 1
    above = scores[clicked][:, None] - scores[~clicked][None, :]
    log_loss = np.mean(np.logaddexp(0, np.where(clicked, -scores, scores)))
    return float(np.mean((above > 0) + 0.5 * (above == 0))), float(log_loss)
