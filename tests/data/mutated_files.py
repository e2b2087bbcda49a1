"""Mutated ORC files through the whole path of a reader, each in a process that may crash or hang.

`python -m tests.data.mutated_files COUNT [--reader native]` tries that many and prints what came of them. Of each file
must come either a `DataError` that names it, or exactly the rows it had; a file without checksums may also give other
rows, where neither ORC's format nor its codec can tell.
"""

from __future__ import annotations

import argparse
import collections
import faulthandler
import json
import os
import random
import resource
import selectors
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyorc
from pyarrow import orc

from data.columns import Column
from data.errors import DataError
from data.orc_writer import OrcWriter, Settings
from data.read.batches import Shard, batches
from data.read.plan import plan
from data.read.read_spec import ReadSpec
from data.where import parse

ROWS = 600
STRIPE_ROWS = 256
CODECS = ("zstd", "zlib", "snappy", "lz4", "none")
WRITERS = ("ours", "pyarrow", "pyorc")
COLUMNS = (
    Column("id", "int64"),
    Column("score", "float32"),
    Column("yes", "int64"),
    Column("maybe", "int64", missing=-1),
    Column("items", "int64_list", missing="empty", max_length=6),
)
WHERE = "100 <= id < 140 or maybe == 7"
_HANG_SECONDS = 30.0
_START_SECONDS = 300.0
_MEMORY_BYTES = 8 << 30
_FINE = ("refused", "same", "undetected", "contained")


@dataclass(frozen=True)
class Outcome:
    """What came of one mutated file.

    `kind`: refused, same, undetected (other rows, of a file without checksums), contained (pyarrow's decoder crashed,
    on a file without checksums, and the training got an error that names it): fine. All others are not.
    """

    number: int
    base: str
    mutation: str
    kind: str
    text: str = ""

    @property
    def fine(self) -> bool:
        return self.kind in _FINE


def samples() -> pa.Table:
    """The rows of every file before it is mutated."""
    random_ = np.random.default_rng(5)
    lengths = random_.integers(0, 10, ROWS)
    items = random_.zipf(1.4, lengths.sum()) % (1 << 40)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return pa.table(
        {
            "id": pa.array(np.arange(ROWS)),
            "score": pa.array(random_.normal(size=ROWS).astype(np.float32)),
            "name": pa.array([f"user {number % 37}" for number in range(ROWS)]),
            "yes": pa.array(random_.random(ROWS) < 0.5),
            "maybe": pa.array([None if number % 9 == 0 else number % 50 for number in range(ROWS)], pa.int32()),
            "items": pa.ListArray.from_arrays(pa.array(offsets), pa.array(items, pa.int64())),
        }
    )


def write_base(path: str, writer: str, codec: str, table: pa.Table) -> None:
    """`table` in several stripes, with row indexes of several groups and bloom filters where the writer has them."""
    if writer == "ours":
        settings = Settings(codec, stripe_rows=STRIPE_ROWS, row_index_stride=64, bloom_columns=("id",))  # type: ignore[arg-type]
        with OrcWriter(path, table.schema, {"a": "b"}, settings) as ours:
            ours.write(table)
    elif writer == "pyarrow":
        with orc.ORCWriter(
            path,
            compression="uncompressed" if codec == "none" else codec,
            stripe_size=1,
            batch_size=STRIPE_ROWS,
            row_index_stride=64,
        ) as theirs:
            for start in range(0, ROWS, STRIPE_ROWS):
                theirs.write(table.slice(start, STRIPE_ROWS))
    else:
        schema = "struct<id:bigint,score:float,name:string,yes:boolean,maybe:int,items:array<bigint>>"
        kind = pyorc.CompressionKind[codec.upper()]
        with (
            open(path, "wb") as file,
            pyorc.Writer(file, schema, batch_size=1, compression=kind, row_index_stride=64) as theirs,
        ):
            for start in range(0, ROWS, STRIPE_ROWS):
                if start:
                    theirs.write_intermediate_footer()
                theirs.writerows(tuple(row.values()) for row in table.slice(start, STRIPE_ROWS).to_pylist())


def mutate(content: bytes, random_: random.Random) -> tuple[str, bytes]:
    """(what was done, the mutated content); it may happen to be the same."""
    data = bytearray(content)
    kinds = (
        "flip",
        "byte",
        "bytes",
        "tail byte",
        "postscript",
        "cut",
        "drop",
        "insert",
        "zero",
        "swap",
        "repeat",
        "over",
    )
    kind = random_.choice(kinds)
    size = len(data)
    place = random_.randrange(size)
    length = min(random_.choice((1, 2, 8, 50, 500)), size - place)
    if kind == "flip":
        data[place] ^= 1 << random_.randrange(8)
    elif kind == "byte":
        data[place] = random_.randrange(256)
    elif kind == "bytes":
        for _ in range(random_.choice((2, 8, 40))):
            data[random_.randrange(size)] = random_.randrange(256)
    elif kind == "tail byte":
        for _ in range(random_.choice((1, 1, 2, 8))):
            data[size - 1 - random_.randrange(min(size, 1500))] = random_.randrange(256)
    elif kind == "postscript":
        data[size - 1 - random_.randrange(min(size, 30))] = random_.randrange(256)
    elif kind == "cut":
        del data[place:]
    elif kind == "drop":
        del data[place : place + length]
    elif kind == "insert":
        data[place:place] = random_.randbytes(length)
    elif kind == "zero":
        data[place : place + length] = bytes(length)
    elif kind == "swap":
        other = random_.randrange(size - length + 1)
        first, second = data[place : place + length], data[other : other + length]
        data[place : place + length] = second
        data[other : other + length] = first
    elif kind == "repeat":
        data[place:place] = data[place : place + length]
    else:  # a piece of the file over another place
        other = random_.randrange(size - length + 1)
        data[other : other + length] = data[place : place + length]
    return f"{kind} at {place} of {size}", bytes(data)


def read(path: str, condition: str | None, reader: str) -> pa.Table:
    """The rows that a training would see."""
    where = parse(condition) if condition else None
    spec = ReadSpec((path,), COLUMNS, 100, where=where, reader=reader)  # type: ignore[arg-type]
    if reader == "native":
        return _read_native(spec)
    made = plan(spec)
    found = [batch.rows for batch in batches(Shard.of(spec, made), 1, _Nobody())]
    return pa.Table.from_batches(found) if found else pa.table({column.name: [] for column in COLUMNS})


def _read_native(spec: ReadSpec) -> pa.Table:
    import tensorflow as tf

    from data.orc import open_reader

    with open_reader(spec) as reader:
        found = []
        try:
            for values, _ in reader.dataset:
                columns = {}
                for column in COLUMNS:
                    value = values[column.name]
                    if isinstance(value, tf.RaggedTensor):
                        splits = value.row_splits.numpy().astype(np.int32)
                        columns[column.name] = pa.ListArray.from_arrays(splits, value.values.numpy())
                    else:
                        columns[column.name] = pa.array(value.numpy())
                found.append(pa.table(columns))
        except tf.errors.OpError as error:
            raise reader.cause(error) from error
    return pa.concat_tables(found)


def outcome(path: str, expected: dict[str | None, pa.Table], checked: bool, reader: str) -> tuple[str, str]:
    """(kind, text) of the file `path`, read with and without a condition."""
    found = []
    for condition, rows in expected.items():
        try:
            same = read(path, condition, reader).to_pydict() == rows.to_pydict()
        except DataError as error:
            found.append(("refused" if path in str(error) else "unnamed", str(error)))
        except BaseException as error:
            found.append(("error", f"{type(error).__name__}: {error}"))
        else:
            found.append(("same" if same else "wrong" if checked else "undetected", ""))
    return min(found, key=lambda one: one[0] in _FINE)


class _Nobody:
    def reading(self, part: object) -> None:
        pass

    def read(self, part: object) -> None:
        pass


class Bases:
    """The files that are mutated, in `folder`."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.names = [f"{writer}-{codec}" for writer in WRITERS for codec in CODECS]
        table = samples()
        for name in self.names:
            if not (folder / f"{name}.orc").exists():
                write_base(str(folder / f"{name}.orc"), *name.split("-"), table)

    def mutated(self, number: int) -> tuple[str, str, bytes]:
        """(base, mutation, content) of mutated file `number`."""
        name = self.names[number % len(self.names)]
        mutation, content = mutate((self.folder / f"{name}.orc").read_bytes(), random.Random(number))
        return name, mutation, content


def outcomes(numbers: Sequence[int], reader: str = "tfio") -> Iterator[Outcome]:
    """What comes of the mutated files with these numbers; a crash or hang ends only the process that tries them."""
    with tempfile.TemporaryDirectory() as folder:
        bases = Bases(Path(folder))
        todo = collections.deque(numbers)
        while todo:
            with _Worker(folder, reader) as worker:
                worker.send(list(todo))
                worker.wait_until_ready()
                while todo:
                    found = worker.next()
                    number = todo.popleft()
                    base, mutation, _ = bases.mutated(number)
                    if isinstance(found, str):
                        kind, text = found, worker.last_words()
                        if kind == "crash" and reader == "tfio" and not _has_checksums(base):
                            kind, text = _beside_a_trainer(folder, number)
                        yield Outcome(number, base, mutation, kind, text)
                        break
                    yield Outcome(number, base, mutation, *found)


class _Worker:
    """A process that tries one mutated file after the other."""

    def __init__(self, folder: str, reader: str):
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed in __exit__
        command = [sys.executable, "-m", "tests.data.mutated_files", "0", "--worker", folder, "--reader", reader]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            cwd=Path(__file__).resolve().parents[2],
        )
        self._selector = selectors.DefaultSelector()
        assert self._process.stdout is not None
        self._selector.register(self._process.stdout, selectors.EVENT_READ)

    def send(self, numbers: list[int]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(numbers).encode() + b"\n")
        self._process.stdin.flush()

    def wait_until_ready(self) -> None:
        found = self._line(_START_SECONDS)
        if found != ("ready", ""):
            raise RuntimeError(f"the worker did not start: {found}; {self.last_words()}")

    def next(self) -> tuple[str, str] | str:
        """(kind, text) of the next file, or "crash" or "hang"."""
        return self._line(_HANG_SECONDS)

    def _line(self, seconds: float) -> tuple[str, str] | str:
        assert self._process.stdout is not None
        if not self._selector.select(seconds):
            return "hang"
        line = self._process.stdout.readline()  # lines are short and written at once
        if not line.endswith(b"\n"):
            return "crash"
        kind, text = json.loads(line)
        return kind, text

    def last_words(self) -> str:
        """How the process ended, and the end of what it said."""
        code = self._process.poll()
        if code is None:
            self._process.kill()
        code = self._process.wait()
        self._errors.seek(0)
        return f"status {code}: {self._errors.read()[-600:].decode(errors='replace')}"

    def __enter__(self) -> _Worker:
        return self

    def __exit__(self, *error: object) -> None:
        self._selector.close()
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            assert stream is not None
            stream.close()


def _has_checksums(base: str) -> bool:
    return base.startswith("ours")


def _beside_a_trainer(folder: str, number: int) -> tuple[str, str]:
    """What a trainer sees whose reader process crashes: (kind, text)."""
    command = [sys.executable, "-m", "tests.data.mutated_files", "1", "--first", str(number), "--trainer", folder]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=Path(__file__).resolve().parents[2], timeout=300, check=False
    )
    if done.returncode != 0:
        return "crash", f"of the trainer, status {done.returncode}: {done.stderr[-600:]}"
    return "contained" if done.stdout.startswith("contained") else "unnamed", done.stdout


def _train(folder: str, number: int) -> None:
    """Reads mutated file `number` as a trainer does and prints whether the error names it."""
    from ps_cluster.quiet import import_tensorflow

    tf = import_tensorflow(gpu=False)
    from data.orc import open_reader

    path = os.path.join(folder, f"crashing-{number}.orc")
    Path(path).write_bytes(Bases(Path(folder)).mutated(number)[2])
    found = []
    for condition in (None, WHERE):
        spec = ReadSpec((path,), COLUMNS, 100, where=parse(condition) if condition else None)
        try:
            with open_reader(spec) as reader:
                try:
                    for _ in reader.dataset:
                        pass
                except tf.errors.OpError as error:
                    raise reader.cause(error) from error
        except (DataError, RuntimeError) as error:
            found.append(str(error))
    named = bool(found) and all(path in text for text in found)
    print("contained:" if named else "not named:", found, flush=True)


def _work(folder: str, reader: str) -> None:
    results = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what libraries print is no result
    if reader == "native":
        from ps_cluster.quiet import import_tensorflow

        import_tensorflow(gpu=False)
    else:
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    faulthandler.enable()
    bases = Bases(Path(folder))
    expected: dict[str | None, pa.Table] = {
        condition: read(str(bases.folder / "ours-zstd.orc"), condition, "tfio") for condition in (None, WHERE)
    }
    path = os.path.join(folder, f"mutated-{os.getpid()}.orc")
    if reader == "native":
        read(str(bases.folder / "ours-zstd.orc"), None, reader)  # the first time takes seconds
    print(json.dumps(["ready", ""]), file=results, flush=True)
    for number in json.loads(sys.stdin.readline()):
        base, _, content = bases.mutated(number)
        if str(number) == os.environ.get("MUTATED_FILES_CRASH_AT"):  # for the test of the watchdog
            os.abort()
        if str(number) == os.environ.get("MUTATED_FILES_HANG_AT"):
            time.sleep(3600)
        Path(path).write_bytes(content)
        kind, text = outcome(path, expected, _has_checksums(base), reader)
        print(json.dumps([kind, text[:1000]]), file=results, flush=True)


def main() -> int:
    """Tries mutated files, prints counts and what went wrong; returns 1 when anything did."""
    parser = argparse.ArgumentParser(prog="python -m tests.data.mutated_files")
    parser.add_argument("count", type=int)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--reader", choices=("tfio", "native"), default="tfio")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--trainer", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.trainer:
        _train(args.trainer, args.first)
        return 0
    if args.worker:
        _work(args.worker, args.reader)
        return 0
    started = time.monotonic()
    counts: collections.Counter[tuple[str, str]] = collections.Counter()
    bad: list[dict[str, Any]] = []
    for one in outcomes(range(args.first, args.first + args.count), args.reader):
        counts[one.base, one.kind] += 1
        if not one.fine:
            bad.append(asdict(one))
            print(f"number {one.number}: {one.base}: {one.mutation}: {one.kind}: {one.text}", flush=True)
    kinds = sorted({kind for _, kind in counts})
    print(f"{'':16}" + "".join(f"{kind:>12}" for kind in kinds))
    for base in dict.fromkeys(base for base, _ in counts):
        print(f"{base:16}" + "".join(f"{counts[base, kind]:12,}" for kind in kinds))
    print(f"{args.count:,} mutated files in {time.monotonic() - started:.0f} s, {len(bad)} went wrong")
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
