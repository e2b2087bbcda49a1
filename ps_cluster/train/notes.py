"""Notes that workers leave for each other at the rendezvous, before TensorFlow may be used."""

from __future__ import annotations

import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable

from ps_cluster.errors import RunError
from ps_cluster.job.membership import Membership
from ps_cluster.train.reach import wait_until_reachable

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


def wait_for_rendezvous(membership: Membership, formed: str, limit_seconds: float) -> None:
    """Returns when worker 0's rendezvous answers and the note `formed` is not there.

    Where it is, the ring that the rendezvous stands for has formed already: with a former life of this worker, so that
    worker 0 has yet to notice that the ring is broken, and to begin anew. Who joined then would be cut off midway.

    Raises:
      RunError: it did not within the limit.
    """
    me = f"worker {membership.index}"
    deadline = time.monotonic() + limit_seconds
    assert membership.rendezvous is not None
    while True:
        left = max(0.0, deadline - time.monotonic())
        wait_until_reachable("worker 0's rendezvous", membership.rendezvous, me, left)
        try:
            with urllib.request.urlopen(_url(membership, formed), timeout=_REQUEST_SECONDS):
                pass
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return
        except OSError:
            pass  # it ends just now
        if left == 0:
            raise RunError(f"{me}: waited {limit_seconds:g} s for worker 0 to leave the ring of before")
        time.sleep(0.1)


def _url(membership: Membership, note: str) -> str:
    return f"http://{membership.rendezvous}/{NOTES}/{urllib.parse.quote(note)}"
