"""Tables on real PS processes: spread by owner, trained by two workers, moved between different numbers of PS."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from ops.embedding import table_salt
from ps_cluster.checkpoint.manifest import Shard, StoredTable
from tests.ops.reference import initial_value, owner_of
from tests.ps_cluster.add_clients import added, go
from tests.ps_cluster.ps_processes import START_SECONDS, running_ps, start
from tests.ps_cluster.store_client import PUSH_DIM, PUSH_KEYS, PUSH_STEPS, RESHARD_STEPS, gradients_of
from tests.ps_cluster.stores import SGD, groups_of_all, random_ids, rows_on_disk, save, shard_on_disk, store_of, train


@pytest.fixture(scope="module")
def cluster() -> Iterator[tuple[list[str], list[str]]]:
    with running_ps(3, clients=3) as addresses:
        yield addresses


def run_clients(what: str, folder: Path, ps: list[str], workers: list[str]) -> None:
    """Connects one client after the other, as workers do, then lets them go on together."""
    clients = [
        start("-m", "tests.ps_cluster.store_client", what, str(folder), ",".join(ps), address, str(rank))
        for rank, address in enumerate(workers)
    ]
    try:
        for client in clients:
            assert client.stdout.readline() == "imported\n"
        for client in clients:
            go(client)
            assert client.stdout.readline() == "connected\n"
        for client in clients:
            go(client)
        for client in clients:
            out, err = client.communicate(timeout=START_SECONDS)
            assert (client.returncode, out) == (0, "done\n"), err
    finally:
        for client in clients:
            client.kill()
            client.communicate()


def tables_of(told: list[dict]) -> list[StoredTable]:
    return [
        StoredTable(**{**one, "dims": tuple(one["dims"]), "shards": tuple(Shard(**shard) for shard in one["shards"])})
        for one in told
    ]


def test_tables_move_between_numbers_of_ps_bit_for_bit(cluster: tuple, tmp_path: Path) -> None:
    ps, workers = cluster
    run_clients("reshard", tmp_path, ps, workers[:1])
    told = json.loads((tmp_path / "told.json").read_text())

    # The same training with all tables in this process.
    store = store_of(groups_of_all())
    random = np.random.default_rng(0)
    for step in range(1, RESHARD_STEPS + 1):
        train(store, random_ids(random, 200, most=2000), step, batch_rows=200)
    want = rows_on_disk(str(tmp_path / "here"), save(store, str(tmp_path / "here")))
    assert all(len(rows) > 500 for rows in want.values())

    for name, num_ps in (("two", 2), ("one", 1), ("three", 3)):
        tables = tables_of(told[name][0])
        folder = str(tmp_path / name)
        assert rows_on_disk(folder, tables) == want
        assert told[name][1] == {table.name: table.rows for table in store.stats()}
        for table in tables:
            assert len(table.shards) == num_ps
            for shard in table.shards:
                keys = shard_on_disk(folder, shard)
                assert keys
                assert all(owner_of(key, table_salt(table.name), num_ps) == shard.ps for key in keys)


def test_two_workers_train_as_the_sum_of_both(cluster: tuple, tmp_path: Path) -> None:
    ps, workers = cluster
    run_clients("together", tmp_path, ps, workers[1:])
    (rows,) = rows_on_disk(str(tmp_path), tables_of(json.loads((tmp_path / "told.json").read_text()))).values()

    want: dict[int, np.ndarray] = {}
    last: dict[int, int] = {}
    size = np.full(PUSH_KEYS, 0.0)
    for step in range(1, PUSH_STEPS + 1):
        shares = [gradients_of(rank, step) for rank in range(2)]
        all_rows = sum(rows_of for _, _, rows_of in shares)
        for keys, gradients, _ in shares:
            for key, gradient in zip(keys.tolist(), gradients.astype(np.float64)):
                start_value = initial_value("uniform", 0.5, 5, table_salt("user"), key, PUSH_DIM).astype(np.float64)
                want[key] = want.get(key, start_value) - SGD.learning_rate * gradient / all_rows
                size[key] = max(size[key], np.abs(gradient).max())
                last[key] = step
    assert rows.keys() == want.keys()
    for key, row in rows.items():
        assert row[0] == 1
        last_step, _, _ = np.frombuffer(row[1:13], "<u4").tolist()
        np.testing.assert_allclose(np.frombuffer(row[13:], "<f4"), want[key], rtol=0, atol=1e-6 * max(1.0, size[key]))
        assert last_step == last[key]


def test_processes_and_threads_that_add_to_the_same_rows_lose_nothing(cluster: tuple) -> None:
    ps, workers = cluster
    assert added(ps[0], workers, "ours", 100) == (800.0, 800.0)
