"""`ps-cluster data convert`: samples files, what it prints, its exit codes; and TFRecord there and back."""

from __future__ import annotations

import json
import os
import re
import resource
import subprocess
import sys

import pytest
import tensorflow as tf
from pyarrow import orc

from tests.data.convert import logs

SAMPLES = """\
name: clicks
columns:
  - {name: user_id, source: user, kind: id}
  - {name: timestamp, source: time, kind: time, format: epoch_seconds}
  - {name: label, kind: label}
  - {name: city, kind: hashed_id}
  - {name: history, kind: id_list}
  - {name: tags, kind: hashed_id_list, separator: "|"}
  - {name: price, kind: dense}
sort: [user_id, timestamp]
output: {rows_per_file: 300}
"""


def convert(*arguments: str, folder=None, before=None) -> subprocess.CompletedProcess:
    root = os.path.join(os.path.dirname(__file__), "..", "..")
    environment = {**os.environ, "PYTHONPATH": os.path.abspath(root)}
    return subprocess.run(
        [sys.executable, "-m", "ps_cluster", "data", "convert", *arguments],
        capture_output=True, text=True, cwd=folder, env=environment, check=False,
        preexec_fn=before,
    )  # fmt: skip


def test_files_are_converted_and_told(tmp_path):
    rows = logs.make_rows(700)
    for number in range(2):
        logs.write(str(tmp_path / f"{number}.csv"), rows[350 * number : 350 * number + 350])
    (tmp_path / "samples.yaml").write_text(SAMPLES)
    done = convert("*.csv", "--out", "out", "--schema", "samples.yaml", "--processes", "2", folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0].startswith("out  700 rows in 3 files, ")
    assert "  hashed   city: 4 ids, 0 collisions" in lines
    assert logs.read(tmp_path / "out") == logs.expected_rows(rows, logs.schema())


def test_a_bad_row_ends_it_with_one_line_and_can_be_skipped(tmp_path, monkeypatch, capsys):
    from ps_cluster.cli.main import main

    monkeypatch.chdir(tmp_path)
    (tmp_path / "log.csv").write_text("user,time,label,city,history,tags,price\n1,1,1,a,1,b,1\n2,soon,1,a,1,b,1\n")
    (tmp_path / "samples.yaml").write_text(SAMPLES)
    arguments = ["data", "convert", "log.csv", "--out", "out", "--schema", "samples.yaml", "--processes", "1"]
    assert main(arguments) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err == "./log.csv: row 2 (line 3): column time: expected a time (epoch_seconds), found 'soon'\n"
    assert main([*arguments, "--on-bad", "skip"]) == 0
    assert "  skipped  1 row: time: expected a time (epoch_seconds)" in capsys.readouterr().out.splitlines()


@pytest.mark.parametrize(
    ("change", "lines"),
    [
        (
            ("kind: dense", "kind: dens"),
            [
                "9: columns[6].kind: expected one of 'dense', 'hashed_id', 'hashed_id_list', 'id'",
                "'dens'; did you mean 'dense'?",
            ],
        ),
        (("name: label", "name: city"), ["6: columns[3].name: expected a name no other column has, found 'city', as"]),
        (
            ("[user_id, timestamp]", "[user_id, history]"),
            ["10: sort[1]: expected a column of kind id, hashed_id, label"],
        ),
        (("sort: [user_id, timestamp]", "group_by: hour"), ["10: group_by: expected a column of kind", "no column"]),
        (("format: epoch_seconds", "format: pattern"), ["4: columns[1].pattern: expected 'pattern' together with"]),
        (
            ("epoch_seconds", "epoch_seconds, zone: Mars"),
            ["4: columns[1].zone: expected a time zone such as", "'Mars'"],
        ),
        (
            ("rows_per_file: 300", "rows_per_file: 0"),
            ["11: output.rows_per_file: expected an integer above 0, found 0"],
        ),
        (
            ("rows_per_file", "rowsperfile"),
            ["11: output.rowsperfile: expected one of", "did you mean 'rows_per_file'?"],
        ),
        (("kind: id}", "kind: id, fill: 1, missing: error}"), ["3: columns[0].fill: expected either 'fill' or"]),
        (
            ("format: epoch_seconds", 'format: pattern, pattern: "%Y-%m-%d %H:%M:%S.%f"'),
            ["4: columns[1].pattern: expected a pattern of %a, %A,", "found '%f'"],
        ),
        (("format: epoch_seconds", 'format: pattern, pattern: "%Y %Z"'), ["4: columns[1].pattern: ", "found '%Z'"]),
        (("format: epoch_seconds", 'format: pattern, pattern: "%Y %"'), ["4: columns[1].pattern: ", "found '%'"]),
        (
            ("format: epoch_seconds", 'format: pattern, pattern: "%H:%M"'),
            ["4: columns[1].pattern: expected a pattern with a year, such as %Y or %y, found '%H:%M'"],
        ),
        (
            ("name: clicks", "source: {header: false, column_names: [user, time, user]}"),
            [
                "1: source.column_names: expected each column once, found 'user'",
                "5: columns[2].name: expected one of 'source.column_names' (user, time, user), found 'label'",
            ],
        ),
        (
            ("name: clicks", "source: {separator: '\"'}"),
            ["1: source.separator: expected a character other than a quote or the end of a line, found '\"'"],
        ),
        (('separator: "|"', 'separator: "||"'), ["8: columns[5].separator: expected one character"]),
        ((SAMPLES, ""), ["1: expected a mapping with the fields 'name', 'source', 'columns'", "found an empty file"]),
        ((SAMPLES, "- 1"), ["1: expected a mapping with the fields", "found a list of 1 value"]),
        (("name: clicks", "name: [clicks"), ["expected valid YAML"]),
    ],
)
def test_a_wrong_samples_file_is_told_with_its_line(tmp_path, capsys, change, lines):
    from ps_cluster.cli.data.samples_file import load_samples_file
    from ps_cluster.errors import UserError

    path = tmp_path / "samples.yaml"
    path.write_text(SAMPLES.replace(*change))
    with pytest.raises(UserError) as error:
        load_samples_file(str(path))
    assert str(error.value).startswith(f"{path}:")
    for line in lines:
        assert line in str(error.value)


def test_a_tab_may_separate(tmp_path):
    from ps_cluster.cli.data.samples_file import load_samples_file

    (tmp_path / "samples.yaml").write_text('source: {separator: "\\t"}\n' + SAMPLES.replace('"|"', '"\\t"'))
    schema = load_samples_file(str(tmp_path / "samples.yaml"))
    assert (schema.source.separator, schema.columns[5].separator) == ("\t", "\t")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "--schema: expected a samples file"),
        (["--schema", "none.yaml"], "none.yaml: expected a samples file, found no such file"),
        (
            ["--schema", "samples.yaml", "--memory", "lots"],
            "--memory: expected a size such as 500M or 2G, found 'lots'",
        ),
        (["--schema", "samples.yaml", "--memory", "1M"], "--memory: expected at least"),
        (["--schema", "samples.yaml", "--processes", "0"], "--processes: expected at least 1, found 0"),
        (["--schema", "samples.yaml", "--to", "tfrecord"], "--schema: expected none with --to tfrecord"),
        (["--schema", "samples.yaml", "--gzip"], "--gzip: expected only with --to tfrecord"),
        (
            ["--schema", "samples.yaml"],
            "nothing.csv: expected a file, a folder with files or a pattern that names files",
        ),
    ],
)
def test_wrong_arguments_are_told_in_one_line(tmp_path, monkeypatch, capsys, arguments, message):
    from ps_cluster.cli.main import main

    monkeypatch.chdir(tmp_path)
    (tmp_path / "samples.yaml").write_text(SAMPLES)
    assert main(["data", "convert", "nothing.csv", "--out", "out", *arguments]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("gzip", [True, False])
def test_tfrecord_there_and_back_keeps_every_value(tmp_path, monkeypatch, capsys, gzip):
    from ps_cluster.cli.main import main

    monkeypatch.chdir(tmp_path)
    rows = logs.make_rows(700)
    logs.write(str(tmp_path / "log.csv"), rows)
    (tmp_path / "samples.yaml").write_text(SAMPLES)
    one = ["--processes", "1"]
    assert main(["data", "convert", "log.csv", "--out", "first", "--schema", "samples.yaml", *one]) == 0
    options = ["--gzip"] if gzip else []
    assert main(["data", "convert", "first", "--out", "back", "--to", "tfrecord", *one, *options]) == 0
    manifest = json.loads((tmp_path / "back" / "manifest.json").read_text())
    assert [file["rows"] for file in manifest["files"]] == [300, 300, 100]

    expected = [row for part in range(3) for row in read(tmp_path / "first" / f"part-0000{part}.orc")]
    paths = [str(tmp_path / "back" / file["name"]) for file in manifest["files"]]
    found = [
        tf.train.Example.FromString(record.numpy()).features.feature
        for record in tf.data.TFRecordDataset(paths, "GZIP" if gzip else "")
    ]
    assert len(found) == 700
    for features, row in zip(found, expected):
        for name, value in row.items():
            assert (name in features) == (value is not None)
            if value is not None:
                items = features[name].float_list if name == "price" else features[name].int64_list
                assert list(items.value) == (value if isinstance(value, list) else [value])

    # And once more to ORC: integers are what they are.
    kinds = {"timestamp": "time, format: epoch_milliseconds", "label": "label", "price": "dense"}
    lists = dict.fromkeys(("history", "tags"), "id_list")
    columns = [f"  - {{name: {name}, kind: {({**kinds, **lists}).get(name, 'id')}}}" for name in expected[0]]
    (tmp_path / "again.yaml").write_text("columns:\n" + "\n".join(columns) + "\noutput: {rows_per_file: 1000}\n")
    ending = "*.gz" if gzip else "*.tfrecord"
    assert main(["data", "convert", f"back/{ending}", "--out", "again", "--schema", "again.yaml", *one]) == 0
    assert capsys.readouterr().err == ""
    assert logs.read(tmp_path / "again") == expected


@pytest.mark.parametrize(
    ("step", "most_bytes", "processes"), [("runs", 2000, "2"), ("files", 12_000, "1"), ("tfrecord", 2000, "1")]
)
def test_a_disk_that_is_full_is_one_line_and_more_room_continues(tmp_path, monkeypatch, step, most_bytes, processes):
    from ps_cluster.cli.main import main

    monkeypatch.chdir(tmp_path)
    rows = logs.make_rows(1400)
    for number in range(14):
        logs.write(f"{number:02}.csv", rows[100 * number : 100 * number + 100])
    (tmp_path / "samples.yaml").write_text(SAMPLES.replace("rows_per_file: 300", "rows_per_file: 10000"))
    arguments = ["*.csv", "--out", "out", "--schema", "samples.yaml", "--processes", processes]
    if step == "tfrecord":
        assert main(["data", "convert", *arguments]) == 0
        arguments = ["out", "--out", "back", "--to", "tfrecord", "--processes", processes]

    def fill_up() -> None:  # a file of more bytes cannot be written, which ends as a full disk does
        resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, resource.RLIM_INFINITY))

    done = convert(*arguments, folder=tmp_path, before=fill_up)
    assert (done.returncode, done.stdout) == (1, "")
    assert re.fullmatch(r"(out|back)\S*: (File too large|No space left on device|Input/output error)\n", done.stderr)
    assert [path.name for path in tmp_path.rglob("*.partial") if path.parent.name in ("out", "back")] == []
    assert (step == "runs") == ("out.work/" in done.stderr)
    assert main(["data", "convert", *arguments[:-1], "1"]) == 0
    assert logs.read(tmp_path / "out") == logs.expected_rows(rows, logs.schema())


def read(path) -> list[dict]:
    return orc.ORCFile(path).read().to_pylist()


def test_a_samples_file_is_proposed_and_written_beside(tmp_path, monkeypatch, capsys):
    from ps_cluster.cli.data.samples_file import load_samples_file
    from ps_cluster.cli.main import main

    monkeypatch.chdir(tmp_path)
    logs.write("log.csv", logs.make_rows(300))
    assert main(["data", "infer", "log.csv"]) == 0
    printed = capsys.readouterr().out
    assert "named as a label" in printed
    assert main(["data", "infer", "log.csv", "--out", "samples.yaml"]) == 0
    assert capsys.readouterr().out.startswith("samples.yaml  7 columns, ")
    assert (tmp_path / "samples.yaml").read_text() == printed
    assert load_samples_file("samples.yaml").sort == ["user", "time"]
    assert main(["data", "infer", "log.csv", "--out", "samples.yaml"]) == 2
    assert "samples.yaml: expected a new file, found one; --overwrite replaces it" in capsys.readouterr().err
    assert main(["data", "infer", "none.csv"]) == 2
    os.mkdir("folder")
    for out, message in (
        ("folder", "--out: expected a file, found the folder folder"),
        ("none/samples.yaml", "--out: expected a file in a folder that exists, found 'none/samples.yaml'"),
        ("", "--out: expected a file in a folder that exists, found ''"),
    ):
        assert main(["data", "infer", "log.csv", "--out", out, "--overwrite"]) == 2
        assert message in capsys.readouterr().err
    os.rmdir("folder")
    assert sorted(os.listdir(tmp_path)) == ["log.csv", "samples.yaml"]
