"""How fast a GPU multiplies at best: the maker's figure where the card is known, else a large product, measured.

The measured part has not been run on a GPU.
"""

from __future__ import annotations

import importlib
import re
import time
from collections.abc import Callable
from typing import Any, NamedTuple

# Dense tensor-core TFLOP/s of 16-bit operands with float32 sums, and of TF32, from the makers' data sheets.
# A card is the one most of whose words the device's name has.
KNOWN = {
    "A100": (312.0, 156.0),
    "A800": (312.0, 156.0),
    "A30": (165.0, 82.0),
    "A10": (125.0, 62.5),
    "H100": (989.4, 494.7),
    "H100 PCIe": (756.0, 378.0),
    "H100 NVL": (835.0, 417.5),
    "H800": (989.4, 494.7),
    "H200": (989.4, 494.7),
    "H200 NVL": (835.0, 417.5),
    "GH200": (989.4, 494.7),
    "L4": (121.0, 60.0),
    "L40S": (362.0, 183.0),
    "RTX 3090": (71.0, 35.6),
    "RTX 4090": (165.2, 82.6),
}
OTHERS = {"Ti", "SUPER", "Laptop", "Max"}  # words of a card that is not the one of the name before
SIZE = 8192  # of the measured product's square matrices
REPEATS = 20


class Peak(NamedTuple):
    """TFLOP/s, and where that is from."""

    tflops: float
    source: str


def known_peak(device: str, dtype: str, tf32: bool) -> Peak | None:
    """The data sheet's figure; products of float32 that are not rounded take three TF32 products."""
    words = set(re.split(r"[^0-9A-Za-z]+", device))
    names = [name for name in KNOWN if words.issuperset(name.split())]
    if not names or words & OTHERS:
        return None
    name = max(names, key=lambda name: len(name.split()))
    narrow, single = KNOWN[name]
    if dtype != "float32":
        return Peak(narrow, f"data sheet of {name}")
    return Peak(single if tf32 else single / 3, f"data sheet of {name}, TF32{'' if tf32 else ' / 3'}")


def peak(device: str, dtype: str, tf32: bool) -> Peak:
    """The best that the device can do; raises RuntimeError where it is unknown and nothing there can measure it."""
    found = known_peak(device, dtype, tf32)
    if found is not None:
        return found
    for name, measure in (("torch", _torch), ("cupy", _cupy), ("tensorflow", _tensorflow)):
        try:
            library = importlib.import_module(name)
            seconds = measure(library, dtype)
        except Exception:  # not there, or there without a GPU: the next one
            continue
        tflops = 2 * SIZE**3 * REPEATS / seconds / 1e12
        return Peak(tflops if tf32 or dtype != "float32" else tflops / 3, f"a product of {SIZE} in {name}, measured")
    raise RuntimeError(f"{device}: peak not known, and none of torch, cupy and tensorflow can measure it")


def _timed(multiply: Callable[[], Any], wait: Callable[[], Any]) -> float:
    for _ in range(3):
        multiply()
    wait()
    start = time.perf_counter()
    for _ in range(REPEATS):
        multiply()
    wait()
    return time.perf_counter() - start


def _torch(torch: Any, dtype: str) -> float:
    torch.backends.cuda.matmul.allow_tf32 = True
    a = torch.randn(SIZE, SIZE, device="cuda", dtype=getattr(torch, dtype))
    return _timed(lambda: a @ a, torch.cuda.synchronize)


def _cupy(cupy: Any, dtype: str) -> float:
    if dtype == "bfloat16":
        dtype = "float16"  # cupy has no bfloat16; the cores take both at one rate
    a = cupy.random.random((SIZE, SIZE)).astype(dtype)
    return _timed(lambda: a @ a, cupy.cuda.Device().synchronize)


def _tensorflow(tf: Any, dtype: str) -> float:
    with tf.device("/GPU:0"):
        a = tf.cast(tf.random.normal([SIZE, SIZE]), dtype)
        last = [a]

        def multiply() -> None:
            last[0] = tf.matmul(a, a)

        return _timed(multiply, lambda: float(last[0][0, 0]))
