"""The learning rates' course over the steps."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ps_cluster.job.schema import Schedule
from ps_cluster.train.schedule import Course, rate_factor

DECAYS = ["none", "cosine", "exponential", "linear"]


def course(total: int, **fields: object) -> list[float]:
    return [rate_factor(Schedule(**fields), step, total) for step in range(1, total + 1)]


def test_without_fields_it_is_one_from_the_first_step() -> None:
    assert course(5) == [1.0] * 5


@pytest.mark.parametrize("decay", DECAYS)
def test_warm_up_rises_in_equal_steps_to_one(decay: str) -> None:
    assert course(10, warmup_steps=4, decay=decay, final=0.5)[:4] == [0.25, 0.5, 0.75, 1.0]


@pytest.mark.parametrize(
    ("decay", "formula"),
    [
        ("cosine", lambda p: 0.2 + 0.8 * (1 + math.cos(math.pi * p)) / 2),
        ("exponential", lambda p: math.exp(math.log(0.2) * p)),
        ("linear", lambda p: 1 - 0.8 * p),
    ],
)
@pytest.mark.parametrize("warmup", [0, 3])
@pytest.mark.parametrize("decay_steps", [None, 12])
def test_decay_follows_its_formula_and_then_holds(decay: str, formula, warmup: int, decay_steps: int | None) -> None:
    got = course(20, warmup_steps=warmup, decay=decay, decay_steps=decay_steps, final=0.2)
    end = decay_steps or 20
    for step in range(warmup + 1, 21):
        progress = min(1.0, (step - warmup) / (end - warmup))
        assert got[step - 1] == pytest.approx(formula(progress), rel=1e-12)
    assert got[end - 1 :] == pytest.approx([0.2] * (21 - end), rel=1e-12)


@given(
    st.sampled_from(DECAYS),
    st.integers(0, 30),
    st.one_of(st.none(), st.integers(1, 30)),
    st.floats(1e-3, 1),
    st.integers(1, 30),
)
def test_the_factor_stays_between_zero_and_one_and_falls_after_warm_up(
    decay: str, warmup: int, decay_steps: int | None, final: float, total: int
) -> None:
    got = course(total, warmup_steps=warmup, decay=decay, decay_steps=decay_steps, final=final)
    assert all(0 < factor <= 1 for factor in got)
    assert got[:warmup] == sorted(got[:warmup])
    after = got[max(warmup - 1, 0) :]
    assert all(later <= earlier + 1e-12 for earlier, later in zip(after, after[1:]))
    assert all(factor >= final - 1e-12 for factor in got[warmup:])


def test_warm_up_may_take_all_of_training() -> None:
    assert course(4, warmup_steps=4, decay="linear") == [0.25, 0.5, 0.75, 1.0]
    assert course(4, warmup_steps=8, decay="cosine") == [0.125, 0.25, 0.375, 0.5]


def test_a_decay_of_one_step_is_at_its_end_at_once() -> None:
    assert course(3, decay="linear", decay_steps=1, final=0.5) == [0.5, 0.5, 0.5]


def test_linear_decay_to_zero_ends_at_zero() -> None:
    assert course(4, decay="linear") == [0.75, 0.5, 0.25, 0.0]


@given(st.sampled_from(DECAYS), st.integers(0, 30), st.integers(1, 400), st.integers(0, 400), st.integers(1, 400))
def test_a_decay_that_ends_with_training_does_so_without_a_jump_when_fewer_or_more_steps_are_left(
    decay: str, warmup: int, total: int, done: int, left: int
) -> None:
    schedule = Schedule(decay=decay, warmup_steps=warmup, final=0.1)
    done = min(done, total)
    planned = Course(total)
    course = planned.stretched(schedule, done, left)
    assert course.at(done) == planned.at(done) == done
    if decay != "none":
        assert course.at(done + left) == pytest.approx(total)
    again = course.stretched(schedule, done, left)
    assert again.at(done) == course.at(done)


def test_a_schedule_in_steps_goes_on_step_by_step() -> None:
    schedule = Schedule(decay="linear", decay_steps=50, final=0.1)
    assert [Course(100).stretched(schedule, 20, 5).at(step) for step in (20, 21, 25)] == [20, 21, 25]
