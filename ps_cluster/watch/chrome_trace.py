"""From TensorFlow's profile (`*.xplane.pb`) to the JSON that chrome://tracing and Perfetto open."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def write_chrome_trace(profile: Path, to: Path) -> int:
    """Writes `to`, gzipped JSON; returns how many events it holds. `profile` needs TensorFlow to be read."""
    from tensorflow.tsl.profiler.protobuf.xplane_pb2 import XSpace

    space = XSpace.FromString(profile.read_bytes())
    beside = to.with_name(f".{to.name}.{os.getpid()}")
    written = 0
    with gzip.open(beside, "wt", encoding="utf-8") as out:
        out.write('{"displayTimeUnit": "ms", "traceEvents": [\n')
        for event in _events(space):
            out.write((",\n" if written else "") + json.dumps(event))
            written += 1
        out.write("\n]}\n")
    beside.replace(to)
    return written


def _events(space: Any) -> Iterator[dict[str, Any]]:
    """Names of processes and threads, then what ran when, in microseconds since the first event."""
    begun = min((line.timestamp_ns for plane in space.planes for line in plane.lines if line.events), default=0)
    for number, plane in enumerate(space.planes):
        if not any(line.events for line in plane.lines):
            continue
        yield {"ph": "M", "pid": number, "name": "process_name", "args": {"name": plane.name}}
        for line in plane.lines:
            thread = line.display_id or line.id
            name = line.display_name or line.name
            yield {"ph": "M", "pid": number, "tid": thread, "name": "thread_name", "args": {"name": name}}
            offset = (line.timestamp_ns - begun) / 1e3
            for event in line.events:
                meta = plane.event_metadata[event.metadata_id]
                yield {
                    "ph": "X",
                    "pid": number,
                    "tid": thread,
                    "name": meta.display_name or meta.name,
                    "ts": offset + event.offset_ps / 1e6,
                    "dur": event.duration_ps / 1e6,
                }
