"""The native table behind TFRA's interface, for `dynamic_embedding.get_variable(..., kv_creator=...)`."""

from __future__ import annotations

import re

import tensorflow as tf
from tensorflow_recommenders_addons import dynamic_embedding as de

from ops import table as ops
from ops.embedding import Tier, table_salt

_VALUE_TYPES = (tf.float32, tf.float16, tf.bfloat16)


class _NamedCuckooTable(de.CuckooHashTable):
    """TFRA's own table under a name that is ours, where TFRA takes one from a counter when it runs eagerly."""

    def __init__(self, shared_name: str, **arguments):
        self._given_name = shared_name
        super().__init__(**arguments)

    def _create_resource(self) -> tf.Tensor:
        self._shared_name = self._given_name
        return super()._create_resource()


class NativeTable(de.CuckooHashTable):
    """One shard of a TFRA variable. TFRA's own find, insert, remove, size, export and import serve any lookup table;
    what they do to a cuckoo table's insides is replaced here."""

    def __init__(self, shared_name: str, table_config: ops.TableConfig, initial_by_key: bool, **arguments):
        self._native_name = shared_name
        self._table_config = table_config
        self._initial_by_key = initial_by_key
        super().__init__(**arguments)

    def _create_resource(self) -> tf.Tensor:
        # In place of TFRA's name, which comes from a counter when it runs eagerly.
        with tf.device(self._device):
            handle = ops.create(self._native_name, self._table_config, self._name)
        self._table_name = None if tf.executing_eagerly() else handle.op.name.split("/")[-1]
        return handle

    def lookup(self, keys, dynamic_default_values=None, return_exists=False, name=None):
        with tf.name_scope(name or "lookup_table_find"), tf.device(self.resource_handle.device):
            keys = tf.convert_to_tensor(keys, self._key_dtype)
            if self._initial_by_key:
                default = tf.cast(ops.initial_values(self.resource_handle, keys), self._value_dtype)
            else:
                default = self._default_value if dynamic_default_values is None else dynamic_default_values
            values, exists = ops.find(self.resource_handle, keys, default)
        return (values, exists) if return_exists else values

    def accum(self, keys, values_or_deltas, exists, name=None):
        with tf.name_scope(name or "lookup_table_accum"), tf.device(self.resource_handle.device):
            return ops.accumulate(
                self.resource_handle,
                tf.convert_to_tensor(keys, self._key_dtype),
                tf.convert_to_tensor(values_or_deltas, self._value_dtype),
                tf.convert_to_tensor(exists, tf.bool),
            )

    def clear(self, name=None):
        with tf.name_scope(name or "lookup_table_clear"), tf.device(self.resource_handle.device):
            return ops.clear(self.resource_handle)

    def save_to_file_system(
        self,
        dirpath,
        file_name=None,
        dirpath_env="TFRA_SAVED_KV",
        append_to_file=False,
        buffer_size=4194304,
        name=None,
    ):
        """As TFRA's, but that `dirpath_env`, a way around `dirpath`, is not read."""
        with tf.name_scope(name or "save_table"), tf.device(self.resource_handle.device):
            return ops.save_files(self.resource_handle, dirpath, file_name or self._name, append_to_file, buffer_size)

    def load_from_file_system(
        self,
        dirpath,
        file_name=None,
        dirpath_env="TFRA_SAVED_KV",
        load_entire_dir=False,
        buffer_size=4194304,
        name=None,
    ):
        """As TFRA's, but that `dirpath_env`, a way around `dirpath`, is not read."""
        with tf.name_scope(name or "load_table"), tf.device(self.resource_handle.device):
            return ops.load_files(self.resource_handle, dirpath, file_name or self._name, load_entire_dir, buffer_size)


class NativeTableCreator(de.KVCreator):
    """Makes native tables for TFRA's variables.

    Args:
      namespace: tables are named `namespace/SHARD`, SHARD as TFRA names the variable's shards: the same namespace and
        variable give the same table in every program.
      table: what the tables are; the width, value type and salt are the variable's. Default: no initial values, no
        admission, no eviction, no optimiser of its own.
      initial_by_key: an id that is not there reads as the initial value that `table` gives its key; otherwise as what
        TFRA's initializer gives its place in the batch.
      saver: a saver of TFRA's for files beside a checkpoint.
    """

    def __init__(
        self,
        namespace: str,
        table: ops.TableConfig | None = None,
        initial_by_key: bool = False,
        saver: de.FileSystemSaver | None = None,
    ):
        super().__init__(saver=saver)
        self._namespace = namespace
        self._table = table or ops.TableConfig(tiers=())
        self._initial_by_key = initial_by_key

    def create(
        self,
        key_dtype=None,
        value_dtype=None,
        default_value=None,
        name=None,
        checkpoint=None,
        init_size=0,
        config=None,
        device=None,
        shard_saveable_object_fn=None,
    ) -> de.CuckooHashTable:
        shared_name = f"{self._namespace}/{name}"
        arguments = {
            "key_dtype": key_dtype,
            "value_dtype": value_dtype,
            "default_value": default_value,
            "name": name,
            "checkpoint": checkpoint,
            "init_size": init_size,
            "device": device,
            "shard_saveable_object_fn": shard_saveable_object_fn,
        }
        if key_dtype == tf.int64 and value_dtype == tf.int32:
            # What TFRA's restriction policies keep of a variable's ids: times, counts.
            return _NamedCuckooTable(shared_name, **arguments)
        if key_dtype != tf.int64 or value_dtype not in _VALUE_TYPES:
            raise ValueError(
                f"table {name}: expected int64 keys and float32, float16 or bfloat16 values, found "
                f"{tf.as_dtype(key_dtype).name} and {tf.as_dtype(value_dtype).name}"
            )
        width = int(tf.convert_to_tensor(default_value).shape[-1])
        settings = {
            **vars(self._table),
            "tiers": (Tier(width),),
            "value_type": tf.as_dtype(value_dtype).name,
            # Of the variable, so that an id starts the same however many shards there are.
            "salt": table_salt(re.sub(r"_mht_\d+of\d+$", "", name)),
        }
        return NativeTable(shared_name, ops.TableConfig(**settings), self._initial_by_key, **arguments)
