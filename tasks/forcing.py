"""Teacher forcing: how likely a step of training is fed the reference's token instead of the model's own, by optimizer step.

A schedule is called with the number of optimizer steps done and gives a probability; `lowest` is the least that it can give.
"""

import math
from typing import Protocol


class Schedule(Protocol):
    lowest: float

    def __call__(self, step: int) -> float: ...


class Constant(Schedule):
    """Always the same."""

    def __init__(self, *, ratio: float = 1.0):
        _check(ratio=ratio)
        self.ratio = self.lowest = ratio

    def __call__(self, step: int) -> float:
        return self.ratio


class Linear(Schedule):
    """From `start` to `end` in as many optimizer steps, and `end` from there on (Bengio et al. 2015, section 2.4)."""

    def __init__(self, *, start: float = 1.0, end: float = 0.0, steps: int = 5000):
        _check(start=start, end=end)
        if steps < 1:
            raise ValueError(f"task.teacher_forcing.steps must be at least 1, not {steps}")
        self.start, self.end, self.steps, self.lowest = start, end, steps, min(start, end)

    def __call__(self, step: int) -> float:
        done = min(step / self.steps, 1.0)
        return (1 - done) * self.start + done * self.end


class InverseSigmoid(Schedule):
    """k / (k + exp(step / k)), but at least `end`: near 1 at first, half of it after k ln k steps (Bengio et al. 2015, 2.4)."""

    def __init__(self, *, k: float = 1000.0, end: float = 0.0):
        _check(end=end)
        if k < 1:
            raise ValueError(f"task.teacher_forcing.k must be at least 1, not {k}")
        self.k, self.lowest = k, end

    def __call__(self, step: int) -> float:
        return max(self.lowest, self.k / (self.k + math.exp(min(step / self.k, 700.0))))  # above 709 exp overflows


def _check(**ratios: float) -> None:
    for name, value in ratios.items():
        if not 0.0 <= value <= 1.0:
            raise ValueError(f"task.teacher_forcing.{name} is a probability, from 0 to 1, not {value}")
