"""The native table as TensorFlow's lookup ops and our own see it."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf

from ops.embedding import Admission, Tier, table_salt
from ops.table import (
    END,
    TableConfig,
    accumulate,
    clear,
    create,
    export_block,
    find,
    initial_values,
    load_files,
    save_files,
    stats,
)
from ps_cluster.embedding import cuckoo
from tests.ops.reference import initial_value
from tests.ops.tables import Group, layout_of

TYPES = ("float32", "float16", "bfloat16")
CONFIG = TableConfig(tiers=(Tier(3),))
_numbers = itertools.count()


def new(config: TableConfig = CONFIG) -> tf.Tensor:
    return create(f"native-{next(_numbers)}", config)


def ids(*keys: int) -> tf.Tensor:
    return tf.constant(keys, tf.int64)


def size(table: tf.Tensor) -> int:
    return int(tf.raw_ops.LookupTableSizeV2(table_handle=table))


def exported(table: tf.Tensor, value_type: str = "float32") -> dict[int, list[float]]:
    keys, values = tf.raw_ops.LookupTableExportV2(table_handle=table, Tkeys=tf.int64, Tvalues=tf.as_dtype(value_type))
    return dict(zip(keys.numpy().tolist(), tf.cast(values, tf.float32).numpy().tolist()))


@pytest.mark.parametrize("value_type", TYPES)
@pytest.mark.parametrize("width", [1, 7, 130])
def test_tensorflows_lookup_ops_do_what_a_dictionary_does(width: int, value_type: str) -> None:
    table = new(TableConfig(tiers=(Tier(width),), value_type=value_type))
    random = np.random.default_rng(width)
    wanted: dict[int, np.ndarray] = {}
    default = tf.constant(np.full(width, 0.5), value_type)
    for _ in range(12):
        keys = random.integers(-30, 30, random.integers(0, 40))
        values = tf.constant(random.normal(size=[len(keys), width]), value_type)
        tf.raw_ops.LookupTableInsertV2(table_handle=table, keys=tf.constant(keys, tf.int64), values=values)
        wanted.update(zip(keys.tolist(), values.numpy()))  # of duplicates the last one stays
        gone = random.integers(-30, 30, 5)
        tf.raw_ops.LookupTableRemoveV2(table_handle=table, keys=tf.constant(gone, tf.int64))
        for key in gone.tolist():
            wanted.pop(key, None)
        asked = random.integers(-40, 40, [4, 5])
        got = tf.raw_ops.LookupTableFindV2(
            table_handle=table, keys=tf.constant(asked, tf.int64), default_value=default
        ).numpy()
        assert got.shape == (4, 5, width)
        for key, row in zip(asked.ravel().tolist(), got.reshape(-1, width)):
            np.testing.assert_array_equal(row, wanted.get(key, default.numpy()))
        assert size(table) == len(wanted)
        assert exported(table, value_type) == {key: row.astype(np.float32).tolist() for key, row in wanted.items()}
    tf.raw_ops.LookupTableImportV2(
        table_handle=table, keys=ids(4, 5), values=tf.constant(np.ones([2, width]), value_type)
    )
    assert exported(table, value_type) == {4: [1.0] * width, 5: [1.0] * width}


@pytest.mark.parametrize("value_type", TYPES)
def test_find_tells_what_is_there_and_takes_a_default_for_each_key(value_type: str) -> None:
    table = new(replace(CONFIG, value_type=value_type))
    tf.raw_ops.LookupTableInsertV2(table_handle=table, keys=ids(1), values=tf.constant([[1, 2, 3]], value_type))
    defaults = tf.constant([[7, 7, 7], [8, 8, 8], [9, 9, 9]], value_type)
    values, exists = find(table, ids(0, 1, 2), defaults)
    assert exists.numpy().tolist() == [False, True, False]
    assert tf.cast(values, tf.float32).numpy().tolist() == [[7, 7, 7], [1, 2, 3], [9, 9, 9]]
    values, exists = find(table, tf.reshape(ids(0, 1), [1, 2]), defaults[0])
    assert (exists.shape, values.shape) == ([1, 2], [1, 2, 3])
    with pytest.raises(tf.errors.InvalidArgumentError, match="one for each of 2 keys, found shape"):
        find(table, ids(0, 1), defaults)


@pytest.mark.parametrize("value_type", TYPES)
def test_accumulate_adds_to_what_is_there_and_inserts_what_is_not_if_it_was_so_before(value_type: str) -> None:
    table = new(replace(CONFIG, value_type=value_type))
    ones = tf.ones([4, 3], value_type)
    tf.raw_ops.LookupTableInsertV2(table_handle=table, keys=ids(1, 2), values=ones[:2])
    accumulate(table, ids(1, 2, 3, 4), 2 * ones, tf.constant([True, False, True, False]))
    assert exported(table, value_type) == {1: [3.0] * 3, 2: [1.0] * 3, 4: [2.0] * 3}
    accumulate(table, ids(1, 1, 1, 1), ones, tf.constant([True] * 4))
    assert exported(table, value_type)[1] == [7.0] * 3


def test_a_cleared_table_is_empty_and_goes_on() -> None:
    table = new()
    for _ in range(2):
        tf.raw_ops.LookupTableInsertV2(table_handle=table, keys=ids(1, 2), values=tf.ones([2, 3]))
        assert size(table) == 2
        clear(table)
        assert (size(table), exported(table)) == (0, {})


def test_blocks_hold_every_row_once() -> None:
    table = new()
    keys = np.random.default_rng(0).permutation(5000) * 12345
    values = np.stack([keys % 1000, keys % 77, keys % 13], axis=1).astype(np.float32)
    tf.raw_ops.LookupTableInsertV2(table_handle=table, keys=tf.constant(keys), values=tf.constant(values))
    found: dict[int, list[float]] = {}
    cursor = tf.constant(0, tf.int64)
    while cursor != END:
        block = export_block(table, cursor, 700)
        assert block.keys.shape[0] <= 700
        assert not found.keys() & set(block.keys.numpy().tolist())
        found.update(zip(block.keys.numpy().tolist(), block.values.numpy().tolist()))
        cursor = block.next
    assert found == dict(zip(keys.tolist(), values.tolist()))


def test_initial_values_follow_from_the_key_alone() -> None:
    config = TableConfig((Tier(5),), initial_kind="uniform", initial_scale=0.3, salt=table_salt("user"), seed=9)
    keys = [3, -1, 3, 1 << 60]
    got = initial_values(new(config), ids(*keys))
    want = [initial_value("uniform", 0.3, 9, table_salt("user"), key, 5) for key in keys]
    np.testing.assert_array_equal(got, np.stack(want))


def test_a_name_has_one_config() -> None:
    tf.raw_ops.LookupTableInsertV2(table_handle=create("native-one", CONFIG), keys=ids(1), values=tf.ones([1, 3]))
    assert size(create("native-one", CONFIG)) == 1
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"table native-one: seed: expected 5, but .* has 0"):
        create("native-one", replace(CONFIG, seed=5))
    cuckoo.create("native-other", 3, "/CPU:0")
    with pytest.raises(tf.errors.InvalidArgumentError, match="native-other: the name belongs to another kind of table"):
        create("native-other", CONFIG)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tiers": (Tier(0),)}, r"dims\[0\]: expected 1 to 2\^20, found 0"),
        ({"tiers": (Tier(4), Tier(2, 5))}, "tier"),
        ({"optimizer": "lion", "optimizer_settings": ()}, "optimizer: expected sgd, .* found 'lion'"),
        ({"admission": Admission("exact", threshold=0)}, r"admission_threshold: expected 1 to 2\^32 - 1, found 0"),
        ({"admission": Admission("bloom", threshold=2)}, "capacity"),
        ({"num_sub_tables": 3}, "num_sub_tables"),
    ],
)
def test_a_wrong_config_is_named(changes: dict, message: str) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        new(replace(CONFIG, **changes))


def test_ops_of_the_native_table_refuse_another_kind() -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match="table: expected a native table, found"):
        stats(cuckoo.create("native-third", 3, "/CPU:0"))


def test_files_are_those_of_tfra(tmp_path) -> None:
    random = np.random.default_rng(5)
    keys, values = tf.constant(random.permutation(3000)), tf.constant(random.normal(size=[3000, 3]), tf.float32)
    ours, theirs = new(), cuckoo.create(f"native-files-{tmp_path}", 3, "/CPU:0")
    tf.raw_ops.LookupTableInsertV2(table_handle=ours, keys=keys, values=values)
    save_files(ours, str(tmp_path / "a"), "t_mht_1of1", append=False, block_rows=700)
    cuckoo.cuckoo_ops.tfra_cuckoo_hash_table_load_from_file_system(
        theirs, str(tmp_path / "a"), "t_mht_1of1", tf.int64, tf.float32, "", False, 1000
    )
    wanted = dict(zip(keys.numpy().tolist(), values.numpy().tolist()))
    assert exported(theirs) == wanted
    cuckoo.save(theirs, str(tmp_path / "b"), "t_mht_1of1")
    again = new()
    load_files(again, str(tmp_path / "b"), "t_mht_1of1", whole_folder=False, block_rows=700)
    assert exported(again) == wanted
    # Shards of a variable; and a file that lacks a byte.
    save_files(ours, str(tmp_path / "c"), "t_mht_1of2", append=False, block_rows=700)
    clear(ours)
    tf.raw_ops.LookupTableInsertV2(table_handle=ours, keys=ids(-1), values=tf.ones([1, 3]))
    save_files(ours, str(tmp_path / "c"), "t_mht_2of2", append=False, block_rows=700)
    clear(ours)
    load_files(ours, str(tmp_path / "c"), "t_mht_1of1", whole_folder=True, block_rows=700)
    assert exported(ours) == {**wanted, -1: [1.0] * 3}
    path = tmp_path / "c" / "t_mht_2of2-values"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(tf.errors.DataLossError, match=r"t_mht_2of2-values: expected 12 bytes for the 1 keys"):
        load_files(ours, str(tmp_path / "c"), "t_mht_2of2", whole_folder=False, block_rows=700)


def test_stats_tell_what_the_pushes_did() -> None:
    group = Group(layout_of(2, admission=Admission("exact", threshold=3)))
    group.push([1, 2, 3], np.zeros([3, 2]), 1, occurrences=[5, 2, 1])
    group.pull([1, 2])
    told = json.loads(stats(group.handles[0]).numpy())
    assert [told[name] for name in ("rows", "counted_keys", "admitted", "looked_up", "hits")] == [1, 2, 1, 2, 1]
    assert told["hot_keys"][0] == [1, 5]
    assert told["bytes"] > told["payload_bytes"] == 16 + 8
    assert group.size() == 1
