"""What a person sees of a run, in a pipe and on a real pseudo-terminal."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import struct
import subprocess
import sys
import termios

import pytest

from ps_cluster.report import Renderer, events, summary
from ps_cluster.report.text import duration, figure, size
from tests.ps_cluster.run_events import run_events

NEXT = events.next(commands=[("ps-cluster evaluate job.yaml", "score the test rows")])


class Clock:
    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def lines_of(told) -> list[str]:
    stream = io.StringIO()
    with Renderer(stream) as renderer:
        for event in told:
            renderer.handle(event)
    return stream.getvalue().splitlines()


def test_a_pipe_gets_head_steps_phases_result_and_next_commands_as_lines():
    assert (
        lines_of([*run_events(), NEXT])
        == """
Job clicks
  data     train.orc, 1 file, 3.1 MB
           4,000 rows to train on · 500 to test on
  model    deepfm, hidden 128, 64
           12,345 dense parameters · 2 embedding tables
           deepfm: one large block
  cluster  3 PS · 2 workers
  plan     1 epoch · 4 steps · 500 rows a worker and step · seed 7

     step  epoch    loss     AUC  samples/s      ETA
      1/4      1  1.0000  0.5100      2,000     0:02  MFU 0.012 %
      2/4      1  0.5000  0.5200      2,000     0:01  MFU 0.025 %
      3/4      1  0.3333  0.5300      2,000     0:00  MFU 0.037 %
      4/4      1  0.2500  0.5400      2,000     0:00  MFU 0.049 %

evaluating …
saving …
exporting …

Result
  training    AUC 0.5400   loss 0.2500   in the last steps, up to step 4
  test        AUC 0.7500   log-loss 0.4321   calibration 1.050   on 500 rows
  embeddings  2 tables, 1,020 rows, 65.3 kB
                user  1,000 rows   64.0 kB
                item     20 rows    1.3 kB
  SavedModel  /out put/saved_model (70.0 kB)
  checkpoint  /out put/checkpoint
  time        1:15   1,990 samples/s while training, MFU 12 %

Next
    ps-cluster evaluate job.yaml
        score the test rows
""".rstrip("\n").split("\n")
    )


def test_the_use_of_experts_is_told_with_each_step_and_at_the_end():
    told = list(run_events())
    experts = {
        "active": 0.5123,
        "target": 0.5,
        "penalty": 0.00123,
        "layers": [[0.0, 0.45, 1.0], [0.2, 0.5746, 0.9]],
        "idle": 3,
        "experts": 64,
    }
    steps = [event for event in told if event["event"] == "step"]
    for step in steps:
        step["experts"] = experts
    shown = lines_of(told)
    assert (
        shown[11] == "      1/4      1  1.0000  0.5100      2,000     0:02  MFU 0.012 %  experts 51 %, penalty 1.2e-03"
    )
    at = shown.index("  training    AUC 0.5400   loss 0.2500   in the last steps, up to step 4")
    assert shown[at + 1 : at + 4] == [
        "  experts     51 % active, wanted 50 %, by a penalty of 1.2e-03; 3 of 64 in no row",
        "                layer 0: 45 %, the least used expert 0 %, the most used 100 %",
        "                layer 1: 57 %, the least used expert 20 %, the most used 90 %",
    ]


def test_next_commands_come_last_also_when_told_before_the_end():
    *before, done = run_events()
    assert lines_of([*before, NEXT, done]) == lines_of([*before, done, NEXT])


def test_an_evaluation_alone_is_a_run_too():
    told = [
        events.phase(name="evaluate"),
        events.evaluation(rows=10, auc=None, log_loss=float("inf"), calibration=None),
        events.done(seconds=3.2),
    ]
    assert lines_of(told) == [
        "evaluating …",
        "",
        "Result",
        "  test  no AUC (one class only)   log-loss inf   calibration -   on 10 rows",
        "  time  0:03",
    ]


def test_what_was_wrong_with_the_samples_is_told():
    files = [f"{name}.orc: expected an ORC file, found an empty file (0 bytes)" for name in "abcdefg"]
    told = list(run_events())
    told[1] = events.start(
        **{key: value for key, value in told[1].items() if key not in ("event", "time")},
        where="day >= 3",
        pruned={
            "files": 3,
            "files_left": 2,
            "stripes": 840,
            "stripes_left": 12,
            "row_groups": 5880,
            "row_groups_left": 35,
            "rows": 12_000_000,
            "rows_left": 61_234,
        },
        files_lost=files,
    )
    nulls = {"age": 5, "user": 1200, "item": 3, "a": 2, "b": 2, "c": 1}
    told.insert(-1, events.reading(side="train", rows_lost=1234, nulls_filled=nulls, files_lost=1))
    told.insert(-1, events.reading(side="test", rows_lost=0, nulls_filled={}, files_lost=0))
    shown = lines_of(told)
    assert shown[4:13] == [
        "  where     day >= 3",
        "            12 of 840 stripes, 35 of 5,880 row groups, 61,234 of 12,000,000 rows may match",
        f"  left out  {files[0]}",
        *(f"            {file}" for file in files[1:5]),
        "            and 2 more files",
        "  model     deepfm, hidden 128, 64",
    ]
    assert "  left out    1,234 rows · 1 file of the train data" in shown
    assert "  nulls       filled in the train data: user 1,200, age 5, item 3, a 2, b 2 and 1 more column" in shown
    assert not any("test data" in line for line in shown)


def test_a_diverged_loss_and_an_unknown_end_are_shown():
    told = [
        events.start(rows=1, steps_total=None, workers=1, ps=0, dense_parameters=1, data="clicks.orc", model="dcn"),
        events.step(step=1000, epoch=1, loss=float("nan"), auc=None, samples_per_second=5.0, rows=1),
    ]
    shown = lines_of(told)
    assert "  cluster  tables inside the worker · 1 worker" in shown
    assert shown[-1].split() == ["1,000", "1", "nan", "-", "5", "-"]


def test_unknown_events_are_passed_over():
    assert lines_of([{"event": "weather", "sun": True}]) == []


def test_ten_silent_seconds_never_pass():
    clock, stream = Clock(), io.StringIO()
    renderer = Renderer(stream, clock)
    written = []
    for tick in range(250):
        clock.seconds = tick / 4
        if tick == 100:
            renderer.handle(events.phase(name="evaluate", done=5, total=10))
        renderer.tick()
        if (text := stream.getvalue()) != (written[-1][1] if written else ""):
            written.append((clock.seconds, text))
    times = [0.0, *(seconds for seconds, _ in written), clock.seconds]
    assert max(later - earlier for earlier, later in zip(times, times[1:])) <= 10.25
    assert stream.getvalue().splitlines()[0] == "starting …  for 0:10"
    assert "evaluating …  5 of 10 rows  for 0:10" in stream.getvalue()
    assert len(written) < 10


def test_a_stream_in_ascii_gets_ascii():
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    with Renderer(stream) as renderer:
        for event in run_events():
            renderer.handle(event)
        renderer.note("données/å")
    stream.seek(0)
    text = stream.read()
    assert "3 PS - 2 workers" in text
    assert text.endswith("donn?es/?\n")


TERMINAL = """
import sys
from ps_cluster.report import Renderer
from tests.ps_cluster.run_events import run_events
with Renderer() as renderer:
    renderer.note("2 PS are [ready]")
    renderer.tick()
    for event in run_events():
        renderer.handle(event)
        if event["event"] == "step" and event["step"] == int(sys.argv[1]):
            break
print("stopped" if sys.argv[1] != "0" else "ended")
"""


def on_terminal(stop_at: int, columns: int = 100, term: str = "xterm") -> str:
    """What a real process writes to a pseudo-terminal."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    environment = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "LINES")}
    environment |= {"TERM": term, "PYTHONPATH": ".", "PYTHONUTF8": "1"}
    process = subprocess.Popen(
        [sys.executable, "-c", TERMINAL, str(stop_at)],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment,
    )
    os.close(theirs)
    text = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # the other side is closed
            break
        if not part:
            break
        text += part
    os.close(ours)
    process.wait()
    return text.decode().replace("\r\n", "\n")


def visible(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)


def test_a_terminal_gets_a_bar_and_gives_it_back():
    raw = on_terminal(stop_at=0)
    text = visible(raw)
    assert "2 PS are [ready]" in text
    assert re.search(r"training +[━╸╺]+ +2/4 +epoch 1 +loss 0.5000 +AUC 0.5200 +2,000 samples/s +ETA 0:01", text)
    assert "  test        AUC 0.7500   log-loss 0.4321" in text
    assert "samples/s      ETA" not in text  # no lines beside the bar
    assert raw.count("\x1b[?25l") == raw.count("\x1b[?25h") == 1  # the cursor is hidden, and shown again


@pytest.mark.parametrize("columns", [40, 60, 80])
def test_a_narrow_terminal_keeps_the_bar_on_one_line(columns):
    text = visible(on_terminal(stop_at=3, columns=columns))
    bars = [line for line in re.split(r"[\r\n]", text) if "training  " in line]
    assert bars
    assert all(len(line.rstrip()) <= columns for line in bars)
    assert any("loss 0.3333" in line for line in bars)


def test_a_stopped_run_leaves_its_bar_and_the_cursor():
    raw = on_terminal(stop_at=3)
    assert visible(raw).rstrip().endswith("stopped")
    assert "3/4" in visible(raw).rstrip().split("\n")[-2]
    assert raw.count("\x1b[?25l") == raw.count("\x1b[?25h")


def test_a_terminal_that_cannot_move_its_cursor_gets_lines():
    raw = on_terminal(stop_at=0, term="dumb")
    assert "\x1b" not in raw
    assert "samples/s      ETA" in raw


def test_numbers_read_well():
    assert [size(value) for value in (0, 999, 1000, 25.6e9, 999_400, 999_960, 2e15)] == [
        "0 B",
        "999 B",
        "1.0 kB",
        "25.6 GB",
        "999 kB",
        "1.0 MB",
        "2000 TB",
    ]
    assert [duration(value) for value in (0.4, 59.6, 3723, float("inf"))] == ["0:00", "1:00", "1:02:03", "-"]
    assert [figure(value) for value in (None, "NaN", "Infinity", 0.12345)] == ["-", "nan", "inf", "0.1235"]


def test_evicted_ids_are_a_line():
    event = events.evicted(step=1200, table="user", ids=[5, -6])
    assert summary.evicted(event) == "step 1,200: 2 ids evicted from user: 5, -6"
    many = events.evicted(step=1, table="user", ids=range(4096))
    assert summary.evicted(many).endswith("evicted from user: 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 4,086 more")
    assert lines_of([event]) == ["step 1,200: 2 ids evicted from user: 5, -6"]


def test_a_training_that_goes_on_is_told_and_what_was_trained_again_is_in_the_result():
    start, *rest = run_events()
    resume = events.resume(
        step=2, checkpoint="/out/checkpoint/step-0000000002", rows_trained=2000, rows_retrained=500, restarts=1
    )
    told = lines_of([start, resume, *rest])
    line = "goes on after step 2 of /out/checkpoint/step-0000000002: 2,000 rows trained; 500 rows are trained again"
    assert line in [one.strip() for one in told]
    assert "  rows        4,000 rows trained · 500 rows trained again · 1 restart" in told


def test_a_run_that_starts_again_does_not_tell_its_last_step_twice():
    told = list(run_events())
    broken_off = told[: next(number for number, event in enumerate(told) if event.get("step") == 2) + 1]
    lines = lines_of([*broken_off, {"event": "restart", "told": "worker 0 was killed"}, *run_events()])
    assert [line.split()[0] for line in lines if "/4 " in line] == ["1/4", "2/4", "1/4", "2/4", "3/4", "4/4"]


def test_damaged_files_of_newer_checkpoints_are_lines():
    lines = ["/out/checkpoint/step-0000000003/dense.npz: missing", "/out/checkpoint: the newest whole one is of step 2"]
    assert lines_of([events.damaged(lines=lines)]) == lines
