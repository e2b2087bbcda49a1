"""The variables of a SavedModel on the disk, written and read in pieces.

A SavedModel is saved with tables of one row, which costs nothing; then its variables are written anew, the tables in
slices, each a file of TensorFlow's own format, and put together under one index. So a table of any size is written with
a piece of it in memory, and whoever loads the model reads it as any other.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import trackable_object_graph_pb2 as object_graph

from ops.lookup_concat import unmix
from ps_cluster.errors import UserError
from ps_cluster.export.frozen_layout import (
    TABLES,
    Form,
    check_size,
    parts_of,
    pieces,
    rows_at_once,
    shapes_of,
    variable_name,
)
from ps_cluster.export.ordered_rows import Chunk, OrderedRows, chunk_of
from ps_cluster.export.row_types import VARIABLE_TYPES, RowType

_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
_ATTRIBUTE = "VARIABLE_VALUE"
_TFRA_TABLE = "table"
"""Attribute of a table of TFRA's: of its two values the keys end in `-keys` and `-values`."""


def bundle_of(model: str) -> str:
    """The prefix of the files of a SavedModel's variables."""
    return os.path.join(model, "variables", "variables")


def keys_by_name(bundle: str) -> dict[str, str]:
    """By a variable's name, what its value is called in the files; a table of TFRA's has two, `NAME/keys` and
    `NAME/values`.

    Raises:
        UserError: there are no variables, or they cannot be read.
    """
    try:
        (raw,) = tf.raw_ops.RestoreV2(prefix=bundle, tensor_names=[_GRAPH], shape_and_slices=[""], dtypes=[tf.string])
    except tf.errors.OpError as error:
        raise UserError(f"{bundle}.index: expected the variables of a SavedModel, found: {error.message}") from None
    graph = object_graph.TrackableObjectGraph.FromString(raw.numpy())
    found = {}
    for number, node in enumerate(graph.nodes):
        for attribute in node.attributes:
            key = attribute.checkpoint_key
            if attribute.name == _ATTRIBUTE:
                found[attribute.full_name] = key
            elif attribute.name == _TFRA_TABLE:  # has no name itself: what holds it is kept under the table's
                name = _held_as(graph, _held_as(graph, number)[0])[1]
                found |= {variable_name(name, part): f"{key}-{part}" for part in ("keys", "values")}
    return found


def _held_as(graph: object_graph.TrackableObjectGraph, number: int) -> tuple[int, str]:
    """The first object that holds an object of a SavedModel, and its name there."""
    return next(
        (holder, child.local_name)
        for holder, node in enumerate(graph.nodes)
        for child in node.children
        if child.node_id == number and holder != number
    )


def replace_tables(model: str, form: Form, tables: Iterable[tuple[str, OrderedRows]]) -> dict[str, int]:
    """Writes the variables of a SavedModel anew, with these rows in its tables; all other values stay.

    tables: all of the model's, by name, each wanted only when the one before is written.

    Returns:
        Rows of each table.

    Raises:
        tf.errors.OpError: the disk is full, or cannot be written.
    """
    bundle = bundle_of(model)
    names = keys_by_name(bundle)
    of_tables = {key for name, key in names.items() if name.startswith(TABLES)}
    reader = tf.train.load_checkpoint(bundle)
    others = {key: reader.get_tensor(key) for key in sorted(reader.get_variable_to_shape_map()) if key not in of_tables}
    del reader
    written = [_save(model, 0, {key: (tf.constant(value), "") for key, value in others.items()})]
    found = {}
    for name, rows in tables:
        check_size(form, name, rows.num_rows)
        found[name] = rows.num_rows
        shapes = shapes_of(form, rows)
        done = dict.fromkeys(shapes, 0)
        for piece in pieces(form, rows):
            values: dict[str, tuple[np.ndarray, str]] = {}
            for part, piece_values in piece.items():
                key = names[variable_name(name, part)]
                if part not in shapes:
                    values[key] = (piece_values, "")
                    continue
                shape, start = shapes[part], done[part]
                done[part] += len(piece_values)
                if len(piece_values) == shape[0]:
                    values[key] = (piece_values, "")
                elif len(piece_values):
                    values[key] = (piece_values, _slice(shape, start, len(piece_values)))
            written.append(_save(model, len(written), values))
    for old in os.listdir(os.path.dirname(bundle)):
        if old.startswith("variables."):
            os.unlink(os.path.join(os.path.dirname(bundle), old))
    tf.raw_ops.MergeV2Checkpoints(checkpoint_prefixes=written, destination_prefix=bundle, delete_old_dirs=False)
    return found


def _save(model: str, number: int, values: Mapping[str, tuple[np.ndarray | tf.Tensor, str]]) -> str:
    prefix = os.path.join(model, "variables", f"piece-{number:05d}")
    tf.raw_ops.SaveV2(
        prefix=prefix,
        tensor_names=list(values),
        shape_and_slices=[where for _, where in values.values()],
        tensors=[value for value, _ in values.values()],
    )
    return prefix


def _slice(shape: tuple[int, ...], start: int, count: int) -> str:
    """Rows of a tensor, as SaveV2 and RestoreV2 want it: the shape of the whole, then a range of each dimension."""
    ranges = [f"{start},{count}", *("-" for _ in shape[1:])]
    return f"{' '.join(map(str, shape))} {':'.join(ranges)}"


class BundleRows:
    """The rows of a table of a SavedModel on the disk, as `OrderedRows`."""

    def __init__(self, model: str, form: Form, row_type: RowType, table: str):
        self._bundle = bundle_of(model)
        self._form = form
        names = keys_by_name(self._bundle)
        try:
            self._keys = {part: names[variable_name(table, part)] for part in parts_of(form, row_type)}
        except KeyError as error:
            raise UserError(f"{model}: expected the variables of table {table}, found none named {error}") from None
        reader = tf.train.load_checkpoint(self._bundle)
        self._shapes = {part: tuple(reader.get_variable_to_shape_map()[key]) for part, key in self._keys.items()}
        self.row_type: RowType = row_type
        self.num_rows = self._shapes["rows"][0] - 1
        self.width = self._shapes["rows"][1]
        values, scales = self._rows_at(self.num_rows, 1)
        self.unknown = Chunk(np.zeros(1, np.int64), np.zeros(1, np.uint64), values, scales)

    def chunks(self) -> Iterator[Chunk]:
        """In the pieces in which they were written: a piece is read whole for any part of it."""
        at_once = rows_at_once(self)
        for start in range(0, self.num_rows, at_once):
            count = min(at_once, self.num_rows - start)
            if self._form == "plain":
                hashes = self._at("hashes", start, count).view(np.uint64) ^ np.uint64(1 << 63)
                keys = unmix(hashes)
            else:
                keys = self._at("keys", start, count)
            yield chunk_of(keys, *self._rows_at(start, count))

    def _rows_at(self, start: int, count: int) -> tuple[np.ndarray, np.ndarray | None]:
        scales = self._at("scales", start, count) if self.row_type == "int8" else None
        return self._at("rows", start, count).view(self.row_type), scales

    def _at(self, part: str, start: int, count: int) -> np.ndarray:
        rows = tf.as_dtype(VARIABLE_TYPES[self.row_type])
        types = {"hashes": tf.int64, "keys": tf.int64, "scales": tf.float32, "rows": rows}
        shape = self._shapes[part]
        where = "" if count == shape[0] else _slice(shape, start, count)
        (values,) = tf.raw_ops.RestoreV2(
            prefix=self._bundle, tensor_names=[self._keys[part]], shape_and_slices=[where], dtypes=[types[part]]
        )
        return values.numpy()
