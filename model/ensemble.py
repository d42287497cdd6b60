"""Several models that translate together."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from model.base import Output, Seq2Seq, State, least

WAYS = {  # log-probabilities of M members (M, …, V) -> those of all together
    "linear": lambda each: each.logsumexp(dim=0) - math.log(len(each)),
    "log_linear": lambda each: each.mean(dim=0).log_softmax(dim=-1),
}


class Ensemble(Seq2Seq):
    """Members with one vocabulary, of any kinds, under the contract of a single model.

    way: "linear", the mean of the members' probabilities, or "log_linear", their geometric mean, made to sum to 1 again.
    Its hidden states are theirs side by side, its state is theirs under the names `0.…`, `1.…`. Its attention is the mean
    of those members that have attention of that kind, each first averaged over its layers and heads: one layer, one head.
    """

    def __init__(self, members: Sequence[Seq2Seq], *, way: str = "linear"):
        super().__init__()
        if not members:
            raise ValueError("an ensemble needs at least one model")
        if way not in WAYS:
            raise ValueError(f"way must be one of {', '.join(WAYS)}, not {way!r}")
        self.members, self.way = nn.ModuleList(members), way
        self.max_source = least(member.max_source for member in members)
        self.max_target = least(member.max_target for member in members)

    def forward(
        self, src: Tensor, src_mask: Tensor, tgt: Tensor, *, need_weights: bool = False, teacher_forcing: float = 1.0
    ) -> Output:
        if teacher_forcing < 1.0:
            raise ValueError(f"an ensemble is not trained, so teacher_forcing must be 1 here, not {teacher_forcing}")
        outputs = [member(src, src_mask, tgt, need_weights=need_weights) for member in self.members]
        return Output(torch.cat([output.hidden for output in outputs], dim=-1), together([o.attention for o in outputs]))

    @property
    def width(self) -> int:
        return sum(member.width for member in self.members)

    def project(self, hidden: Tensor) -> Tensor:
        """Log-probabilities (…, V): logits as good as any."""
        parts = hidden.split([member.width for member in self.members], dim=-1)
        return self.mixed([member.project(part) for member, part in zip(self.members, parts)])

    def encode(self, src: Tensor, src_mask: Tensor, *, need_weights: bool = False) -> State:
        states = [member.encode(src, src_mask, need_weights=need_weights) for member in self.members]
        return {f"{i}.{name}": value for i, state in enumerate(states) for name, value in state.items()}

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        logits, states = zip(*(member.step(tokens, part) for member, part in zip(self.members, self.parts(state))))
        joined = {f"{i}.{name}": value for i, part in enumerate(states) for name, value in part.items()}
        return self.mixed(logits), joined | together([{"cross": s["cross"]} if "cross" in s else {} for s in states])

    def parts(self, state: State) -> list[State]:
        """Each member's own state."""
        heads = [f"{i}." for i in range(len(self.members))]
        return [{name.removeprefix(head): v for name, v in state.items() if name.startswith(head)} for head in heads]

    def mixed(self, logits: Sequence[Tensor]) -> Tensor:
        """The members' logits (…, V) -> log-probabilities of all together."""
        kinds = [torch.promote_types(part.dtype, torch.float32) for part in logits]
        return WAYS[self.way](torch.stack([part.to(kind).log_softmax(dim=-1) for part, kind in zip(logits, kinds)]))


def together(attentions: Sequence[dict[str, Tensor]]) -> dict[str, Tensor]:
    """kind -> mean of weights (N, layers, H, …) over layers, heads and those models that have that kind: (N, 1, 1, …)."""
    kinds = dict.fromkeys(kind for attention in attentions for kind in attention)
    means = {kind: [a[kind].mean(dim=(1, 2), keepdim=True) for a in attentions if kind in a] for kind in kinds}
    return {kind: torch.stack(parts).mean(dim=0) for kind, parts in means.items()}
