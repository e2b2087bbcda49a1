"""The CUDA kernels of the fused block, run by the emulator, against NumPy in float64."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest

from ops.rankmixer_gpu import ACTIVATIONS, NORMS, BlockError, BlockProblem
from tests.ops.rankmixer_cuda import emulated, reference
from tests.ops.rankmixer_cuda.cases import BOUNDS, EXACT, MODES, NUMPY, Error, error, random_block
from tests.ops.rankmixer_cuda.emulated import run_backward, run_forward
from tests.ops.rankmixer_cuda.reference import Array, BlockArrays

SEED = np.array([3, -4], np.int64)

# Batch, tokens, dim / tokens, hidden / dim: odd rows, rows of one chunk or of several tiles, batches of two tiles.
SHAPES = [
    (1, 1, 1, 1),
    (7, 1, 48, 4),
    (65, 4, 3, 1),
    (7, 4, 8, 4),
    (130, 16, 1, 4),
    (67, 16, 8, 1),
    (33, 4, 48, 1),
    (5, 32, 3, 1),
    (9, 32, 1, 4),
]


@pytest.fixture(autouse=True)
def usual_order() -> Iterator[None]:
    emulated.choose_order(0)
    yield
    emulated.choose_order(0)


def problem_of(shape: tuple[int, int, int, int], mode: tuple[str, bool] = EXACT, **options: object) -> BlockProblem:
    batch, tokens, head, expansion = shape
    dim = tokens * head
    dtype, tf32 = mode
    return BlockProblem(batch, tokens, dim, expansion * dim, dtype=dtype, tf32=tf32, **options)  # type: ignore[arg-type]


def errors(problem: BlockProblem, *, keep: bool = True, misaligned: int = 0) -> dict[str, Error]:
    dy, x, weights = random_block(problem, 1)
    wanted = reference.forward(problem, x, weights, SEED)
    wanted_dx, wanted_weights = reference.backward(problem, dy, x, weights, SEED)
    found = run_forward(problem, x, weights, SEED, keep=keep, misaligned=misaligned)
    kept = found if keep else None
    dx, gradients = run_backward(problem, dy, x, weights, SEED, kept=kept, misaligned=misaligned)
    result = {"y": error(found.y, wanted.y), "dx": error(dx, wanted_dx)}
    if keep:
        result |= {"kept_inner": error(found.inner, wanted.inner), "kept_sum": error(found.sum, wanted.sum)}
    for name in BlockArrays._fields:
        result[f"d{name}"] = error(getattr(gradients, name), getattr(wanted_weights, name))
    return result


def assert_agrees(problem: BlockProblem, **how: object) -> None:
    bound = BOUNDS[problem.dtype, problem.tf32]
    found = errors(problem, **how)  # type: ignore[arg-type]
    assert {name: of for name, of in found.items() if not of.within(bound)} == {}


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode[0] + "_tf32" * mode[1])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_result_and_all_gradients_are_those_of_float64(
    shape: tuple[int, int, int, int], mode: tuple[str, bool]
) -> None:
    # All options with each shape over the dtypes, without every product of both.
    turn = SHAPES.index(shape) + MODES.index(mode)
    activation = ACTIVATIONS[turn % 3]
    for norm in NORMS:
        assert_agrees(problem_of(shape, mode, norm=norm, activation=activation, dropout=0.25 * (turn % 2)))


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("norm", NORMS)
def test_all_options_together_agree_with_float64(norm: str, activation: str) -> None:
    for dropout, keep in itertools.product([0.0, 0.5], [True, False]):
        problem = problem_of((6, 4, 3, 2), norm=norm, activation=activation, dropout=dropout, epsilon=0.125)
        assert_agrees(problem, keep=keep)


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode[0] + "_tf32" * mode[1])
@pytest.mark.parametrize("shape", [(513, 16, 8, 4), (300, 32, 8, 1), (40, 32, 16, 2), (9000, 4, 4, 1)], ids=str)
def test_large_blocks_agree_with_float64(shape: tuple[int, int, int, int], mode: tuple[str, bool]) -> None:
    for norm in NORMS:
        assert_agrees(problem_of(shape, mode, norm=norm, activation="swiglu", dropout=0.1))


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode[0] + "_tf32" * mode[1])
def test_arrays_may_begin_at_any_value(mode: tuple[str, bool]) -> None:
    size = np.dtype(NUMPY[mode[0]]).itemsize
    for norm in NORMS:
        assert_agrees(problem_of((7, 4, 8, 2), mode, norm=norm), misaligned=size)


@pytest.mark.parametrize("norm", NORMS)
def test_an_empty_batch_gives_gradients_of_zero(norm: str) -> None:
    problem = problem_of((0, 4, 8, 2), ("bfloat16", False), norm=norm, dropout=0.5)
    dy, x, weights = random_block(problem, 1)
    found = run_forward(problem, x, weights, SEED)
    assert found.y.shape == (0, 4, 32)
    for kept in (found, None):
        _, gradients = run_backward(problem, dy, x, weights, SEED, kept=kept)
        for array in gradients:
            assert (array == 0).all()


@pytest.mark.parametrize("norm", NORMS)
def test_keeping_or_computing_again_makes_no_difference(norm: str) -> None:
    for shape in [(37, 4, 8, 2), (5, 4, 48, 1)]:
        problem = problem_of(shape, ("bfloat16", False), norm=norm, activation="gelu_tanh", dropout=0.25)
        dy, x, weights = random_block(problem, 2)
        kept = run_forward(problem, x, weights, SEED)
        assert_same([run_forward(problem, x, weights, SEED, keep=False).y], [kept.y])
        dx, gradients = run_backward(problem, dy, x, weights, SEED, kept=kept)
        again_dx, again = run_backward(problem, dy, x, weights, SEED)
        assert_same([dx, *gradients], [again_dx, *again])


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode[0] + "_tf32" * mode[1])
def test_neither_the_order_of_threads_nor_that_of_copies_changes_a_bit(mode: tuple[str, bool]) -> None:
    # More than three steps along each summed dimension: all stages of tiles are used again.
    for norm, shape in [("post_ln", (135, 1, 152, 1)), ("pre_rms", (135, 4, 3, 11))]:
        activation = "swiglu" if shape[1] == 4 else "gelu"
        problem = problem_of(shape, mode, norm=norm, activation=activation, dropout=0.25)
        dy, x, weights = random_block(problem, 3)
        results = []
        for order, late in [(0, True), (1, False), (2, True), (2, False)]:
            emulated.choose_order(order, seed=len(results), late=late)
            kept = run_forward(problem, x, weights, SEED)
            dx, gradients = run_backward(problem, dy, x, weights, SEED, kept=kept)
            results.append([kept.y, kept.inner, kept.sum, dx, *gradients])
        for other in results[1:]:
            assert_same(other, results[0])


def test_a_row_does_not_depend_on_the_others_of_its_batch() -> None:
    problem = problem_of((200, 4, 8, 1), dropout=0.5)
    _, x, weights = random_block(problem, 4)
    whole = run_forward(problem, x, weights, SEED).y
    few = run_forward(problem_of((130, 4, 8, 1), dropout=0.5), x[:130], weights, SEED).y
    assert_same([few], [whole[:130]])


def test_dropout_drops_its_share_and_another_seed_drops_others() -> None:
    problem = problem_of((256, 4, 8, 4), dropout=0.25)
    kept = reference.dropout_scale(problem, SEED) > 0
    other = reference.dropout_scale(problem, SEED + np.array([0, 1])) > 0
    # 131,072 draws: four standard deviations are 0.005.
    assert kept.mean() == pytest.approx(0.75, abs=0.005)
    assert (kept & other).mean() == pytest.approx(0.75**2, abs=0.006)
    for axis in range(3):
        assert (kept & np.roll(kept, 1, axis)).mean() == pytest.approx(0.75**2, abs=0.006)


def test_the_references_gradients_are_those_of_finite_differences() -> None:
    for norm, activation in itertools.product(NORMS, ACTIVATIONS):
        problem = problem_of((3, 2, 2, 2), norm=norm, activation=activation, dropout=0.25)
        dy, x, weights = random_block(problem, 5)
        dx, gradients = reference.backward(problem, dy, x, weights, SEED)

        def loss(arrays: list[Array], problem: BlockProblem = problem, dy: Array = dy) -> float:
            return float((reference.forward(problem, arrays[0], BlockArrays(*arrays[1:]), SEED).y * dy).sum())

        arrays = [x, *weights]
        for index, gradient in enumerate([dx, *gradients]):
            direction = np.random.default_rng(index).standard_normal(gradient.shape)
            step = 1e-5
            ends = [
                loss([a + s * step * direction * (i == index) if i == index else a for i, a in enumerate(arrays)])
                for s in (1, -1)
            ]
            assert (gradient * direction).sum() == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-6, abs=1e-7)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"dim": 30}, "tokens a divisor of dim"),
        ({"batch": -1}, "batch from 0"),
        ({"dropout": 1.0}, "dropout from 0 to below 1"),
        ({"epsilon": float("nan")}, "an epsilon from 0"),
        ({"hidden": 1 << 25}, "too large"),
    ],
)
def test_a_problem_that_cannot_be_is_refused_in_one_line(change: dict[str, float], words: str) -> None:
    fields = {"batch": 2, "tokens": 4, "dim": 32, "hidden": 32, **change}
    with pytest.raises(BlockError, match=words):
        emulated.library().forward_bytes(BlockProblem(**fields))  # type: ignore[arg-type]


def test_an_unknown_option_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="norm: expected one of post_ln, pre_rms, found 'ln'"):
        emulated.library().forward_bytes(BlockProblem(2, 4, 32, 32, norm="ln"))


def test_scratch_memory_that_is_too_small_is_refused() -> None:
    problem = problem_of((2, 4, 8, 1))
    _, x, weights = random_block(problem, 6)

    class Short(type(emulated.library())):  # type: ignore[misc]
        def forward_bytes(self, problem: BlockProblem, *, keep: bool = False) -> int:
            return super().forward_bytes(problem, keep=keep) - 1

    with pytest.raises(BlockError, match="workspace: smaller than"):
        run_forward(problem, x, weights, block=Short(str(emulated.build())))


def test_dropout_without_a_seed_is_refused() -> None:
    problem = problem_of((2, 4, 8, 1), dropout=0.5)
    _, x, weights = random_block(problem, 6)
    with pytest.raises(BlockError, match="seed: expected"):
        run_forward(problem, x, weights)


def assert_same(found: list[Array], wanted: list[Array]) -> None:
    for one, other in zip(found, wanted):
        assert one.dtype == other.dtype and one.tobytes() == other.tobytes()
