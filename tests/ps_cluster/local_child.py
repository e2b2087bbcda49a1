"""A started process of a local cluster without training in it: `local_child ROLE INDEX MODE TAG [flags]`."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time

from ps_cluster.launch.pdeathsig import die_with_launcher
from ps_cluster.report.events import step as step_event
from ps_cluster.train.last_step import LAST_STEP, LastStep, LastStepFile


class UnavailableError(Exception):
    """Named like what TensorFlow raises when the other side is gone."""


def main() -> None:
    die_with_launcher()
    role, index, mode, tag = sys.argv[1:5]
    flags = sys.argv[5:]
    print(f"{role} {index} runs as {mode}{' again' if '--resume' in flags else ''}", flush=True)
    config = json.loads(os.environ["TF_CONFIG"])
    assert config["task"] == {"type": role, "index": int(index)}
    with socket.socket() as server:
        host, port = config["cluster"][role][int(index)].split(":")
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind((host, int(port)))
        server.listen()
        if mode == "raises after the other's end":
            server.accept()[0].recv(1)
            mode = "raise"
        elif mode == "consequence that is seen first":
            mode = "consequence"
            connected(config["cluster"]["worker"][1])
        act(mode, flags, tag)


def connected(address: str) -> None:
    """Holds a connection to another process, once it listens, to this one's end."""
    host, port = address.split(":")
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            held.append(socket.create_connection((host, int(port))))
            return
        except OSError:
            time.sleep(0.02)


held: list[socket.socket] = []


def act(mode: str, flags: list[str], tag: str) -> None:
    if mode == "finish":
        write_events(flags, 3)
    elif mode == "flood":
        write_events(flags, 20_000)
    elif mode == "slowly":
        write_events(flags, 1)
        time.sleep(2)
    elif mode == "wait":
        time.sleep(300)
    elif mode == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        print("deaf now", flush=True)
        time.sleep(300)
    elif mode == "raise":
        time.sleep(0.5)
        raise ValueError("a batch of 7 rows\nfor 8 places")
    elif mode == "consequence":
        time.sleep(0.3)
        raise UnavailableError("Socket closed")
    elif mode == "mistake":
        print("train.orc: column label: row 5: expected 0 or 1, found 7", file=sys.stderr)
        sys.exit(2)
    elif mode == "suicide":
        time.sleep(0.3)
        os.kill(os.getpid(), signal.SIGKILL)
    elif mode == "trains, then dies":  # of a run that goes on it does the rest
        write_events(flags, 3)
        time.sleep(0.3)
        if "--resume" not in flags:
            os.kill(os.getpid(), signal.SIGKILL)
    elif mode == "trains, then always dies":
        write_events(flags, 3)
        time.sleep(0.3)
        sys.exit(75)
    elif mode == "trains for long":
        write_events(flags, 3)
        time.sleep(4)
    elif mode == "finishes when asked again":
        if "--resume" not in flags:
            time.sleep(300)
    elif mode == "dies once":  # as a PS, which is not told that it is not the first
        if (again := os.path.join(tag, "died")) and not os.path.exists(again):
            time.sleep(1)
            open(again, "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(300)
    elif mode == "leave":
        sys.exit(0)
    elif mode == "parent":
        code = f"import time; print({tag!r}); time.sleep(300)"
        subprocess.Popen([sys.executable, "-c", code, tag])
        time.sleep(300)
    elif mode == "careful parent":  # its child watches it, as a reader process does
        code = (
            "import sys, time; from ps_cluster.launch.pdeathsig import die_with_parent; "
            "die_with_parent(int(sys.argv[1])); time.sleep(300)"
        )
        subprocess.Popen([sys.executable, "-c", code, str(os.getpid()), tag])
        time.sleep(300)
    elif mode == "fill":
        while True:
            print("x" * 1000, flush=True)
    else:
        raise AssertionError(mode)


def write_events(flags: list[str], count: int) -> None:
    if "--events" not in flags:
        return
    path = flags[flags.index("--events") + 1]
    last = LastStepFile(os.path.join(os.path.dirname(path), LAST_STEP))
    with open(path, "a", encoding="utf-8") as events:
        for step in range(1, count + 1):
            last.write(LastStep(step, 8 * step, 0, 0))
            event = step_event(step=step, epoch=1, loss=0.5, samples_per_second=100.0, rows=8 * step)
            events.write(json.dumps(event) + "\n")
    if "--report" in flags:
        with open(flags[flags.index("--report") + 1], "w", encoding="utf-8") as report:
            report.write("{}")


if __name__ == "__main__":
    main()
