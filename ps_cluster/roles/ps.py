"""A parameter server: a TensorFlow server that holds tables and runs the ops sent to it, nothing else."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Sequence
from threading import Event
from types import FrameType
from typing import NoReturn

from ops import library
from ps_cluster.errors import RESTART, RunError
from ps_cluster.job.membership import Membership
from ps_cluster.launch.pdeathsig import die_with_launcher
from ps_cluster.launch.ports import listen_error
from ps_cluster.quiet import drop_held_output, held_output, import_tensorflow
from ps_cluster.roles.probes import probe_connections


def load_own_ops() -> None:
    """Registers the ops on tables."""
    library.load()


def run_ps(
    membership: Membership,
    libraries: Sequence[Callable[[], object]] = (load_own_ops,),
    serve: Callable[[], object] = lambda: None,
    until: Callable[[Event], int] | None = None,
) -> NoReturn:
    """Serve as PS `membership.index` until SIGTERM, which ends the process with status 0 (SIGINT: 130).

    Prints one line, "ps 0 is ready at host:port", once it accepts connections. TensorFlow listens on that
    port on every interface and lets everyone who reaches it run any op: the network around it must be closed.

    Args:
      membership: place in the cluster; only the PS are named to TensorFlow.
      libraries: what to call, after TensorFlow and TFRA are imported, so that further ops are registered.
      serve: called when the tables can be reached: what else this process serves, from threads of its own.
      until: returns when the run is over, with the status to end with. SIGTERM then only sets the event that it is
        given, before that it ends the process with RESTART: whoever started it has to start another one.

    Raises:
      RunError: the port cannot be listened on, ops cannot be loaded, or TensorFlow cannot start its server.
    """
    die_with_launcher()
    # A TensorFlow server cannot be shut down: at the end the process goes, whatever is connected or running.
    signal.signal(signal.SIGTERM, _leave(0 if until is None else RESTART))
    signal.signal(signal.SIGINT, _leave(130))
    _check_port(membership)
    tf = import_tensorflow(gpu=False)
    try:
        for load in libraries:
            load()
    except (library.LibraryError, tf.errors.OpError) as error:
        raise RunError(f"ps {membership.index}: cannot load the ops: {error}") from None
    cluster = tf.train.ClusterSpec({"ps": list(membership.ps)})
    try:
        with held_output():
            server = tf.distribute.Server(cluster, job_name="ps", task_index=membership.index, protocol="grpc")
    except tf.errors.OpError as error:
        _check_port(membership)
        raise RunError(f"ps {membership.index}: cannot serve at {membership.address}: {error.message}") from None
    serve()
    probe_connections()
    told_to_end = Event()
    if until is not None:
        signal.signal(signal.SIGTERM, lambda signum, frame: told_to_end.set())
    print(f"ps {membership.index} is ready at {membership.address}", flush=True)
    if until is not None:
        _leave(until(told_to_end))(0, None)
    while True:  # not server.join(): a Python signal handler only runs while Python code does
        signal.pause()
        assert server is not None  # keeps it alive


def _check_port(membership: Membership) -> None:
    error = listen_error(membership.port)
    if error is not None:
        raise RunError(f"ps {membership.index}: cannot listen on port {membership.port}: {error.strerror}")


def _leave(status: int) -> Callable[[int, FrameType | None], None]:
    def leave(signum: int, frame: FrameType | None) -> None:
        drop_held_output()
        for stream in (sys.stdout, sys.stderr):
            # gone, or being written to at this very moment
            with contextlib.suppress(OSError, ValueError, RuntimeError):
                stream.flush()
        os._exit(status)

    return leave
