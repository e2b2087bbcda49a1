"""Runs that end with their test, and what is counted in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.ps_cluster import small_cluster
from tests.ps_cluster.small_cluster import Run, job


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Run]]:
    """Starts a run whose processes end with the test, whatever happens in it."""
    runs: list[Run] = []

    def started(**changes: Any) -> Run:
        if not (tmp_path / "train.orc").exists():
            small_cluster.write_samples(tmp_path)
        runs.append(small_cluster.start(tmp_path, job(**changes)))
        return runs[-1]

    yield started
    for run in runs:
        run.kill_rest()
