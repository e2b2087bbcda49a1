"""`ps-cluster trace`: what the next steps of a running job spend their time with, op by op."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

_LIMIT_SECONDS = 600.0
_POLL_SECONDS = 0.2


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to those of `ps-cluster`."""
    parser = subparsers.add_parser(
        "trace",
        help="trace steps of a running job",
        description="Have a worker of a running job trace its next steps, op by op. The trace is for TensorBoard's "
        "profile plugin, and as trace.json.gz for chrome://tracing and Perfetto.",
    )
    parser.add_argument("job", nargs="?", metavar="JOB", help="job file or output folder; default: job.yaml")
    parser.add_argument("--steps", type=int, default=10, metavar="N", help="so many steps (default: 10)")
    parser.add_argument("--worker", type=int, default=0, metavar="I", help="of this worker (default: 0)")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Prints where the trace lies."""
    from ps_cluster.errors import RunError, UserError
    from ps_cluster.quiet import import_tensorflow
    from ps_cluster.watch.chrome_trace import write_chrome_trace
    from ps_cluster.watch.job_view import ENDED
    from ps_cluster.watch.place import Events, place_of
    from ps_cluster.watch.trace import answer_to, ask, withdraw

    if args.steps < 1:
        raise UserError(f"--steps: expected at least 1, found {args.steps}")
    me = f"worker {args.worker}"
    place = place_of(args.job)
    events = Events(place)
    events.read()

    def ended() -> bool:
        events.read()
        return place.state in ENDED or events.status.phase in ("evaluate", "save", "export", "done")

    if ended():
        raise UserError(f"{place.output}: expected a job that trains, found one that does not any more")
    workers = events.status.last.get("start", {}).get("workers", 1)
    if not 0 <= args.worker < workers:
        raise UserError(f"--worker: expected one of the job's {workers} workers, from 0 on, found {args.worker}")
    name = ask(place.output, args.steps, args.worker)
    deadline = time.monotonic() + _LIMIT_SECONDS
    try:
        while (answer := answer_to(place.output, name, args.worker)) is None:
            if ended():
                raise RunError(f"{me} ended its training before {args.steps} steps were traced")
            if time.monotonic() > deadline:
                raise RunError(f"{me} has not traced {args.steps} steps within {_LIMIT_SECONDS:.0f} s")
            time.sleep(_POLL_SECONDS)
    finally:
        withdraw(place.output, args.worker)
    if "problem" in answer:
        raise RunError(f"{me} could not trace: {answer['problem']}")
    profiles = sorted(
        Path(answer["folder"]).glob("plugins/profile/*/*.xplane.pb"), key=lambda path: path.stat().st_mtime
    )
    if not profiles:
        raise RunError(f"{answer['folder']}: expected a profile, found none")
    import_tensorflow(gpu=False)
    chrome = profiles[-1].parent / "trace.json.gz"
    count = write_chrome_trace(profiles[-1], chrome)
    print(f"steps {answer['first_step']} to {answer['last_step']}, {count:,} events")
    print(f"  chrome://tracing, ui.perfetto.dev: {chrome}")
    print(f"  tensorboard --logdir {answer['folder']} (with its plugin tensorboard-plugin-profile)")
    return 0
