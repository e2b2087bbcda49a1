"""Arrays in files, mapped: a process holds only what it just read."""

from __future__ import annotations

import mmap
from collections.abc import Iterable

import numpy as np


def map_array(path: str) -> np.ndarray:
    """The array of an npy file, read where it is touched."""
    array = np.load(path, mmap_mode="r")
    return array if len(array) else np.empty(0, array.dtype)


def forget(arrays: Iterable[np.ndarray]) -> None:
    """Gives back the memory of what was touched; it is read again when it is touched again."""
    for array in arrays:
        if isinstance(array, np.memmap):
            file: mmap.mmap | None = getattr(array, "_mmap", None)
            if file is not None:
                file.madvise(mmap.MADV_DONTNEED)
