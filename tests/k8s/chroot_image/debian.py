"""A bare Debian tree, made once by debootstrap and kept for all builds of a user."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from ps_cluster.errors import RunError, UserError
from ps_cluster.setup.kept import wheels_folder
from tests.k8s.chroot_image.container import ended

RELEASE, NUMBER = "bookworm", "12"
_IMAGE = re.compile(rf"debian:(?:{NUMBER}(?:\.\d+)?|{RELEASE})(?:-\d{{8}})?(?:-slim)?(?:@sha256:[0-9a-f]{{64}})?")


def is_debian(image: str) -> bool:
    """Whether the name is one of the Debian that can be made here. Its point release is not followed."""
    return _IMAGE.fullmatch(image) is not None


def cache() -> Path:
    """Where trees and what commands ask to keep (`--mount=type=cache`) lie."""
    return wheels_folder().parent


def base_tree(mirror: str) -> Path:
    """Makes it when there is none, beside its place.

    Raises UserError without debootstrap, RunError with the end of its log when it fails.
    """
    tree = cache() / f"debian-{NUMBER}"
    if tree.exists():
        return tree
    if shutil.which("debootstrap") is None:
        raise UserError("debootstrap is missing: apt-get install debootstrap")
    tree.parent.mkdir(parents=True, exist_ok=True)
    print(f"Debian {NUMBER}: made once, then kept at {tree}", flush=True)
    part = Path(tempfile.mkdtemp(prefix=f".{tree.name}.", suffix=".part", dir=tree.parent))
    try:
        # It mounts /proc and /sys in the tree: in namespaces of its own, which end with it.
        command = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
        command += ["debootstrap", "--variant=minbase", RELEASE, str(part), mirror]
        with (
            tempfile.TemporaryFile() as log,
            ended(subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)) as process,
        ):
            if process.wait() != 0:
                log.seek(0)
                said = log.read().decode(errors="replace").splitlines()
                raise RunError("\n".join(["debootstrap failed:", *said[-10:]]))
        part.chmod(0o755)
        # What it took from this machine.
        for name in ("resolv.conf", "hosts", "hostname"):
            (part / "etc" / name).unlink(missing_ok=True)
            (part / "etc" / name).touch()
        for package in (part / "var" / "cache" / "apt" / "archives").glob("*.deb"):
            package.unlink()
        part.rename(tree)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return tree
