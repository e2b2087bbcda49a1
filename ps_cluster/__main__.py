"""The command `ps-cluster`, also as `python -m ps_cluster`; Ctrl-C is quiet from the first import on."""

from __future__ import annotations

import sys


def run() -> int:
    """Runs the command line; returns its exit code."""
    try:
        from ps_cluster.cli.main import main

        return main()
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(run())
