"""Schedules of teacher forcing, as tables of (step, probability)."""

import math

import pytest

from tasks.forcing import Constant, InverseSigmoid, Linear

SCHEDULES = [  # schedule, its lowest, probabilities by step
    (Constant(), 1.0, {0: 1.0, 1000: 1.0}),
    (Constant(ratio=0.3), 0.3, {0: 0.3, 1000: 0.3}),
    (Linear(steps=100), 0.0, {0: 1.0, 25: 0.75, 100: 0.0, 500: 0.0}),
    (Linear(start=0.9, end=0.4, steps=10), 0.4, {0: 0.9, 5: 0.65, 10: 0.4, 11: 0.4}),
    (Linear(start=0.5, end=1.0, steps=4), 0.5, {0: 0.5, 2: 0.75, 9: 1.0}),
    (InverseSigmoid(k=100), 0.0, {0: 100 / 101, 100: 100 / (100 + math.e), 460.517: 0.5, 10**9: 0.0}),
    (InverseSigmoid(k=1, end=0.25), 0.25, {0: 0.5, 1: 1 / (1 + math.e), 2: 0.25}),
]


@pytest.mark.parametrize("schedule, lowest, values", SCHEDULES)
def test_probabilities(schedule, lowest, values):
    assert schedule.lowest == lowest
    assert {step: schedule(step) for step in values} == pytest.approx(values, abs=1e-5)


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: Constant(ratio=1.5), "task.teacher_forcing.ratio is a probability, from 0 to 1, not 1.5"),
        (lambda: Linear(start=-1), "task.teacher_forcing.start is a probability"),
        (lambda: Linear(end=2), "task.teacher_forcing.end is a probability"),
        (lambda: Linear(steps=0), "task.teacher_forcing.steps must be at least 1, not 0"),
        (lambda: InverseSigmoid(k=0.5), "task.teacher_forcing.k must be at least 1, not 0.5"),
        (lambda: InverseSigmoid(end=1.1), "task.teacher_forcing.end is a probability"),
    ],
)
def test_what_is_no_probability_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
