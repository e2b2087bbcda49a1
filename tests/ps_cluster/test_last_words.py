"""The end of a log tells why its process ended."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ps_cluster.launch.last_words import ERROR_MARK, how_it_ended, last_words

NOISE = (
    "2024-05-06 07:08:09.123456: W tensorflow/core/file.cc:12] low on memory\n"
    "WARNING: All log messages before absl::InitializeLog() is called are written to STDERR\n"
    "I0000 00:00:1714979289.1 12345 cuda.cc:1] hello\n"
    "WARNING:tensorflow:deprecated\n"
)


def log_of(tmp_path: Path, code: str) -> Path:
    """Log of a Python process that runs `code`."""
    log = tmp_path / "process.log"
    with log.open("wb") as out:
        subprocess.run([sys.executable, "-c", code], stdout=out, stderr=subprocess.STDOUT, check=False)
    return log


def test_of_a_traceback_the_exception_remains(tmp_path: Path) -> None:
    log = log_of(tmp_path, "print('fine so far', flush=True)\ndef f():\n  raise KeyError('no such row')\nf()")
    assert last_words(log) == ["KeyError: 'no such row'"]


def test_of_chained_exceptions_the_last_remains(tmp_path: Path) -> None:
    log = log_of(tmp_path, "try:\n  1 / 0\nexcept Exception as e:\n  raise ValueError('two\\nlines') from e")
    assert last_words(log) == ["ValueError: two", "lines"]


def test_of_an_exception_group_the_sub_exceptions_stay_in_view(tmp_path: Path) -> None:
    log = log_of(tmp_path, "raise ExceptionGroup('both', [ValueError('a'), KeyError('b')])")
    assert any("KeyError: 'b'" in line for line in last_words(log))


def test_noise_after_the_exception_is_left_out(tmp_path: Path) -> None:
    log = log_of(tmp_path, "raise ValueError('bad')")
    log.write_text(log.read_text() + NOISE)
    assert last_words(log) == ["ValueError: bad"]


def test_without_a_traceback_the_last_lines_remain(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("".join(f"line {i}\n" for i in range(100)) + NOISE + "train.orc: expected ORC\n\n")
    words = last_words(log)
    assert words[-2:] == ["line 99", "train.orc: expected ORC"]
    assert len(words) == 12


def test_a_message_behind_the_mark_remains_whole_and_alone(tmp_path: Path) -> None:
    problems = [f"train.orc: column {i}: expected a number, found none" for i in range(20)]
    log = log_of(tmp_path, "raise ValueError('pages of it')")
    log.write_text(f"step 1\n{log.read_text()}{ERROR_MARK}" + "\n".join(problems) + "\n" + NOISE)
    assert last_words(log) == problems


def test_a_native_crash_speaks_for_itself(tmp_path: Path) -> None:
    log = log_of(tmp_path, "import faulthandler, os; faulthandler.enable(); os.abort()")
    assert last_words(log)[0] == "Fatal Python error: Aborted"
    log.write_text(NOISE + "2024-05-06 07:08:09.123456: F tensorflow/core/tensor.cc:9] Check failed: x\n")
    assert last_words(log) == ["2024-05-06 07:08:09.123456: F tensorflow/core/tensor.cc:9] Check failed: x"]


def test_a_long_message_is_cut(tmp_path: Path) -> None:
    log = log_of(tmp_path, "raise ValueError('\\n'.join(str(i) for i in range(50)))")
    words = last_words(log)
    assert len(words) == 12
    assert words[0] == "ValueError: 0" and words[-1] == "… (39 more lines)"


def test_only_the_end_of_a_huge_log_is_read(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"\xff" * 2_000_000 + b"\nthe end\n")
    assert last_words(log)[-1] == "the end"
    assert sum(map(len, last_words(log))) < 300_000


def test_no_log_has_no_words(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    assert last_words(tmp_path / "empty") == last_words(tmp_path / "none") == []


@pytest.mark.parametrize(
    ("status", "sentence"),
    [
        (3, "worker 1 ended with exit status 3"),
        (-signal.SIGSEGV, "worker 1 was killed by SIGSEGV"),
        (-signal.SIGKILL, "worker 1 was killed by SIGKILL (the kernel does that when memory runs out)"),
        (-50, "worker 1 was killed by signal 50"),
    ],
)
def test_how_a_process_ended_is_one_sentence(status: int, sentence: str) -> None:
    assert how_it_ended("worker 1", status) == sentence
