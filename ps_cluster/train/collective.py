"""Horovod among the workers of a job: how they find each other, and the reductions that training uses."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence

import numpy as np

from ps_cluster.errors import RunError
from ps_cluster.job.membership import Membership, port_of
from ps_cluster.train.reach import wait_until_reachable

_LOOPBACK = {"localhost", "127.0.0.1"}


@contextlib.contextmanager
def joined(membership: Membership) -> Iterator[None]:
    """Joins the workers' ring for the duration of the block.

    Worker 0 serves the rendezvous (an HTTP key-value store) on its address from the membership; no mpirun, ssh or
    operator is needed. TensorFlow must not have been used to import Horovod before.

    Raises:
      RunError: the rendezvous port is taken, or the others cannot be reached.
    """
    hosts = [address.rpartition(":")[0] for address in membership.workers]
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
    )
    server = None
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
            server = _serve_rendezvous(membership.rendezvous, hosts)
        else:  # Horovod itself gives up after a few refused connections, by aborting the process
            wait_until_reachable("worker 0's rendezvous", membership.rendezvous, f"worker {membership.index}")
    import horovod.tensorflow as hvd

    try:
        hvd.init()
    except Exception as error:
        raise RunError(f"worker {membership.index}: could not join the other workers' ring: {error}") from error
    try:
        yield
    finally:
        hvd.shutdown()
        if server is not None:
            server.shutdown()


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
    import horovod.tensorflow as hvd

    if hvd.size() > 1:
        hvd.broadcast_variables(list(variables), root_rank=0)
