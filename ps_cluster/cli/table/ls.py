"""`ps-cluster table ls`: the tables of a checkpoint."""

from __future__ import annotations

import argparse

from ps_cluster.cli.table.opened import add_place, opened


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to those of `ps-cluster table`."""
    parser = subparsers.add_parser("ls", help="list tables", description="List the tables of a checkpoint.")
    add_place(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """List; one line a table."""
    with opened(args.checkpoint) as checkpoint:
        from ps_cluster.checkpoint.rows import rows_of
        from ps_cluster.report.text import count, size

        lines = [("table", "rows", "counted", "dim", "values", "optimizer", "engine", "files", "bytes")]
        for name in sorted(checkpoint.tables()):
            levels = checkpoint.levels(name)
            table = levels[-1].table
            if len(levels) == 1:
                rows = sum(shard.rows for shard in table.shards)
                counted = sum(shard.counted_keys for shard in table.shards)
            else:  # only the files of a chain together tell which rows are left
                rows = counted = 0
                for block in rows_of(checkpoint, name):
                    rows += len(block.keys) if block.row_class else 0
                    counted += 0 if block.row_class else len(block.keys)
            files = sum(len(level.table.shards) for level in levels)
            lines.append(
                (
                    name,
                    count(rows),
                    count(counted),
                    "/".join(map(str, table.dims)),
                    table.value_type,
                    table.optimizer,
                    table.engine,
                    count(files),
                    size(sum(level.table.bytes for level in levels)),
                )
            )
        print(f"step {count(checkpoint.step)}: {checkpoint.folder}")
        if checkpoint.chain:
            steps = ", ".join(count(base.step) for base in checkpoint.chain)
            print(f"a delta, with the files of step {steps}")
        widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
        left = {0, 4, 5, 6}
        for line in lines:
            cells = [f"{cell:{w}}" if i in left else f"{cell:>{w}}" for i, (cell, w) in enumerate(zip(line, widths))]
            print("  ".join(cells).rstrip())
    return 0
