"""Scaled dot-product attention and its multi-head form (Vaswani et al. 2017, section 3.2).

Shapes: B batch, H heads, T queries, S keys, D channels a head, C = H × D. Masks are bool, True = may be attended.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.dropout import dropout as drop


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    causal: bool = False,
    dropout: float = 0.0,
    need_weights: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """softmax(q kᵀ / √D + bias) v, and the weights where asked for (as they were before dropout).

    q (B, H, T, D), k and v (B, H, S, D); mask and bias broadcast to (B, H, T, S). causal lets query t see the keys 0…t, so
    it is for T = S: a single query with a cache passes False. A query that may see nothing gets 0, and finite gradients.
    dropout is the probability in force now (0 in evaluation).

    Two paths with one result: the fused kernel, and the explicit one where weights are wanted, and for dropout on a CPU
    (where the kernel would fall back to a slower one).
    """
    explicit = need_weights or (dropout > 0.0 and q.device.type == "cpu")
    if explicit:
        out, weights = attend_explicit(q, k, v, mask, bias, causal=causal, dropout=dropout)
        return out, weights if need_weights else None
    return attend_fused(q, k, v, mask, bias, causal=causal, dropout=dropout), None


def attend_explicit(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    causal: bool = False,
    dropout: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """`attend` written out: (B, H, T, D) and the weights (B, H, T, S)."""
    scores = (q * q.size(-1) ** -0.5) @ k.transpose(-2, -1)  # (B, H, T, S)
    if bias is not None:
        scores = scores + bias
    mask = _combine(mask, causal, scores)
    if mask is None:
        weights = scores.softmax(dim=-1)
    else:
        some = mask.any(dim=-1, keepdim=True)  # a query that may see nothing looks everywhere, times 0
        hidden = torch.zeros_like(mask, dtype=scores.dtype).masked_fill_(~mask & some, -math.inf)
        weights = (scores + hidden).softmax(dim=-1) * some.to(scores.dtype)  # a sum is several times as fast as a masked_fill
    return drop(weights, dropout) @ v, weights


def attend_fused(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    causal: bool = False,
    dropout: float = 0.0,
) -> Tensor:
    """`attend` by PyTorch's kernel, which never holds the weights: (B, H, T, D)."""
    if mask is None and bias is None:
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal, dropout_p=dropout)
    mask = _combine(mask, causal, q.new_empty(q.size(-2), k.size(-2)))
    if bias is not None:
        mask = bias if mask is None else bias.masked_fill(~mask, -math.inf)
        mask = mask.to(q.dtype)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout)


def _combine(mask: Tensor | None, causal: bool, scores: Tensor) -> Tensor | None:
    """One bool mask out of the given one and the causal one, each of which may be missing."""
    if not causal:
        return mask
    past = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()  # (T, S)
    return past if mask is None else past & mask


def window_mask(queries: int, keys: int, width: int, *, device: torch.device) -> Tensor:
    """(T, S), True where a key is at most `width` positions away; the last query stands on the last key."""
    t = torch.arange(keys - queries, keys, device=device).unsqueeze(1)
    s = torch.arange(keys, device=device).unsqueeze(0)
    return (t - s).abs() <= width


class MultiHeadAttention(nn.Module):
    """H attentions side by side, each in a subspace of D = C / H channels, joined by a linear layer.

    Keys and values come from `keys_values`, so that a decoder computes those of the source once a sentence and those of
    its own past once a token. Raises ValueError where the channels cannot be shared out evenly.
    """

    def __init__(self, channels: int, heads: int, *, dropout: float = 0.0):
        super().__init__()
        if channels % heads:
            raise ValueError(f"channels must be divisible by heads, but {channels} channels are not by {heads} heads")
        self.channels, self.heads, self.dropout = channels, heads, dropout
        self.query = nn.Linear(channels, channels)
        self.key = nn.Linear(channels, channels)
        self.value = nn.Linear(channels, channels)
        self.output = nn.Linear(channels, channels)

    def queries(self, x: Tensor) -> Tensor:
        """(B, T, C) -> (B, H, T, D)."""
        return self._split(self.query(x))

    def keys_values(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """(B, S, C) -> keys and values, each (B, H, S, D)."""
        return self._split(self.key(x)), self._split(self.value(x))

    def forward(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        mask: Tensor | None = None,
        bias: Tensor | None = None,
        *,
        causal: bool = False,
        need_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Heads of queries, keys and values -> (B, T, C) and, if asked for, the weights (B, H, T, S)."""
        p = self.dropout if self.training else 0.0
        out, weights = attend(q, k, v, mask, bias, causal=causal, dropout=p, need_weights=need_weights)
        return self.output(out.transpose(1, 2).flatten(2)), weights

    def _split(self, x: Tensor) -> Tensor:  # (B, T, C) -> (B, H, T, D)
        return x.unflatten(-1, (self.heads, self.channels // self.heads)).transpose(1, 2)
