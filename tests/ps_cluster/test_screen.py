"""Text for the user never ends the run."""

from __future__ import annotations

import os
import pty
from pathlib import Path
from typing import Any

import pytest

from ps_cluster.launch.display import Display
from ps_cluster.launch.events_tail import EventsTail
from ps_cluster.launch.screen import Screen


def test_text_arrives_at_once() -> None:
    source, sink = os.pipe()
    screen = Screen(sink)
    os.close(sink)
    assert screen.write("fünf …\n" * 200) == 1400
    screen.close()
    with os.fdopen(source, encoding="utf-8") as stream:
        assert stream.read() == "fünf …\n" * 200


def test_text_without_a_reader_is_dropped() -> None:
    source, sink = os.pipe()
    os.close(source)
    screen = Screen(sink)
    os.close(sink)
    screen.write("lost")
    screen.write("lost too")
    with pytest.raises(OSError):
        screen.fileno()


def test_a_stream_that_was_never_open_takes_text() -> None:
    source, sink = os.pipe()
    os.close(source)
    os.close(sink)
    assert Screen(sink).write("lost") == 4


def test_a_full_pipe_is_waited_for_no_longer_than_said() -> None:
    source, sink = os.pipe()
    Screen(sink, patience_seconds=0.05).write("x" * 1_000_000)
    os.close(source)
    os.close(sink)


def test_a_full_disk_is_no_obstacle() -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    Screen(full).write("lost")
    os.close(full)


def test_a_terminal_is_known_as_one() -> None:
    control, terminal = pty.openpty()
    assert Screen(terminal).isatty()
    os.close(control)
    os.close(terminal)
    assert not Screen(terminal).isatty()


def test_events_come_when_their_line_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    tail = EventsTail(path)
    assert tail.read() == []
    path.write_text('{"a": 1}\n{"a"')
    assert tail.read() == [{"a": 1}]
    assert tail.read() == []
    with path.open("a") as stream:
        stream.write(': 2}\n{"tor\n[]\n\n{"a": 3}\n')
    assert tail.read() == [{"a": 2}, {"a": 3}]


def test_a_renderer_that_fails_is_reported_and_ends_nothing(tmp_path: Path) -> None:
    def broken() -> None:
        raise ValueError("no colours")

    display = Display(EventsTail(tmp_path / "events"), broken)  # type: ignore[arg-type]
    display.close()
    assert display.problem == "nothing was shown: ValueError: no colours"


def test_an_event_that_cannot_be_shown_does_not_hide_the_next(tmp_path: Path) -> None:
    shown = []

    class Picky:
        def handle(self, event: dict[str, Any]) -> None:
            shown.append(event["step"])

        def tick(self) -> None: ...

        def close(self) -> None:
            shown.append("closed")

    path = tmp_path / "events"
    path.write_text('{"step": 1}\n{"stop": 2}\n{"step": 3}\n')
    display = Display(EventsTail(path), Picky)
    display.close()
    assert shown == [1, 3, "closed"]
    assert display.problem == "an event was not shown: KeyError: 'step'"
