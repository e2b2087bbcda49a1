"""The variables of an exported table before they are filled: a SavedModel is traced and saved without its rows."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from ps_cluster.export.frozen_layout import Form, pieces, variable_name
from ps_cluster.export.ordered_rows import OrderedRows
from ps_cluster.export.row_types import VARIABLE_TYPES, RowType


class FrozenVariables(tf.Module):
    """Rows and scales; a form adds its index. Without rows every id is unknown and its vector zeros."""

    def __init__(self, form: Form, name: str, width: int, row_type: RowType):
        super().__init__(name=name)
        self._form: Form = form
        self._row_type: RowType = row_type
        rows: np.ndarray = np.zeros([1, width], VARIABLE_TYPES[row_type])
        self._rows = tf.Variable(rows, False, shape=[None, width], name=variable_name(name, "rows"))
        self._scales = None
        if row_type == "int8":
            self._scales = tf.Variable(tf.zeros([1]), False, shape=[None], name=variable_name(name, "scales"))

    def fill(self, rows: OrderedRows) -> None:
        """Holds the rows in this process; for models that are used where they were made."""
        parts: dict[str, list[np.ndarray]] = {}
        for piece in pieces(self._form, rows):
            for part, values in piece.items():
                parts.setdefault(part, []).append(values)
        for variable in self.variables:
            part = variable.name.partition(":")[0].rpartition("/")[2]
            variable.assign(np.concatenate(parts[part]))
