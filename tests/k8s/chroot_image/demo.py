"""The demo job in a built image: samples, training, SavedModel and report, as the image's user."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from ps_cluster.errors import RunError
from tests.k8s.chroot_image.build import Image
from tests.k8s.chroot_image.container import ROOT, run, user
from tests.k8s.chroot_image.mirrors import Mirrors

PLACE = "/storage"
_EXAMPLE = ROOT / "ps_cluster" / "examples" / "movielens.yaml"


def run_demo(image: Image, volume: Path, mirrors: Mirrors) -> dict[str, float]:
    """The run's report. volume: an empty or absent folder, seen at `PLACE`; the only one that can be written to.

    Raises RunError when a command fails or what it has to leave is not there.
    """
    volume.mkdir(parents=True, exist_ok=True)
    shutil.copy(_EXAMPLE, volume / "job.yaml")
    shutil.chown(volume, *user(image.tree, image.config.user))
    _command(image, volume, mirrors, "data", "movielens", f"{PLACE}/samples", "--cache=/tmp")
    _command(image, volume, mirrors, "train", f"{PLACE}/job.yaml", f"--report={PLACE}/report.json")
    for path in ("run/export/1/saved_model.pb", "report.json"):
        if not (volume / path).is_file():
            raise RunError(f"{volume / path}: training ended well but left no such file")
    return json.loads((volume / "report.json").read_text(encoding="utf-8"))


def _command(image: Image, volume: Path, mirrors: Mirrors, *words: str) -> None:
    """`ps-cluster WORDS` by the image's own entry point and PATH."""
    argv = [*image.config.entry, "ps-cluster", *words]
    code = run(image.tree, argv, image.config, mirrors, [(volume, PLACE)])
    if code != 0:
        raise RunError(f"{' '.join(argv)}: ended with exit code {code}")
