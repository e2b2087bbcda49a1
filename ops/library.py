"""Loads the compiled op libraries into TensorFlow, once per process."""

from __future__ import annotations

import functools
import os
from types import ModuleType

_FOLDER = os.path.dirname(os.path.abspath(__file__))
PATH = os.path.join(_FOLDER, "_ops.so")
ORC_PATH = os.path.join(_FOLDER, "_orc.so")
RANKMIXER_PATH = os.path.join(_FOLDER, "_rankmixer.so")
RANKMIXER_GPU_PATH = os.path.join(_FOLDER, "_rankmixer_gpu.so")


@functools.cache
def load() -> ModuleType:
    """Returns the module with the raw ops that hold and move embeddings.

    Raises:
      FileNotFoundError: the library has not been built.
    """
    return _load(PATH)


@functools.cache
def load_rankmixer() -> ModuleType:
    """Returns the module with the raw ops of the fused ranker, with their GPU kernels where those have been built.

    Raises:
      FileNotFoundError: the library has not been built, or that of the GPU kernels for another version of TensorFlow.
    """
    module = _load(RANKMIXER_PATH)
    if os.path.exists(RANKMIXER_GPU_PATH):
        import tensorflow as tf

        try:
            tf.load_library(RANKMIXER_GPU_PATH)
        except tf.errors.NotFoundError as error:
            raise FileNotFoundError(
                f"{RANKMIXER_GPU_PATH}: GPU kernels do not load beside TensorFlow {tf.__version__} ({error.message}); "
                "build them again with `make env GPU=1`, or remove the file"
            ) from error
    return module


@functools.cache
def load_orc() -> ModuleType:
    """Returns the module with the raw ops that read ORC files; loads Arrow.

    Raises:
      FileNotFoundError: the library has not been built, or for another version of pyarrow.
    """
    # The library then finds pyarrow's Arrow loaded, wherever that lies.
    import pyarrow
    import tensorflow as tf

    try:
        return _load(ORC_PATH)
    except tf.errors.NotFoundError as error:
        raise FileNotFoundError(
            f"{ORC_PATH}: op library does not load beside pyarrow {pyarrow.__version__} ({error.message}); "
            "build it again with `make env` or `pip install -e .`"
        ) from error


def _load(path: str) -> ModuleType:
    import tensorflow as tf

    if not os.path.exists(path):
        raise FileNotFoundError(f"{path}: op library not built; build it with `make env` or `pip install -e .`")
    return tf.load_op_library(path)
