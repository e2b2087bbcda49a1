"""The synthetic click log against brute force on small logs."""

from __future__ import annotations

import json
import os
from collections import defaultdict

import numpy as np
import pyarrow as pa
import pyorc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import orc

from data.counter_random import uniform, zipf
from data.errors import DataError
from data.examples.planted import LOGIT_LIMIT, LOGIT_STEPS, Users, id_columns
from data.examples.synth import LogitCounts, generate

SMALL = {
    "rows": 6000,
    "seed": 5,
    "landing_rows": 256,
    "history": 5,
    "with_logit": True,
    "cardinalities": {"user_id": 60, "item_id": 300},
}


def read(folder, pattern: str = "t") -> pa.Table:
    names = sorted(name for name in os.listdir(folder) if name.startswith(pattern) and name.endswith(".orc"))
    ordered = sorted(names, key=lambda name: (name.startswith("test"), name))
    return pa.concat_tables([orc.ORCFile(os.path.join(folder, name)).read() for name in ordered])


def pairwise_auc(scores: np.ndarray, labels: np.ndarray) -> float:
    positive, negative = scores[labels == 1], scores[labels == 0]
    difference = positive[:, None] - negative[None, :]
    return float(((difference > 0) + 0.5 * (difference == 0)).mean())


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("synth") / "log")
    return folder, generate(folder, **SMALL)


def test_best_auc_equals_that_of_the_planted_logit_over_all_pairs(small):
    folder, summary = small
    for part, reported in (("train", summary.best_auc_train), ("test", summary.best_auc_test)):
        table = read(folder, part)
        found = pairwise_auc(table["planted_logit"].to_numpy(), table["label"].to_numpy())
        assert reported == pytest.approx(found, abs=1e-12)


@settings(max_examples=50, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(-LOGIT_LIMIT * LOGIT_STEPS, LOGIT_LIMIT * LOGIT_STEPS), st.booleans()),
        max_size=60,
    )
)
def test_auc_from_counts_is_exact_with_ties_and_single_classes(pairs):
    logits = np.array([number / LOGIT_STEPS for number, _ in pairs])
    labels = np.array([int(label) for _, label in pairs], int)
    counts = LogitCounts()
    counts.add(logits[: len(pairs) // 2], labels[: len(pairs) // 2])
    counts.add(logits[len(pairs) // 2 :], labels[len(pairs) // 2 :])
    if len(set(labels.tolist())) < 2:
        assert counts.auc() is None
    else:
        assert counts.auc() == pytest.approx(pairwise_auc(logits, labels), abs=1e-12)


def test_labels_follow_the_planted_probability(small):
    table = read(small[0])
    logits, labels = table["planted_logit"].to_numpy(), table["label"].to_numpy()
    probability = 1 / (1 + np.exp(-logits))
    for low, high in ((0, 0.1), (0.1, 0.3), (0.3, 0.6), (0.6, 1)):
        chosen = (probability >= low) & (probability < high)
        error = np.sqrt((probability[chosen] * (1 - probability[chosen])).sum())
        assert abs(labels[chosen].sum() - probability[chosen].sum()) < 4 * error


def test_same_seed_gives_the_same_bytes_and_another_seed_does_not(tmp_path, small):
    folder, summary = small
    again = str(tmp_path / "again")
    assert generate(again, **SMALL) == summary
    assert sorted(os.listdir(again)) == sorted(os.listdir(folder))
    for name in os.listdir(folder):
        with open(os.path.join(folder, name), "rb") as one, open(os.path.join(again, name), "rb") as two:
            assert one.read() == two.read()
    generate(str(tmp_path / "other"), **{**SMALL, "seed": 6})
    assert not read(str(tmp_path / "other")).equals(read(folder))


@pytest.mark.parametrize("files", [1, 7])
def test_the_rows_do_not_depend_on_the_number_of_files(tmp_path, small, files):
    folder, _ = small
    summary = generate(str(tmp_path / "log"), **SMALL, files=files)
    assert len(summary.train_files) == files
    assert read(str(tmp_path / "log")).equals(read(folder))


def test_histories_are_the_users_earlier_landed_clicks_oldest_first(small):
    rows = read(small[0]).to_pylist()
    landing, length = SMALL["landing_rows"], SMALL["history"]
    category = {row["item_id"]: row["category"] for row in rows}
    landed: dict[int, list[int]] = defaultdict(list)
    waiting: list[tuple[int, int]] = []
    longest = 0
    for number, row in enumerate(rows):
        if number % landing == 0:
            for user, item in waiting:
                landed[user].append(item)
            waiting = []
        assert row["history"] == landed[row["user_id"]][-length:]
        assert row["history_categories"] == [category[item] for item in row["history"]]
        assert row["activity"] == pytest.approx(np.log1p(len(landed[row["user_id"]])) / 8)
        longest = max(longest, len(row["history"]))
        if row["label"]:
            waiting.append((row["user_id"], row["item_id"]))
    assert longest == length


def test_context_repeats_attributes_stay_and_time_never_goes_back(small):
    rows = read(small[0]).to_pylist()
    attributes: dict[tuple[str, int], tuple] = {}
    for number, row in enumerate(rows):
        request = rows[number // 4 * 4]
        for name, value in row.items():
            if name.startswith(("user_", "context_")) or name in ("timestamp", "hour", "history"):
                assert value == request[name]
        for owner, prefix in (("user_id", "user_"), ("item_id", "item_")):
            mine = tuple(value for name, value in row.items() if name.startswith(prefix) and name != "item_age")
            assert attributes.setdefault((owner, row[owner]), mine) == mine
        assert row["hour"] == row["timestamp"] // 3_600_000 % 24 + 1
    times = [row["timestamp"] for row in rows]
    assert times == sorted(times)
    assert times[-1] - times[0] > 13.9 * 86_400_000


def test_new_items_keep_entering_and_none_is_shown_before_it_exists(small):
    table = read(small[0])
    items, ages = table["item_id"].to_numpy(), table["item_age"].to_numpy()
    _, first = np.unique(items, return_index=True)
    young = [number for number in first if ages[number] < 0.1 and number > 600]
    assert {number // 600 for number in young} == set(range(1, 10))
    assert ages.min() >= 0


def test_ids_start_at_one_and_stay_within_their_cardinality(small):
    folder, summary = small
    table = read(folder)
    for name, size in summary.cardinalities.items():
        values = table[name].to_numpy()
        assert values.min() >= 1
        assert values.max() <= size


def test_zipf_frequencies_fall_as_the_power_of_the_rank():
    ranks = zipf(uniform(1, "x", np.arange(400_000)), 100_000, 1.1)
    counts = np.bincount(ranks, minlength=100_001)
    expected = np.arange(1, 101) ** -1.1
    # From rank 10 on the whole part of the continuous variable is as good as the discrete law.
    ratio = counts[10:101] / expected[9:]
    slope = np.polyfit(np.log(np.arange(10, 101)), np.log(ratio), 1)[0]
    assert abs(slope) < 0.05
    assert counts[1] > 10 * counts[20]


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**31), st.text(max_size=8), st.integers(0, 2**40))
def test_random_numbers_depend_on_their_own_counter_only(seed, stream, start):
    whole = uniform(seed, stream, np.arange(start, start + 50))
    parts = [uniform(seed, stream, np.array([start + k])) for k in range(50)]
    assert whole.tolist() == np.concatenate(parts).tolist()
    assert ((whole >= 0) & (whole < 1)).all()
    assert len(set(whole.tolist())) == 50


def test_random_numbers_are_even_and_their_streams_unrelated():
    numbers = np.arange(200_000)
    a, b = uniform(3, "a", numbers), uniform(3, "b", numbers)
    assert np.abs(np.histogram(a, 20, (0, 1))[0] / 10_000 - 1).max() < 0.05
    for x, y in ((a, b), (a[1:], a[:-1]), (a, uniform(4, "a", numbers))):
        assert abs(np.corrcoef(x, y)[0, 1]) < 0.01


@settings(max_examples=50, deadline=None)
@given(st.lists(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 99)), max_size=12), max_size=6))
def test_landed_clicks_equal_a_list_per_user(windows):
    users = Users(3, 4)
    expected: dict[int, list[int]] = {1: [], 2: [], 3: []}
    for window in windows:
        users.land(np.array([u for u, _ in window], int), np.array([i for _, i in window], int))
        for user, item in window:
            expected[user].append(item)
    values, splits = users.history(np.array([2, 1, 3, 1]))
    found = [values[splits[k] : splits[k + 1]].tolist() for k in range(4)]
    assert found == [expected[user][-4:] for user in (2, 1, 3, 1)]
    assert users.clicks(np.array([1, 2, 3])).tolist() == [len(expected[user]) for user in (1, 2, 3)]


@pytest.mark.parametrize("features", [7, 9, 26])
def test_any_number_of_id_columns_gives_a_best_auc_in_the_usual_range(tmp_path, features):
    summary = generate(str(tmp_path / "log"), rows=20_000, features=features)
    assert list(summary.cardinalities) == id_columns(features)
    assert 0.75 < summary.best_auc_train < 0.85
    assert 0.15 < summary.click_share < 0.3


def test_summary_file_and_orc_metadata_carry_the_best_auc(small):
    folder, summary = small
    with open(os.path.join(folder, "summary.json")) as file:
        written = json.load(file)
    assert written["best_auc_test"] == summary.best_auc_test
    assert (written["train_rows"], written["test_rows"]) == (5400, 600)
    for name in summary.train_files + summary.test_files:
        with open(os.path.join(folder, name), "rb") as file:
            metadata = pyorc.Reader(file).user_metadata
        assert float(metadata["ps_cluster.synth.best_auc_test"]) == summary.best_auc_test


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"features": 6}, "features: expected at least 7, found 6"),
        ({"rows": 10}, "rows: expected at least 320, found 10"),
        ({"cardinalities": {"colour": 5}}, "cardinalities: expected names among user_id, .*; found colour"),
        ({"cardinalities": {"item_id": 0}}, "cardinalities: item_id: expected at least 2, found 0"),
        ({"click_share": 1.5}, "click_share: expected a number above 0 and below 1, found 1.5"),
        ({"zipf_exponent": 1.0}, "zipf_exponent: expected another number than 1"),
    ],
)
def test_a_wrong_argument_is_named_and_nothing_is_written(tmp_path, change, message):
    with pytest.raises(DataError, match=message):
        generate(str(tmp_path / "log"), **{**SMALL, **change})
    assert os.listdir(tmp_path) == []


def test_a_folder_in_use_is_kept(tmp_path, small):
    folder, _ = small
    with pytest.raises(DataError, match="found an earlier log"):
        generate(folder, **SMALL)
    (tmp_path / "mine.txt").write_text("keep")
    with pytest.raises(DataError, match="found files that are no synthetic log"):
        generate(str(tmp_path), **SMALL, overwrite=True)
    assert os.listdir(tmp_path) == ["mine.txt"]


def test_overwriting_replaces_the_whole_log(tmp_path):
    folder = str(tmp_path / "log")
    generate(folder, **SMALL, files=6)
    generate(folder, **SMALL, files=2, overwrite=True)
    assert sorted(os.listdir(folder)) == [
        "summary.json",
        "test-00000.orc",
        "train-00000.orc",
        "train-00001.orc",
    ]
    assert os.listdir(tmp_path) == ["log"]


def test_an_interrupted_run_leaves_nothing(tmp_path):
    def interrupt(done: int, total: int) -> None:
        if done > total // 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        generate(str(tmp_path / "log"), **SMALL, progress=interrupt)
    assert os.listdir(tmp_path) == []
