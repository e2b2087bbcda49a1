"""An export with tables of TFRA's gives the trainer's scores, wherever TFRA's ops are loaded."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from ps_cluster.errors import UserError
from ps_cluster.export.delta import export_delta
from ps_cluster.export.opened import open_model
from ps_cluster.export.saved_model import export_saved_model
from tests.ps_cluster.export.exported_job import Training, write_job, write_samples
from tests.ps_cluster.serving_inputs import serving_inputs
from tests.ps_cluster.small_job import MOST, batch_of


def test_two_versions_in_one_process_each_give_the_scores_of_their_step(tmp_path: Path) -> None:
    training = Training(tmp_path)
    batch = batch_of(np.random.default_rng(7), 40, most=2 * MOST)
    inputs = serving_inputs(training.job, batch, padding=12345)
    expected, calls, models = [], [], []
    for _ in range(2):
        training.train(3)
        training.save()
        expected.append(training.logits(batch))
        models.append(export_saved_model(training.job_file, form="tfra"))
        calls.append(open_model(models[-1])[1])
    assert models[1] == os.path.join(training.job_file.output, "export-tfra", "2")
    for logits, call in zip(expected, calls):
        np.testing.assert_allclose(call(inputs)["logit"], logits, rtol=1e-5, atol=1e-5)
    assert np.abs(expected[0] - expected[1]).max() > 1e-3
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:  # as TF Serving loads it
        signature = tf.compat.v1.saved_model.load(session, ["serve"], models[0]).signature_def["serving_default"]
        given = {signature.inputs[name].name: value for name, value in inputs.items()}
        found = session.run(signature.outputs["logit"].name, given)
    np.testing.assert_allclose(found, expected[0], rtol=1e-5, atol=1e-5)

    with pytest.raises(UserError, match="expected float32 with the form tfra, found int8"):
        export_saved_model(training.job_file, form="tfra", rows="int8")
    with pytest.raises(UserError, match="expected a version of the form plain or ops, found one of the form tfra"):
        export_delta(training.job_file, 1, os.path.dirname(models[0]))


@pytest.mark.slow
def test_it_is_checked_and_scored_by_the_commands(tmp_path: Path) -> None:
    training = Training(tmp_path)
    write_samples(tmp_path)
    write_job(training.job_file, {})
    training.train(4)
    training.save()
    command = [sys.executable, "-m", "ps_cluster", "export", training.job_file.path, "--form", "tfra", "--check"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    card = json.loads(Path(done.stdout.strip(), "assets.extra", "model_card.json").read_text())
    print(card["export"])
    assert card["export"]["error"]["largest"] <= 1e-5
