"""The store looks up, learns, saves and counts; tables of this one process."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from ops.embedding import table_salt
from ps_cluster.embedding.groups import plan_groups
from ps_cluster.embedding.ps_store import PsEmbeddingStore
from ps_cluster.embedding.store import StepInfo
from ps_cluster.embedding.table_stats import stats_of
from ps_cluster.errors import UserError
from ps_cluster.job.table_schema import AdmitByCount, Eviction, Table
from tests.ops.reference import initial_value
from tests.ps_cluster.stores import (
    ADAGRAD,
    ADAM,
    SGD,
    TABLES,
    groups_of_all,
    id_of,
    info_of,
    levels_in,
    list_of,
    look_up,
    ragged,
    random_ids,
    rows_on_disk,
    save,
    store_of,
    table_of,
    train,
)

POOLINGS = ("mean", "sum", "sqrtn", "none")
IDS = st.integers(-4, 20)


def start_of(table: str, key: int, dim: int) -> np.ndarray:
    return initial_value("uniform", 0.5, 5, table_salt(table), key, dim).astype(np.float64)


@st.composite
def batches(draw: st.DrawFn) -> tuple[list[int], list[int], dict[str, list[list[int]]]]:
    rows = draw(st.integers(0, 6))
    column = st.lists(IDS, min_size=rows, max_size=rows)
    lists = st.lists(st.lists(IDS, max_size=5), min_size=rows, max_size=rows)
    return draw(column), draw(column), {pooling: draw(lists) for pooling in POOLINGS}


@pytest.fixture(scope="module")
def shared() -> PsEmbeddingStore:
    """One table for an id and four lists, a second one for another id."""
    tables = {"item": table_of(3), "user": table_of(3)}
    features = [id_of("shown", "item"), *(list_of(pooling, "item", pooling) for pooling in POOLINGS)]
    return store_of(plan_groups(tables, [*features, id_of("user", "user")], SGD, seed=5))


@settings(max_examples=25, deadline=None)
@given(batches())
def test_vectors_are_the_pooled_initial_values(shared: PsEmbeddingStore, batch: tuple) -> None:
    shown, users, lists = batch
    got = look_up(
        shared,
        {
            "shown": tf.constant(shown, tf.int64),
            "user": tf.constant(users, tf.int64),
            **{pooling: ragged(of_pooling) for pooling, of_pooling in lists.items()},
        },
    )
    for name, table, ids in (("shown", "item", shown), ("user", "user", users)):
        want = np.array([start_of(table, key, 3) for key in ids]).reshape(-1, 3)
        np.testing.assert_array_equal(got[name], want)
    for pooling in ("mean", "sum", "sqrtn"):
        scale = {"mean": lambda n: n, "sum": lambda n: 1, "sqrtn": np.sqrt}[pooling]
        want = [
            sum((start_of("item", key, 3) for key in one), np.zeros(3)) / scale(len(one) or 1) for one in lists[pooling]
        ]
        np.testing.assert_allclose(got[pooling], np.array(want).reshape(-1, 3), rtol=1e-5, atol=1e-6)
    elements, mask = got["none"]
    assert mask.numpy().sum(axis=1).tolist() == [len(one) for one in lists["none"]]
    for row, one in enumerate(lists["none"]):
        np.testing.assert_array_equal(
            elements[row, : len(one)], np.array([start_of("item", key, 3) for key in one]).reshape(-1, 3)
        )
    assert [table.rows for table in shared.stats()] == [0, 0]


def test_a_step_moves_each_row_by_the_sum_of_all_its_uses() -> None:
    tables = {"item": table_of(2)}
    features = [id_of("shown", "item"), *(list_of(pooling, "item", pooling) for pooling in POOLINGS)]
    store = store_of(plan_groups(tables, features, SGD, seed=5))
    shown = [1, 2, 1]
    lists = {
        "mean": [[1, 1, 3], [], [4]],
        "sum": [[], [1], [4, 4]],
        "sqrtn": [[1, 2, 3, 3], [], []],
        "none": [[9], [], [1, 9]],
    }
    ids = {"shown": tf.constant(shown, tf.int64), **{pooling: ragged(lists[pooling]) for pooling in POOLINGS}}
    train(store, ids, batch_rows=4, factor=0.25)

    # d loss / d vector = 1 + vector; from there back to the rows, in float64.
    rows = {key: start_of("item", key, 2) for key in (1, 2, 3, 4, 9)}
    gradient = {key: np.zeros(2) for key in rows}
    for key in shown:
        gradient[key] += 1 + rows[key]
    for pooling, of_pooling in lists.items():
        for one in of_pooling:
            share = {"mean": 1 / max(len(one), 1), "sum": 1, "sqrtn": max(len(one), 1) ** -0.5, "none": 1}[pooling]
            pooled = sum((rows[key] for key in one), np.zeros(2)) * share
            for key in one:
                gradient[key] += 1 + rows[key] if pooling == "none" else (1 + pooled) * share
    keys = list(rows)
    got = look_up(store, {**ids, "shown": tf.constant(keys, tf.int64)}, training=False)["shown"]
    want = [rows[key] - SGD.learning_rate * 0.25 * gradient[key] / 4 for key in keys]
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    assert store.stats()[0].rows == 5


@pytest.mark.parametrize("engine", ["native", "tfra_cuckoo"])
def test_every_group_learns_by_its_own_rule(engine: Literal["native", "tfra_cuckoo"]) -> None:
    store = store_of(groups_of_all(engine))
    train(store, {**random_ids(np.random.default_rng(0), 0), "user": tf.constant([7], tf.int64)}, step=1)
    assert {table.name: table.rows for table in store.stats()} == {"user": 1, "item": 0, "genre": 0, "place": 0}
    ids = {
        "user": tf.constant([8], tf.int64),
        "shown": tf.constant([8], tf.int64),
        "history": ragged([[]]),
        "genres": ragged([[8]]),
        "place": tf.constant([8], tf.int64),
    }
    before = look_up(store, ids)
    train(store, ids, step=1, factor=0.5)
    after = look_up(store, ids, training=False)
    moved = {name: after[name].numpy() - before[name].numpy() for name in ("user", "shown", "genres", "place")}
    gradient = {name: 1 + before[name].numpy() for name in moved}
    np.testing.assert_allclose(moved["place"], -0.25 * gradient["place"], rtol=1e-5)
    np.testing.assert_allclose(
        moved["genres"], -0.05 * gradient["genres"] / np.sqrt(0.1 + gradient["genres"] ** 2), rtol=1e-5
    )
    # The first step of Adam is as long as the learning rate.
    for name in ("user", "shown"):
        np.testing.assert_allclose(moved[name], -0.005 * np.ones([1, 4]), rtol=1e-4)


def test_an_unknown_id_counts_as_zeros_in_evaluation_and_is_not_inserted() -> None:
    store = store_of(groups_of_all())
    ids = random_ids(np.random.default_rng(0), 6)
    for vectors in look_up(store, ids, training=False).values():
        assert not (vectors[0] if isinstance(vectors, tuple) else vectors).numpy().any()
    assert sum(table.rows for table in store.stats()) == 0


def test_an_empty_batch_and_a_missing_gradient_change_nothing() -> None:
    store = store_of(groups_of_all())
    train(store, random_ids(np.random.default_rng(0), 0), batch_rows=0)
    looked_up = store.lookup(random_ids(np.random.default_rng(0), 3), info_of(), training=True)
    store.apply(looked_up, [None] * 3)
    assert sum(table.rows for table in store.stats()) == 0


def test_sparse_and_dense_gradients_do_the_same() -> None:
    ids = random_ids(np.random.default_rng(1), 5)
    stores = [store_of(groups_of_all()) for _ in range(2)]
    for store, dense in zip(stores, (False, True)):
        looked_up = store.lookup(ids, info_of(), training=True)
        gradients = []
        for rows in looked_up.rows:
            slices = tf.IndexedSlices(tf.ones_like(rows), tf.range(tf.shape(rows)[0]), tf.shape(rows))
            gradients.append(tf.convert_to_tensor(slices) if dense else slices)
        store.apply(looked_up, gradients)
    first, second = (look_up(store, ids, training=False) for store in stores)
    np.testing.assert_array_equal(first["user"], second["user"])
    np.testing.assert_array_equal(first["genres"], second["genres"])


def test_it_works_inside_one_traced_function_for_all_batch_sizes() -> None:
    store, eager = store_of(groups_of_all()), store_of(groups_of_all())
    spec = {
        name: tf.RaggedTensorSpec([None, None], tf.int64)
        if name in ("history", "genres")
        else tf.TensorSpec([None], tf.int64)
        for name in ("user", "shown", "history", "genres", "place")
    }
    traces = []

    @tf.function(input_signature=[spec, tf.TensorSpec([], tf.int64)])
    def run(ids: dict, step: tf.Tensor) -> None:
        traces.append(1)
        looked_up = store.lookup(ids, StepInfo(step, tf.constant(1, tf.int64), tf.constant(1.0)), training=True)
        with tf.GradientTape() as tape:
            tape.watch(looked_up.rows)
            loss = tf.add_n(
                [
                    tf.reduce_sum(part + part * part / 2)
                    for part in (
                        vectors[0] if isinstance(vectors, tuple) else vectors
                        for vectors in looked_up.vectors(looked_up.rows).values()
                    )
                ]
            )
        store.apply(looked_up, tape.gradient(loss, looked_up.rows))

    random = np.random.default_rng(2)
    for step, batch in enumerate((5, 1, 0, 8), start=1):
        ids = random_ids(random, batch)
        run(ids, tf.constant(step, tf.int64))
        train(eager, ids, step)
    assert len(traces) == 1
    ids = random_ids(random, 50)
    first, second = look_up(store, ids, training=False), look_up(eager, ids, training=False)
    for name in ("user", "shown", "genres", "place"):
        np.testing.assert_allclose(first[name], second[name], rtol=1e-5, atol=1e-6)


def test_a_namespace_is_found_again_and_others_are_apart() -> None:
    groups = plan_groups({"user": table_of(2)}, [id_of("user", "user")], SGD, seed=5)
    first, again, other = (store_of(groups, namespace=name) for name in ("space-a", "space-a", "space-b"))
    train(first, {"user": tf.constant([1, 2, 3], tf.int64)})
    assert [store.stats()[0].rows for store in (first, again, other)] == [3, 3, 0]


@pytest.mark.parametrize("engine", ["native", "tfra_cuckoo"])
def test_stats_count_rows_and_their_bytes(engine: Literal["native", "tfra_cuckoo"]) -> None:
    store = store_of(groups_of_all(engine))
    ids = random_ids(np.random.default_rng(3), 30)
    train(store, ids, batch_rows=30)
    unique = unique_ids(ids)
    floats = {"user": 14, "item": 14, "genre": 6, "place": 6}
    dims = {"user": 4, "item": 4, "genre": 2, "place": 4}
    for table in store.stats():
        rows = len(unique[table.name])
        assert table.rows == rows
        assert table.payload_bytes == rows * (8 + 4 * floats[table.name]) <= table.total.bytes
        assert (table.total.rows_by_tier, table.total.embedding_values) == ((rows,), rows * dims[table.name])


def unique_ids(ids: dict) -> dict[str, set[int]]:
    """What `random_ids` names, by table."""
    return {
        "user": set(ids["user"].numpy()),
        "item": set(ids["shown"].numpy()) | set(ids["history"].flat_values.numpy()),
        "genre": set(ids["genres"].flat_values.numpy()),
        "place": set(ids["place"].numpy()),
    }


def test_stats_sum_over_all_ps_and_keep_each() -> None:
    # Two tables of one name on one device are one: three namespaces stand for three PS.
    tables = {"user": table_of(2)}
    groups = plan_groups(tables, [id_of("user", "user")], SGD, seed=5)
    stores = [store_of(groups) for _ in range(3)]
    for number, store in enumerate(stores):
        for step in range(1, number + 3):
            ids = tf.constant([number, number, 100 + step], tf.int64)
            train(store, {"user": ids}, step, batch_rows=3)
    per_ps = [store.stats()[0] for store in stores]
    summed = stats_of("user", True, [(one.total, one.hot_ids) for one in per_ps])
    assert [one.rows for one in summed.per_ps] == [3, 4, 5]
    assert (summed.rows, summed.total.inserted) == (12, 12)
    assert summed.total.looked_up == sum(2 * (number + 2) for number in range(3))
    # Each store finds its own id from the second step on, and no other.
    assert summed.total.hits == sum(number + 1 for number in range(3))
    assert summed.total.hit_share == summed.total.hits / summed.total.looked_up
    assert summed.hot_ids[:3] == ((2, 8), (1, 6), (0, 4))
    assert summed.total.bytes == sum(one.total.bytes for one in per_ps)


def test_admission_counts_occurrences_and_shows_its_cold_value() -> None:
    admission = AdmitByCount(kind="exact", threshold=3, cold_value=0.25)
    tables = {"user": table_of(2, admission=admission)}
    groups = plan_groups(tables, [id_of("user", "user"), id_of("other", "user")], SGD, seed=5)
    store = store_of(groups)
    ids = {"user": tf.constant([1, 2, 1], tf.int64), "other": tf.constant([1, 2, 3], tf.int64)}
    np.testing.assert_array_equal(look_up(store, ids)["user"], np.full([3, 2], 0.25))
    train(store, ids, batch_rows=3)
    got = look_up(store, ids)
    # Id 1 occurred three times and starts where it would have started; 2 and 3 wait.
    np.testing.assert_array_equal(got["user"][0], start_of("user", 1, 2))
    np.testing.assert_array_equal(got["other"][1:], np.full([2, 2], 0.25))
    (stats,) = store.stats()
    assert (stats.rows, stats.total.counted_ids, stats.total.admitted) == (1, 2, 1)
    np.testing.assert_array_equal(look_up(store, ids, training=False)["other"][1:], np.full([2, 2], 0.25))


def test_evicted_ids_are_told_where_the_table_logs_them() -> None:
    rules = {"max_age_steps": 2}
    tables = {
        "user": table_of(2, eviction=Eviction(**rules, log=True)),
        "item": table_of(2, eviction=Eviction(**rules)),
    }
    groups = plan_groups(tables, [id_of("user", "user"), id_of("item", "item")], SGD, seed=5)
    store = store_of(groups)
    for step, number in enumerate((1, 2, 3, 4, 5, 6), start=1):
        ids = tf.constant([number], tf.int64)
        train(store, {"user": ids, "item": ids}, step)
    # A row lives for two steps after its last one.
    now = info_of(6)
    every = tf.constant([1, 2, 3, 4, 5, 6], tf.int64)
    looked_up = store.lookup({"user": every, "item": every}, now, training=False)
    there = looked_up.vectors(looked_up.rows)["user"].numpy().any(axis=1)
    assert there.tolist() == [False, False, False, True, True, True]
    # Evaluation, which is of no step, sees the same.
    evaluated = look_up(store, {"user": every, "item": every}, training=False, step=0)["user"].numpy()
    assert evaluated.any(axis=1).tolist() == there.tolist()
    # Their memory comes back little by little, as steps go by.
    told: list[int] = []
    for _ in range(1000):
        train(store, {"user": tf.constant([6], tf.int64), "item": tf.constant([6], tf.int64)}, step=6)
        evicted = store.take_evicted()
        assert list(evicted) == ["user"]
        told += evicted["user"]
        if len(told) >= 3 and store.stats()[1].total.evicted_age >= 3:
            break
    assert sorted(told) == [1, 2, 3]
    assert [table.total.evicted_age for table in store.stats()] == [3, 3]


@pytest.mark.parametrize("transport", ["float16", "bfloat16"])
def test_16_bits_on_the_way_round_and_no_more(transport: str) -> None:
    exact, narrow = store_of(groups_of_all()), store_of(groups_of_all(), transport=transport)
    ids = random_ids(np.random.default_rng(6), 20)
    relative = {"float16": 2.0**-11, "bfloat16": 2.0**-8}[transport]
    for name, vectors in look_up(narrow, ids).items():
        whole = look_up(exact, ids)[name]
        if isinstance(vectors, tuple):
            vectors, whole = vectors[0], whole[0]
        assert vectors.dtype == tf.float32
        np.testing.assert_allclose(vectors, whole, rtol=0, atol=relative)
        assert not np.array_equal(vectors, whole)
    for store in (exact, narrow):
        train(store, ids, batch_rows=20)
    first, second = (look_up(store, ids, training=False)["place"] for store in (exact, narrow))
    np.testing.assert_allclose(first, second, rtol=0, atol=4 * relative)


def test_saved_tables_come_back_bit_for_bit(tmp_path: Path) -> None:
    store = store_of(groups_of_all())
    random = np.random.default_rng(4)
    for step in range(1, 5):
        train(store, random_ids(random, 20), step, batch_rows=20)
    one, two = str(tmp_path / "one"), str(tmp_path / "two")
    saved = save(store, one)
    shards = [shard for table in saved for shard in table.shards]
    assert {shard.file for shard in shards} == {f"tables/{table}/ps-000-of-001.table" for table in TABLES}
    for shard in shards:
        assert os.path.getsize(os.path.join(one, shard.file)) == shard.bytes
    other = store_of(groups_of_all())
    rows = other.restore(levels_in(one, saved))
    assert (
        rows
        == {table.name: table.rows for table in store.stats()}
        == {table.name: table.rows for table in other.stats()}
    )
    assert rows_on_disk(two, save(other, two)) == rows_on_disk(one, saved)
    # And they learn on from there as if nothing had happened.
    ids = random_ids(random, 20)
    for one in (store, other):
        train(one, ids, 5, batch_rows=20)
    np.testing.assert_array_equal(look_up(store, ids)["user"], look_up(other, ids)["user"])


def test_empty_tables_are_saved_and_restored(tmp_path: Path) -> None:
    store = store_of(groups_of_all())
    saved = save(store, str(tmp_path))
    assert [table.shards[0].rows for table in saved] == [0] * 4
    assert set(store_of(groups_of_all()).restore(levels_in(str(tmp_path), saved)).values()) == {0}


@pytest.mark.parametrize(("dim", "optimizer"), [(3, SGD), (2, ADAM)])
def test_a_table_that_was_trained_otherwise_is_refused(tmp_path: Path, dim: int, optimizer) -> None:
    user = [id_of("user", "user")]
    store = store_of(plan_groups({"user": table_of(2)}, user, SGD, 5))
    saved = levels_in(str(tmp_path), save(store, str(tmp_path)))
    other = store_of(plan_groups({"user": table_of(dim)}, user, optimizer, 5))
    message = f"table user: expected rows of dim {dim} with {optimizer.name}, found dim 2 with sgd"
    with pytest.raises(UserError, match=message):
        other.restore(saved)


def trained_user(table: Table, optimizer, seed: int = 5) -> tuple[PsEmbeddingStore, tf.Tensor]:
    """A store of one table, trained for 3 steps; some of its ids."""
    ids = tf.constant(np.random.default_rng(seed).permutation(500)[:200] - 250, tf.int64)
    store = store_of(plan_groups({"user": table}, [id_of("user", "user")], optimizer, seed))
    for step in range(1, 4):
        train(store, {"user": ids[: 70 * step]}, step, batch_rows=20)
    return store, ids


@pytest.mark.parametrize("engines", [("native", "tfra_cuckoo"), ("tfra_cuckoo", "native")])
@pytest.mark.parametrize("optimizer", [SGD, ADAGRAD, ADAM])
def test_either_engine_restores_what_the_other_saved(tmp_path: Path, engines: tuple, optimizer) -> None:
    one, two = str(tmp_path / "one"), str(tmp_path / "two")
    source, ids = trained_user(table_of(5, engine=engines[0]), optimizer)
    saved = save(source, one)
    assert saved[0].engine == engines[0]
    other = store_of(plan_groups({"user": table_of(5, engine=engines[1])}, [id_of("user", "user")], optimizer, 5))
    other.restore(levels_in(one, saved))
    again = save(other, two)
    assert rows_on_disk(two, again) == rows_on_disk(one, saved)
    assert len(rows_on_disk(two, again)["user"]) == 200
    for store in (source, other):
        train(store, {"user": ids}, 4, batch_rows=20)
    np.testing.assert_array_equal(look_up(source, {"user": ids})["user"], look_up(other, {"user": ids})["user"])


@pytest.mark.parametrize("engine", ["native", "tfra_cuckoo"])
@pytest.mark.parametrize(("dim", "optimizer"), [(5, ADAM), (7, ADAGRAD), (5, SGD)])
def test_embeddings_alone_go_into_other_rows(tmp_path: Path, engine: str, dim: int, optimizer) -> None:
    folder = str(tmp_path)
    source, ids = trained_user(table_of(5), ADAM)
    saved = levels_in(folder, save(source, folder))
    other = store_of(plan_groups({"user": table_of(dim, engine=engine)}, [id_of("user", "user")], optimizer, 9))
    assert other.restore(saved, "embeddings") == {"user": 200}
    got = look_up(other, {"user": ids}, training=False)["user"].numpy()
    np.testing.assert_array_equal(got[:, :5], look_up(source, {"user": ids})["user"])
    assert not got[:, 5:].any()
    # The first step is that of new rows which happen to have these embeddings.
    train(other, {"user": ids}, 1, batch_rows=1)
    moved = look_up(other, {"user": ids}, training=False)["user"].numpy()
    gradient = (1 + got).astype(np.float64)
    step = {
        "sgd": 0.5 * gradient,
        "adagrad": 0.1 * gradient / np.sqrt(0.1 + gradient**2),
        "adam": 0.01 * np.sign(gradient),
    }
    np.testing.assert_allclose(moved, got - step[optimizer.name], rtol=0, atol=1e-5)


def test_embeddings_that_are_too_wide_are_refused(tmp_path: Path) -> None:
    folder = str(tmp_path)
    saved = levels_in(folder, save(trained_user(table_of(5), SGD)[0], folder))
    narrow = store_of(plan_groups({"user": table_of(4)}, [id_of("user", "user")], SGD, 9))
    with pytest.raises(UserError, match="table user: expected embeddings of at most 4 values, found 5"):
        narrow.restore(saved, "embeddings")
