"""Programs of the operating system that set-up cannot install itself."""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
import sys


def missing_programs() -> str | None:
    """One line that says what to install, or None when all is there."""
    missing = []  # names of packages of Debian and Ubuntu
    if shutil.which(shlex.split(os.environ.get("CXX") or "g++")[0]) is None:
        missing.append("g++")
    missing += [name for name in ("cmake", "make") if shutil.which(name) is None]
    # Debian ships venv without ensurepip, which is in a package of its own.
    if importlib.util.find_spec("venv") is None or importlib.util.find_spec("ensurepip") is None:
        missing.append("python{}.{}-venv".format(*sys.version_info))
    if not missing:
        return None
    names = " and ".join(filter(None, [", ".join(missing[:-1]), missing[-1]]))
    sudo = "" if os.geteuid() == 0 else "sudo "
    return f"ps-cluster needs {names}: {sudo}apt-get install {' '.join(missing)}"
