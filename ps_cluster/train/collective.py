"""Horovod among the workers of a job: how they find each other, and the reductions that training uses."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ps_cluster.errors import RunError
from ps_cluster.job.membership import Membership, port_of
from ps_cluster.train.notes import NOTES, leave_note, wait_for_note, wait_for_rendezvous

_LOOPBACK = {"localhost", "127.0.0.1"}
_GLOO_LATER_SECONDS = 30
_FORMED = "the ring has formed"


class Ring:
    """This worker's place in the ring of the workers; of `joined`."""

    def __init__(self, membership: Membership, wait_seconds: float):
        self._membership = membership
        self._wait_seconds = wait_seconds
        self._server: Any = None

    def leave(self) -> None:
        """Leaves the ring. Whoever waits for this worker in a collective gets an error instead of an answer."""
        import horovod.tensorflow as hvd

        hvd.shutdown()

    def rebuild(self, attempt: str) -> None:
        """Joins a new ring of the same workers, all of which have left the old one; every worker calls it.

        Raises:
          RunError: another worker does not come.
        """
        import horovod.tensorflow as hvd

        note = f"a ring for {attempt}"
        if len(self._membership.workers) == 1:
            pass
        elif self._server is not None:
            _forget_ring(self._server)
            leave_note(self._membership, note)
        else:
            wait_for_note(self._membership, note, self._wait_seconds)
        try:
            hvd.init()
        except Exception as error:
            raise RunError(f"worker {self._membership.index}: could not join the ring again: {error}") from error


@contextlib.contextmanager
def joined(membership: Membership, wait_seconds: float = 300.0) -> Iterator[Ring]:
    """Joins the workers' ring for the duration of the block.

    Worker 0 serves the rendezvous (an HTTP key-value store) on its address from the membership; no mpirun, ssh or
    operator is needed. TensorFlow must not have been used to import Horovod before.

    wait_seconds: limit of waits for the others.

    Raises:
      RunError: the rendezvous port is taken, or the others cannot be reached.
    """
    hosts = _hosts(membership)
    host = hosts[membership.index]
    local = [index for index, other in enumerate(hosts) if other == host]
    os.environ.update(
        HOROVOD_RANK=str(membership.index),
        HOROVOD_SIZE=str(len(hosts)),
        HOROVOD_LOCAL_RANK=str(local.index(membership.index)),
        HOROVOD_LOCAL_SIZE=str(len(local)),
        HOROVOD_CROSS_RANK=str(sorted(set(hosts), key=hosts.index).index(host)),
        HOROVOD_CROSS_SIZE=str(len(set(hosts))),
        HOROVOD_HOSTNAME=host,
        HOROVOD_CONTROLLER="gloo",
        HOROVOD_CPU_OPERATIONS="gloo",
        # Behind that of the watchdog, which can say who is missing; by itself Horovod gives up after 30 s.
        HOROVOD_GLOO_TIMEOUT_SECONDS=str(int(wait_seconds) + _GLOO_LATER_SECONDS),
    )
    ring = Ring(membership, wait_seconds)
    if len(hosts) > 1:
        assert membership.rendezvous is not None  # a membership of several workers has one
        rendezvous_host = membership.rendezvous.rpartition(":")[0]
        os.environ.update(
            HOROVOD_GLOO_RENDEZVOUS_ADDR="127.0.0.1" if rendezvous_host in _LOOPBACK else rendezvous_host,
            HOROVOD_GLOO_RENDEZVOUS_PORT=str(port_of(membership.rendezvous)),
        )
        if set(hosts) <= _LOOPBACK:
            os.environ.setdefault("HOROVOD_GLOO_IFACE", "lo")
        if membership.index == 0:
            ring._server = _serve_rendezvous(membership.rendezvous, hosts)
        else:  # Horovod itself gives up after a few refused connections, by aborting the process
            wait_for_rendezvous(membership, _FORMED, wait_seconds)
    import horovod.tensorflow as hvd

    try:
        hvd.init()
    except Exception as error:
        raise RunError(f"worker {membership.index}: could not join the other workers' ring: {error}") from error
    if ring._server is not None:
        leave_note(membership, _FORMED)
    try:
        yield ring
    finally:
        hvd.shutdown()
        if ring._server is not None:
            ring._server.shutdown()


def _hosts(membership: Membership) -> list[str]:
    return [address.rpartition(":")[0] for address in membership.workers]


def _serve_rendezvous(address: str, hosts: Sequence[str]):
    from horovod.runner.common.util.hosts import get_host_assignments, parse_hosts
    from horovod.runner.http.http_server import RendezvousHandler, RendezvousHTTPServer
    from horovod.runner.util.threads import in_thread

    bind_to = "127.0.0.1" if address.rpartition(":")[0] in _LOOPBACK else ""
    try:
        server = RendezvousHTTPServer((bind_to, port_of(address)), RendezvousHandler, 0)
    except OSError as error:
        raise RunError(f"rendezvous: cannot listen on {address}: {error.strerror}") from error
    slots = ",".join(f"{host}:{hosts.count(host)}" for host in dict.fromkeys(hosts))
    server.init(get_host_assignments(parse_hosts(slots), len(hosts), len(hosts)))
    in_thread(target=server.serve_forever)
    return server


def _forget_ring(server: Any) -> None:
    """Removes what the workers of the old ring have told of themselves; notes stay."""
    with server.cache_lock:
        for scope in [scope for scope in server.cache if scope != NOTES]:
            del server.cache[scope]
    with server.finished_list_lock:
        server.finished_list.clear()


def sum_inside_step(tensors: Sequence) -> list:
    """Sums each tensor over the workers; inside a `tf.function`. All of them travel as one message."""
    import horovod.tensorflow as hvd

    if hvd.size() == 1:
        return list(tensors)
    return hvd.grouped_allreduce(list(tensors), op=hvd.Sum)


def total(array: np.ndarray) -> np.ndarray:
    """Sum of an array over the workers; every worker must call it."""
    import horovod.tensorflow as hvd

    return array if hvd.size() == 1 else hvd.allreduce(array, op=hvd.Sum).numpy()


def gathered(array: np.ndarray) -> np.ndarray:
    """The workers' 1-D arrays one after the other in rank order; every worker must call it."""
    import horovod.tensorflow as hvd

    return array if hvd.size() == 1 else hvd.allgather(array).numpy()


def text_from_first(text: str | None) -> str:
    """Worker 0's text; every worker must call it, the others with None."""
    raw = np.frombuffer((text or "").encode(), np.uint8)
    return gathered(raw).tobytes().decode()


def broadcast_from_first(variables: Sequence) -> None:
    """Sets every worker's variables to worker 0's."""
    broadcast_from(0, variables)


def broadcast_from(rank: int, variables: Sequence) -> None:
    """Sets every worker's variables to those of worker `rank`."""
    import horovod.tensorflow as hvd

    if hvd.size() > 1:
        hvd.broadcast_variables(list(variables), root_rank=rank)
