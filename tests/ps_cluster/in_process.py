"""Commands run in the tests' own process, which saves the start of one for each."""

from __future__ import annotations

import contextlib
import io
import os
import tempfile
from collections.abc import Sequence
from typing import NamedTuple
from unittest import mock

from ps_cluster.cli.main import main


class Ran(NamedTuple):
    """What came of a command."""

    returncode: int
    stdout: str
    stderr: str


def ran(arguments: Sequence[str], folder: str | os.PathLike[str] = ".", stdin: str = "") -> Ran:
    """Runs `ps-cluster` with `arguments` in `folder`."""
    out, err = io.StringIO(), io.StringIO()
    with tempfile.TemporaryFile("w+") as given, contextlib.ExitStack() as stack:
        given.write(stdin)
        given.seek(0)
        stack.enter_context(contextlib.chdir(folder))
        stack.enter_context(mock.patch("sys.stdin", given))
        stack.enter_context(contextlib.redirect_stdout(out))
        stack.enter_context(contextlib.redirect_stderr(err))
        try:
            code = main(arguments)
        except SystemExit as end:  # of argparse
            assert isinstance(end.code, int)
            code = end.code
    return Ran(code, out.getvalue(), err.getvalue())
