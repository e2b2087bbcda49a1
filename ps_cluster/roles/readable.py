"""TensorFlow's errors in one line: what happened, without the pages about where."""

from __future__ import annotations

import contextlib
import re
import traceback
from collections.abc import Iterator

from ps_cluster.errors import RunError

OTHERS_FAILED = "Horovod has been shut down"
"""What Horovod says on a worker that waits for one that has failed; the other worker knows the cause."""

_FRAME = re.compile(
    r"^\s*(Graph execution error:|Detected at node|<stack traces unavailable>|File \"|Additional GRPC error|:\{|\[\[|"
    r"\d+ (root error|successful operation|derived error)|Original stack trace)|^\s*$"
)
_COUNTED = re.compile(r"^\s*\(\d+\) [A-Z_ ]+: ?")
_EAGER = re.compile(r"^\{\{function_node [^}]*\}\}\s*|\s*\[Op:\w+\](?: name: ?)?$")
_PS = re.compile(r"remote target /job:ps/replica:\d+/task:(\d+)")


@contextlib.contextmanager
def readable_errors(pages: bool = True) -> Iterator[None]:
    """Raises TensorFlow's errors as `RunError`s of one line.

    pages: where standard error is a log, all that TensorFlow says goes there too.
    """
    import tensorflow as tf

    try:
        yield
    except tf.errors.OpError as error:
        if pages:
            traceback.print_exc()
        raise RunError(one_line(type(error).__name__, error.message)) from None


def one_line(kind: str, message: str) -> str:
    """The first line of a TensorFlow error's message that tells what happened; names a PS that is gone.

    kind: name of the error's class.
    """
    told = next((line for line in message.splitlines() if not _FRAME.match(line)), "no message")
    text = f"{kind}: {_EAGER.sub('', _COUNTED.sub('', told)).strip()}"
    if OTHERS_FAILED in told:
        return f"another worker has failed, and this one cannot go on ({OTHERS_FAILED})"
    lost = _PS.search(message)
    if lost and kind in ("UnavailableError", "AbortedError", "CancelledError"):  # the last: gRPC gave it up
        return f"PS {lost[1]} is lost: {text}"
    return text
