"""Events of a run as TensorBoard scalars."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_TRAIN = (
    "loss",
    "auc",
    "calibration",
    "gradient_norm",
    "staleness",
    "samples_per_second",
    "learning_rate_factor",
    "epoch",
    "mfu",
)


class ScalarWriter:
    """Writes the figures of events into event files in `folder`, which is made when missing.

    Scalars by step: `train/{loss,auc,calibration,gradient_norm,staleness,samples_per_second,learning_rate_factor,
    epoch,mfu}`, `step_seconds/PART` (of a step, mean over workers and window) and `experts/{active,penalty}` from step
    events, `checkpoint/{pause_seconds,size_bytes}` from checkpoints; `next_file/{auc,log_loss}` and
    `train/freshness_seconds` where a folder is followed; at the last step `test/{auc,log_loss,calibration}`
    from the evaluation and `tables/NAME/{rows,bytes}` from the tables. TensorFlow is imported when the first writer is
    made.
    """

    def __init__(self, folder: str):
        import tensorflow as tf

        self._tf = tf
        self._writer = tf.summary.create_file_writer(folder)
        self._step = 0

    def handle(self, event: Mapping[str, Any]) -> None:
        """Write the figures of an event; those that are null, and kinds without figures, write nothing."""
        if event["event"] == "step":
            self._step = event["step"]
        # On this machine's CPU whatever the device scope of the caller: a PS cannot reach the folder.
        with self._tf.device("CPU:0"), self._writer.as_default():
            for name, value in _scalars(event):
                if value is not None:
                    self._tf.summary.scalar(name, float(value), self._step)
        if event["event"] != "phase":
            self._writer.flush()

    def close(self) -> None:
        """Write out what is held; may be called again."""
        self._writer.close()

    def __enter__(self) -> ScalarWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _scalars(event: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    if event["event"] == "step":
        for name in _TRAIN:
            yield f"train/{name}", event.get(name)
        workers, steps = event.get("step_time", []), event.get("window_steps", 0)
        for part in workers[0] if workers and steps else ():
            yield f"step_seconds/{part}", sum(one[part] for one in workers) / len(workers) / steps
        for name in ("active", "penalty") if event.get("experts") else ():
            yield f"experts/{name}", event["experts"][name]
        if event.get("newest_event_time") is not None:
            yield "train/freshness_seconds", event["time"] - float(event["newest_event_time"])
    elif event["event"] == "file":
        for name in ("auc", "log_loss"):
            yield f"next_file/{name}", event.get(name)
    elif event["event"] == "checkpoint":
        for name in ("pause_seconds", "size_bytes"):
            yield f"checkpoint/{name}", event[name]
    elif event["event"] == "evaluation":
        for name in ("auc", "log_loss", "calibration"):
            yield f"test/{name}", event.get(name)
    elif event["event"] == "tables":
        for table in event["tables"]:
            for name in ("rows", "bytes"):
                yield f"tables/{table['name']}/{name}", table[name]
