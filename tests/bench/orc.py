"""Samples in ORC against what users have today: size, rows per CPU-second, memory, and what conversions cost.

The log is made anew in every run (`tests.bench.orc_samples` says what it is); both sides are measured in one run, in
turn. `--full`: larger logs, more repeats, and the table of all sizes, MovieLens included.
"""

from __future__ import annotations

import sys

from ps_cluster.quiet import import_tensorflow


def main() -> int:
    """Runs the cases asked for."""
    import_tensorflow(gpu=False)
    from tests.bench import orc_convert, orc_memory, orc_reading, orc_shuffle, orc_sizes
    from tests.bench.orc_reading import FIVE
    from tests.bench.orc_samples import Samples
    from tests.bench.reporting import run_cases

    with Samples() as made:
        return run_cases(
            "orc",
            {
                "size_user_vs_tfrecord_strings": lambda full: orc_sizes.text_case(
                    "size_user_vs_tfrecord_strings", made, "user", full
                ),
                "size_time_vs_tfrecord_strings": lambda full: orc_sizes.text_case(
                    "size_time_vs_tfrecord_strings", made, "time", full
                ),
                "size_vs_tfrecord_ints_gzip": lambda full: orc_sizes.integers_gzip_case(
                    "size_vs_tfrecord_ints_gzip", made, full
                ),
                "read_all_vs_tfrecord_strings": lambda full: orc_reading.text_case(
                    "read_all_vs_tfrecord_strings", made, None, full
                ),
                "read_5_columns_vs_tfrecord_strings": lambda full: orc_reading.text_case(
                    "read_5_columns_vs_tfrecord_strings", made, FIVE, full
                ),
                "read_where_vs_tfrecord_strings": lambda full: orc_reading.where_case(
                    "read_where_vs_tfrecord_strings", made, full
                ),
                "read_all_vs_pyarrow": lambda full: orc_reading.decoding_case(
                    "read_all_vs_pyarrow", made, "tfio", "pyarrow", full
                ),
                "native_vs_tfio": lambda full: orc_reading.decoding_case(
                    "native_vs_tfio", made, "native", "tfio", full
                ),
                "shuffle_auc": lambda full: orc_shuffle.case("shuffle_auc", made, full),
                "convert": lambda full: orc_convert.case("convert", made, full),
                "memory": lambda full: orc_memory.case("memory", made, full),
            },
        )


if __name__ == "__main__":
    sys.exit(main())
