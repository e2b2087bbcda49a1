"""Proposed samples files: the right kinds, told how sure, and fit to convert with."""

from __future__ import annotations

import gzip
import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from data.convert.convert import Settings, convert
from data.convert.infer import infer
from data.convert.schema import SamplesSchema
from data.errors import DataError
from ps_cluster.cli.data.samples_file import load_samples_file
from tests.data.convert import logs

DRAW = random.Random(0)


@pytest.mark.parametrize("ending", logs.FORMATS)
def test_the_proposal_for_a_log_is_how_it_is_declared_and_converts_it(tmp_path, ending):
    rows = logs.make_rows(1000)
    logs.write(str(tmp_path / f"a.{ending}"), rows[:500])
    logs.write(str(tmp_path / f"b.{ending}"), rows[500:])
    draft = infer([str(tmp_path)])
    kinds = {column.source_name: column.kind for column in draft.schema.columns}
    assert kinds == {
        column["source"] if "source" in column else column["name"]: column["kind"] for column in logs.COLUMNS
    }
    assert draft.schema.sort == ["user", "time"]
    (tmp_path / "samples.yaml").write_text(draft.text)
    schema = load_samples_file(str(tmp_path / "samples.yaml"))
    assert schema == draft.schema
    convert([str(tmp_path / f"*.{ending}")], schema, str(tmp_path / "out"), Settings())
    expected = logs.expected_rows(rows, schema)
    assert logs.read(tmp_path / "out") == [{name: row[name] for name in expected[0]} for row in expected]


@pytest.mark.parametrize(
    ("content", "names", "left_out"),
    [
        ("a b,a_b,a-b\n1,2,3\n", ["a_b_2", "a_b", "a_b_3"], None),
        (f"{'n' * 200},{'n' * 201}\n1,2\n", ["n" * 63, "n" * 55 + "_2"], None),
        ('"a\nb",c\n1,2\n', ["c"], r"'a\nb'"),
        ("c,größe\n1,2\n".encode("latin-1"), ["c"], r"'gr\udcf6\udcdfe'"),
        ("\ufeffc,d\n1,2\n", ["c", "d"], None),
        ("c,d\r1,2\r3,4\r", ["c", "d"], None),
        ("c\td\n1\t2\n", ["c", "d"], None),
        ('c,d\n"a\nb",2\n', ["c", "d"], None),
        (f"c,d\n{'x' * 300_000},2\n3,4\n", ["c", "d"], None),
        ("c,d\n1,Köln\n".encode("latin-1"), ["c", "d"], None),
        ("c,d\n1,x\0y\n", ["c", "d"], None),
    ],
)
@pytest.mark.parametrize("zipped", [False, True])
def test_odd_text_files_give_a_samples_file_that_converts_them(tmp_path, content, names, left_out, zipped):
    data = content if isinstance(content, bytes) else content.encode()
    (tmp_path / "log.csv").write_bytes(gzip.compress(data) if zipped else data)
    draft = infer([str(tmp_path / "log.csv")])
    (tmp_path / "samples.yaml").write_text(draft.text)
    schema = load_samples_file(str(tmp_path / "samples.yaml"))
    assert schema == draft.schema
    assert [column.name for column in schema.columns] == names
    told = [line.strip() for line in draft.text.splitlines() if "Left out" in line]
    assert told == ([f"# Left out: a column that no samples file can name, {left_out}"] if left_out else [])
    assert convert([str(tmp_path / "log.csv")], schema, str(tmp_path / "out"))["rows"] >= 1


def column(values: list, name: str = "c", tmp_path=None) -> tuple[dict, float, str]:
    path = tmp_path / "log.parquet"
    pq.write_table(pa.table({name: values}), path)
    (proposal,) = infer([str(path)]).proposals
    return proposal.fields, proposal.sure, proposal.why


@pytest.mark.parametrize(
    ("name", "values", "fields", "sure"),
    [
        ("clicked", [0, 1] * 50, {"kind": "label"}, 0.9),
        ("uid", list(range(100)), {"kind": "id"}, 0.9),
        ("ts", [1_600_000_000 + i for i in range(99)], {"kind": "time", "format": "epoch_seconds"}, 0.9),
        (
            "event_time",
            [1_600_000_000_000 + i for i in range(99)],
            {"kind": "time", "format": "epoch_milliseconds"},
            0.9,
        ),
        ("when", ["2020-01-01T00:00:00Z", "2021-01-01T00:00:00+01:00"], {"kind": "time", "format": "iso8601"}, 0.9),
        ("when", ["2020-01-01 00:00:00"] * 3, {"kind": "time", "format": "iso8601", "zone": "UTC"}, 0.8),
        (
            "day",
            ["20200131", "20201231"],
            {"kind": "time", "format": "pattern", "pattern": "%Y%m%d", "zone": "UTC"},
            0.7,
        ),
        ("day", [20200131, 20201231], {"kind": "time", "format": "pattern", "pattern": "%Y%m%d", "zone": "UTC"}, 0.7),
        ("seen", ["12345,67890", "5", "", "6,7,8"], {"kind": "id_list"}, 0.9),
        ("seen", ["12345|67890", "5|6"], {"kind": "id_list", "separator": "|"}, 0.9),
        (
            "genres",
            ["drama|crime", "crime|war", "drama", "war|crime"],
            {"kind": "hashed_id_list", "separator": "|"},
            0.6,
        ),
        ("zip", ["01234", "90210", "00501"], {"kind": "hashed_id"}, 0.7),
        ("price", [3, 4, 5], {"kind": "dense"}, 0.7),
        ("x", [1.5, None, 2.25], {"kind": "dense"}, 0.9),
        ("x", ["1.5", "-2e3"], {"kind": "dense"}, 0.9),
        ("items", [[1, 2], [], [3]], {"kind": "id_list"}, 0.9),
        ("items", [[1], [], [3]], {"kind": "id_list"}, 0.9),
        ("items", [["a"], ["b", "c"]], {"kind": "hashed_id_list"}, 0.8),
        ("city", ["Köln", "Rome"] * 5, {"kind": "hashed_id"}, 0.9),
        ("user_id", ["12.0", "7.0", ""], {"kind": "id"}, 0.7),
        ("user_id", ["99999999999999999999", "5"], {"kind": "hashed_id"}, 0.8),
        ("ts", ["1600000000.0", "1600000007.0"], {"kind": "time", "format": "epoch_seconds"}, 0.9),
        ("ts", ["1600000000123.0"] * 3, {"kind": "time", "format": "epoch_milliseconds"}, 0.9),
        ("seen", ["-1,2", "3,-4"], {"kind": "id_list"}, 0.9),
        ("seen", ["1, 2", "3"], {"kind": "id_list"}, 0.9),
        ("seen", ["1, 2,,3", "3,"], {"kind": "id_list", "empty_items": "drop"}, 0.9),
        ("at", ["10:30", "9:45"], {"kind": "hashed_id"}, 0.9),
        ("clicked", ["True", "False"], {"kind": "label"}, 0.9),
    ],
)
def test_a_column_is_known_by_values_and_name(tmp_path, name, values, fields, sure):
    found, how_sure, _ = column(values, name, tmp_path)
    assert found == {"name": name, **fields}
    assert how_sure >= sure


def test_doubts_are_told(tmp_path):
    fields, sure, why = column(["1"] * 990 + ["oops"] * 10, "item_id", tmp_path)
    assert (fields["kind"], sure) == ("id", 0.8)
    assert "10 of 1,000 are not, e.g. 'oops': bad rows" in why
    fields, sure, why = column(["1"] * 60 + ["oops"] * 40, "item_id", tmp_path)
    assert fields["kind"] == "hashed_id"
    fields, sure, why = column(['{"a": 1}'] * 5, "extra", tmp_path)
    assert sure < 0.2
    assert "JSON" in why
    fields, sure, why = column([None, None], "extra", tmp_path)
    assert (sure < 0.2, why) == (True, "no value in the sample")
    assert column(["7", ""] * 20, "shop_id", tmp_path)[2].endswith("50.0% empty or missing; always the same")


def test_names_and_separators_that_yaml_and_orc_do_not_take(tmp_path):
    (tmp_path / "log.csv").write_text("user id;y;größe;2nd;no\n" + "1;0;a;3;4\n2;1;b;4;5\n" * 20)
    draft = infer([str(tmp_path / "log.csv")])
    assert draft.schema.source.separator == ";"
    assert [(column.name, column.source_name) for column in draft.schema.columns] == [
        ("user_id", "user id"), ("y", "y"), ("gr__e", "größe"), ("column_2nd", "2nd"), ("no", "no"),
    ]  # fmt: skip
    assert draft.schema.columns[1].kind == "label"
    (tmp_path / "samples.yaml").write_text(draft.text)
    assert load_samples_file(str(tmp_path / "samples.yaml")) == draft.schema


def test_a_text_file_without_header_is_noticed(tmp_path):
    (tmp_path / "log.csv").write_text("1,a,0.5\n2,b,0.25\n" * 30)
    draft = infer([str(tmp_path / "log.csv")])
    assert draft.schema.source.column_names == ["column_0", "column_1", "column_2"]
    assert convert([str(tmp_path / "log.csv")], draft.schema, str(tmp_path / "out"))["rows"] == 60


def test_rows_from_further_on_in_a_large_file_are_looked_at(tmp_path):
    lines = [f"{i},{'x' * 60}" for i in range(30_000)]
    lines[15_000:] = [f"{i}-b,{'x' * 60}" for i in range(15_000)]
    (tmp_path / "log.csv").write_text("key,pad\n" + "\n".join(lines) + "\n")
    assert infer([str(tmp_path / "log.csv")]).schema.columns[0].kind == "hashed_id"


def test_what_cannot_be_sampled_is_told(tmp_path):
    (tmp_path / "a.csv").write_text("a,b\n")
    with pytest.raises(DataError, match="expected rows, found none"):
        infer([str(tmp_path / "a.csv")])
    for content, message in (
        (b"a,b,a\n1,2,3\n", "expected each column once in the header, found 'a' again"),
        ("a,b\n1,2\n".encode("utf-16"), "expected text in UTF-8, found UTF-16"),
        (b"\n", "expected a first line with the names of columns, found none"),
        (b'"a\nb"\n1\n', "expected columns with names, found 'a\\nb'"),
        (gzip.compress(b"a,b\n1,2\n")[:15], "expected text, gzipped, that can be read, found: gzipped data that ends"),
    ):
        (tmp_path / "a.csv").write_bytes(content)
        with pytest.raises(DataError) as error:
            infer([str(tmp_path / "a.csv")])
        assert message in str(error.value)
    pq.write_table(pa.table({"a": [1]}), tmp_path / "b.parquet")
    (tmp_path / "a.csv").write_text("a,b\n")
    with pytest.raises(DataError, match="expected sources of one format, found csv, parquet"):
        infer([str(tmp_path / "*")])


def test_every_proposal_is_a_valid_samples_file(tmp_path):
    for trial in range(30):
        draw = random.Random(trial)
        pool = [
            "",
            "1",
            "0",
            "a,b",
            "1,2",
            "2020-01-01",
            "x" * 50,
            "1.5",
            "true",
            "{}",
            None,
            "-",
            "null",
            "1600000000",
        ]
        names = draw.sample(["user", "time", "label", "y", "a b", "ä", "1", "click", "null", "id"], 4)
        table = pa.table({name: pa.array(draw.choices(draw.sample(pool, 3), k=40), pa.string()) for name in names})
        pq.write_table(table, tmp_path / "log.parquet")
        draft = infer([str(tmp_path / "log.parquet")])
        (tmp_path / "samples.yaml").write_text(draft.text)
        assert load_samples_file(str(tmp_path / "samples.yaml")) == draft.schema
        assert isinstance(draft.schema, SamplesSchema)
