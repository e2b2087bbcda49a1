"""`python -m ps_cluster`: the command `ps-cluster` without an installation."""

from __future__ import annotations

import sys

from ps_cluster.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
