"""What to read: the settings that every reader of samples takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from data.columns import Column
from data.sample.sampling import OFFSET, WEIGHT, Sampling
from data.where import Where


class Position(NamedTuple):
    """A place in the stream of a shard: `row` rows of `epoch` (both from 0) have been delivered."""

    epoch: int = 0
    row: int = 0


_BEGINNING = Position()


@dataclass(frozen=True)
class ReadSpec:
    """What to read. Raises `ValueError` for values that make no sense."""

    paths: tuple[str, ...]
    """ORC files, in the order to be read (`data.paths.expand`)."""
    columns: tuple[Column, ...]
    batch_rows: int
    shard: int = 0
    """This reader's share of the rows is number `shard` of `num_shards` (`data.read.stripes.shard_parts`)."""
    num_shards: int = 1
    epochs: int = 1
    """Passes over the files, all in one stream."""
    shuffle_rows: int = 0
    """Rows are shuffled in windows of this size, and stripes among each other. 0: order of the files. About two
    windows are kept in memory."""
    seed: int = 0
    """Of the shuffling; each epoch has an order of its own."""
    where: Where | None = None
    """Only rows for which it is true are read."""
    sampling: Sampling | None = None
    """Which of those rows are kept, and with what weight; adds the columns `sample_weight` and `sample_offset`."""
    interleave_stripes: int = 8
    """While shuffling, so many stripes (all decoded, in memory) take turns."""
    stripe_slices: int = 1
    """While shuffling, the rows of a stripe are dealt out to so many parts, which come at times of their own: rows that
    lie together are spread over the epoch. The stripe is decoded for each of them."""
    drop_remainder: bool = False
    """Leave out an epoch's last batch when it has fewer than `batch_rows` rows."""
    on_bad: Literal["error", "skip"] = "error"
    """A file, stripe or value that is not as declared: an error, or left out and counted as rows lost."""
    start: Position = _BEGINNING
    """Where to begin: the stream is the rest after this position."""
    reader: Literal["tfio", "native"] = "tfio"
    """`tfio`: a process beside this one decodes, tensorflow-io receives. `native`: an op in this process decodes."""
    decode_threads: int = 0
    """Threads that decode stripes. 0: as many as there are cores, at most 4. The rows do not depend on it."""
    prefetch_batches: int = 0
    """Batches ready in this process. 0: tuned while running."""
    verify_checksums: bool = True
    """Compare what is decoded with the checksums that the files carry; files without any are read as they are."""

    def __post_init__(self) -> None:
        smallest = {
            "batch_rows": 1,
            "num_shards": 1,
            "epochs": 1,
            "shuffle_rows": 0,
            "seed": 0,
            "interleave_stripes": 1,
            "stripe_slices": 1,
            "decode_threads": 0,
            "prefetch_batches": 0,
        }
        for field, least in smallest.items():
            if getattr(self, field) < least:
                raise ValueError(f"{field}: expected at least {least}, found {getattr(self, field)}")
        if not 0 <= self.shard < self.num_shards:
            raise ValueError(f"shard: expected 0 to {self.num_shards - 1}, found {self.shard}")
        if self.start.row < 0 or not 0 <= self.start.epoch <= self.epochs:
            raise ValueError(f"start: expected an epoch from 0 to {self.epochs} and a row, found {self.start}")
        for field, allowed in {"on_bad": ("error", "skip"), "reader": ("tfio", "native")}.items():
            if getattr(self, field) not in allowed:
                raise ValueError(f"{field}: expected one of {', '.join(allowed)}, found {getattr(self, field)!r}")
        names = [column.name for column in self.columns]
        if not names:
            raise ValueError("columns: expected at least one, found none")
        if len(set(names)) != len(names):
            raise ValueError(f"columns: expected names that differ, found {names}")
        if self.sampling is not None and {WEIGHT, OFFSET} & set(names):
            raise ValueError(f"columns: expected none named {WEIGHT} or {OFFSET} with sampling, found {names}")

    @property
    def shuffled(self) -> bool:
        """Whether rows come in another order than that of the files."""
        return self.shuffle_rows > 0

    @property
    def filter_columns(self) -> tuple[str, ...]:
        """Names of the columns that decide whether a row is read, each once."""
        names: dict[str, None] = {}
        for part in (self.where, self.sampling):
            if part is not None:
                names.update(dict.fromkeys(part.columns))
        return tuple(names)
