"""Saves and restores on real PS processes: beside training, over other numbers of PS, and when a process is killed."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from ops.embedding import table_salt
from ops.shards import read_blocks
from ps_cluster.checkpoint.finding import Checkpoint, newest_checkpoint
from ps_cluster.checkpoint.rows import rows_of
from tests.data.s3_server import S3
from tests.ops.reference import owner_of
from tests.ps_cluster.checkpoint.save_client import STEPS_BEFORE, STEPS_MEANWHILE, groups, ids_of, train_in
from tests.ps_cluster.ps_processes import START_SECONDS, running_ps, start
from tests.ps_cluster.small_job import FIELDS
from tests.ps_cluster.stores import save, store_of, train


@pytest.fixture(scope="module")
def cluster() -> Iterator[tuple[list[str], list[str]]]:
    with running_ps(4, clients=4) as addresses:
        yield addresses


def run_client(what: str, folder: Path | str, ps: list[str], address: str) -> subprocess.CompletedProcess[str]:
    client = start("-m", "tests.ps_cluster.checkpoint.save_client", what, str(folder), ",".join(ps), address)
    try:
        out, err = client.communicate(timeout=START_SECONDS)
    finally:
        client.kill()
        client.communicate()
    return subprocess.CompletedProcess(client.args, client.returncode, out, err)


def rows_in(checkpoint: Checkpoint) -> dict[int, tuple]:
    """Every row of `user` by key, as bytes."""
    found: dict[int, tuple] = {}
    for rows in rows_of(checkpoint, "user"):
        for index, key in enumerate(rows.keys.tolist()):
            assert key not in found
            columns = (rows.last_steps, rows.frequencies, rows.embeddings, rows.slots)
            found[key] = (rows.row_class, *(column[index].tobytes() for column in columns))
    return found


def trained_here(steps: list[int], folder: Path) -> dict[int, dict[int, tuple]]:
    """The same training in this process; its rows after each of `steps`."""
    store = store_of(groups())
    states = {}
    for step in range(1, max(steps) + 1):
        train_in(store, train, tf.constant(ids_of(step)), tf.constant(step, tf.int64))
        if step in steps:
            here = folder / f"here-{step}"
            states[step] = rows_in_folder(here, save(store, str(here), step))
    return states


def rows_in_folder(folder: Path, tables) -> dict[int, tuple]:
    from ps_cluster.checkpoint.manifest import DenseFile, Manifest

    return rows_in(Checkpoint(str(folder), Manifest(0, None, {}, None, DenseFile("", 0, 0), tables)))


def test_what_is_saved_while_training_goes_on_is_the_state_of_its_step(cluster: tuple, tmp_path: Path) -> None:
    ps, workers = cluster
    done = run_client("meanwhile", tmp_path, ps[:2], workers[0])
    assert done.returncode == 0, done.stderr
    first, last = json.loads(done.stdout.splitlines()[0])
    end = STEPS_BEFORE + STEPS_MEANWHILE
    assert (first["step"], first["is_delta"], last["step"], last["is_delta"]) == (STEPS_BEFORE, False, end, True)
    want = trained_here([STEPS_BEFORE, end], tmp_path)
    newest = newest_checkpoint(str(tmp_path))
    assert [newest.step, *(one.step for one in newest.chain)] == [end, STEPS_BEFORE]
    assert rows_in(newest.chain[0]) == want[STEPS_BEFORE]
    assert rows_in(newest) == want[end]


def test_rows_move_from_4_ps_over_3_to_1_bit_for_bit(cluster: tuple, tmp_path: Path) -> None:
    ps, workers = cluster
    done = run_client("reshard", tmp_path, ps, workers[1])
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
    want = trained_here([2], tmp_path)[2]
    for name, num_ps in (("four", 4), ("three", 3), ("one", 1)):
        checkpoint = newest_checkpoint(str(tmp_path / name))
        assert rows_in(checkpoint) == want
        (table,) = checkpoint.manifest.tables
        assert table.is_delta == (name == "four")
        assert [(shard.ps, shard.num_ps) for shard in table.shards] == [(ps, num_ps) for ps in range(num_ps)]
        for shard in table.shards:
            blocks = read_blocks(f"{checkpoint.folder}/{shard.file}")
            keys = [key for block in blocks for key in block.keys.tolist()]
            assert keys
            assert all(owner_of(key, table_salt("user"), num_ps) == shard.ps for key in keys)


def test_one_ps_is_refilled_and_the_others_stay_as_they_are(cluster: tuple, tmp_path: Path) -> None:
    ps, workers = cluster
    done = run_client("refill", tmp_path, ps[1:], workers[3])
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
    whole, part = (rows_in(newest_checkpoint(str(tmp_path / name))) for name in ("whole", "part"))
    own = {key: row for key, row in whole.items() if owner_of(key, table_salt("user"), 3) == 1}
    assert part == own
    assert 0 < len(own) < len(whole)


def test_a_worker_killed_in_a_save_leaves_the_checkpoint_before(
    cluster: tuple, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ps, workers = cluster
    done = run_client("killed", tmp_path, ps[:2], workers[2])
    assert done.returncode == -9, done.stderr
    files = sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file())
    assert files == [
        "step-0000000001/dense.npz",
        "step-0000000001/manifest.json",
        *(f"step-000000000{step}/tables/user/ps-00{ps}-of-002.table" for step in (1, 2) for ps in (0, 1)),
    ]
    newest = newest_checkpoint(str(tmp_path))
    assert newest.step == 1
    assert "step-0000000002/manifest.json: missing: the checkpoint was never finished" in capsys.readouterr().err
    assert rows_in(newest) == trained_here([1], tmp_path / "here")[1]


@pytest.mark.slow
def test_checkpoints_lie_in_an_object_store(s3: S3, tmp_path: Path) -> None:
    folder = f"{s3.url}/some/place"
    job = {**FIELDS, "cluster": {"ps": 2, "workers": 1}, "checkpoint": {"folder": folder}}
    path = tmp_path / "job.yaml"
    path.write_text(json.dumps(job))
    with running_ps(2, clients=1, job=str(path)) as (ps, workers):
        done = run_client("meanwhile", folder, ps, workers[0])
    assert done.returncode == 0, done.stderr
    first, last = json.loads(done.stdout.splitlines()[0])
    end = STEPS_BEFORE + STEPS_MEANWHILE
    assert (first["step"], last["step"], last["is_delta"]) == (STEPS_BEFORE, end, True)
    want = trained_here([end], tmp_path)[end]

    status, out, err = table_command("ls", folder)
    assert status == 0, err
    assert out.splitlines()[-1].split()[:2] == ["user", f"{len(want):,}"]
    keys = sorted(want)[:3]
    status, out, err = table_command("get", folder, "user", *map(str, keys))
    assert status == 0, err
    for key, line in zip(keys, out.splitlines(), strict=True):
        embedding = json.loads(line)["row"]["embedding"]
        assert np.array(embedding, np.float32).tobytes() == want[key][3]

    name = f"some/place/step-{end:010d}/tables/user/ps-000-of-002.table"
    with s3.filesystem().open_input_stream(f"{s3.bucket}/{name}") as file:
        content = bytearray(file.read())
    content[-300] ^= 1
    s3.put(name, bytes(content))
    status, _, err = table_command("top", folder, "user")
    assert status == 2
    assert err.startswith(f"{s3.url}/{name}: block ")


def table_command(*arguments: str) -> tuple[int, str, str]:
    done = start("-m", "ps_cluster", "table", *arguments)
    out, err = done.communicate(timeout=START_SECONDS)
    return done.returncode, out, err
