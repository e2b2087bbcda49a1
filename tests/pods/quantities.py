"""Quantities of Kubernetes, such as `512Mi`, as numbers."""

from __future__ import annotations

import re

from ps_cluster.errors import UserError

_UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}


def bytes_of(text: object, where: str) -> int:
    """Bytes of memory.

    Raises:
      UserError: it is none; names `where`.
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([kMGT]i?|Ki)?", str(text))
    if found is None or (unit := found[2] or "") not in _UNITS:
        raise UserError(f"{where}: expected a quantity of memory such as 512Mi, found {text!r}")
    return int(float(found[1]) * _UNITS[unit])


def text_of(count: int) -> str:
    """Bytes for a person."""
    return f"{count / 2**30:.2f} GiB" if count >= 2**30 else f"{count / 2**20:.0f} MiB"
