"""Whether a RankMixer's blocks, or the experts in them, run as the fused op or as TensorFlow's own operations."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

import tensorflow as tf
from tensorflow.python.framework import kernels

from models.config import ModelConfig, RankMixerConfig
from ops.library import RANKMIXER_PATH, LibraryError, load_rankmixer

_BLOCK_OP = "PsClusterRankmixerBlock"
_EXPERTS_OP = "PsClusterSparseExperts"


@dataclass(frozen=True)
class Choice:
    """What was chosen, and in words for a person; where there is nothing to choose, `words` is empty."""

    fused: bool
    words: str = ""


def choose(config: ModelConfig, device_type: str = "CPU") -> Choice:
    """How the blocks of `config` run on a `CPU` or `GPU`; may load the op library.

    Raises:
        ValueError: `fused: on` cannot be kept; reads `fused: expected …, found …`.
    """
    if not isinstance(config, RankMixerConfig):
        return Choice(False)
    what, op = ("block", _BLOCK_OP) if config.experts is None else ("experts", _EXPERTS_OP)
    if config.fused == "off":
        return Choice(False, f"composed {what}")
    missing = _missing(op, config, device_type)
    if missing is None:
        return Choice(True, f"fused {what}{_instruction_set() if device_type == 'CPU' else ''}")
    if config.fused == "on":
        wanted = "a fused block" if config.experts is None else "fused experts"
        raise ValueError(f"fused: expected {wanted} for fused: on, found {missing}")
    return Choice(False, f"composed {what}: {missing}")


def _missing(op: str, config: RankMixerConfig, device_type: str) -> str | None:
    """Why `op` cannot be had; None where it can."""
    try:
        load_rankmixer()
    except LibraryError as error:
        return str(error)
    if not has_kernel(op, device_type, config.precision):
        return f"no {device_type} kernel of it for {config.precision}"
    return None


def has_kernel(op: str, device_type: str, dtype: str) -> bool:
    """Whether a loaded op library has a kernel of `op` for tensors of `dtype`."""
    wanted = tf.dtypes.as_dtype(dtype).as_datatype_enum
    for kernel in kernels.get_registered_kernels_for_op(op).kernel:
        types = {one.name: list(one.allowed_values.list.type) for one in kernel.constraint}
        if kernel.device_type == device_type and wanted in types.get("T", [wanted]):
            return True
    return False


def _instruction_set() -> str:
    """` (avx512)` where the library tells by which instructions its CPU kernels work."""
    tell = getattr(ctypes.CDLL(RANKMIXER_PATH), "ps_cluster_rankmixer_isa", None)
    if tell is None:
        return ""
    tell.restype = ctypes.c_char_p
    return f" ({tell().decode()})"
