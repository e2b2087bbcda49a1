"""The events of a small run, as tests tell them."""

from __future__ import annotations

from collections.abc import Iterator

from ps_cluster.report import events

STEP_TIME = {"input": 0.25, "pull": 0, "compute": 0.5, "all_reduce": 0.25, "push": 0, "checkpoint": 0, "other": 0}
USED = {
    "role": "ps",
    "index": 0,
    "seconds": 70.0,
    "cpu_seconds": 20.0,
    "stalled_seconds": 0.5,
    "cpu_limit_cores": 2.0,
    "memory_bytes": 1000,
    "peak_memory_bytes": 2_000_000_000,
    "steps": 1200,
}


def run_events(steps: int = 4, auc: float | None = 0.75) -> Iterator[events.Event]:
    """One epoch on two workers, evaluated, saved and exported."""
    yield events.phase(name="start")
    yield events.start(
        rows=4000,
        test_rows=500,
        steps_total=steps,
        workers=2,
        ps=3,
        dense_parameters=12_345,
        data="train.orc, 1 file, 3.1 MB",
        model="deepfm, hidden 128, 64",
        job="clicks",
        seed=7,
        block="deepfm: one large block",
        peak_flops=2e11,
        sampling={"seed": 7, "rules": [], "replay": None, "newest_time": None},
        epochs=1,
        batch_size=500,
        tables=2,
        settings={"cluster.ps": 3},
    )
    for step in range(1, steps + 1):
        yield events.step(
            step=step,
            epoch=1,
            loss=1 / step,
            auc=0.5 + step / 100,
            samples_per_second=2000.0,
            rows=1000 * step,
            learning_rate_factor=0.5,
            mfu=0.000123 * step,
            calibration=1.25,
            gradient_norm=0.5,
            sparse_bytes=4096,
            window_steps=int(step > 1),
            step_time=[STEP_TIME, {**STEP_TIME, "all_reduce": 0.75}],
        )
    yield events.processes(processes=[USED])
    yield events.phase(name="evaluate", done=0, total=500)
    yield events.phase(name="evaluate", done=500, total=500)
    yield events.evaluation(rows=500, auc=auc, log_loss=0.4321, calibration=1.05)
    yield events.phase(name="save")
    yield events.saved(path="/out put/checkpoint")
    yield events.phase(name="export")
    tables = [{"name": "user", "rows": 1000, "bytes": 64_000}, {"name": "item", "rows": 20, "bytes": 1_280}]
    yield events.tables(tables=tables)
    yield events.exported(path="/out put/saved_model", size_bytes=70_000)
    yield events.done(seconds=75.0, samples_per_second=1990.0, steps=steps, mfu=0.123, flops_per_row=4e6)
