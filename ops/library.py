"""Loads the compiled op libraries into TensorFlow, once per process."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from types import ModuleType
from typing import Any

from ops.elf import damage

_FOLDER = os.path.dirname(os.path.abspath(__file__))
PATH = os.path.join(_FOLDER, "_ops.so")
ORC_PATH = os.path.join(_FOLDER, "_orc.so")
RANKMIXER_PATH = os.path.join(_FOLDER, "_rankmixer.so")
RANKMIXER_GPU_PATH = os.path.join(_FOLDER, "_rankmixer_gpu.so")

_BUILD = "build it with `python setup.py build_ext --inplace`"


class LibraryError(RuntimeError):
    """A library is not there, or cannot be used here; one line: its file, what was expected and found, what to run."""


@functools.cache
def load() -> ModuleType:
    """Returns the module with the raw ops that hold and move embeddings; raises LibraryError."""
    return _load(PATH)


@functools.cache
def load_rankmixer() -> ModuleType:
    """Returns the module with the raw ops of the fused ranker, with their GPU kernels where those have been built;
    raises LibraryError."""
    module = _load(RANKMIXER_PATH)
    if os.path.exists(RANKMIXER_GPU_PATH):
        import tensorflow as tf

        again = "build it again with `make env GPU=1`, or remove the file"
        _opened(RANKMIXER_GPU_PATH, "a library of GPU kernels", tf.load_library, again)
    return module


@functools.cache
def load_orc() -> ModuleType:
    """Returns the module with the raw ops that read ORC files; loads Arrow. Raises LibraryError."""
    # The library then finds pyarrow's Arrow loaded, wherever that lies.
    import pyarrow

    return _load(ORC_PATH, f" and pyarrow {pyarrow.__version__}")


def _load(path: str, beside: str = "") -> ModuleType:
    import tensorflow as tf

    module: ModuleType = _opened(path, "an op library", tf.load_op_library, _BUILD, beside)

    def of_older_sources(name: str) -> Any:
        if name.startswith("__"):  # Python itself asks
            raise AttributeError(name)
        raise LibraryError(f"{path}: expected an op library with {name}, found one of other sources; {_BUILD}")

    module.__dict__["__getattr__"] = of_older_sources
    return module


def _opened(path: str, what: str, open_it: Callable[[str], Any], remedy: str, beside: str = "") -> Any:
    import tensorflow as tf

    expected = f"{path}: expected {what} for TensorFlow {tf.__version__}{beside}"
    try:
        found = damage(path)
    except OSError as error:
        found = "no such file" if isinstance(error, FileNotFoundError) else str(error.strerror)
    if found is not None:
        raise LibraryError(f"{expected}, found {found}; {remedy}")
    try:
        return open_it(path)
    except tf.errors.OpError as error:
        why = error.message.removeprefix(f"{path}: ").partition("\n")[0]
        raise LibraryError(f"{expected}, found one that does not load ({why}); {remedy}") from None
