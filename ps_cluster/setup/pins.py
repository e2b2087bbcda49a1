"""Versions of all packages, read from the literal lists of setup.py without running it."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Pins:
    """The lists of setup.py, each entry `name==version`."""

    requirements: tuple[str, ...]
    extras: dict[str, tuple[str, ...]]
    indirect: tuple[str, ...]
    build_tools: tuple[str, ...]
    movielens: str

    def version(self, name: str) -> str:
        """Version of a package that the programs import."""
        (pin,) = (pin for pin in self.requirements if pin.startswith(f"{name}=="))
        return pin.partition("==")[2].partition(";")[0]


def read_pins(path: Path) -> Pins:
    """Pins of the setup.py at `path`."""
    values: dict[str, Any] = {}
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            try:
                values[node.targets[0].id] = ast.literal_eval(node.value)
            except ValueError:
                continue  # not a literal, so not a list of versions
    return Pins(
        requirements=tuple(values["REQUIREMENTS"]),
        extras={name: tuple(pins) for name, pins in values["EXTRAS"].items()},
        indirect=tuple(values["INDIRECT"]),
        build_tools=tuple(values["BUILD_TOOLS"]),
        movielens=values["MOVIELENS"],
    )
