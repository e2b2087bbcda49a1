"""Which checkpoints stay."""

from __future__ import annotations

from ps_cluster.checkpoint import storage
from ps_cluster.checkpoint.finding import folder_of, step_folders
from ps_cluster.checkpoint.manifest import MANIFEST, parse
from ps_cluster.errors import UserError


def retire(parent: str, newest: int, keep: int) -> None:
    """Removes all checkpoints below `parent` but the `keep` newest up to step `newest` and what those are based on.

    Folders of later steps are of an earlier training, of which this one takes the place. Those without a manifest
    were never finished.
    """
    bases: dict[int, int | None] = {}
    steps = step_folders(parent)
    for step in steps:
        if step <= newest:
            path = storage.join(folder_of(parent, step), MANIFEST)
            try:
                manifest = parse(storage.read(path), path)
            except (UserError, *storage.READ_ERRORS):
                continue
            bases[step] = manifest.base.step if manifest.base is not None else None
    kept: set[int] = set()
    for step in sorted(bases, reverse=True)[:keep]:
        link: int | None = step
        while link is not None and link not in kept:
            kept.add(link)
            link = bases.get(link)
    for step in steps:
        if step not in kept:
            storage.remove_folder(folder_of(parent, step), MANIFEST)
