"""Storage engine: TFRA's cuckoo hash table, created under a name of our own."""

from __future__ import annotations

import tensorflow as tf

# TFRA's own constructor names tables by a counter when it runs eagerly, so that two programs would share tables by
# accident; hence the raw op.
from tensorflow_recommenders_addons.dynamic_embedding.python.ops.cuckoo_hashtable_ops import cuckoo_ops

_FIRST_CAPACITY = 8192
_SAVE_BUFFER_ROWS = 65536


def create(name: str, row_floats: int, device: str) -> tf.Tensor:
    """Returns the handle of table `name` on `device`; creates the table when it is not there yet."""
    with tf.device(device):
        return cuckoo_ops.tfra_cuckoo_hash_table_of_tensors(
            shared_name=name,
            use_node_name_sharing=False,
            key_dtype=tf.int64,
            value_dtype=tf.float32,
            value_shape=[row_floats],
            init_size=_FIRST_CAPACITY,
        )


def size(handle: tf.Tensor) -> tf.Tensor:
    """Rows in the table: int64 scalar."""
    return cuckoo_ops.tfra_cuckoo_hash_table_size(handle)


def save(handle: tf.Tensor, folder: str, name: str) -> tf.Operation:
    """Writes `folder/name-keys` (int64) and `folder/name-values` (float32 rows) where the table lives."""
    return cuckoo_ops.tfra_cuckoo_hash_table_save_to_file_system(
        handle,
        dirpath=folder,
        file_name=name,
        key_dtype=tf.int64,
        value_dtype=tf.float32,
        dirpath_env="",
        append_to_file=False,
        buffer_size=_SAVE_BUFFER_ROWS,
    )
