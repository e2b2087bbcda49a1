"""A PS that ends with its run: worker 0 says when, and a run that is gone for good is noticed."""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Event

from ps_cluster.errors import RESTART
from ps_cluster.job.membership import Membership

DONE, ENDED, GONE, NEVER_CAME = "done", "ended", "gone", "never came"
_MISSES = 2
"""Failed questions in a row that mean more than one lost packet or one slow name server."""


@dataclass(frozen=True)
class Patience:
    """Seconds without an answer from worker 0 after which a PS gives up, and between two questions.

    The limit is longer than Kubernetes waits before it starts a failed pod again, up to ten minutes, and this takes to
    start: PS that gave up before would be counted as failed, once for each time that the workers begin late.
    """

    limit: float = 900.0
    pause: float = 2.0


def wait_until_done(
    membership: Membership, done_file: str, told_to_end: Event, patience: Patience | None = None
) -> int:
    """Returns when the run is over, or worker 0 gone for good; says so, and what status to end with.

    told_to_end: set: no longer than the workers are there, who may be writing their last checkpoint.
    """
    patience = patience or Patience()
    address = membership.rendezvous or membership.workers[0]  # where worker 0 listens while it needs the PS
    how, me = outcome(done_file, address, told_to_end, patience), f"ps {membership.index}"
    if how == DONE:
        print(f"{me}: training is over", flush=True)
        return 0
    if how == ENDED:
        print(f"{me}: was told to end, and the workers have ended", flush=True)
        return RESTART
    words = "did not answer any more" if how == GONE else "did not answer"
    print(f"{me}: worker 0 at {address} {words} within {patience.limit:.0f} s", file=sys.stderr, flush=True)
    return 1


def outcome(done_file: str, address: str, told_to_end: Event, patience: Patience) -> str:
    """DONE: `done_file` has been written. ENDED: told to, and nobody listens at `address`. GONE: somebody listened
    there, then for long nobody did. NEVER_CAME: nobody did."""
    seen, misses = False, 0
    last = time.monotonic()
    while not os.path.exists(done_file):
        if _is_open(address):
            seen, misses, last = True, 0, time.monotonic()
        else:
            misses += 1
            if told_to_end.is_set() and misses >= _MISSES:
                return ENDED
            if time.monotonic() - last >= patience.limit:
                return GONE if seen else NEVER_CAME
        if told_to_end.is_set():
            time.sleep(patience.pause)
        else:
            told_to_end.wait(patience.pause)
    time.sleep(patience.pause)  # whoever had the file written may wait for an answer of this process
    return DONE


def tell_done(devices: Sequence[str], done_file: str) -> None:
    """Worker 0: writes the file on the machine of each PS. A PS that is gone needs no word."""
    import tensorflow as tf

    for device in devices:
        try:
            with tf.device(device):
                tf.io.write_file(done_file, b"")
                tf.io.read_file(done_file).numpy()  # ops on other machines return before they are done
        except tf.errors.OpError:
            continue


def forget_done(done_file: str) -> None:
    """Removes what an earlier PS of this machine has left."""
    if os.path.exists(done_file):
        os.remove(done_file)


def _is_open(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except OSError:
        return False
    return True
