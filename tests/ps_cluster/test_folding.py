"""What export folds leaves every score as it was and the graph with fewer operations."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from ps_cluster.checkpoint.finding import newest_checkpoint
from ps_cluster.export.frozen_layout import Form
from ps_cluster.export.serving_model import ServingModel
from ps_cluster.job.schema import Job
from tests.ps_cluster.serving_inputs import serving_inputs
from tests.ps_cluster.small_job import FIELDS, MOST, batch_of, job_file_of, job_of, saved

TIERS = {"tiers": [{"dim": 2, "min_frequency": 0}, {"dim": 6, "min_frequency": 3}]}
COLD = {"admission": {"kind": "exact", "threshold": 4, "cold_value": 0.5}}
DENSE = [{"name": f"dense_{number}", "kind": "dense"} for number in range(3)]
LEARNED_QUERY = [{**one, "query": None} if "query" in one else one for one in FIELDS["features"]]
INTO_ROWS = "features/item/projection: into the rows of table item"
INTO_METRIC = "features/history/attention/dot: the scale into features/history/attention/dot/metric"
INTO_QUERY = "features/history/attention/dot: the scale into features/history/attention/query"
DCN = {"name": "dcn", "hidden": [4]}
RANKMIXER = {"name": "rankmixer", "tokens": 2, "dim": 8, "layers": 2}
PRE_RMS = {"norm": "pre_rms", "activation": "swiglu"}
INTO_HEAD = "rankmixer: final_gamma into rankmixer/click"

# Changes of the job, and what is folded.
CASES: dict[str, tuple[dict, list[str]]] = {
    "a projection, cold ids too": ({"tables": {"item": {**TIERS, **COLD, "output": 4}}}, [INTO_ROWS, INTO_METRIC]),
    "a projection that widens": ({"tables": {"item": {**TIERS, "output": 7}}}, [INTO_METRIC]),
    "a learned query, dense fields": (
        {"features": [*LEARNED_QUERY, *DENSE]},
        [INTO_QUERY, "deepfm_folded: the products of dense fields into one"],
    ),
    "crosses of high rank": (
        {"model": {**DCN, "cross_rank": 15}},
        [INTO_METRIC, "dcn/cross_0: its two products into one", "dcn/cross_1: its two products into one"],
    ),
    "norms behind": (
        {"model": RANKMIXER},
        [INTO_METRIC, "rankmixer/block_1: gamma2 and beta2 into rankmixer/click"],
    ),
    "norms before": (
        {"model": {**RANKMIXER, **PRE_RMS}},
        [INTO_METRIC, *(f"rankmixer/block_{n}: gamma2 into w1" for n in (0, 1)), INTO_HEAD],
    ),
    "norms before experts": (
        {"model": {**RANKMIXER, **PRE_RMS, "layers": 1, "experts": {"count": 2}}},
        [INTO_METRIC, "rankmixer/block_0: gamma2 into w1 and router", INTO_HEAD],
    ),
    "norms behind experts": (
        {"model": {**RANKMIXER, "layers": 1, "experts": {"count": 2}}},
        [INTO_METRIC, "rankmixer/block_0: gamma2 and beta2 into rankmixer/click"],
    ),
    "crosses of low rank": ({"model": {**DCN, "cross_rank": 2}}, [INTO_METRIC]),
}


def scored(module: ServingModel, job: Job) -> np.ndarray:
    batch = batch_of(np.random.default_rng(5), 200, most=2 * MOST)
    for number, one in enumerate(DENSE):
        batch[one["name"]] = np.linspace(-3, 3, 200, dtype=np.float32) + number
    inputs = {name: tf.constant(value) for name, value in serving_inputs(job, batch, padding=3).items()}
    return module.score(inputs)["logit"].numpy()


def operations(module: ServingModel) -> int:
    """How many there are to run."""
    found = module.score.get_concrete_function().graph.get_operations()
    return sum(operation.type not in ("Const", "Placeholder") for operation in found)


@pytest.fixture(scope="module", params=CASES)
def job_and_words(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple:
    changes, words = CASES[request.param]
    job = job_of({"name": "folding", **changes})
    job_file = job_file_of(job, tmp_path_factory.mktemp("job"))
    saved(job, job_file.output)
    return job, newest_checkpoint(job_file.checkpoints), words


@pytest.mark.parametrize("form", ["plain", "ops"])
def test_folded_scores_are_the_unfolded_ones_from_fewer_operations(job_and_words: tuple, form: Form) -> None:
    job, checkpoint, words = job_and_words
    folded = ServingModel(job, checkpoint, form).fill("/nowhere")
    whole = ServingModel(job, checkpoint, form, folding=False).fill("/nowhere")
    want = scored(whole, job)
    assert np.ptp(want) > 0.1
    np.testing.assert_allclose(scored(folded, job), want, rtol=1e-5, atol=1e-5)
    assert operations(folded) < operations(whole)
    assert whole.folded == ()
    assert list(folded.folded) == words


@pytest.mark.parametrize("form", ["plain", "ops"])
def test_nothing_is_exported_that_no_score_depends_on(tmp_path: Path, form: Form) -> None:
    job = job_of({"name": "unused", "tables": {"item": {**TIERS, "output": 4}}})
    job_file = job_file_of(job, tmp_path)
    saved(job, job_file.output)
    module = ServingModel(job, newest_checkpoint(job_file.checkpoints), form)
    held = {variable.ref() for variable in module.variables}
    assert held == {variable.ref() for variable in module.score.get_concrete_function().graph.variables}
    assert not any("projection" in variable.name and "item/" in variable.name for variable in module.variables)
