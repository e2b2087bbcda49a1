"""Notes that workers leave for each other at the rendezvous, before TensorFlow may be used."""

from __future__ import annotations

import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable

from ps_cluster.errors import RunError
from ps_cluster.job.membership import Membership

NOTES = "ps_cluster"
"""Where they lie among what the workers tell each other at the rendezvous."""

_REQUEST_SECONDS = 10.0


def leave_note(membership: Membership, note: str) -> None:
    """Leaves a note for the other workers; without others, or without a rendezvous, there is nobody to read it."""
    if len(membership.workers) > 1:
        request = urllib.request.Request(_url(membership, note), data=b"1", method="PUT")
        with urllib.request.urlopen(request, timeout=_REQUEST_SECONDS):
            pass


def wait_for_note(
    membership: Membership, note: str, limit_seconds: float, meanwhile: Callable[[], None] = lambda: None
) -> None:
    """Returns when the note is there. `meanwhile` is called again and again until then; what it raises ends the wait.

    Raises:
      RunError: it was not left within the limit, or the rendezvous is gone.
    """
    deadline = time.monotonic() + limit_seconds
    while True:
        told: object = ""
        try:
            with urllib.request.urlopen(_url(membership, note), timeout=_REQUEST_SECONDS):
                return
        except urllib.error.HTTPError as error:
            if error.code != 404:
                raise RunError(f"worker {membership.index}: rendezvous: {error}") from error
        except OSError as error:
            if isinstance(getattr(error, "reason", error), (ConnectionRefusedError, ConnectionResetError)):
                raise RunError(f"worker {membership.index}: worker 0's rendezvous is gone: {error}") from error
            told = f" (worker 0's rendezvous at {membership.rendezvous}: {error})"  # the network may come back
        if time.monotonic() > deadline:
            raise RunError(f"worker {membership.index}: waited {limit_seconds:g} s for: {note}{told}")
        meanwhile()
        time.sleep(0.05)


def _url(membership: Membership, note: str) -> str:
    return f"http://{membership.rendezvous}/{NOTES}/{urllib.parse.quote(note)}"
