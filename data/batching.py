"""Rows of token ids to padded batches, and which rows make a batch."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from data.errors import DuetError
from data.tokenizer import BOS, EOS, PAD

# Shapes: B batch, S source, T target


class Batch(NamedTuple):
    src: Tensor       # (B, S) int64, ends with EOS, then PAD
    src_mask: Tensor  # (B, S) bool, True = a real token
    tgt: Tensor       # (B, T) int64, begins with BOS
    gold: Tensor      # (B, T) int64, what `tgt` should predict: ends with EOS, then PAD
    index: Tensor     # (B,) int64, place of the pair in its split


def collate(rows: Sequence[tuple[Sequence[int], Sequence[int]]], index: Sequence[int]) -> Batch:
    """One batch of (source ids, target ids), both without BOS and EOS."""
    src = _pad([source for source, _ in rows])                      # (B, S)
    gold = _pad([target for _, target in rows])                     # (B, T)
    tgt = np.full_like(gold, BOS)                                   # (B, T)
    tgt[:, 1:] = gold[:, :-1]
    tgt[tgt == EOS] = PAD  # the EOS of the shorter rows
    src = torch.from_numpy(src)
    return Batch(src, src != PAD, torch.from_numpy(tgt), torch.from_numpy(gold), torch.as_tensor(index))


def _pad(rows: list[Sequence[int]]) -> np.ndarray:
    """(B, longest + 1) int64: each row, EOS, then PAD."""
    padded = np.full((len(rows), max(map(len, rows)) + 1), PAD, dtype=np.int64)
    for line, row in zip(padded, rows, strict=True):
        line[: len(row)] = row
        line[len(row)] = EOS
    return padded


class TokenBuckets:
    """A batch sampler: rows of similar length, so that rows × longest ≤ `max_tokens`.

    Lengths are rounded up to a ladder of buckets that grow by an eighth. Rows are sorted by bucket and cut
    greedily, as if each were as long as its bucket, so every epoch has the same number of batches. An epoch shuffles the
    rows of a bucket, loosely by their shorter side, and then the batches. All of it depends on (seed, epoch) alone.

    sources, targets: tokens of each row, without BOS and EOS (one is added to both).
    rank, world_size: every rank gets as many batches; up to `world_size - 1` of an epoch's batches are left out.
    """

    def __init__(
        self,
        sources: np.ndarray,
        targets: np.ndarray,
        *,
        max_tokens: int,
        seed: int,
        rank: int = 0,
        world_size: int = 1,
    ):
        longest = np.maximum(sources, targets) + 1
        _check_lengths(longest, max_tokens)
        self._buckets = np.minimum(_round_up(longest), max_tokens)
        self._shorter = np.minimum(sources, targets).astype(np.float32)
        self._bounds = _cut(np.sort(self._buckets), max_tokens)
        self._seed, self._rank, self._world_size = seed, rank, world_size
        self._epoch = self._skip = self._shift = 0
        if not len(self):
            raise DuetError(f"{len(self._bounds) - 1} batches cannot feed {world_size} devices: lower data.max_tokens")
        self.sampler = self  # Lightning calls `set_epoch` on a batch sampler's `sampler` only

    def resume(self, *, epoch: int, skip: int, shift: int = 0) -> None:
        """Goes on in `epoch` after `skip` batches, which `len` counts. Later calls of `set_epoch` mean `shift` epochs more."""
        self._epoch, self._skip, self._shift = epoch, skip, shift

    def set_epoch(self, epoch: int) -> None:
        """What the next iteration is; another epoch than the present one begins at its beginning."""
        if epoch + self._shift != self._epoch:
            self._epoch, self._skip = epoch + self._shift, 0

    def __len__(self) -> int:
        return (len(self._bounds) - 1) // self._world_size

    def __iter__(self) -> Iterator[list[int]]:
        rng = np.random.default_rng((self._seed, self._epoch))
        rows = self._shuffled_rows(rng)
        batches = rng.permutation(len(self._bounds) - 1)
        mine = batches[self._rank :: self._world_size][: len(self)]
        for batch in mine[self._skip :]:
            yield rows[self._bounds[batch] : self._bounds[batch + 1]].tolist()

    def _shuffled_rows(self, rng: np.random.Generator) -> np.ndarray:
        """All rows by bucket and, in a bucket, by their shorter side with noise."""
        noisy = self._shorter + rng.random(len(self._shorter), np.float32)
        noisy *= 0.8 + 0.4 * rng.random(len(self._shorter), np.float32)
        return np.lexsort((noisy, self._buckets)).astype(np.int32)


def _check_lengths(longest: np.ndarray, max_tokens: int) -> None:
    if not len(longest):
        raise DuetError("no training pair: at least one is needed")
    row = int(longest.argmax())
    if longest[row] > max_tokens:
        raise DuetError(
            f"row {row} is {longest[row]} tokens long (BOS or EOS included), data.max_tokens is {max_tokens}:"
            " raise it, or lower data.max_length"
        )


def _round_up(lengths: np.ndarray) -> np.ndarray:
    """The smallest step of the ladder 1, 2, … 8, 9, 10, 11, 12, 13, 14, 15, 16, 18, 20, 22 … that is not below."""
    ladder = [1]
    while ladder[-1] < lengths.max():
        ladder.append(ladder[-1] + max(1, ladder[-1] // 8))
    ladder = np.array(ladder, dtype=np.int32)
    return ladder[np.searchsorted(ladder, lengths)]


def _cut(lengths: np.ndarray, max_tokens: int) -> np.ndarray:
    """Bounds of the batches in rows sorted by length: batch i is rows bounds[i] to bounds[i + 1]."""
    bounds, start = [0], 0
    while start < len(lengths):
        window = lengths[start : start + max_tokens // lengths[start]]
        start += int(np.searchsorted(window * np.arange(1, len(window) + 1), max_tokens, side="right"))
        bounds.append(start)
    return np.array(bounds)
