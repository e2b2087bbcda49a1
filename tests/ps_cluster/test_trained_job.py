"""A checkpoint is only read for a job that means what was trained."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from ps_cluster.errors import UserError
from ps_cluster.job.resolve import JobFile
from ps_cluster.job.schema import Job
from ps_cluster.train.trained_job import check_as_trained, meaning_of

VALUES = yaml.safe_load((Path(__file__).parents[2] / "ps_cluster/examples/movielens.yaml").read_text())


def changed(*path: Any, to: Any) -> JobFile:
    values = copy.deepcopy(VALUES)
    inner = values
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = to
    return JobFile(Job.model_validate(values), "job.yaml", "/", "")


TRAINED = meaning_of(changed("name", to="movielens").job)


@pytest.mark.parametrize(
    ("path", "to"),
    [
        (("name",), "other"),
        (("training", "batch_size"), 7),
        (("optimizers", "sparse", "learning_rate"), 0.5),
        (("model", "dropout"), 0.0),
        (("model", "fused"), "off"),
        (("model", "precision"), "bfloat16"),
        (("model", "norm"), "post_ln"),
        (("cluster",), {"ps": 5, "workers": 1}),
        (("data", "test"), ["elsewhere.orc"]),
        (("tables", "items"), {"dim": 8, "initializer": {"kind": "zeros"}}),
    ],
)
def test_what_only_matters_while_training_may_change(path: tuple, to: Any) -> None:
    check_as_trained(changed(*path, to=to), TRAINED)


@pytest.mark.parametrize(
    ("path", "to", "message"),
    [
        (("model", "gelu"), "tanh", "model.gelu: expected 'exact' as in the training of the checkpoint, found 'tanh'"),
        (
            ("model", "norm"),
            "pre_rms",
            "model.norm: expected nothing as in the training of the checkpoint, found 'pre_rms'",
        ),
        (("model", "experts"), {"count": 2}, "model.experts: expected nothing as in"),
        (("model", "dim"), 64, "model.dim: expected 32 as in the training of the checkpoint, found 64"),
        (("features", 0, "column"), "item_id", "features[0].column: expected nothing as in"),
        (("features", 9, "max_length"), 5, "features[9].max_length: expected nothing as in"),
        (("features", 1, "dim"), 4, "tables.age.dim: expected 8 as in"),
        (("tables", "items", "dim"), 16, "tables.items.dim: expected 8 as in"),
        (("features",), VALUES["features"][:-1], "features: expected '30 entries' as in"),
        (("model",), {"name": "deepfm"}, "model.name: expected 'rankmixer' as in"),
    ],
)
def test_what_changes_the_meaning_is_refused_by_field(path: tuple, to: Any, message: str) -> None:
    with pytest.raises(UserError) as error:
        check_as_trained(changed(*path, to=to), TRAINED)
    assert f"job.yaml: {message}" in str(error.value)


def test_experts_mean_their_number_and_width_and_not_how_they_were_pressed() -> None:
    trained = meaning_of(changed("model", "experts", to={"count": 4}).job)
    check_as_trained(changed("model", "experts", to={"count": 4, "target_active": 0.3, "penalty_factor": 1.2}), trained)
    with pytest.raises(UserError, match=r"model\.experts\.count: expected 4 as in the training .*, found 2"):
        check_as_trained(changed("model", "experts", to={"count": 2}), trained)


def test_a_checkpoint_from_before_a_field_was_there_is_of_its_default() -> None:
    before = copy.deepcopy(TRAINED)
    new = ("norm", "activation", "precision", "fused", "experts")
    before["model"] = {name: value for name, value in before["model"].items() if name not in new}
    check_as_trained(changed("name", to="movielens"), before)
