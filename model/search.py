"""Turning a model into text: sampling (greedy is its limit) and beam search, over `encode` and `step` only.

What comes out for a sentence is a function of that sentence: rows never see each other, and a finished one leaves the
batch. Shapes: B sentences, N rows still alive, K beam, T target tokens, S source tokens, V vocabulary.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from model.base import Seq2Seq, State, select

Constraint = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
"""scores (N, V) log-probabilities, prefix (N, t) without BOS, source (N, S), sentence (N,) -> scores; pure."""


class Hypotheses(NamedTuple):
    """tokens (B, K, T): best first, without BOS, each ends with EOS, padded. A place that found nothing is all PAD.

    scores (B, K): what they are ranked by; -inf where nothing was found. log_probs (B, K): the model's own, summed, EOS's
    included, whatever rules took off. token_log_probs (B, K, T): the same a token, 0 on padding.
    """

    tokens: Tensor
    scores: Tensor
    log_probs: Tensor
    token_log_probs: Tensor


@torch.inference_mode()
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
    source: Tensor | None = None,
    never: Sequence[int] = (),
) -> Hypotheses:
    """One hypothesis a sentence (K = 1): the likeliest token at each step (temperature 0), or one drawn at random.

    max_len (B,): the most tokens of each, EOS not counted. temperature > 0 divides the log-probabilities before drawing;
    top_k > 0 draws from the k likeliest only, top_p < 1 from the smallest set that holds this much probability (Holtzman
    et al. 2020). seeds (B,): one generator a sentence (None: seeded by torch's default generator). source (B, S'): what
    constraints see as the source (None: `src` without EOS). never: tokens that are not produced, as PAD and BOS are not.
    """
    rules = Rules(src, src_mask, max_len, bos, eos, pad, constraints, source, never)
    rows = _Rows.begin(model.encode(src, src_mask), src, bos)
    found = _Found(src.size(0), 1, int(max_len.max()) + 1, pad, src.device)
    draw = _Draw(temperature, top_k, top_p, seeds, src.size(0)) if temperature > 0 else None
    while rows.sentence.numel():
        log_probs, rows = rows.step(model)
        scores = rules(log_probs, rows.prefix, rows.sentence)
        tokens = draw(scores, rows.sentence) if draw else largest(scores, 1)[1].squeeze(1)
        every = torch.arange(tokens.numel(), device=tokens.device)
        rows = rows.grow(every, tokens, rows.total + scores[every, tokens], log_probs)
        dead, done = rows.total.isneginf(), tokens == eos
        found.add(rows, rows.total, done & ~dead)
        rows = rows.keep(~done & ~dead)
    return ranked(*found.parts())


@torch.inference_mode()
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
    length_penalty: float | str = 0.6,
    coverage_penalty: float = 0.0,
    n_best: int | None = None,
    groups: int = 1,
    diversity: float = 0.0,
    constraints: Sequence[Constraint] = (),
    source: Tensor | None = None,
    never: Sequence[int] = (),
) -> Hypotheses:
    """The best hypotheses that beam search finds, ranked by log-probability / lp(length) + coverage.

    length_penalty: see `penalty`. coverage_penalty β: β Σ_s log(min(Σ_t a_ts, 1)) is added, a being cross-attention, the mean
    of layers and heads, and s the source's tokens without EOS (Wu et al. 2016, eq. 14). ValueError for a model without.

    A sentence has `size` places. A hypothesis that ends keeps its place, and the living ones compete for the others by
    plain log-probability, which is fair among equal lengths (as in Nematus and Marian). So a beam of one is greedy search,
    and a beam wider than there are sequences is an exhaustive one. n_best (None: size) is how many are returned. A sentence
    ends when as many are found as no living hypothesis can overtake, even if all that it still writes were certain; so
    n_best changes what is returned and how long it takes, but no rank. That needs constraints that never raise a score.

    groups G > 1: the places are shared out to G beams, one after the other at each step. To choose its tokens, a beam takes
    `diversity` off those that the beams before it have just chosen, each time that they were (Vijayakumar et al. 2016, with
    Hamming distance); hypotheses are ranked without that, and what several beams find counts once. max_len, source and never
    are as in `sample`.
    """
    if size < 1:
        raise ValueError(f"beam size must be at least 1, not {size}")
    if groups < 1 or size % groups:
        raise ValueError(f"groups must divide the beam size, but {groups} do not divide {size}")
    count = min(n_best or size, size)
    rules = Rules(src, src_mask, max_len, bos, eos, pad, constraints, source, never)
    state = model.encode(src, src_mask, need_weights=coverage_penalty > 0)
    ranking = _Ranking(length_penalty, coverage_penalty, src_mask & (src != eos), max_len)
    begin = _Rows.begin(state, src, bos, coverage=coverage_penalty > 0)
    length = int(max_len.max()) + 1
    beams = [
        _Beam(begin, _Found(src.size(0), size // groups, length, pad, src.device), count if groups == 1 else None)
        for _ in range(groups)
    ]
    while any(group.rows.sentence.numel() for group in beams):
        taken = None
        for group in (group for group in beams if group.rows.sentence.numel()):
            sentence, tokens, entries = group.advance(model, rules, ranking, eos, taken)
            if groups > 1:
                taken = torch.zeros(src.size(0), entries, device=src.device) if taken is None else taken
                taken.index_put_((sentence, tokens), taken.new_full((), -diversity), accumulate=True)
    parts = [torch.cat(part, dim=1) for part in zip(*(group.found.parts() for group in beams))]
    return ranked(*(parts if groups == 1 else once(*parts, pad)), count)


def penalty(length: int | Tensor, alpha: float | str) -> float | Tensor:
    """lp(length) of Wu et al. 2016, eq. 14: ((5 + length) / 6)^alpha, EOS counted; 0: none. "average": the length itself."""
    return length if alpha == "average" else ((5 + length) / 6) ** alpha


@torch.inference_mode()
def score(model: Seq2Seq, src: Tensor, src_mask: Tensor, tgt: Tensor, gold: Tensor, *, pad: int) -> Tensor:
    """The model's log-probability of each token of `gold` (B, T), 0 on padding; tgt is gold behind BOS, without its end."""
    hidden, real = model(src, src_mask, tgt).hidden, gold != pad
    log_probs = model.project(hidden[real]).float().log_softmax(dim=-1).gather(1, gold[real].unsqueeze(1)).squeeze(1)
    return log_probs.new_zeros(gold.shape).masked_scatter(real, log_probs)


class _Rows(NamedTuple):
    """The hypotheses still alive, sentence after sentence.

    sentence (N,): which one each belongs to, ascending. tokens (N,): the newest. prefix, log_probs (N, t): all, and what the
    model gave each. total (N,): their sum, less what rules took off. covered (N, S): attention so far, or None. origin (N,):
    each one's row of the state, where that has not been brought into their order yet (None: it has), and before (M,), the
    sentences of the state's rows until then. constant: the entries of the state that no step has changed.
    """

    sentence: Tensor
    tokens: Tensor
    prefix: Tensor
    log_probs: Tensor
    total: Tensor
    covered: Tensor | None
    state: State
    constant: frozenset[str] = frozenset()
    origin: Tensor | None = None
    before: Tensor | None = None

    @classmethod
    def begin(cls, state: State, src: Tensor, bos: int, *, coverage: bool = False) -> "_Rows":
        """One row a sentence."""
        sentence = torch.arange(src.size(0), device=src.device)
        total, empty = torch.zeros(src.size(0), device=src.device), src.new_empty(src.size(0), 0)
        covered = torch.zeros(src.shape, device=src.device) if coverage else None
        return cls(sentence, torch.full_like(sentence, bos), empty, empty.float(), total, covered, state, frozenset(state))

    def step(self, model: Seq2Seq) -> tuple[Tensor, "_Rows"]:
        """Log-probabilities (N, V) of the next token, and the rows with the model's new state."""
        logits, state = model.step(self.tokens, self.state)
        constant = frozenset(name for name in self.constant if state.get(name) is self.state[name])
        covered = self.covered
        if covered is not None:
            if "cross" not in state:
                raise ValueError("a coverage penalty needs cross-attention, which this model has not")
            covered = covered + state["cross"].float().mean(dim=(1, 2))
        return logits.float().log_softmax(dim=-1), self._replace(state=state, constant=constant, covered=covered)

    def grow(self, rows: Tensor, tokens: Tensor, total: Tensor, log_probs: Tensor) -> "_Rows":
        """Each of these rows (M,) with one more token (M,) and its new total (M,); log_probs as `step` gave them."""
        prefix = torch.cat([self.prefix[rows], tokens.unsqueeze(1)], dim=1)
        each = torch.cat([self.log_probs[rows], log_probs[rows, tokens].unsqueeze(1)], dim=1)
        covered = None if self.covered is None else self.covered[rows]
        return _Rows(self.sentence[rows], tokens, prefix, each, total, covered, self.state, self.constant, rows, self.sentence)

    def keep(self, alive: Tensor) -> "_Rows":
        """After `grow`: the rows for which alive (N,) is true, and their state; the ended need none."""
        parts = (self.sentence, self.tokens, self.prefix, self.log_probs, self.total, self.covered)
        own = [None if part is None else part[alive] for part in parts]
        origin, size = self.origin[alive], self.before.size(0)
        same = origin.numel() == size and torch.equal(origin, torch.arange(size, device=origin.device))
        return _Rows(*own, self.state if same else self._selected(origin, own[0]), self.constant)

    def _selected(self, origin: Tensor, sentence: Tensor) -> State:
        """The state of these rows. What no step has changed since `encode` is the same in all rows of a sentence, so while each
        row of the state stays with its sentence, only the rest has to move.
        """
        stay = self.constant if torch.equal(self.before, sentence) else frozenset()
        moved = select({name: value for name, value in self.state.items() if name not in stay}, origin)
        return {name: moved.get(name, value) for name, value in self.state.items()}


class _Ranking:
    """What a hypothesis is worth, and what it could still come to be worth."""

    def __init__(self, length_penalty: float | str, coverage_penalty: float, real: Tensor, max_len: Tensor):
        self.length_penalty, self.coverage_penalty, self.real, self.max_len = length_penalty, coverage_penalty, real, max_len

    def scores(self, rows: _Rows) -> Tensor:
        """(N,), were they to end here."""
        scores = rows.total / penalty(rows.prefix.size(1), self.length_penalty)
        if rows.covered is not None:
            seen = rows.covered.clamp(min=1e-10, max=1.0).log().masked_fill(~self.real[rows.sentence], 0.0)
            scores = scores + self.coverage_penalty * seen.sum(dim=1)
        return scores

    def bounds(self, rows: _Rows) -> Tensor:
        """(N,): no continuation is worth more, since totals only fall, and coverage is at most 0."""
        longest = penalty((self.max_len[rows.sentence] + 1).to(rows.total.dtype), self.length_penalty)
        next_one = penalty(rows.prefix.size(1) + 1, self.length_penalty)
        return rows.total / torch.clamp(torch.as_tensor(longest, device=rows.total.device), min=next_one)


class _Beam:
    """One beam over all sentences. count: how many hypotheses are wanted of a sentence, or None: all that it has places for."""

    def __init__(self, rows: _Rows, found: "_Found", count: int | None):
        self.rows, self.found, self.count = rows, found, count

    def advance(
        self, model: Seq2Seq, rules: "Rules", ranking: _Ranking, eos: int, taken: Tensor | None
    ) -> tuple[Tensor, Tensor, int]:
        """One token more for every row. taken (B, V): what to add to the scores to choose by.

        Returns sentences and tokens of what was chosen, and V.
        """
        log_probs, before = self.rows.step(model)
        scores = rules(log_probs, before.prefix, before.sentence)  # (N, V), of the next token alone
        wanted = scores if taken is None else scores + taken[before.sentence]
        chosen, tokens = _best(wanted, before.total, before.sentence, self.found.places - self.found.count)
        rows = before.grow(chosen, tokens, before.total[chosen] + scores[chosen, tokens], log_probs)
        done = tokens == eos
        self.found.add(rows, ranking.scores(rows), done)
        self.rows = rows.keep(~done & ~self._settled(rows, ranking, done))
        return rows.sentence, rows.tokens, log_probs.size(1)

    def _settled(self, rows: _Rows, ranking: _Ranking, done: Tensor) -> Tensor:
        """(N,): whether the row's sentence has what is wanted, and none of its living rows can come before that."""
        if self.count is None or self.count == self.found.places:
            return torch.zeros_like(done)
        bounds = ranking.bounds(rows).masked_fill(done, -math.inf)
        best = torch.full_like(self.found.scores[:, 0], -math.inf).scatter_reduce(0, rows.sentence, bounds, "amax")
        last = self.found.scores.topk(self.count, dim=1).values[:, -1]  # (B,), -inf where too few have ended
        return ((last >= best) & ~last.isneginf())[rows.sentence]


def _best(scores: Tensor, total: Tensor, sentence: Tensor, places: Tensor) -> tuple[Tensor, Tensor]:
    """Each sentence's best continuations among those of its rows, as many as it has places.

    scores (N, V) of the next token, total (N,) of what stands before it; sentence (N,), ascending; places (B,). Returns row
    and token of each, by sentence and rank.
    """
    width = min(int(places.max()), scores.size(1))
    values, tokens = largest(scores, width)  # (N, W): no row gives more than that
    values = values + total.unsqueeze(1)
    names, which, counts = sentence.unique_consecutive(return_inverse=True, return_counts=True)
    slot = torch.arange(sentence.numel(), device=scores.device) - (counts.cumsum(0) - counts)[which]
    table = values.new_full((names.numel(), int(counts.max()), width), -math.inf)
    table[which, slot] = values
    top, flat = table.flatten(1).topk(min(int(places.max()), table[0].numel()), dim=1)
    rank = torch.arange(top.size(1), device=scores.device)
    keep = (rank < places[names].unsqueeze(1)) & ~top.isneginf()
    first = (counts.cumsum(0) - counts).unsqueeze(1)
    rows = (first + flat // width)[keep]
    return rows, tokens[rows, (flat % width)[keep]]


def largest(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """`scores.topk(count)` of each row (N, V): values and places, the largest first.

    Where a row is long, its maxima by blocks of about √V come first: the largest `count` values lie in the blocks with the
    largest `count` maxima, and one pass over a row is several times as fast as a selection from it.
    """
    rows, size = scores.shape
    block = max(32, round(math.sqrt(size) / 32) * 32)  # a maximum of 89 values takes a CPU three times as long as one of 96
    blocks = size // block  # what is left behind the last block is looked at as it is
    if blocks <= 2 * count or scores.is_cuda:
        return scores.topk(count, dim=1)
    names = scores[:, : blocks * block].unflatten(1, (blocks, block)).amax(dim=2).topk(count, dim=1).indices  # (N, K)
    inside = (names.unsqueeze(2) * block + torch.arange(block, device=scores.device)).flatten(1)
    rest = torch.arange(blocks * block, size, device=scores.device).expand(rows, -1)
    places = torch.cat([inside, rest], dim=1)
    values, which = scores.gather(1, places).topk(count, dim=1)
    return values, places.gather(1, which)


def only(scores: Tensor, rows: Tensor, tokens: Tensor) -> None:
    """Leaves these rows (M,) of the scores (N, V) one token each (M,); changes the scores themselves."""
    if rows.numel():
        kept = scores[rows, tokens]
        scores[rows] = -math.inf
        scores[rows, tokens] = kept


class Rules:
    """What holds for every search: no PAD, no BOS, no other token of `never`, and only EOS at a sentence's length limit; then
    the caller's own.

    All but the last are written into the scores that it is given: what they rule out, nobody asks for again.
    """

    def __init__(
        self, src: Tensor, src_mask: Tensor, max_len: Tensor, bos: int, eos: int, pad: int,
        constraints: Sequence[Constraint], source: Tensor | None, never: Sequence[int],
    ):  # fmt: skip
        self.source = src.masked_fill(~src_mask | (src == eos), pad) if source is None else source
        self.max_len, self.eos, self.constraints, self.never = max_len, eos, constraints, (bos, pad, *never)

    def __call__(self, scores: Tensor, prefix: Tensor, sentence: Tensor) -> Tensor:
        for token in self.never:
            scores[:, token] = -math.inf
        last = (self.max_len[sentence] <= prefix.size(1)).nonzero().squeeze(1)  # (M,) rows
        only(scores, last, torch.full_like(last, self.eos))
        for constraint in self.constraints:
            scores = constraint(scores, prefix, self.source[sentence], sentence)
        return scores


class _Found:
    """The hypotheses that have ended: K places for each of B sentences."""

    def __init__(self, sentences: int, places: int, length: int, pad: int, device: torch.device):
        self.places = places
        self.tokens = torch.full((sentences, places, length), pad, dtype=torch.long, device=device)
        self.token_log_probs = torch.zeros(sentences, places, length, device=device)
        self.scores = torch.full((sentences, places), -math.inf, device=device)
        self.count = torch.zeros(sentences, dtype=torch.long, device=device)

    def add(self, rows: _Rows, scores: Tensor, done: Tensor) -> None:
        """Those rows (N) that are done, worth scores (N,)."""
        ended = done.nonzero().squeeze(1)
        if not ended.numel():
            return
        sentence = rows.sentence[ended]
        _, which, counts = sentence.unique_consecutive(return_inverse=True, return_counts=True)
        order = torch.arange(ended.numel(), device=ended.device) - (counts.cumsum(0) - counts)[which]
        place, length = self.count[sentence] + order, rows.prefix.size(1)
        self.tokens[sentence, place, :length] = rows.prefix[ended]
        self.token_log_probs[sentence, place, :length] = rows.log_probs[ended]
        self.scores[sentence, place] = scores[ended]
        self.count = self.count + torch.bincount(sentence, minlength=self.count.numel())

    def parts(self) -> tuple[Tensor, Tensor, Tensor]:
        """tokens and token_log_probs (B, K, T), scores (B, K)."""
        return self.tokens, self.token_log_probs, self.scores


def once(tokens: Tensor, token_log_probs: Tensor, scores: Tensor, pad: int) -> tuple[Tensor, Tensor, Tensor]:
    """Hypotheses (B, K, T) and their scores (B, K), with empty places instead of those that have been there before."""
    same = (tokens.unsqueeze(1) == tokens.unsqueeze(2)).all(dim=3)  # (B, K, K)
    again = same.tril(diagonal=-1).any(dim=2)
    tokens, token_log_probs = (
        part.masked_fill(again.unsqueeze(2), nothing) for part, nothing in ((tokens, pad), (token_log_probs, 0.0))
    )
    return tokens, token_log_probs, scores.masked_fill(again, -math.inf)


def ranked(tokens: Tensor, token_log_probs: Tensor, scores: Tensor, count: int | None = None) -> Hypotheses:
    """The best `count` (None: all) of hypotheses (B, K, T), by their scores (B, K)."""
    scores, order = scores.sort(dim=1, descending=True, stable=True)
    scores, order = scores[:, :count], order[:, :count].unsqueeze(2).expand(-1, -1, tokens.size(2))
    each = token_log_probs.gather(1, order)
    return Hypotheses(tokens.gather(1, order), scores, each.sum(dim=2).masked_fill(scores.isneginf(), -math.inf), each)


class _Draw:
    """Draws a token a row, each sentence from its own generator, so that its neighbours do not matter.

    Of tokens that each wait for an exponentially distributed time at a rate of their probability, the first one is a draw (the
    Gumbel-max trick, Maddison et al. 2014). Unlike a search in cumulated probabilities, whose thousands of bounds all move
    with the last digits of a sum, it only depends on these where the two first ones come at the same time.
    """

    def __init__(self, temperature: float, top_k: int, top_p: float, seeds: Tensor | None, sentences: int):
        if seeds is None:
            seeds = torch.randint(2**62, (sentences,))
        self.generators = [torch.Generator().manual_seed(int(seed)) for seed in seeds]
        self.temperature, self.top_k, self.top_p = temperature, top_k, top_p

    def __call__(self, scores: Tensor, sentence: Tensor) -> Tensor:
        """scores (N, V) -> tokens (N,)."""
        scores = scores / self.temperature
        values, tokens = scores.sort(dim=-1, descending=True, stable=True)
        if self.top_k > 0:
            values = values[:, : self.top_k]
        probability = values.softmax(dim=-1)
        before = probability.cumsum(dim=-1) - probability
        kept = values.masked_fill(before >= self.top_p, -math.inf)
        scores = torch.full_like(scores, -math.inf).scatter_(1, tokens[:, : kept.size(1)], kept)
        waits = torch.stack([torch.empty(scores.size(1)).exponential_(generator=self.generators[i]) for i in sentence.tolist()])
        return (scores - waits.log().to(scores)).argmax(dim=-1)
