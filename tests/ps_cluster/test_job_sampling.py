"""Sampling in the job file: wrong sections, word for word, and what a right one makes of the data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from data.errors import DataError
from data.format.checksums import add_metadata
from data.sample.popularity import count_ids
from data.sample.sampling import effect
from data.where import parse
from ps_cluster.errors import UserError
from ps_cluster.job.load import load_job
from ps_cluster.job.resolve import columns_of, training_columns_of
from ps_cluster.job.sampling import Resolved, resolve_sampling, sampling_of
from ps_cluster.job.sampling_schema import Sampling
from tests.data import orc_files
from tests.ps_cluster.job_texts import SAMPLED, write

WRONG = [
    ("keep: 0.2", "keep: 0", "rules[0].keep: expected a number above 0 and of at most 1, found 0"),
    ("keep: 0.2", "keep: 20", "rules[0].keep: expected a number above 0 and of at most 1, found 20"),
    ("keep: 0.2", "kep: 0.2", "rules[0].kep: expected one of the fields 'label', 'when', "),
    (
        "- label: 0\n        keep",
        "- label: 2\n        keep",
        "rules[0].label: expected an integer of at least 0 and of",
    ),
    (
        "keep: 0.2",
        "keep: 0.2\n        weight: 2",
        "rules[0]: expected one of 'keep', 'weight' and 'bands', found 'keep', 'weight'",
    ),
    (
        "label: 0\n        keep: 0.2",
        "label: 0",
        "rules[0]: expected one of 'keep', 'weight' and 'bands', found none of them",
    ),
    ("newest_hours: 24", "newest_hours: -1", "rules[1].newest_hours: expected a number above 0, found -1"),
    (
        "weight: 3.5",
        "weight: many",
        "rules[2].weight: expected a number above 0 and of at most 1000000.0, found 'many'",
    ),
    ("score > 0.8", "score = 0.8", "rules[2].when: expected ==, found = (character 7 of "),
    ("score > 0.8", "click == 0", "rules[2].when: expected a condition without the label (there is 'label' for it)"),
    ("country in (3, 7)", "country", "rules[2].when: expected "),
    (
        "column: item\n",
        "column: click\n",
        "rules[3].bands.column: expected a column other than the label, found 'click'",
    ),
    ("keep: [0.25, 0.5, 1]", "keep: [0.25, 0.5]", "rules[3].bands.keep: expected 3 rates, one more than 'top_ids' has"),
    (
        "keep: [0.25, 0.5, 1]",
        "keep: [0.25, 0.5, 2]",
        "rules[3].bands.keep[2]: expected a number above 0 and of at most 1",
    ),
    ("keep: [0.25, 0.5, 1]", "seed: 1", "rules[3].bands.seed: expected one of the fields 'column', "),
    (
        "top_ids: [100, 10000]",
        "top_ids: [100, 100]",
        "rules[3].bands.top_ids: expected a list of numbers, each above the one before, found [100, 100]",
    ),
    (
        "top_ids: [100, 10000]",
        "top_share: [0.5, 1]",
        "rules[3].bands.top_share[1]: expected a number above 0 and below 1, found 1",
    ),
    (
        "bounds: [18, 30.5]",
        "top_ids: [18, 30]",
        "rules[4].bands: expected 'popularity' beside 'top_ids', found no such field",
    ),
    (
        "bounds: [18, 30.5]",
        "bounds: [18, 30.5]\n          popularity: a.orc",
        "rules[4].bands.popularity: expected 'top_ids' or 'top_share' beside 'popularity', found 'bounds'",
    ),
    (
        "bounds: [18, 30.5]",
        "bounds: []",
        "rules[4].bands.bounds: expected a list of numbers, each above the one before",
    ),
    (
        "          bounds: [18, 30.5]\n",
        "",
        "rules[4].bands: expected one of 'top_ids', 'top_share' and 'bounds', found none of them",
    ),
    ("weight: [1, 2, 1]", "weight: [1, 2, 1]\n          keep: [1, 1, 1]", "rules[4].bands: expected either 'keep' or"),
    ("unit: seconds", "unit: days", "time.unit: expected one of 'milliseconds', 'seconds', found 'days'"),
    ("column: time", "column: click", "time.column: expected a column other than the label, found 'click'"),
    (
        "column: time",
        "column: the time",
        "time.column: expected a name of letters, digits and _ where a rule has 'newest",
    ),
    ("newest_share: 0.7", "newest_share: 70", "replay.newest_share: expected a number above 0 and below 1, found 70"),
    ("seed: 3", "seed: -3", "seed: expected an integer of at least 0 and of at most 18446744073709551615, found -3"),
]


@pytest.mark.parametrize(("old", "new", "message"), WRONG, ids=[message[:60] for _, _, message in WRONG])
def test_what_is_wrong_is_named_with_its_line(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert SAMPLED.count(old) == 1, old
    text = SAMPLED.replace(old, new)
    with pytest.raises(UserError) as caught:
        load_job(write(tmp_path, text))
    (line,) = str(caught.value).splitlines()
    number, _, words = line.removeprefix(f"{tmp_path / 'job.yaml'}:").partition(": ")
    assert words.startswith(f"data.sampling.{message}")
    first = SAMPLED[: SAMPLED.index(old)].count("\n") + 1
    # The line of the field, or of the mapping that it should stand in, or of the rule's beginning.
    assert first - 4 <= int(number) <= first + 4


def test_ages_need_a_time(tmp_path: Path) -> None:
    text = SAMPLED.replace("    time:\n      column: time\n      unit: seconds\n", "")
    with pytest.raises(UserError) as caught:
        load_job(write(tmp_path, text))
    assert [line.partition(": ")[2] for line in str(caught.value).splitlines()] == [
        "data.sampling.rules[1].newest_hours: expected 'time' in data.sampling, found no such field",
        "data.sampling.replay: expected 'time' beside 'replay', found no such field",
    ]


def test_a_section_must_say_something(tmp_path: Path) -> None:
    start, end = SAMPLED.index("    seed: 3"), SAMPLED.index("features:")
    with pytest.raises(UserError, match="expected 'rules' or 'replay', found neither"):
        load_job(write(tmp_path, SAMPLED[:start] + "    seed: 3\n" + SAMPLED[end:]))


def test_files_sampled_before_are_not_sampled_again(tmp_path: Path) -> None:
    text = SAMPLED.replace("    seed: 3\n", "    seed: 3\n    presampled: true\n")
    with pytest.raises(UserError) as caught:
        load_job(write(tmp_path, text))
    assert str(caught.value).endswith(
        "data.sampling.replay: expected no other field beside 'presampled', found 'replay', 'rules', 'seed', 'time'"
    )
    start, end = SAMPLED.index("    seed: 3"), SAMPLED.index("features:")
    job_file = load_job(write(tmp_path, SAMPLED[:start] + "    presampled: true\n" + SAMPLED[end:]))
    names = [column.name for column in training_columns_of(job_file.job)]
    assert names == [*(column.name for column in columns_of(job_file.job)), "sample_weight", "sample_offset"]
    paths, _ = log(tmp_path)
    with pytest.raises(DataError, match=r"a.orc: expected a file made by `ps-cluster data sample`, found another"):
        sampling_of(job_file, paths)
    for path, told in zip(paths, ('{"seed": 1}', '{"seed": 2}')):
        add_metadata(path, {"ps_cluster.sampling": told})
    with pytest.raises(DataError, match=r"b.orc: expected the sampling of .*a.orc, found another one"):
        sampling_of(job_file, paths)
    found = sampling_of(job_file, paths[:1])
    assert found is not None and found.record() == {"seed": 1}


DAY = 86_400
NEWEST = 40 * DAY + 12_345


def log(folder: Path, rows: int = 4000) -> tuple[list[str], dict[str, np.ndarray]]:
    """Two files of several stripes, and their columns; the times are in no order."""
    random = np.random.default_rng(5)
    columns = {
        "click": (random.random(rows) < 0.3).astype(int),
        "item": random.zipf(1.5, rows) % 500,
        "score": random.random(rows),
        "age": random.integers(10, 60, rows),
        "time": NEWEST - (random.random(rows) ** 2 * 40 * DAY).astype(int),
    }
    columns["time"][rows // 3] = NEWEST
    made = list(zip(*(column.tolist() for column in columns.values())))
    half = rows // 2
    schema = "struct<click:tinyint,item:bigint,score:double,age:int,time:bigint>"
    paths = []
    for name, some in (("a", made[:half]), ("b", made[half:])):
        stripes = [some[start : start + 700] for start in range(0, half, 700)]
        paths.append(orc_files.write(folder / f"{name}.orc", schema, stripes))
    return paths, columns


def resolved(folder: Path, section: dict[str, Any], paths: list[str], where: str | None = None) -> Resolved:
    return resolve_sampling(
        Sampling.model_validate(section, strict=True), "click", 9, paths, str(folder), parse(where) if where else None
    )


TIME = {"column": "time", "unit": "seconds"}


def arrow(columns: dict[str, np.ndarray]) -> dict[str, Any]:
    import pyarrow as pa

    return {name: pa.array(column) for name, column in columns.items()}


def test_every_row_has_the_rates_that_the_section_says(tmp_path: Path) -> None:
    paths, columns = log(tmp_path)
    count_ids(paths, "item", str(tmp_path / "items.orc"))
    section = {
        "time": TIME,
        "rules": [
            {"label": 0, "keep": 0.2},
            {"label": 0, "newest_hours": 36, "when": "score > 0.5 or age < 20", "weight": 2},
            {"bands": {"column": "item", "popularity": "items.orc", "top_ids": [1, 4], "keep": [0.5, 0.75, 1]}},
            {"label": 1, "bands": {"column": "age", "bounds": [18, 30], "weight": [1, 3, 1]}},
        ],
    }
    made = resolved(tmp_path, section, paths)
    assert made.newest == NEWEST
    assert made.sampling.seed == 9
    found = effect(made.sampling, arrow(columns))
    items, counts = np.unique(columns["item"], return_counts=True)
    ranked = items[np.lexsort((items, -counts))].tolist()
    for row in range(len(columns["click"])):
        click, item, score, age, time = (column[row] for column in columns.values())
        keep = 0.2 if click == 0 else 1.0
        rank = ranked.index(item)
        keep *= 0.5 if rank < 1 else 0.75 if rank < 4 else 1.0
        weight = 2.0 if click == 0 and time > NEWEST - 36 * 3600 and (score > 0.5 or age < 20) else 1.0
        weight *= 3.0 if click == 1 and 18 <= age < 30 else 1.0
        assert (found.keep[row], found.weight[row]) == (keep, weight)
    told = json.loads(json.dumps(made.record()))
    assert [rule["rule"] for rule in told["rules"]] == [
        "label 0: keep 0.2",
        "label 0, score > 0.5 or age < 20, newest 36 h: weight 2",
        "all rows: keep by popularity of item",
        "label 1: weight by age",
    ]
    assert told["rules"][2]["rates"] == [
        {"rows": "the 1 most frequent", "rate": 0.5},
        {"rows": "the next 3", "rate": 0.75},
        {"rows": "all others", "rate": 1.0},
    ]


@pytest.mark.parametrize("where", [None, "age < 50 and time < 3300000"])
def test_a_replay_reaches_its_share_of_the_rows_that_the_rules_leave(tmp_path: Path, where: str | None) -> None:
    paths, columns = log(tmp_path)
    rules = [{"label": 0, "keep": 0.2}, {"label": 0, "newest_hours": 48, "keep": 0.5}]
    replay = {"newest_days": 3, "newest_share": 0.7, "half_life_days": 4.0}
    made = resolved(tmp_path, {"time": TIME, "rules": rules, "replay": replay}, paths, where)
    taken = (columns["age"] < 50) & (columns["time"] < 3300000) if where else np.ones(4000, bool)
    newest = columns["time"][taken].max()
    assert made.newest == newest
    keep = effect(made.sampling, arrow(columns)).keep
    days = (newest - columns["time"]) // DAY
    recent, older = keep[taken & (days < 3)].sum(), keep[taken & (days >= 3)].sum()
    assert recent / (recent + older) == pytest.approx(0.7)
    assert made.replay is not None and made.replay.problem is None
    assert made.replay.share == pytest.approx(0.7)
    assert made.record()["replay"]["rates_by_day"][:3] == [1, 1, 1]
    # What the rules say is still there below the rates of the days.
    rates = np.array(made.replay.rates)[days[taken]]
    rule = np.where(columns["click"] == 1, 1.0, np.where(columns["time"] > newest - 2 * DAY, 0.1, 0.2))[taken]
    np.testing.assert_allclose(keep[taken], rule * rates, rtol=1e-12)


def test_data_that_do_not_fit_are_told(tmp_path: Path) -> None:
    paths, _ = log(tmp_path)
    newest = {"time": TIME, "rules": [{"newest_hours": 1, "keep": 0.5}]}
    for section, message in (
        ({"rules": [{"when": "gone > 1", "keep": 0.5}]}, "a.orc: column gone: expected .* found no such column"),
        ({**newest, "time": {"column": "score"}}, "a.orc: column score: expected integers .times., found double"),
        ({"time": {"column": "gone"}, "replay": {}}, "a.orc: column gone: expected"),
        (
            {"rules": [{"bands": {"column": "item", "popularity": "a.orc", "top_ids": [1], "keep": [0.5, 1]}}]},
            "a.orc: expected counts made by `ps-cluster data popularity`",
        ),
    ):
        with pytest.raises(DataError, match=message):
            resolved(tmp_path, section, paths)


def test_a_wrong_unit_and_a_null_time_are_told(tmp_path: Path) -> None:
    path = orc_files.write(tmp_path / "c.orc", "struct<click:int,time:bigint>", [[(1, 10**10), (0, 5)]])
    with pytest.raises(
        DataError, match=r"c.orc: column time: row 1 .*: expected a time of at most 100,000 days .* unit"
    ):
        resolved(tmp_path, {"time": TIME, "replay": {}}, [path])
    for unit, time in (("seconds", 10**12), ("milliseconds", 10**15)):
        path = orc_files.write(tmp_path / "m.orc", "struct<click:int,time:bigint>", [[(1, time), (0, time)]])
        with pytest.raises(DataError, match=rf"column time: expected {unit} since 1970, found {time}, .* unit right"):
            resolved(tmp_path, {"time": {**TIME, "unit": unit}, "replay": {}}, [path])
    path = orc_files.write(tmp_path / "d.orc", "struct<click:int,time:bigint>", [[(1, 1)], [(1, 7), (0, None)]])
    with pytest.raises(DataError, match=r"d.orc: column time: row 2 \(counted from 0\): expected a time, found null"):
        resolved(tmp_path, {"time": TIME, "replay": {}}, [path])
    section = Sampling.model_validate({"time": TIME, "replay": {}})
    assert resolve_sampling(section, "click", 0, [path], "", skip_bad=True).newest == 7
    # A row that is not read may have any time.
    assert resolved(tmp_path, {"time": TIME, "replay": {}}, [path], "click == 1").newest == 7
