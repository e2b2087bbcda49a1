"""TFRA's variables over native tables: everything they can do, and what they get wrong over tables of their own."""

from __future__ import annotations

import itertools
import os

os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")

import numpy as np
import pytest
import tensorflow as tf
import tf_keras
from tensorflow_recommenders_addons import dynamic_embedding as de

from ops.embedding import RowLayout, pull, push, request_header, route_ids, table_salt
from ops.native_table import NativeTableCreator
from ops.table import TableConfig, config_of
from tests.ops.reference import initial_value
from tests.ops.tables import layout_of

_numbers = itertools.count()


def fresh() -> str:
    """A name for a variable or a namespace: TFRA keeps the variables of a name for ever."""
    return f"tfra_{next(_numbers)}"


def ids(*keys: int) -> tf.Tensor:
    return tf.constant(keys, tf.int64)


def variable(name: str | None = None, dim: int = 3, shards: int = 1, creator=None, **more) -> de.Variable:
    return de.Variable(
        name=name or fresh(),
        dim=dim,
        devices=["/CPU:0"] * shards,
        kv_creator=creator or NativeTableCreator(fresh()),
        **more,
    )


def content(of: de.Variable) -> dict[int, list[float]]:
    keys, values = of.export()
    return dict(zip(keys.numpy().tolist(), tf.cast(values, tf.float32).numpy().tolist()))


@pytest.mark.parametrize("value_type", [tf.float32, tf.float16, tf.bfloat16])
@pytest.mark.parametrize("shards", [1, 3])
def test_a_variable_reads_and_writes(shards: int, value_type: tf.DType) -> None:
    of = variable(shards=shards, value_dtype=value_type, initializer=-1.0)
    of.upsert(ids(1, 2, 3, 4), tf.cast(tf.reshape(tf.range(12), [4, 3]), value_type))
    values, exists = of.lookup(ids(4, 9, 1), return_exists=True)
    assert exists.numpy().tolist() == [True, False, True]
    assert tf.cast(values, tf.float32).numpy().tolist() == [[9, 10, 11], [-1, -1, -1], [0, 1, 2]]
    of.remove(ids(2, 77))
    assert (int(of.size()), sorted(content(of))) == (3, [1, 3, 4])
    old = of.lookup(ids(1, 2))
    of.accum(ids(1, 2), old, old + 1, tf.constant([True, False]))
    assert content(of)[1] == [1, 2, 3]
    assert content(of)[2] == [0, 0, 0]
    of.clear()
    assert int(of.size()) == 0


def test_the_same_namespace_gives_the_same_table_and_another_gives_another() -> None:
    name, namespace = fresh(), fresh()
    first, again = (variable(name, creator=NativeTableCreator(namespace)) for _ in range(2))
    other = variable(name)
    first.upsert(ids(5), tf.ones([1, 3]))
    assert [int(one.size()) for one in (first, again, other)] == [1, 1, 0]


def test_types_that_the_table_does_not_hold_are_refused() -> None:
    with pytest.raises(ValueError, match="and float32, float16 or bfloat16 values, found int64 and float64"):
        variable(value_dtype=tf.float64)
    with pytest.raises(ValueError, match="found int32 and float32"):
        variable(key_dtype=tf.int32)


def test_a_checkpoint_and_files_bring_a_variable_back(tmp_path) -> None:
    name = fresh()
    of = variable(name, shards=2)
    keys = tf.range(500, dtype=tf.int64)
    of.upsert(keys, tf.random.stateless_normal([500, 3], [1, 2]))
    wanted = content(of)
    path = tf.train.Checkpoint(table=of).save(str(tmp_path / "checkpoint"))
    of.save_to_file_system(str(tmp_path / "files"))
    other = variable(name, shards=2)
    other.upsert(ids(-5), tf.ones([1, 3]))
    tf.train.Checkpoint(table=other).restore(path).assert_consumed()
    assert content(other) == wanted
    third = variable(name, shards=2)
    third.load_from_file_system(str(tmp_path / "files"))
    assert content(third) == wanted
    whole = variable(name)
    whole.load_from_file_system(str(tmp_path / "files"), load_entire_dir=True)
    assert content(whole) == wanted


@pytest.mark.parametrize("make", [lambda: tf_keras.optimizers.Adam(0.1), lambda: tf_keras.optimizers.Adagrad(0.1)])
def test_tfras_optimiser_trains_it_as_it_trains_a_table_of_its_own(make) -> None:
    results = []
    for creator in (NativeTableCreator(fresh()), de.CuckooHashTableCreator()):
        of = variable(creator=creator, initializer=0.5)
        optimizer = de.DynamicEmbeddingOptimizer(make())
        shadow = de.shadow_ops.ShadowVariable(of, name=fresh())
        random = np.random.default_rng(1)
        for _ in range(6):
            keys = random.choice(50, 20, replace=False)
            with tf.GradientTape() as tape:
                vectors = de.shadow_ops.embedding_lookup(shadow, tf.constant(keys, tf.int64))
                loss = tf.reduce_sum(vectors * tf.constant(random.normal(size=[20, 3]), tf.float32))
            optimizer.apply_gradients(zip(tape.gradient(loss, [shadow]), [shadow]))
        results.append(content(of))
    ours, theirs = results
    assert ours == theirs
    assert len(ours) > 30


def test_a_restriction_keeps_the_newest() -> None:
    of = variable(restrict_policy=de.TimestampRestrictPolicy)
    for first in (0, 100, 200):
        keys = tf.range(first, first + 50, dtype=tf.int64)
        of.upsert(keys, tf.ones([50, 3]))
        of.restrict_policy.status.upsert(keys, tf.fill([50, 1], tf.constant(first, tf.int32)))
    of.restrict(60, trigger=100)
    assert int(of.size()) == 60
    assert set(range(200, 250)) <= set(content(of))


# --- What stock TFRA gets wrong --------------------------------------------------------------------------------------


def trainable(shards: int = 1) -> tuple[de.Variable, RowLayout]:
    """A variable whose tables have initial values and an optimiser of their own."""
    name = fresh()
    layout = layout_of(3, "sgd", "normal", tables=(name,))
    creator = NativeTableCreator(fresh(), config_of(layout, 0), initial_by_key=True)
    return variable(name, shards=shards, creator=creator), layout


def test_gradients_of_every_duplicate_in_a_raw_lookup_count() -> None:
    of, layout = trainable()
    keys = ids(5, 5, 5, 6)
    before = of.lookup(keys)
    with tf.GradientTape() as tape:
        tape.watch(before)
        loss = tf.reduce_sum(before)
    gradient = tape.gradient(loss, before)
    header = request_header(0, tf.constant(1, tf.int64), tf.constant(1, tf.int64), tf.constant(1.0))
    (request,), positions = route_ids(header, [keys], [0], layout.salts, 1)
    summed = tf.math.unsorted_segment_sum(gradient, positions, 2)
    push([of.tables[0].resource_handle], request, summed, layout, 1, fresh())
    np.testing.assert_allclose(of.lookup(keys) - before, np.outer([-3, -3, -3, -1], np.ones(3)), rtol=1e-5)


def test_an_id_starts_the_same_wherever_it_stands_and_however_many_shards_there_are() -> None:
    of, layout = trainable(shards=3)
    keys = np.arange(40)
    together = of.lookup(tf.constant(keys, tf.int64)).numpy()
    want = [initial_value("normal", 0.05, 7, layout.salts[0], key, 3) for key in keys.tolist()]
    np.testing.assert_array_max_ulp(together, np.stack(want), maxulp=1)
    assert len(np.unique(together, axis=0)) == 40
    turned = of.lookup(tf.constant(np.concatenate([keys[::-1], keys[:5]]), tf.int64)).numpy()
    np.testing.assert_array_equal(turned, np.concatenate([together[::-1], together[:5]]))


def test_rows_and_slots_are_one_table_that_one_pull_and_one_push_serve() -> None:
    adam = layout_of(3, "adam", "normal")
    trained = variable(creator=NativeTableCreator(fresh(), config_of(adam, 0), initial_by_key=True))
    handle = trained.tables[0].resource_handle
    header = request_header(0, tf.constant(1, tf.int64), tf.constant(1, tf.int64), tf.constant(0.1))
    (request,), _ = route_ids(header, [ids(1, 2)], [0], adam.salts, 1)

    @tf.function
    def step() -> tf.Tensor:
        rows = pull([handle], request, adam, True)
        push([handle], request, tf.ones_like(rows), adam, 1, fresh())
        return rows

    assert step().shape == (2, 3)
    ops = step.get_concrete_function().graph.get_operations()
    touching = [op.type for op in ops if any(tensor.dtype == tf.resource for tensor in op.inputs)]
    assert touching == ["PsClusterPull", "PsClusterPush"]
    assert trained.export()[1].shape == (2, 3)  # the slots are the row's own


def test_wide_rows_are_as_exact_as_narrow_ones() -> None:
    of = variable(dim=300)
    keys, values = tf.range(2000, dtype=tf.int64), tf.random.stateless_normal([2000, 300], [3, 4])
    of.upsert(keys, values)
    np.testing.assert_array_equal(of.lookup(keys), values)


def test_the_salt_is_the_variables_and_not_the_shards() -> None:
    of = variable("some/scope_name", shards=2, creator=NativeTableCreator(fresh(), TableConfig(()), True))
    assert {table._table_config.salt for table in of.tables} == {table_salt("some_scope_name")}
