"""Rules of a search: pure functions (scores, prefix, source, sentence) -> scores, as `model.search.Constraint` says.

scores (N, V) log-probabilities of the next token, prefix (N, t) without BOS, source (N, S), sentence (N,), the place of each
row's sentence in the batch. Hard rules set scores to −∞; soft ones only lower them.
"""

import math

import torch
from torch import Tensor

from model.search import Constraint, only


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
        later = _without(scores, eos, ends[sentence] > place)
        wanted = tokens[sentence, place]
        rows = (wanted != pad).nonzero().squeeze(1)
        only(later, rows, wanted[rows])
        return later

    return constraint


def _without(scores: Tensor, token: int, rows: Tensor) -> Tensor:
    """A copy in which these rows (N,) of truth values have no chance of the token."""
    changed = scores.clone()
    changed[:, token] = changed[:, token].masked_fill(rows, -math.inf)
    return changed


def where_free(tokens: Tensor, rule: Constraint, *, pad: int) -> Constraint:
    """A rule that holds at the places for which tokens (B, T) says nothing (PAD, or past its end)."""

    def constraint(scores: Tensor, prefix: Tensor, source: Tensor, sentence: Tensor) -> Tensor:
        ruled, place = rule(scores, prefix, source, sentence), prefix.size(1)
        free = tokens[sentence, place] == pad if place < tokens.size(1) else None
        if free is None or free.all():  # nearly always: it spares a pass over the scores
            return ruled
        return torch.where(free.unsqueeze(1), ruled, scores)

    return constraint


# Rules of couplets. The source is the upper line in target ids: PAD behind its end; a character that the target has no id for
# is V, V + 1, …, equal ones alike. The lower line's place t answers the upper line's place t.


def at_least(lengths: Tensor, *, eos: int) -> Constraint:
    """lengths (B,): no EOS before that many tokens. With the same numbers as limits, outputs are exactly so long."""

    def constraint(scores: Tensor, prefix: Tensor, source: Tensor, sentence: Tensor) -> Tensor:
        return _without(scores, eos, lengths[sentence] > prefix.size(1))

    return constraint


def only_where(tokens: Tensor, token: int) -> Constraint:
    """tokens (B, T): `token` comes at the places that hold it, and nowhere else."""

    def constraint(scores: Tensor, prefix: Tensor, source: Tensor, sentence: Tensor) -> Tensor:
        place = prefix.size(1)
        other = tokens[sentence, place] != token if place < tokens.size(1) else torch.ones_like(sentence, dtype=torch.bool)
        return _without(scores, token, other)

    return constraint


def punctuation(marks: Tensor) -> Constraint:
    """The source's punctuation stands at the same places of the output, and none stands elsewhere.

    marks (V,): which tokens are punctuation.
    """
    ids = marks.nonzero().squeeze(1)

    def constraint(scores: Tensor, prefix: Tensor, source: Tensor, sentence: Tensor) -> Tensor:
        place = prefix.size(1)
        if place >= source.size(1):
            return scores
        upper, ruled = source[:, place], scores.index_fill(1, ids, -math.inf)
        rows = is_in(marks, upper).nonzero().squeeze(1)
        ruled[rows] = scores[rows]
        only(ruled, rows, upper[rows])
        return ruled

    return constraint


def repetition(marks: Tensor, *, pad: int, unk: int, fixed: Tensor | None = None) -> Constraint:
    """Where the source repeats a character, so does the output, and nowhere else.

    marks (V,): tokens that do not count. fixed (B, T): what is going to stand at later places (PAD: anything), so that no token
    is chosen that these rule out: at a place of their own character, nothing else; at another one, not theirs.
    """

    def constraint(scores: Tensor, prefix: Tensor, source: Tensor, sentence: Tensor) -> Tensor:
        place = prefix.size(1)
        if place >= source.size(1):
            return scores
        upper = source[:, place].unsqueeze(1)  # (N, 1)
        counts = (upper != pad) & ~is_in(marks, upper)  # rows that the rule speaks about
        known = torch.full_like(source, pad)  # what stands at the other places
        known[:, :place] = prefix
        if fixed is not None:
            later = fixed[sentence, place + 1 : source.size(1)]
            known[:, place + 1 : place + 1 + later.size(1)] = later
        known = known.masked_fill(is_in(marks, source) | (known == unk), pad)
        same = source == upper
        wanted = _first(known, same, pad)  # (N, 1)
        spent = known.masked_fill(same & (known == wanted), pad)
        ruled = scores.scatter(1, spent, -math.inf)
        wanted = wanted.squeeze(1)
        rows = (wanted != pad).nonzero().squeeze(1)
        only(ruled, rows, wanted[rows])
        rows = (~counts.squeeze(1)).nonzero().squeeze(1)
        ruled[rows] = scores[rows]
        return ruled

    return constraint


def _first(tokens: Tensor, where: Tensor, pad: int) -> Tensor:
    """(N, S) -> (N, 1): the first token that is not PAD at those places; PAD if there is none."""
    place = (where & (tokens != pad)).to(torch.uint8).argmax(dim=1, keepdim=True)
    return torch.where(where.gather(1, place), tokens.gather(1, place), pad)


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
        return scores.scatter(1, taken, -math.inf).scatter_(1, own, kept)

    return constraint


BOTH = 3  # tones in bits: 1 is level, 平, 2 is oblique, 仄; an unknown one counts as both


def tones(table: Tensor, wanted: Tensor, *, weight: float | None = None) -> Constraint:
    """The tone of each place: table (V,) says which each token has, wanted (B, T) which a place needs, in bits; 0: any.

    weight: taken off the score of a token that lacks it; None: such a token does not come at all.
    """

    needs = torch.arange(BOTH + 1, device=table.device).unsqueeze(1)
    lacks = (table & needs) != needs  # (4, V)
    taken = lacks.float().masked_fill(lacks, math.inf) if weight is None else weight * lacks.float()

    def constraint(scores: Tensor, prefix: Tensor, source: Tensor, sentence: Tensor) -> Tensor:
        place = prefix.size(1)
        if place >= wanted.size(1):
            return scores
        return scores - taken[wanted[sentence, place]].to(scores.dtype)

    return constraint


def avoid(tokens: Tensor) -> Constraint:
    """tokens (B, A): none of these in a sentence's output."""

    def constraint(scores: Tensor, prefix: Tensor, source: Tensor, sentence: Tensor) -> Tensor:
        return scores.scatter(1, tokens[sentence], -math.inf)

    return constraint


def is_in(table: Tensor, tokens: Tensor) -> Tensor:
    """table (V,) of truth values, looked up; ids beyond it are not in it."""
    return table[tokens.clamp(max=table.numel() - 1)] & (tokens < table.numel())
