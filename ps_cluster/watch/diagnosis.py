"""Which layer holds training up, asked in a fixed order: data, communication, operators.

The order is that of a long-known rule: while the devices compute for less than 70 % of the time, look at the data first
and whether steps wait for it; then at communication, which should be below 20 %; and only then at operators. What is
said is of the slowest worker, the one that waits least for the others: time for which a worker waits for a slower one
is nobody's cost but the slower one's cause.

A wait is charged to a layer only so far as the processes could have gone on. For a part of the time they may have
wanted to run and got no core, as on a machine that others use too; this part, at its most, is taken off before a wait
is compared with its limit, and is told last, as `cores`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ps_cluster.report.text import size
from ps_cluster.train.step_time import PARTS, StepTime
from ps_cluster.watch.used import Used

DEVICE_USE = 0.7
INPUT_SHARE = 0.15
COMMUNICATION_SHARE = 0.2
CHECKPOINT_SHARE = 0.1
OTHER_SHARE = 0.3
COMPUTE_SHARE = 0.4
BUSY_SHARE = 0.8
"""Of the cores that a PS may use."""
STALLED_SHARE = 0.1
"""Of the time; a process that wants to run and cannot."""
STALLED_MORE = 2.0
"""So many times as long as the worker a PS is kept from running that is short of cores itself."""


@dataclass(frozen=True)
class Figures:
    """What is known of a stretch of training.

    Attributes:
        step_time: Of each worker.
        steps: That `step_time` is of.
        processes: What each process used meanwhile; those that were not asked are missing.
        settings: Of the job file, by their path, as the start of training told them.
        block: How the blocks of a RankMixer are computed, in words.
        mfu: Model FLOPs utilisation.
        exchanged_bytes: Between a worker and the PS in a step.
        dense_parameters: Numbers in the dense weights.
    """

    step_time: Sequence[StepTime]
    steps: int
    processes: Sequence[Used] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    block: str | None = None
    mfu: float | None = None
    exchanged_bytes: int | None = None
    dense_parameters: int | None = None


@dataclass(frozen=True)
class Finding:
    """A layer that holds training up.

    Attributes:
        layer: `input`, `ps`, `link`, `all-reduce`, `checkpoint`, `program`, `operators`, `cores`.
        text: What it is, in a line.
        evidence: Figures, a line each.
        change: Settings of the job file to change, in the order to try them: (path, what to do).
    """

    layer: str
    text: str
    evidence: list[str]
    change: list[tuple[str, str]]


@dataclass(frozen=True)
class Diagnosis:
    """All layers over their limits, in the order to look at them; none: the devices compute, as they should."""

    worker: int
    shares: dict[str, float]
    findings: list[Finding]

    @property
    def verdict(self) -> str:
        """Name of the layer to look at first."""
        return self.findings[0].layer if self.findings else "none"


def diagnose(figures: Figures) -> Diagnosis:
    """Figures must be of at least one step."""
    worker = slowest(figures.step_time)
    total = figures.step_time[worker].total
    shares = {part: value / total for part, value in zip(PARTS, figures.step_time[worker].values())}
    stalls = _Stalls.of(figures.processes, worker)
    layers = (_data, _communication, _rest, _cores)
    return Diagnosis(worker, shares, [finding for layer in layers for finding in layer(figures, shares, stalls)])


@dataclass(frozen=True)
class _Stalls:
    """For which share of the time processes were kept from running: the worker that is looked at, and of the PS the
    one that was most; 0 where nobody told."""

    worker: float
    ps: float

    @classmethod
    def of(cls, processes: Sequence[Used], worker: int) -> _Stalls:
        told = [used for used in processes if used.seconds > 0]
        mine = [_stalled(used) for used in told if (used.role, used.index) == ("worker", worker)]
        return cls(max(mine, default=0.0), max((_stalled(used) for used in told if used.role == "ps"), default=0.0))


def slowest(step_time: Sequence[StepTime]) -> int:
    """The worker that waits least for the others, in the all-reduce and in pushes that wait for all."""
    return min(range(len(step_time)), key=lambda worker: step_time[worker].all_reduce + step_time[worker].push)


def _data(figures: Figures, shares: Mapping[str, float], stalls: _Stalls) -> Iterator[Finding]:
    if shares["compute"] >= DEVICE_USE or shares["input"] - stalls.worker < INPUT_SHARE:
        return
    settings = figures.settings
    change = [("data.decode_threads", f"more than {settings.get('data.decode_threads', 'auto')}, where cores are free")]
    if settings.get("data.reader") != "native":
        change.append(("data.reader", "native: decodes in the trainer, without the way through a socket"))
    if settings.get("data.stripe_slices") != 1:
        change.append(("data.stripe_slices", "fewer: each stripe is decoded once for each of them"))
    change.append(("cluster.workers", "more, on machines of their own: each decodes its share"))
    yield Finding(
        "input",
        "steps wait for samples",
        [_share("waiting for a batch", shares["input"], figures, INPUT_SHARE), _device_use(shares)],
        change,
    )


def _communication(figures: Figures, shares: Mapping[str, float], stalls: _Stalls) -> Iterator[Finding]:
    embeddings, all_reduce = shares["pull"] + shares["push"], shares["all_reduce"]
    ps = [used for used in figures.processes if used.role == "ps" and used.seconds > 0]
    busy = any(_is_busy(used, stalls.worker) for used in ps)
    of_ps = busy and embeddings >= all_reduce
    if embeddings + all_reduce - (0.0 if of_ps else stalls.worker + stalls.ps) < COMMUNICATION_SHARE:
        return
    together = _share("pull, push and all-reduce", embeddings + all_reduce, figures, COMMUNICATION_SHARE)
    if all_reduce > embeddings:
        parameters = figures.dense_parameters
        evidence = [together, _share("all-reduce", all_reduce, figures)]
        if parameters is not None:
            evidence.append(f"{parameters:,} dense parameters, {size(4 * parameters)} of gradients a step")
        yield Finding(
            "all-reduce",
            "steps wait for the sum of the dense gradients",
            evidence,
            [
                ("training.batch_size", "larger: fewer all-reduces for the same rows"),
                ("cluster.workers", "fewer, on larger machines"),
                ("model", "fewer dense weights; ids in tables instead"),
            ],
        )
        return
    evidence = [
        together,
        _share("pull", shares["pull"], figures),
        _share("push", shares["push"], figures),
    ]
    if figures.exchanged_bytes is not None and figures.steps:
        seconds = (embeddings * figures.step_time[slowest(figures.step_time)].total) / figures.steps
        rate = f", {size(figures.exchanged_bytes / seconds)} a second of pull and push" if seconds > 0 else ""
        evidence.append(f"{size(figures.exchanged_bytes)} between a worker and the PS a step{rate}")
    evidence += [_of_ps(used) for used in ps]
    if busy:
        yield Finding(
            "ps",
            "steps wait for a PS that has too little processor time",
            evidence,
            [
                ("cluster.ps", f"more than {figures.settings.get('cluster.ps', len(ps))}: each serves fewer rows"),
                ("cluster", "more cores for the PS, and nothing else on their machines"),
            ],
        )
        return
    change = []
    if figures.settings.get("embeddings.transport") == "float32":
        change.append(("embeddings.transport", "float16: half the bytes"))
    change += [
        ("cluster.ps", "more, each on a link of its own"),
        ("tables", "smaller `dim`, or `tiers`: fewer bytes a row"),
    ]
    evidence.append("no PS is short of processor time" if ps else "no PS told of its processor time")
    yield Finding("link", "steps wait for the network between workers and PS", evidence, change)


def _rest(figures: Figures, shares: Mapping[str, float], stalls: _Stalls) -> Iterator[Finding]:
    if shares["checkpoint"] >= CHECKPOINT_SHARE:
        yield Finding(
            "checkpoint",
            "training stands still for checkpoints",
            [_share("checkpoint", shares["checkpoint"], figures, CHECKPOINT_SHARE)],
            [
                ("checkpoint.every_steps", "larger"),
                ("checkpoint.deltas", "above 0: only what changed between two full ones"),
            ],
        )
    if shares["other"] >= OTHER_SHARE:
        yield Finding(
            "program",
            "time goes between the steps",
            [_share("other", shares["other"], figures, OTHER_SHARE)],
            [
                ("training.batch_size", "larger: fewer steps for the same rows"),
                ("training.log_every_steps", "larger"),
            ],
        )
    composed = (figures.block or "").partition(": ")[2].startswith("composed")
    if composed and shares["compute"] >= COMPUTE_SHARE:
        rank = [_share("compute", shares["compute"], figures), f"block: {figures.block}"]
        if figures.mfu is not None:
            rank.append(f"MFU {figures.mfu:.1%}")
        yield Finding(
            "operators",
            "the model's blocks are computed op by op",
            rank,
            [
                (
                    "model.fused",
                    f"auto or on, found {figures.settings.get('model.fused', 'no kernel')}: one op for a block",
                )
            ],
        )


def _cores(figures: Figures, shares: Mapping[str, float], stalls: _Stalls) -> Iterator[Finding]:
    if stalls.worker < STALLED_SHARE:
        return
    worker = slowest(figures.step_time)
    yield Finding(
        "cores",
        "processes wait for a core: what they wait for each other is longer than it need be",
        [f"worker {worker} could not run for {stalls.worker:.0%} of the time, expected below {STALLED_SHARE:.0%}"],
        [("cluster", "more cores for its processes, or less beside them on their machines")],
    )


def _stalled(used: Used) -> float:
    return used.stalled_seconds / used.seconds


def _is_busy(used: Used, worker_stalled: float) -> bool:
    """worker_stalled: share of the time: a PS that is kept from running no more than the worker is not at fault."""
    cores = max(used.cpu_limit_cores, 1.0)
    limit = max(STALLED_SHARE, STALLED_MORE * worker_stalled)
    return used.cpu_seconds / used.seconds / cores >= BUSY_SHARE or _stalled(used) >= limit


def _of_ps(used: Used) -> str:
    cores = used.cpu_seconds / used.seconds
    return (
        f"ps {used.index} used {cores:.2f} of {used.cpu_limit_cores:g} cores and could not run for "
        f"{used.stalled_seconds / used.seconds:.0%} of the time"
    )


def _device_use(shares: Mapping[str, float]) -> str:
    return f"the device computes for {shares['compute']:.0%} of the time, expected at least {DEVICE_USE:.0%}"


def _share(what: str, share: float, figures: Figures, limit: float | None = None) -> str:
    seconds = share * figures.step_time[slowest(figures.step_time)].total / max(figures.steps, 1)
    expected = f", expected below {limit:.0%}" if limit is not None else ""
    return f"{what}: {share:.0%} of the time, {_seconds(seconds)} a step{expected}"


def _seconds(seconds: float) -> str:
    return f"{1e3 * seconds:.1f} ms" if seconds < 1 else f"{seconds:.2f} s"
