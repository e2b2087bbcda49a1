"""The dataset op by itself: wrong inputs, serialised graphs, order, life of its iterators."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyorc
import pytest
import tensorflow as tf
from tensorflow.python.data.ops import dataset_ops

from ops import library
from ops.orc_dataset import Condition, OrcDataset, OrcRead, OutputColumn, RowSampling, SamplingFactor

_GOLDEN = 0x9E3779B97F4A7C15
_MASK = 2**64 - 1


def mix(z):
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return z ^ (z >> 31)


def key(seed, epoch, stream):
    k = mix((seed + _GOLDEN) & _MASK)
    k = mix((k + epoch * _GOLDEN + 1) & _MASK)
    return mix((k + stream * _GOLDEN + 2) & _MASK)


def permutation(n, k):
    return sorted(range(n), key=lambda i: (mix((k + (i + 1) * _GOLDEN) & _MASK), i))


STRIPES = (40, 25, 35, 3)


@pytest.fixture(scope="module")
def read(tmp_path_factory):
    """A read of a file of `STRIPES`, whose column `a` numbers its rows."""
    path = str(tmp_path_factory.mktemp("op") / "a.orc")
    starts = np.cumsum([0, *STRIPES]).tolist()
    with open(path, "wb") as file, pyorc.Writer(file, "struct<a:bigint,b:float>", batch_size=1) as writer:
        for number, (start, rows) in enumerate(zip(starts, STRIPES)):
            if number:
                writer.write_intermediate_footer()
            writer.writerows([(i, i / 2) for i in range(start, start + rows)])
    parts = [(0, i, start, rows, 0, rows, 1) for i, (start, rows) in enumerate(zip(starts, STRIPES))]
    return OrcRead(
        paths=(path.encode(),),
        file_keys=np.array([5], np.uint64),
        parts=np.array(parts, np.int64),
        kept=None,
        sources=("a", "b"),
        columns=(OutputColumn("a", "a", "int64", None, None),),
        where=None,
        where_sources=(),
        sampling=None,
        batch_rows=16,
        epochs=1,
        shuffle_rows=0,
        seed=0,
        interleave=1,
        drop_remainder=False,
        skip_bad=False,
        verify=True,
        decode_threads=2,
        start=(0, 0),
        batches=7,
    )


def rows(read):
    return [row for a, *_ in OrcDataset(read) for row in a.numpy().tolist()]


@pytest.mark.parametrize("interleave", [1, 2, 3, 9])
@pytest.mark.parametrize("seed", [0, 2**64 - 1])
def test_rows_come_in_the_specified_order(read, interleave, seed):
    shuffled = replace(read, shuffle_rows=30, interleave=interleave, seed=seed, epochs=2, batches=None)
    starts = np.cumsum([0, *STRIPES]).tolist()
    expected = []
    for epoch in range(2):
        order = permutation(len(STRIPES), key(seed, epoch, 0))
        line = []
        for first in range(0, len(order), interleave):
            group = order[first : first + interleave]
            for chunk in range(len(group)):
                for part in group:
                    cuts = [STRIPES[part] * c // len(group) for c in (chunk, chunk + 1)]
                    line += range(starts[part] + cuts[0], starts[part] + cuts[1])
        for window in range(0, len(line), 30):
            piece = line[window : window + 30]
            expected += [piece[i] for i in permutation(len(piece), key(seed, epoch, 1 + window // 30))]
    assert rows(shuffled) == expected


def test_large_windows_are_ordered_by_the_same_rule(tmp_path, read):
    path = str(tmp_path / "a.orc")
    count = 20_000
    with open(path, "wb") as file, pyorc.Writer(file, "struct<a:bigint,b:float>") as writer:
        writer.writerows([(i, 0.0) for i in range(count)])
    parts = np.array([(0, 0, 0, count, 0, count, 1)], np.int64)
    shuffled = replace(read, paths=(path.encode(),), parts=parts, shuffle_rows=2**40, seed=9, batches=None)
    assert rows(shuffled) == permutation(count, key(9, 0, 1))


WRONG = {
    "parts: expected rows within a stripe of a file": {"parts": np.array([(0, 0, 0, 40, 30, 11, 1)])},
    "parts: expected rows within a stripe of a file ": {"parts": np.array([(1, 0, 0, 40, 0, 40, 1)])},
    "parts: expected rows within a stripe of a file  ": {"parts": np.array([(0, 0, 0, 40, 1, 14, 3)])},
    "parts: expected at least one row and a step of at least 1, found 4 and 0": {
        "parts": np.array([(0, 0, 0, 40, 0, 4, 0)])
    },
    "parts: expected at least one row and a step of at least 1, found 4 and 9223372036854775807": {
        "parts": np.array([(0, 0, 0, 40, 0, 4, 2**63 - 1)])
    },
    "parts: expected at least one row and a step of at least 1, found 2 and 9223372036854775807": {
        "parts": np.array([(0, 0, 0, 40, 0, 2, 2**63 - 1)])
    },
    "kept: expected one for each part": {"kept": np.array([1, 2])},
    "file_keys: expected 1 entries, found 2": {"file_keys": np.array([1, 2], np.uint64)},
    "where: expected one result, found 2": {"where": Condition(np.array([(2, 0, 0, 0, 0)] * 2), [], [])},
    "where: step with operation 0 makes no sense": {"where": Condition(np.array([(0, 0, 0, 0, 3)]), [1], [])},
    "where: step with operation 3 makes no sense": {"where": Condition(np.array([(3, 2, 0, 0, 0)]), [1], [])},
    "where: step with operation 9 makes no sense": {"where": Condition(np.array([(9, 0, 0, 0, 0)]), [1], [])},
    "needed_first: expected column b to be": {"where": Condition(np.array([(2, 1, 0, 0, 0)]), [], [])},
    "sampling: a factor's table does not fit its rate": {
        "sampling": RowSampling("a", 0, (SamplingFactor(True, None, None, "b", np.ones(4), np.ones(4), np.ones(4)),))
    },
    "factor_log_tables: expected 3 more, found 2": {
        "sampling": RowSampling("a", 0, (SamplingFactor(True, None, None, None, np.ones(3), np.ones(2)),))
    },
}


@pytest.mark.parametrize("text", sorted(WRONG))
def test_wrong_inputs_are_refused(read, text):
    wrong = {"where_sources": ("a",)} | WRONG[text]
    with pytest.raises(tf.errors.InvalidArgumentError, match=text.strip()):
        OrcDataset(replace(read, **wrong))


def test_dataset_survives_being_written_as_a_graph(read):
    where = Condition(np.array([(0, 0, 5, 0, 0)]), [20], [])
    factor = SamplingFactor(True, None, None, None, np.array([0.5]), np.log([0.5]))
    sampled = replace(
        read,
        where=where,
        where_sources=("a",),
        sampling=RowSampling("a", 2**63, (factor,)),
        shuffle_rows=20,
        seed=2**63 + 1,
        columns=(OutputColumn("b", "b", "float32", 0.25, None),),
        batches=None,
    )
    dataset = OrcDataset(sampled)
    graph = dataset._as_serialized_graph(external_state_policy=tf.data.experimental.ExternalStatePolicy.FAIL)
    variant = tf.raw_ops.DatasetFromGraph(graph_def=graph)
    copy = dataset_ops._VariantDataset(variant, dataset.element_spec)
    expected = [[t.numpy().tolist() for t in element] for element in dataset]
    assert [[t.numpy().tolist() for t in element] for element in copy] == expected
    assert sum(len(element[0]) for element in expected) == 83


def test_cardinality_is_what_was_said(read):
    assert int(OrcDataset(read).cardinality()) == 7 == len(list(OrcDataset(read)))
    assert int(OrcDataset(replace(read, batches=None)).cardinality()) == tf.data.UNKNOWN_CARDINALITY


def test_nothing_to_read_is_an_empty_stream(read):
    assert list(OrcDataset(replace(read, parts=np.zeros([0, 7], np.int64), shuffle_rows=5))) == []
    assert list(OrcDataset(replace(read, epochs=0))) == []
    assert list(OrcDataset(replace(read, start=(1, 0)))) == []


def test_error_stays_the_same_error(read, tmp_path):
    gone = replace(read, paths=(str(tmp_path / "gone.orc").encode(),))
    iterator = iter(OrcDataset(gone))
    for _ in range(3):
        with pytest.raises(tf.errors.DataLossError, match=r"gone\.orc"):
            next(iterator)


def test_path_need_not_be_text(read, tmp_path):
    path = os.fsencode(tmp_path) + b"/\xff\xfe.orc"
    with open(path, "wb") as copy:
        copy.write(Path(read.paths[0].decode()).read_bytes())
    assert rows(replace(read, paths=(path,))) == list(range(sum(STRIPES)))


def test_missing_library_says_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setattr(library, "ORC_PATH", str(tmp_path / "_orc.so"))
    with pytest.raises(
        library.LibraryError, match=r"_orc\.so: expected an op library .*, found no such file; build it with"
    ):
        library.load_orc.__wrapped__()


def test_library_of_another_pyarrow_says_how_to_get_the_right_one(tmp_path, monkeypatch):
    other = Path(library.ORC_PATH).read_bytes().replace(b"libarrow.so.2500", b"libarrow.so.9900")
    (tmp_path / "_orc.so").write_bytes(other)
    monkeypatch.setattr(library, "ORC_PATH", str(tmp_path / "_orc.so"))
    with pytest.raises(
        library.LibraryError, match=r"pyarrow .*, found one that does not load .*libarrow\.so\.9900.*; build"
    ):
        library.load_orc.__wrapped__()
