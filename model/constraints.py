"""Rules of a search: pure functions (scores, prefix, source, sentence) -> scores, as `model.search.Constraint` says.

scores (N, V) log-probabilities of the next token, prefix (N, t) without BOS, source (N, S), sentence (N,), the place of each
row's sentence in the batch. Hard rules set scores to −∞; soft ones only lower them.
"""

import math

import torch
from torch import Tensor

from model.search import Constraint


def forbid(*ids: int) -> Constraint:
    """These tokens are never produced."""

    def constraint(scores: Tensor, prefix: Tensor, source: Tensor, sentence: Tensor) -> Tensor:
        return scores.index_fill(1, torch.tensor(ids, device=scores.device), -math.inf)

    return constraint


def min_length(length: int, eos: int) -> Constraint:
    """No EOS before `length` tokens, unless nothing else is allowed any more (at the length limit)."""

    def constraint(scores: Tensor, prefix: Tensor, source: Tensor, sentence: Tensor) -> Tensor:
        if prefix.size(1) >= length:
            return scores
        longer = scores.index_fill(1, torch.tensor([eos], device=scores.device), -math.inf)
        return torch.where(longer.isneginf().all(dim=1, keepdim=True), scores, longer)

    return constraint


def no_repeat_ngram(size: int) -> Constraint:
    """No n-gram of that size occurs twice in one hypothesis (Paulus et al. 2018)."""

    def constraint(scores: Tensor, prefix: Tensor, source: Tensor, sentence: Tensor) -> Tensor:
        if prefix.size(1) < size:
            return scores
        grams = prefix.unfold(1, size, 1)  # (N, t − n + 1, n)
        again = (grams[:, :, :-1] == prefix[:, prefix.size(1) - size + 1 :].unsqueeze(1)).all(dim=2)
        banned = torch.zeros_like(scores).scatter_add(1, grams[:, :, -1], again.to(scores.dtype))
        return scores.masked_fill(banned > 0, -math.inf)

    return constraint


def repetition_penalty(factor: float) -> Constraint:
    """The log-probability of a token that the hypothesis has already is × factor (≥ 1), after Keskar et al. 2019."""

    def constraint(scores: Tensor, prefix: Tensor, source: Tensor, sentence: Tensor) -> Tensor:
        seen = torch.zeros_like(scores, dtype=torch.bool).scatter(1, prefix, True)
        return torch.where(seen, scores * factor, scores)

    return constraint


def fixed(tokens: Tensor, *, eos: int, pad: int) -> Constraint:
    """tokens (B, T): what stands at each place of a sentence's output; pad: whatever comes. No EOS before the last fixed place.

    A prefix is one without gaps. The length limit has to leave room for it.
    """
    places = torch.arange(1, tokens.size(1) + 1, device=tokens.device)
    ends = ((tokens != pad) * places).amax(dim=1) if tokens.size(1) else tokens.new_zeros(tokens.size(0))

    def constraint(scores: Tensor, prefix: Tensor, source: Tensor, sentence: Tensor) -> Tensor:
        place = prefix.size(1)
        if place >= tokens.size(1):
            return scores
        wanted = tokens[sentence, place].unsqueeze(1)  # (N, 1)
        every = torch.arange(scores.size(1), device=scores.device)
        early = (ends[sentence] > place).unsqueeze(1) & (every == eos)
        return scores.masked_fill(((wanted != pad) & (every != wanted)) | early, -math.inf)

    return constraint
