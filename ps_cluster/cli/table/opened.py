"""What all commands on tables have in common: their first argument, and errors in one line."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ps_cluster.errors import UserError

if TYPE_CHECKING:
    from ps_cluster.checkpoint.finding import Checkpoint


def add_place(parser: argparse.ArgumentParser) -> None:
    """Adds the argument that says which checkpoint is meant."""
    parser.add_argument(
        "checkpoint",
        metavar="CHECKPOINT",
        help="folder of a step, or a job's output folder, whose newest checkpoint is taken; local, s3:// or hdfs://",
    )


@contextlib.contextmanager
def opened(place: str) -> Iterator[Checkpoint]:
    """The checkpoint at `place`; what is damaged in it becomes a UserError of one line."""
    from ps_cluster.quiet import import_tensorflow

    tf = import_tensorflow(gpu=False)
    from ops.library import load
    from ps_cluster.checkpoint.finding import checkpoint_at
    from ps_cluster.checkpoint.storage import load_file_systems
    from ps_cluster.roles.readable import one_line

    load()
    load_file_systems(place)
    try:
        yield checkpoint_at(place, devices=())
    except tf.errors.OpError as error:
        raise UserError(one_line("", error.message).removeprefix(": ")) from None
