"""The samples file as data: what each column is made of, and how the training files are laid out.

Here features are declared from the data's side: a column has a source, a transform (its `kind`) and a version.
"""

from __future__ import annotations

import hashlib
import re
import zoneinfo
from collections.abc import Iterator
from typing import Annotated, Any, Literal, Union

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, PositiveInt

# `expected` is what a message about a wrong value calls a right one.
ColumnName = Annotated[
    str,
    Field(
        pattern=r"^[A-Za-z_][A-Za-z0-9_]*$",
        max_length=63,
        json_schema_extra={"expected": "a name: a letter or _, then letters, digits or _, at most 63"},
    ),
]
Text = Annotated[str, Field(min_length=1)]
Character = Annotated[
    str, Field(min_length=1, max_length=1, json_schema_extra={"expected": "one character, such as ',' or \"\\t\""})
]

KEEP_OR_ERROR = "What to do with a missing value: `keep` writes a null, `error` refuses the row."


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Column(_Section):
    name: ColumnName = Field(description="Name of the ORC column, unique in the file.")
    source: Text | None = Field(None, description="Column (or tf.train.Example feature) it comes from. Default: name.")
    version: PositiveInt = Field(1, description="Counts up when the meaning of the column changes.")
    description: Text | None = Field(None, description="For people.")

    @property
    def source_name(self) -> str:
        """The source column's name."""
        return self.source if self.source is not None else self.name


class IdColumn(_Column):
    """An integer id, from integers or texts of digits. An empty text is a missing value."""

    kind: Literal["id"] = Field(description="An integer id; also from text.")
    missing: Literal["keep", "error"] = Field("keep", description=KEEP_OR_ERROR)
    fill: int | None = Field(None, description="Id written for a missing value.")


class HashedIdColumn(_Column):
    """The 64-bit hash of a text, or of an integer's digits. An empty text is a value of its own."""

    kind: Literal["hashed_id"] = Field(description="The hash of a text, as a 64-bit integer.")
    missing: Literal["keep", "error"] = Field("keep", description=KEEP_OR_ERROR)


class ListColumn(_Column):
    """What the kinds of list columns have in common."""

    separator: Character = Field(",", description="What stands between the items of a text.")
    empty_items: Literal["error", "drop"] = Field(
        "error", description="What to do with an empty item among others, as in `1,,2`. (`` alone is an empty list.)"
    )
    missing: Literal["keep", "error", "empty"] = Field(
        "keep", description="What to do with a missing list: write a null, refuse the row, or write an empty list."
    )


class IdListColumn(ListColumn):
    """A list of integer ids, from a text such as `12345,67890` or a list of integers or of such texts."""

    kind: Literal["id_list"] = Field(description="A list of integer ids; also from text.")


class HashedIdListColumn(ListColumn):
    """A list of 64-bit hashes, from a text with separators or a list of texts or integers."""

    kind: Literal["hashed_id_list"] = Field(description="A list of the hashes of texts.")


class DenseColumn(_Column):
    """One float32 number, from numbers or texts. An empty text is a missing value."""

    kind: Literal["dense"] = Field(description="A float32 number; also from text.")
    missing: Literal["keep", "error"] = Field("keep", description=KEEP_OR_ERROR)
    fill: float | None = Field(None, description="Number written for a missing value.")
    nan: Literal["error", "missing"] = Field("error", description="Whether NaN is a wrong or a missing value.")


class LabelColumn(_Column):
    """0 or 1, from numbers, booleans or texts (`0`, `1`, `0.0`, `1.0`, `true`, `false`)."""

    kind: Literal["label"] = Field(description="0 or 1.")
    missing: Literal["keep", "error"] = Field("error", description=KEEP_OR_ERROR)


class TimeColumn(_Column):
    """A time as milliseconds since 1970-01-01 UTC. An empty text is a missing value."""

    kind: Literal["time"] = Field(description="A time; written as epoch milliseconds.")
    format: Literal["epoch_seconds", "epoch_milliseconds", "epoch_microseconds", "iso8601", "pattern"] = Field(
        description="How the source writes it. A source column of a time type (Parquet, ORC) needs no parsing."
    )
    pattern: Text | None = Field(None, description="With `format: pattern`: as for strptime, e.g. `%d/%m/%Y %H:%M:%S`.")
    zone: Text = Field(
        "UTC",
        description="Zone of times that do not state theirs, e.g. `Europe/Berlin`. An hour that a clock shows twice is "
        "the earlier one.",
    )
    missing: Literal["keep", "error"] = Field("error", description=KEEP_OR_ERROR)


Column = Annotated[
    Union[IdColumn, HashedIdColumn, IdListColumn, HashedIdListColumn, DenseColumn, LabelColumn, TimeColumn],
    Field(discriminator="kind"),
]
HASHED = ("hashed_id", "hashed_id_list")
LISTS = ("id_list", "hashed_id_list")
SORTABLE = ("id", "hashed_id", "label", "time")


class Source(_Section):
    """What kind of files the sources are."""

    format: Literal["auto", "tfrecord", "csv", "tsv", "parquet", "orc"] = Field(
        "auto", description="`auto`: by the file's name, or else its first bytes. Text and TFRecord may be gzipped."
    )
    separator: Character | None = Field(
        None, description="Text files: between columns. Default: `,` or, in TSV, a tab."
    )
    header: bool = Field(True, description="Text files: whether the first line holds the names of the columns.")
    column_names: list[Text] | None = Field(
        None, description="Text files without a header: names of the columns, in order."
    )
    null_texts: list[str] = Field(
        ["\\N"],
        description="Text files: unquoted texts that mean a missing value, besides an empty one where a number "
        "is expected.",
    )


class Output(_Section):
    """How the training files are cut."""

    rows_per_file: PositiveInt = Field(1_000_000, description="Rows of a file; the last file may have fewer.")
    bloom_columns: list[ColumnName] = Field(
        [], description="Columns with bloom filters: for `where` with == or in, on ids that are not sorted."
    )


class SamplesSchema(_Section):
    """One kind of samples: the only place where its columns are described."""

    name: ColumnName = Field("samples", description="For people.")
    source: Source = Field(default_factory=lambda: Source(), description="What kind of files the sources are.")
    columns: list[Column] = Field(min_length=1, description="The columns of the training files, in order.")
    sort: list[ColumnName] = Field(
        [],
        description="Rows are sorted by these columns, ascending, nulls first; e.g. user, then time. Files of equal "
        "users compress several times better. Default: the sources' order.",
    )
    group_by: ColumnName | None = Field(
        None, description="Rows with equal values, e.g. of one request, are written together, in the sources' order."
    )
    hash_seed: NonNegativeInt = Field(
        0, description="The hash is FarmHash Fingerprint64 of the text's bytes; of `SEED:text` where the seed is not 0."
    )
    output: Output = Field(default_factory=lambda: Output(), description="How the training files are cut.")

    @property
    def sort_columns(self) -> tuple[str, ...]:
        """The columns that rows are sorted by, the first one counting most."""
        return (self.group_by,) if self.group_by is not None else tuple(self.sort)

    @property
    def source_names(self) -> list[str]:
        """The source columns that are read, each once."""
        return list(dict.fromkeys(column.source_name for column in self.columns))

    @property
    def time_column(self) -> str | None:
        """The first column of kind time."""
        return next((column.name for column in self.columns if column.kind == "time"), None)

    @property
    def digest(self) -> str:
        """Changes with everything that changes what is written."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()


def arrow_schema(schema: SamplesSchema) -> pa.Schema:
    """The types of the training files."""
    types: dict[str, pa.DataType] = {
        "dense": pa.float32(),
        "label": pa.int8(),
        "id_list": pa.list_(pa.int64()),
        "hashed_id_list": pa.list_(pa.int64()),
    }
    return pa.schema([(column.name, types.get(column.kind, pa.int64())) for column in schema.columns])


def broken_rules(schema: SamplesSchema) -> Iterator[tuple[tuple[str | int, ...], str, str]]:
    """What is wrong between fields: the path of a field, what was expected there, what was found."""
    first: dict[str, int] = {}
    for index, column in enumerate(schema.columns):
        earlier = first.setdefault(column.name, index)
        if earlier != index:
            yield ("columns", index, "name"), "a name no other column has", f"{column.name!r}, as columns[{earlier}]"
        yield from _column_rules(column, ("columns", index))
    kinds = {column.name: column.kind for column in schema.columns}
    if schema.group_by is not None and schema.sort:
        yield ("group_by",), "either 'sort' or 'group_by'", "both"
    places: list[tuple[tuple[str | int, ...], str]] = [(("sort", i), name) for i, name in enumerate(schema.sort)]
    if schema.group_by is not None:
        places.append((("group_by",), schema.group_by))
    for path, name in places:
        if kinds.get(name) not in SORTABLE:
            found = f"{name!r} of kind {kinds[name]}" if name in kinds else f"{name!r}, which is no column"
            yield path, f"a column of kind {', '.join(SORTABLE)}", found
        elif schema.sort.count(name) > 1 and schema.sort.index(name) != path[-1]:
            yield path, "each column once", repr(name)
    for i, name in enumerate(schema.output.bloom_columns):
        if kinds.get(name) not in SORTABLE:
            found = f"{name!r} of kind {kinds[name]}" if name in kinds else f"{name!r}, which is no column"
            yield ("output", "bloom_columns", i), f"a column of kind {', '.join(SORTABLE)}", found
    source = schema.source
    if source.column_names is not None and source.header:
        yield ("source", "column_names"), "'column_names' only with 'header: false'", "a header"
    if source.separator is not None and source.separator in '"\r\n':
        yield ("source", "separator"), "a character other than a quote or the end of a line", repr(source.separator)
    if source.column_names is not None:
        twice = next((name for name in source.column_names if source.column_names.count(name) > 1), None)
        if twice is not None:
            yield ("source", "column_names"), "each column once", repr(twice)
        for index, column in enumerate(schema.columns):
            if column.source_name not in source.column_names:
                shown = ", ".join(source.column_names[:20])
                field = "name" if column.source is None else "source"
                yield ("columns", index, field), f"one of 'source.column_names' ({shown})", repr(column.source_name)
    if source.column_names is None and not source.header:
        yield ("source", "header"), "'column_names' beside 'header: false'", "no such field"


def _column_rules(column: Any, path: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], str, str]]:
    fill = getattr(column, "fill", None)
    if fill is not None and column.missing == "error":
        yield (*path, "fill"), "either 'fill' or 'missing: error'", "both"
    if column.kind == "id" and fill is not None and not -(2**63) <= fill < 2**63:
        yield (*path, "fill"), "an integer of 64 bits", str(fill)
    if column.kind == "dense" and fill is not None and not abs(fill) <= 3.4028235e38:
        yield (*path, "fill"), "a finite float32 number", str(fill)
    if column.kind == "time":
        if (column.format == "pattern") != (column.pattern is not None):
            found = "'pattern' alone" if column.pattern is not None else "no such field"
            yield (*path, "pattern"), "'pattern' together with 'format: pattern'", found
        if column.pattern is not None:
            yield from _pattern_rules(column.pattern, (*path, "pattern"))
        if not _knows_zone(column.zone):
            yield (*path, "zone"), "a time zone such as 'UTC' or 'Europe/Berlin'", repr(column.zone)


# Directives of strptime that are read; those left out would be skipped over unread, or not be understood.
_DIRECTIVES = "aAbBcCdDeFhHIjklmMnpRsStTxXyYz%"


def _pattern_rules(pattern: str, path: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], str, str]]:
    directives = re.findall(r"%(.?)", pattern, re.DOTALL)
    unread = next((directive for directive in directives if directive == "" or directive not in _DIRECTIVES), None)
    if unread is not None:
        known = ", ".join(f"%{letter}" for letter in _DIRECTIVES)
        yield path, f"a pattern of {known}", repr(f"%{unread}")
    elif not set(directives) & set("YyFDcsx"):
        yield path, "a pattern with a year, such as %Y or %y", repr(pattern)


def _knows_zone(zone: str) -> bool:
    if zone not in zoneinfo.available_timezones() | {"UTC"}:
        return False
    try:  # it is this library that will read the zone
        pc.assume_timezone(pa.scalar(0, pa.timestamp("s")), zone)
    except pa.ArrowInvalid:
        return False
    return True
