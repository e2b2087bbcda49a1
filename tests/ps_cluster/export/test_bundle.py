"""A SavedModel whose tables were written in pieces is loaded as any other, and read again in pieces."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from ops.lookup_concat import Arrangement, IdInput, Segment, lookup_concat
from ps_cluster.errors import UserError
from ps_cluster.export.bundle import BundleRows, bundle_of, keys_by_name, replace_tables
from ps_cluster.export.frozen_layout import Form
from ps_cluster.export.hashed_table import HashedTable
from ps_cluster.export.ordered_rows import joined, ordered
from ps_cluster.export.row_types import RowType, as_float, stored
from ps_cluster.export.static_table import StaticTable
from tests.ps_cluster.export.large_table import UNKNOWN, WIDTH, keys_of, large_table, rows_for

CASES = [("plain", "float32"), ("plain", "int8"), ("ops", "float16"), ("ops", "int8")]


class LookUp(tf.Module):
    """A model of one table and one weight."""

    def __init__(self, form: Form, row_type: RowType):
        super().__init__()
        self.weight = tf.Variable(3.0, name="weight")
        self.table = (StaticTable if form == "plain" else HashedTable)("item", WIDTH, row_type)
        self.look_up = tf.function(self._look_up, [tf.TensorSpec([None], tf.int64, "ids")], autograph=False)

    def _look_up(self, ids: tf.Tensor) -> dict[str, tf.Tensor]:
        if isinstance(self.table, StaticTable):
            return {"vectors": self.weight * self.table.lookup(ids)}
        arrangement = Arrangement((IdInput("ids", 0),), (), (Segment(0, 0, WIDTH, 0, 0),), 1, WIDTH)
        read = self.table.read()
        return {"vectors": self.weight * lookup_concat(arrangement, [ids], [], [], [read])[0]}


def expected(ids: np.ndarray, known: np.ndarray, row_type: RowType) -> np.ndarray:
    rows = np.where(known[:, np.newaxis], rows_for(ids), np.float32(UNKNOWN))
    return np.float32(3) * as_float(*stored(rows, row_type, "item"))


def write(folder: Path, form: Form, row_type: RowType) -> str:
    module = LookUp(form, row_type)
    model = str(folder / "model")
    tf.saved_model.save(module, model, signatures={"serving_default": module.look_up})
    (rows,) = ordered(large_table(), row_type, str(folder / "scratch"), "item")
    assert replace_tables(model, form, [("item", rows)]) == {"item": rows.num_rows}
    return model


@pytest.mark.parametrize(("form", "row_type"), CASES)
def test_every_row_is_found_in_a_model_written_in_pieces(tmp_path: Path, form: Form, row_type: RowType) -> None:
    model = write(tmp_path, form, row_type)
    names = sorted(path.name for path in (tmp_path / "model" / "variables").iterdir())
    assert names[-1] == "variables.index" and all(name.startswith("variables.data-") for name in names[:-1])
    if row_type == "float32":
        assert len(names) > 3  # more than one piece
    keys = keys_of()
    ids = np.concatenate([keys[::7], keys[:999] + 1])
    known = np.append(np.ones(len(keys[::7]), bool), np.zeros(999, bool))
    loaded = tf.saved_model.load(model)
    got = loaded.signatures["serving_default"](ids=tf.constant(ids))["vectors"].numpy()
    np.testing.assert_array_equal(got, expected(ids, known, row_type))
    # As TF Serving loads it: a session that runs the restoring ops of the graph.
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        meta = tf.compat.v1.saved_model.loader.load(session, ["serve"], model)
        signature = meta.signature_def["serving_default"]
        got = session.run(signature.outputs["vectors"].name, {signature.inputs["ids"].name: ids})
    np.testing.assert_array_equal(got, expected(ids, known, row_type))


@pytest.mark.parametrize(("form", "row_type"), CASES)
def test_rows_are_read_again_in_their_order(tmp_path: Path, form: Form, row_type: RowType) -> None:
    model = write(tmp_path, form, row_type)
    (want,) = ordered(large_table(), row_type, str(tmp_path / "scratch"), "item")
    found = BundleRows(model, form, row_type, "item")
    assert (found.num_rows, found.width) == (want.num_rows, want.width)
    one, other = joined(list(found.chunks())), joined(list(want.chunks()))
    for name in ("keys", "hashes", "values", "scales"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    np.testing.assert_array_equal(found.unknown.values, want.unknown.values)
    assert keys_by_name(bundle_of(model))["weight"].startswith("weight/")


def test_what_is_no_saved_model_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"variables\.index: expected the variables of a SavedModel, found"):
        BundleRows(str(tmp_path), "plain", "float32", "item")
