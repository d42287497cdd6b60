"""Layer normalisation, and the two places that a residual connection can have it."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.dropout import Dropout


def normalise(x: Tensor, scale: Tensor, shift: Tensor, eps: float = 1e-5) -> Tensor:
    """Layer normalisation as it is written (Ba et al. 2016, eq. 3–4); over the last dimension, biased variance."""
    mean = x.mean(dim=-1, keepdim=True)
    variance = (x - mean).square().mean(dim=-1, keepdim=True)
    return (x - mean) * torch.rsqrt(variance + eps) * scale + shift


class LayerNorm(nn.Module):
    """`normalise` with learnable scale and shift. fused takes PyTorch's kernel for the same formula: one pass, not eight."""

    def __init__(self, channels: int, *, eps: float = 1e-5, fused: bool = True):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(channels))
        self.shift = nn.Parameter(torch.zeros(channels))
        self.eps, self.fused = eps, fused

    def forward(self, x: Tensor) -> Tensor:  # (…, C)
        if self.fused:
            return F.layer_norm(x, self.scale.shape, self.scale, self.shift, self.eps)
        return normalise(x, self.scale, self.shift, self.eps)


class PreNorm(nn.Module):
    """x + dropout(f(norm(x))): a clear path from the last layer to the first (Xiong et al. 2020). Its stack ends in a norm."""

    def __init__(self, channels: int, dropout: float):
        super().__init__()
        self.norm, self.dropout = LayerNorm(channels), Dropout(dropout)

    def before(self, x: Tensor) -> Tensor:
        """What the sublayer f gets."""
        return self.norm(x)

    def after(self, x: Tensor, y: Tensor) -> Tensor:
        """x is what came in, y what f made of it."""
        return x + self.dropout(y)

    @staticmethod
    def last(channels: int) -> nn.Module:
        """What follows the last layer of a stack."""
        return LayerNorm(channels)


class PostNorm(nn.Module):
    """norm(x + dropout(f(x))), as in Vaswani et al. 2017; needs its warm-up."""

    def __init__(self, channels: int, dropout: float):
        super().__init__()
        self.norm, self.dropout = LayerNorm(channels), Dropout(dropout)

    def before(self, x: Tensor) -> Tensor:
        return x

    def after(self, x: Tensor, y: Tensor) -> Tensor:
        return self.norm(x + self.dropout(y))

    @staticmethod
    def last(channels: int) -> nn.Module:
        return nn.Identity()


NORMS = {"pre": PreNorm, "post": PostNorm}
