"""A container's command line, as its process gets it."""

from __future__ import annotations

from collections.abc import Mapping

from ps_cluster.errors import UserError
from tests.pods import image
from tests.pods.pods import Pod, expanded


def arguments(pod: Pod, variables: Mapping[str, str]) -> list[str]:
    """The container's command line.

    Raises:
      UserError: its program is not here, or hidden by a volume.
    """
    told = pod.workload.template.container
    for mount in told.mounts:
        if hidden := [one for one in image.shown_folders() if f"{one}/".startswith(f"{mount.path.rstrip('/')}/")]:
            where = f"{pod.workload.kind} {pod.workload.name}: volumeMounts {mount.path}"
            raise UserError(f"{where}: expected a place that does not hide {hidden[0]}, which stands for the image")
    argv = [expanded(text, variables) for text in told.argv]
    if not image.has_program(argv[0]):
        where = f"{pod.workload.kind} {pod.workload.name}: container {told.name}"
        raise UserError(f"{where}: expected a program of this environment, which stands for the image, found {argv[0]}")
    return argv
