"""RankMixer's fused block against TensorFlow's own operations and XLA, and its share of what the machine can do.

`einsum_B_T_D`, `matmul_B_T_D`, `xla_B_T_D`: one block forward and backward in float32, k = 4: CPU time of ours against
the graph that follows the paper with `tf.einsum`, our composed form of batched products, and that form compiled by XLA.
`peak_share_B_T_D`: ours against a large `tf.matmul` in the same run; the block's operations are those of its products,
12 k T D² B. `bf16_vs_f32`: our block in bfloat16 against our block in float32, where the machine multiplies bfloat16 in
tiles (AMX) or pairs (AVX512_BF16). `infer_200`: 200 candidates, two blocks of T = 16, D = 768, wall time against the
better of the composed form and XLA. `experts`: the sum of eight experts a token, a quarter of gates above 0, forward
and backward: the sparse op against the composed form, which computes all. Outputs and gradients of all sides are
compared.
"""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path

from tests.bench.reporting import Result, run_cases

SHAPES = ((512, 16, 128), (512, 16, 768), (64, 32, 256))
EXPANSION = 4
_SECONDS = 12.0
"""Of measuring, a case; `--full`: four times that."""


def against(peer: str, batch: int, tokens: int, dim: int, full: bool) -> Result:
    from tests.bench.rankmixer_sides import Block, compared, interleaved

    block = Block(batch, tokens, dim)
    sides = {"ours": block.fused(), "theirs": block.peer(peer)}
    equal, difference = compared(sides["ours"](), sides["theirs"]())
    times = interleaved(sides, _SECONDS * (4 if full else 1))
    ours, theirs = (times[side] for side in ("ours", "theirs"))
    return Result(
        case=f"{peer}_{batch}_{tokens}_{dim}",
        ours=ours.cpu_ms,
        theirs=theirs.cpu_ms,
        unit="CPU ms",
        ratio=theirs.cpu_ms / ours.cpu_ms,
        answers_equal=equal,
        compared=f"one block, batch {batch}, {tokens} tokens of {dim}, k = {EXPANSION}, forward and backward, float32: "
        f"fused against {peer}, medians of {ours.repeats} interleaved repeats; wall {ours.wall_ms:.1f} against "
        f"{theirs.wall_ms:.1f} ms; outputs and gradients differ by {difference:.1e} of their largest at most",
    )


def peak_share(batch: int, tokens: int, dim: int, full: bool) -> Result:
    from tests.bench.rankmixer_sides import Block, interleaved, large_matmul

    block = Block(batch, tokens, dim)
    product, product_flops = large_matmul("float32")
    times = interleaved({"ours": block.fused(), "theirs": product}, _SECONDS * (4 if full else 1))
    rate = block.flops / times["ours"].cpu_ms / 1e6
    peak = product_flops / times["theirs"].cpu_ms / 1e6
    return Result(
        case=f"peak_share_{batch}_{tokens}_{dim}",
        ours=rate,
        theirs=peak,
        unit="GFLOP per CPU-second",
        ratio=rate / peak,
        answers_equal=True,
        compared=f"one block, batch {batch}, {tokens} tokens of {dim}, k = {EXPANSION}, forward and backward, float32: "
        f"its products' rate against a large tf.matmul's, medians of {times['ours'].repeats} interleaved repeats; "
        f"by wall time {block.flops / times['ours'].wall_ms / 1e6:.0f} against "
        f"{product_flops / times['theirs'].wall_ms / 1e6:.0f} GFLOP/s",
    )


def bf16_vs_f32(full: bool) -> Result:
    from tests.bench.rankmixer_sides import Block, compared, interleaved

    shape = (512, 16, 768)
    narrow, wide = Block(*shape, dtype="bfloat16"), Block(*shape)
    if not {"amx_bf16", "avx512_bf16"} & set(Path("/proc/cpuinfo").read_text().split()):
        return Result("bf16_vs_f32", 0, 0, "CPU ms", 1.0, True, "bfloat16: neither AMX nor AVX512_BF16 here")
    if not narrow.has_fused:
        return Result("bf16_vs_f32", 0, 0, "CPU ms", 0.0, True, "bfloat16: the fused block has no kernel for it")
    sides = {"ours": narrow.fused(), "theirs": wide.fused()}
    equal, difference = compared(sides["ours"](), sides["theirs"](), tolerance=0.03)
    times = interleaved(sides, _SECONDS * (4 if full else 1))
    ours, theirs = (times[side] for side in ("ours", "theirs"))
    return Result(
        case="bf16_vs_f32",
        ours=ours.cpu_ms,
        theirs=theirs.cpu_ms,
        unit="CPU ms",
        ratio=theirs.cpu_ms / ours.cpu_ms,
        answers_equal=equal,
        compared=f"fused block, {shape}, forward and backward: bfloat16 against float32, medians of {ours.repeats} "
        f"interleaved repeats; wall {ours.wall_ms:.1f} against {theirs.wall_ms:.1f} ms; outputs and gradients differ "
        f"by {difference:.3f} of their largest at most (2^-8 is one rounding)",
    )


def infer_200(full: bool) -> Result:
    from tests.bench.rankmixer_sides import Block, compared, interleaved

    stack = Block(200, 16, 768, layers=2, backward=False)
    sides = {"ours": stack.fused(), "composed": stack.peer("matmul"), "xla": stack.peer("xla")}
    answers = {name: side() for name, side in sides.items()}
    checks = [compared(answers["ours"], answers[name]) for name in ("composed", "xla")]
    times = interleaved(sides, _SECONDS * (4 if full else 1))
    ours, best = times["ours"], min((times["composed"], times["xla"]), key=lambda one: one.wall_ms)
    tails = ", ".join(f"{name} {one.wall_ms:.1f} / {one.p99_ms:.1f}" for name, one in times.items())
    return Result(
        case="infer_200",
        ours=ours.wall_ms,
        theirs=best.wall_ms,
        unit="ms p50",
        ratio=best.wall_ms / ours.wall_ms,
        answers_equal=all(equal for equal, _ in checks),
        compared=f"200 candidates through 2 blocks of 16 tokens of 768, k = {EXPANSION}, float32: fused, nothing kept, "
        f"against the better of composed and XLA; p50 / p99 ms: {tails}; {ours.repeats} interleaved repeats; outputs "
        f"differ by {max(difference for _, difference in checks):.1e} of their largest at most",
    )


def experts(full: bool) -> Result:
    from tests.bench.rankmixer_experts import Experts
    from tests.bench.rankmixer_sides import compared, interleaved

    shape = (512, 16, 256, 8)
    quarter, whole = Experts(*shape, active=0.25), Experts(*shape, active=1.0)
    sides = {"ours": quarter.fused(), "theirs": quarter.composed(), "whole": whole.fused()}
    checks = [compared(sides["ours"](), sides["theirs"]()), compared(sides["whole"](), whole.composed()())]
    times = interleaved(sides, _SECONDS * (4 if full else 1))
    ours, theirs, all_active = (times[side] for side in ("ours", "theirs", "whole"))
    return Result(
        case="experts",
        ours=ours.cpu_ms,
        theirs=theirs.cpu_ms,
        unit="CPU ms",
        ratio=theirs.cpu_ms / ours.cpu_ms,
        answers_equal=all(equal for equal, _ in checks),
        compared=f"batch {shape[0]}, {shape[1]} tokens of {shape[2]}, {shape[3]} experts together as wide as k = "
        f"{EXPANSION}, 25 % of gates above 0, forward and backward, float32: the op against the composed form, medians "
        f"of {ours.repeats} interleaved repeats; with all gates above 0 the op takes {all_active.cpu_ms:.0f} CPU ms; "
        f"outputs and gradients differ by {max(difference for _, difference in checks):.1e} of their largest at most",
    )


if __name__ == "__main__":
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    cases = {
        f"{peer}_{batch}_{tokens}_{dim}": partial(against, peer, batch, tokens, dim)
        for peer in ("einsum", "matmul", "xla")
        for batch, tokens, dim in SHAPES
    }
    cases |= {f"peak_share_{b}_{t}_{d}": partial(peak_share, b, t, d) for b, t, d in SHAPES}
    sys.exit(run_cases("rankmixer", {**cases, "bf16_vs_f32": bf16_vs_f32, "infer_200": infer_200, "experts": experts}))
