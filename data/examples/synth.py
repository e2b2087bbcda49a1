"""A synthetic click log of any size in constant memory, whose best reachable AUC is known.

Rows come in order of time. Clicks *land* in the users' histories after every `landing_rows` rows, as they do
in a log pipeline: a row sees its user's clicks of earlier portions only. The best AUC is that of the planted
logit, which no ranker can beat but by luck; from 2 million rows with the default columns, a small DeepFM and
a small RankMixer both came within 0.0065 of it in one pass.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass

import numpy as np
import pyarrow as pa

from data.errors import DataError
from data.examples.planted import (
    DENSE_EFFECTS,
    LEAST_FEATURES,
    LOGIT_LIMIT,
    LOGIT_STEPS,
    Rows,
    Users,
    World,
    default_cardinalities,
)
from data.format.checksums import add_metadata
from data.orc_writer import OrcWriter

FORMAT_VERSION = 1
SUMMARY = "summary.json"


@dataclass(frozen=True)
class Summary:
    """What was written; also in `summary.json`, and the figures in every file's ORC metadata."""

    format_version: int
    train_files: list[str]  # relative to the folder
    test_files: list[str]
    train_rows: int
    test_rows: int
    seed: int
    cardinalities: dict[str, int]
    click_share: float
    best_auc_train: float | None  # AUC of the planted logit; None when there is only one class
    best_auc_test: float | None


class LogitCounts:
    """Exact AUC of planted logits in constant memory, from counts: the logits take few values."""

    def __init__(self) -> None:
        self._counts = np.zeros((2, 2 * LOGIT_LIMIT * LOGIT_STEPS + 1), np.int64)

    def add(self, logits: np.ndarray, labels: np.ndarray) -> None:
        """`logits [rows]`, multiples of 1 / LOGIT_STEPS within the limit; `labels [rows]`, 0 or 1."""
        places = np.rint((logits + LOGIT_LIMIT) * LOGIT_STEPS).astype(np.int64)
        for label in (0, 1):
            self._counts[label] += np.bincount(places[labels == label], minlength=self._counts.shape[1])

    def auc(self) -> float | None:
        """Probability that a click's logit is above a non-click's, a tie being 1/2; None for one class."""
        negatives, positives = self._counts
        pairs = int(negatives.sum()) * int(positives.sum())
        if not pairs:
            return None
        below = np.cumsum(negatives) - negatives
        return float((positives * (below + 0.5 * negatives)).sum() / pairs)


def generate(
    out_dir: str,
    rows: int,
    seed: int = 0,
    features: int = 16,
    cardinalities: Mapping[str, int] | None = None,
    history: int = 30,
    files: int = 4,
    test_share: float = 0.1,
    click_share: float = 0.2,
    spread: float = 1.3,
    zipf_exponent: float = 1.05,
    days: float = 14.0,
    request_rows: int = 4,
    landing_rows: int = 4096,
    with_logit: bool = False,
    overwrite: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Summary:
    """Writes `train-*.orc`, `test-00000.orc` and `summary.json` into `out_dir`, all or nothing.

    Args:
        out_dir: folder; must not exist or be empty, unless `overwrite` and it holds an earlier log.
        rows: rows of training and test together.
        seed: same arguments and seed: same bytes.
        features: number of id columns, at least 7.
        cardinalities: number of values of some id columns, by name; the others keep their defaults.
        history: most items in the array columns.
        files: number of training files.
        test_share: the last part of the log by time is the test file.
        click_share: share of clicks aimed at.
        spread: standard deviation of the logit aimed at (without the histories' part); moves the best AUC.
        zipf_exponent: of the frequencies of users and items; above 0, not 1.
        days: time from the first to the last row.
        request_rows: rows per request (same user and context, other items).
        landing_rows: rows after which clicks land in the histories.
        with_logit: adds the column `planted_logit`.
        progress: called with (rows done, rows in all).

    Raises DataError when an argument cannot be or the folder is in use.
    """
    sizes = default_cardinalities(max(features, LEAST_FEATURES), rows)
    _check("features", features, LEAST_FEATURES)
    _check("seed", seed, 0)
    if seed >= 2**32:
        raise DataError(f"seed: expected a number below 2**32, found {seed}")
    _check("files", files, 1)
    _check("history", history, 1)
    _check("request_rows", request_rows, 1)
    _check("landing_rows", landing_rows, request_rows)
    _check("rows", rows, 20 * files * request_rows)
    _check_between("test_share", test_share, 0, 0.5)
    _check_between("click_share", click_share, 0, 1)
    _check_between("spread", spread, 0, 5)
    _check_between("zipf_exponent", zipf_exponent, 0, 3)
    _check_between("days", days, 0, 10_000)
    if zipf_exponent == 1:
        raise DataError("zipf_exponent: expected another number than 1, found 1")
    for name, size in (cardinalities or {}).items():
        if name not in sizes or name == "hour":
            known = ", ".join(known for known in sizes if known != "hour")
            raise DataError(f"cardinalities: expected names among {known}; found {name}")
        _check(f"cardinalities: {name}", size, 2)
        sizes[name] = size
    _check_folder(out_dir, overwrite)

    landing_rows = landing_rows // request_rows * request_rows
    world = World(rows, seed, sizes, request_rows, zipf_exponent, days, click_share, spread)
    users = Users(sizes["user_id"], history)
    train_rows = rows - max(round(rows * test_share / request_rows), 1) * request_rows
    ends = [train_rows * (k + 1) // files for k in range(files)] + [rows]
    names = [f"train-{k:05}.orc" for k in range(files)] + ["test-00000.orc"]
    train, test = LogitCounts(), LogitCounts()
    clicks = 0

    beside = f"{os.path.abspath(out_dir)}.{os.getpid()}.partial"
    os.makedirs(beside)
    try:
        with _LogFiles([os.path.join(beside, name) for name in names], ends, _schema(sizes, with_logit)) as log:
            for start in range(0, rows, landing_rows):
                numbers = np.arange(start, min(start + landing_rows, rows))
                part = world.rows(numbers, users)
                labels = world.labels(numbers, part.logits)
                log.write(_batch(part, labels, log.schema))
                in_train = numbers < train_rows
                train.add(part.logits[in_train], labels[in_train])
                test.add(part.logits[~in_train], labels[~in_train])
                clicked = labels == 1
                users.land(part.ids["user_id"][clicked], part.ids["item_id"][clicked])
                clicks += int(clicked.sum())
                if progress:
                    progress(len(numbers) + start, rows)
        summary = Summary(
            format_version=FORMAT_VERSION,
            train_files=names[:-1],
            test_files=names[-1:],
            train_rows=train_rows,
            test_rows=rows - train_rows,
            seed=seed,
            cardinalities=sizes,
            click_share=clicks / rows,
            best_auc_train=train.auc(),
            best_auc_test=test.auc(),
        )
        for name in names:
            add_metadata(os.path.join(beside, name), _metadata(summary))
        with open(os.path.join(beside, SUMMARY), "w", encoding="utf-8") as file:
            json.dump(asdict(summary), file, indent=2)
            file.write("\n")
        _take_place(beside, out_dir)
    except BaseException:
        shutil.rmtree(beside, ignore_errors=True)
        raise
    return summary


class _LogFiles:
    """Rows in order over several ORC files; file k ends with row `ends[k]`."""

    def __init__(self, paths: list[str], ends: list[int], schema: pa.Schema):
        self.schema = schema
        self._files = list(zip(paths, ends))
        self._rows = 0
        self._writer: OrcWriter | None = None

    def write(self, batch: pa.RecordBatch) -> None:
        while batch.num_rows:
            path, end = self._files[0]
            if self._writer is None:
                self._writer = OrcWriter(path, self.schema)
            take = min(batch.num_rows, end - self._rows)
            self._writer.write(batch.slice(0, take))
            self._rows += take
            batch = batch.slice(take)
            if self._rows == end:
                self._writer.close()
                self._writer = None
                self._files.pop(0)

    def __enter__(self) -> _LogFiles:
        return self

    def __exit__(self, *error: object) -> None:
        if self._writer is not None:
            self._writer.discard()


def _schema(columns: Iterable[str], with_logit: bool) -> pa.Schema:
    fields = [(name, pa.int64()) for name in columns]
    fields += [(name, pa.list_(pa.int64())) for name in ("history", "history_categories")]
    fields += [(name, pa.float32()) for name in DENSE_EFFECTS]
    fields += [("timestamp", pa.int64()), ("label", pa.int64())]
    if with_logit:
        fields.append(("planted_logit", pa.float64()))
    return pa.schema(fields)


def _batch(part: Rows, labels: np.ndarray, schema: pa.Schema) -> pa.RecordBatch:
    splits = pa.array(part.splits)
    columns = {
        **part.ids,
        **part.dense,
        "history": pa.ListArray.from_arrays(splits, pa.array(part.history)),
        "history_categories": pa.ListArray.from_arrays(splits, pa.array(part.history_categories)),
        "timestamp": part.timestamps,
        "label": labels,
        "planted_logit": part.logits,
    }
    arrays = [pa.array(columns[name], type=field.type) for name, field in zip(schema.names, schema)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _metadata(summary: Summary) -> dict[str, str]:
    return {
        "ps_cluster.synth.format_version": str(summary.format_version),
        "ps_cluster.synth.seed": str(summary.seed),
        "ps_cluster.synth.best_auc_train": str(summary.best_auc_train),
        "ps_cluster.synth.best_auc_test": str(summary.best_auc_test),
    }


def _check(name: str, value: int, least: int) -> None:
    if value < least:
        raise DataError(f"{name}: expected at least {least}, found {value}")


def _check_between(name: str, value: float, low: float, high: float) -> None:
    if not low < value < high:
        raise DataError(f"{name}: expected a number above {low} and below {high}, found {value}")


def _check_folder(out_dir: str, overwrite: bool) -> None:
    if not os.path.lexists(out_dir):
        return
    if not os.path.isdir(out_dir):
        raise DataError(f"{out_dir}: expected a folder or nothing, found a file")
    if not os.listdir(out_dir):
        return
    if not os.path.exists(os.path.join(out_dir, SUMMARY)):
        raise DataError(f"{out_dir}: expected an empty folder, found files that are no synthetic log")
    if not overwrite:
        raise DataError(f"{out_dir}: expected an empty folder, found an earlier log (--overwrite replaces it)")


def _take_place(beside: str, out_dir: str) -> None:
    """Gives the finished folder its name; an earlier log is removed after that."""
    earlier = f"{beside}.earlier"
    if os.path.isdir(out_dir):
        os.rename(out_dir, earlier)
    os.rename(beside, out_dir)
    shutil.rmtree(earlier, ignore_errors=True)
