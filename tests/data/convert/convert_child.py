"""A conversion in a process of its own, to be killed: OUT PROCESSES RUN_BYTES SOURCE..."""

import sys

from data.convert import convert as module
from tests.data.convert.log_schema import schema

if __name__ == "__main__":
    out, processes, run_bytes, *sources = sys.argv[1:]
    module._MOST_RUN_BYTES = int(run_bytes)
    print("ready", flush=True)
    module.convert(sources, schema(), out, module.Settings(processes=int(processes)))
