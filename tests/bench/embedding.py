"""The native embedding table against TFRA's cuckoo table, a plain copy of memory or files, or a limit.

`find_W` and `update_W`: keys per CPU-second with rows of W float32, 10 million of them. `step_vs_tfra`: the training
step of `tests.bench.training`. `sums`: what is left of additions that two processes make to the same rows. Cases of
bytes and pauses have a limit on the other side: `ratio` is the limit over what was measured.
"""

from __future__ import annotations

import sys

from ps_cluster.quiet import import_tensorflow


def main() -> int:
    """Runs the cases asked for."""
    import_tensorflow(gpu=False)
    from tests.bench import (
        embedding_files,
        embedding_memory,
        embedding_pause,
        embedding_speed,
        embedding_sums,
        training,
    )
    from tests.bench.reporting import run_cases

    return run_cases(
        "embedding",
        {
            "find_16": lambda full: embedding_speed.find_case("find_16", 16, full),
            "find_48": lambda full: embedding_speed.find_case("find_48", 48, full),
            "find_130": lambda full: embedding_speed.find_case("find_130", 130, full),
            "update_16": lambda full: embedding_speed.update_case("update_16", 16, full),
            "update_48": lambda full: embedding_speed.update_case("update_48", 48, full),
            "update_130": lambda full: embedding_speed.update_case("update_130", 130, full),
            "step_vs_tfra": training.step_vs_tfra,
            "sums": lambda full: embedding_sums.sums_case("sums", full),
            "bytes_per_row": lambda full: embedding_memory.bytes_case("bytes_per_row", full),
            "growth_peak": lambda full: embedding_memory.peak_case("growth_peak", full),
            "pause_growth": lambda full: embedding_pause.growth_case("pause_growth", full),
            "pause_save": lambda full: embedding_pause.save_case("pause_save", full),
            "pause_evict": lambda full: embedding_pause.evict_case("pause_evict", full),
            "save_vs_copy": lambda full: embedding_files.save_case("save_vs_copy", full),
            "restore_vs_copy": lambda full: embedding_files.restore_case("restore_vs_copy", full),
            "delta_size": lambda full: embedding_files.delta_case("delta_size", full),
        },
    )


if __name__ == "__main__":
    sys.exit(main())
