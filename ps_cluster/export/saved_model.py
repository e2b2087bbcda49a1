"""SavedModels: numbered versions that appear whole, inputs by feature name.

The form `plain` needs nothing but TensorFlow. The form `ops` needs the library `ops/_rankmixer.so` loaded, nothing else
of this project, and gives the same scores.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable

import tensorflow as tf

from ps_cluster.checkpoint.finding import Checkpoint, newest_checkpoint
from ps_cluster.checkpoint.storage import load_file_systems
from ps_cluster.errors import UserError
from ps_cluster.export.serving_model import Form, ServingModel
from ps_cluster.job.resolve import JobFile
from ps_cluster.train.trained_job import check_as_trained

TRAINING = os.path.join("assets.extra", "training.json")
"""In an export: which step of the training it holds; by which rates the training rows were sampled (null: not at all;
the logits need no correction, since the training has undone what sampling did to the odds); the form; what was
folded."""


def export_saved_model(
    job_file: JobFile, parent: str | None = None, tell: Callable[[str], None] | None = None, form: Form = "plain"
) -> str:
    """Writes the newest checkpoint as the next numbered version below `parent`; returns the version's folder.

    parent: by default `default_parent`. tell: as of `newest_checkpoint`. A version appears whole (written beside, then
    renamed), as TF Serving expects.
    """
    load_file_systems(job_file.checkpoints)
    checkpoint = newest_checkpoint(job_file.checkpoints, tell=tell)
    check_as_trained(job_file, checkpoint.manifest.trained)
    parent = default_parent(job_file, form) if parent is None else parent
    try:
        os.makedirs(parent, exist_ok=True)
    except OSError as error:
        raise UserError(f"--to: expected a folder that can be made, found {parent!r}: {error.strerror}") from None
    module = ServingModel(job_file.job, checkpoint, form)
    version = max((int(name) for name in os.listdir(parent) if name.isdigit()), default=0) + 1
    folder = os.path.join(parent, str(version))
    beside = os.path.join(parent, f".{version}.{os.getpid()}.part")
    try:
        tf.saved_model.save(module, beside, signatures={"serving_default": module.score})
        _describe(checkpoint, form, module.folded, os.path.join(beside, TRAINING))
        os.rename(beside, folder)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return folder


def default_parent(job_file: JobFile, form: Form) -> str:
    """The folder of a form's versions: a server watches one folder, so each form has its own."""
    return os.path.join(job_file.output, "export" if form == "plain" else "export-ops")


def _describe(checkpoint: Checkpoint, form: Form, folded: tuple[str, ...], path: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    known = {"step": checkpoint.step, "sampling": checkpoint.manifest.sampling, "form": form, "folded": folded}
    with open(path, "w", encoding="utf-8") as file:
        json.dump(known, file, indent=1)
        file.write("\n")
