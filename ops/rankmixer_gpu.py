"""The fused RankMixer block on a CUDA device for any framework: calls of plain addresses, without TensorFlow.

What it computes is said at the registration of the op, `ops/rankmixer/ops/rankmixer_block_ops.cc`. Addresses are device
addresses of dense row-major arrays, such as `tensor.data_ptr()` of torch or `array.data.ptr` of cupy; a stream is
`torch.cuda.current_stream().cuda_stream` or 0. Calls only put work on the stream: memory must stay alive until that is
done.

    block = CudaBlock()
    problem = BlockProblem(batch=512, tokens=16, dim=128, hidden=512, dtype="bfloat16")
    scratch = torch.empty(block.forward_bytes(problem), dtype=torch.uint8, device="cuda")
    addresses = BlockAddresses(*(tensor.data_ptr() for tensor in weights))
    block.forward(problem, x.data_ptr(), addresses, y.data_ptr(), Scratch(scratch.data_ptr(), scratch.numel()))
"""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass
from typing import Any, NamedTuple

PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_rankmixer_cuda.so")

# In the order of the enumerations of rankmixer_cuda.h.
DTYPES = ("float32", "bfloat16", "float16")
NORMS = ("post_ln", "pre_rms")
ACTIVATIONS = ("gelu", "gelu_tanh", "swiglu")


@dataclass(frozen=True)
class BlockProblem:
    """Sizes and options of a block; `hidden` is F, the width of the products with swiglu being 2F.

    tf32: whether products of float32 round their operands to TF32, as TensorFlow's matmul does unless told otherwise;
    without, three products keep nearly all of float32's bits. Other dtypes ignore it.
    """

    batch: int
    tokens: int
    dim: int
    hidden: int
    dtype: str = "float32"
    norm: str = "post_ln"
    activation: str = "gelu"
    epsilon: float = 1e-6
    dropout: float = 0.0
    tf32: bool = False

    @property
    def inner(self) -> int:
        """Width of the first product's result."""
        return self.hidden * (2 if self.activation == "swiglu" else 1)


class BlockAddresses(NamedTuple):
    """Addresses of the weights, or of their gradients. With `pre_rms` there are no betas: 0."""

    gamma1: int
    beta1: int
    w1: int
    b1: int
    w2: int
    b2: int
    gamma2: int
    beta2: int


class Kept(NamedTuple):
    """Addresses of what the forward pass keeps for the backward pass: `[T, batch, inner]` and `[T, batch, D]`."""

    inner: int
    sum: int


class Scratch(NamedTuple):
    """Address, a multiple of 16, and size of memory that a call may write to until its work is done."""

    address: int
    bytes: int


class BlockError(RuntimeError):
    """A call was refused; its text is one line that says why."""


class _Problem(ctypes.Structure):
    _fields_ = [
        ("batch", ctypes.c_int64),
        ("tokens", ctypes.c_int64),
        ("dim", ctypes.c_int64),
        ("hidden", ctypes.c_int64),
        ("dtype", ctypes.c_int32),
        ("norm", ctypes.c_int32),
        ("activation", ctypes.c_int32),
        ("tf32", ctypes.c_int32),
        ("epsilon", ctypes.c_float),
        ("dropout", ctypes.c_float),
    ]


class _Pointers(ctypes.Structure):
    _fields_ = [(name, ctypes.c_void_p) for name in BlockAddresses._fields]


class CudaBlock:
    """The plain CUDA library, which `make env GPU=1` builds where nvcc is found."""

    def __init__(self, path: str = PATH) -> None:
        """Loads the library; raises FileNotFoundError where it has not been built."""
        if not os.path.exists(path):
            raise FileNotFoundError(
                f"{path}: CUDA library not built; build it with `make env GPU=1` where nvcc is found"
            )
        library = ctypes.CDLL(path)
        pointer, int32, int64 = ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64
        problem, pointers = ctypes.POINTER(_Problem), ctypes.POINTER(_Pointers)
        self._forward = library.ps_cluster_rankmixer_forward
        self._forward.argtypes = [problem, pointer, pointers, *[pointer] * 5, int64, pointer]
        self._backward = library.ps_cluster_rankmixer_backward
        self._backward.argtypes = [problem, *[pointer] * 2, pointers, *[pointer] * 4, pointers, pointer, int64, pointer]
        self._bytes = {
            "forward": library.ps_cluster_rankmixer_forward_workspace,
            "backward": library.ps_cluster_rankmixer_backward_workspace,
        }
        for function in self._bytes.values():
            function.argtypes = [problem, int32]
            function.restype = int64
        self._message = library.ps_cluster_rankmixer_message
        self._message.argtypes = [int32]
        self._message.restype = ctypes.c_char_p

    def forward_bytes(self, problem: BlockProblem, *, keep: bool = False) -> int:
        """Bytes of scratch memory that `forward` needs."""
        return self._needed("forward", problem, keep)

    def backward_bytes(self, problem: BlockProblem, *, keep: bool = False) -> int:
        """Bytes of scratch memory that `backward` needs."""
        return self._needed("backward", problem, keep)

    def forward(
        self,
        problem: BlockProblem,
        x: int,
        weights: BlockAddresses,
        y: int,
        scratch: Scratch,
        *,
        seed: int = 0,
        kept: Kept | None = None,
        stream: int = 0,
    ) -> None:
        """y `[batch, T, D]` from x, the same; with dropout `seed` is the address of int64 `[2]` on the device.

        Raises:
            BlockError: the problem, scratch or seed cannot be, or the device did not take the work.
        """
        inner, total = kept or (0, 0)
        code = self._forward(
            _problem(problem), x, _Pointers(*weights), seed, y, inner, total, scratch.address, scratch.bytes, stream
        )
        self._check(code)

    def backward(
        self,
        problem: BlockProblem,
        dy: int,
        x: int,
        weights: BlockAddresses,
        dx: int,
        gradients: BlockAddresses,
        scratch: Scratch,
        *,
        seed: int = 0,
        kept: Kept | None = None,
        stream: int = 0,
    ) -> None:
        """dx and the gradients of the weights from dy; without `kept` the forward pass is computed again.

        Raises:
            BlockError: as `forward`.
        """
        inner, total = kept or (0, 0)
        code = self._backward(
            _problem(problem),
            dy,
            x,
            _Pointers(*weights),
            seed,
            inner,
            total,
            dx,
            _Pointers(*gradients),
            scratch.address,
            scratch.bytes,
            stream,
        )
        self._check(code)

    def _needed(self, which: str, problem: BlockProblem, keep: bool) -> int:
        count = self._bytes[which](_problem(problem), keep)
        self._check(min(count, 0))
        return count

    def _check(self, code: int) -> None:
        if code != 0:
            raise BlockError(f"{self._message(code).decode()} (code {code})")


def _problem(problem: BlockProblem) -> Any:
    def chosen(name: str, among: tuple[str, ...]) -> int:
        value = getattr(problem, name)
        if value not in among:
            raise ValueError(f"{name}: expected one of {', '.join(among)}, found {value!r}")
        return among.index(value)

    return _Problem(
        problem.batch,
        problem.tokens,
        problem.dim,
        problem.hidden,
        chosen("dtype", DTYPES),
        chosen("norm", NORMS),
        chosen("activation", ACTIVATIONS),
        problem.tf32,
        problem.epsilon,
        problem.dropout,
    )
