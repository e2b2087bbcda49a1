"""The command `ps-cluster`, also as `python -m ps_cluster`; Ctrl-C is quiet from the first import on."""

from __future__ import annotations

import os
import sys


def run() -> int:
    """Runs the command line; returns its exit code."""
    _open_closed_streams()
    try:
        from ps_cluster.cli.main import main

        code = main()
    except KeyboardInterrupt:
        code = 130
    if "tensorflow_io" in sys.modules:  # whose S3 client aborts a process that ends in any other way
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    return code


def _open_closed_streams() -> None:
    """Opens what a shell closed (`>&-`) as nothing: else the next file that is opened would be standard output."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, this one
            setattr(sys, name, open(number, mode, closefd=False))  # noqa: SIM115 - open as long as the process


if __name__ == "__main__":
    sys.exit(run())
