"""The SavedModel gives, in plain TensorFlow and with our ops, the scores of the trained model and its tables."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
import yaml

from ops.library import RANKMIXER_PATH
from ps_cluster.errors import UserError
from ps_cluster.export.frozen_layout import Form
from ps_cluster.export.saved_model import Asked, export_saved_model
from ps_cluster.job.resolve import JobFile
from ps_cluster.job.schema import Job
from tests.ps_cluster.serving_inputs import serving_inputs
from tests.ps_cluster.small_job import FIELDS, MOST, batch_of, ids_of, job_file_of, job_of, saved
from tests.ps_cluster.stores import look_up

SERVE = """
import json, sys
import numpy as np
import tensorflow as tf
folder, given, scores, *libraries = sys.argv[1:]
for library in libraries:
    tf.load_op_library(library)
serve = tf.saved_model.load(folder).signatures["serving_default"]
inputs = {name: tf.constant(value) for name, value in np.load(given).items()}
outputs = serve(**inputs)
np.savez(scores, **{name: value.numpy() for name, value in outputs.items()})
packages = {name.partition(".")[0] for name in sys.modules}
specs = serve.structured_input_signature[1]
signature = {name: [spec.dtype.name, spec.shape.as_list()] for name, spec in specs.items()}
print(json.dumps({"packages": sorted(packages), "signature": signature}))
"""


def trained(job: Job, folder: Path, batch: Mapping) -> tuple[JobFile, np.ndarray]:
    """A saved job, and the logits of a batch by its own store and model."""
    job_file = job_file_of(job, folder)
    model, store, _ = saved(job, job_file.output)
    vectors = look_up(store, ids_of(job, batch), training=False)
    values = {**vectors, "age": tf.constant(batch["age"])}
    return job_file, tf.squeeze(model(values, training=False), axis=1).numpy()


def score(folder: str, inputs: Mapping[str, np.ndarray]) -> np.ndarray:
    """Logits of a SavedModel in this process."""
    serve = tf.saved_model.load(folder).signatures["serving_default"]
    return serve(**{name: tf.constant(value) for name, value in inputs.items()})["logit"].numpy()


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> tuple[JobFile, str, dict, np.ndarray]:
    # Half of the ids are unknown to the tables: training drew from [-30, 30).
    batch = batch_of(np.random.default_rng(7), 40, most=2 * MOST)
    job_file, logits = trained(job_of(), tmp_path_factory.mktemp("job"), batch)
    return job_file, export_saved_model(job_file), batch, logits


def test_a_process_of_plain_tensorflow_serves_the_same_scores(exported: tuple, tmp_path: Path) -> None:
    job_file, folder, batch, logits = exported
    check_fresh_process(job_file, folder, batch, logits, tmp_path)


def test_a_process_of_tensorflow_and_the_ops_alone_serves_the_same_scores(exported: tuple, tmp_path: Path) -> None:
    job_file, _, batch, logits = exported
    folder = export_saved_model(job_file, form="ops")
    assert folder == os.path.join(job_file.output, "export-ops", "1")
    library = tmp_path / "elsewhere.so"  # it needs no other file of the checkout
    shutil.copy(RANKMIXER_PATH, library)
    check_fresh_process(job_file, folder, batch, logits, tmp_path, library)


def check_fresh_process(
    job_file: JobFile, folder: str, batch: Mapping, logits: np.ndarray, tmp_path: Path, *libraries: Path
) -> None:
    inputs = serving_inputs(job_file.job, batch, padding=7)
    np.savez(tmp_path / "inputs.npz", **inputs)
    environment = {
        name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "TF_USE_LEGACY_KERAS")
    }
    files = [str(tmp_path / name) for name in ("inputs.npz", "scores.npz")]
    served = subprocess.run(
        [sys.executable, "-c", SERVE, folder, *files, *map(str, libraries)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert served.returncode == 0, served.stderr
    told = json.loads(served.stdout.splitlines()[-1])
    unwanted = {"tensorflow_recommenders_addons", "ps_cluster", "models", "data", "ops", "tf_keras", "horovod"}
    assert unwanted.isdisjoint(told["packages"])
    assert told["signature"] == {
        "user": ["int64", [None]],
        "shown": ["int64", [None]],
        "history": ["int64", [None, None]],
        "history_length": ["int64", [None]],
        "genres": ["int64", [None, None]],
        "genres_length": ["int64", [None]],
        "liked": ["int64", [None, None]],
        "liked_length": ["int64", [None]],
        "age": ["float32", [None]],
    }
    with np.load(tmp_path / "scores.npz") as scores:
        assert sorted(scores.files) == ["logit", "probability"]
        assert scores["logit"].shape == scores["probability"].shape == (40,)
        np.testing.assert_allclose(scores["logit"], logits, rtol=0, atol=1e-5)
        np.testing.assert_allclose(scores["probability"], 1 / (1 + np.exp(-logits.astype(np.float64))), atol=1e-5)
    assert np.ptp(logits) > 0.1


@pytest.mark.parametrize("form", ["plain", "ops"])
def test_padding_and_the_company_of_a_row_do_not_matter(exported: tuple, form: Form) -> None:
    job_file, folder, batch, logits = exported
    if form == "ops":
        folder = export_saved_model(job_file, form="ops")
    serve = tf.saved_model.load(folder).signatures["serving_default"]
    for padding in (0, -1, 10**15):
        inputs = serving_inputs(job_file.job, batch, padding)
        np.testing.assert_allclose(serve(**{n: tf.constant(v) for n, v in inputs.items()})["logit"], logits, atol=1e-5)
    for rows in (slice(3, 4), slice(10, 17), slice(0, 0)):
        some = {name: tf.constant(value[rows]) for name, value in inputs.items()}
        np.testing.assert_allclose(serve(**some)["logit"], logits[rows], atol=1e-5)


MODELS = {
    "rankmixer": {"name": "rankmixer", "tokens": 2, "dim": 8, "layers": 2},
    "rankmixer of uneven parts": {"name": "rankmixer", "tokens": 4, "dim": 8, "layers": 1},
    "rankmixer of groups": {
        "name": "rankmixer",
        "tokens": 2,
        "dim": 8,
        "groups": [["user", "age", "history"], ["shown", "genres", "liked", "user"]],
    },
    "rankmixer with norms before": {
        "name": "rankmixer",
        "tokens": 2,
        "dim": 8,
        "layers": 1,
        "norm": "pre_rms",
        "activation": "swiglu",
    },
    "rankmixer of experts": {"name": "rankmixer", "tokens": 2, "dim": 8, "layers": 1, "experts": {"count": 2}},
    "deepfm": {"name": "deepfm", "fm_dim": 3, "hidden": [8]},
    "deepfm without a deep network": {"name": "deepfm", "fm_dim": 4, "hidden": []},
    "dcn": {"name": "dcn", "hidden": [4], "attention": "din", "dense_transform": "none"},
    "dcn of low rank": {"name": "dcn", "hidden": [4], "cross_rank": 2},
    "dcn of high rank": {"name": "dcn", "hidden": [4], "cross_rank": 15},
}


@pytest.mark.parametrize("model", MODELS)
def test_every_model_is_exported_in_both_forms(tmp_path: Path, model: str) -> None:
    """Both forms give the trainer's scores, and each other's but for the order in which sums are rounded."""
    tiers = {"tiers": [{"dim": 2, "min_frequency": 0}, {"dim": 6, "min_frequency": 3}], "output": 4}
    job = job_of({"model": MODELS[model], "tables": {"item": tiers}})
    batch = batch_of(np.random.default_rng(8), 50, most=2 * MOST)
    job_file, logits = trained(job, tmp_path, batch)
    inputs = serving_inputs(job, batch, padding=0)
    plain, ops = (score(export_saved_model(job_file, form=form), inputs) for form in ("plain", "ops"))
    np.testing.assert_allclose(plain, logits, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(ops, plain, rtol=1e-6, atol=1e-6)
    assert np.ptp(plain) > 0.1


def test_the_command_writes_the_forms_asked_for(exported: tuple, tmp_path: Path) -> None:
    job_file, _, batch, logits = exported
    job_path = Path(job_file.output).parent / "job.yaml"
    job_path.write_text(yaml.safe_dump(FIELDS), encoding="utf-8")
    command = [sys.executable, "-m", "ps_cluster", "export", str(job_path), "--form", "both"]
    done = subprocess.run([*command, "--to", str(tmp_path / "to")], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    folders = done.stdout.splitlines()
    assert folders == [str(tmp_path / "to" / "1"), str(tmp_path / "to-ops" / "1")]
    for folder, form in zip(folders, ("plain", "ops")):
        told = json.loads(Path(folder, "assets.extra", "training.json").read_text())
        assert told["form"] == form and told["step"] == 3 and any("attention" in line for line in told["folded"])
        inputs = serving_inputs(job_file.job, batch, padding=0)
        np.testing.assert_allclose(score(folder, inputs), logits, rtol=1e-5, atol=1e-5)


def test_a_loaded_model_reads_its_tables_without_a_copy(exported: tuple, tmp_path: Path) -> None:
    """The op takes them by value; a copy for each request would cost more than all else."""
    job_file, *_ = exported
    folder = export_saved_model(job_file, str(tmp_path), form="ops")
    loaded = tf.saved_model.load(folder)  # its variables live as long as it does
    tables = [
        one for one in loaded.signatures["serving_default"].variables if one.name.partition(":")[0][-4:] == "rows"
    ]
    assert len(tables) == 3
    for variable in tables:
        first, second = variable.read_value(), variable.read_value()
        address = {value._numpy().__array_interface__["data"][0] for value in (first, second)}
        assert len(address) == 1


def test_versions_are_numbered_and_whole(exported: tuple, tmp_path: Path) -> None:
    job_file, folder, *_ = exported
    assert folder == os.path.join(job_file.output, "export", "1")
    parent = str(tmp_path / "versions")
    for number in (1, 2):
        assert export_saved_model(job_file, parent) == os.path.join(parent, str(number))
    os.mkdir(os.path.join(parent, "9"))
    assert export_saved_model(job_file, parent) == os.path.join(parent, "10")
    assert sorted(os.listdir(parent)) == ["1", "10", "2", "9"]


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({"item": {"dim": 2}}, r"tables\.item\.dim: expected 4 as in the training of the checkpoint, found 2"),
        ({"thing": {"dim": 4}}, r"tables\.thing: expected nothing as in the training of the checkpoint, found"),
    ],
)
def test_tables_that_are_not_the_trained_ones_are_refused(exported: tuple, tables: dict, message: str) -> None:
    job_file, *_ = exported
    (name,) = tables
    features = [{**feature, "table": name} if "table" in feature else feature for feature in FIELDS["features"]]
    job = job_of({"tables": tables, "features": features})
    with pytest.raises(UserError, match=message):
        export_saved_model(JobFile(job, job_file.path, job_file.folder, ""))


def test_a_damaged_checkpoint_is_not_exported(tmp_path: Path) -> None:
    job_file = job_file_of(job_of(), tmp_path)
    _, _, folder = saved(job_file.job, job_file.output)
    with open(os.path.join(folder, "tables", "item", "ps-000-of-001.table"), "r+b") as file:
        file.truncate(10)
    with pytest.raises(UserError, match=r"ps-000-of-001\.table: header: cut off"):
        export_saved_model(job_file)
    assert not os.path.isdir(os.path.join(job_file.output, "export", "1"))


def test_what_is_damaged_is_told_when_an_older_checkpoint_is_exported(tmp_path: Path) -> None:
    job_file = job_file_of(job_of(), tmp_path)
    saved(job_file.job, job_file.output)
    _, _, folder = saved(job_file.job, job_file.output, step=4)
    os.truncate(os.path.join(folder, "tables", "item", "ps-000-of-001.table"), 10)
    told: list[str] = []
    export_saved_model(job_file, asked=Asked(tell=told.append))
    assert "step-0000000004/tables/item/ps-000-of-001.table: header: cut off" in told[0]
    assert told[-1].endswith("the newest whole checkpoint is that of step 3")
