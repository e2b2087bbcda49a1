"""A checkpoint on disk: tables' shards, dense weights, and a manifest written last that makes it exist."""

from __future__ import annotations

import json
import os
import shutil
import zlib
from dataclasses import dataclass

import numpy as np
import tensorflow as tf
import tf_keras

from ops.embedding import file_checksum
from ps_cluster.embedding.store import EmbeddingStore
from ps_cluster.errors import UserError
from ps_cluster.job.schema import Job
from ps_cluster.train.trained_job import meaning_of

FORMAT_VERSION = 1
MANIFEST = "manifest.json"
DENSE = "dense.npz"


@dataclass(frozen=True)
class Checkpoint:
    """A whole checkpoint: its folder, the step it holds, its files as the manifest lists them.

    trained: what of the job gives the files their meaning (`ps_cluster.train.trained_job`).
    sampling: rates by which the training rows were sampled (`ps_cluster.job.sampling`); None when they were not.
    """

    folder: str
    step: int
    files: list[dict]
    trained: dict
    sampling: dict | None = None

    def table_files(self) -> list[dict]:
        return [entry for entry in self.files if "table" in entry]


def save_checkpoint(
    output: str,
    step: int,
    job: Job,
    store: EmbeddingStore,
    model: tf_keras.Model,
    optimizer: tf_keras.optimizers.Optimizer,
    sampling: dict | None = None,
) -> str:
    """Writes OUTPUT/checkpoint/step-N: beside first, renamed when whole. Returns its folder.

    The tables' files are written by the PS themselves: OUTPUT must be one folder for all processes of the job.
    """
    folder = os.path.join(output, "checkpoint", f"step-{step:010d}")
    beside = folder + ".part"
    shutil.rmtree(beside, ignore_errors=True)
    os.makedirs(beside)
    try:
        _write(beside, step, job, store, model, optimizer, sampling)
        shutil.rmtree(folder, ignore_errors=True)
        os.rename(beside, folder)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return folder


def _write(
    beside: str,
    step: int,
    job: Job,
    store: EmbeddingStore,
    model: tf_keras.Model,
    optimizer: tf_keras.optimizers.Optimizer,
    sampling: dict | None,
) -> None:
    files = store.save(beside)
    dense = {f"model/{i}": weight.numpy() for i, weight in enumerate(model.weights)}
    dense.update({f"optimizer/{i}": variable.numpy() for i, variable in enumerate(optimizer.variables)})
    np.savez(os.path.join(beside, DENSE), **dense)
    length, crc = file_checksum(os.path.join(beside, DENSE))
    files.append({"file": DENSE, "bytes": int(length), "crc32c": int(crc)})
    with open(os.path.join(beside, MANIFEST), "w", encoding="utf-8") as out:
        out.write(_manifest_text(step, meaning_of(job), files, sampling))
        out.flush()
        os.fsync(out.fileno())


def newest_checkpoint(output: str) -> Checkpoint:
    """The newest checkpoint of a job, every file of it verified against the manifest.

    Raises:
      UserError: there is none, its format is of another version, or a file is missing or damaged; names the file.
    """
    parent = os.path.join(output, "checkpoint")
    names = sorted(os.listdir(parent)) if os.path.isdir(parent) else []
    names = [name for name in names if name.startswith("step-") and not name.endswith(".part")]
    if not names:
        raise UserError(f"{parent}: expected a checkpoint, found none (train the job first)")
    folder = os.path.join(parent, names[-1])
    path = os.path.join(folder, MANIFEST)
    try:
        with open(path, encoding="utf-8", newline="") as source:
            text = source.read()
        manifest = json.loads(text)
        version, step, trained, files = (manifest[key] for key in ("format_version", "step", "trained", "files"))
        sampling = manifest.get("sampling")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path}: expected a checkpoint's manifest, found {error!r}") from error
    if version != FORMAT_VERSION:
        raise UserError(f"{path}: expected format version {FORMAT_VERSION}, found {version}")
    if text != _manifest_text(step, trained, files, sampling):
        raise UserError(f"{path}: damaged: expected a manifest that matches its own CRC-32")
    for entry in files:
        _verify(os.path.join(folder, entry["file"]), entry)
    return Checkpoint(folder, step, files, trained, sampling)


def load_dense(
    checkpoint: Checkpoint, model: tf_keras.Model, optimizer: tf_keras.optimizers.Optimizer | None = None
) -> None:
    """Sets the model's weights and, where given, the optimiser's variables to the checkpoint's."""
    path = os.path.join(checkpoint.folder, DENSE)
    with np.load(path) as dense:
        variables = [(f"model/{i}", weight) for i, weight in enumerate(model.weights)]
        if optimizer is not None:
            variables += [(f"optimizer/{i}", variable) for i, variable in enumerate(optimizer.variables)]
        for kind, what in (("model/", "weights of the job's model"), ("optimizer/", "variables of its optimiser")):
            expected = sum(name.startswith(kind) for name, _ in variables)
            stored = sum(name.startswith(kind) for name in dense.files)
            if stored != expected and (kind == "model/" or optimizer is not None):
                raise UserError(f"{path}: expected {expected} {what}, found {stored}")
        for name, variable in variables:
            value = dense[name]
            if value.shape != tuple(variable.shape):
                raise UserError(
                    f"{path}: {variable.name}: expected shape {tuple(variable.shape)}, found {value.shape}; "
                    "the job's model is not the one that was trained"
                )
            variable.assign(value)


def _manifest_text(step: int, trained: dict, files: list[dict], sampling: dict | None) -> str:
    """The one way to write a manifest: whatever else is read has been changed since."""
    content = {"format_version": FORMAT_VERSION, "step": step, "trained": trained, "files": files}
    if sampling is not None:
        content["sampling"] = sampling
    crc = zlib.crc32(json.dumps(content, indent=1).encode())
    return json.dumps({**content, "crc32": crc}, indent=1)


def _verify(path: str, entry: dict) -> None:
    try:
        length, crc = (int(value) for value in file_checksum(path))
    except tf.errors.OpError as error:
        raise UserError(f"{path}: expected a file of the checkpoint, found {error.message}") from error
    if length != entry["bytes"] or crc != entry["crc32c"]:
        raise UserError(
            f"{path}: damaged: expected {entry['bytes']} bytes with CRC-32C {entry['crc32c']:08x}, "
            f"found {length} with {crc:08x}"
        )
