"""A shard's file: what one program writes another reads, and nothing that is changed passes."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from ops.shards import BlockKind, check_shard, embeddings_of, owners_overlap, pack_table, read_blocks, read_header
from tests.ops.files.shard_bytes import ROWS, Part, bloom_part, crc32c, parsed, pieces, removed_part, rows_part
from tests.ops.reference import owner_of

TEXT = '{"table": "item"}'
RANDOM = np.random.default_rng(0)
META = RANDOM.integers(0, 1 << 32, [3, 3], np.uint32)
BYTES = RANDOM.integers(0, 256, [3, 12], np.uint8)
NO_HOURS = META * np.array([1, 1, 0], np.uint32)
PARTS = [
    removed_part([-1, 1 << 62]),
    rows_part(0, [7], META[:1], BYTES[:1, :0]),
    rows_part(1, [1, -2, 3], NO_HOURS, BYTES),
    rows_part(2, [4, 5], META[:2], BYTES[:2, :8]),
    bloom_part([(0, b"\1\2\3"), (4095, b"\4\5\6")]),
]
WHOLE = b"".join(pieces(TEXT, PARTS, delta=True))


def write(folder: Path, content: bytes, name: str = "item.table") -> str:
    (folder / name).write_bytes(content)
    return str(folder / name)


def refused(path: str) -> str:
    """What is said of a file that is not whole; it starts with the file's name."""
    with pytest.raises(tf.errors.DataLossError) as error:
        check_shard(path)
    message = str(error.value.message).removesuffix(" [Op:PsClusterCheckShard]")
    assert f"{path}: " in message
    return message[message.index(path) + len(path) + 2 :]


def test_every_block_is_read_as_it_was_meant(tmp_path: Path) -> None:
    path = write(tmp_path, WHOLE)
    assert read_header(path) == (TEXT, True)
    removed, counted, narrow, wide, bloom = read_blocks(path)
    assert removed.kind == BlockKind.REMOVED
    assert removed.keys.tolist() == [-1, 1 << 62]
    for block, row_class, keys, meta, rows in (
        (counted, 0, [7], META[:1], BYTES[:1, :0]),
        (narrow, 1, [1, -2, 3], NO_HOURS, BYTES),
        (wide, 2, [4, 5], META[:2], BYTES[:2, :8]),
    ):
        assert (block.kind, block.row_class, block.keys.tolist()) == (BlockKind.ROWS, row_class, keys)
        np.testing.assert_array_equal(block.meta, meta)
        np.testing.assert_array_equal(block.rows, rows)
    assert bloom.kind == BlockKind.BLOOM
    assert bloom.keys.tolist() == [0, 4095]
    rows, counted_keys, removed_keys, segments, length, _ = check_shard(path).numpy().tolist()
    assert (rows, counted_keys, removed_keys, segments, length) == (5, 1, 2, 2, len(WHOLE))


def test_the_digest_is_another_when_anything_is(tmp_path: Path) -> None:
    digests = set()
    files = [pieces(TEXT, PARTS), pieces(TEXT, PARTS, True), pieces(TEXT + " ", PARTS), pieces(TEXT, PARTS[::-1])]
    changed = [*PARTS[:-1], bloom_part([(0, b"\1\2\3"), (4095, b"\4\5\7")])]
    for file in [*files, pieces(TEXT, changed), pieces(TEXT, [])]:
        digests.add(int(check_shard(write(tmp_path, b"".join(file)))[5]))
    assert len(digests) == 6


def test_every_changed_byte_is_found(tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    for place in range(len(WHOLE)):
        changed = bytearray(WHOLE)
        changed[place] ^= int(random.integers(1, 256))
        refused(write(tmp_path, bytes(changed)))


def test_a_file_that_is_cut_anywhere_is_found(tmp_path: Path) -> None:
    for length in range(len(WHOLE)):
        assert "cut off" in refused(write(tmp_path, WHOLE[:length]))
    assert "expected the file to end at" in refused(write(tmp_path, WHOLE + b"\0"))


def test_blocks_that_are_missing_swapped_or_strange_are_named(tmp_path: Path) -> None:
    head, *blocks = pieces(TEXT, PARTS)
    for one, other in itertools.combinations(range(len(blocks)), 2):
        swapped = list(blocks)
        swapped[one], swapped[other] = swapped[other], swapped[one]
        message = refused(write(tmp_path, head + b"".join(swapped)))
        assert message.startswith(f"block {one} at byte ")
        assert f"missing or swapped: found block {other} in its place" in message
    for gone in range(len(blocks) - 1):
        message = refused(write(tmp_path, head + b"".join(blocks[:gone] + blocks[gone + 1 :])))
        assert f"block {gone} at byte" in message
        assert f"found block {gone + 1} in its place" in message
    strange = pieces(TEXT.replace("item", "user"), PARTS)[3]
    message = refused(write(tmp_path, head + b"".join([*blocks[:2], strange, *blocks[3:]])))
    assert message.startswith("block 2 at byte")
    assert "or a block of another file" in message


@pytest.mark.parametrize(
    "part",
    [
        Part(ROWS, 1, False, 8, 2, b"\0" * 47),
        Part(9, 0, False, 0, 0, b""),
        Part(2, 0, False, 0, 2, b"\0" * 8),
        Part(3, 0, False, 0, 1, b"\0\0\0\0\\9\0\0\0"),
        Part(ROWS, 1, False, 0xFFFFFFFF, 1 << 60, b"\0" * 16),
    ],
)
def test_blocks_with_right_checksums_and_wrong_lengths_are_refused(tmp_path: Path, part: Part) -> None:
    assert refused(write(tmp_path, b"".join(pieces(TEXT, [part])))).startswith("block 0 at byte ")


def test_another_version_and_a_missing_file_are_named(tmp_path: Path) -> None:
    head = b"PSCTABLE" + (3).to_bytes(4, "little") + bytes(8)
    message = refused(write(tmp_path, head + crc32c(head).to_bytes(4, "little")))
    assert message == "header: expected format version 2, found 3"
    with pytest.raises(tf.errors.NotFoundError, match=r"gone\.table: missing"):
        check_shard(str(tmp_path / "gone.table"))
    with pytest.raises(tf.errors.NotFoundError, match=r"gone\.table: missing"):
        list(read_blocks(str(tmp_path / "gone.table")))


def test_what_is_written_is_what_the_format_says(tmp_path: Path) -> None:
    keys, rows, steps = tfra_files(tmp_path, 5, dim=3, slots=1)
    steps[2] = 0  # a row that was never written
    rows[:, 7] = steps.view(np.float32)
    rows.tofile(tmp_path / "values")
    target = str(tmp_path / "item.table")
    totals = pack_table(str(tmp_path / "keys"), str(tmp_path / "values"), target, TEXT, 3, 1).numpy().tolist()
    content = Path(target).read_bytes()
    text, delta, (part,) = parsed(content)
    kept = np.array([0, 1, 3, 4])
    meta = np.stack([steps, rows[:, 6].view(np.uint32), 0 * steps], axis=1)[kept]
    want = rows_part(1, keys[kept].tolist(), meta, rows[kept, :6].view(np.uint8).reshape(4, 24))
    assert (text, delta, part) == (TEXT, False, want)
    assert totals == check_shard(target).numpy().tolist() == [4, 0, 0, 0, len(content), totals[5]]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["item.table"]


def test_many_rows_become_several_blocks(tmp_path: Path) -> None:
    keys, rows, _ = tfra_files(tmp_path, 300_000, dim=8, slots=0)
    target = str(tmp_path / "item.table")
    totals = pack_table(str(tmp_path / "keys"), str(tmp_path / "values"), target, TEXT, 8, 0)
    blocks = list(read_blocks(target))
    assert len(blocks) > 2
    assert all(block.rows.nbytes <= 4 << 20 for block in blocks)
    np.testing.assert_array_equal(np.concatenate([block.keys for block in blocks]), keys)
    found = np.concatenate([embeddings_of(block.rows, 8, "float32") for block in blocks])
    np.testing.assert_array_equal(found, rows[:, :8])
    assert int(totals[0]) == 300_000


def test_a_file_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    tfra_files(tmp_path, 5, dim=3, slots=1)
    (tmp_path / "values").write_bytes(b"\0" * 7)
    with pytest.raises(tf.errors.DataLossError, match="values: expected 160 bytes"):
        pack_table(str(tmp_path / "keys"), str(tmp_path / "values"), str(tmp_path / "item.table"), TEXT, 3, 1)
    assert list(tmp_path.iterdir()) == []


def tfra_files(folder: Path, n: int, dim: int, slots: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Keys, packed rows, last steps, as TFRA writes them to `keys` and `values`."""
    random = np.random.default_rng(n)
    keys = random.permutation(n).astype(np.int64) - n // 2
    rows = random.normal(size=[n, dim * (1 + slots) + 2]).astype(np.float32)
    steps = random.integers(1, 1000, n).astype(np.uint32)
    rows[:, -2] = random.integers(1, 1000, n).astype(np.uint32).view(np.float32)
    rows[:, -1] = steps.view(np.float32)
    keys.tofile(folder / "keys")
    rows.tofile(folder / "values")
    return keys, rows, steps


@pytest.mark.parametrize(("value_type", "dtype"), [("float32", "<f4"), ("float16", "<f2")])
def test_embeddings_of_rows(value_type: str, dtype: str) -> None:
    values = RANDOM.normal(size=[4, 3]).astype(dtype)
    rows = np.concatenate([values.view(np.uint8).reshape(4, -1), RANDOM.integers(0, 255, [4, 10], np.uint8)], axis=1)
    np.testing.assert_array_equal(embeddings_of(rows, 3, value_type), values.astype(np.float32))


def test_bfloat16_embeddings_are_the_upper_half_of_a_float32() -> None:
    values = tf.cast(tf.constant(RANDOM.normal(size=[4, 3]), tf.float32), tf.bfloat16)
    rows = tf.bitcast(values, tf.uint8).numpy().reshape(4, 6)
    np.testing.assert_array_equal(embeddings_of(rows, 3, "bfloat16"), tf.cast(values, tf.float32).numpy())


def test_two_owners_overlap_where_a_key_has_both() -> None:
    keys = range(3000)
    for num_ps, num_others in ((4, 3), (3, 1), (2, 4), (5, 5)):
        both = {(owner_of(key, 5, num_ps), owner_of(key, 5, num_others)) for key in keys}
        for ps, other in itertools.product(range(num_ps), range(num_others)):
            assert owners_overlap(ps, num_ps, other, num_others) == ((ps, other) in both)
