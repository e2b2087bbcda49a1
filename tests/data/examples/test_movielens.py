"""MovieLens samples against brute force on small logs with many equal times."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyorc
import pytest
from pyarrow import orc

from data.errors import DataError
from data.examples.movielens import GENRES, HISTORY, OCCUPATIONS, SCHEMA, FetchError, fetch_wheel, prepare
from data.examples.past import DENSE, Past, Rating

USERS, ITEMS = 9, 25
HEADS = {
    "inter": "user_id:token\titem_id:token\trating:float\ttimestamp:float",
    "item": "item_id:token\tmovie_title:token_seq\trelease_year:token\tclass:token_seq",
    "user": "user_id:token\tage:token\tgender:token\toccupation:token\tzip_code:token",
}


def make_events(seed: int, count: int = 200) -> list[tuple[int, int, int, int]]:
    """Distinct (user, item) pairs as (user, item, rating, time); several events share a time."""
    rng = np.random.default_rng(seed)
    pairs = rng.permutation(USERS * ITEMS)[:count]
    times = 875_000_000 + rng.integers(0, count // 3, count) * 4000
    return [
        (int(pair) // ITEMS + 1, int(pair) % ITEMS + 1, int(rng.integers(1, 6)), int(time))
        for pair, time in zip(pairs, times)
    ]


def write_source(folder, events) -> str:
    rng = np.random.default_rng(99)
    items = [
        f"{k}\tFilm {k}\t{1950 + 2 * k if k > 1 else 'unkonwn'}\t"
        + " ".join(rng.choice(GENRES, rng.integers(1, 4), replace=False))
        for k in range(1, ITEMS + 1)
    ]
    users = [f"{k}\t{15 + 6 * k}\t{'MF'[k % 2]}\t{OCCUPATIONS[k]}\t{k}5711" for k in range(1, USERS + 1)]
    lines = [f"{user}\t{item}\t{stars}\t{time}" for user, item, stars, time in events]
    os.makedirs(folder, exist_ok=True)
    for kind, rows in (("inter", lines), ("item", items), ("user", users)):
        with open(os.path.join(folder, f"ml-100k.{kind}"), "w") as file:
            file.write("\n".join([HEADS[kind], *rows]) + "\n")
    return str(folder)


def rows_of(folder, events, split="user") -> dict[tuple[int, int], dict]:
    """All rows, train and test, by (user, item)."""
    summary = prepare(write_source(folder / "source", events), str(folder / "out"), split)
    tables = [orc.ORCFile(path).read() for path in (summary.train_path, summary.test_path)]
    rows = pa.concat_tables(tables).to_pylist()
    assert len(rows) == len(events)
    return {(row["user_id"], row["item_id"]): row for row in rows}


def features(row: dict) -> dict:
    return {name: value for name, value in row.items() if name not in ("rating", "label")}


@pytest.mark.parametrize("seed", [1, 2])
def test_no_feature_changes_when_ratings_of_the_same_time_or_later_change(tmp_path, seed):
    events = make_events(seed)
    rows = rows_of(tmp_path / "as it was", events)
    times = sorted({event[3] for event in events})
    for cut in times[:: len(times) // 6]:
        altered = [(u, i, 6 - s if t >= cut else s, t) for u, i, s, t in events]
        others = rows_of(tmp_path / f"altered {cut}", altered)
        for user, item, _, time in events:
            if time <= cut:
                assert features(rows[user, item]) == features(others[user, item])


@pytest.mark.parametrize("seed", [3, 4])
def test_every_row_is_the_same_when_nothing_but_earlier_events_and_itself_exists(tmp_path, seed):
    events = make_events(seed, 120)
    rows = rows_of(tmp_path / "all", events)
    for number in range(0, len(events), 7):
        user, item, _, time = events[number]
        known = [event for event in events if event[3] < time] + [events[number]]
        alone = rows_of(tmp_path / str(number), known)
        assert alone[user, item] == rows[user, item]


def test_some_feature_does_change_with_an_earlier_rating(tmp_path):
    events = sorted(make_events(5), key=lambda event: event[3])
    rows = rows_of(tmp_path / "a", events)
    user, item, stars, time = events[0]
    others = rows_of(tmp_path / "b", [(user, item, 6 - stars if stars != 3 else 5, time), *events[1:]])
    changed = {name for key in rows for name in DENSE if key != (user, item) and rows[key][name] != others[key][name]}
    fixed = {"user_count", "item_count", "film_age", "recency", "tenure"}
    assert changed == set(DENSE) - fixed


def test_plain_statistics_and_histories_equal_brute_force(tmp_path):
    events = make_events(6, 220)
    rows = rows_of(tmp_path, events, split="time")
    for user, item, stars, time in events:
        row = rows[user, item]
        mine = sorted((t, i, s) for u, i, s, t in events if u == user and t < time)
        theirs = [s for u, i, s, t in events if i == item and t < time]
        likes = [s >= 4 for _, _, s in mine]
        assert row["history"] == [i for _, i, _ in mine][-HISTORY:]
        assert row["history_ratings"] == [s for _, _, s in mine][-HISTORY:]
        assert row["liked"] == [i for _, i, s in mine if s >= 4][-HISTORY:]
        assert row["disliked"] == [i for _, i, s in mine if s < 4][-HISTORY:]
        expected = {
            "user_count": np.log1p(len(mine)) / 6,
            "item_count": np.log1p(len(theirs)) / 6,
            "user_like_rate": (sum(likes) + 2.75) / (len(likes) + 5) - 0.55,
            "item_like_rate": (sum(s >= 4 for s in theirs) + 2.75) / (len(theirs) + 5) - 0.55,
            "recency": np.log1p(time - mine[-1][0] if mine else 1e7) / 16,
            "tenure": np.log1p(time - mine[0][0] if mine else 0) / 16,
        }
        assert {name: row[name] for name in expected} == pytest.approx(expected, abs=1e-6)
        assert (row["rating"], row["label"], row["timestamp"]) == (stars, int(stars >= 4), time * 1000)
        assert row["hour"] == time // 3600 % 24 + 1


def test_history_keeps_the_newest_fifty(tmp_path):
    rng = np.random.default_rng(7)
    events = [(1, k + 1, int(rng.integers(1, 6)), 10**9 + k) for k in range(ITEMS)]
    past = Past(np.ones((ITEMS, 2)), np.full(ITEMS, 1990), np.zeros(1, int), np.array([30]), history=10)
    for _, item, stars, time in events:
        past.add([Rating(0, item - 1, stars, time)])
    seen = past.look(0, 0, 2 * 10**9)
    assert seen.items.tolist() == list(range(ITEMS - 10, ITEMS))
    assert seen.stars.tolist() == [stars for _, _, stars, _ in events[-10:]]


def test_user_split_takes_each_users_last_tenth_and_time_split_the_last_of_all(tmp_path):
    events = make_events(8, 220)
    summary = prepare(write_source(tmp_path / "s", events), str(tmp_path / "u"), "user")
    train, test = (orc.ORCFile(p).read().to_pylist() for p in (summary.train_path, summary.test_path))
    for user in range(1, USERS + 1):
        last_train = max((r["timestamp"], r["item_id"]) for r in train if r["user_id"] == user)
        tests = [(r["timestamp"], r["item_id"]) for r in test if r["user_id"] == user]
        assert min(tests) > last_train
        count = sum(event[0] == user for event in events)
        assert len(tests) == int(count * 0.1 + 0.5)
    summary = prepare(write_source(tmp_path / "s", events), str(tmp_path / "t"), "time")
    train, test = (orc.ORCFile(p).read().to_pylist() for p in (summary.train_path, summary.test_path))
    assert len(test) == 22
    assert max(r["timestamp"] for r in train) <= min(r["timestamp"] for r in test)


def test_rows_are_in_order_of_time_and_no_id_is_zero(tmp_path):
    summary = prepare(write_source(tmp_path / "s", make_events(9)), str(tmp_path / "o"))
    table = orc.ORCFile(summary.train_path).read()
    assert table.schema.equals(SCHEMA)
    times = table["timestamp"].to_numpy()
    assert (np.diff(times) >= 0).all()
    for name in ("user_id", "item_id", "gender", "occupation", "zip_prefix", "hour", "weekday"):
        assert table[name].to_numpy().min() >= 1
    for name in ("genres", "history", "history_ratings", "liked", "disliked"):
        values = table[name].combine_chunks().values.to_numpy()
        assert values.min() >= 1
    assert table["weekday"].to_numpy().max() <= 7
    with open(summary.test_path, "rb") as file:
        assert pyorc.Reader(file).user_metadata["split"] == b"user"


def test_same_source_gives_the_same_bytes_and_progress_reaches_the_end(tmp_path):
    source = write_source(tmp_path / "s", make_events(10))
    calls: list[tuple[int, int]] = []
    contents = []
    for name in ("a", "b"):
        summary = prepare(source, str(tmp_path / name), progress=lambda done, total: calls.append((done, total)))
        contents.append([Path(path).read_bytes() for path in (summary.train_path, summary.test_path)])
    assert contents[0] == contents[1]
    assert calls[-1] == (200, 200)


def test_a_wheel_is_read_like_a_folder(tmp_path):
    events = make_events(11)
    source = write_source(tmp_path / "s", events)
    wheel = tmp_path / "x.whl"
    with zipfile.ZipFile(wheel, "w") as file:
        for kind in HEADS:
            file.write(f"{source}/ml-100k.{kind}", f"recbole/dataset_example/ml-100k/ml-100k.{kind}")
    one, two = prepare(source, str(tmp_path / "a")), prepare(str(wheel), str(tmp_path / "b"))
    assert orc.ORCFile(one.train_path).read().equals(orc.ORCFile(two.train_path).read())


@pytest.mark.parametrize(
    ("kind", "line", "text", "message"),
    [
        (
            "inter",
            3,
            "1\t2\tfive\t875000000",
            r"inter:3: column rating:float: expected a whole number from 1 to 5",
        ),
        ("inter", 4, "1\t2\t6\t875000000", r"inter:4: column rating:float: .* found '6'"),
        (
            "inter",
            5,
            "1\t999\t4\t875000000",
            r"inter:5: column item_id:token: expected an id of the item file",
        ),
        ("inter", 5, "1\t2\t4", r"inter:5: expected 4 columns, found 3"),
        (
            "user",
            2,
            "1\t20\tM\tpilot\t12345",
            r"user:2: column occupation:token: expected one of administrator",
        ),
        ("item", 1, "a\tb", r"item:1: expected the columns"),
    ],
)
def test_a_wrong_source_line_is_named(tmp_path, kind, line, text, message):
    source = write_source(tmp_path, make_events(12))
    path = tmp_path / f"ml-100k.{kind}"
    lines = path.read_text().splitlines()
    lines[line - 1] = text
    path.write_text("\n".join(lines))
    with pytest.raises(DataError, match=message):
        prepare(source, str(tmp_path / "out"))


def test_a_source_that_is_none_is_named(tmp_path):
    with pytest.raises(DataError, match=r"none\.whl: expected a file, found none"):
        prepare(str(tmp_path / "none.whl"), str(tmp_path / "out"))
    (tmp_path / "text.whl").write_text("hello")
    with pytest.raises(DataError, match=r"text\.whl: expected a wheel"):
        prepare(str(tmp_path / "text.whl"), str(tmp_path / "out"))
    with zipfile.ZipFile(tmp_path / "other.whl", "w") as file:
        file.writestr("a", "b")
    with pytest.raises(DataError, match=r"other\.whl: expected the member"):
        prepare(str(tmp_path / "other.whl"), str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_a_wheel_with_other_content_is_not_taken_for_the_pinned_one(tmp_path):
    (tmp_path / "recbole-1.2.1-py3-none-any.whl").write_text("hello")
    with pytest.raises(FetchError, match="expected SHA-256"):
        fetch_wheel(str(tmp_path))
