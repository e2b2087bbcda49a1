"""`ps-cluster check` looks at the footers of the samples that are there."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyarrow import orc

from data.orc_writer import OrcWriter
from ps_cluster import cli  # noqa: F401  (the package's commands)
from ps_cluster.cli.main import main
from ps_cluster.errors import UserError
from ps_cluster.job.load import load_job
from ps_cluster.job.samples import look_at_samples
from tests.data import orc_files
from tests.ps_cluster.job_texts import LOCAL, write

SCHEMA = (
    "struct<label:int,user_id:bigint,item:bigint,history:array<bigint>,genres:array<int>,user_share:double,day:int>"
)
ROW = (1, 5, 6, [7], [8], 0.5, 3)


def job_with(folder: Path, *changes: tuple[str, str]) -> str:
    text = LOCAL
    for old, new in changes:
        assert text.count(old) == 1
        text = text.replace(old, new)
    return str(write(folder, text))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "more").mkdir()
    orc_files.write(tmp_path / "train.orc", SCHEMA, [[ROW] * 3])
    orc_files.write(tmp_path / "more" / "a.orc", SCHEMA, [[ROW] * 2])
    orc_files.write(tmp_path / "test.orc", SCHEMA, [[ROW]])
    return tmp_path


WHERE = ("  shuffle_rows: 1000", "  where: day >= 2 and label < 2")


def test_rows_of_right_samples_are_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", job_with(folder, WHERE)]) == 0
    right, where = capsys.readouterr().out.splitlines()
    assert right.endswith("1 PS, 2 workers, 6 rows in 3 files")
    assert where == "where: 3 of 3 stripes, 3 of 3 row groups, 6 of 6 rows may match"


def test_what_the_condition_skips_is_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    others = [(*ROW[:-1], 4)] * 1500
    orc_files.write(folder / "more" / "a.orc", SCHEMA, [others, others, [ROW] * 7])
    assert main(["check", job_with(folder, ("  shuffle_rows: 1000", "  where: day < 4"))]) == 0
    where = capsys.readouterr().out.splitlines()[1]
    assert where == "where: 3 of 5 stripes, 3 of 5 row groups, 11 of 3,011 rows may match"
    assert main(["check", job_with(folder)]) == 0
    assert "may match" not in capsys.readouterr().out


@pytest.mark.parametrize("on_bad", ["error", "skip"])
def test_a_tail_that_its_checksum_denies_is_told(folder: Path, on_bad: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = folder / "more" / "a.orc"
    with OrcWriter(str(path), orc.ORCFile(path).schema, {"name": "value"}) as writer:
        writer.write(orc.ORCFile(folder / "train.orc").read())
    path.write_bytes(path.read_bytes().replace(b"value", b"valve"))
    job = job_with(folder, ("  shuffle_rows: 1000", f"  where: day < 4\n  on_bad: {on_bad}"))
    assert main(["check", job]) == (2 if on_bad == "error" else 0)
    told = capsys.readouterr()
    lines = told.err.splitlines() if on_bad == "error" else told.out.splitlines()[2:]
    assert lines == [told_line for told_line in lines if "stripe statistics and footer: expected CRC" in told_line]
    assert len(lines) == 1 and f"data.train[1]: {path}: " in lines[0]
    if on_bad == "skip":
        assert told.out.splitlines()[1] == "where: 2 of 2 stripes, 2 of 2 row groups, 4 of 4 rows may match"


def test_files_that_are_elsewhere_are_no_problem(tmp_path: Path) -> None:
    looked = look_at_samples(load_job(job_with(tmp_path, ("- train.orc", "- s3://bucket/train/"))))
    assert (looked.files, looked.rows, looked.problems) == (0, 0, [])


@pytest.mark.parametrize(
    ("command", "status", "start"), [("check", 0, "not here: "), ("train", 2, "")], ids=["check", "train"]
)
def test_files_that_are_elsewhere_are_told_by_check_and_refused_by_train_before_it_starts_anything(
    command: str, status: int, start: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = job_with(folder, ("- train.orc", "- s3://bucket/train/\n    - nope.orc"))
    (folder / "test.orc").rename(folder / "more" / "test.orc")
    assert main([command, job]) == status
    told = capsys.readouterr()
    lines = told.out.splitlines()[1:] if status == 0 else told.err.splitlines()
    missing = "expected a file or folder, found nothing by that name"
    assert lines == [
        f"{start}{job}:5: data.train[1]: {folder}/nope.orc: {missing}",
        f"{start}{job}:8: data.test[0]: {folder}/test.orc: {missing}",
    ]
    assert {path.name for path in folder.iterdir()} == {Path(job).name, "more", "train.orc"}


def test_what_the_files_lack_is_told_with_the_jobs_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = job_with(
        folder,
        ("  shuffle_rows: 1000", "  where: dya >= 2 and history < 2"),
        ("    column: item\n", "    column: items\n"),
        ("label: label", "label: clicked"),
    )
    (folder / "test.orc").write_bytes(b"no ORC")
    assert main(["check", job]) == 2
    train = f"{folder}/train.orc"
    has = "the file has: label, user_id, item, history, genres, user_share, day"
    compared = "expected an integer, boolean, float or double, as where compares it"
    more = " (and in 1 more file)"
    assert capsys.readouterr().err.splitlines() == [
        f"{job}:7: data.test[0]: {folder}/test.orc: expected an ORC file, found one that starts with b'no '",
        f"{job}:8: data.label: {train}: column clicked: expected a number (float, double, integer or boolean), "
        f"found no such column; {has}{more}",
        f"{job}:9: data.where: {train}: column dya: {compared}, found no such column; did you mean day?{more}",
        f"{job}:9: data.where: {train}: column history: {compared}, found list<item: int64>{more}",
        f"{job}:17: features[1].column: {train}: column items: expected an integer or boolean, found no such column; "
        f"did you mean item?{more}",
    ]


def test_bad_files_that_are_left_out_are_told_and_the_job_is_right(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "test.orc").write_bytes(b"")
    job = job_with(folder, ("  shuffle_rows: 1000", "  on_bad: skip"))
    assert main(["check", job]) == 0
    right, lost = capsys.readouterr().out.splitlines()
    assert right.startswith(f"{job}: right: job ")
    assert right.endswith("5 rows in 2 files")
    assert lost.startswith(
        f"left out: {job}:7: data.test[0]: {folder}/test.orc: expected an ORC file, found an empty file"
    )


SAMPLING = """  sampling:
    time: {column: {time}, unit: seconds}
    rules:
      - {label: 0, when: "{when} > 2", newest_hours: 24, weight: 2}
      - {label: 0, bands: {column: {banded}, bounds: [3], keep: [0.5, 1]}}
      - {label: 0, bands: {column: item, popularity: counts.orc, top_ids: [1], keep: [0.5, 1]}}"""


def sampling(time: str, when: str, banded: str) -> tuple[str, str]:
    text = SAMPLING.replace("{time}", time).replace("{when}", when).replace("{banded}", banded)
    return "  shuffle_rows: 1000", text


def test_what_sampling_needs_is_looked_for_in_the_training_files(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = job_with(folder, sampling("tme", "scroe", "history"))
    assert main(["check", job]) == 2
    train, more = f"{folder}/train.orc", " (and in 1 more file)"
    time, when, banded, counts = capsys.readouterr().err.splitlines()
    assert time == (
        f"{job}:10: data.sampling.time.column: {train}: column tme: expected integers (times), "
        f"found no such column{more}"
    )
    assert when.startswith(f"{job}:12: data.sampling.rules[0].when: {train}: column scroe: ") and when.endswith(more)
    assert banded == (
        f"{job}:13: data.sampling.rules[1].bands.column: {train}: column history: "
        f"expected a number or boolean, found list<item: int64>{more}"
    )
    assert counts.startswith(f"{job}:14: data.sampling.rules[2].bands.popularity: {folder}/counts.orc: expected counts")


def test_sampling_that_fits_the_training_files_is_right(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "counts.orc").write_bytes(b"of ids")
    orc_files.write(folder / "test.orc", SCHEMA.replace(",day:int", ""), [[ROW[:-1]]])  # test rows are not sampled
    job = job_with(folder, sampling("day", "user_share", "day"))
    assert main(["check", job]) == 0, capsys.readouterr().err


def test_a_condition_that_does_not_parse_stops_before_the_samples(folder: Path) -> None:
    with pytest.raises(UserError, match=r":9: data\.where: expected ==, found =, at character 5 of 'day = 3'"):
        load_job(job_with(folder, ("  shuffle_rows: 1000", "  where: day = 3")))


def test_a_time_that_the_training_files_do_not_have_is_named(folder: Path) -> None:
    job = job_with(folder, ("  shuffle_rows: 1000", "  time: {column: hour}"))
    (problem,) = look_at_samples(load_job(job)).problems
    assert problem.startswith(f"{job}:9: data.time.column: {folder / 'train.orc'}: ") and "hour" in problem
    assert problem.endswith("(and in 1 more file)")
