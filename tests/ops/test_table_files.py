"""A table's files: checksummed where they lie, read back into whichever PS owns a row."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from ops import library
from ops.embedding import file_checksum, restore_table, table_salt
from ps_cluster.embedding import cuckoo
from tests.ops.reference import owner_of
from tests.ops.tables import Group, layout_of


def crc32c(data: bytes) -> int:
    """RFC 3720's CRC, bit by bit."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def write(path: Path, content: bytes) -> str:
    path.write_bytes(content)
    return str(path)


@pytest.mark.parametrize("content", [b"", b"123456789", bytes(range(256)) * 40])
def test_checksum_is_the_crc_32c_of_the_file(tmp_path: Path, content: bytes) -> None:
    length, crc = file_checksum(write(tmp_path / "file", content))
    assert (int(length), int(crc)) == (len(content), crc32c(content))


def test_checksum_covers_files_longer_than_a_block(tmp_path: Path) -> None:
    content = np.random.default_rng(0).bytes((4 << 20) + 3)
    path = write(tmp_path / "file", content)
    whole = [int(value) for value in file_checksum(path)]
    assert whole[0] == len(content)
    for place in (0, (4 << 20) - 1, 4 << 20, len(content) - 1):
        changed = bytearray(content)
        changed[place] ^= 1
        assert int(file_checksum(write(tmp_path / "changed", bytes(changed)))[1]) != whole[1]


def test_checksum_names_what_it_cannot_read(tmp_path: Path) -> None:
    with pytest.raises(tf.errors.NotFoundError, match="gone"):
        file_checksum(str(tmp_path / "gone"))
    with pytest.raises(tf.errors.InvalidArgumentError, match="file: expected one path, found 2"):
        file_checksum(["a", "b"])


def saved(group: Group, folder: Path) -> tuple[str, str]:
    cuckoo.save(group.handles[0], str(folder), "shard")
    return str(folder / "shard-keys"), str(folder / "shard-values")


@pytest.mark.parametrize("rows", [0, 1, 16384, 40_000])
def test_saved_rows_come_back_bit_for_bit(tmp_path: Path, rows: int) -> None:
    group = Group(layout_of(3, "adagrad"))
    keys = np.random.default_rng(1).permutation(rows) * 1_000_003 - 7
    group.push(keys, np.random.default_rng(2).normal(size=[rows, 3]), step=5)
    files = saved(group, tmp_path)
    assert os.path.getsize(files[0]) == 8 * rows
    assert os.path.getsize(files[1]) == 4 * 7 * rows
    other = Group(layout_of(3, "adagrad"))
    assert int(restore_table(other.handles[0], *files, salt=1, ps_index=0, num_ps=1)) == rows
    want, got = group.rows(), other.rows()
    assert want.keys() == got.keys()
    assert all(row.tobytes() == want[key].tobytes() for key, row in got.items())


def test_every_row_goes_to_its_owner_alone(tmp_path: Path) -> None:
    group = Group(layout_of(2))
    keys = np.arange(5000) * 4
    group.push(keys, np.ones([5000, 2]))
    files, salt = saved(group, tmp_path), table_salt("user")
    shards = [Group(layout_of(2)) for _ in range(3)]
    numbers = [
        int(restore_table(shard.handles[0], *files, salt=salt, ps_index=ps, num_ps=3))
        for ps, shard in enumerate(shards)
    ]
    assert sum(numbers) == 5000
    for ps, shard in enumerate(shards):
        assert set(shard.rows()) == {key for key in keys.tolist() if owner_of(key, salt, 3) == ps}


def test_files_that_do_not_belong_together_are_refused(tmp_path: Path) -> None:
    group = Group(layout_of(2))
    handle = group.handles[0]
    keys = write(tmp_path / "keys", np.arange(3, dtype="<i8").tobytes())
    rows = write(tmp_path / "values", np.zeros(8, "<f4").tobytes())
    with pytest.raises(tf.errors.DataLossError, match=r"values: expected 36 bytes for the 3 keys of .*keys, found 32"):
        restore_table(handle, keys, rows, salt=1, ps_index=0, num_ps=1)
    with pytest.raises(tf.errors.DataLossError, match="values: expected"):
        restore_table(handle, write(tmp_path / "odd", bytes(13)), rows, salt=1, ps_index=0, num_ps=1)
    with pytest.raises(tf.errors.NotFoundError, match="gone"):
        restore_table(handle, str(tmp_path / "gone"), rows, salt=1, ps_index=0, num_ps=1)
    with pytest.raises(tf.errors.InvalidArgumentError, match="ps_index: expected a value below 1, found 1"):
        restore_table(handle, keys, rows, salt=1, ps_index=1, num_ps=1)
    with pytest.raises(tf.errors.InvalidArgumentError, match="keys_file: expected one path, found 0"):
        restore_table(handle, tf.zeros([0], tf.string), rows, salt=1, ps_index=0, num_ps=1)
    assert group.size() == 0


def test_a_missing_library_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "PATH", str(tmp_path / "_ops.so"))
    with pytest.raises(FileNotFoundError, match=r"_ops\.so: op library not built; build it with `make env`"):
        library.load.__wrapped__()
