"""The native reader's iterators: saved, resumed, dropped, side by side."""

import gc
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
import tensorflow as tf

from data.orc import open_reader
from data.read.native_reader import orc_read
from data.read.plan import plan as make_plan
from data.read.read_spec import Position, ReadSpec
from data.where import parse
from ops.orc_dataset import OrcDataset
from tests.data.read.both_readers import COLUMNS, by_op, flat_batches, plain


@pytest.mark.parametrize(
    "how", [{}, {"shuffle_rows": 170, "interleave_stripes": 2, "stripe_slices": 2}, {"drop_remainder": True}]
)
@pytest.mark.parametrize("on_bad", ["error", "skip"])
def test_saved_iterators_give_exactly_the_rest(two_files, tmp_path, how, on_bad):
    spec = ReadSpec(two_files, COLUMNS, 100, epochs=2, seed=1, on_bad=on_bad, where=parse("score > 7.5"), **how)
    plan = make_plan(spec)
    everything = by_op(spec, plan)
    dataset = OrcDataset(orc_read(spec, plan))
    for delivered in (0, 1, len(everything) // 2, len(everything) - 1, len(everything)):
        iterator = iter(dataset)
        for _ in range(delivered):
            next(iterator)
        path = tf.train.Checkpoint(iterator=iterator).write(str(tmp_path / f"at {delivered}"))
        other = iter(dataset)
        if delivered % 2:
            next(other)  # also one that has already begun
        tf.train.Checkpoint(iterator=other).read(path).assert_consumed()
        assert flat_batches(spec, other) == everything[delivered:]
        assert flat_batches(spec, iterator) == everything[delivered:]


def test_iterators_of_the_whole_pipeline_can_be_saved(two_files, tmp_path):
    spec = ReadSpec(two_files, COLUMNS, 64, shuffle_rows=300, reader="native", prefetch_batches=3)
    with open_reader(spec) as reader:
        everything = [info.numpy().tolist() + plain(v["id"]) + v["items"].to_list() for v, info in reader.dataset]
        iterator = iter(reader.dataset.prefetch(2))
        for _ in range(5):
            next(iterator)
        path = tf.train.Checkpoint(iterator=iterator).write(str(tmp_path / "saved"))
        other = iter(reader.dataset.prefetch(2))
        tf.train.Checkpoint(iterator=other).read(path).assert_consumed()
        rest = [info.numpy().tolist() + plain(v["id"]) + v["items"].to_list() for v, info in other]
    assert rest == everything[5:]


def test_resumed_stream_is_the_rest_from_every_row(two_files):
    spec = ReadSpec(two_files, COLUMNS[:1], 64, shuffle_rows=256, interleave_stripes=3, epochs=2)
    plan = make_plan(spec)
    ids = [row for _, columns in by_op(spec, plan) for row in columns[0]]
    for row in [0, 1, 255, 256, 257, 700, plan.rows - 1, plan.rows]:
        resumed = replace(spec, start=Position(1, row))
        found = [row for _, columns in by_op(resumed, make_plan(resumed)) for row in columns[0]]
        assert found == ids[plan.rows + row :]


def test_dropped_iterator_ends_its_threads(two_files):
    spec = ReadSpec(two_files, COLUMNS, 10, epochs=1000, shuffle_rows=100, reader="native", decode_threads=4)
    before = None
    for _ in range(3):  # the first makes TensorFlow's own threads
        with open_reader(spec) as reader:
            iterator = iter(reader.dataset)
            next(iterator)
            during = threads()
            del iterator
            gc.collect()
        deadline = time.monotonic() + 10
        while threads() > during - 4 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert threads() <= during - 4
        assert before is None or threads() <= before
        before = threads()


def threads():
    return len(list(Path("/proc/self/task").iterdir()))


def test_memory_stays_flat(two_files):
    spec = ReadSpec(two_files, COLUMNS, 50, epochs=200, shuffle_rows=500, decode_threads=2)
    seen = []
    for *_, info in OrcDataset(orc_read(spec, make_plan(spec))):
        if info[1] != 50 and info[2] in (50, 199):
            status = Path("/proc/self/status").read_text()
            seen.append(int(status.split("VmRSS:")[1].split()[0]))
    assert len(seen) == 2
    assert seen[1] - seen[0] < 20_000  # kB


def test_two_iterators_of_one_dataset_do_not_disturb_each_other(two_files):
    spec = ReadSpec(two_files, COLUMNS[:1], 100, shuffle_rows=300)
    plan = make_plan(spec)
    dataset = OrcDataset(orc_read(spec, plan))
    expected = by_op(spec, plan)
    found = [None, None]

    def read(which):
        found[which] = flat_batches(spec, dataset)

    workers = [threading.Thread(target=read, args=(which,)) for which in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert found == [expected, expected]
