"""Progress as a bar that stays in place: for a person at a terminal."""

from __future__ import annotations

import time
from typing import TextIO

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from ps_cluster.report.status import Status
from ps_cluster.report.summary import Block
from ps_cluster.report.text import count, duration, figure, of_step


class TerminalDisplay:
    """Keeps one line at the bottom: what goes on, a bar, loss, AUC, speed, time left; everything else goes
    above it."""

    def __init__(self, stream: TextIO):
        self._console = Console(file=stream, force_terminal=True, highlight=False, markup=False, emoji=False)
        self._status = Status()
        self._phase_start = time.monotonic()
        self._live: Live | None = None
        self._spinner = Spinner("dots", style="cyan")

    def block(self, block: Block) -> None:
        """A title and its rows, the labels in a column."""
        width = max((len(label) for label, _ in block.rows), default=0)
        text = Text("\n").append(block.title, "bold")
        for label, row in block.rows:
            text.append(f"\n  {label:{width}}  ", "cyan").append(row)
        self._console.print(text, soft_wrap=True)

    def line(self, text: str) -> None:
        """Text as it is, above the bar."""
        self._console.print(Text(text), soft_wrap=True)

    def show(self, status: Status, new_phase: bool) -> None:
        """Bring the line up to date."""
        self._status = status
        if new_phase:
            self._phase_start = time.monotonic()
        if status.phase == "done":
            self.close()
        elif self._live is None:
            # Not transient: when the run is stopped, the line shows how far it had come.
            # The process keeps its own stdout: a terminal that is held up must not hold up what others print.
            self._live = Live(
                get_renderable=self._bottom_line,
                console=self._console,
                refresh_per_second=8,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._live.start()
        else:
            self._live.refresh()

    def tick(self, status: Status) -> None:
        """Show that something goes on, from the first moment."""
        if self._live is None and status.phase != "done":
            self.show(status, False)

    def close(self) -> None:
        """Leave the terminal as a shell expects it; may be called again."""
        if self._live is not None:
            if self._status.phase == "done":
                self._live.transient = True
            self._live.stop()
        self._live = None

    def _bottom_line(self) -> Table:
        status, elapsed = self._status, time.monotonic() - self._phase_start
        done, total = status.progress
        grid = Table.grid(padding=(0, 2, 0, 0))
        cells: list[Text | ProgressBar | Spinner] = [Text(f"{status.label:10}", "bold")]
        width = self._console.width - 12
        if done is not None and total:
            counts = f"{count(done)}/{count(total)}"
            details = self._details(width - len(counts) - 2 - 12, elapsed)
            bar = min(40, max(10, width - len(counts) - 4 - len(details)))
            cells += [ProgressBar(total, min(done, total), bar), Text(counts), Text(details, "green")]
        else:
            counts = f"{count(done)} {status.unit}  " if done else ""
            cells += [self._spinner, Text(counts + self._details(width - len(counts) - 3, elapsed), "green")]
        for _ in cells:
            grid.add_column(no_wrap=True)
        grid.add_row(*cells)
        return grid

    def _details(self, width: int, elapsed: float) -> str:
        """What fits of loss, AUC, time left, speed and epoch: taken in this order, shown in another; MFU
        and what experts do come last."""
        event = self._status.last.get("step")
        if self._status.phase != "train" or event is None:
            return duration(elapsed)
        remaining = self._status.remaining_seconds
        pieces = [
            (4, f"epoch {event['epoch']}"),
            (0, f"loss {figure(event['loss'])}"),
            (1, f"AUC {figure(event.get('auc'))}"),
            (3, f"{count(float(event['samples_per_second']))} samples/s"),
            (2, f"ETA {duration(remaining)}" if remaining is not None else duration(elapsed)),
            *((5, text) for text in of_step(event)),
        ]
        while len(pieces) > 1 and len("  ".join(text for _, text in pieces)) > width:
            pieces.remove(max(pieces))
        return "  ".join(text for _, text in pieces)
