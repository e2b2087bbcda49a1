"""Notes that workers leave for each other at the rendezvous, before TensorFlow may be used."""

from __future__ import annotations

import time
import urllib.error
import urllib.parse
import urllib.request

from ps_cluster.errors import RunError
from ps_cluster.job.membership import Membership

_WAIT_SECONDS = 300.0
_REQUEST_SECONDS = 10.0


def leave_note(membership: Membership, note: str) -> None:
    """Leaves a note for the other workers; without others, or without a rendezvous, there is nobody to read it."""
    if len(membership.workers) > 1:
        request = urllib.request.Request(_url(membership, note), data=b"1", method="PUT")
        with urllib.request.urlopen(request, timeout=_REQUEST_SECONDS):
            pass


def wait_for_note(membership: Membership, note: str) -> None:
    """Returns when the note is there.

    Raises:
      RunError: it was not left within five minutes, or the rendezvous is gone.
    """
    deadline = time.monotonic() + _WAIT_SECONDS
    while True:
        try:
            with urllib.request.urlopen(_url(membership, note), timeout=_REQUEST_SECONDS):
                return
        except urllib.error.HTTPError as error:
            if error.code != 404:
                raise RunError(f"worker {membership.index}: rendezvous: {error}") from error
        except OSError as error:
            raise RunError(f"worker {membership.index}: worker 0's rendezvous is gone: {error}") from error
        if time.monotonic() > deadline:
            raise RunError(f"worker {membership.index}: waited {_WAIT_SECONDS:.0f} s for: {note}")
        time.sleep(0.05)


def _url(membership: Membership, note: str) -> str:
    return f"http://{membership.rendezvous}/ps_cluster/{urllib.parse.quote(note)}"
