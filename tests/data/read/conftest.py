"""Files that several tests read."""

import numpy as np
import pyarrow as pa
import pytest

from data.orc_writer import OrcWriter, Settings
from tests.data import orc_files

pytest.register_assert_rewrite("tests.data.read.both_readers")


@pytest.fixture(scope="module")
def two_files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("two files")
    a = orc_files.numbered(folder / "a.orc", [400, 30, 250])
    b = orc_files.numbered(folder / "b.orc", [1, 310, 90, 90, 90], start=680)
    return a, b


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("a folder")
    a = orc_files.numbered(folder / "a.orc", [40, 3, 25])
    b = orc_files.numbered(folder / "b.orc", [1, 31], start=68)
    return (a, b)


@pytest.fixture
def checked(tmp_path):
    """Three stripes of 50 rows, with checksums."""
    path = f"{tmp_path}/checked.orc"
    score = pa.array([None if i % 10 == 0 else i / 4 for i in range(150)], pa.float32())
    table = pa.table({"id": np.arange(150), "score": score, "label": np.arange(150) % 2})
    with OrcWriter(path, table.schema, settings=Settings(stripe_rows=50)) as writer:
        writer.write(table)
    return path
