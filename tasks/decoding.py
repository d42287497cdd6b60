"""What `decode=…` chooses: a search with its options, from a batch of sources to hypotheses."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from data.batching import Batch
from data.errors import DuetError
from data.tokenizer import BOS, EOS, PAD, UNK, Tokenizer
from model import constraints
from model.base import Seq2Seq, attention_shapes
from model.search import Constraint, Hypotheses, beam, sample


@dataclass(frozen=True)
class Request:
    """A text to translate, and what a person asks of the answer.

    prefix: what it begins with. The others are for decode=couplet alone, which takes no prefix. fixed: as many characters as
    the text has, `-` where any may come. words: what must occur. avoid: characters that must not.
    """

    text: str
    _: KW_ONLY
    prefix: str = ""
    fixed: str = ""
    words: tuple[str, ...] = ()
    avoid: str = ""


class About(NamedTuple):
    """What a search is told of a batch beside its ids.

    tokenizer: of the target. requests (B): what is asked for each source.
    """

    tokenizer: Tokenizer
    requests: Sequence[Request]


class Decoded(NamedTuple):
    """What a search found for a batch.

    hypotheses: their ids and scores. texts (B, K): the same in words, one line each, "" where nothing was found. given_up (B):
    what was given up to find them.
    """

    hypotheses: Hypotheses
    texts: list[list[str]]
    given_up: list[tuple[str, ...]]


IDS = {"bos": BOS, "eos": EOS, "pad": PAD}


def one_line(text: str) -> str:
    """A tokenizer may have learned a line break from its corpus; a line of output has none."""
    return text.replace("\n", " ").replace("\r", " ")


def in_words(found: Hypotheses, tokenizer: Tokenizer) -> Decoded:
    """With the texts of the ids."""
    texts = [[one_line(tokenizer.decode(row)) for row in rows] for rows in found.tokens.tolist()]
    return Decoded(found, texts, [()] * len(texts))


def answer(decode: "Decode", model: Seq2Seq, batch: Batch, tokenizer: Tokenizer, texts: Sequence[str]) -> Decoded:
    """What a search makes of a batch; texts: of its whole split."""
    return decode(model, batch, About(tokenizer, [Request(texts[place]) for place in batch.index.tolist()]))


@dataclass(kw_only=True)
class Decode:
    """Options of every search.

    max_len_a, max_len_b: an output has at most a·S + b tokens, S being the source's (EOS not counted on either side); and
    no more than the model has positions for. min_len: tokens before which none ends. no_repeat_ngram: the size of n-grams that
    do not occur twice in an output (0: any may). repetition_penalty: a factor on the log-probability of tokens that the output
    has already. unk: whether the unknown token may be produced. takes_wishes: whether a search heeds what a Request asks beside
    its prefix.
    """

    takes_wishes: ClassVar[bool] = False
    max_len_a: float = 2.0
    max_len_b: float = 20.0
    min_len: int = 0
    no_repeat_ngram: int = 0
    repetition_penalty: float = 1.0
    unk: bool = False

    def __post_init__(self):
        least = {"max_len_a": 0, "max_len_b": 0, "min_len": 0, "no_repeat_ngram": 0, "repetition_penalty": 1}
        self.check_least(least)
        for name, most in {"max_len_a": 100, "max_len_b": 10_000}.items():
            if getattr(self, name) > most:
                raise ValueError(f"decode.{name} must be at most {most:,}, not {getattr(self, name)}")
        if self.max_len_a == 0 and self.min_len > int(self.max_len_b):
            raise ValueError(f"decode.min_len is {self.min_len}, but no output has more than decode.max_len_b={self.max_len_b}")

    def check_least(self, least: dict[str, float]) -> None:
        """Raises ValueError for an option below its least value."""
        for name, bound in least.items():
            if not getattr(self, name) >= bound:
                raise ValueError(f"decode.{name} must be at least {bound}, not {getattr(self, name)}")

    def rules(self) -> list[Constraint]:
        """The constraints that the options ask for."""
        rules = []
        if self.no_repeat_ngram:
            rules.append(constraints.no_repeat_ngram(self.no_repeat_ngram))
        if self.repetition_penalty > 1:
            rules.append(constraints.repetition_penalty(self.repetition_penalty))
        if self.min_len:
            rules.append(constraints.min_length(self.min_len, EOS))  # the last of these: it must see what they leave
        return rules

    def check(self, model: Seq2Seq, src_tokenizer: Tokenizer, tgt_tokenizer: Tokenizer) -> None:
        """Raises DuetError for a model or tokenizers that this search cannot work with: told before the work."""

    def limits(self, model: Seq2Seq, src_mask: Tensor) -> Tensor:
        """(B,), for each sentence on its own: its neighbours in the batch do not matter."""
        source = (src_mask.sum(dim=1) - 1).double()
        limits = (self.max_len_a * source + self.max_len_b).long()
        return limits if model.max_target is None else limits.clamp(max=model.max_target - 1)

    def __call__(self, model: Seq2Seq, batch: Batch, about: About) -> Decoded:
        """DuetError for a prefix that the model has no positions for, and for what only decode=couplet can heed."""
        if any(request.fixed or request.words or request.avoid for request in about.requests):
            raise DuetError("fixed characters, words and characters to avoid need decode=couplet")
        limits, rules, never = self.limits(model, batch.src_mask), self.rules(), [] if self.unk else [UNK]
        if any(request.prefix for request in about.requests):
            begin = prefixes(model, about).to(batch.src.device)
            limits = torch.maximum(limits, (begin != PAD).sum(dim=1))
            unknown = [] if self.unk else [constraints.only_where(begin, UNK)]
            given = constraints.fixed(begin, eos=EOS, pad=PAD)
            rules, never = [given, *unknown, *(constraints.where_free(begin, rule, pad=PAD) for rule in rules)], []
        common = {"max_len": limits, "constraints": rules, "never": never, **IDS}
        return in_words(self.search(model, batch, common), about.tokenizer)

    def search(self, model: Seq2Seq, batch: Batch, common: dict) -> Hypotheses:
        """common: what every search of `model.search` is given."""
        raise NotImplementedError


def prefixes(model: Seq2Seq, about: About) -> Tensor:
    """(B, longest): the ids that each output begins with, then PAD."""
    rows = [target_ids(model, about.tokenizer, request.prefix) for request in about.requests]
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[PAD] * (longest - len(row))] for row in rows])


def target_ids(model: Seq2Seq, tokenizer: Tokenizer, text: str, limit: int | None = None) -> list[int]:
    """Without EOS; cut at `limit`. DuetError where they are more than the model has positions for."""
    ids, most = tokenizer.encode(text)[:limit], model.max_target
    if most is not None and len(ids) >= most:
        raise DuetError(f"a target has {len(ids)} tokens, this model has places for {most - 1} and EOS")
    return ids


@dataclass(kw_only=True)
class Greedy(Decode):
    """The likeliest token at each step."""

    def search(self, model, batch, common):
        return sample(model, batch.src, batch.src_mask, **common)


@dataclass(kw_only=True)
class Sample(Decode):
    """Tokens drawn at random; each sentence has its own generator, seeded by `seed` and its place in the file."""

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 1

    def __post_init__(self):
        super().__post_init__()
        if self.temperature < 1e-6:  # log-probabilities divided by less leave what float32 can hold
            told = f"decode.temperature must be at least 0.000001, not {self.temperature}"
            raise ValueError(f"{told}; decode=greedy is its limit at 0")
        self.check_least({"top_k": 0})
        if not 0 < self.top_p <= 1:
            raise ValueError(f"decode.top_p must be above 0 and at most 1, not {self.top_p}")

    def search(self, model, batch, common):
        options = {"temperature": self.temperature, "top_k": self.top_k, "top_p": self.top_p}
        # a CPU generator takes 32 bits; odd factors: no two alike
        seeds = (batch.index * 0x9E3779B1 + self.seed * 0x85EBCA77 % 2**32) % 2**32
        return sample(model, batch.src, batch.src_mask, seeds=seeds, **options, **common)


@dataclass(kw_only=True)
class Beam(Decode):
    """Beam search. size: hypotheses kept; n_best: of these, how many are returned; the other options: `model.search.beam`."""

    size: int = 5
    n_best: int = 1
    length_penalty: float | str = 1.0
    coverage_penalty: float = 0.0
    groups: int = 1
    diversity: float = 0.5

    def __post_init__(self):
        super().__post_init__()
        self.check_least({"size": 1, "n_best": 1, "coverage_penalty": 0, "groups": 1, "diversity": 0})
        if self.n_best > self.size:
            raise ValueError(f"decode.n_best must be at most decode.size={self.size}, not {self.n_best}")
        if self.size % self.groups:
            raise ValueError(f"decode.groups must divide decode.size={self.size}, but {self.groups} does not")
        if isinstance(self.length_penalty, str) and self.length_penalty != "average":
            raise ValueError(f"decode.length_penalty must be a number or average, not {self.length_penalty!r}")
        if not isinstance(self.length_penalty, str) and not -10 <= self.length_penalty <= 10:
            raise ValueError(f"decode.length_penalty must be from -10 to 10, not {self.length_penalty}")

    def check(self, model, src_tokenizer, tgt_tokenizer):
        if self.coverage_penalty > 0 and "cross" not in attention_shapes(model):
            raise DuetError("decode.coverage_penalty needs cross-attention, and this model has none: leave it at 0")

    def search(self, model, batch, common):
        options = ("size", "n_best", "length_penalty", "coverage_penalty", "groups", "diversity")
        return beam(model, batch.src, batch.src_mask, **{name: getattr(self, name) for name in options}, **common)
