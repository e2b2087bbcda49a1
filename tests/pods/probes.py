"""Probes: what their answers mean, and how they are asked."""

from __future__ import annotations

import http.client
import socket
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tests.pods.objects import Probe

STARTUP, READINESS, LIVENESS = "startupProbe", "readinessProbe", "livenessProbe"


@dataclass(frozen=True)
class Health:
    """What is known of a container. good, bad: answers in a row, by probe. failed: the probe by which it has to end."""

    started: bool
    ready: bool
    good: Mapping[str, int]
    bad: Mapping[str, int]
    failed: str | None = None


def at_start(probes: Mapping[str, Probe]) -> Health:
    """Of a container that has just begun."""
    started = STARTUP not in probes
    return Health(started, started and READINESS not in probes, {}, {})


def is_asked(health: Health, name: str) -> bool:
    """Until a container has started, nothing else is asked; then, that no more."""
    return health.started != (name == STARTUP)


def answered(probes: Mapping[str, Probe], health: Health, name: str, well: bool) -> Health:
    """What is known after an answer to a probe."""
    probe = probes[name]
    good = {**health.good, name: health.good.get(name, 0) + 1 if well else 0}
    bad = {**health.bad, name: health.bad.get(name, 0) + 1 if not well else 0}
    health = replace(health, good=good, bad=bad)
    if well and good[name] >= probe.successes:
        if name == STARTUP:
            return replace(health, started=True, ready=READINESS not in probes)
        if name == READINESS:
            return replace(health, ready=True)
    if not well and bad[name] >= probe.failures:
        if name == READINESS:
            return replace(health, ready=False)
        return replace(health, failed=name)
    return health


def ask(probe: Probe, address: str, into: Sequence[str]) -> str | None:
    """Asks once; None when all is well, else what is wrong. into: what a command line begins with to run in the
    container."""
    limit = probe.timeout_seconds
    try:
        if probe.kind == "exec":
            done = subprocess.run([*into, *probe.command], capture_output=True, text=True, timeout=limit, check=False)
            return f"status {done.returncode}: {done.stderr.strip()[-200:]}" if done.returncode else None
        if probe.kind == "tcpSocket":
            socket.create_connection((address, probe.port), timeout=limit).close()
            return None
        connection = http.client.HTTPConnection(address, probe.port, timeout=limit)
        try:
            connection.request("GET", probe.path)
            status = connection.getresponse().status
        finally:
            connection.close()
        return None if 200 <= status < 400 else f"status {status}"
    except (OSError, subprocess.TimeoutExpired, http.client.HTTPException) as error:
        return str(error) or type(error).__name__


class Asking:
    """Asks the probes of one container, each from a thread of its own, so that nobody waits for a silent one."""

    def __init__(self, probes: Mapping[str, Probe], address: str, into: Sequence[str]):
        self._probes, self._address, self._into = probes, address, into
        self.health = at_start(probes)
        self.wrong = ""
        """What was wrong with the last bad answer."""
        self._lock = threading.Lock()
        self._over = threading.Event()
        for name in probes:
            threading.Thread(target=self._ask, args=(name,), name=name, daemon=True).start()

    def stop(self) -> None:
        self._over.set()

    def _ask(self, name: str) -> None:
        probe = self._probes[name]
        if name == STARTUP and self._over.wait(probe.delay_seconds):
            return
        while name != STARTUP and not self.health.started:
            if self._over.wait(0.2):
                return
        if name != STARTUP and self._over.wait(probe.delay_seconds):
            return
        while is_asked(self.health, name) and self.health.failed is None:
            begun = time.monotonic()
            wrong = ask(probe, self._address, self._into)
            with self._lock:
                if wrong is not None:
                    self.wrong = wrong
                self.health = answered(self._probes, self.health, name, wrong is None)
            if self._over.wait(max(0.0, probe.period_seconds - (time.monotonic() - begun))):
                return
