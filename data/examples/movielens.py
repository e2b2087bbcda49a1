"""MovieLens-100k as training and test rows with features that know nothing of the future.

Source: the files `ml-100k.{inter,item,user}` that the PyPI package `recbole` carries.

What a row may know: events with an *earlier* timestamp, of any user. Ratings with the row's own
timestamp, of the same user (who often rates a page of films at once) or of others, are not seen. This
holds for training and test rows alike; a test row thus sees earlier test ratings, as a ranker does that
is served while ratings keep coming in, but they are never trained on.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from data.errors import DataError
from data.examples.past import DENSE, Past, Rating, Seen
from data.orc_writer import OrcWriter

WHEEL = "recbole-1.2.1-py3-none-any.whl"
WHEEL_SHA256 = "9c9948202011f37eb0a7c6768129313f00d6403ad221ec940d5e2d5d5f33a407"
HISTORY = 50
BATCH_ROWS = 4096

# Numbered from 1 in this order; 0 stands for nothing.
GENRES = [
    "Action",
    "Adventure",
    "Animation",
    "Children's",
    "Comedy",
    "Crime",
    "Documentary",
    "Drama",
    "Fantasy",
    "Film-Noir",
    "Horror",
    "Musical",
    "Mystery",
    "Romance",
    "Sci-Fi",
    "Thriller",
    "War",
    "Western",
    "unknown",
]
OCCUPATIONS = [
    "administrator",
    "artist",
    "doctor",
    "educator",
    "engineer",
    "entertainment",
    "executive",
    "healthcare",
    "homemaker",
    "lawyer",
    "librarian",
    "marketing",
    "none",
    "other",
    "programmer",
    "retired",
    "salesman",
    "scientist",
    "student",
    "technician",
    "writer",
]
GENDERS = ["M", "F"]
ZIP_PREFIXES = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"

_LIST = pa.list_(pa.int64())
SCHEMA = pa.schema(
    [
        ("user_id", pa.int64()),
        ("item_id", pa.int64()),
        ("genres", _LIST),  # numbers of GENRES
        ("age", pa.int64()),  # years
        ("gender", pa.int64()),  # 1 M, 2 F
        ("occupation", pa.int64()),  # number in OCCUPATIONS
        ("zip_prefix", pa.int64()),  # first character: digits 1 to 10, letters from 11
        ("release_year", pa.int64()),  # 0 when unknown
        ("hour", pa.int64()),  # UTC, 1 to 24
        ("weekday", pa.int64()),  # UTC, 1 Monday to 7
        ("history", _LIST),  # the user's earlier items, at most HISTORY, oldest first
        ("history_ratings", _LIST),  # their ratings
        ("liked", _LIST),  # the user's earlier items rated 4 or 5, at most HISTORY, oldest first
        ("disliked", _LIST),  # the user's earlier items rated 1 to 3, at most HISTORY, oldest first
        *((name, pa.float32()) for name in DENSE),
        ("rating", pa.int64()),
        ("timestamp", pa.int64()),  # milliseconds since 1970
        ("label", pa.int64()),  # 1 for a rating of 4 or 5
    ]
)

_COLUMNS = {
    "inter": ["user_id:token", "item_id:token", "rating:float", "timestamp:float"],
    "item": ["item_id:token", "movie_title:token_seq", "release_year:token", "class:token_seq"],
    "user": ["user_id:token", "age:token", "gender:token", "occupation:token", "zip_code:token"],
}
_FOLDER = "recbole/dataset_example/ml-100k"


@dataclass(frozen=True)
class Summary:
    """What was written."""

    train_path: str
    test_path: str
    split: str
    train_rows: int
    test_rows: int
    users: int
    items: int
    train_like_share: float
    test_like_share: float
    test_unseen_user_share: float  # share of test rows whose user has no training row


@dataclass(frozen=True)
class _Log:
    """The source as arrays; events sorted by (time, user, item)."""

    user_ids: np.ndarray  # [users]
    ages: np.ndarray
    genders: np.ndarray
    occupations: np.ndarray
    zip_prefixes: np.ndarray
    item_ids: np.ndarray  # [items]
    years: np.ndarray
    genres: np.ndarray  # [items, len(GENRES)]
    users: np.ndarray  # [events] positions in user_ids
    items: np.ndarray  # [events] positions in item_ids
    stars: np.ndarray
    times: np.ndarray  # seconds


class FetchError(RuntimeError):
    """The data could not be fetched; the text names the cause."""


def fetch_wheel(cache_dir: str) -> str:
    """Path of the wheel that carries the data; pip downloads it, without its dependencies, when missing.

    Raises FetchError when pip fails or delivers another file than the pinned one.
    """
    path = os.path.join(cache_dir, WHEEL)
    if not os.path.exists(path):
        os.makedirs(cache_dir, exist_ok=True)
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet", "--dest", cache_dir]
        done = subprocess.run([*command, "recbole==1.2.1"], capture_output=True, text=True, check=False)
        if done.returncode:
            lines = [line for line in done.stderr.splitlines() if line.strip()] or ["no message"]
            raise FetchError(f"pip could not download recbole==1.2.1: {lines[-1].strip()}")
    with open(path, "rb") as file:
        found = hashlib.sha256(file.read()).hexdigest()
    if found != WHEEL_SHA256:
        raise FetchError(f"{path}: expected SHA-256 {WHEEL_SHA256}, found {found}; remove the file to fetch it again")
    return path


def prepare(
    source: str,
    out_dir: str,
    split: Literal["user", "time"] = "user",
    test_share: float = 0.1,
    progress: Callable[[int, int], None] | None = None,
) -> Summary:
    """Writes `train.orc` and `test.orc`, rows in order of time.

    Args:
        source: the `recbole` wheel, or a folder with the files `ml-100k.{inter,item,user}`.
        out_dir: folder, made when missing; files of an earlier run are replaced.
        split: `user`: test is the last `test_share` of each user's ratings (at least one);
            `time`: the last `test_share` of all.
        progress: called with (rows done, rows in all).

    Raises DataError when the source is not what it should be.
    """
    log = _read(source)
    is_test = _split(log, split, test_share)
    os.makedirs(out_dir, exist_ok=True)
    paths = [os.path.join(out_dir, name) for name in ("train.orc", "test.orc")]
    metadata = {"source": "MovieLens-100k", "split": split, "test_share": str(test_share)}
    with OrcWriter(paths[0], SCHEMA, metadata) as train, OrcWriter(paths[1], SCHEMA, metadata) as test:
        for start, batch in _batches(log):
            mask = pa.array(is_test[start : start + batch.num_rows])
            test.write(batch.filter(mask))
            train.write(batch.filter(pc.invert(mask)))
            if progress:
                progress(start + batch.num_rows, len(log.times))
    likes = log.stars >= 4
    return Summary(
        train_path=paths[0],
        test_path=paths[1],
        split=split,
        train_rows=int((~is_test).sum()),
        test_rows=int(is_test.sum()),
        users=len(log.user_ids),
        items=len(log.item_ids),
        train_like_share=_mean(likes[~is_test]),
        test_like_share=_mean(likes[is_test]),
        test_unseen_user_share=_mean(~np.isin(log.users[is_test], log.users[~is_test])),
    )


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else 0.0


def _split(log: _Log, split: str, test_share: float) -> np.ndarray:
    """`[events]`, True for test rows."""
    count = len(log.times)
    if split == "time":
        return np.arange(count) >= count - round(count * test_share)
    order = np.argsort(log.users, kind="stable")  # by user, each user's in order of time
    counts = np.bincount(log.users, minlength=len(log.user_ids))
    tests = np.maximum(np.floor(counts * test_share + 0.5).astype(int), np.minimum(counts, 1))
    rank_from_end = np.repeat(np.cumsum(counts), counts) - 1 - np.arange(count)
    is_test = np.zeros(count, bool)
    is_test[order] = rank_from_end < np.repeat(tests, counts)
    return is_test


def _batches(log: _Log) -> Iterator[tuple[int, pa.RecordBatch]]:
    """(number of the first row, rows of SCHEMA) over the whole log, in order of time."""
    past = Past(log.genres, log.years, log.genders - 1, log.ages, HISTORY)
    seen: list[Seen] = []
    start = 0
    for first, last in _moments(log.times):
        moment = [
            Rating(int(log.users[k]), int(log.items[k]), int(log.stars[k]), int(log.times[k]))
            for k in range(first, last)
        ]
        seen.extend(past.look(event.user, event.item, event.time) for event in moment)
        past.add(moment)
        if len(seen) >= BATCH_ROWS or last == len(log.times):
            yield start, _batch(log, start, seen)
            start, seen = last, []


def _moments(times: np.ndarray) -> Iterator[tuple[int, int]]:
    """(first, end) of each run of equal times."""
    ends = np.flatnonzero(np.diff(times)) + 1
    yield from zip([0, *ends.tolist()], [*ends.tolist(), len(times)])


def _batch(log: _Log, start: int, seen: list[Seen]) -> pa.RecordBatch:
    rows = slice(start, start + len(seen))
    users, items, stars, times = log.users[rows], log.items[rows], log.stars[rows], log.times[rows]
    dense = np.array([row.dense for row in seen], np.float32)
    genres = [np.flatnonzero(log.genres[item]) + 1 for item in items]
    columns = {
        "user_id": log.user_ids[users],
        "item_id": log.item_ids[items],
        "genres": _lists(genres),
        "age": log.ages[users],
        "gender": log.genders[users],
        "occupation": log.occupations[users],
        "zip_prefix": log.zip_prefixes[users],
        "release_year": log.years[items],
        "hour": times // 3600 % 24 + 1,
        "weekday": (times // 86400 + 3) % 7 + 1,  # 1970-01-01 was a Thursday
        "history": _lists([log.item_ids[row.items] for row in seen]),
        "history_ratings": _lists([row.stars for row in seen]),
        "liked": _lists([log.item_ids[row.liked] for row in seen]),
        "disliked": _lists([log.item_ids[row.disliked] for row in seen]),
        **{name: dense[:, k] for k, name in enumerate(DENSE)},
        "rating": stars,
        "timestamp": times * 1000,
        "label": (stars >= 4).astype(np.int64),
    }
    return pa.RecordBatch.from_arrays([pa.array(columns[name]) for name in SCHEMA.names], schema=SCHEMA)


def _lists(rows: list[np.ndarray]) -> pa.ListArray:
    offsets = np.zeros(len(rows) + 1, np.int32)
    np.cumsum([len(row) for row in rows], out=offsets[1:])
    values = np.concatenate(rows).astype(np.int64)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(values))


def _read(source: str) -> _Log:
    users = _Table(source, "user")
    items = _Table(source, "item")
    events = _Table(source, "inter")
    user_ids = users.numbers(0, 1)
    item_ids = items.numbers(0, 1)
    genres = np.zeros((len(item_ids), len(GENRES)), np.int64)
    for position, names in enumerate(items.texts(3)):
        for name in names.split():
            genres[position, items.choice(position, 3, name, GENRES) - 1] = 1
    years = [int(text) if len(text) == 4 and text.isdigit() else 0 for text in items.texts(2)]
    event_users = events.positions(0, user_ids, "user")
    event_items = events.positions(1, item_ids, "item")
    stars, times = events.numbers(2, 1, 5), events.numbers(3, 0)
    order = np.lexsort((event_items, event_users, times))
    return _Log(
        user_ids=user_ids,
        ages=users.numbers(1, 0),
        genders=users.choices(2, GENDERS),
        occupations=users.choices(3, OCCUPATIONS),
        zip_prefixes=np.array(
            [users.choice(k, 4, text[:1].upper(), list(ZIP_PREFIXES)) for k, text in enumerate(users.texts(4))]
        ),
        item_ids=item_ids,
        years=np.array(years),
        genres=genres,
        users=event_users[order],
        items=event_items[order],
        stars=stars[order],
        times=times[order],
    )


class _Table:
    """One tab-separated source file; errors name file, line and column."""

    def __init__(self, source: str, kind: str):
        self.path, text = _text(source, f"ml-100k.{kind}")
        self._names = _COLUMNS[kind]
        lines = text.splitlines()
        if not lines or lines[0].split("\t") != self._names:
            found = lines[0].split("\t") if lines else "an empty file"
            raise DataError(f"{self.path}:1: expected the columns {self._names}, found {found}")
        self._rows = [line.split("\t") for line in lines[1:]]
        for position, row in enumerate(self._rows):
            if len(row) != len(self._names):
                raise DataError(f"{self.path}:{position + 2}: expected {len(self._names)} columns, found {len(row)}")
        if not self._rows:
            raise DataError(f"{self.path}: expected rows, found none")

    def texts(self, column: int) -> list[str]:
        return [row[column] for row in self._rows]

    def numbers(self, column: int, least: int, most: int = 2**62) -> np.ndarray:
        """int64 `[rows]`; accepts `881250949` and `881250949.0`."""
        result = np.empty(len(self._rows), np.int64)
        for position, row in enumerate(self._rows):
            try:
                number = float(row[column])
            except ValueError:
                number = float("nan")
            if not (number.is_integer() and least <= number <= most):
                limits = f"from {least}" + (f" to {most}" if most < 2**62 else "")
                raise self._error(position, column, f"a whole number {limits}")
            result[position] = int(number)
        return result

    def choices(self, column: int, names: list[str]) -> np.ndarray:
        return np.array([self.choice(k, column, text, names) for k, text in enumerate(self.texts(column))])

    def choice(self, position: int, column: int, text: str, names: list[str]) -> int:
        """Number of `text` among `names`, from 1."""
        if text not in names:
            raise self._error(position, column, f"one of {', '.join(names)}")
        return names.index(text) + 1

    def positions(self, column: int, ids: np.ndarray, what: str) -> np.ndarray:
        """Positions in `ids` of the ids in the column."""
        where = {int(number): position for position, number in enumerate(ids)}
        result = np.empty(len(self._rows), np.int64)
        for position, number in enumerate(self.numbers(column, 1)):
            if int(number) not in where:
                raise self._error(position, column, f"an id of the {what} file")
            result[position] = where[int(number)]
        return result

    def _error(self, position: int, column: int, expected: str) -> DataError:
        name, found = self._names[column], self._rows[position][column]
        return DataError(f"{self.path}:{position + 2}: column {name}: expected {expected}, found {found!r}")


def _text(source: str, name: str) -> tuple[str, str]:
    """(path for messages, content) of a source file in a folder or in a wheel."""
    try:
        if os.path.isdir(source):
            path = os.path.join(source, name)
            with open(path, encoding="utf-8") as file:
                return path, file.read()
        path = f"{source}/{_FOLDER}/{name}"
        with zipfile.ZipFile(source) as wheel:
            return path, wheel.read(f"{_FOLDER}/{name}").decode()
    except FileNotFoundError as error:
        raise DataError(f"{error.filename}: expected a file, found none") from None
    except zipfile.BadZipFile:
        raise DataError(f"{source}: expected a wheel (zip file) or a folder, found something else") from None
    except KeyError:
        raise DataError(f"{source}: expected the member {_FOLDER}/{name}, found no such member") from None
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: expected UTF-8 text, found byte {error.start} to be something else") from None
