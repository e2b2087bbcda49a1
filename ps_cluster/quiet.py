"""Import TensorFlow without its start-up noise."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from types import ModuleType


def import_tensorflow(gpu: bool = True, tfra: bool = True) -> ModuleType:
    """Import TensorFlow and TFRA (whose ops are then registered) and return the `tensorflow` module.

    What they write while being imported is shown, on standard error, only when the import fails or kills
    the process. Sets `TF_USE_LEGACY_KERAS=1` and, unless it is set already, `TF_CPP_MIN_LOG_LEVEL=3`: what is an error
    to the caller is raised, and the rest is noise.

    Args:
      gpu: False hides every GPU from this process; for processes that hold tables in main memory only.
      tfra: False leaves TFRA out; for processes that only serve.
    """
    os.environ["TF_USE_LEGACY_KERAS"] = "1"
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    if not gpu:
        os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    with held_output():
        import tensorflow

        if tfra:
            import tensorflow_recommenders_addons.dynamic_embedding  # noqa: F401  registers TFRA's ops
    return tensorflow


@contextlib.contextmanager
def held_output() -> Iterator[None]:
    """Hold back what this process, C++ included, writes to standard output and error inside the block.

    The text is dropped when the block ends well. It goes to the real standard error when the block raises,
    and also when the process dies in it: a small forked process keeps the text, because a process that
    aborts (TensorFlow does, on a machine without AVX) can no longer show anything itself.
    """
    _flush()
    try:
        real_out, real_err = os.dup(1), os.dup(2)
    except OSError:  # no standard output or error to be noisy on
        yield
        return
    source, sink = os.pipe()
    keeper = os.fork()
    if keeper == 0:
        _keep(source, sink, real_err)
    os.close(source)
    os.dup2(sink, 1)
    os.dup2(sink, 2)
    os.close(sink)
    _keepers.append(keeper)
    well = False
    try:
        yield
        well = True
    finally:
        _flush()
        _keepers.remove(keeper)
        if well:  # before the pipe closes, or the keeper would take that for this process's death
            os.kill(keeper, signal.SIGKILL)
        os.dup2(real_out, 1)
        os.dup2(real_err, 2)
        os.close(real_out)
        os.close(real_err)
        os.waitpid(keeper, 0)


def drop_held_output() -> None:
    """Forget what is held back now; for the signal handler of a process that ends on purpose."""
    for keeper in _keepers:
        os.kill(keeper, signal.SIGKILL)


_keepers: list[int] = []  # processes that hold text now


def _keep(source: int, sink: int, shown_on: int) -> None:
    """Life of the forked process: read to the end, which means that the block failed, then show it all."""
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        for fd in (0, 1, 2, sink):
            with contextlib.suppress(OSError):
                os.close(fd)
        text = b""
        while piece := os.read(source, 65536):
            text += piece
        while text:
            text = text[os.write(shown_on, text) :]
    finally:
        os._exit(0)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
