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


def where_free(tokens: Tensor, rule: Constraint, *, pad: int) -> Constraint:
    """A rule that holds at the places for which tokens (B, T) says nothing (PAD, or past its end)."""

    def constraint(scores: Tensor, prefix: Tensor, source: Tensor, sentence: Tensor) -> Tensor:
        ruled, place = rule(scores, prefix, source, sentence), prefix.size(1)
        if place >= tokens.size(1):
            return ruled
        return torch.where((tokens[sentence, place] == pad).unsqueeze(1), ruled, scores)

    return constraint


# Rules of couplets. The source is the upper line in target ids: PAD behind its end; a character that the target has no id for
# is V, V + 1, …, equal ones alike. The lower line's place t answers the upper line's place t.


def exact_length(lengths: Tensor, *, eos: int) -> Constraint:
    """lengths (B,): no EOS before that many tokens. (What ends a line there is the search's own limit.)"""

    def constraint(scores: Tensor, prefix: Tensor, source: Tensor, sentence: Tensor) -> Tensor:
        early = (lengths[sentence] > prefix.size(1)).unsqueeze(1)
        return scores.masked_fill(early & (torch.arange(scores.size(1), device=scores.device) == eos), -math.inf)

    return constraint


def only_where(tokens: Tensor, token: int) -> Constraint:
    """tokens (B, T): `token` comes at the places that hold it, and nowhere else."""

    def constraint(scores: Tensor, prefix: Tensor, source: Tensor, sentence: Tensor) -> Tensor:
        place = prefix.size(1)
        if place >= tokens.size(1):
            return scores
        elsewhere = (tokens[sentence, place] != token).unsqueeze(1)
        return scores.masked_fill(elsewhere & (torch.arange(scores.size(1), device=scores.device) == token), -math.inf)

    return constraint


def punctuation(marks: Tensor, *, free: Tensor | None = None) -> Constraint:
    """The source's punctuation stands at the same places of the output, and none stands elsewhere.

    marks (V,): which tokens are punctuation. free (B, T): places that are exempt.
    """

    def constraint(scores: Tensor, prefix: Tensor, source: Tensor, sentence: Tensor) -> Tensor:
        place = prefix.size(1)
        if place >= source.size(1):
            return scores
        upper = source[:, place].unsqueeze(1)  # (N, 1)
        wrong = torch.where(is_in(marks, upper), torch.arange(scores.size(1), device=scores.device) != upper, marks)
        if free is not None and place < free.size(1):
            wrong = wrong & ~free[sentence, place].unsqueeze(1)
        return scores.masked_fill(wrong, -math.inf)

    return constraint


def repetition(marks: Tensor, *, eos: int, pad: int, unk: int, fixed: Tensor | None = None) -> Constraint:
    """Where the source repeats a character, so does the output, and nowhere else.

    marks (V,): tokens that do not count. fixed (B, T): what is going to stand at later places (PAD: anything), so that no token
    is chosen that these rule out: at a place of their own character, nothing else; at another one, not theirs.
    """

    def constraint(scores: Tensor, prefix: Tensor, source: Tensor, sentence: Tensor) -> Tensor:
        place, size = prefix.size(1), scores.size(1)
        if place >= source.size(1):
            return scores
        upper = source[:, place].unsqueeze(1)  # (N, 1)
        counts = (upper != pad) & ~is_in(marks, upper)  # rows that the rule speaks about
        same = source[:, :place] == upper  # (N, t)
        spent = prefix.masked_fill(same | is_in(marks, source[:, :place]) | (prefix == unk), pad)  # nor may these come again
        wanted = _first(prefix, same, pad)
        if fixed is not None:
            later, theirs = fixed[sentence][:, place + 1 :], source[:, place + 1 : fixed.size(1)]
            later, theirs = later[:, : theirs.size(1)], theirs[:, : later.size(1)]
            later = later.masked_fill(is_in(marks, theirs) | (later == unk), pad)
            spent = torch.cat([spent, later.masked_fill(theirs == upper, pad)], dim=1)
            wanted = torch.where(wanted == pad, _first(later, theirs == upper, pad), wanted)
            spent = torch.cat([spent, later.masked_fill((theirs != upper) | (later == wanted), pad)], dim=1)
        every = torch.arange(size, device=scores.device)
        wrong = (every != wanted) & (wanted != pad) & (wanted != unk) & (every != eos)
        banned = scores.scatter(1, spent, -math.inf)
        return torch.where(counts, banned.masked_fill(wrong, -math.inf), scores)

    return constraint


def _first(tokens: Tensor, where: Tensor, pad: int) -> Tensor:
    """(N, t) -> (N, 1): the first token that is not PAD at those places; PAD if there is none."""
    found = where & (tokens != pad)
    if not tokens.size(1):
        return tokens.new_full((tokens.size(0), 1), pad)
    place = found.to(torch.uint8).argmax(dim=1, keepdim=True)
    return torch.where(found.gather(1, place), tokens.gather(1, place), pad)


def copies(marks: Tensor, particles: Tensor, *, pad: int) -> Constraint:
    """No character of the source, but punctuation, and particles where the source has the same one.

    marks, particles (V,): which tokens are such.
    """

    def constraint(scores: Tensor, prefix: Tensor, source: Tensor, sentence: Tensor) -> Tensor:
        place, size = prefix.size(1), scores.size(1)
        if place >= source.size(1):
            return scores
        taken = source.masked_fill((source >= size) | is_in(marks, source), pad)
        own = taken[:, place].unsqueeze(1)
        allowed = is_in(particles, own) & (own != pad)
        kept = torch.where(allowed, scores.gather(1, own), -math.inf)
        return scores.scatter(1, taken, -math.inf).scatter(1, own, kept)

    return constraint


LEVEL, OBLIQUE = 1, 2  # 平, 仄: bits, so that 3 is a character of both tones, or of an unknown one


def tones(table: Tensor, wanted: Tensor, *, weight: float | None = None) -> Constraint:
    """The tone of each place: table (V,) says which each token has, wanted (B, T) which a place needs, in bits; 0: any.

    weight: taken off the score of a token that lacks it; None: such a token does not come at all.
    """

    def constraint(scores: Tensor, prefix: Tensor, source: Tensor, sentence: Tensor) -> Tensor:
        place = prefix.size(1)
        if place >= wanted.size(1):
            return scores
        needs = wanted[sentence, place].unsqueeze(1)
        lacks = (table & needs) != needs
        return scores.masked_fill(lacks, -math.inf) if weight is None else scores - weight * lacks.to(scores.dtype)

    return constraint


def avoid(tokens: Tensor, *, fixed: Tensor, pad: int) -> Constraint:
    """tokens (B, A): none of these in a sentence's output, but where they are fixed (B, T); PAD is nothing."""

    def constraint(scores: Tensor, prefix: Tensor, source: Tensor, sentence: Tensor) -> Tensor:
        place = prefix.size(1)
        banned = scores.scatter(1, tokens[sentence], -math.inf)
        if place >= fixed.size(1):
            return banned
        return torch.where((fixed[sentence, place] != pad).unsqueeze(1), scores, banned)

    return constraint


def is_in(table: Tensor, tokens: Tensor) -> Tensor:
    """table (V,) of truth values, looked up; ids beyond it are not in it."""
    return table[tokens.clamp(max=table.numel() - 1)] & (tokens < table.numel())
