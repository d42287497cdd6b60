"""Learning-rate schedules: a factor of the optimizer's `lr` for each optimizer step.

All have a warm-up and a cool-down around their own shape. warmup: steps in which the factor rises linearly from 1/warmup to 1.
steps: of the whole run (-1: not known). cooldown: share of them, at the end, in which the factor falls linearly to 0.
"""

import math
from collections.abc import Callable

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR


class _Schedule(LambdaLR):
    """shape: step -> factor, between warm-up and cool-down."""

    def __init__(self, optimizer: Optimizer, shape: Callable[[int], float], warmup: int, steps: int, cooldown: float):
        if warmup < 0 or not 0 <= cooldown <= 1:
            raise ValueError(
                f"scheduler.warmup must be at least 0 and scheduler.cooldown in 0 to 1, not {warmup} and {cooldown}"
            )
        last = steps * cooldown  # steps of the cool-down

        def factor(step: int) -> float:
            rise = (step + 1) / warmup if step < warmup else 1.0
            fall = min(1.0, max(0.0, (steps - step) / last)) if last > 0 else 1.0
            return min(rise, shape(step)) * fall

        super().__init__(optimizer, factor)


class InverseSqrt(_Schedule):
    """∝ 1/√step: the schedule of Vaswani et al. 2017 (eq. 3, "noam"), with its peak, at the end of the warm-up, at `lr`."""

    def __init__(self, optimizer: Optimizer, *, warmup: int = 1000, steps: int = -1, cooldown: float = 0.0):
        peak = max(warmup, 1)
        super().__init__(optimizer, lambda step: math.sqrt(peak / max(step + 1, peak)), warmup, steps, cooldown)


class Cosine(_Schedule):
    """Half a cosine down to `final` × lr at step `steps`, and that from there on (Loshchilov & Hutter 2017)."""

    def __init__(
        self, optimizer: Optimizer, *, warmup: int = 1000, steps: int = -1, cooldown: float = 0.0, final: float = 0.01
    ):
        if steps <= warmup:
            raise ValueError(
                f"scheduler.steps (as a rule trainer.max_steps) must be above scheduler.warmup, "
                f"but {steps} is not above {warmup}"
            )

        def shape(step: int) -> float:
            done = min(1.0, max(0.0, (step - warmup) / (steps - warmup)))
            return final + (1 - final) * (1 + math.cos(math.pi * done)) / 2

        super().__init__(optimizer, shape, warmup, steps, cooldown)


class Constant(_Schedule):
    """`lr`."""

    def __init__(self, optimizer: Optimizer, *, warmup: int = 0, steps: int = -1, cooldown: float = 0.0):
        super().__init__(optimizer, lambda step: 1.0, warmup, steps, cooldown)
