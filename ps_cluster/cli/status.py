"""`ps-cluster status`: a whole job at a glance, as it works or as it ended."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ps_cluster.watch.job_view import JobView
    from ps_cluster.watch.scrape import Scraped

_REFRESH_SECONDS = 2.0
_ONCE_SECONDS = 1.0


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to those of `ps-cluster`."""
    parser = subparsers.add_parser(
        "status",
        help="show all processes of a job",
        description="Show each process of a job, until the job ends: what it does, its step, speed, memory, cores, and "
        "the parts of a worker's time. On a terminal the table is drawn anew, elsewhere written again.",
    )
    parser.add_argument("job", nargs="?", metavar="JOB", help="job file or output folder; default: job.yaml")
    parser.add_argument("--address", metavar="HOST:PORT,…", help="addresses of /metrics, instead of JOB")
    parser.add_argument("--once", action="store_true", help="show it once")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Shows until the job has ended."""
    from ps_cluster.report.progress import is_terminal

    source = _Source(args.job, args.address)
    if args.once:
        source.look()
        if not source.view.has_ended:
            time.sleep(_ONCE_SECONDS)
            source.look()
        _print(source.view, args.json)
        return 0
    if not args.json and is_terminal(sys.stdout):
        _draw(source)
        return 0
    while True:
        source.look()
        _print(source.view, args.json)
        if source.view.has_ended:
            return 0
        time.sleep(_REFRESH_SECONDS)


class _Source:
    """A job that is looked at again and again."""

    def __init__(self, job: str | None, addresses: str | None):
        from ps_cluster.errors import UserError
        from ps_cluster.report.status import Status
        from ps_cluster.watch.endpoint import endpoints_at
        from ps_cluster.watch.place import Events, place_of

        if job is not None and addresses is not None:
            raise UserError("expected JOB or --address, found both")
        self._place = self._events = None
        self._endpoints = None
        self._status = Status()
        if addresses is not None:
            self._endpoints = endpoints_at(addresses.split(","))
        else:
            self._place = place_of(job)
            self._events = Events(self._place)
            self._status = self._events.status
        self._before: Sequence[Scraped] = ()
        self.view: JobView

    def look(self) -> None:
        """Asks all processes; `view` is of now."""
        from ps_cluster.watch.job_view import ENDED, view
        from ps_cluster.watch.scrape import Scraped, scrape

        state = self._place.state if self._place else None
        if self._events is not None:
            self._events.read()
        endpoints = self._endpoints if self._place is None else self._place.endpoints
        if state in ENDED:  # whoever serves at these addresses now is not of this run
            now = [Scraped(endpoint, time.time(), problem="the run has ended") for endpoint in endpoints or []]
        else:
            now = scrape(endpoints or [])
        self.view = view(state, self._status, self._before, now)
        self._before = now


def _print(view: JobView, as_json: bool) -> None:
    from ps_cluster.watch.show import lines

    text = json.dumps(asdict(view)) if as_json else "\n".join(lines(view))
    print(text, flush=True)


def _draw(source: _Source) -> None:
    from rich.console import Console, Group
    from rich.live import Live
    from rich.table import Table
    from rich.text import Text

    from ps_cluster.watch.show import HEADER, cells, title

    def drawn(view: JobView) -> Group:
        table = Table(box=None, pad_edge=False, header_style="bold")
        for column, name in enumerate(HEADER):
            table.add_column(name, justify="left" if column < 2 else "right", overflow="fold")
        for process in view.processes:
            style = None if process.answers or view.has_ended else "red"
            table.add_row(*(Text(cell) for cell in cells(process)), style=style)
        return Group(Text(title(view)), table)

    source.look()
    with (
        contextlib.suppress(KeyboardInterrupt),
        Live(drawn(source.view), console=Console(), auto_refresh=False) as live,
    ):
        while not source.view.has_ended:
            time.sleep(_REFRESH_SECONDS)
            source.look()
            live.update(drawn(source.view), refresh=True)
