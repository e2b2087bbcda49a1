"""`export --check` publishes what scores as the trainer does, and `score` gives these scores without TFRA."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import orc

from ps_cluster.errors import RunError, UserError
from ps_cluster.export.check import compare
from ps_cluster.export.opened import find_model, open_model
from ps_cluster.export.sample import write_sample
from ps_cluster.export.scoring import score_files
from ps_cluster.job.resolve import JobFile
from tests.ps_cluster.export.exported_job import Training, write_job, write_samples

ORIGINS = tuple(("rows.orc", number) for number in range(3))


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Training, np.ndarray]:
    """A job with a file, samples and a checkpoint, and the trainer's logits of the samples."""
    folder = tmp_path_factory.mktemp("job")
    training = Training(folder)
    batch = write_samples(folder)
    write_job(training.job_file, {})
    training.train(4)
    training.save()
    return training, training.logits(batch)


def command(*arguments: str, code: int = 0) -> subprocess.CompletedProcess:
    done = subprocess.run([sys.executable, "-m", "ps_cluster", *arguments], capture_output=True, text=True, timeout=600)
    assert done.returncode == code, done.stderr
    return done


def test_a_checked_export_tells_its_error_and_is_scored_by_the_command(trained: tuple, tmp_path: Path) -> None:
    training, logits = trained
    job = training.job_file.path
    told = command("export", job, "--check", "--samples", "100", "--rows", "float16")
    model = told.stdout.strip()
    assert model == os.path.join(training.job_file.output, "export", "1")
    card = json.loads(Path(model, "assets.extra", "model_card.json").read_text())
    error = card["export"]["error"]
    assert error["rows"] == 100 and 0 < error["largest"] < error["tolerance"] == 0.01
    assert 0 < error["mean"] < error["largest"] and 0 < error["auc_export"] < 1
    assert card["checkpoint"]["step"] == 4 and card["sizes"]["tables"]["user"]["rows"] > 0
    assert "at most" in Path(model, "assets.extra", "model_card.md").read_text()

    out = tmp_path / "scores.orc"
    samples = os.path.join(training.job_file.folder, "train.orc")
    command("score", os.path.dirname(model), samples, "-o", str(out), "--keep", "user,history", "--batch", "50")
    found, given = orc.ORCFile(str(out)).read(), orc.ORCFile(samples).read()
    assert found.column_names == ["user", "history", "label", "file", "row", "logit", "probability"]
    for name in ("user", "history"):
        assert found[name].to_pylist() == given[name].to_pylist()
    assert found["label"].to_pylist() == given["label"].to_pylist()
    assert found["row"].to_pylist() == list(range(len(given))) and set(found["file"].to_pylist()) == {samples}
    np.testing.assert_allclose(found["logit"].to_numpy(), logits, atol=0.01)
    np.testing.assert_allclose(found["probability"].to_numpy(), 1 / (1 + np.exp(-logits)), atol=0.01)
    assert [path.name for path in tmp_path.iterdir()] == ["scores.orc"]
    again = command("score", model, samples, "-o", str(out), code=2)
    assert "scores.orc: expected a file that is not there yet, found one" in again.stderr


def test_an_export_beyond_its_tolerance_is_not_published(trained: tuple) -> None:
    training, _ = trained
    arguments = ("--check", "--rows", "int8", "--tolerance", "1e-7", "--form", "sharded", "--shards", "2")
    done = command("export", training.job_file.path, *arguments, code=1)
    assert "the export was not published: " in done.stderr and "train.orc: row " in done.stderr
    parent = os.path.join(training.job_file.output, "export-sharded")
    assert all(not os.listdir(os.path.join(parent, name)) for name in os.listdir(parent))


def test_the_worst_row_is_named() -> None:
    trainer = np.array([0.1, 20.0, -3.0], np.float32)
    labels = np.array([0, 1, 0], np.float32)
    checked = compare(trainer, trainer + np.float32(1e-6), labels, ORIGINS, 1e-5)
    assert checked.rows == 3 and checked.auc_trainer == checked.auc_export == 1
    compare(trainer, trainer * np.float32(1 + 5e-6), labels, ORIGINS, 1e-5)  # of a logit above 1 the share counts
    wrong = np.array([0.1, 20.0, -3.001], np.float32)
    with pytest.raises(RunError, match=r"rows\.orc: row 2 \(counted from 0\): expected the trainer's logit -3, found"):
        compare(trainer, wrong, labels, ORIGINS, 1e-5)
    with pytest.raises(RunError, match=r"row 0 .* found nan"):
        compare(trainer, np.array([np.nan, 20.0, -3.0], np.float32), labels, ORIGINS, 1e-5)


def test_equal_scores_count_half_in_the_auc() -> None:
    random = np.random.default_rng(0)
    scores, labels = random.integers(0, 5, 60).astype(np.float32), random.integers(0, 2, 60).astype(np.float32)
    ones, zeros = scores[labels == 1], scores[labels == 0]
    want = np.mean((ones[:, None] > zeros) + 0.5 * (ones[:, None] == zeros))
    origins = tuple(("rows.orc", number) for number in range(60))
    assert compare(scores, scores, labels, origins, 0).auc_trainer == pytest.approx(want)
    assert compare(scores, scores, np.ones(60, np.float32), origins, 0).auc_trainer is None


def test_a_sample_is_spread_over_the_stripes_and_leaves_wrong_rows_out(trained: tuple, tmp_path: Path) -> None:
    training, _ = trained
    sample = write_sample(training.job_file, 50, str(tmp_path / "sample.orc"))
    rows = [row for _, row in sample.origins]
    assert sample.rows == 50 and rows == sorted(set(rows)) and max(rows) > 250 > 50 > min(rows)
    given = orc.ORCFile(os.path.join(training.job_file.folder, "train.orc")).read()
    assert orc.ORCFile(sample.path).read()["user"].to_pylist() == given["user"].take(pa.array(rows)).to_pylist()


def test_a_sample_holds_rows_of_where_alone(trained: tuple, tmp_path: Path) -> None:
    training, _ = trained
    ages = orc.ORCFile(os.path.join(training.job_file.folder, "train.orc")).read()["age"].to_numpy()
    job = training.job_file.job

    def with_where(text: str) -> JobFile:
        data = job.data.model_copy(update={"where": text})
        return replace(training.job_file, job=job.model_copy(update={"data": data}))

    sample = write_sample(with_where("day == 2 and age > 0"), 500, str(tmp_path / "sample.orc"))  # no feature is `day`
    assert [row for _, row in sample.origins] == [row for row in range(200, 300) if ages[row] > 0]
    with pytest.raises(UserError, match=r"found none that are right and pass data.where, day == 9"):
        write_sample(with_where("day == 9"), 50, str(tmp_path / "none.orc"))


def test_samples_that_do_not_fit_are_named(trained: tuple, tmp_path: Path) -> None:
    from data.errors import DataError
    from ps_cluster.export.saved_model import export_saved_model

    training, logits = trained
    model = export_saved_model(training.job_file, str(tmp_path / "export"))
    described, call = open_model(find_model(str(tmp_path / "export")))
    assert find_model(model) == model
    given = orc.ORCFile(os.path.join(training.job_file.folder, "train.orc")).read()
    for change, message in (
        (given.drop_columns(["age"]), r"lacking\.orc: column age: expected"),
        (given.set_column(5, "age", pa.array([None] * 300, pa.float32())), r"column age: row 0 .* found null"),
    ):
        path = str(tmp_path / "lacking.orc")
        orc.write_table(change, path)
        with pytest.raises(DataError, match=message):
            score_files(described, call, [path], str(tmp_path / "out.orc"))
        assert not os.path.exists(tmp_path / "out.orc")
    path = str(tmp_path / "unlabelled.orc")
    orc.write_table(given.drop_columns(["label"]), path)
    assert score_files(described, call, [path], str(tmp_path / "out.orc"), batch_rows=7) == 300
    found = orc.ORCFile(str(tmp_path / "out.orc")).read()
    assert found.column_names == ["file", "row", "logit", "probability"]
    np.testing.assert_allclose(found["logit"].to_numpy(), logits, atol=1e-5)
    with pytest.raises(UserError, match=r"--keep: expected columns of .*, found price"):
        score_files(described, call, [path], str(tmp_path / "more.orc"), keep=["price"])
    with pytest.raises(UserError, match="expected an exported model with"):
        find_model(training.job_file.output)
