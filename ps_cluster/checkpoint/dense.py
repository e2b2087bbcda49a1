"""The dense part of a checkpoint: the model's weights and the optimiser's variables."""

from __future__ import annotations

import io
import zlib

import numpy as np
import tf_keras

from ps_cluster.checkpoint import storage
from ps_cluster.checkpoint.finding import Checkpoint
from ps_cluster.checkpoint.manifest import DenseFile
from ps_cluster.errors import UserError

DENSE = "dense.npz"
TRAINING = "training/"
"""What the names of arrays that training itself keeps start with."""


def dense_values(model: tf_keras.Model, optimizer: tf_keras.optimizers.Optimizer) -> dict[str, np.ndarray]:
    """Copies of all values as they are now, by the name they have in the file."""
    values = {f"model/{i}": weight.numpy() for i, weight in enumerate(model.weights)}
    values.update({f"optimizer/{i}": variable.numpy() for i, variable in enumerate(optimizer.variables)})
    return {name: np.array(value) for name, value in values.items()}


def write_dense(folder: str, values: dict[str, np.ndarray]) -> DenseFile:
    """Writes the file of a checkpoint in `folder`."""
    packed = io.BytesIO()
    np.savez(packed, **values)
    raw = packed.getvalue()
    storage.write(storage.join(folder, DENSE), raw)
    return DenseFile(DENSE, len(raw), zlib.crc32(raw))


def load_dense(
    checkpoint: Checkpoint, model: tf_keras.Model, optimizer: tf_keras.optimizers.Optimizer | None = None
) -> None:
    """Sets the model's weights and, where given, the optimiser's variables to the checkpoint's.

    Raises:
      UserError: the checkpoint is of another model or optimiser.
    """
    path = storage.join(checkpoint.folder, checkpoint.manifest.dense.file)
    with np.load(io.BytesIO(storage.read(path))) as dense:
        variables = [(f"model/{i}", weight) for i, weight in enumerate(model.weights)]
        if optimizer is not None:
            variables += [(f"optimizer/{i}", variable) for i, variable in enumerate(optimizer.variables)]
        for kind, what in (("model/", "weights of the job's model"), ("optimizer/", "variables of its optimiser")):
            expected = sum(name.startswith(kind) for name, _ in variables)
            stored = sum(name.startswith(kind) for name in dense.files)
            if stored != expected and (kind == "model/" or optimizer is not None):
                raise UserError(f"{path}: expected {expected} {what}, found {stored}")
        for name, variable in variables:
            value = dense[name]
            if value.shape != tuple(variable.shape):
                raise UserError(
                    f"{path}: {variable.name}: expected shape {tuple(variable.shape)}, found {value.shape}; "
                    "the job's model is not the one that was trained"
                )
            variable.assign(value)


def training_arrays(checkpoint: Checkpoint) -> dict[str, np.ndarray]:
    """Arrays that training itself keeps, by name."""
    path = storage.join(checkpoint.folder, checkpoint.manifest.dense.file)
    with np.load(io.BytesIO(storage.read(path))) as dense:
        return {name: dense[name] for name in dense.files if name.startswith(TRAINING)}
