"""What is known of a user and a film before a rating: running statistics of strictly earlier events.

`Past.look` reads the state, `Past.add` moves it on. Nothing is fitted: every number is a sum over earlier
events with fixed shrinkage constants, scaled by fixed constants to about [-1, 1].

A *residual* is a rating minus what was expected of it at its time: overall mean + bias of the user + bias
of the film, all from earlier ratings.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

# Every dense feature with its meaning; means are shrunk towards 0 by the stated number of imagined ratings.
DENSE = {
    "user_bias": "user's mean of (rating - overall mean - film's bias); shrunk by 3",
    "item_bias": "film's mean of (rating - overall mean - user's bias); shrunk by 5",
    "expected": "overall mean + user_bias + item_bias - 3.5",
    "user_like_rate": "user's share of ratings >= 4, minus 0.55; shrunk by 5",
    "item_like_rate": "film's share of ratings >= 4, minus 0.55; shrunk by 5",
    "user_count": "log(1 + user's ratings) / 6",
    "item_count": "log(1 + film's ratings) / 6",
    "genre_affinity": "user's mean residual in a genre, shrunk by 3, averaged over the film's genres",
    "mood_fast": "user's residuals, exponential mean with weight 0.5",
    "mood_medium": "user's residuals, exponential mean with weight 0.15",
    "mood_slow": "user's residuals, exponential mean with weight 0.05",
    "gender_item": "film's mean residual among users of the user's gender; shrunk by 10",
    "age_item": "film's mean residual among users of the user's age decade; shrunk by 10",
    "age_affinity": "how the user's residuals go with the age of films, times this film's age",
    "popularity_affinity": "how the user's residuals go with the popularity of films, times this film's",
    "taste_match": "agreement of the film's residuals with those of the films the user rated, over all users",
    "film_age": "(1990 - release year) / 30, in [-0.5, 1.5]; 0 when the year is unknown",
    "recency": "log(1 + seconds since the user's previous rating) / 16; a user's first: 10^7 seconds",
    "tenure": "log(1 + seconds since the user's first rating) / 16",
}
_AGE_BANDS = 6


@dataclass(frozen=True)
class Rating:
    """One event: `user` and `item` are positions from 0, `stars` 1 to 5, `time` in seconds."""

    user: int
    item: int
    stars: int
    time: int


@dataclass(frozen=True)
class Seen:
    """What `look` found: dense features in the order of `DENSE`; the user's earlier films, oldest first."""

    dense: list[float]
    items: np.ndarray  # int64 [at most `history`]
    stars: np.ndarray  # int64 [same length]
    liked: np.ndarray  # int64 [at most `history`]
    disliked: np.ndarray  # int64 [at most `history`]


class Past:
    """State after some ratings of a log.

    Args:
        genres: `[items, genres]`, 1 where the film has the genre.
        years: `[items]` release years, 0 when unknown.
        genders: `[users]`, 0 or 1.
        ages: `[users]` in years.
        history: most films in each list of `Seen`.
    """

    def __init__(self, genres: np.ndarray, years: np.ndarray, genders: np.ndarray, ages: np.ndarray, history: int):
        users, (items, genre_count) = len(ages), genres.shape
        self._genres = [np.flatnonzero(row) for row in genres]
        self._film_age = np.where(years > 0, np.clip((1990 - years) / 30, -0.5, 1.5), 0.0)
        self._genders = genders
        self._bands = np.clip((ages - 10) // 10, 0, _AGE_BANDS - 1)
        self._history = history
        self._stars_sum = 0.0
        self._count = 0
        self._user_count = np.zeros(users)
        self._user_likes = np.zeros(users)
        self._user_deviation = np.zeros(users)
        self._item_count = np.zeros(items)
        self._item_likes = np.zeros(items)
        self._item_deviation = np.zeros(items)
        self._genre_sum = np.zeros((users, genre_count))
        self._genre_count = np.zeros((users, genre_count))
        self._mood = np.zeros((users, 3))
        self._gender_item = np.zeros((2, items, 2))  # sum and count of residuals
        self._band_item = np.zeros((_AGE_BANDS, items, 2))
        self._age_product = np.zeros(users)
        self._popularity_product = np.zeros(users)
        self._first_time: dict[int, int] = {}
        self._last_time: dict[int, int] = {}
        self._pair_products = np.zeros((items, items), np.float32)
        self._pair_counts = np.zeros((items, items), np.float32)
        self._trails = [_Trail() for _ in range(users)]

    def look(self, user: int, item: int, time: int) -> Seen:
        """What is known when `user` is about to rate `item`."""
        mean, user_bias, item_bias = self._biases(user, item)
        count = self._user_count[user]
        popularity = self._popularity(item)
        genres = self._genres[item]
        affinity = self._genre_sum[user, genres] / (self._genre_count[user, genres] + 3)
        gender_sum, gender_count = self._gender_item[self._genders[user], item]
        band_sum, band_count = self._band_item[self._bands[user], item]
        since_last = time - self._last_time[user] if user in self._last_time else 10_000_000
        since_first = time - self._first_time.get(user, time)
        dense = [
            user_bias,
            item_bias,
            mean + user_bias + item_bias - 3.5,
            (self._user_likes[user] + 5 * 0.55) / (count + 5) - 0.55,
            (self._item_likes[item] + 5 * 0.55) / (self._item_count[item] + 5) - 0.55,
            math.log1p(count) / 6,
            math.log1p(self._item_count[item]) / 6,
            float(affinity.mean()) if len(genres) else 0.0,
            *self._mood[user],
            gender_sum / (gender_count + 10),
            band_sum / (band_count + 10),
            5 * self._film_age[item] * self._age_product[user] / (count + 5),
            10 * popularity * self._popularity_product[user] / (count + 5),
            self._taste_match(user, item),
            self._film_age[item],
            math.log1p(since_last) / 16,
            math.log1p(since_first) / 16,
        ]
        trail = self._trails[user]
        likes = trail.stars >= 4
        return Seen(
            dense=dense,
            items=trail.items[-self._history :].copy(),
            stars=trail.stars[-self._history :].copy(),
            liked=trail.items[likes][-self._history :],
            disliked=trail.items[~likes][-self._history :],
        )

    def add(self, ratings: list[Rating]) -> None:
        """Moves on by ratings of one moment, none of which takes part in what is expected of the others."""
        expected = [self._biases(rating.user, rating.item) for rating in ratings]
        popularity = [self._popularity(rating.item) for rating in ratings]
        for rating, (mean, user_bias, item_bias), popular in zip(ratings, expected, popularity):
            user, item = rating.user, rating.item
            deviation = rating.stars - mean
            residual = deviation - user_bias - item_bias
            self._add_pairs(user, item, residual)
            self._trails[user].append(item, rating.stars, residual)
            self._stars_sum += rating.stars
            self._count += 1
            self._user_count[user] += 1
            self._user_likes[user] += rating.stars >= 4
            self._user_deviation[user] += deviation - item_bias
            self._item_count[item] += 1
            self._item_likes[item] += rating.stars >= 4
            self._item_deviation[item] += deviation - user_bias
            self._genre_sum[user, self._genres[item]] += residual
            self._genre_count[user, self._genres[item]] += 1
            self._mood[user] += np.array([0.5, 0.15, 0.05]) * (residual - self._mood[user])
            self._gender_item[self._genders[user], item] += (residual, 1)
            self._band_item[self._bands[user], item] += (residual, 1)
            self._age_product[user] += residual * self._film_age[item]
            self._popularity_product[user] += residual * popular
            self._first_time.setdefault(user, rating.time)
            self._last_time[user] = rating.time

    def _biases(self, user: int, item: int) -> tuple[float, float, float]:
        """Overall mean rating, bias of the user, bias of the film."""
        mean = (self._stars_sum + 10 * 3.5) / (self._count + 10)
        user_bias = self._user_deviation[user] / (self._user_count[user] + 3)
        item_bias = self._item_deviation[item] / (self._item_count[item] + 5)
        return mean, float(user_bias), float(item_bias)

    def _popularity(self, item: int) -> float:
        return math.log1p(self._item_count[item]) / 6 - 0.5

    def _taste_match(self, user: int, item: int) -> float:
        """Sum over the user's films of (mean product of the two films' residuals over users) x residual.

        The mean product is shrunk by 100 imagined users, the sum divided by the root of its length + 5.
        """
        trail = self._trails[user]
        items = trail.items
        products = self._pair_products[item, items] / (self._pair_counts[item, items] + 100)
        return 3 * float(products @ trail.residuals) / math.sqrt(len(items) + 5)

    def _add_pairs(self, user: int, item: int, residual: float) -> None:
        trail = self._trails[user]
        items = trail.items
        products = (residual * trail.residuals).astype(np.float32)
        self._pair_products[item, items] += products
        self._pair_products[items, item] += products
        self._pair_counts[item, items] += 1
        self._pair_counts[items, item] += 1


class _Trail:
    """A user's ratings so far, in arrays that grow by doubling."""

    def __init__(self) -> None:
        self._length = 0
        self._items = np.empty(16, np.int64)
        self._stars = np.empty(16, np.int64)
        self._residuals = np.empty(16)

    def append(self, item: int, stars: int, residual: float) -> None:
        if self._length == len(self._items):
            self._items = np.concatenate([self._items, self._items])
            self._stars = np.concatenate([self._stars, self._stars])
            self._residuals = np.concatenate([self._residuals, self._residuals])
        self._items[self._length] = item
        self._stars[self._length] = stars
        self._residuals[self._length] = residual
        self._length += 1

    @property
    def items(self) -> np.ndarray:
        return self._items[: self._length]

    @property
    def stars(self) -> np.ndarray:
        return self._stars[: self._length]

    @property
    def residuals(self) -> np.ndarray:
        return self._residuals[: self._length]
