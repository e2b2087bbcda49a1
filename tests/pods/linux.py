"""Calls of the Linux kernel that Python 3.11 has no function for."""

from __future__ import annotations

import ctypes
import os
import signal

_LIBC = ctypes.CDLL(None, use_errno=True)
NEW_NETWORK, NEW_MOUNTS, NEW_HOST_NAME, NEW_IPC, NEW_PROCESSES = 0x40000000, 0x20000, 0x4000000, 0x8000000, 0x20000000
BIND, RECURSIVE, REMOUNT, READ_ONLY, MOVE, PRIVATE = 0x1000, 0x4000, 0x20, 0x1, 0x2000, 0x40000
NO_SET_UID, NO_DEVICES = 0x2, 0x4
_DIE_WITH_PARENT, _SET_NO_NEW_PRIVILEGES, _DROP_BOUNDING = 1, 38, 24
_LAST_CAPABILITY = 63


def unshare(what: int) -> None:
    """Puts this thread, and what it starts, into a namespace of its own."""
    _checked(_LIBC.unshare(what), "unshare")


def mount(source: str, target: str, kind: str = "", flags: int = 0, options: str = "") -> None:
    """As mount(2)."""
    words = [text.encode() for text in (source, target, kind)]
    _checked(_LIBC.mount(*words, ctypes.c_ulong(flags), options.encode()), f"mount {source} at {target}")


def die_with_parent() -> None:
    """SIGKILL for this process when its parent ends, which may be outside its namespace."""
    _checked(_LIBC.prctl(_DIE_WITH_PARENT, signal.SIGKILL, 0, 0, 0), "prctl")


def no_privileges() -> None:
    """Takes from this process, and those that it starts, all capabilities that it could gain by starting a program."""
    for number in range(_LAST_CAPABILITY + 1):
        _LIBC.prctl(_DROP_BOUNDING, number, 0, 0, 0)  # of numbers that this kernel does not know it says so
    _checked(_LIBC.prctl(_SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0), "prctl")


def _checked(result: int, what: str) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")
