"""What lies in a folder with a manifest without being listed there is not read, but told."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

_SHOWN = 20


def tell_unlisted(patterns: Sequence[str]) -> None:
    """A line on standard error for each ORC file that `data.paths.unlisted` finds. Raises `DataError` as it does."""
    from data.paths import unlisted

    found = unlisted(patterns, os.getcwd())
    for path in found[:_SHOWN]:
        shown = os.path.relpath(path) if path.startswith(os.getcwd() + os.sep) else path
        print(f"not read: {shown}: the folder's manifest does not list it", file=sys.stderr)
    if len(found) > _SHOWN:
        print(f"not read: and {len(found) - _SHOWN:,} more files", file=sys.stderr)
