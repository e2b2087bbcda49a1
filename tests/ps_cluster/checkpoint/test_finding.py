"""A checkpoint is whole or it is passed over, by the name of what is wrong with it."""

from __future__ import annotations

import json
import os
import shutil
import zlib
from pathlib import Path

import numpy as np
import pytest

from ps_cluster.checkpoint.finding import below, checkpoint_at, newest_checkpoint
from ps_cluster.errors import UserError
from ps_cluster.job.schema import Job
from ps_cluster.train.session import groups_of
from ps_cluster.train.state import state_in
from tests.ps_cluster.checkpoint.trained import Trained
from tests.ps_cluster.small_job import job_of, saved
from tests.ps_cluster.stores import store_of

DAMAGES = 200
TABLES = ("genres", "item", "user")
FILES = ["dense.npz", *(f"tables/{table}/ps-000-of-001.table" for table in TABLES)]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An output folder with one checkpoint."""
    output = tmp_path_factory.mktemp("output")
    saved(job_of(), str(output))
    return output


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An output folder with a full checkpoint of step 2 and deltas of steps 4 and 6."""
    output = tmp_path_factory.mktemp("chain")
    trained = Trained(delta_job(), str(output))
    for step in (2, 4, 6):
        trained.train_until(step)
        trained.saver.save_without_end(step)
    return output


def delta_job() -> Job:
    return job_of({"checkpoint": {"every_steps": 2, "deltas": 5, "keep": 10}})


@pytest.fixture
def output(whole: Path, tmp_path: Path) -> Path:
    """A copy to damage."""
    shutil.copytree(whole, tmp_path / "output")
    return tmp_path / "output"


def newest(output: Path):
    return newest_checkpoint(below(str(output)))


def refused(output: Path, file: str, step: int = 3) -> str:
    """The message, which is one line and names the file."""
    with pytest.raises(UserError) as error:
        newest(output)
    message = str(error.value)
    assert message.startswith(f"{output}/checkpoint/step-{step:010d}/{file}: "), message
    assert "\n" not in message
    return message


def test_a_whole_checkpoint_is_found_with_all_its_files(output: Path) -> None:
    checkpoint = newest(output)
    assert checkpoint.step == 3
    assert checkpoint.folder == str(output / "checkpoint" / "step-0000000003")
    on_disk = {
        os.path.relpath(os.path.join(folder, name), checkpoint.folder)
        for folder, _, names in os.walk(checkpoint.folder)
        for name in names
    }
    assert on_disk == {*FILES, "manifest.json"}
    assert sorted(checkpoint.tables()) == list(TABLES)
    sizes = {file: os.path.getsize(os.path.join(checkpoint.folder, file)) for file in FILES}
    assert checkpoint.manifest.bytes == sum(sizes.values())
    for table in TABLES:
        ((level,),) = [checkpoint.levels(table)]
        (shard,) = level.table.shards
        assert (level.path(shard), shard.bytes) == (f"{checkpoint.folder}/{shard.file}", sizes[shard.file])
    for place in (output, output / "checkpoint", checkpoint.folder, f"{checkpoint.folder}/"):
        assert checkpoint_at(str(place)) == checkpoint_at(str(place), devices=()) == checkpoint


def test_damage_anywhere_in_a_chain_of_checkpoints_is_found(chain: Path, tmp_path: Path) -> None:
    whole = newest(chain)
    assert [one.step for one in (whole, *whole.chain)] == [6, 4, 2]
    root = chain / "checkpoint"
    files = sorted(path for path in root.rglob("*") if path.is_file())
    assert len(files) == 3 * (len(FILES) + 1)
    # Of the bases the tables alone are needed, and the manifests.
    needed = [path for path in files if path.name != "dense.npz" or "0006" in str(path)]
    random = np.random.default_rng(7)
    for case in range(DAMAGES):
        path = needed[int(random.integers(len(needed)))]
        content = path.read_bytes()
        kind = ("byte", "cut", "gone")[min(case % 8, 2)]
        if kind == "gone":
            path.unlink()
        elif kind == "cut":
            path.write_bytes(content[: int(random.integers(len(content)))])
        else:
            changed = bytearray(content)
            changed[int(random.integers(len(content)))] ^= int(random.integers(1, 256))
            path.write_bytes(changed)
        told: list[str] = []
        try:
            found = newest_checkpoint(str(root), tell=told.append)
            assert found.step < 6, (path, kind)
            assert f"the newest whole checkpoint is that of step {found.step}" in told.pop()
        except UserError as error:
            told = str(error).splitlines()
        assert any(line.startswith(f"{path}: ") for line in told), (path, kind, told)
        path.write_bytes(content)
    assert newest(chain).step == 6


def test_a_folder_in_place_of_a_file_is_named(output: Path) -> None:
    for file in FILES:
        path = output / "checkpoint" / "step-0000000003" / file
        content = path.read_bytes()
        path.unlink()
        assert "missing" in refused(output, file)
        path.mkdir()
        refused(output, file)
        path.rmdir()
        path.write_bytes(content)
    newest(output)


def test_damaged_bytes_all_over_the_manifest_are_found(output: Path) -> None:
    path = output / "checkpoint" / "step-0000000003" / "manifest.json"
    content = path.read_bytes()
    random = np.random.default_rng(0)
    for place in range(int(random.integers(4)), len(content), 4):
        changed = bytearray(content)
        # Blanks become other blanks, so that the text stays JSON wherever it can.
        changed[place] = ord("\t") if content[place] in b" \n" else content[place] ^ int(random.integers(1, 256))
        path.write_bytes(changed)
        assert "Error" not in refused(output, "manifest.json")
    for wrong in (content[:-1], b"", b"{}", b"[]", b"null", b"3", content + b"\n"):
        path.write_bytes(wrong)
        assert "Error" not in refused(output, "manifest.json")
    path.unlink()
    assert refused(output, "manifest.json").endswith("missing: the checkpoint was never finished, or the file is lost")


def test_a_manifest_with_changed_values_is_refused(output: Path) -> None:
    path = output / "checkpoint" / "step-0000000003" / "manifest.json"
    text = path.read_text()
    for old, new in (('"step": 3', '"step": 4'), ('"name": "user"', '"name": "uses"'), ('"slots": 1', '"slots": 2')):
        assert old in text
        path.write_text(text.replace(old, new))
        assert "damaged" in refused(output, "manifest.json")


def test_other_format_versions_are_named(output: Path) -> None:
    path = output / "checkpoint" / "step-0000000003" / "manifest.json"
    content = json.loads(path.read_text())
    for more in ({}, {"new_field": 1, "tables": None}):
        path.write_text(json.dumps({**content, **more, "format_version": 4}))
        assert refused(output, "manifest.json").endswith("expected format version 3, found 4")
    path.write_text(json.dumps({"format_version": 1, "step": 3, "trained": {}, "files": [], "crc32": 0}))
    assert "expected format version 3, found 1, which this release does not read" in refused(output, "manifest.json")


def test_a_checkpoint_of_the_format_before_is_read_but_not_resumed_from(output: Path) -> None:
    path = output / "checkpoint" / "step-0000000003" / "manifest.json"
    content = {**json.loads(path.read_text()), "format_version": 2}
    del content["training"], content["crc32"]
    crc32 = zlib.crc32(json.dumps(content, indent=1).encode())
    path.write_text(json.dumps({**content, "crc32": crc32}, indent=1))
    found = newest(output)
    assert found.step == 3
    with pytest.raises(UserError, match="expected where training stood, found nothing of it"):
        state_in(found)


def test_a_file_of_another_checkpoint_is_refused(output: Path, tmp_path: Path) -> None:
    saved(job_of(), str(tmp_path / "other"), step=4)
    file = "tables/user/ps-000-of-001.table"
    shutil.copy(tmp_path / "other/checkpoint/step-0000000004" / file, output / "checkpoint/step-0000000003" / file)
    assert "expected the file of the manifest" in refused(output, file)


def test_no_checkpoint_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    for _ in range(2):
        with pytest.raises(UserError, match="checkpoint: expected a checkpoint, found none \\(train the job first\\)"):
            newest(tmp_path)
        (tmp_path / "checkpoint").mkdir(exist_ok=True)


def test_damage_to_the_newest_is_told_and_the_one_before_taken(
    output: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved(job_of(), str(output), step=12)
    folder = output / "checkpoint" / "step-0000000012"
    assert newest(output).step == 12
    assert capsys.readouterr().err == ""
    (folder / "dense.npz").unlink()
    with open(folder / "tables/item/ps-000-of-001.table", "r+b") as file:
        file.seek(300)
        byte = file.read(1)[0]
        file.seek(300)
        file.write(bytes([byte ^ 1]))
    assert newest(output).step == 3
    dense, table, taken = capsys.readouterr().err.splitlines()
    assert dense == f"{folder}/dense.npz: missing"
    assert table.startswith(f"{folder}/tables/item/ps-000-of-001.table: ")
    assert taken == f"{output}/checkpoint: the newest whole checkpoint is that of step 3"
    with pytest.raises(UserError, match=r"dense\.npz: missing\n.*item"):
        checkpoint_at(str(folder))


def test_a_delta_whose_base_was_written_again_is_refused(chain: Path, tmp_path: Path) -> None:
    shutil.copytree(chain, tmp_path / "output")
    other = Trained(delta_job(), str(tmp_path / "other"), seed=9)
    other.train_until(2)
    other.saver.save_without_end(2)
    place = tmp_path / "output/checkpoint/step-0000000002"
    shutil.rmtree(place)
    shutil.copytree(tmp_path / "other/checkpoint/step-0000000002", place)
    told: list[str] = []
    assert newest_checkpoint(str(tmp_path / "output/checkpoint"), tell=told.append).step == 2
    wrong = f"{place}/manifest.json: expected the checkpoint that step 4 is based on, found another one"
    assert told.count(wrong) == 1  # two deltas are based on it


def test_tables_come_back_into_a_new_store(whole: Path) -> None:
    checkpoint = newest(whole)
    store = store_of(groups_of(job_of()))
    store.restore(checkpoint.levels_of(store.table_names()))
    for table in store.stats():
        (level,) = checkpoint.levels(table.name)
        assert table.total.rows == level.table.shards[0].rows > 0


def test_a_table_that_the_checkpoint_has_not_is_named(whole: Path) -> None:
    with pytest.raises(UserError, match=r"step-0000000003: expected files of table shop, found tables: genres, item"):
        newest(whole).levels("shop")
