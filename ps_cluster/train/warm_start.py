"""Tables that start from another job's checkpoint."""

from __future__ import annotations

from collections.abc import Sequence

from ps_cluster.checkpoint.finding import Checkpoint, checkpoint_at
from ps_cluster.embedding.store import EmbeddingStore
from ps_cluster.errors import UserError


def warm_start(
    store: EmbeddingStore, place: str, tables: Sequence[str] | None, take: str, devices: Sequence[str]
) -> tuple[Checkpoint, dict[str, int]]:
    """Puts rows of a checkpoint into the tables of a store, as where their training starts.

    Args:
      store: tables without rows.
      place: folder of a step, or another job's output folder.
      tables: which to take; None: all that both have.
      take: `embeddings`, or `all`: slots, and counts of the admission too.
      devices: where the checkpoint's files are read to be checked.

    Returns:
      The checkpoint, and the rows by table.

    Raises:
      UserError: there is no whole checkpoint, it has none of the tables, or a table's rows do not fit.
    """
    checkpoint = checkpoint_at(place, devices)
    own, theirs = store.table_names(), checkpoint.tables()
    if tables is None:
        tables = [name for name in own if name in theirs]
        if not tables:
            raise UserError(
                f"{checkpoint.folder}: expected a table of the job ({', '.join(sorted(own))}), found "
                f"{', '.join(sorted(theirs))}"
            )
    rows = store.restore(checkpoint.levels_of(tables), "embeddings" if take == "embeddings" else "warm")
    return checkpoint, rows
