"""The world of the synthetic click log: who is shown what when, and the logit behind a click.

The logit is a sum that an embedding model can express, and each part can be learnt from the columns:

- an effect of each id column's value. Only the `HEAD` most frequent values of a column have one, so that
  each is seen often enough; of items only those that exist from the start. Everything else about a rare or
  new id follows from its attributes, which are columns too;
- products of 2-wide vectors of two columns (`PAIRS`), again of their most frequent values;
- the product of the item category's vector with the mean vector of the categories the user clicked last;
- linear effects of the dense columns.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from data.counter_random import uniform, zipf

HEAD = 100
WIDTH = 2
PAIRS = (("user_1", "category"), ("context_1", "category"), ("user_1", "item_1"))
DENSE_EFFECTS = {"price": 0.5, "item_age": -0.8, "activity": 0.5}
FIXED = ("user_id", "item_id", "category", "hour")
LEAST_FEATURES = len(FIXED) + 3

# The planted logit is a multiple of 1 / LOGIT_STEPS within +-LOGIT_LIMIT, so counts per value give its AUC.
LOGIT_STEPS = 4096
LOGIT_LIMIT = 8

_CARDINALITIES = {
    "user": (8, 50, 400, 1500),
    "item": (20, 100, 1000, 3000),
    "context": (5, 30, 200, 1000),
}
# Shares of the logit's spread before it is scaled.
_OWN, _PAIR, _HISTORY = 0.8, 0.4, 0.8
_CANDIDATES = 8
_START_MS = 1_704_067_200_000  # 2024-01-01T00:00Z, a Monday
_DAY_MS = 86_400_000


def id_columns(features: int) -> list[str]:
    """Names of the id columns: the four fixed ones, then user_1, item_1, context_1, user_2, ..."""
    kinds = ("user", "item", "context")
    more = [f"{kinds[k % 3]}_{k // 3 + 1}" for k in range(features - len(FIXED))]
    return [*FIXED, *more]


def default_cardinalities(features: int, rows: int) -> dict[str, int]:
    """Number of values of each id column for a log of `rows` rows."""
    result = {
        "user_id": min(max(rows // 100, 1000), 1_000_000),
        "item_id": min(max(rows // 200, 1000), 1_000_000),
        "category": 50,
        "hour": 24,
    }
    for name in id_columns(features)[len(FIXED) :]:
        kind, number = name.split("_")
        choices = _CARDINALITIES[kind]
        result[name] = choices[(int(number) - 1) % len(choices)]
    return result


@dataclass(frozen=True)
class Rows:
    """Some consecutive rows of the log, without their labels."""

    ids: dict[str, np.ndarray]  # int64 [rows] each
    dense: dict[str, np.ndarray]  # float32 [rows] each
    history: np.ndarray  # int64 [values], items
    history_categories: np.ndarray  # int64 [values]
    splits: np.ndarray  # int32 [rows + 1]: a row's history is values[splits[n] : splits[n + 1]]
    timestamps: np.ndarray  # int64 [rows], milliseconds
    logits: np.ndarray  # float64 [rows]


class Users:
    """What has landed of each user's clicks: the last `length` items, oldest first, in bounded memory."""

    def __init__(self, count: int, length: int):
        self._ring = np.zeros((count + 1, length), np.int32)
        self._clicks = np.zeros(count + 1, np.int64)
        self._length = length

    def clicks(self, users: np.ndarray) -> np.ndarray:
        return self._clicks[users]

    def history(self, users: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(values, splits) of the users' items, oldest first."""
        clicks = self._clicks[users][:, None]
        lengths = np.minimum(clicks, self._length)
        columns = np.arange(self._length)[None, :]
        places = (clicks - lengths + columns) % self._length
        values = self._ring[users[:, None], places][columns < lengths]
        splits = np.zeros(len(users) + 1, np.int32)
        np.cumsum(lengths[:, 0], out=splits[1:])
        return values.astype(np.int64), splits

    def land(self, users: np.ndarray, items: np.ndarray) -> None:
        """Adds clicks, in their order."""
        order = np.argsort(users, kind="stable")
        users, items = users[order], items[order]
        _, first, inverse, counts = np.unique(users, return_index=True, return_inverse=True, return_counts=True)
        number = np.arange(len(users)) - first[inverse]
        kept = counts[inverse] - number <= self._length
        places = (self._clicks[users] + number) % self._length
        self._ring[users[kept], places[kept]] = items[kept]
        np.add.at(self._clicks, users, 1)


class World:
    """All of the log that follows from its seed; `rows(...)` is a pure function of it and of `users`.

    Args:
        rows: rows of the whole log, `days` long.
        cardinalities: number of values by id column; the order is that of the columns.
        request_rows: rows of one request: same user, context and time, other items.
        zipf_exponent: of users and items.
        click_share, spread: share of clicks and standard deviation of the logit that are aimed at.
    """

    def __init__(
        self,
        rows: int,
        seed: int,
        cardinalities: Mapping[str, int],
        request_rows: int,
        zipf_exponent: float,
        days: float,
        click_share: float,
        spread: float,
    ):
        self._row_count = rows
        self._seed = seed
        self._cardinalities = dict(cardinalities)
        self._request_rows = request_rows
        self._zipf = zipf_exponent
        self._days = days
        self._own = {name: self._table(f"own {name}", name, 1)[:, 0] for name in cardinalities}
        self._pairs = [
            (a, self._table(f"{a} by {b}", a, WIDTH), b, self._table(f"{b} by {a}", b, WIDTH)) for a, b in PAIRS
        ]
        self._clicked = self._table("clicked category", "category", WIDTH)
        self._shown = self._table("shown category", "category", WIDTH)
        self._scale, self._bias = 1.0, 0.0
        self._scale, self._bias = self._calibrate(click_share, spread)

    def rows(self, numbers: np.ndarray, users: Users) -> Rows:
        """The rows with these numbers, given what has landed of the users' clicks."""
        first = numbers // self._request_rows * self._request_rows
        return self._rows(numbers, first / self._row_count, users)

    def labels(self, numbers: np.ndarray, logits: np.ndarray) -> np.ndarray:
        """int64 `[rows]`: 1 with the probability sigmoid(logit)."""
        return (uniform(self._seed, "label", numbers) < 1 / (1 + np.exp(-logits))).astype(np.int64)

    def born(self, items: np.ndarray) -> np.ndarray:
        """When each item enters, as a share of the log's time: half of them at 0, the others evenly to 1."""
        born = 2 * uniform(self._seed, "item born", items) - 1
        return np.where(items == 1, 0.0, np.maximum(born, 0.0))

    def category(self, items: np.ndarray) -> np.ndarray:
        return self._attribute("category", items)

    def _rows(self, numbers: np.ndarray, when: np.ndarray, users: Users) -> Rows:
        requests = numbers // self._request_rows
        user = zipf(uniform(self._seed, "user", requests), self._cardinalities["user_id"], self._zipf)
        item = self._items(numbers, when)
        timestamps = _START_MS + (when * self._days * _DAY_MS).astype(np.int64)
        ids = {
            "user_id": user,
            "item_id": item,
            "category": self.category(item),
            "hour": timestamps // 3_600_000 % 24 + 1,
        }
        whose = {"user": user, "item": item, "context": requests}
        for name in self._cardinalities:
            if name not in ids:
                ids[name] = self._attribute(name, whose[name.split("_")[0]])
        dense = {
            "price": 2 * uniform(self._seed, "price", item) - 1,
            "item_age": when - self.born(item),
            "activity": np.log1p(users.clicks(user)) / 8,
        }
        history, splits = users.history(user)
        history_categories = self.category(history)
        return Rows(
            ids=ids,
            dense={name: values.astype(np.float32) for name, values in dense.items()},
            history=history,
            history_categories=history_categories,
            splits=splits,
            timestamps=timestamps,
            logits=self._logits(ids, dense, history_categories, splits),
        )

    def _items(self, numbers: np.ndarray, when: np.ndarray) -> np.ndarray:
        """The first of a few Zipf draws that exists by then, else item 1, which always does."""
        items = np.ones(len(numbers), np.int64)
        open_rows = np.arange(len(numbers))
        for candidate in range(_CANDIDATES):
            draws = uniform(self._seed, f"item {candidate}", numbers[open_rows])
            drawn = zipf(draws, self._cardinalities["item_id"], self._zipf)
            exists = self.born(drawn) <= when[open_rows]
            items[open_rows[exists]] = drawn[exists]
            open_rows = open_rows[~exists]
        return items

    def _attribute(self, name: str, owners: np.ndarray) -> np.ndarray:
        """The value of an attribute: fixed for its owner, low values more frequent."""
        return zipf(uniform(self._seed, name, owners), self._cardinalities[name], 0.7)

    def _table(self, stream: str, column: str, width: int) -> np.ndarray:
        """Normal numbers `[HEAD + 2, width]`, by value; row 0 and the row of values above HEAD are zeros."""
        generator = np.random.default_rng([self._seed, zlib.crc32(stream.encode())])
        table = np.zeros((HEAD + 2, width))
        table[1:-1] = generator.normal(size=(HEAD, width))
        if column == "item_id":
            table[1:-1][self.born(np.arange(1, HEAD + 1)) > 0] = 0
        return table

    def _logits(
        self,
        ids: Mapping[str, np.ndarray],
        dense: Mapping[str, np.ndarray],
        history_categories: np.ndarray,
        splits: np.ndarray,
    ) -> np.ndarray:
        places = {name: np.minimum(values, HEAD + 1) for name, values in ids.items()}
        own = sum(self._own[name][place] for name, place in places.items())
        total = _OWN / np.sqrt(len(ids) / 2) * own
        for a, a_table, b, b_table in self._pairs:
            product = np.einsum("nw,nw->n", a_table[places[a]], b_table[places[b]])
            total += _PAIR / np.sqrt(WIDTH * len(PAIRS) / 2) * product
        sums = np.zeros((len(history_categories) + 1, WIDTH))
        np.cumsum(self._clicked[np.minimum(history_categories, HEAD + 1)], axis=0, out=sums[1:])
        lengths = np.diff(splits)[:, None]
        means = (sums[splits[1:]] - sums[splits[:-1]]) / np.maximum(lengths, 1)
        total += _HISTORY / np.sqrt(WIDTH) * np.einsum("nw,nw->n", means, self._shown[places["category"]])
        for name, effect in DENSE_EFFECTS.items():
            total += effect * dense[name]
        logits = np.clip(total * self._scale + self._bias, -LOGIT_LIMIT, LOGIT_LIMIT)
        return np.rint(logits * LOGIT_STEPS) / LOGIT_STEPS

    def _calibrate(self, click_share: float, spread: float) -> tuple[float, float]:
        """Scale and bias that give the aimed spread and click share on rows beyond the end of the log."""
        count = 1 << 15
        numbers = self._row_count // self._request_rows * self._request_rows + np.arange(count)
        nobody = Users(self._cardinalities["user_id"], 1)
        logits = self._rows(numbers, np.arange(count) / count, nobody).logits
        scale = spread / logits.std()
        low, high = -20.0, 20.0
        for _ in range(40):
            middle = (low + high) / 2
            share = (1 / (1 + np.exp(-(logits * scale + middle)))).mean()
            low, high = (middle, high) if share < click_share else (low, middle)
        return float(scale), (low + high) / 2
