"""The feed-forward sublayer: the same two-layer network at every position (Vaswani et al. 2017, eq. 2)."""

import torch.nn.functional as F
from torch import Tensor, nn

from model.dropout import Dropout


class FeedForward(nn.Module):
    """W₂ f(W₁ x), f being ReLU or GELU (Hendrycks & Gimpel 2016)."""

    def __init__(self, channels: int, hidden: int, activation: nn.Module, dropout: float):
        super().__init__()
        self.inner, self.outer = nn.Linear(channels, hidden), nn.Linear(hidden, channels)
        self.activation, self.dropout = activation, Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:  # (B, T, C)
        return self.outer(self.dropout(self.activation(self.inner(x))))


class GatedFeedForward(nn.Module):
    """W₂ (swish(W₁ x) ⊗ V x), SwiGLU (Shazeer 2020, eq. 6). A third matrix: for equal size give it 2/3 of the channels."""

    def __init__(self, channels: int, hidden: int, dropout: float):
        super().__init__()
        self.gate, self.inner = nn.Linear(channels, hidden), nn.Linear(channels, hidden)
        self.outer, self.dropout = nn.Linear(hidden, channels), Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:  # (B, T, C)
        return self.outer(self.dropout(F.silu(self.gate(x)) * self.inner(x)))


FEED_FORWARDS = {
    "relu": lambda channels, hidden, dropout: FeedForward(channels, hidden, nn.ReLU(), dropout),
    "gelu": lambda channels, hidden, dropout: FeedForward(channels, hidden, nn.GELU(), dropout),
    "swiglu": GatedFeedForward,
}
