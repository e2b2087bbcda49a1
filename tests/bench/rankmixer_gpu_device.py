"""A GPU through the driver's own library: memory, copies and events, without any framework.

Nothing here has been run on a GPU.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np


class NoGpuError(Exception):
    """Why there is no GPU to use, in one line."""


class Gpu:
    """The first GPU; the CUDA runtime of other libraries uses the same (primary) context."""

    def __init__(self) -> None:
        """Raises NoGpuError."""
        try:
            self._driver = ctypes.CDLL("libcuda.so.1")
        except OSError:
            raise NoGpuError("no NVIDIA driver (libcuda.so.1)") from None
        if self._driver.cuInit(0) != 0:
            raise NoGpuError("the NVIDIA driver finds no GPU")
        device, context = ctypes.c_int(), ctypes.c_void_p()
        if self._driver.cuDeviceGet(ctypes.byref(device), 0) != 0:
            raise NoGpuError("the NVIDIA driver finds no GPU")
        text = ctypes.create_string_buffer(256)
        self._call("cuDeviceGetName", text, 256, device)
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self._call("cuCtxSetCurrent", context)
        self.name = text.value.decode()
        self._events = [ctypes.c_void_p(), ctypes.c_void_p()]
        for event in self._events:
            self._call("cuEventCreate", ctypes.byref(event), 0)
        self._taken: list[int] = []

    def empty(self, size: int) -> int:
        """Address of `size` bytes."""
        address = ctypes.c_uint64()
        self._call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(max(size, 16)))
        self._taken.append(address.value)
        return address.value

    def put(self, array: np.ndarray) -> int:
        """Address of a copy of a dense array."""
        address = self.empty(array.nbytes)
        if array.nbytes:
            source = ctypes.c_void_p(array.ctypes.data)
            self._call("cuMemcpyHtoD_v2", ctypes.c_uint64(address), source, ctypes.c_size_t(array.nbytes))
        return address

    def get(self, address: int, shape: tuple[int, ...], dtype: type) -> np.ndarray:
        """What lies there, after all work that was given before."""
        array = np.empty(shape, dtype)
        if array.nbytes:
            target = ctypes.c_void_p(array.ctypes.data)
            self._call("cuMemcpyDtoH_v2", target, ctypes.c_uint64(address), ctypes.c_size_t(array.nbytes))
        return array

    def free_all(self) -> None:
        self._call("cuCtxSynchronize")
        for address in self._taken:
            self._call("cuMemFree_v2", ctypes.c_uint64(address))
        self._taken.clear()

    def seconds(self, work: Callable[[], None], repeats: int) -> float:
        """Seconds on the device that `repeats` runs of `work`, put on stream 0, take, by events around them."""
        start, end = self._events
        self._call("cuEventRecord", start, None)
        for _ in range(repeats):
            work()
        self._call("cuEventRecord", end, None)
        self._call("cuEventSynchronize", end)
        milliseconds = ctypes.c_float()
        self._call("cuEventElapsedTime", ctypes.byref(milliseconds), start, end)
        return milliseconds.value / 1000

    def _call(self, name: str, *arguments: object) -> None:
        code = getattr(self._driver, name)(*arguments)
        if code != 0:
            text = ctypes.c_char_p()
            self._driver.cuGetErrorString(code, ctypes.byref(text))
            raise RuntimeError(f"{name}: {text.value.decode() if text.value else code}")
