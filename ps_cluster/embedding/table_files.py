"""Which files of a checkpoint hold a table, and whether they hold it as the job describes it."""

from __future__ import annotations

import os
from collections.abc import Sequence

from ops.embedding import RowLayout
from ps_cluster.errors import UserError


def shards_of(table: str, layout: RowLayout, folder: str, files: Sequence[dict]) -> list[tuple[str, str, int]]:
    """The table's shards as (keys file, rows file, number of rows).

    Args:
      table: name of the table.
      layout: the rows that the job expects.
      folder: the checkpoint's folder.
      files: its manifest entries of tables, as `EmbeddingStore.save` returned them.

    Raises:
      UserError: the checkpoint has no such table, or one of other rows; names the table or the file.
    """
    entries = [entry for entry in files if entry["table"] == table and entry["part"] == "keys"]
    if not entries:
        trained = ", ".join(sorted({entry["table"] for entry in files})) or "none"
        raise UserError(f"{folder}: expected files of table {table}, found tables: {trained}")
    shards = []
    for entry in entries:
        keys_file = os.path.join(folder, entry["file"])
        expected = (layout.dim, layout.optimizer, layout.row_floats)
        found = (entry["dim"], entry["optimizer"], entry["row_floats"])
        if found != expected:
            raise UserError(
                f"{keys_file}: table {table}: expected rows of dim {layout.dim} with {layout.optimizer}, found dim "
                f"{entry['dim']} with {entry['optimizer']}; the job's table is not the one that was trained"
            )
        shards.append((keys_file, keys_file[: -len("keys")] + "values", entry["bytes"] // 8))
    return shards
