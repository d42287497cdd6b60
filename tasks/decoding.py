"""What `decode=…` chooses: a search with its options, from a batch of sources to hypotheses."""

from collections.abc import Sequence

import torch
from torch import Tensor

from data.tokenizer import BOS, EOS, PAD, UNK
from model.base import Seq2Seq
from model.search import Constraint, Hypotheses, beam, sample

IDS = {"bos": BOS, "eos": EOS, "pad": PAD}


def forbid(*ids: int) -> Constraint:
    """A constraint: these tokens are never produced."""

    def constraint(scores: Tensor, prefix: Tensor, source: Tensor, sentence: Tensor) -> Tensor:
        return scores.index_fill(1, torch.tensor(ids, device=scores.device), float("-inf"))

    return constraint


class Decode:
    """Options of every search.

    max_len_a, max_len_b: an output has at most a·S + b tokens, S being the source's (EOS not counted on either side); and
    no more than the model has positions for. unk: whether the unknown token may be produced.
    """

    def __init__(self, *, max_len_a: float = 2.0, max_len_b: float = 20.0, unk: bool = False):
        if max_len_a < 0 or max_len_b < 0:
            raise ValueError(f"decode.max_len_a and decode.max_len_b must be at least 0, not {max_len_a} and {max_len_b}")
        self.max_len_a, self.max_len_b = max_len_a, max_len_b
        self.constraints: Sequence[Constraint] = () if unk else (forbid(UNK),)

    def limits(self, model: Seq2Seq, src_mask: Tensor) -> Tensor:
        """(B,), for each sentence on its own: its neighbours in the batch do not matter."""
        source = (src_mask.sum(dim=1) - 1).double()
        limits = (self.max_len_a * source + self.max_len_b).long()
        return limits if model.max_target is None else limits.clamp(max=model.max_target - 1)

    def __call__(self, model: Seq2Seq, src: Tensor, src_mask: Tensor, index: Tensor) -> Hypotheses:
        """index (B,): the place of each sentence in its file."""
        raise NotImplementedError


class Greedy(Decode):
    """The likeliest token at each step."""

    def __init__(self, *, max_len_a: float = 2.0, max_len_b: float = 20.0, unk: bool = False):
        super().__init__(max_len_a=max_len_a, max_len_b=max_len_b, unk=unk)

    def __call__(self, model, src, src_mask, index):
        limits = self.limits(model, src_mask)
        return sample(model, src, src_mask, max_len=limits, constraints=self.constraints, **IDS)


class Sample(Decode):
    """Tokens drawn at random; each sentence has its own generator, seeded by `seed` and its place in the file."""

    def __init__(
        self,
        *,
        temperature: float = 1.0,
        top_k: int = 0,
        top_p: float = 1.0,
        seed: int = 1,
        max_len_a: float = 2.0,
        max_len_b: float = 20.0,
        unk: bool = False,
    ):
        super().__init__(max_len_a=max_len_a, max_len_b=max_len_b, unk=unk)
        if temperature <= 0:
            raise ValueError(f"decode.temperature must be above 0, not {temperature}; decode=greedy is its limit at 0")
        if top_k < 0 or not 0 < top_p <= 1:
            raise ValueError(f"decode.top_k must be at least 0 and decode.top_p in (0, 1], not {top_k} and {top_p}")
        self.temperature, self.top_k, self.top_p, self.seed = temperature, top_k, top_p, seed

    def __call__(self, model, src, src_mask, index):
        options = {"temperature": self.temperature, "top_k": self.top_k, "top_p": self.top_p}
        limits = self.limits(model, src_mask)
        seeds = (index * 0x9E3779B1 + self.seed * 0x85EBCA77) % 2**32  # a CPU generator takes 32 bits; odd: no two alike
        return sample(model, src, src_mask, max_len=limits, seeds=seeds, constraints=self.constraints, **options, **IDS)


class Beam(Decode):
    """Beam search; size: hypotheses kept; length_penalty: exponent of Wu et al. 2016, eq. 14 (0: none)."""

    def __init__(
        self,
        *,
        size: int = 5,
        length_penalty: float = 1.0,
        max_len_a: float = 2.0,
        max_len_b: float = 20.0,
        unk: bool = False,
    ):
        super().__init__(max_len_a=max_len_a, max_len_b=max_len_b, unk=unk)
        if size < 1:
            raise ValueError(f"decode.size must be at least 1, not {size}")
        self.size, self.length_penalty = size, length_penalty

    def __call__(self, model, src, src_mask, index):
        options = {"size": self.size, "length_penalty": self.length_penalty}
        limits = self.limits(model, src_mask)
        return beam(model, src, src_mask, max_len=limits, constraints=self.constraints, **options, **IDS)
