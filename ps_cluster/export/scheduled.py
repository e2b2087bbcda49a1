"""An export as the job file's section `export` wants it: what changed since the version before, or a whole version."""

from __future__ import annotations

import os

from ps_cluster.errors import UserError
from ps_cluster.export.delta import export_delta
from ps_cluster.export.saved_model import Asked, Tell, default_parent, export_saved_model
from ps_cluster.export.sharded import export_sharded
from ps_cluster.export.version_folder import next_number, version_numbers
from ps_cluster.job.resolve import JobFile


def export_as_scheduled(job_file: JobFile, tell: Tell | None = None) -> str:
    """Exports the newest checkpoint; returns the folder. Errors as of `export_saved_model`, and UserError for a job
    without the section."""
    settings, asked = job_file.job.export, Asked(tell)
    if settings is None:
        raise UserError(f"{job_file.path}: expected 'export', found no such field")
    if settings.form == "sharded":
        assert settings.shards is not None, "the job is checked"
        return export_sharded(job_file, settings.shards, None, settings.rows, asked)
    parent = default_parent(job_file, settings.form)
    newest = next_number(parent) - 1
    whole = max(version_numbers(parent), default=0)
    if settings.delta and whole and newest - whole < settings.full_every - 1:
        try:
            return export_delta(job_file, newest, parent, asked)
        except UserError as error:  # of another form, or not all checkpoints since then are deltas
            if tell is not None:
                tell(f"{os.path.basename(parent)}: a whole version, as no delta can be made: {error}")
    return export_saved_model(job_file, parent, settings.form, settings.rows, asked)
