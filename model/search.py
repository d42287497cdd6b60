"""Turning a model into text: sampling (greedy is its limit) and beam search, over `encode` and `step` only.

What comes out for a sentence is a function of that sentence: rows never see each other, and a finished one leaves the
batch. Shapes: B sentences, N rows still alive, K beam, T target tokens, S source tokens, V vocabulary.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from model.base import Seq2Seq, select

Constraint = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
"""scores (N, V) log-probabilities, prefix (N, t) without BOS, source (N, S), sentence (N,) -> scores; pure."""


class Hypotheses(NamedTuple):
    """tokens (B, K, T): best first, without BOS, each ends with EOS, padded. A place that found nothing is all PAD.

    scores (B, K): what they are ranked by; -inf where nothing was found. log_probs (B, K): plain sums, EOS's included.
    """

    tokens: Tensor
    scores: Tensor
    log_probs: Tensor


@torch.no_grad()
def sample(
    model: Seq2Seq,
    src: Tensor,
    src_mask: Tensor,
    *,
    bos: int,
    eos: int,
    pad: int,
    max_len: Tensor,
    temperature: float = 0.0,
    top_k: int = 0,
    top_p: float = 1.0,
    constraints: Sequence[Constraint] = (),
    seeds: Tensor | None = None,
) -> Hypotheses:
    """One hypothesis a sentence (K = 1): the likeliest token at each step (temperature 0), or one drawn at random.

    max_len (B,): the most tokens of each, EOS not counted. temperature > 0 divides the log-probabilities before drawing;
    top_k > 0 draws from the k likeliest only, top_p < 1 from the smallest set that holds this much probability (Holtzman
    et al. 2020). seeds (B,): one generator a sentence (None: seeded by torch's default generator).
    """
    rules = Rules(src, src_mask, max_len, bos, eos, pad, constraints)
    state = model.encode(src, src_mask)
    sentence = torch.arange(src.size(0), device=src.device)  # (N,) which sentence each living row is
    tokens, prefix = torch.full_like(sentence, bos), src.new_empty(src.size(0), 0)
    found = _Found(src.size(0), 1, int(max_len.max()) + 1, pad, src.device)
    total = torch.zeros(src.size(0), device=src.device)
    draw = _Draw(temperature, top_k, top_p, seeds, src.size(0)) if temperature > 0 else None
    while sentence.numel():
        logits, state = model.step(tokens, state)
        raw = logits.float().log_softmax(dim=-1)
        scores = rules(raw, prefix, sentence)
        tokens = draw(scores, sentence) if draw else scores.argmax(dim=-1)
        value = scores.gather(1, tokens.unsqueeze(1)).squeeze(1)
        total = total + value
        prefix = torch.cat([prefix, tokens.unsqueeze(1)], dim=1)
        dead, done = value.isneginf(), tokens == eos
        found.add(sentence, prefix, total, total, done & ~dead)
        rows = (~done & ~dead).nonzero().squeeze(1)
        if rows.numel() < tokens.numel():
            state = select(state, rows)
            sentence, tokens, prefix, total = sentence[rows], tokens[rows], prefix[rows], total[rows]
    return found.ranked()


@torch.no_grad()
def beam(
    model: Seq2Seq,
    src: Tensor,
    src_mask: Tensor,
    *,
    bos: int,
    eos: int,
    pad: int,
    max_len: Tensor,
    size: int = 4,
    length_penalty: float = 0.6,
    constraints: Sequence[Constraint] = (),
) -> Hypotheses:
    """The `size` best hypotheses that beam search finds, ranked by log-probability / lp(length).

    lp(n) = ((5 + n) / 6)^length_penalty with EOS counted (Wu et al. 2016, eq. 14); 0 ranks by plain log-probability.
    A sentence has `size` places. A hypothesis that ends keeps its place, and the living ones compete for the others by
    plain log-probability, which is fair among equal lengths (as in Nematus and Marian). So nothing is stopped early, a
    beam of one is greedy search, and a beam wider than there are sequences is an exhaustive one. max_len as in `sample`.
    """
    if size < 1:
        raise ValueError(f"beam size must be at least 1, not {size}")
    rules = Rules(src, src_mask, max_len, bos, eos, pad, constraints)
    state = model.encode(src, src_mask)
    sentence = torch.arange(src.size(0), device=src.device)  # (N,), ascending
    tokens, prefix = torch.full_like(sentence, bos), src.new_empty(src.size(0), 0)
    total = torch.zeros(src.size(0), device=src.device)
    found = _Found(src.size(0), size, int(max_len.max()) + 1, pad, src.device)
    while sentence.numel():
        logits, state = model.step(tokens, state)
        scores = total.unsqueeze(1) + rules(logits.float().log_softmax(dim=-1), prefix, sentence)  # (N, V)
        rows, tokens, total = _best(scores, sentence, size - found.count)
        sentence, prefix = sentence[rows], torch.cat([prefix[rows], tokens.unsqueeze(1)], dim=1)
        done = tokens == eos
        found.add(sentence, prefix, total, total / penalty(prefix.size(1), length_penalty), done)
        alive = (~done).nonzero().squeeze(1)
        state = select(state, rows[alive])
        sentence, tokens, prefix, total = sentence[alive], tokens[alive], prefix[alive], total[alive]
    return found.ranked()


def penalty(length: int | Tensor, alpha: float) -> float | Tensor:
    """lp(length) of Wu et al. 2016, eq. 14."""
    return ((5 + length) / 6) ** alpha


def _best(scores: Tensor, sentence: Tensor, places: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Each sentence's best continuations among those of its rows, as many as it has places.

    scores (N, V); sentence (N,), ascending; places (B,). Returns row, token and score of each, by sentence and rank.
    """
    width = min(int(places.max()), scores.size(1))
    values, tokens = scores.topk(width, dim=1)  # (N, W): no row gives more than that
    names, which, counts = sentence.unique_consecutive(return_inverse=True, return_counts=True)
    slot = torch.arange(sentence.numel(), device=scores.device) - (counts.cumsum(0) - counts)[which]
    table = values.new_full((names.numel(), int(counts.max()), width), -math.inf)
    table[which, slot] = values
    top, flat = table.flatten(1).topk(min(int(places.max()), table[0].numel()), dim=1)
    rank = torch.arange(top.size(1), device=scores.device)
    keep = (rank < places[names].unsqueeze(1)) & ~top.isneginf()
    first = (counts.cumsum(0) - counts).unsqueeze(1)
    rows = (first + flat // width)[keep]
    return rows, tokens[rows, (flat % width)[keep]], top[keep]


class Rules:
    """What holds for every search: no PAD, no BOS, and only EOS at a sentence's length limit; then the caller's own."""

    def __init__(self, src, src_mask, max_len, bos, eos, pad, constraints: Sequence[Constraint]):
        self.source = src.masked_fill(~src_mask | (src == eos), pad)
        self.max_len, self.bos, self.eos, self.pad, self.constraints = max_len, bos, eos, pad, constraints

    def __call__(self, scores: Tensor, prefix: Tensor, sentence: Tensor) -> Tensor:
        scores = scores.clone()
        scores[:, [self.bos, self.pad]] = -math.inf
        last = (self.max_len[sentence] <= prefix.size(1)).unsqueeze(1)  # (N, 1)
        other = torch.arange(scores.size(1), device=scores.device) != self.eos
        scores = scores.masked_fill(last & other, -math.inf)
        for constraint in self.constraints:
            scores = constraint(scores, prefix, self.source[sentence], sentence)
        return scores


class _Found:
    """The hypotheses that have ended: K places for each of B sentences."""

    def __init__(self, sentences: int, places: int, length: int, pad: int, device: torch.device):
        self.tokens = torch.full((sentences, places, length), pad, dtype=torch.long, device=device)
        self.scores = torch.full((sentences, places), -math.inf, device=device)
        self.log_probs = self.scores.clone()
        self.count = torch.zeros(sentences, dtype=torch.long, device=device)

    def add(self, sentence: Tensor, prefix: Tensor, log_probs: Tensor, scores: Tensor, done: Tensor) -> None:
        """Those rows that are done; sentence (N,) ascending, prefix (N, t)."""
        rows = done.nonzero().squeeze(1)
        if not rows.numel():
            return
        _, which, counts = sentence[rows].unique_consecutive(return_inverse=True, return_counts=True)
        order = torch.arange(rows.numel(), device=rows.device) - (counts.cumsum(0) - counts)[which]
        sentence, place = sentence[rows], self.count[sentence[rows]] + order
        self.tokens[sentence, place, : prefix.size(1)] = prefix[rows]
        self.scores[sentence, place], self.log_probs[sentence, place] = scores[rows], log_probs[rows]
        self.count = self.count + torch.bincount(sentence, minlength=self.count.numel())

    def ranked(self) -> Hypotheses:
        scores, order = self.scores.sort(dim=1, descending=True, stable=True)
        tokens = self.tokens.gather(1, order.unsqueeze(2).expand_as(self.tokens))
        return Hypotheses(tokens, scores, self.log_probs.gather(1, order))


class _Draw:
    """Draws a token a row, each sentence from its own generator, so that its neighbours do not matter."""

    def __init__(self, temperature: float, top_k: int, top_p: float, seeds: Tensor | None, sentences: int):
        if seeds is None:
            seeds = torch.randint(2**62, (sentences,))
        self.generators = [torch.Generator().manual_seed(int(seed)) for seed in seeds]
        self.temperature, self.top_k, self.top_p = temperature, top_k, top_p

    def __call__(self, scores: Tensor, sentence: Tensor) -> Tensor:
        """scores (N, V) -> tokens (N,)."""
        values, tokens = (scores / self.temperature).sort(dim=-1, descending=True, stable=True)
        if self.top_k > 0:
            values = values[:, : self.top_k]
        probability = values.softmax(dim=-1)
        before = probability.cumsum(dim=-1) - probability
        probability = probability.masked_fill(before >= self.top_p, 0.0)
        uniform = torch.stack([torch.rand((), generator=self.generators[i]) for i in sentence.tolist()])
        reached = probability.double().cumsum(dim=-1)
        goal = uniform.to(reached).unsqueeze(1) * reached[:, -1:]
        place = (reached <= goal).sum(dim=-1, keepdim=True).clamp(max=values.size(1) - 1)
        return tokens.gather(1, place).squeeze(1)
