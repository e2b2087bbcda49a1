"""A delta of the sharded form makes of its version what a sharded export of the whole would be."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ps_cluster.errors import UserError
from ps_cluster.export.delta_apply import apply_delta
from ps_cluster.export.delta_format import read_delta
from ps_cluster.export.opened import open_model
from ps_cluster.export.sharded import export_sharded
from ps_cluster.export.sharded_client import DENSE, shard_name
from ps_cluster.export.sharded_delta import export_sharded_delta
from ps_cluster.export.sharded_delta_apply import apply_sharded_delta
from tests.ps_cluster.export.exported_job import Training, write_job, write_samples
from tests.ps_cluster.export.same_exports import check_same
from tests.ps_cluster.serving_inputs import serving_inputs
from tests.ps_cluster.small_job import MOST, batch_of

SHARDS = 2
NAMES = [DENSE, *(shard_name(number, SHARDS) for number in range(SHARDS))]
EVICTED = {"dim": 4, "eviction": {"max_age_steps": 4}, "optimizer": {"name": "adam", "learning_rate": 0.05}}


@pytest.mark.parametrize(("deltas", "rows"), [(9, "int8"), (0, "float32")])
def test_a_delta_applied_is_the_whole_export_bit_for_bit(tmp_path: Path, deltas: int, rows: str) -> None:
    training = Training(tmp_path, {"tables": {"item": EVICTED}}, deltas)
    training.train(3)
    training.save()
    parent, whole = str(tmp_path / "served"), str(tmp_path / "whole")
    export_sharded(training.job_file, SHARDS, parent, rows=rows)
    for _ in range(2):
        training.train(3, rows=4, most=2 * MOST)
        training.save()
    delta = export_sharded_delta(training.job_file, 1, parent)
    assert delta == os.path.join(parent, "delta-1-to-2")
    told = [read_delta(os.path.join(delta, name)).tables for name in NAMES]
    assert told[0] == {} and all(one["user"].changed > 0 for one in told[1:])
    assert not deltas or sum(one["item"].removed for one in told[1:]) > 0
    # A server with one shard has it already.
    apply_delta(os.path.join(delta, NAMES[1]), os.path.join(parent, NAMES[1]))
    dense = apply_sharded_delta(delta)
    assert dense == os.path.join(parent, DENSE, "2")
    export_sharded(training.job_file, SHARDS, whole, rows=rows)
    for name in NAMES:
        check_same(os.path.join(parent, name, "2"), os.path.join(whole, name, "1"))
    if rows == "float32":
        batch = batch_of(np.random.default_rng(7), 40, most=2 * MOST)
        found = open_model(dense)[1](serving_inputs(training.job, batch, padding=7))
        np.testing.assert_allclose(found["logit"], training.logits(batch), rtol=1e-5, atol=1e-5)
    with pytest.raises(UserError, match="expected that version 2 is not there yet, found it"):
        apply_sharded_delta(delta)


def trained(folder: Path) -> tuple[Training, str]:
    """A job with two checkpoints, the first of which is exported."""
    training = Training(folder)
    training.train(3)
    training.save()
    parent = os.path.join(training.job_file.output, "export-sharded")
    export_sharded(training.job_file, SHARDS, parent)
    training.train(2)
    training.save()
    return training, parent


@pytest.mark.slow
def test_it_is_checked_and_applied_by_the_commands(tmp_path: Path) -> None:
    training, parent = trained(tmp_path)
    write_samples(tmp_path)
    write_job(training.job_file, {})
    delta, dense = os.path.join(parent, "delta-1-to-2"), os.path.join(parent, DENSE, "2")
    export = ["export", training.job_file.path, "--form", "sharded", "--since", "1", "--check", "--samples", "50"]
    for command, told in ((export, delta), (["apply", delta], dense)):
        done = subprocess.run(
            [sys.executable, "-m", "ps_cluster", *command], capture_output=True, text=True, timeout=600
        )
        assert (done.returncode, done.stdout.strip()) == (0, told), done.stderr
    assert [sorted(os.listdir(os.path.join(parent, name))) for name in NAMES] == [["1", "2"]] * 3


@pytest.fixture(scope="module")
def with_delta(tmp_path_factory: pytest.TempPathFactory) -> tuple[Training, str]:
    training, parent = trained(tmp_path_factory.mktemp("job"))
    export_sharded_delta(training.job_file, 1, parent)
    return training, parent


@pytest.mark.parametrize("damaged", ["shard-1-of-2/tables/user.changed", "dense/model/saved_model.pb"])
def test_a_damaged_one_and_one_of_another_version_change_nothing(
    with_delta: tuple[Training, str], tmp_path: Path, damaged: str
) -> None:
    parent = str(tmp_path / "served")
    shutil.copytree(with_delta[1], parent)
    other = str(tmp_path / "other")
    export_sharded(with_delta[0].job_file, SHARDS, other)  # its version 1 is of another step
    with pytest.raises(UserError, match=r"expected as version 1 step 3 of job small .*; found in .*/1 step 5 of job"):
        apply_sharded_delta(os.path.join(parent, "delta-1-to-2"), other)
    path = Path(parent, "delta-1-to-2", damaged)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(UserError, match="damaged: expected"):
        apply_sharded_delta(os.path.join(parent, "delta-1-to-2"))
    for place in (parent, other):
        assert [os.listdir(os.path.join(place, name)) for name in NAMES] == [["1"]] * 3
