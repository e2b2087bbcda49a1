"""Damaged files never crash a reader, stop it, or pass for good ones where anything could tell."""

import collections

import pytest

from tests.data.mutated_files import COLUMNS, WHERE, Bases, outcomes, read, samples

READERS = ("tfio", "native")


def test_the_files_are_whole_before_they_are_mutated(tmp_path):
    bases = Bases(tmp_path)
    table = samples()
    for name in bases.names:
        path = f"{tmp_path}/{name}.orc"
        rows = read(path, None, "tfio").to_pydict()
        assert rows["id"] == table["id"].to_pylist()
        assert rows["score"] == table["score"].to_pylist()
        assert rows["yes"] == [int(value) for value in table["yes"].to_pylist()]
        assert rows["maybe"] == [-1 if value is None else value for value in table["maybe"].to_pylist()]
        assert rows["items"] == [value[-6:] for value in table["items"].to_pylist()]
        some = [k for k, value in enumerate(table["maybe"].to_pylist()) if 100 <= k < 140 or value == 7]
        assert read(path, WHERE, "tfio")["id"].to_pylist() == some
    assert [column.name for column in COLUMNS] == list(rows)


def check(count: int, reader: str) -> None:
    kinds: collections.Counter[str] = collections.Counter()
    wrong = []
    for one in outcomes(range(count), reader):
        kinds[one.kind] += 1
        if not one.fine:
            wrong.append(one)
    assert wrong == []
    assert kinds["refused"] > count / 2
    assert sum(kinds[kind] for kind in ("refused", "same", "undetected", "contained")) == count


@pytest.mark.parametrize("reader", READERS)
def test_mutated_files_are_refused_or_read_as_they_were(reader):
    check(210, reader)


@pytest.mark.slow
@pytest.mark.parametrize("reader", READERS)
def test_thousands_of_mutated_files_are_refused_or_read_as_they_were(reader):
    check(5000, reader)


def test_a_process_that_crashes_or_hangs_is_seen_and_the_rest_is_still_tried(monkeypatch):
    """The watchdog itself: a worker that kills itself at one file and sleeps at another."""
    from tests.data import mutated_files

    monkeypatch.setattr(mutated_files, "_HANG_SECONDS", 8.0)
    monkeypatch.setenv("MUTATED_FILES_CRASH_AT", "1")
    monkeypatch.setenv("MUTATED_FILES_HANG_AT", "3")
    found = list(outcomes(range(5)))
    assert [one.number for one in found] == list(range(5))
    assert [one.kind for one in found][1::2] == ["crash", "hang"]
    assert all(one.fine for one in found[::2])
