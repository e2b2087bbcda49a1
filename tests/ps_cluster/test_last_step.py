"""The last finished step is found again, or nothing is."""

from __future__ import annotations

from pathlib import Path

from ps_cluster.train.last_step import LastStep, LastStepFile


def test_the_newest_step_is_read_by_the_next_process(tmp_path: Path) -> None:
    path = str(tmp_path / "last-step")
    file = LastStepFile(path)
    assert file.read() is None
    for step in (1, 2, 2**40):
        file.write(LastStep(step, 32 * step, 7, 3))
    file.close()
    again = LastStepFile(path)
    assert again.read() == LastStep(2**40, 2**45, 7, 3)
    again.close()
    again.close()


def test_a_damaged_or_cut_file_counts_as_none(tmp_path: Path) -> None:
    path = tmp_path / "last-step"
    file = LastStepFile(str(path))
    file.write(LastStep(5, 160, 0, 0))
    raw = path.read_bytes()
    for place in range(len(raw)):
        path.write_bytes(raw[:place] + bytes([raw[place] ^ 1]) + raw[place + 1 :])
        assert file.read() is None
        path.write_bytes(raw[:place])
        assert file.read() is None
    path.write_bytes(raw)
    assert file.read() == LastStep(5, 160, 0, 0)
    file.close()
