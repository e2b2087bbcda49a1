"""A delta makes of the version that it is based on what an export of the whole would be, and of no other one."""

from __future__ import annotations

import json
import os
import shutil
import threading
import zlib
from pathlib import Path

import numpy as np
import pytest

from ps_cluster.errors import UserError
from ps_cluster.export.delta import export_delta, levels_since
from ps_cluster.export.delta_apply import ServedVersions, apply_delta, withdraw
from ps_cluster.export.delta_format import read_delta
from ps_cluster.export.description import read_description
from ps_cluster.export.saved_model import export_saved_model
from tests.ps_cluster.export.exported_job import Training
from tests.ps_cluster.export.same_exports import check_same
from tests.ps_cluster.serving_inputs import serving_inputs
from tests.ps_cluster.small_job import MOST, batch_of

TIERS = {"tiers": [{"dim": 2, "min_frequency": 0}, {"dim": 6, "min_frequency": 3}]}
EVICTED = {"dim": 4, "eviction": {"max_age_steps": 4}, "optimizer": {"name": "adam", "learning_rate": 0.05}}
CASES = {
    "deltas, plain": (9, {"item": EVICTED}, "plain", "float32"),
    "deltas, ops of int8": (9, {"item": EVICTED}, "ops", "int8"),
    "compared, plain of float16": (0, {"item": EVICTED}, "plain", "float16"),
    "a weight folded into the rows": (9, {"item": {**TIERS, "output": 4}}, "plain", "float32"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_delta_applied_is_the_whole_export_bit_for_bit(tmp_path: Path, case: str) -> None:
    deltas, tables, form, rows = CASES[case]
    training = Training(tmp_path, {"tables": tables}, deltas)
    training.train(3)
    training.save()
    parent = str(tmp_path / "served")
    first = export_saved_model(training.job_file, parent, form=form, rows=rows)
    for _ in range(2):
        training.train(3, rows=4, most=2 * MOST)
        checkpoint = training.save()
    since = read_description(first).source
    assert (levels_since(checkpoint, since, "item") is not None) == (deltas > 0)
    delta = export_delta(training.job_file, 1, parent)
    assert delta == os.path.join(parent, "delta-1-to-2")
    told = read_delta(delta).tables
    sizes = {name: size.rows for name, size in read_description(first).tables.items()}
    assert 0 < told["user"].changed < sizes["user"]
    assert told["item"].changed > 0 and (deltas == 0 or "a weight" in case or told["item"].removed > 0)
    second = apply_delta(delta)
    assert second == os.path.join(parent, "2")
    whole = export_saved_model(training.job_file, str(tmp_path / "whole"), form=form, rows=rows)
    check_same(second, whole)
    if (form, rows) == ("plain", "float32"):
        batch = batch_of(np.random.default_rng(7), 40, most=2 * MOST)
        inputs = serving_inputs(training.job, batch, padding=7)
        served = ServedVersions(parent)
        np.testing.assert_allclose(served.score(inputs)["logit"], training.logits(batch), rtol=1e-5, atol=1e-5)


def test_deltas_follow_one_another_without_the_versions_between(tmp_path: Path) -> None:
    training = Training(tmp_path, {"tables": {"item": EVICTED}}, deltas=9)
    training.train(3)
    training.save()
    parent = str(tmp_path / "served")
    export_saved_model(training.job_file, parent)
    for base in (1, 2):
        training.train(2, rows=4)
        training.save()
        assert export_delta(training.job_file, base, parent).endswith(f"delta-{base}-to-{base + 1}")
    with pytest.raises(UserError, match=r"served/2/assets\.extra/export\.json: expected the description"):
        apply_delta(os.path.join(parent, "delta-2-to-3"))
    for base in (1, 2):
        apply_delta(os.path.join(parent, f"delta-{base}-to-{base + 1}"))
    check_same(os.path.join(parent, "3"), export_saved_model(training.job_file, str(tmp_path / "whole")))


@pytest.fixture(scope="module")
def two_versions(tmp_path_factory: pytest.TempPathFactory) -> tuple[Training, str, str]:
    """A version and a delta of it."""
    folder = tmp_path_factory.mktemp("job")
    training = Training(folder)
    training.train(3)
    training.save()
    parent = str(folder / "served")
    export_saved_model(training.job_file, parent)
    training.train(2)
    training.save()
    return training, parent, export_delta(training.job_file, 1, parent)


def copied(parent: str, folder: Path) -> str:
    shutil.copytree(parent, folder / "served")
    return str(folder / "served")


def test_a_delta_of_another_version_is_refused(two_versions: tuple, tmp_path: Path) -> None:
    training, _, delta = two_versions
    other = str(tmp_path / "other")
    export_saved_model(training.job_file, other)  # its version 1 is of step 5
    with pytest.raises(UserError, match=r"expected as version 1 step 3 of job small .*; found in .*/1 step 5 of job"):
        apply_delta(delta, other)
    assert os.listdir(other) == ["1"]


@pytest.mark.parametrize("what", ["tables/item.changed", "model/saved_model.pb", "delta.json", "cut", "gone"])
def test_a_damaged_delta_is_refused_and_changes_nothing(two_versions: tuple, tmp_path: Path, what: str) -> None:
    parent = copied(two_versions[1], tmp_path)
    delta = Path(parent, "delta-1-to-2")
    path = delta / ("tables/user.changed" if what in ("cut", "gone") else what)
    raw = bytearray(path.read_bytes())
    if what == "cut":
        path.write_bytes(raw[:-1])
    elif what == "gone":
        path.unlink()
    else:
        raw[len(raw) // 2] ^= 1
        path.write_bytes(raw)
    served = ServedVersions(parent)
    with pytest.raises(UserError, match=rf"{path.name}: (damaged|expected)"):
        served.apply(str(delta))
    assert served.version == 1 and sorted(os.listdir(parent)) == ["1", "delta-1-to-2"]


@pytest.mark.parametrize("kind", ["changed", "removed"])
@pytest.mark.parametrize("count", [-1, 1, 2**40, 2**70])
def test_a_delta_whose_description_tells_another_number_of_rows_is_refused(
    two_versions: tuple, tmp_path: Path, kind: str, count: int
) -> None:
    parent = copied(two_versions[1], tmp_path)
    delta = Path(parent, "delta-1-to-2")
    content = json.loads((delta / "delta.json").read_text())
    del content["crc32"]
    assert content["tables"]["user"]["changed"] > 1 and content["tables"]["user"]["removed"] == 0
    content["tables"]["user"][kind] = count
    crc = zlib.crc32(json.dumps(content).encode())
    (delta / "delta.json").write_text(json.dumps({**content, "crc32": crc}))
    with pytest.raises(UserError, match=rf"(delta.json: tables.user.{kind}|/user.(changed|removed)): expected "):
        apply_delta(str(delta))
    assert sorted(os.listdir(parent)) == ["1", "delta-1-to-2"]


def test_a_delta_that_leaves_out_a_table_is_refused(two_versions: tuple, tmp_path: Path) -> None:
    parent = copied(two_versions[1], tmp_path)
    delta = Path(parent, "delta-1-to-2")
    content = json.loads((delta / "delta.json").read_text())
    del content["crc32"], content["tables"]["user"]
    crc = zlib.crc32(json.dumps(content).encode())
    (delta / "delta.json").write_text(json.dumps({**content, "crc32": crc}))
    with pytest.raises(UserError, match=r"delta-1-to-2: expected changes of the model's tables \(.*user.*\), found"):
        apply_delta(str(delta))


def test_a_serving_process_moves_on_at_once_and_back(two_versions: tuple, tmp_path: Path) -> None:
    training, parent, _ = two_versions
    parent = copied(parent, tmp_path)
    inputs = serving_inputs(training.job, batch_of(np.random.default_rng(7), 9), padding=0)
    served = ServedVersions(parent)
    before = served.score(inputs)["logit"].tobytes()
    seen: set[bytes] = set()
    done = threading.Event()

    def ask() -> None:
        while not done.is_set():
            seen.add(served.score(inputs)["logit"].tobytes())

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        assert served.apply(os.path.join(parent, "delta-1-to-2")) == 2
        after = served.score(inputs)["logit"].tobytes()
        assert after != before
        with pytest.raises(UserError, match="expected a delta of version 2, which is served, found one of version 1"):
            served.apply(os.path.join(parent, "delta-1-to-2"))
        assert served.roll_back() == 1
    finally:
        done.set()
        asking.join()
    assert seen <= {before, after}
    assert served.score(inputs)["logit"].tobytes() == before
    assert sorted(os.listdir(parent)) == ["1", "delta-1-to-2"]
    with pytest.raises(UserError, match="expected a version that was served before"):
        served.roll_back()
    with pytest.raises(UserError, match="expected version 1 and another one"):
        withdraw(parent, 1)


def test_a_version_that_nothing_leads_to_is_named(two_versions: tuple) -> None:
    training, parent, _ = two_versions
    with pytest.raises(UserError, match="expected version 7, or a delta that leads to it, found none"):
        export_delta(training.job_file, 7, parent)
