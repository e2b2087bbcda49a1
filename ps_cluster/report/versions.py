"""Which software a run was made with."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess

import ps_cluster

_PACKAGES = (
    "ps-cluster",
    "tensorflow",
    "tf-keras",
    "tensorflow-recommenders-addons",
    "tensorflow-io",
    "horovod",
    "numpy",
    "pyarrow",
    "pyorc",
    "pydantic",
)


def package_versions() -> dict[str, str | None]:
    """Versions by name: Python's, then the packages'; None for one that is not installed."""
    versions: dict[str, str | None] = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = None
    return versions


def git_revision() -> str | None:
    """Commit that this package's source is checked out from, else the current folder's; None outside git.

    40 hexadecimal digits, with `-dirty` behind them when a tracked file has changed.
    """
    package = os.path.dirname(os.path.abspath(ps_cluster.__file__))
    # An installed package may lie in an environment inside somebody's repository, which does not track it.
    folder = package if _git(package, "ls-files", "--error-unmatch", "__init__.py") else os.getcwd()
    return revision_of(folder)


def revision_of(folder: str) -> str | None:
    """Commit of the repository that `folder` lies in, as `git_revision` tells it; None outside git."""
    return _git(folder, "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*")


def _git(folder: str, *arguments: str) -> str | None:
    command = ["git", "-C", folder, *arguments]
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, env=environment)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None if done.returncode == 0 else None
