"""Four ways to tell a Transformer where a token stands: added to the embedding, turned into it, or added to the scores.

Each overrides the one method of `Positions` that it needs; the others leave everything as it is. Positions count from 0 on
the first real token; sources and targets are padded on the right, so the index is the position.
Shapes: B batch, H heads, T queries, S keys, D channels a head, C channels.
"""

import math

import torch
from torch import Tensor, nn


class Positions(nn.Module):
    """What one stack (the encoder's or the decoder's) asks of its positions. limit: the first position that has none."""

    limit: int | None = None

    def embed(self, x: Tensor, start: int = 0) -> Tensor:
        """Embeddings (B, T, C), of which the first stands at `start`."""
        return x

    def rotate(self, x: Tensor, start: int = 0) -> Tensor:
        """Queries or keys (B, H, T, D) of self-attention, of which the first stands at `start`."""
        return x

    def bias(self, queries: int, keys: int) -> Tensor | None:
        """What is added to the scores of self-attention, (1, H, T, S); the last query stands on the last key."""
        return None


class Sinusoidal(Positions):
    """Waves of geometrically growing length, added to the embedding (Vaswani et al. 2017, section 3.5). No limit.

    Sines fill the first half of the channels and cosines the second: a permutation of the paper's order.
    """

    def __init__(self, channels: int, heads: int, *, max_positions: int, causal: bool):
        super().__init__()
        if channels % 2:
            raise ValueError(f"sinusoidal positions need an even number of channels, not {channels}")
        self.channels = channels
        self.register_buffer("table", self._table(max_positions), persistent=False)

    def _table(self, length: int, start: int = 0) -> Tensor:
        rates = torch.exp(torch.arange(self.channels // 2) * (-2 * math.log(10_000) / self.channels))
        angles = torch.arange(start, start + length).unsqueeze(1) * rates  # (T, C/2)
        return torch.cat([angles.sin(), angles.cos()], dim=-1)

    def embed(self, x: Tensor, start: int = 0) -> Tensor:
        end = start + x.size(1)
        if end > self.table.size(0):  # beyond the prepared ones: compute, rather than grow state
            return x + self._table(x.size(1), start).to(x)
        return x + self.table[start:end].to(x.dtype)


class Learned(Positions):
    """A vector a position, learned like a token's and added to it (Gehring et al. 2017). Ends at max_positions."""

    def __init__(self, channels: int, heads: int, *, max_positions: int, causal: bool):
        super().__init__()
        self.limit = max_positions
        self.table = nn.Parameter(torch.randn(max_positions, channels) * channels**-0.5)

    def embed(self, x: Tensor, start: int = 0) -> Tensor:
        if start + x.size(1) > self.limit:
            raise ValueError(f"{start + x.size(1)} tokens are more than the {self.limit} learned positions")
        return x + self.table[start : start + x.size(1)]


class Rotary(Positions):
    """Turns each pair of channels of queries and keys by an angle that grows with the position, so that a score depends
    on the distance only (Su et al. 2021, eq. 34, with the pairs (i, i + D/2)). No limit."""

    def __init__(self, channels: int, heads: int, *, max_positions: int, causal: bool):
        super().__init__()
        size = channels // heads
        if size % 2 and channels % heads == 0:  # heads that do not divide are told by the attention
            raise ValueError(f"rotary positions need an even number of channels a head, not {size}")
        rates = torch.exp(torch.arange(size // 2) * (-2 * math.log(10_000) / size))
        self.register_buffer("rates", rates, persistent=False)  # (D/2,)

    def rotate(self, x: Tensor, start: int = 0) -> Tensor:
        place = torch.arange(start, start + x.size(2), device=x.device).unsqueeze(1)
        angles = place * self.rates  # (T, D/2)
        sin, cos = angles.sin().to(x.dtype), angles.cos().to(x.dtype)
        first, second = x.chunk(2, dim=-1)
        return torch.cat([first * cos - second * sin, first * sin + second * cos], dim=-1)


class Relative(Positions):
    """A learned number a head and bucket of distances, added to the scores (T5: Raffel et al. 2020, section 2.1).

    Of the buckets, half are for single distances and half for logarithmically wider ones up to max_distance, beyond which
    all are one; a decoder (causal) looks only back, an encoder has its buckets shared out to both sides. No limit.
    """

    buckets, max_distance = 32, 128

    def __init__(self, channels: int, heads: int, *, max_positions: int, causal: bool):
        super().__init__()
        self.causal = causal
        self.table = nn.Parameter(torch.zeros(self.buckets, heads))

    def bias(self, queries: int, keys: int) -> Tensor:
        t = torch.arange(keys - queries, keys, device=self.table.device).unsqueeze(1)
        s = torch.arange(keys, device=self.table.device).unsqueeze(0)
        return self.table[self._bucket(t - s)].permute(2, 0, 1).unsqueeze(0)  # (1, H, T, S)

    def _bucket(self, back: Tensor) -> Tensor:
        """How far a key lies back (negative: ahead) -> its bucket."""
        buckets = self.buckets if self.causal else self.buckets // 2
        side = torch.zeros_like(back) if self.causal else (back < 0) * buckets
        distance = back.clamp(min=0) if self.causal else back.abs()
        exact = buckets // 2
        wide = torch.log(distance.clamp(min=exact) / exact) / math.log(self.max_distance / exact) * (buckets - exact)
        return side + torch.where(distance < exact, distance, (exact + wide.long()).clamp(max=buckets - 1))


POSITIONS = {"sinusoidal": Sinusoidal, "learned": Learned, "rotary": Rotary, "relative": Relative}
