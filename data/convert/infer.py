"""A samples file proposed from a sample of rows: what each column seems to be, how sure that is, and why."""

from __future__ import annotations

import functools
import itertools
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import Any

from data.convert.reading import describe, expand
from data.convert.sample_rows import Column, Sample, take
from data.convert.schema import SamplesSchema, broken_rules
from data.errors import DataError

# A kind that fits this share of the values is proposed; the rest would be bad rows.
_FITTING = 0.97
_SEPARATORS = (",", "|", ";", " ", ":")
_EPOCHS = (("epoch_seconds", 1), ("epoch_milliseconds", 1000), ("epoch_microseconds", 1_000_000))
_EPOCH_RANGE = (9.0e8, 2.6e9)  # 1998 to 2052, in seconds
_ISO = re.compile(r"\d{4}-\d\d-\d\d([Tt ]\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d(:?\d\d)?)?)?")
_CLOCK = re.compile(r"\d\d?:\d\d(:\d\d)?")
_PATTERNS = (
    "%Y/%m/%d %H:%M:%S",
    "%Y/%m/%d",
    "%d/%b/%Y:%H:%M:%S %z",
    "%d/%m/%Y %H:%M:%S",
    "%d.%m.%Y %H:%M:%S",
    "%m/%d/%Y %H:%M:%S",
    "%Y%m%d%H%M%S",
    "%Y%m%d",
)
_INT64 = range(-(2**63), 2**63)
_DIGITS = re.compile(r"-?\d+")
_DECIMAL = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")

_LABEL_NAME = re.compile(r"(^|_)(label|labels|click|clicks|clicked|is_click|target|y|converted|conversion|like|liked)$")
_TIME_NAME = re.compile(r"(^|_)(time|timestamp|ts|date|datetime|day|hour|created|updated|at)($|_)|time$")
_USER_NAME = re.compile(r"(^|_)(user|uid|userid|member|visitor|customer|device)($|_)")
_ID_NAME = re.compile(r"(id|ids|code|type|category|cat|idx|index|key)$|^(id|c)\d*($|_)")
_NUMBER_NAME = re.compile(
    r"(^|_)(count|cnt|num|number|price|amount|age|score|rate|ratio|ctr|avg|mean|sum|total|length|duration|size|weight)($|_)"
)


@dataclass(frozen=True)
class Proposal:
    """One column of the proposed samples file."""

    fields: dict[str, Any]  # as in the file
    sure: float  # 0 to 1
    why: str


@dataclass(frozen=True)
class Draft:
    """A proposed samples file."""

    text: str
    schema: SamplesSchema
    proposals: list[Proposal]


def infer(patterns: Sequence[str], base: str = ".", form: str = "auto") -> Draft:
    """Proposes a samples file for the sources. Raises DataError for files that cannot be read."""
    sample = take([describe(path, form) for path in expand(patterns, base)])
    # The source's name stands in the samples file, where text is on one line.
    named = [column for column in sample.columns if column.name.isprintable() and column.name]
    if not named:
        raise DataError(f"{patterns[0]}: expected columns with names, found {sample.columns[0].name!r:.80}")
    names = _names([column.name for column in named])
    proposals = _one_label(
        [_named(_propose(column, sample.format == "tfrecord"), column, name) for column, name in zip(named, names)]
    )
    values: dict[str, Any] = {"name": "samples"}
    source = _source(sample)
    if source:
        values["source"] = source
    values["columns"] = [proposal.fields for proposal in proposals]
    sort = _sort(proposals)
    if sort:
        values["sort"] = sort
    schema = SamplesSchema.model_validate(values, strict=True)
    problems = list(broken_rules(schema))
    assert not problems, problems
    left_out = [column.name for column in sample.columns if column not in named]
    return Draft(_text(values, proposals, sample, left_out), schema, proposals)


def _source(sample: Sample) -> dict[str, Any]:
    source: dict[str, Any] = {"format": sample.format}
    if sample.separator is not None:
        source["separator"] = sample.separator
    if not sample.header:
        source |= {"header": False, "column_names": [column.name for column in sample.columns]}
    return source


def _names(sources: Sequence[str]) -> list[str]:
    """A name that a column may have for each source's, all different; those that will do stay as they are."""
    plain = [re.sub(r"\W", "_", source, flags=re.ASCII) for source in sources]
    plain = [(name if re.match(r"[A-Za-z_]", name) else f"column_{name}")[:63] for name in plain]
    taken = {source for source, name in zip(sources, plain) if source == name}
    names = []
    for source, name in zip(sources, plain):
        tries = itertools.chain([name], (f"{name[:55]}_{number}" for number in itertools.count(2)))
        names.append(name if source == name else next(one for one in tries if one not in taken))
        taken.add(names[-1])
    return names


def _named(proposal: Proposal, column: Column, name: str) -> Proposal:
    fields = {"name": name}
    if name != column.name:
        fields["source"] = column.name
    return replace(proposal, fields=fields | proposal.fields)


def _propose(column: Column, unwrap: bool) -> Proposal:
    """`unwrap`: a list of at most one value stands for a value, as tf.train.Example has only lists."""
    if not column.values:
        return Proposal({"kind": "hashed_id"}, 0.05, "no value in the sample")
    values, nested = column.values, isinstance(column.values[0], list)
    if nested:
        lengths = {len(value) for value in values}
        if not max(lengths):
            return Proposal({"kind": "id_list"}, 0.05, "only empty lists in the sample")
        if max(lengths) > 1 or not unwrap:
            return _list(column, [item for value in values for item in value])
        values = [value[0] for value in values if value]
    empties = sum(value in ("", b"") for value in values)
    texts = [_as_text(value) for value in values if value not in ("", b"")]
    if not texts:
        return Proposal({"kind": "hashed_id"}, 0.05, "only empty texts in the sample")
    proposal = _scalar(column.name, values, texts, empties)
    missing = column.rows - len(values) + empties
    notes = [proposal.why, f"{len(set(texts)):,} different"]
    if missing:
        notes.append(f"{missing / column.rows:.1%} empty or missing")
        if proposal.fields["kind"] in ("label", "time"):
            proposal = replace(proposal, fields=proposal.fields | {"missing": "keep"})
    if len(set(texts)) == 1 and column.rows > 20:
        notes.append("always the same")
    return replace(proposal, why="; ".join(notes))


def _list(column: Column, items: list[Any]) -> Proposal:
    texts = [_as_text(item) for item in items if item is not None]
    lengths = [len(value) for value in column.values]
    about = f"lists of {min(lengths)} to {max(lengths)}"
    if all(isinstance(item, int) for item in items):
        return Proposal({"kind": "id_list"}, 0.97, f"{about} integers")
    if texts and all(_DIGITS.fullmatch(text) for text in texts):
        return Proposal({"kind": "id_list"}, 0.85, f"{about} texts of digits")
    if any(isinstance(item, float) for item in items):
        return Proposal({"kind": "hashed_id_list"}, 0.05, f"{about} floats, for which there is no kind: leave it out")
    return Proposal({"kind": "hashed_id_list"}, 0.85, f"{about} texts")


def _scalar(name: str, values: list[Any], texts: list[str], empties: int) -> Proposal:
    lower = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    first = next(value for value in values if value not in ("", b""))
    if isinstance(first, datetime) or hasattr(first, "isoformat"):
        return Proposal({"kind": "time", "format": "iso8601"}, 0.98, "a time type")
    if isinstance(first, bool):
        return _zero_or_one(lower, "booleans")
    if _LABEL_NAME.search(lower) and set(texts) <= {"true", "false", "True", "False"}:
        return _zero_or_one(lower, "texts of booleans")
    for propose in (_digits, _times, _decimals, _lists_as_text):
        found = propose(lower, texts, not isinstance(first, (str, bytes)))
        if found is not None:
            return found
    return _categories(texts)


def _digits(name: str, texts: list[str], numbers: bool) -> Proposal | None:
    fits, note = _fit(texts, lambda text: bool(_DIGITS.fullmatch(text)) and int(text) in _INT64)
    if not fits:
        return None
    what = f"integers{note}" if numbers else f"texts of digits{note}"
    if set(texts) <= {"0", "1"} and (_LABEL_NAME.search(name) or (len(set(texts)) == 2 and not _ID_NAME.search(name))):
        return _zero_or_one(name, what)
    numbers_found = [int(text) for text in texts if _DIGITS.fullmatch(text)]
    found_time = _epoch(name, numbers_found, what)
    if found_time is not None:
        return found_time
    if _TIME_NAME.search(name):
        found = _pattern(texts)
        if found is not None:
            return Proposal(found, 0.8, f"{what} that read as dates")
    if not numbers and any(len(text) > 1 and text.lstrip("-").startswith("0") for text in texts):
        return Proposal({"kind": "hashed_id"}, 0.8, f"{what}, some with zeros in front, which integers would lose")
    spread = f"{min(numbers_found):,} to {max(numbers_found):,}"
    if _USER_NAME.search(name) or _ID_NAME.search(name):
        return Proposal({"kind": "id"}, 0.95 if not note else 0.8, f"{what}, {spread}, named as an id")
    if _NUMBER_NAME.search(name):
        return Proposal({"kind": "dense"}, 0.8, f"{what}, {spread}, named as a number; else 'id'")
    return Proposal({"kind": "id"}, 0.5, f"{what}, {spread}; 'dense' if a larger one means more")


def _epoch(name: str, numbers: list[int], what: str) -> Proposal | None:
    for form, unit in _EPOCHS:
        if all(_EPOCH_RANGE[0] * unit <= number <= _EPOCH_RANGE[1] * unit for number in numbers):
            days = [datetime.fromtimestamp(end(numbers) / unit, timezone.utc).date() for end in (min, max)]
            sure = 0.97 if _TIME_NAME.search(name) else 0.7
            return Proposal({"kind": "time", "format": form}, sure, f"{what}, as {form} {days[0]} to {days[1]}")
    return None


def _zero_or_one(name: str, what: str) -> Proposal:
    if _LABEL_NAME.search(name):
        return Proposal({"kind": "label"}, 0.97, f"{what}, 0 or 1, named as a label")
    return Proposal({"kind": "label"}, 0.4, f"{what}, 0 or 1")


def _times(name: str, texts: list[str], numbers: bool) -> Proposal | None:
    fits, note = _fit(texts, lambda text: bool(_ISO.fullmatch(text)) and _is_time(text))
    if fits:
        zoned = all(re.search(r"[Tt ].*(Z|[+-]\d\d(:?\d\d)?)$", text) for text in texts)
        zone = "" if zoned else "; their zone is not stated, UTC is a guess"
        fields = {"kind": "time", "format": "iso8601"} | ({} if zoned else {"zone": "UTC"})
        return Proposal(fields, (0.97 if zoned else 0.85) - (0.1 if note else 0), f"ISO 8601 times{note}{zone}")
    found = None if numbers else _pattern(texts)
    return Proposal(found, 0.8, "times; their zone is not stated, UTC is a guess") if found is not None else None


def _pattern(texts: list[str]) -> dict[str, Any] | None:
    fitting = [pattern for pattern in _PATTERNS if all(_reads(text, pattern) for text in texts[:300])]
    if not fitting:
        return None
    zone = {} if "%z" in fitting[0] else {"zone": "UTC"}
    return {"kind": "time", "format": "pattern", "pattern": fitting[0]} | zone


def _reads(text: str, pattern: str) -> bool:
    try:
        return 1970 <= datetime.strptime(text, pattern).year < 2100
    except ValueError:
        return False


def _is_time(text: str) -> bool:
    try:
        datetime.fromisoformat(re.sub(r"(\.\d{6})\d+", r"\1", text))
    except ValueError:
        return False
    return True


def _decimals(name: str, texts: list[str], numbers: bool) -> Proposal | None:
    fits, note = _fit(texts, lambda text: bool(_DECIMAL.fullmatch(text)) or (numbers and text == "nan"))
    if not fits:
        return None
    nan = {"nan": "missing"} if "nan" in texts else {}
    whole = all(
        text == "nan" or float(text).is_integer() for text in texts if text == "nan" or _DECIMAL.fullmatch(text)
    )
    if whole and not nan:
        found_time = _epoch(name, [int(float(text)) for text in texts if _DECIMAL.fullmatch(text)], "whole numbers")
        if found_time is not None:
            return found_time
    too_long = any(_DIGITS.fullmatch(text) and int(text) not in _INT64 for text in texts)
    if too_long and not numbers and _ID_NAME.search(name):
        return Proposal({"kind": "hashed_id"}, 0.8, f"numbers{note}, some beyond 64 bits, named as an id")
    if whole and _ID_NAME.search(name) and not nan and all("e" not in text.lower() for text in texts):
        return Proposal({"kind": "id"}, 0.7, f"whole numbers{note}, named as an id")
    return Proposal({"kind": "dense"} | nan, 0.8 if whole or note else 0.95, f"numbers with a fraction{note}")


def _lists_as_text(name: str, texts: list[str], numbers: bool) -> Proposal | None:
    if numbers:
        return None
    for separator in _SEPARATORS:
        several = [text for text in texts if separator in text]
        if not several or all(_CLOCK.fullmatch(text) for text in texts):
            continue
        share = f"{len(several) / len(texts):.0%} with {separator!r}"
        fields = {"kind": "id_list"} | ({} if separator == "," else {"separator": separator})
        fits, note = _fit(texts, functools.partial(_are_ids, separator=separator))
        if not fits:
            fits, note = _fit(texts, functools.partial(_are_ids, separator=separator, without_empty=True))
            fields, share = fields | {"empty_items": "drop"}, f"{share}, empty items among them"
        if fits:
            longest = max(text.count(separator) + 1 for text in texts)
            sure = min(0.97, 0.6 + len(several) / len(texts)) - (0.1 if note else 0)
            return Proposal(fields, sure, f"separated ids{note}, {share}, up to {longest}")
        share = share.partition(", empty")[0]
        tokens = [token for text in texts for token in text.split(separator)]
        if separator == " " or len(several) < 0.3 * len(texts) or texts[0][:1] in "[{":
            continue
        if len(set(tokens)) < 0.5 * len(tokens) and max(map(len, tokens)) <= 40 and "" not in tokens:
            fields = {"kind": "hashed_id_list"} | ({} if separator == "," else {"separator": separator})
            return Proposal(fields, 0.7, f"separated texts, {share}; 'hashed_id' if each is one value")
    return None


def _are_ids(text: str, separator: str, without_empty: bool = False) -> bool:
    items = (item.strip() for item in text.split(separator) if item or not without_empty)
    return all(_DIGITS.fullmatch(item) for item in items)


def _categories(texts: list[str]) -> Proposal:
    if all(text[:1] in "[{" for text in texts):
        return Proposal({"kind": "hashed_id"}, 0.1, "looks like JSON, which is not taken apart: leave it out")
    different, length = len(set(texts)), sum(map(len, texts)) / len(texts)
    if length > 40 and different > 0.9 * len(texts):
        return Proposal({"kind": "hashed_id"}, 0.3, "long texts, nearly all different: perhaps no feature")
    return Proposal({"kind": "hashed_id"}, 0.9, "texts")


def _fit(texts: list[str], fits: Callable[[str], bool]) -> tuple[bool, str]:
    """Whether nearly all texts fit, and a note about those that do not."""
    others = [text for text in texts if not fits(text)]
    if not others:
        return True, ""
    note = f" ({len(others)} of {len(texts):,} are not, e.g. {others[0][:30]!r}: bad rows)"
    return len(others) <= (1 - _FITTING) * len(texts), note


def _one_label(proposals: list[Proposal]) -> list[Proposal]:
    """The likeliest label stays one; other columns of 0 and 1 are ids, unless they are named as labels too."""
    places = [i for i, proposal in enumerate(proposals) if proposal.fields["kind"] == "label"]
    best = max(places, key=lambda i: proposals[i].sure, default=None)
    result = list(proposals)
    for i in places:
        if i != best and proposals[i].sure < 0.9:
            fields = {**proposals[i].fields, "kind": "id"}
            fields.pop("missing", None)
            result[i] = Proposal(fields, 0.6, f"{proposals[i].why}; not named as a label")
    return result


def _sort(proposals: list[Proposal]) -> list[str]:
    names = [proposal.fields["name"] for proposal in proposals]
    kinds = {proposal.fields["name"]: proposal.fields["kind"] for proposal in proposals}
    users = [name for name in names if _USER_NAME.search(name.lower()) and kinds[name] in ("id", "hashed_id")]
    times = [name for name in names if kinds[name] == "time"]
    return [*users[:1], *times[:1]]


def _as_text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return value if isinstance(value, str) else str(value)


def _text(values: dict[str, Any], proposals: list[Proposal], sample: Sample, left_out: Sequence[str]) -> str:
    files = f"{sample.files} file{'s' * (sample.files > 1)}"
    lines = [
        f"# Proposed from {sample.rows:,} rows out of {files}, from {sample.where}.",
        "# What is less than 90 % sure wants a look.",
        f"name: {values['name']}",
    ]
    if "source" in values:
        lines.append(f"source: {_flow(values['source'])}")
    lines.append("columns:")
    for proposal in proposals:
        why = "".join(char if char.isprintable() else "?" for char in proposal.why)
        lines += [f"  # {proposal.sure:.0%} sure: {why}", f"  - {_flow(proposal.fields)}"]
    lines += [f"  # Left out: a column that no samples file can name, {name!r}" for name in left_out]
    if "sort" in values:
        lines += [
            "# Samples of a user together, in order of time: several times smaller files.",
            f"sort: {_flow(values['sort'])}",
        ]
    return "\n".join(lines) + "\n"


def _flow(value: Any) -> str:
    """A value in YAML's flow style, on one line; texts that YAML could take for something else in quotes."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}: {_flow(item)}" for name, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_flow, value)) + "]"
    if isinstance(value, str) and re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", value):
        plain = value.lower() not in ("true", "false", "null", "yes", "no", "on", "off", "y", "n")
        return value if plain else json.dumps(value)
    return json.dumps(value, ensure_ascii=False)
