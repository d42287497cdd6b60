"""Learning-rate schedules: a factor of the optimizer's `lr` for each step. Warm-up and lengths are in optimizer steps."""

import math

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR


def _warm(step: int, warmup: int) -> float:
    """Rises from 1/warmup at the first step to 1 at step `warmup`."""
    return min(1.0, (step + 1) / warmup) if warmup > 0 else 1.0


class InverseSqrt(LambdaLR):
    """Warm-up, then ∝ 1/√step: the schedule of Vaswani et al. 2017 (eq. 3, "noam"), with its peak at `lr`."""

    def __init__(self, optimizer: Optimizer, *, warmup: int = 1000):
        peak = max(warmup, 1)
        super().__init__(optimizer, lambda step: min(_warm(step, warmup), math.sqrt(peak / (step + 1))))


class Cosine(LambdaLR):
    """Warm-up, then half a cosine down to `final` × lr at step `steps`, and that from there on (Loshchilov & Hutter 2017)."""

    def __init__(self, optimizer: Optimizer, *, warmup: int = 1000, steps: int = 20_000, final: float = 0.01):
        if steps <= warmup:
            raise ValueError(f"scheduler.steps must be above scheduler.warmup, but {steps} is not above {warmup}")

        def factor(step: int) -> float:
            if step < warmup:
                return _warm(step, warmup)
            done = min(1.0, (step - warmup) / (steps - warmup))
            return final + (1 - final) * (1 + math.cos(math.pi * done)) / 2

        super().__init__(optimizer, factor)


class Constant(LambdaLR):
    """Warm-up, then `lr`."""

    def __init__(self, optimizer: Optimizer, *, warmup: int = 0):
        super().__init__(optimizer, lambda step: _warm(step, warmup))
