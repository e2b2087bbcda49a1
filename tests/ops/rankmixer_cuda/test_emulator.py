"""The emulator finds the faults that tests of the block rely on it to find."""

from __future__ import annotations

import ctypes
import functools
from pathlib import Path

import numpy as np
import pytest

from tests.ops.rankmixer_cuda import emulated
from tests.ops.rankmixer_cuda.cases import NUMPY
from tests.ops.rankmixer_cuda.reference import Array


@functools.cache
def faults() -> ctypes.CDLL:
    library = ctypes.CDLL(str(emulated.build_with(Path(__file__).with_name("faults.cu"))))
    library.fault_message.restype = ctypes.c_char_p
    return library


def pointer(array: Array) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def message(code: int) -> str:
    return faults().fault_message(code).decode()


@pytest.mark.parametrize("with_barrier", [True, False])
def test_a_missing_barrier_shows_as_a_result_that_depends_on_the_order(with_barrier: bool) -> None:
    results = set()
    for order in (0, 1, 2):
        faults().ps_cluster_emulator_order(order, 7, True)
        out = np.empty(256, np.float32)
        assert faults().run_neighbour(pointer(out), with_barrier) == 0
        results.add(out.tobytes())
    assert (len(results) == 1) == with_barrier


@pytest.mark.parametrize("with_wait", [True, False])
def test_a_copy_that_nobody_waits_for_has_not_come(with_wait: bool) -> None:
    faults().ps_cluster_emulator_order(0, 0, True)
    values, out = emulated.Memory().put(np.arange(1024.0), np.float32), np.empty(1024, np.float32)
    assert faults().run_copy(pointer(values), pointer(out), with_wait) == 0
    assert (out == values).all() if with_wait else np.isnan(out).all()


@pytest.mark.parametrize(("index", "good"), [(0, True), (99, True), (100, False), (-1, False)])
def test_a_write_outside_shared_memory_is_found(index: int, good: bool) -> None:
    code = faults().run_write_shared(index, 100)
    assert (code == 0) == good
    assert good or "outside its bounds" in message(code)


@pytest.mark.parametrize("everyone", [True, False])
def test_a_barrier_that_not_all_threads_come_to_is_found(everyone: bool) -> None:
    code = faults().run_barrier(everyone)
    assert (code == 0) == everyone
    assert everyone or "some threads wait" in message(code)


@pytest.mark.parametrize(("dtype", "depth"), [("bfloat16", 16), ("float16", 16), ("float32", 8)])
def test_tensor_cores_multiply(dtype: str, depth: int) -> None:
    draw = np.random.default_rng(1)
    # Small integers: exact in every type, so that any misplaced element shows.
    a, b = (draw.integers(-8, 9, shape).astype(NUMPY[dtype]) for shape in ((16, depth), (depth, 8)))
    out = np.empty((16, 8), np.float32)
    assert getattr(faults(), f"multiply_{dtype}")(pointer(a), pointer(b), pointer(out)) == 0
    assert (out == a.astype(np.float64) @ b.astype(np.float64)).all()


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_narrow_numbers_are_rounded_as_numpy_rounds_them(dtype: str) -> None:
    narrow_type = NUMPY[dtype]
    every = np.arange(1 << 16, dtype=np.uint16).view(narrow_type).astype(np.float32)
    every = every[np.isfinite(every)]
    # Every number, halfway to the next, and either side of that.
    halfway = every * np.float32(1 + 2.0 ** (-8 if dtype == "bfloat16" else -11))
    with np.errstate(over="ignore"):
        values = np.concatenate([every, halfway, np.nextafter(halfway, np.inf), np.nextafter(halfway, -np.inf)])
        wanted = values.astype(narrow_type)
    values = np.ascontiguousarray(values.astype(np.float32))
    narrow, wide = np.empty(len(values), np.uint16), np.empty(len(values), np.float32)
    convert = getattr(faults(), f"convert_{dtype}")
    assert convert(pointer(values), pointer(narrow), pointer(wide), ctypes.c_int64(len(values))) == 0
    assert (narrow == wanted.view(np.uint16)).all()
    assert (wide == wanted.astype(np.float32)).all()
