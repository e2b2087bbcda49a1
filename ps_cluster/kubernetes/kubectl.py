"""Calls of kubectl: what it prints, and in one line why it could not."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ps_cluster.errors import RunError, UserError

_SECONDS = 120.0
"""Longest call that waits for nothing but the cluster's answer."""


@dataclass(frozen=True)
class Kubectl:
    """The program, and the namespace that it is told; None: its current one."""

    program: str
    namespace: str | None = None

    def command(self, *args: str) -> list[str]:
        """A command line."""
        place = ["--namespace", self.namespace] if self.namespace is not None else []
        return [self.program, *place, *args]

    def run(self, *args: str, given: str | None = None, seconds: float = _SECONDS) -> str:
        """What kubectl prints.

        Args:
          args: of kubectl; the first one is told in errors.
          given: its standard input.
          seconds: limit of the call.

        Raises:
          RunError: the cluster refuses, or does not answer.
        """
        done = self._done(args, given, seconds)
        if done.returncode != 0:
            raise RunError(f"kubectl {args[0]}: {_reason(done.stderr)}")
        return done.stdout

    def objects(self, kind: str, labels: Mapping[str, str]) -> list[dict[str, Any]]:
        """All objects of a kind with these labels. Raises RunError."""
        found = json.loads(self.run("get", kind, "--selector", selected(labels), "--output", "json"))
        items: list[dict[str, Any]] = found["items"]
        return items

    def object(self, kind: str, name: str) -> dict[str, Any] | None:
        """One object; None where there is none. Raises RunError."""
        text = self.run("get", kind, name, "--ignore-not-found", "--output", "json")
        return json.loads(text) if text.strip() else None

    def popen(self, *args: str, **more: Any) -> subprocess.Popen[str]:
        """A call that goes on beside this process."""
        return subprocess.Popen(self.command(*args), text=True, **more)

    def _done(self, args: Sequence[str], given: str | None, seconds: float) -> subprocess.CompletedProcess[str]:
        try:
            return subprocess.run(
                self.command(*args),
                input=given if given is not None else "",
                capture_output=True,
                text=True,
                timeout=seconds,
            )
        except subprocess.TimeoutExpired:
            raise RunError(f"kubectl {args[0]}: the cluster did not answer within {seconds:.0f} s") from None


def find_kubectl(namespace: str | None = None) -> Kubectl:
    """The kubectl of this machine.

    Raises:
      UserError: there is none.
    """
    program = shutil.which("kubectl")
    if program is None:
        raise UserError("kubectl: expected the program on PATH, found none (https://kubernetes.io/docs/tasks/tools)")
    return Kubectl(program, namespace)


def selected(labels: Mapping[str, str]) -> str:
    """Labels as kubectl's selectors are written."""
    return ",".join(f"{name}={value}" for name, value in labels.items())


def _reason(stderr: str) -> str:
    """Last line that says something, without what is the same in all of them."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    words = [line for line in lines if not line.startswith(("E1", "W1", "I1", "Warning:"))] or lines
    said = "; ".join(dict.fromkeys(words[-3:])) or "failed without a word"
    return said.removeprefix("error: ").replace("Error from server ", "")
