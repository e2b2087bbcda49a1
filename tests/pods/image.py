"""What stands for the container image: this Python environment and this checkout, at their own places, read-only."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_FROM_HERE = ("OPENBLAS_",)
"""Beginnings of variables that suit programs to this machine's processor."""


def shown_folders() -> list[str]:
    """Folders of this machine that a container sees, none inside another."""
    # A link is followed outside the container only, so both its name and what it leads to are shown.
    places = {"/usr", str(ROOT), sys.prefix, os.path.realpath(sys.prefix), os.path.realpath(sys.base_prefix)}
    places |= {path for path in sys.path if path.endswith("site-packages") and os.path.isdir(path)}
    return sorted(one for one in places if not any(one != other and _within(one, other) for other in places))


def variables(here: Mapping[str, str] = os.environ) -> dict[str, str]:
    """What the Dockerfile sets, with the places of this environment in the place of /opt/ps-cluster."""
    return {
        **{name: value for name, value in here.items() if name.startswith(_FROM_HERE)},
        "PATH": f"{sys.prefix}/bin:/usr/local/bin:/usr/bin:/bin",
        "HOME": "/tmp",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUNBUFFERED": "1",
        "PYTHONPATH": str(ROOT),
    }


def has_program(name: str) -> bool:
    """Whether a container finds a program of that name."""
    return shutil.which(name, path=variables()["PATH"]) is not None


def _within(path: str, folder: str) -> bool:
    return path.startswith(folder.rstrip("/") + "/")
