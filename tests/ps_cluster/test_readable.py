"""A worker's log ends with one line about a TensorFlow error."""

from __future__ import annotations

import pytest
import tensorflow as tf

from ps_cluster.errors import RunError
from ps_cluster.roles.readable import one_line, readable_errors

FRAMES = (
    'Graph execution error:\n\nDetected at node Split defined at (most recent call last):\n  File "step.py", line 3\n'
    "Detected at node Split/_5 defined at (most recent call last):\n<stack traces unavailable>\n"
)


def test_the_pages_about_where_an_error_happened_are_left_out() -> None:
    message = f"{FRAMES}\n{FRAMES}gradients: expected shape [3, 4], found [2, 4]\n\t [[{{{{node push}}}}]] [Op:step]"
    assert one_line("InvalidArgumentError", message) == (
        "InvalidArgumentError: gradients: expected shape [3, 4], found [2, 4]"
    )


def test_of_several_errors_the_first_is_told() -> None:
    message = f"{FRAMES}2 root error(s) found.\n  (0) OUT_OF_RANGE:  no more\n\t [[a]]\n  (1) INTERNAL:  other\n"
    assert one_line("OutOfRangeError", message) == "OutOfRangeError: no more"


def test_a_lost_ps_is_named() -> None:
    message = "Socket closed\nAdditional GRPC error information from remote target /job:ps/replica:0/task:1 while:\n:{}"
    assert one_line("UnavailableError", message) == "PS 1 is lost: UnavailableError: Socket closed"
    cancelled = message.replace("Socket closed", "Cancelled")
    assert one_line("CancelledError", cancelled) == "PS 1 is lost: CancelledError: Cancelled"


def test_the_failure_of_another_worker_is_told_as_that() -> None:
    message = f"{FRAMES}2 root error(s) found.\n  (0) UNKNOWN:   Horovod has been shut down. This was caused by"
    assert one_line("UnknownError", message).startswith("another worker has failed")


def test_an_error_of_a_real_graph_becomes_one_line(capfd: pytest.CaptureFixture[str]) -> None:
    @tf.function
    def step(x: tf.Tensor) -> tf.Tensor:
        tf.debugging.Assert(x > 0, ["x is not positive:", x])
        return x

    with pytest.raises(RunError, match=r"^InvalidArgumentError: .*x is not positive"), readable_errors():
        step(tf.constant(-1))
    assert "Traceback" in capfd.readouterr().err
