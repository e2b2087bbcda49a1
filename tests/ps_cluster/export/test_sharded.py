"""Rows over several servers and a dense model give the trainer's scores, each id asked of one server once."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from ps_cluster.errors import UserError
from ps_cluster.export.description import read_description
from ps_cluster.export.opened import find_model, open_model, signature_call
from ps_cluster.export.saved_model import export_saved_model
from ps_cluster.export.sharded import export_sharded
from ps_cluster.export.sharded_client import ShardedClient, shard_name
from ps_cluster.job.schema import Job
from tests.ps_cluster.export.exported_job import Training
from tests.ps_cluster.serving_inputs import serving_inputs
from tests.ps_cluster.small_job import MOST, batch_of

SHARDS = 3


@pytest.fixture(scope="module")
def sharded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Training, str]:
    training = Training(tmp_path_factory.mktemp("job"))
    training.train(4)
    training.save()
    return training, export_sharded(training.job_file, SHARDS)


def batch_and_inputs(job: Job) -> tuple[dict, dict]:
    batch = batch_of(np.random.default_rng(7), 40, most=2 * MOST)
    return batch, serving_inputs(job, batch, padding=12345)


def test_shards_and_dense_give_the_trainers_scores(sharded: tuple) -> None:
    training, dense = sharded
    parent = os.path.join(training.job_file.output, "export-sharded")
    assert dense == os.path.join(parent, "dense", "1") == find_model(parent)
    assert sorted(os.listdir(parent)) == ["dense", *(shard_name(number, SHARDS) for number in range(SHARDS))]
    batch, inputs = batch_and_inputs(training.job)
    _, score = open_model(dense)
    found = score(inputs)
    logits = training.logits(batch)
    np.testing.assert_allclose(found["logit"], logits, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(found["probability"], 1 / (1 + np.exp(-logits)), atol=1e-5)
    assert np.ptp(logits) > 0.1


def test_each_id_is_asked_of_one_shard_once_and_padding_of_none(sharded: tuple) -> None:
    training, dense = sharded
    described = read_description(dense)
    asked: list[tuple[int, str, int]] = []

    def listening(number: int):
        call = signature_call(dense.replace("dense", shard_name(number, SHARDS)))

        def ask(ids: dict) -> dict:
            asked.extend((number, table, key) for table, keys in ids.items() for key in keys.tolist())
            return call(ids)

        return ask

    client = ShardedClient(described, signature_call(dense), [listening(number) for number in range(SHARDS)])
    batch, inputs = batch_and_inputs(training.job)
    client.score(inputs)
    wanted = {("user", one) for one in batch["user"].tolist()}
    wanted |= {("item", one) for one in batch["shown"].tolist()}
    wanted |= {("item", one) for row in batch["history"] for one in row[-3:]}
    wanted |= {("item", one) for row in batch["liked"] for one in row[-2:]}
    wanted |= {("genres", one) for row in batch["genres"] for one in row}
    assert sorted((table, key) for _, table, key in asked) == sorted(wanted)
    assert {number for number, _, _ in asked} == set(range(SHARDS))
    sizes = [read_description(dense.replace("dense", shard_name(n, SHARDS))).tables["item"].rows for n in range(SHARDS)]
    assert sum(sizes) == described.tables["item"].rows and min(sizes) > 0


def test_requests_without_ids_need_no_shard(sharded: tuple) -> None:
    training, dense = sharded
    _, score = open_model(dense)
    _, inputs = batch_and_inputs(training.job)
    none = {name: value[:0] for name, value in inputs.items()}
    assert score(none)["logit"].shape == (0,)


def test_a_shard_does_not_score_and_counts_are_checked(sharded: tuple) -> None:
    training, dense = sharded
    shard = dense.replace("dense", shard_name(0, SHARDS))
    with pytest.raises(UserError, match="expected a model that scores, found a shard of one"):
        open_model(shard)
    with pytest.raises(UserError, match="--shards: expected 1 to 256, found 0"):
        export_sharded(training.job_file, 0)
    with pytest.raises(ValueError, match="expected 3 shards of a sharded export, found 0"):
        ShardedClient(read_description(dense), signature_call(dense), [])


def test_rows_of_int8_in_shards_are_those_in_one_piece(sharded: tuple, tmp_path: Path) -> None:
    training, _ = sharded
    _, inputs = batch_and_inputs(training.job)
    in_shards = open_model(export_sharded(training.job_file, 2, str(tmp_path / "shards"), rows="int8"))[1](inputs)
    in_one = open_model(export_saved_model(training.job_file, str(tmp_path / "one"), rows="int8"))[1](inputs)
    np.testing.assert_allclose(in_shards["logit"], in_one["logit"], rtol=1e-5, atol=1e-5)
