"""Loads the compiled op library into TensorFlow, once per process."""

from __future__ import annotations

import functools
import os
from types import ModuleType

PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_ops.so")


@functools.cache
def load() -> ModuleType:
    """Returns the module with the library's raw ops.

    Raises:
      FileNotFoundError: the library has not been built.
    """
    import tensorflow as tf

    if not os.path.exists(PATH):
        raise FileNotFoundError(f"{PATH}: op library not built; build it with `make env` or `pip install -e .`")
    return tf.load_op_library(PATH)
