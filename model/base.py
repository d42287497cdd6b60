"""The one contract that every sequence-to-sequence model keeps, and that search, training and pictures rely on.

Shapes: B sentences, N search rows (B, or B × beam), S source tokens, T target tokens, C channels, V vocabulary, H heads.
"""

from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import Tensor, nn

State = dict[str, Tensor]
"""All that a decoder remembers between two steps; every tensor has the search rows on dimension 0."""


class Output(NamedTuple):
    """What `Seq2Seq.forward` returns.

    hidden: (B, T, C), to be given to `project`.
    attention: "encoder", "decoder" or "cross" -> (B, layers, H, T, S), before dropout; {} unless asked for.
    """

    hidden: Tensor
    attention: dict[str, Tensor]


class Seq2Seq(nn.Module):
    """A model of P(target | source), one target token after the other.

    `src` (B, S) ends with EOS and is padded on the right, `src_mask` (B, S) is True on its real tokens, `tgt` (B, T)
    begins with BOS. `max_source` and `max_target` are the most tokens (specials included) that the model can place;
    None stands for no limit. `can_feed_itself`: whether `forward` takes a teacher_forcing below 1.
    """

    max_source: int | None = None
    max_target: int | None = None
    can_feed_itself: bool = False
    output: Tensor

    @property
    def width(self) -> int:
        """C, the channels of a hidden state: the last matrix `output` is (V, C)."""
        return self.output.size(1)

    def forward(
        self, src: Tensor, src_mask: Tensor, tgt: Tensor, *, need_weights: bool = False, teacher_forcing: float = 1.0
    ) -> Output:
        """All target positions at once; hidden state t has seen tgt[:, : t + 1].

        teacher_forcing is the probability that a step is fed the reference's token instead of the model's own.
        """
        raise NotImplementedError

    def project(self, hidden: Tensor) -> Tensor:
        """(…, C) -> logits (…, V). Apart from `forward`, so that a loss projects real tokens only."""
        raise NotImplementedError

    def encode(self, src: Tensor, src_mask: Tensor, *, need_weights: bool = False) -> State:
        """Everything that is computed once a sentence. need_weights makes each `step` leave its weights in "cross"."""
        raise NotImplementedError

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """The last token of each row (N,) -> logits (N, V) of the next one, and a new state; changes no argument.

        Where `encode` was asked for weights, state["cross"] is (N, layers, H, S), the weights of this step.
        """
        raise NotImplementedError


@torch.no_grad()
def attention_shapes(model: Seq2Seq) -> dict[str, tuple[int, int]]:
    """kind -> (layers, heads) of all attention that a model has; found out by trying it on one token."""
    token, training = torch.zeros((1, 1), dtype=torch.long, device=next(model.parameters()).device), model.training
    found = model.eval()(token, torch.ones_like(token, dtype=torch.bool), token, need_weights=True).attention
    model.train(training)
    return {kind: tuple(weights.shape[1:3]) for kind, weights in found.items()}


def least(limits: Iterable[int | None]) -> int | None:
    """The smallest of limits of which some may be None (no limit)."""
    return min((limit for limit in limits if limit is not None), default=None)


def select(state: State, rows: Tensor) -> State:
    """The state of the given rows (M,), in that order; a row may be taken twice or left out."""
    return {name: value.index_select(0, rows) for name, value in state.items()}
