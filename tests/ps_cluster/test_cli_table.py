"""`ps-cluster table` against the rows as NumPy reads them from the files."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from ps_cluster.checkpoint.finding import below, newest_checkpoint
from ps_cluster.checkpoint.rows import rows_of
from ps_cluster.cli.main import main
from tests.ps_cluster.checkpoint.trained import Trained
from tests.ps_cluster.small_job import MOST, job_of


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A full checkpoint of step 4, and one of step 6 that is based on it."""
    output = tmp_path_factory.mktemp("output")
    trained = Trained(job_of({"checkpoint": {"every_steps": 1, "deltas": 1}}), str(output))
    for step in (4, 6):
        trained.train_until(step)
        trained.saver.save_without_end(step)
    return output


@pytest.fixture(scope="module")
def rows(output: Path) -> dict[int, tuple[float, int, list[float]]]:
    """Frequency, last step and embedding of every row of `item`."""
    found: dict[int, tuple[float, int, list[float]]] = {}
    for block in rows_of(newest_checkpoint(below(str(output))), "item"):
        for index, key in enumerate(block.keys.tolist()):
            row = (float(block.frequencies[index]), int(block.last_steps[index]), block.embeddings[index].tolist())
            assert found.setdefault(key, row) is row
    assert len(found) > MOST
    assert {last for _, last, _ in found.values()} > {4, 6}
    return found


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    assert main(["table", *arguments]) == 0
    return capsys.readouterr().out.splitlines()


def test_ls_lists_tables_with_the_rows_of_the_whole_chain(
    output: Path, rows: dict, capsys: pytest.CaptureFixture[str]
) -> None:
    step, chain, _, *tables = told(capsys, "ls", str(output))
    assert step == f"step 6: {output}/checkpoint/step-0000000006"
    assert chain == "a delta, with the files of step 4"
    assert [line.split()[0] for line in tables] == ["genres", "item", "user"]
    assert tables[1].split()[1:8] == [str(len(rows)), "0", "4", "float32", "adam", "native", "2"]
    first, _, *tables = told(capsys, "ls", f"{output}/checkpoint/step-0000000004")
    assert first.startswith("step 4: ")
    assert tables[1].split()[7] == "1"


def test_get_shows_the_row_of_each_key(output: Path, rows: dict, capsys: pytest.CaptureFixture[str]) -> None:
    wanted = [*rows, MOST + 7]
    lines = [json.loads(line) for line in told(capsys, "get", str(output), "item", *map(str, wanted))]
    assert [line["key"] for line in lines] == wanted
    assert lines.pop()["row"] is None
    for line in lines:
        frequency, last_step, embedding = rows[line["key"]]
        row = line["row"]
        assert (row["tier"], row["frequency"], row["last_step"], row["age_steps"], row["last_hour"]) == (
            0,
            frequency,
            last_step,
            6 - last_step,
            None,
        )
        assert row["embedding"] == embedding
        assert np.shape(row["slots"]) == (2, 4)


def test_top_shows_the_most_frequent_first(output: Path, rows: dict, capsys: pytest.CaptureFixture[str]) -> None:
    _, *lines = told(capsys, "top", str(output), "item", "-n", "5")
    best = sorted(rows.items(), key=lambda item: (-item[1][0], item[0]))[:5]
    assert [[int(cell) for cell in line.split()] for line in lines] == [
        [key, int(frequency), last_step, 6 - last_step, 4] for key, (frequency, last_step, _) in best
    ]
    assert len(told(capsys, "top", str(output), "item", "-n", "1000")) == len(rows) + 1


def test_histogram_counts_every_row_once(output: Path, rows: dict, capsys: pytest.CaptureFixture[str]) -> None:
    _, *lines = told(capsys, "histogram", str(output), "item")
    want: dict[int, int] = {}
    for frequency, _, _ in rows.values():
        bucket = int(frequency).bit_length()
        want[bucket] = want.get(bucket, 0) + 1
    found = {}
    for line in lines:
        label, counts = line.split("  ", 1) if not line.startswith(" ") else line.strip().split("  ", 1)
        found[int(label.split()[0]).bit_length()] = int(counts.split()[0])
    assert {bucket: count for bucket, count in found.items() if count} == want


@pytest.mark.parametrize(
    ("place", "arguments", "message"),
    [
        ("", ("ls",), "expected a checkpoint, found none"),
        ("checkpoint/step-0000000005", ("ls",), "step-0000000005/manifest.json: missing"),
        ("checkpoint/step-0000000006", ("get", "shop", "1"), "expected files of table shop, found tables: genres"),
    ],
)
def test_wrong_input_is_one_line_and_status_2(
    output: Path, tmp_path: Path, place: str, arguments: tuple, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command, *rest = arguments
    folder = output / place if place else tmp_path
    assert main(["table", command, str(folder), *rest]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("get", "OUTPUT", "item", str(2**63)), "argument KEY: expected an int64, found '9223372036854775808'"),
        (("get", "OUTPUT", "item", "anna"), "argument KEY: expected an int64, found 'anna'"),
        (("top", "OUTPUT", "item", "-n", "0"), "argument -n/--number: expected 1 or more, found 0"),
    ],
)
def test_numbers_out_of_range_are_refused(arguments: tuple, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["table", *arguments])
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


def test_damage_is_named_when_it_is_met(output: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(output, tmp_path / "output")
    path = tmp_path / "output/checkpoint/step-0000000006/tables/item/ps-000-of-001.table"
    content = bytearray(path.read_bytes())
    content[-200] ^= 4
    path.write_bytes(content)
    assert main(["table", "top", str(tmp_path / "output"), "item"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"{path}: block ")
    assert "damaged" in line
