"""A report on sample files as one web page that needs nothing from anywhere else."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta
from html import escape

from data.inspect.survey import Report
from data.inspect.text import column_table, count, file_rows, metadata_rows, notes, printable, share, size, summary
from data.scan.distinct import RELATIVE_ERROR

_BAR_HEIGHT, _LABEL_WIDTH, _BAR_WIDTH, _VALUE_WIDTH = 22, 190, 780, 90
_DAYS_HEIGHT, _DAYS_WIDTH, _AXIS = 180, 1060, 22
_MOST_DAYS_DRAWN = 400
_WIDEST_DAY = 60

_STYLE = """
:root { color-scheme: light dark; --text: #1c2733; --soft: #5b6b7b; --page: #f5f7f9; --card: #fff; --line: #dfe5ea;
  --bar: #2f6fb0; --track: #e8edf2; --second: #8fb4d9; --warn: #b3541e; }
@media (prefers-color-scheme: dark) { :root { --text: #e4eaf0; --soft: #9aa9b8; --page: #12181f; --card: #1b242e;
  --line: #2c3947; --bar: #5c9fe0; --track: #26313d; --second: #37618c; --warn: #e59a6a; } }
* { box-sizing: border-box; }
body { margin: 0; padding: 32px 20px 60px; background: var(--page); color: var(--text);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
main { max-width: 1120px; margin: 0 auto; }
h1 { font-size: 22px; margin: 0 0 2px; overflow-wrap: anywhere; }
h2 { font-size: 16px; margin: 0 0 12px; }
p.note { color: var(--soft); margin: 8px 0 0; font-size: 13px; }
section { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 20px 24px;
  margin-top: 18px; overflow-x: auto; }
.cards { display: flex; flex-wrap: wrap; gap: 12px; margin-top: 18px; }
.card { flex: 1 1 120px; white-space: nowrap; padding: 14px 18px;
  background: var(--card); border: 1px solid var(--line); border-radius: 10px; }
.card b { display: block; font-size: 22px; font-weight: 600; font-variant-numeric: tabular-nums; }
.card span { color: var(--soft); font-size: 13px; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 4px 20px; margin: 0; }
dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
table { border-collapse: collapse; font-size: 13px; width: 100%; font-variant-numeric: tabular-nums; }
th, td { padding: 5px 10px; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap; }
th { color: var(--soft); font-weight: 500; }
th.t, td.t { text-align: left; }
tr:last-child td { border-bottom: 0; }
svg { display: block; max-width: 100%; min-width: 720px; height: auto; }
svg text { font: 13px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; fill: var(--text); }
svg text.soft { fill: var(--soft); font-size: 12px; }
.bar { fill: var(--bar); } .second { fill: var(--second); } .track { fill: var(--track); } .warn { color: var(--warn); }
"""


def html(report: Report, title: str) -> str:
    """The page, in UTF-8; `title` names what was looked at."""
    heads, rows, text_columns = column_table(report)
    estimated = report.profile is not None and any(not c.distinct.exact for c in report.profile.columns.values())
    parts = [
        f"<h1>{escape(title)}</h1>",
        '<div class="cards">' + "".join(_card(value, name) for value, name in _cards(report)) + "</div>",
        _section("Overview", _definitions(summary(report))),
        _section("Bytes per row, by column", _bytes_bars(report), "Light: indexes and bloom filters."),
    ]
    if report.profile is not None:
        parts.append(_section("Coverage: rows that are neither null nor empty", _coverage_bars(report)))
        if report.profile.rows_per_day:
            parts.append(_section("Rows per day (UTC)", _days(report.profile.rows_per_day)))
    below = [f"~ an estimate, within {RELATIVE_ERROR:.1%} in 95 of 100 cases"] if estimated else []
    parts.append(_section("Columns", _table(heads, rows, text_columns), *below, *notes(report)))
    metadata = metadata_rows(report.files)
    if metadata:
        parts.append(_section("Metadata", _definitions(metadata)))
    shown = file_rows(report.files)
    more = len(report.files) - len(shown)
    rest = [f"and {count(more, 'more file')}"] if more else []
    parts.append(_section("Files", _table(["file", "rows", "stripes", "size"], shown, 1), *rest))
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{_STYLE}</style></head>\n<body><main>\n" + "\n".join(parts) + "\n</main></body></html>\n"
    )


def _cards(report: Report) -> list[tuple[str, str]]:
    cards = [
        (f"{report.rows:,}", "row" if report.rows == 1 else "rows"),
        (size(report.file_bytes), "on disk"),
        (f"{report.file_bytes / report.rows:,.1f}" if report.rows else "–", "bytes per row"),
    ]
    counts = [(len(report.columns), "column"), (len(report.files), "file"), (len(report.stripe_rows), "stripe")]
    if report.profile is not None and report.profile.rows_per_day:
        counts.append((len(report.profile.rows_per_day), "day"))
    return cards + [(f"{many:,}", name if many == 1 else f"{name}s") for many, name in counts]


def _card(value: str, name: str) -> str:
    return f'<div class="card"><b>{escape(value)}</b><span>{escape(name)}</span></div>'


def _section(head: str, body: str, *notes: str) -> str:
    below = "".join(f'<p class="note">{escape(note)}</p>' for note in notes)
    return f"<section><h2>{escape(head)}</h2>{body}{below}</section>"


def _definitions(rows: Sequence[tuple[str, str]]) -> str:
    cells = []
    for name, value in rows:
        warn = ' class="warn"' if "NOT TRUE" in value else ""
        cells.append(f"<dt>{escape(name)}</dt><dd{warn}>{escape(value)}</dd>")
    return f"<dl>{''.join(cells)}</dl>"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], text_columns: int) -> str:
    def line(cells: Sequence[str], tag: str) -> str:
        kinds = [' class="t"' if i < text_columns else "" for i in range(len(cells))]
        return "<tr>" + "".join(f"<{tag}{kind}>{escape(cell)}</{tag}>" for kind, cell in zip(kinds, cells)) + "</tr>"

    body = "".join(line(row, "td") for row in rows)
    return f"<table><thead>{line(heads, 'th')}</thead><tbody>{body}</tbody></table>"


def _bytes_bars(report: Report) -> str:
    used = {name: (c.data_bytes / (c.rows or 1), c.index_bytes / (c.rows or 1)) for name, c in report.columns.items()}
    most = max((data + index for data, index in used.values()), default=0) or 1
    rows = []
    for name, (data, index) in sorted(used.items(), key=lambda item: -sum(item[1])):
        parts = [(data / most, "bar"), (index / most, "second")]
        rows.append((name, parts, f"{data + index:,.2f}"))
    return _bars(rows)


def _coverage_bars(report: Report) -> str:
    assert report.profile is not None
    rows = []
    for name, column in report.profile.columns.items():
        filled = column.rows - column.nulls - column.empty
        rows.append((name, [(filled / (column.rows or 1), "bar")], share(filled, column.rows)))
    return _bars(rows, track=True)


def _bars(rows: Sequence[tuple[str, Sequence[tuple[float, str]], str]], track: bool = False) -> str:
    """Horizontal bars: name, (share of the longest, class) of each part, value."""
    width, height = _LABEL_WIDTH + _BAR_WIDTH + _VALUE_WIDTH, _BAR_HEIGHT * len(rows)
    lines = []
    for i, (name, parts, value) in enumerate(rows):
        y = i * _BAR_HEIGHT
        name = printable(name)
        short = name if len(name) <= 26 else f"{name[:25]}…"
        lines.append(f'<text x="{_LABEL_WIDTH - 10}" y="{y + 15}" text-anchor="end">{escape(short)}</text>')
        if track:
            lines.append(
                f'<rect class="track" x="{_LABEL_WIDTH}" y="{y + 4}" width="{_BAR_WIDTH}" height="14" rx="2"/>'
            )
        x = float(_LABEL_WIDTH)
        for part, kind in parts:
            length = part * _BAR_WIDTH
            lines.append(f'<rect class="{kind}" x="{x:.2f}" y="{y + 4}" width="{length:.2f}" height="14"/>')
            x += length
        end = _LABEL_WIDTH + _BAR_WIDTH if track else x
        lines.append(f'<text class="soft" x="{end + 8:.2f}" y="{y + 15}">{escape(value)}</text>')
    return f'<svg viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img">{"".join(lines)}</svg>'


def _days(rows_per_day: dict[int, int]) -> str:
    first, last = min(rows_per_day), max(rows_per_day)
    days_per_bar = -(-(last - first + 1) // _MOST_DAYS_DRAWN)
    bars: dict[int, int] = {}
    for day, rows in rows_per_day.items():
        bars[(day - first) // days_per_bar] = bars.get((day - first) // days_per_bar, 0) + rows
    number_of_bars = (last - first) // days_per_bar + 1
    most = max(bars.values())
    step = min(_DAYS_WIDTH / number_of_bars, _WIDEST_DAY)
    end = step * number_of_bars
    gap = 2 if step > 6 else 0.5
    lines = []
    for place, rows in sorted(bars.items()):
        height = rows / most * _DAYS_HEIGHT
        start = _day(first + place * days_per_bar)
        until = f" to {_day(min(first + (place + 1) * days_per_bar - 1, last))}" if days_per_bar > 1 else ""
        lines.append(
            f'<rect class="bar" x="{place * step:.2f}" y="{_DAYS_HEIGHT - height + 16:.2f}" width="{step - gap:.2f}" '
            f'height="{height:.2f}"><title>{start}{until}: {rows:,} rows</title></rect>'
        )
    base = _DAYS_HEIGHT + 16
    lines.append(f'<line x1="0" y1="{base}" x2="{end:.2f}" y2="{base}" stroke="var(--line)"/>')
    lines.append(f'<text class="soft" x="0" y="{base + 16}">{_day(first)}</text>')
    if last > first:  # with room for both beside each other
        right = max(end, _LABEL_WIDTH)
        lines.append(f'<text class="soft" x="{right:.2f}" y="{base + 16}" text-anchor="end">{_day(last)}</text>')
    each = "a day" if days_per_bar == 1 else f"in {days_per_bar} days"
    lines.append(f'<text class="soft" x="0" y="11">at most {count(most, "row")} {each}</text>')
    height = base + _AXIS
    return (
        f'<svg viewBox="0 0 {_DAYS_WIDTH} {height}" width="{_DAYS_WIDTH}" height="{height}" role="img">'
        f"{''.join(lines)}</svg>"
    )


def _day(days: int) -> str:
    try:
        return (date(1970, 1, 1) + timedelta(days=days)).isoformat()
    except OverflowError:
        return f"day {days}"
