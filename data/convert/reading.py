"""Reading sources of any format."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from data.convert import read_columnar, read_text, read_tfrecord
from data.convert.raw import Raw
from data.convert.rows import BadRow, shown_names, type_problems
from data.convert.schema import SamplesSchema
from data.convert.sources import SourceFile, Unit, describe, expand
from data.errors import DataError

_SHOWN_PROBLEMS = 20


def find(patterns: Sequence[str], base: str, schema: SamplesSchema) -> list[SourceFile]:
    """The source files, each checked to hold the columns. Raises DataError with a line for each problem."""
    sources = [describe(path, schema.source.format) for path in expand(patterns, base)]
    problems: list[str] = []
    features: list[tuple[SourceFile, dict[str, str]]] = []
    for source in sources:
        try:
            if source.format == "tfrecord":
                features.append((source, read_tfrecord.features_of(source)))
            elif source.format in ("parquet", "orc"):
                problems += type_problems(read_columnar.schema_of(source), schema.columns, source.path)
            else:
                names = read_text.header(source, schema.source)
                read_text.check_names(source, names, schema.source_names)
                missing = [name for name in schema.source_names if name not in names]
                problems += [
                    f"{source.path}: column {name}: expected it among the columns {shown_names(names)}, "
                    "found no such column"
                    for name in missing
                ]
        except DataError as error:
            problems.append(str(error))
    problems += read_tfrecord.feature_problems(features, schema)
    if problems:
        more = len(problems) - _SHOWN_PROBLEMS
        raise DataError("\n".join(problems[:_SHOWN_PROBLEMS] + ([f"and {more} more problems"] if more > 0 else [])))
    return sources


def read(unit: Unit, schema: SamplesSchema, start_row: int) -> Iterator[Raw]:
    """The unit's rows from `start_row` of its source on."""
    reader = {"tfrecord": read_tfrecord, "parquet": read_columnar, "orc": read_columnar}.get(unit.source.format)
    return (reader or read_text).read(unit, schema, start_row)


def told(bad: BadRow, source: SourceFile, schema: SamplesSchema) -> str:
    """The error text of a bad row: file, row, line, column, expected, found."""
    place = f"row {bad.row + 1}"
    if source.format in ("csv", "tsv"):
        line = read_text.line_of(source, schema.source, bad.row)
        place += f" (line {line})" if line is not None else ""
    column = f"column {bad.column}: " if bad.column else ""
    return f"{source.path}: {place}: {column}expected {bad.expected}, found {bad.found}"
