"""Dropout (Srivastava et al. 2014) whose masks are cheap on a CPU.

`F.dropout` draws one random number an element there, about five times the cost of everything else it does. One random
byte an element is enough: an element is kept where its byte is at least t = round(256 p), so p is met within 1/512.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def keep_mask(shape: torch.Size, threshold: int) -> Tensor:
    """uint8, 0 with probability threshold / 256 and else 1, from torch's default generator.

    (Not bool: a comparison in place of the bytes runs three times as fast.)
    """
    count = shape.numel()
    words = torch.empty((count + 7) // 8, dtype=torch.int64)
    words.random_(-(2**63), None)  # all 64 bits: plain random_() leaves the sign bit 0, and every eighth byte small
    return words.view(torch.uint8)[:count].view(shape).ge_(threshold)


class _ByteDropout(torch.autograd.Function):
    """x · keep · 256 / (256 − t). The factor is kept as x's own type: a product with bytes would convert them each time."""

    @staticmethod
    def forward(ctx, x: Tensor, threshold: int) -> Tensor:
        factor = keep_mask(x.shape, threshold).to(x.dtype).mul_(256 / (256 - threshold))
        ctx.save_for_backward(factor)
        return x * factor

    @staticmethod
    def backward(ctx, grad: Tensor) -> tuple[Tensor, None]:
        (factor,) = ctx.saved_tensors
        return grad * factor, None


def dropout(x: Tensor, p: float) -> Tensor:
    """Zero each element with probability p and scale the rest by 1 / (1 − p). Any shape; 0 <= p < 1."""
    threshold = round(256 * p)
    if p == 0.0:
        return x
    if x.device.type == "cpu" and 0 < threshold < 256 and not torch.compiler.is_compiling():
        return _ByteDropout.apply(x, threshold)
    return F.dropout(x, p)


def check_probability(name: str, p: float) -> None:
    """Raises ValueError where an option of that name is no probability of dropping."""
    if not 0.0 <= p < 1.0:
        raise ValueError(f"{name} must be at least 0 and below 1, not {p}")


class Dropout(nn.Module):
    """`dropout` while training, nothing otherwise."""

    def __init__(self, p: float):
        super().__init__()
        check_probability("dropout", p)
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        return dropout(x, self.p) if self.training else x

    def extra_repr(self) -> str:
        return f"p={self.p}"
