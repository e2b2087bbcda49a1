"""A report on sample files in words and tables, for a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta, timezone

import numpy as np

from data.inspect.layout import FileLayout
from data.inspect.profile import Order
from data.inspect.survey import Report
from data.scan.distinct import RELATIVE_ERROR

_SHOWN_FILES = 10
_SHOWN_METADATA = 100


def summary(report: Report) -> list[tuple[str, str]]:
    """(name, value) of what is true of all files together."""
    files, rows = report.files, report.rows
    lines = [
        ("rows", f"{rows:,} in {count(len(files), 'file')} and {count(len(report.stripe_rows), 'stripe')}"),
        ("size", size(report.file_bytes) + (f", {report.file_bytes / rows:,.1f} bytes per row" if rows else "")),
    ]
    stripes = report.stripe_rows
    if stripes:
        least, most = min(stripes), max(stripes)
        equal = f"{count(most, 'row')}{' each' if len(stripes) > 1 else ''}"
        spread = f"{least:,} to {most:,} rows, median {np.median(stripes):,.0f}"
        lines.append(("stripes", equal if least == most else spread))
    lines.append(("encoding", _each(files, _encoding)))
    with_checksums = sum(file.checksums for file in files)
    some = f"in {with_checksums:,} of {len(files):,} files" if with_checksums else "none"
    lines.append(("checksums", "in all files" if with_checksums == len(files) else some))
    if report.time is not None:
        guess = ", guessed by its name" if report.time.guessed else ""
        times = report.time_range_ms
        span = f": {moment(times[0])} to {moment(times[1])} UTC" if times else ""
        lines.append(("time", f"{report.time.column} ({report.time.unit}{guess}){span}"))
    lines.append(("sorted by", order_text(report)))
    return lines


def text(report: Report) -> str:
    """All of the report."""
    lines = [f"{name:10} {value}" for name, value in summary(report)]
    lines += ["", *_table(*column_table(report))]
    if report.profile is not None and any(not column.distinct.exact for column in report.profile.columns.values()):
        lines.append(f"~ estimates of different values, within {RELATIVE_ERROR:.1%} in 95 of 100 cases")
    lines += notes(report)
    metadata = metadata_rows(report.files)
    if metadata:
        lines += ["", "metadata"]
        lines += [f"  {name} = {_cut(value)}" for name, value in metadata]
    if len(report.files) > 1:
        lines += ["", *_table(["file", "rows", "stripes", "size"], file_rows(report.files), 1)]
        more = len(report.files) - _SHOWN_FILES
        if more > 0:
            lines.append(f"and {count(more, 'more file')}")
    return "\n".join(line.rstrip() for line in lines)


def notes(report: Report) -> list[str]:
    """What else is to be known of some columns, a line each."""
    if report.profile is None:
        return []
    found = ((name, column.not_finite) for name, column in report.profile.columns.items())
    return [f"{printable(name)}: {count(many, 'value')} NaN or infinite" for name, many in found if many]


def printable(text: str) -> str:
    """`text` in one line: what would break it is escaped."""
    return "".join(one if one.isprintable() else one.encode("unicode_escape", "surrogatepass").decode() for one in text)


def column_table(report: Report) -> tuple[list[str], list[list[str]], int]:
    """Heads and rows of the table of columns, and how many columns of it are text."""
    heads = ["column", "type", "bytes/row", "share"]
    if report.profile is None:
        heads += ["not null", "least", "greatest"]
    else:
        heads += ["coverage", "nulls", "empty", "different", "least", "greatest", "length"]
    total = report.file_bytes or 1
    rows = []
    for name, layout in report.columns.items():
        used = layout.data_bytes + layout.index_bytes
        row = [printable(name), layout.type, f"{used / layout.rows:,.2f}" if layout.rows else "", f"{used / total:.1%}"]
        if report.profile is None:
            row += ["" if layout.values is None or not layout.rows else share(layout.values, layout.rows)]
            row += [number(layout.minimum), number(layout.maximum)]
        elif name in report.profile.columns:
            found = report.profile.columns[name]
            mean = "" if found.elements is None else f"{found.elements / max(found.rows - found.nulls, 1):,.1f}"
            length = "" if found.elements is None else f"{mean}, at most {found.longest:,}"
            filled = found.rows - found.nulls - found.empty
            different = f"{'' if found.distinct.exact else '~'}{found.distinct.number:,}"
            row += [share(filled, found.rows), share(found.nulls, found.rows, ""), share(found.empty, found.rows, "")]
            row += [different, number(found.minimum), number(found.maximum), length]
        rows.append(row + [""] * (len(heads) - len(row)))
    other = sum(file.other_bytes for file in report.files)
    per_row = f"{other / report.rows:,.2f}" if report.rows else ""
    rows.append(["(footers)", "", per_row, f"{other / total:.1%}", *[""] * (len(heads) - 4)])
    return heads, rows, 2


def order_text(report: Report) -> str:
    """How the rows are sorted, and whether that is what the files say."""
    if report.profile is None:
        return f"{', '.join(report.sort_told)} by the metadata; not checked" if report.sort_told else "not told"
    order = report.profile.order
    return f"{_found(order, len(report.files))}{_told(order)}"


def _found(order: Order, files: int) -> str:
    if order.found:
        return ", ".join(order.found) + (", across all files" if files > 1 else "")
    if order.found_in_files:
        return ", ".join(order.found_in_files) + " in each file, not across them"
    return "no column"


def _told(order: Order) -> str:
    if not order.told:
        return ""
    told = ", ".join(order.told)
    if not order.told_holds:
        return f" (NOT as the metadata say: {told})"
    return " (as the metadata say)" if order.told == order.found else f" (the metadata say: {told}, which is true)"


def metadata_rows(files: Sequence[FileLayout]) -> list[tuple[str, str]]:
    """User metadata: what all files say, or how many different things."""
    names = dict.fromkeys(name for file in files for name in file.metadata)
    rows = []
    for name in names:
        values = Counter(file.metadata.get(name) for file in files)
        value = next(iter(values))
        rows.append(
            (name, str(value) if len(values) == 1 else f"({len(values)} different values in {len(files)} files)")
        )
    return rows


def file_rows(files: Sequence[FileLayout]) -> list[list[str]]:
    """The first files, for a table."""
    return [
        [printable(file.path), f"{file.rows:,}", f"{len(file.stripe_rows):,}", size(file.file_bytes)]
        for file in files[:_SHOWN_FILES]
    ]


def count(many: int, name: str) -> str:
    """`1 file`, `2 files`."""
    return f"{many:,} {name}{'' if many == 1 else 's'}"


def size(count_bytes: float) -> str:
    """`1.2 MB`, in powers of 1,000."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if count_bytes < 1000:
            return f"{count_bytes:,.0f} {unit}" if unit == "bytes" else f"{count_bytes:,.1f} {unit}"
        count_bytes /= 1000
    return f"{count_bytes:,.1f} TB"


def share(part: int, whole: int, none: str = "0%") -> str:
    """A percentage that is 0 % or 100 % only when it is so exactly."""
    if not whole or not part:
        return none if whole else ""
    if part == whole:
        return "100%"
    return f"{min(max(part / whole, 0.0001), 0.9999):.2%}"


def number(value: int | float | None) -> str:
    """Integers as they are, floats with six digits."""
    if value is None:
        return ""
    return str(value) if isinstance(value, int) else f"{value + 0.0:.6g}"  # -0.0 + 0.0 is 0.0


def moment(ms: int) -> str:
    """A time in UTC; years that a date cannot hold as milliseconds."""
    try:
        return (datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(milliseconds=ms)).strftime("%Y-%m-%d %H:%M:%S")
    except OverflowError:
        return f"{ms} ms"


def _encoding(file: FileLayout) -> str:
    groups = f"row groups of {file.row_index_stride:,} rows" if file.row_index_stride else "no row index"
    return f"{file.codec}, blocks of {file.block_bytes // 1024} KiB, {groups}"


def _each(files: Sequence[FileLayout], describe: object) -> str:
    assert callable(describe)
    found = Counter(describe(file) for file in files)
    if len(found) == 1:
        return next(iter(found))
    return "; ".join(f"{text} ({count(many, 'file')})" for text, many in found.most_common())


def _cut(value: str) -> str:
    line = printable(value)
    return line if len(line) <= _SHOWN_METADATA else f"{line[:_SHOWN_METADATA]}…"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], text_columns: int) -> list[str]:
    widths = [max(len(row[i]) for row in [heads, *rows]) for i in range(len(heads))]
    lines = []
    for row in [heads, *rows]:
        cells = [cell.ljust(w) if i < text_columns else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths))]
        lines.append("  ".join(cells))
    return lines
