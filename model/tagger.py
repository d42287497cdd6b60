"""A tagger: one token for each source token, named by a network that has read the whole source in both directions.

No token sees the ones before it. That suits couplets, whose lower line answers the upper one character by character: there it
is cheap and hard to beat, and for translation it is nothing.

Shapes: B sentences, N search rows, S source tokens, T target tokens, C channels of a direction, E channels of embeddings,
V vocabulary.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.base import Output, Seq2Seq, State
from model.dropout import Dropout
from model.recurrent import CELLS, Embedding, Encoder, initialise
from model.transformer import TIES, choose


class Tagger(Seq2Seq):
    """P(y_t | x) = softmax(W tanh(R [→h_t; ←h_t])), h being a bidirectional recurrence over x (Huang, Xu & Yu 2015, figure 4).

    Target place t belongs to source place t; to the place of the source's EOS belongs EOS, which the model learns, and so ends
    as long as its source. Past it every place is a repetition of that one, so that any pair of lengths has a loss.

    cell: lstm, gru. layers: of the recurrence, each in both directions. channels: width C of a direction;
    embedding_channels: width E of the embeddings and of what predicts a token.
    tie: which matrices are one: none; all (source embedding = output W: shared vocabulary). There is no target embedding.
    dropout: on embeddings, after layers, and on what predicts a token.
    Raises ValueError for a choice that is not there, and for sizes that do not fit.
    """

    def __init__(
        self,
        src_vocabulary: int,
        tgt_vocabulary: int,
        *,
        cell: str = "lstm",
        layers: int = 2,
        channels: int = 192,
        embedding_channels: int = 128,
        tie: str = "all",
        dropout: float = 0.3,
    ):
        super().__init__()
        if tie == "all" and src_vocabulary != tgt_vocabulary:
            raise ValueError(
                f"tie=all needs one shared vocabulary, but source and target have {src_vocabulary} and {tgt_vocabulary} "
                f"entries; allowed here: none"
            )
        if min(layers, channels, embedding_channels) < 1:
            raise ValueError(
                f"layers, channels and embedding_channels must be at least 1, not {layers}, {channels} and {embedding_channels}"
            )
        make, widths = choose("cell", cell, CELLS), [embedding_channels, *[2 * channels] * (layers - 1)]
        self.encoder = Encoder(
            Embedding(src_vocabulary, embedding_channels, dropout),
            [make(width, channels) for width in widths],
            [make(width, channels) for width in widths],
            dropout=dropout,
        )
        self.readout, self.dropout = nn.Linear(2 * channels, embedding_channels), Dropout(dropout)
        initialise(self, [*self.encoder.forth, *self.encoder.back])
        self.output = choose("tie", tie, {"none": TIES["none"], "all": _tie_source})(self, tgt_vocabulary, embedding_channels)

    @torch.compiler.disable  # a loop over tokens: it would be compiled again for each length
    def forward(self, src, src_mask, tgt, *, need_weights=False, teacher_forcing=1.0) -> Output:
        if teacher_forcing < 1.0:
            raise ValueError(f"a tagger reads no target token, so teacher_forcing must be 1 here, not {teacher_forcing}")
        state = self.encode(src, src_mask)
        steps = torch.arange(tgt.size(1), device=src.device)
        places = torch.minimum(steps, state["last"].unsqueeze(1))  # (B, T)
        hidden = state["hidden"].gather(1, places.unsqueeze(2).expand(-1, -1, state["hidden"].size(2)))
        weights = F.one_hot(places, src.size(1)).to(hidden.dtype)  # (B, T, S)
        return Output(hidden, {"cross": weights[:, None, None]} if need_weights else {})

    def project(self, hidden: Tensor) -> Tensor:
        return F.linear(hidden, self.output)

    def encode(self, src: Tensor, src_mask: Tensor, *, need_weights: bool = False) -> State:
        """All is decided here: `hidden` (B, S, E). `position` (B,) is the step to come, `last` (B,) the place of EOS."""
        encoded, _ = self.encoder(src, src_mask)
        last = src_mask.sum(dim=1) - 1
        state = {
            "hidden": self.dropout(self.readout(encoded).tanh()),
            "last": last,
            "position": torch.zeros_like(last),
        }
        return state | ({"cross": encoded.new_zeros(src.size(0), 1, 1, src.size(1))} if need_weights else {})

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        place, rows = torch.minimum(state["position"], state["last"]), torch.arange(tokens.size(0), device=tokens.device)
        new = state | {"position": state["position"] + 1}
        if "cross" in state:
            new["cross"] = F.one_hot(place, state["cross"].size(3)).to(state["cross"].dtype)[:, None, None]
        return self.project(state["hidden"][rows, place]), new


def _tie_source(model: Tagger, vocabulary: int, channels: int) -> nn.Parameter:
    return model.encoder.embedding.weight
