"""Whether the fused block trains what the composed one trains, and how much faster whole jobs are with it.

`movielens` and `synth`: the examples' jobs with `fused: on` and `fused: off`, in turn; one seed by default, three with
`--full`. Ours and theirs are the means of the test AUC with and without, which have to be equal within twice the spread
of a mean over seeds (one seed: 0.005); the ratio is that of the samples per second while training, the median of the
pairs'.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from pathlib import Path

import yaml

from tests.bench.quality import EXAMPLES, run_command, train_example
from tests.bench.reporting import Result, run_cases

_ONE_SEED = 0.005


def fused_against_composed(example: str, samples: list[str], full: bool) -> Result:
    model = yaml.safe_load((EXAMPLES / f"{example}.yaml").read_text())["model"]
    auc: dict[str, list[float]] = {"on": [], "off": []}
    speed: dict[str, list[float]] = {"on": [], "off": []}
    with tempfile.TemporaryDirectory() as folder:
        run_command("data", example, str(Path(folder, "samples")), *samples)
        seeds = (1, 2, 3) if full else (1,)
        for seed in seeds:
            for fused in auc:
                report = train_example(folder, f"{example}.yaml", f"{fused}-{seed}", {**model, "fused": fused}, seed)
                auc[fused].append(report["auc"])
                speed[fused].append(report["samples_per_second"])
    noise = _ONE_SEED
    if len(seeds) > 1:
        noise = 2 * (sum(statistics.variance(found) for found in auc.values()) / len(seeds)) ** 0.5
    ours, theirs = (statistics.mean(auc[fused]) for fused in ("on", "off"))
    return Result(
        case=example,
        ours=ours,
        theirs=theirs,
        unit="AUC",
        ratio=statistics.median(one / other for one, other in zip(speed["on"], speed["off"], strict=True)),
        answers_equal=abs(ours - theirs) <= noise,
        compared=f"{example}: fused against composed block, {len(seeds)} seeds; AUC differs by {ours - theirs:+.4f}, "
        f"noise {noise:.4f}; the ratio is of samples/s, {statistics.median(speed['on']):,.0f} against "
        f"{statistics.median(speed['off']):,.0f}",
    )


if __name__ == "__main__":
    sys.exit(
        run_cases(
            "rankmixer_quality",
            {
                "movielens": lambda full: fused_against_composed("movielens", [], full),
                "synth": lambda full: fused_against_composed(
                    "synth", ["--rows", "2000000" if full else "200000"], full
                ),
            },
        )
    )
