"""Wrong job files: what is said about each, word for word."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from ps_cluster.errors import UserError
from ps_cluster.job.load import load_job
from tests.ps_cluster.job_texts import ALL, LOCAL, write


@dataclass
class Case:
    """One wrong job file of wrong_jobs.txt."""

    title: str
    start: list[str]
    out: list[str]
    put: list[str]
    expected: list[str]

    def text(self) -> str:
        count = len(self.out)
        places = [i for i in range(len(self.start)) if self.start[i : i + count] == self.out]
        assert len(places) == 1, self.title
        lines = [*self.start[: places[0]], *self.put, *self.start[places[0] + count :]]
        return "\n".join(lines) + "\n"


def wrong_jobs() -> list[Case]:
    text = Path(__file__).with_name("wrong_jobs.txt").read_text(encoding="utf-8")
    cases = []
    for block in text.split("\n== ")[1:]:
        head, *lines = block.rstrip("\n").split("\n")
        start, title = head.split(": ", 1)
        out = [line[1:] for line in lines if line.startswith("-")]
        put = [line[1:] for line in lines if line.startswith("+")]
        expected = [line for line in lines if line[:1] not in "-+"]
        cases.append(Case(title, ALL[start].splitlines(), out, put, expected))
    return cases


def messages(folder: Path, text: str) -> list[str]:
    """The lines of the error about `text`, without the path in front."""
    path = write(folder, text)
    with pytest.raises(UserError) as caught:
        load_job(path)
    lines = str(caught.value).split("\n")
    assert all(line.startswith(f"{path}:") for line in lines)
    return [line.removeprefix(f"{path}:") for line in lines]


def changed(text: str, old: str, new: str) -> str:
    assert text.count(old) == 1, (old, text.count(old))
    return text.replace(old, new)


@pytest.mark.parametrize("text", ALL.values(), ids=ALL)
def test_a_right_job_is_loaded(tmp_path: Path, text: str) -> None:
    assert load_job(write(tmp_path, text)).text == text


@pytest.mark.parametrize("case", wrong_jobs(), ids=lambda case: case.title)
def test_what_is_wrong_is_named_with_its_line(tmp_path: Path, case: Case) -> None:
    assert messages(tmp_path, case.text()) == case.expected


def test_many_kinds_of_wrong_jobs_are_tried() -> None:
    assert len({case.title for case in wrong_jobs()}) >= 50


def test_a_query_of_another_width_is_named(tmp_path: Path) -> None:
    text = changed(LOCAL, "    dim: 16\n    initializer", "    dim: 8\n    initializer")
    assert messages(tmp_path, changed(text, "query: item_id", "query: user_id")) == [
        "23: features[2].query: expected a feature of this feature's dim, 16, found 'user_id' of dim 8"
    ]


def test_all_problems_are_told_at_once_in_the_order_of_lines(tmp_path: Path) -> None:
    text = LOCAL
    for old, new in (
        ("label: label", "label: 5"),  # a wrong value
        ("table: users", "table: user"),  # a rule between two right fields
        ("column: item", "colum: item"),  # an unknown field
        ("name: genres", "name: user_id"),  # a rule between list items
        ("name: adamw", "name: adam"),  # a rule inside a right section
        ("batch_size: 512", "batch_size: many"),  # a wrong value in another section
        ("decay: exponential", "decay: exponential\n  decay: cosine"),  # a duplicate
        ("output: run", "output: [run"),
    ):
        text = changed(text, old, new)
    (broken,) = messages(tmp_path, text)  # what is no YAML has no fields to check
    assert broken.startswith("86: expected valid YAML, found expected ',' or ']'")
    assert [line.partition(" expected ")[0] for line in messages(tmp_path, changed(text, "[run", "."))] == [
        "8: data.label:",
        "13: features[0].table:",
        "17: features[1].colum:",
        "26: features[3].name:",
        "68: optimizers.dense.weight_decay:",
        "72: schedule.decay:",
        "76: training.batch_size:",
        "85: output:",
    ]


def test_a_wrong_feature_does_not_make_others_wrong(tmp_path: Path) -> None:
    # `history` asks for `item_id` and the table `items` is used by it: neither is a problem of its own.
    text = changed(LOCAL, "    column: item\n", "    column: [item]\n")
    assert messages(tmp_path, text) == ["17: features[1].column: expected text, found a list of 1 value"]


def test_long_values_are_cut(tmp_path: Path) -> None:
    (message,) = messages(tmp_path, changed(LOCAL, "decay: exponential", f"decay: {'x' * 10_000}"))
    assert len(message) < 200
