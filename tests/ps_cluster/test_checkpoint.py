"""A checkpoint is whole or it is refused, by the name of the file."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from models.build import build_model
from ps_cluster.errors import UserError
from ps_cluster.job.resolve import inputs_of
from ps_cluster.train.checkpoint import Checkpoint, load_dense, newest_checkpoint, save_checkpoint
from ps_cluster.train.session import groups_of
from tests.ps_cluster.small_job import FIELDS, job_of, optimizer_of, saved
from tests.ps_cluster.stores import store_of

FILES = [
    "dense.npz",
    *(f"tables/{table}/ps-000-of-001-{part}" for table in ("genres", "item", "user") for part in ("keys", "values")),
]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An output folder with one checkpoint."""
    output = tmp_path_factory.mktemp("output")
    saved(job_of(), str(output))
    return output


@pytest.fixture
def output(whole: Path, tmp_path: Path) -> Path:
    """A copy to damage."""
    shutil.copytree(whole, tmp_path / "output")
    return tmp_path / "output"


def refused(output: Path, file: str) -> str:
    """The message, which is one line and names the file."""
    with pytest.raises(UserError) as error:
        newest_checkpoint(str(output))
    message = str(error.value)
    assert message.startswith(f"{output}/checkpoint/step-0000000003/{file}: "), message
    assert "\n" not in message
    return message


def test_a_whole_checkpoint_is_found_with_all_its_files(output: Path) -> None:
    checkpoint = newest_checkpoint(str(output))
    assert checkpoint.step == 3
    assert checkpoint.folder == str(output / "checkpoint" / "step-0000000003")
    assert sorted(entry["file"] for entry in checkpoint.files) == sorted(FILES)
    on_disk = {
        os.path.relpath(os.path.join(folder, name), checkpoint.folder)
        for folder, _, names in os.walk(checkpoint.folder)
        for name in names
    }
    assert on_disk == {*FILES, "manifest.json"}
    assert len(checkpoint.table_files()) == 6


@pytest.mark.parametrize("file", FILES)
def test_any_damage_to_any_file_is_found(output: Path, file: str) -> None:
    path = output / "checkpoint" / "step-0000000003" / file
    content = path.read_bytes()
    random = np.random.default_rng(len(file))
    for place in {0, len(content) // 2, len(content) - 1, *random.integers(0, len(content), 10).tolist()}:
        changed = bytearray(content)
        changed[place] ^= int(random.integers(1, 256))
        path.write_bytes(changed)
        assert "damaged: expected" in refused(output, file)
    for wrong in (content[:-1], content[: len(content) // 2], b"", content + b"\0"):
        path.write_bytes(wrong)
        assert f"damaged: expected {len(content)} bytes" in refused(output, file)
    path.unlink()
    refused(output, file)
    path.mkdir()
    refused(output, file)
    path.rmdir()
    path.write_bytes(content)
    newest_checkpoint(str(output))


def test_any_damaged_byte_of_the_manifest_is_found(output: Path) -> None:
    path = output / "checkpoint" / "step-0000000003" / "manifest.json"
    content = path.read_bytes()
    random = np.random.default_rng(0)
    for place in range(len(content)):
        changed = bytearray(content)
        # Blanks become other blanks, so that the text stays JSON wherever it can.
        changed[place] = ord("\t") if content[place] in b" \n" else content[place] ^ int(random.integers(1, 256))
        path.write_bytes(changed)
        refused(output, "manifest.json")
    for wrong in (content[:-1], b"", b"{}", b"[]", b"null", b"3", content + b"\n"):
        path.write_bytes(wrong)
        refused(output, "manifest.json")
    path.unlink()
    refused(output, "manifest.json")


def test_a_manifest_with_changed_values_is_refused(output: Path) -> None:
    path = output / "checkpoint" / "step-0000000003" / "manifest.json"
    text = path.read_text()
    for old, new in (('"step": 3', '"step": 4'), ('"table": "user"', '"table": "uses"'), ('"dim": 2', '"dim": 1')):
        assert old in text
        path.write_text(text.replace(old, new))
        assert "damaged" in refused(output, "manifest.json")


def test_another_format_version_is_named(output: Path) -> None:
    path = output / "checkpoint" / "step-0000000003" / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "format_version": 2}))
    assert refused(output, "manifest.json").endswith("expected format version 1, found 2")


def test_no_checkpoint_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    for _ in range(2):
        with pytest.raises(UserError, match="checkpoint: expected a checkpoint, found none \\(train the job first\\)"):
            newest_checkpoint(str(tmp_path))
        (tmp_path / "checkpoint").mkdir(exist_ok=True)


def test_the_newest_is_taken_and_an_interrupted_save_ignored(output: Path) -> None:
    parent = output / "checkpoint"
    shutil.copytree(parent / "step-0000000003", parent / "step-0000000012.part")
    (parent / "step-0000000012.part" / "manifest.json").unlink()
    assert newest_checkpoint(str(output)).step == 3
    saved(job_of(), str(output), step=12)
    assert newest_checkpoint(str(output)).step == 12
    assert sorted(os.listdir(parent)) == ["step-0000000003", "step-0000000012"]


def test_saving_a_step_again_replaces_it(output: Path) -> None:
    saved(job_of({"training": {"batch_size": 8, "seed": 9}}), str(output))
    checkpoint = newest_checkpoint(str(output))
    assert checkpoint.step == 3
    assert sorted(entry["file"] for entry in checkpoint.files) == sorted(FILES)


def test_a_save_that_fails_leaves_the_older_checkpoint(output: Path) -> None:
    job = job_of()
    model = build_model(job.model, inputs_of(job), 0)
    store = store_of(groups_of(job))
    (output / "checkpoint" / "step-0000000009.part").mkdir()
    (output / "checkpoint" / "step-0000000009.part" / "junk").touch()

    class NoSpace(type(store)):
        def save(self, folder: str) -> list[dict]:
            super().save(folder)
            raise OSError(28, "No space left on device")

    store.__class__ = NoSpace
    with pytest.raises(OSError, match="No space left"):
        save_checkpoint(str(output), 9, job, store, model, optimizer_of(job, model))
    assert newest_checkpoint(str(output)).step == 3


def test_dense_weights_and_optimiser_come_back_bit_for_bit(tmp_path: Path) -> None:
    job = job_of()
    model, _, _ = saved(job, str(tmp_path))
    checkpoint = newest_checkpoint(str(tmp_path))
    other = build_model(job.model, inputs_of(job), seed=99)
    optimizer = optimizer_of(job, other)
    load_dense(checkpoint, other, optimizer)
    assert len(model.weights) == len(other.weights)
    for want, got in zip(model.weights, other.weights):
        assert want.numpy().tobytes() == got.numpy().tobytes()
    assert int(optimizer.iterations) == 1
    moments = [variable.numpy() for variable in optimizer.variables][2:]
    assert any(moment.any() for moment in moments)
    load_dense(checkpoint, build_model(job.model, inputs_of(job), seed=99))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"model": {"name": "deepfm", "fm_dim": 4, "hidden": [9]}},
            r"expected shape \(.*\), found \(.*\); the job's model",
        ),
        (
            {"model": {"name": "deepfm", "fm_dim": 4, "hidden": [8, 8]}},
            r"expected \d+ weights of the job's model, found \d+",
        ),
        (
            {"optimizers": {**FIELDS["optimizers"], "dense": {"name": "sgd", "learning_rate": 0.1}}},
            r"expected \d+ variables of its optimiser, found \d+",
        ),
    ],
)
def test_weights_of_another_model_are_refused(whole: Path, changes: dict, message: str) -> None:
    job = job_of(changes)
    model = build_model(job.model, inputs_of(job), 0)
    with pytest.raises(
        UserError, match=rf"^{re.escape(str(whole))}/checkpoint/step-0000000003/dense\.npz: .*{message}"
    ):
        load_dense(newest_checkpoint(str(whole)), model, optimizer_of(job, model))


def test_tables_come_back_into_a_new_store(whole: Path) -> None:
    checkpoint: Checkpoint = newest_checkpoint(str(whole))
    store = store_of(groups_of(job_of()))
    store.restore(checkpoint.folder, checkpoint.table_files())
    for table in store.stats():
        entry = next(e for e in checkpoint.files if e.get("table") == table.name and e["part"] == "keys")
        assert table.rows == entry["bytes"] // 8 > 0
