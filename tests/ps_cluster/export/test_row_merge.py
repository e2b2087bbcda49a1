"""What changed between two tables, put into the first, gives the second."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ps_cluster.export.ordered_rows import OrderedRows, StoredRows, joined, ordered
from ps_cluster.export.row_merge import MergedRows, changes
from ps_cluster.export.row_types import ROW_TYPES, RowType

KEYS = st.one_of(st.integers(-5, 25), st.sampled_from([-(1 << 63), (1 << 63) - 1]))
TABLES = st.dictionaries(KEYS, st.sampled_from([-1.0, 0.0, 0.5, 2.0]), max_size=25)


def table_of(content: dict[int, float], row_type: RowType) -> OrderedRows:
    keys = np.array(list(content), np.int64)
    rows = np.array([[value, 1.0] for value in content.values()], np.float32).reshape(-1, 2)
    return ordered(StoredRows(lambda: [(keys, rows)], 2, 0.25), row_type, "/nowhere", "table")[0]


@settings(max_examples=150, deadline=None)
@given(TABLES, TABLES, st.sampled_from(ROW_TYPES), st.lists(KEYS, max_size=4))
def test_changes_lead_from_one_table_to_the_other(before: dict, after: dict, row_type: RowType, gone: list) -> None:
    one, other = table_of(before, row_type), table_of(after, row_type)
    found = list(changes(one, other))
    changed = {int(key) for change in found for key in change.changed.keys}
    removed = np.concatenate([change.removed for change in found])
    assert changed == {key for key, value in after.items() if before.get(key) != value}
    assert sorted(removed.tolist()) == sorted(before.keys() - after.keys())
    rows = table_of({key: after[key] for key in changed}, row_type)
    # Keys that came and went between the two are told too.
    removed = np.append(removed, np.array([key for key in gone if key not in after], np.int64))
    merged = MergedRows(one, rows, removed, other.unknown)
    assert merged.num_rows == len(after)
    got, want = (joined([table.unknown, *table.chunks()]) for table in (merged, other))
    for name in ("keys", "hashes", "values", "scales"):
        np.testing.assert_array_equal(getattr(got, name), getattr(want, name))
