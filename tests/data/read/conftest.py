"""Files that several tests read."""

import pytest

from tests.data import orc_files

pytest.register_assert_rewrite("tests.data.read.both_readers")


@pytest.fixture(scope="module")
def two_files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("two files")
    a = orc_files.numbered(folder / "a.orc", [400, 30, 250])
    b = orc_files.numbered(folder / "b.orc", [1, 310, 90, 90, 90], start=680)
    return a, b
