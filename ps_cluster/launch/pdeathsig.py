"""End this process when the launcher that started it is gone, however it went."""

from __future__ import annotations

import ctypes
import os
import signal

PARENT_VARIABLE = "PS_CLUSTER_PARENT_PID"
_PR_SET_PDEATHSIG = 1


def die_with_launcher() -> None:
    """Ask the kernel for SIGKILL at the launcher's death; call first thing in a started process.

    The launcher names itself in the environment variable `PS_CLUSTER_PARENT_PID`; without it (a process
    started by hand or by Kubernetes) nothing happens. The variable is taken out of the environment, because
    it is not true for processes that this one starts.
    """
    parent = os.environ.pop(PARENT_VARIABLE, None)
    if parent is not None:
        die_with_parent(int(parent))


def die_with_parent(parent: int) -> None:
    """Ask the kernel for SIGKILL when the process `parent`, which started this one, dies.

    The kernel's "parent" is the *thread* that started this process, so processes are started from a thread
    that lives as long as they may.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"prctl(PR_SET_PDEATHSIG): {os.strerror(code)}")
    # The parent may have died before the call, and then no signal ever comes.
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)
