"""The manifest of a checkpoint: written last, it makes the checkpoint exist and says what its files hold."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ops.shards import StoredRows
from ps_cluster.errors import UserError

FORMAT_VERSION = 3
_WITHOUT_TRAINING = 2
"""A format that says nothing of where training stood: such checkpoints can be read, but not resumed from."""

MANIFEST = "manifest.json"


@dataclass(frozen=True)
class Shard:
    """The file of one PS: its path below the checkpoint's folder, its PS, what is in it, by what it is known whole."""

    file: str
    ps: int
    num_ps: int
    rows: int
    counted_keys: int
    removed: int
    bloom_segments: int
    bytes: int
    digest: int


@dataclass(frozen=True)
class StoredTable:
    """A table in a checkpoint: how its rows are stored, the salt of its keys' hashes, its files.

    is_delta: the files hold what changed since the base.
    """

    name: str
    engine: str
    dims: tuple[int, ...]
    value_type: str
    optimizer: str
    slots: int
    decayed_frequencies: bool
    salt: int
    is_delta: bool
    shards: tuple[Shard, ...]

    @property
    def stored_rows(self) -> StoredRows:
        return StoredRows(self.dims, self.value_type, self.slots, self.decayed_frequencies)

    @property
    def bytes(self) -> int:
        return sum(shard.bytes for shard in self.shards)


@dataclass(frozen=True)
class DenseFile:
    """The file of the dense weights, and by what it is known whole (CRC-32)."""

    file: str
    bytes: int
    crc32: int


@dataclass(frozen=True)
class Base:
    """The checkpoint that a delta is based on: its step, and the CRC-32 of its manifest."""

    step: int
    crc32: int


@dataclass(frozen=True)
class Manifest:
    """What a checkpoint is.

    base: of a delta. trained: what of the job gives the files their meaning (`ps_cluster.train.trained_job`).
    sampling: rates by which the training rows were sampled (`ps_cluster.job.sampling`); None when they were not.
    training: where training stood (`ps_cluster.train.state`); None: it cannot be resumed from here.
    """

    step: int
    base: Base | None
    trained: dict[str, Any]
    sampling: dict[str, Any] | None
    dense: DenseFile
    tables: tuple[StoredTable, ...]
    training: dict[str, Any] | None = None
    format_version: int = FORMAT_VERSION

    @property
    def bytes(self) -> int:
        """Of all files but the manifest."""
        return self.dense.bytes + sum(table.bytes for table in self.tables)

    def text(self) -> str:
        """The one way to write it: whatever else is read has been changed since."""
        return json.dumps({**json.loads(json.dumps(self._content())), "crc32": self.crc32()}, indent=1)

    def crc32(self) -> int:
        return zlib.crc32(json.dumps(self._content(), indent=1).encode())

    def _content(self) -> dict[str, Any]:
        content = {"format_version": self.format_version, **asdict(self)}
        if self.format_version == _WITHOUT_TRAINING:
            del content["training"]
        return content


def parse(raw: bytes, path: str) -> Manifest:
    """The manifest that `raw`, the file at `path`, holds.

    Raises:
      UserError: it is none, is of another format version, or is damaged; one line that starts with `path`.
    """
    try:
        text = raw.decode()
        content = json.loads(text)
        version = content["format_version"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise _damaged(path, error) from error
    if version == 1:
        raise UserError(
            f"{path}: expected format version {FORMAT_VERSION}, found 1, which this release does not read any more; "
            "export such a checkpoint with the release that wrote it, or train again"
        )
    if version not in (FORMAT_VERSION, _WITHOUT_TRAINING):
        raise UserError(f"{path}: expected format version {FORMAT_VERSION}, found {version}")
    try:
        manifest = _manifest_of(content)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _damaged(path, error) from error
    if text != manifest.text():
        raise UserError(f"{path}: damaged: expected a manifest that matches its own CRC-32")
    return manifest


def _damaged(path: str, error: Exception) -> UserError:
    if isinstance(error, KeyError):
        found = f"no field {error.args[0]}"
    elif isinstance(error, ValueError | RecursionError):
        found = f"no JSON: {error}"
    else:
        found = "fields of other names or types"
    return UserError(f"{path}: damaged: expected a checkpoint's manifest, found {found}")


def _manifest_of(content: Mapping[str, Any]) -> Manifest:
    return Manifest(
        step=content["step"],
        base=Base(**content["base"]) if content["base"] is not None else None,
        trained=content["trained"],
        sampling=content["sampling"],
        dense=DenseFile(**content["dense"]),
        tables=tuple(
            StoredTable(
                **{
                    **table,
                    "dims": tuple(table["dims"]),
                    "shards": tuple(Shard(**shard) for shard in table["shards"]),
                }
            )
            for table in content["tables"]
        ),
        training=None if content["format_version"] == _WITHOUT_TRAINING else content["training"],
        format_version=content["format_version"],
    )
