"""Tables of a store into the files of a checkpoint, and back, each PS for itself."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import tensorflow as tf

from ops import shards
from ops.embedding import RowLayout
from ps_cluster.checkpoint import storage
from ps_cluster.checkpoint.finding import Level
from ps_cluster.checkpoint.manifest import Shard, StoredTable
from ps_cluster.embedding import cuckoo
from ps_cluster.errors import RunError, UserError

NATIVE = "native"


@dataclass(frozen=True)
class PlacedTable:
    """A table: its layout, its place in the layout's tuples, its handle on each PS."""

    name: str
    layout: RowLayout
    index: int
    handles: tuple[tf.Tensor, ...]

    @property
    def is_native(self) -> bool:
        return self.layout.engine == NATIVE

    @property
    def salt(self) -> int:
        return self.layout.salts[self.index]

    @property
    def dims(self) -> tuple[int, ...]:
        return tuple(tier.dim for tier in self.layout.tiers)


class TableSaves:
    """Saves and restores tables on `devices`, one for each PS. One save at a time."""

    def __init__(self, tables: Sequence[PlacedTable], devices: Sequence[str]):
        self._tables = tuple(tables)
        self._devices = tuple(devices)
        self._is_delta: dict[str, bool] = {}
        texts = tf.TensorSpec([None], tf.string)
        # Traced once: names of files are given, not built in.
        self._begin_native = {delta: tf.function(self._begun(delta), autograph=False) for delta in (False, True)}
        self._export = tf.function(self._exported, input_signature=[texts, texts], autograph=False)
        self._write = tf.function(self._written, input_signature=[texts, texts], autograph=False)

    def begin(self, folder: str, delta: bool) -> None:
        """Fixes the state that `write` will write; returns when it is fixed.

        Native tables are not copied: they set aside what changes meanwhile. TFRA's tables can only be written out
        whole, which is done here; they are never deltas.
        """
        self._is_delta = {table.name: False for table in self._tables}
        if self._any(native=True):
            deltas = [bool(one) for one in self._begin_native[delta]()]
            if delta and not all(deltas):  # a table has no state that it could differ from
                deltas = [bool(one) for one in self._begin_native[False]()]
            self._is_delta.update({table.name: deltas[0] for table in self._tables if table.is_native})
        if self._any(native=False):
            for table in self._tables:
                storage.make_folder(storage.join(folder, "tables", table.name))
            # A function, and its result fetched: remote eager ops run in the background.
            self._export(
                [storage.join(folder, "tables", table.name) for table, _ in self._parts(native=False)],
                [self._shard(ps) for _, ps in self._parts(native=False)],
            ).numpy()

    def write(self, folder: str, step: int, base_step: int | None) -> tuple[StoredTable, ...]:
        """Writes what `begin` fixed below `folder`; may run beside training, on a thread of its own.

        Raises:
          tf.errors.OpError: a PS could not write.
        """
        parts = [*self._parts(native=True), *self._parts(native=False)]
        if not parts:
            return ()
        files = [f"tables/{table.name}/{self._shard(ps)}.table" for table, ps in parts]
        headers = [json.dumps(self._header(table, ps, step, base_step)) for table, ps in parts]
        totals = self._write([storage.join(folder, file) for file in files], headers).numpy()
        stored: dict[str, list[Shard]] = {}
        for (table, ps), file, numbers in zip(parts, files, totals.tolist()):
            stored.setdefault(table.name, []).append(Shard(file, ps, len(self._devices), *numbers))
        return tuple(
            StoredTable(
                name=table.name,
                engine=table.layout.engine,
                dims=table.dims,
                value_type=table.layout.value_type,
                optimizer=table.layout.optimizer,
                slots=table.layout.slots,
                decayed_frequencies=self._decayed(table),
                salt=table.salt,
                is_delta=self._is_delta[table.name],
                shards=tuple(stored[table.name]),
            )
            for table in self._tables
        )

    def restore(
        self, levels: Mapping[str, Sequence[Level]], mode: str = "state", only_ps: Collection[int] | None = None
    ) -> dict[str, int]:
        """Puts tables of a checkpoint into those of the store, whatever the number of PS was then.

        Args:
          levels: by table, `Checkpoint.levels`.
          mode: as in `ops.shards.restore_table`.
          only_ps: the tables of the other PS stay as they are. Default: all PS.

        Returns:
          Rows by table that the files held; of deltas, rows that changed again count again.

        Raises:
          UserError: a table has rows of another layout.
        """
        tables = [table for table in self._tables if table.name in levels]
        for table in tables:
            for level in levels[table.name]:
                check_layout(level, table.layout, mode)
        found = {table.name: 0 for table in tables}
        for depth in range(max((len(levels[table.name]) for table in tables), default=0)):
            at = [(table, levels[table.name][depth]) for table in tables if depth < len(levels[table.name])]
            rows = iter(tf.function(self._restorer(at, mode, only_ps), autograph=False)())
            for table, level in at:
                for shard in level.table.shards:
                    owners = self._owners(shard, only_ps)
                    restored = sum(int(next(rows)) for _ in owners)
                    if restored != shard.rows and owners == self._owners(shard):
                        raise RunError(f"{level.path(shard)}: expected {shard.rows} rows, restored {restored}")
                    found[table.name] += restored
        return found

    def _begun(self, delta: bool) -> Callable[[], list[tf.Tensor]]:
        def begin() -> list[tf.Tensor]:
            begun = []
            for table, ps in self._parts(native=True):
                with tf.device(self._devices[ps]):
                    begun.append(shards.begin_save(table.handles[ps], delta))
            return begun

        return begin

    def _exported(self, folders: tf.Tensor, names: tf.Tensor) -> tf.Tensor:
        done = []
        for index, (table, ps) in enumerate(self._parts(native=False)):
            folder, name = folders[index], names[index]
            with tf.device(self._devices[ps]), tf.control_dependencies([cuckoo.save(table.handles[ps], folder, name)]):
                done.append(tf.constant(0))
        return tf.add_n(done)

    def _written(self, paths: tf.Tensor, headers: tf.Tensor) -> tf.Tensor:
        totals = []
        for index, (table, ps) in enumerate([*self._parts(native=True), *self._parts(native=False)]):
            path, header = paths[index], headers[index]
            stem = tf.strings.regex_replace(path, r"\.table$", "")
            with tf.device(self._devices[ps]):
                if table.is_native:
                    totals.append(shards.write_table(table.handles[ps], path, header))
                else:
                    keys, values = (tf.strings.join([stem, part]) for part in ("-keys", "-values"))
                    totals.append(shards.pack_table(keys, values, path, header, table.layout.dim, table.layout.slots))
        return tf.stack(totals)

    def _restorer(
        self, at: Sequence[tuple[PlacedTable, Level]], mode: str, only_ps: Collection[int] | None
    ) -> Callable[[], list[tf.Tensor]]:
        def restore() -> list[tf.Tensor]:
            rows = []
            for table, level in at:
                slot_values = () if table.is_native else _first_slot_values(table.layout)
                for shard in level.table.shards:
                    for ps in self._owners(shard, only_ps):
                        with tf.device(self._devices[ps]):
                            rows.append(
                                shards.restore_table(
                                    table.handles[ps],
                                    level.path(shard),
                                    level.table.stored_rows,
                                    table.salt,
                                    ps,
                                    len(self._devices),
                                    mode,
                                    packed_dim=0 if table.is_native else table.layout.dim,
                                    packed_slot_values=slot_values,
                                )
                            )
            return rows

        return restore

    def _owners(self, shard: Shard, only_ps: Collection[int] | None = None) -> list[int]:
        """PS, of `only_ps` where given, that own any key of a file."""
        num_ps = len(self._devices)
        asked = range(num_ps) if only_ps is None else sorted(only_ps)
        return [ps for ps in asked if shards.owners_overlap(ps, num_ps, shard.ps, shard.num_ps)]

    def _parts(self, native: bool) -> list[tuple[PlacedTable, int]]:
        return [(t, ps) for t in self._tables if t.is_native == native for ps in range(len(self._devices))]

    def _any(self, native: bool) -> bool:
        return any(table.is_native == native for table in self._tables)

    def _shard(self, ps: int) -> str:
        return f"ps-{ps:03d}-of-{len(self._devices):03d}"

    def _decayed(self, table: PlacedTable) -> bool:
        return table.layout.evictions[table.index].half_life_steps > 0

    def _header(self, table: PlacedTable, ps: int, step: int, base_step: int | None) -> dict:
        return {
            "table": table.name,
            "step": step,
            "base_step": base_step if self._is_delta[table.name] else None,
            "ps": ps,
            "num_ps": len(self._devices),
            "salt": table.salt,
            "dims": table.dims,
            "value_type": table.layout.value_type,
            "optimizer": table.layout.optimizer,
            "slots": table.layout.slots,
            "decayed_frequencies": self._decayed(table),
        }


def check_layout(level: Level, layout: RowLayout, mode: str = "state") -> None:
    """Returns when a stored table's rows are those that the job expects.

    Raises:
      UserError: they are not; names the folder, the table and what differs.
    """
    stored = level.table
    dims = tuple(tier.dim for tier in layout.tiers)
    if mode == "embeddings":
        if max(stored.dims) > max(dims):
            raise UserError(
                f"{level.folder}: table {stored.name}: expected embeddings of at most {max(dims)} values, found "
                f"{max(stored.dims)}"
            )
        return
    expected = (dims, layout.value_type, layout.optimizer, layout.slots)
    found = (stored.dims, stored.value_type, stored.optimizer, stored.slots)
    if found != expected:
        raise UserError(
            f"{level.folder}: table {stored.name}: expected rows of {_words(*expected[:3])}, found "
            f"{_words(*found[:3])}; the job's table is not the one that was trained"
        )


def _words(dims: Sequence[int], value_type: str, optimizer: str) -> str:
    values = "" if value_type == "float32" else f" {value_type}"
    return f"dim {'/'.join(map(str, dims))}{values} with {optimizer}"


def _first_slot_values(layout: RowLayout) -> tuple[float, ...]:
    """What the slots of a row start from, where not from 0; settings as `ops/cc/table/row_optimizer.h` orders them."""
    if layout.optimizer == "adagrad":
        return layout.optimizer_settings[:1]
    return layout.optimizer_settings[1:2] if layout.optimizer == "ftrl" else ()
