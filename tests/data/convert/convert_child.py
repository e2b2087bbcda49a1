"""A conversion in a process of its own, to be killed or measured: OUT PROCESSES RUN_BYTES SOURCE...

Prints `ready` at its start and its peak memory in kB at its end. More than 100,000 bytes a run: large files too.
"""

import resource
import sys

from data.convert import convert as module
from tests.data.convert.log_schema import schema

if __name__ == "__main__":
    out, processes, run_bytes, *sources = sys.argv[1:]
    module._MOST_RUN_BYTES = int(run_bytes)
    print("ready", flush=True)
    module.convert(
        sources,
        schema(output={"rows_per_file": 300 if int(run_bytes) < 100_000 else 500_000}),
        out,
        module.Settings(processes=int(processes), memory_bytes=64 << 20),
    )
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, flush=True)
