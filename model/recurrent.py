"""Recurrent translators, from the fixed vector to attention (Cho et al. 2014, Bahdanau et al. 2015, Luong et al. 2015).

Cells, encoder, what a decoder may look at, decoder, and the whole. Attention is a score × a window × a pick.

Shapes: B sentences, N search rows, S source tokens, T target tokens, C channels, E channels of embeddings, G = C × gates of
a cell, V vocabulary.
"""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.base import Output, Seq2Seq, State
from model.dropout import Dropout
from model.transformer import TIES, choose

Parts = tuple[Tensor, ...]  # what a cell remembers, each (N, C)


# Cells


class Cell(nn.Module):
    """One step of a recurrent layer, in two halves: what its input adds to the gates, and the rest.

    The first half needs no state, so that it is one product for all tokens where all inputs are known.
    gates: how many; parts: the names of what it remembers, the output first.
    """

    gates: int
    parts: tuple[str, ...]

    def __init__(self, inputs: int, channels: int):
        super().__init__()
        self.input = nn.Linear(inputs, self.gates * channels)
        self.recurrent = nn.Parameter(torch.empty(self.gates * channels, channels))

    def forward(self, x: Tensor, state: Parts) -> Parts:
        """x (N, G), an input through `self.input`, and the state before -> the state after it."""
        raise NotImplementedError

    def reset_parameters(self) -> None:
        """Initial weights: Xavier-uniform from the input, orthogonal in time (Saxe et al. 2014), each gate on its own."""
        by_gate(nn.init.xavier_uniform_, self.input.weight, self.gates)
        by_gate(nn.init.orthogonal_, self.recurrent, self.gates)
        nn.init.zeros_(self.input.bias)


class LSTM(Cell):
    """Long short-term memory (Hochreiter & Schmidhuber 1997), with a forget gate (Gers et al. 2000) that starts open."""

    gates, parts = 4, ("hidden", "cell")

    def forward(self, x: Tensor, state: Parts) -> Parts:
        hidden, cell = state
        gates = torch.addmm(x, hidden, self.recurrent.t())
        opening, new = gates.split([3 * cell.size(1), cell.size(1)], dim=1)
        enter, forget, leave = opening.sigmoid().chunk(3, dim=1)
        cell = forget * cell + enter * new.tanh()
        return leave * cell.tanh(), cell

    def reset_parameters(self) -> None:
        super().reset_parameters()
        nn.init.ones_(self.input.bias.chunk(self.gates)[1])  # Jozefowicz et al. 2015


class GRU(Cell):
    """Gated recurrent unit (Cho et al. 2014); the reset gate acts after the product with the state, as in cuDNN."""

    gates, parts = 3, ("hidden",)

    def forward(self, x: Tensor, state: Parts) -> Parts:
        (hidden,) = state
        size = 2 * hidden.size(1)
        past = hidden @ self.recurrent.t()  # (N, G)
        reset, keep = (x[:, :size] + past[:, :size]).sigmoid().chunk(2, dim=1)
        new = (x[:, size:] + reset * past[:, size:]).tanh()
        return (new + keep * (hidden - new),)


CELLS = {"lstm": LSTM, "gru": GRU}


def by_gate(fill: Callable, weight: Tensor, gates: int) -> None:
    """Fills each gate's rows of a weight (G, inputs) as a matrix of its own."""
    for part in weight.chunk(gates):
        fill(part)


# Encoder


class Embedding(nn.Module):
    """Token vectors × √E, then dropout; scaled as the Transformer's, so that the output may share them."""

    def __init__(self, vocabulary: int, channels: int, dropout: float):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(vocabulary, channels) * channels**-0.5)
        self.dropout, self.scale = Dropout(dropout), channels**0.5

    def forward(self, tokens: Tensor) -> Tensor:
        """(…) -> (…, E)."""
        return self.dropout(F.embedding(tokens, self.weight) * self.scale)


class Encoder(nn.Module):
    """Two recurrences a layer, one in each direction (Schuster & Paliwal 1997).

    Padding leaves a state as it is. So the backward one comes to the last token with its initial state, whatever follows
    that token, and the forward one ends with the state that the last token gave it.
    """

    def __init__(self, embedding: Embedding, forth: list[Cell], back: list[Cell], *, dropout: float):
        super().__init__()
        self.embedding, self.dropout = embedding, Dropout(dropout)
        self.forth, self.back = nn.ModuleList(forth), nn.ModuleList(back)

    def forward(self, src: Tensor, src_mask: Tensor) -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:
        """(B, S) -> outputs (B, S, 2C), and the last states of both directions (B, C) by layer and part."""
        x, last = self.embedding(src), []
        for forth, back in zip(self.forth, self.back):
            ahead, ahead_last = run(forth, x, src_mask)
            behind, behind_last = run(back, x, src_mask, backward=True)
            x = self.dropout(torch.cat([ahead, behind], dim=2))
            last += zip(ahead_last, behind_last)
        return x, last


def run(cell: Cell, x: Tensor, mask: Tensor, *, backward: bool = False) -> tuple[Tensor, Parts]:
    """x (B, S, inputs) -> the cell's outputs (B, S, C) and its last state; backward begins at the end."""
    steps = list(zip(cell.input(x).unbind(1), mask.unsqueeze(2).unbind(1)))
    state, outputs = tuple(x.new_zeros(x.size(0), cell.recurrent.size(1)) for _ in cell.parts), []
    for gates, real in reversed(steps) if backward else steps:
        state = tuple(torch.where(real, new, old) for new, old in zip(cell(gates, state), state))
        outputs.append(state[0])
    return torch.stack(outputs[::-1] if backward else outputs, dim=1), state


class Sum(nn.Module):
    """The decoder starts from the sum of both directions' last states."""

    def __init__(self, channels: int, states: int):
        super().__init__()

    def forward(self, last: list[tuple[Tensor, Tensor]]) -> list[Tensor]:
        """Pairs of (B, C) -> one each."""
        return [forth + back for forth, back in last]


class Bridge(nn.Module):
    """The decoder starts from a linear function of both directions' last states, another one for each."""

    def __init__(self, channels: int, states: int):
        super().__init__()
        self.linears = nn.ModuleList([nn.Linear(2 * channels, channels) for _ in range(states)])

    def forward(self, last: list[tuple[Tensor, Tensor]]) -> list[Tensor]:
        """Pairs of (B, C) -> one each."""
        return [linear(torch.cat(pair, dim=1)) for linear, pair in zip(self.linears, last)]


MERGES = {"sum": Sum, "bridge": Bridge}


# Attention = a score × a window × a pick


class Score(nn.Module):
    """How well a source token suits a query."""

    def keys(self, memory: Tensor) -> Tensor:
        """(B, S, C) -> (B, S, C), once a sentence."""
        return memory

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        """(N, C), (N, S, C) -> (N, S)."""
        raise NotImplementedError


class Dot(Score):
    """q · k / √C (Luong et al. 2015, eq. 8, scaled as in Vaswani et al. 2017)."""

    def __init__(self, channels: int):
        super().__init__()
        self.scale = channels**-0.5

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        return torch.bmm(keys, (query * self.scale).unsqueeze(2)).squeeze(2)


class General(Dot):
    """q · W k / √C (Luong et al. 2015, eq. 8; scaled as the dot product, without which softmax begins too sharp to learn)."""

    def __init__(self, channels: int):
        super().__init__(channels)
        self.key = nn.Linear(channels, channels, bias=False)

    def keys(self, memory: Tensor) -> Tensor:
        return self.key(memory)


class Additive(Score):
    """v · tanh(W [q; k]), where W [q; k] = W₁ q + W₂ k (Bahdanau et al. 2015, appendix A.1.2)."""

    def __init__(self, channels: int):
        super().__init__()
        self.query = nn.Linear(channels, channels)
        self.key = nn.Linear(channels, channels, bias=False)
        self.energy = nn.Linear(channels, 1, bias=False)  # v

    def keys(self, memory: Tensor) -> Tensor:
        return self.key(memory)

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        return self.energy((keys + self.query(query).unsqueeze(1)).tanh()).squeeze(2)


SCORES = {"dot": Dot, "general": General, "additive": Additive}


class Window(nn.Module):
    """Where attention may look. reach: D, tokens to either side of a centre. Global: all of the source."""

    def __init__(self, channels: int, reach: int):
        super().__init__()
        self.reach = reach

    def forward(self, query: Tensor, state: State) -> Tensor:
        """query (N, C) -> what is added to the scores (N, S): −∞ where nothing may be looked at, and on padding."""
        return state["padding"]


class Monotonic(Window):
    """The 2D + 1 tokens around the t-th at step t (local-m of Luong et al. 2015), or around the last when t is past it."""

    def forward(self, query: Tensor, state: State) -> Tensor:
        centre = torch.minimum(state["position"], state["length"] - 1).unsqueeze(1)
        return state["padding"].masked_fill(distance(centre, state).abs() > self.reach, -math.inf)


class Predictive(Window):
    """The 2D + 1 tokens around p = S · sigmoid(v · tanh(W q)), or around the last when p is past it, the near ones more.

    Weights are × exp(−(s − p)² / 2σ²) with σ = D / 2 (local-p of Luong et al. 2015, eq. 9 and 10). That is added to the
    scores as a logarithm, which also makes the weights sum to 1 again; the paper leaves that out.
    """

    def __init__(self, channels: int, reach: int):
        super().__init__(channels, reach)
        self.query = nn.Linear(channels, channels, bias=False)  # W
        self.place = nn.Linear(channels, 1, bias=False)  # v

    def centre(self, query: Tensor, state: State) -> Tensor:
        """(N, C) -> p (N, 1), a real number in [0, S − 1], S being the length of each row's own sentence."""
        length = state["length"].unsqueeze(1).to(query.dtype)
        return torch.minimum(length * self.place(self.query(query).tanh()).sigmoid(), length - 1)

    def forward(self, query: Tensor, state: State) -> Tensor:
        centre = self.centre(query, state)
        far = distance(centre.round(), state).abs() > self.reach
        bell = distance(centre, state).square() * (-2 / self.reach**2)
        return (state["padding"] + bell).masked_fill(far, -math.inf)


WINDOWS = {"global": Window, "local_m": Monotonic, "local_p": Predictive}


def distance(centre: Tensor, state: State) -> Tensor:
    """From each row's centre (N, 1) to all source places: (N, S)."""
    return torch.arange(state["padding"].size(1), device=centre.device) - centre


class Soft(nn.Module):
    """The weights as they are."""

    def forward(self, weights: Tensor) -> Tensor:
        """(N, S) -> (N, S)."""
        return weights


class Hard(nn.Module):
    """The likeliest position alone; the gradient is that of the soft weights (straight-through, Bengio et al. 2013)."""

    def forward(self, weights: Tensor) -> Tensor:
        """(N, S) -> (N, S)."""
        return _StraightThrough.apply(weights)


class _StraightThrough(torch.autograd.Function):
    @staticmethod
    def forward(ctx, weights: Tensor) -> Tensor:
        return torch.zeros_like(weights).scatter_(1, weights.argmax(dim=1, keepdim=True), 1.0)

    @staticmethod
    def backward(ctx, grad: Tensor) -> Tensor:
        return grad


PICKS = {"soft": Soft, "hard": Hard}


# What a decoder sees of the source: a fixed vector, its own place, or what attention picks


class View(nn.Module):
    """The source, as a decoder sees it step by step."""

    def remember(self, encoded: Tensor, summary: Tensor, src_mask: Tensor) -> State:
        """Outputs (B, S, 2C) and merged last state (B, C) of the encoder -> what the steps need, once a sentence."""
        raise NotImplementedError

    def ahead(self, state: State, steps: int) -> Tensor | None:
        """The contexts (N, T, C) of all steps, or None where each depends on the decoder's state."""
        return None

    def forward(self, query: Tensor, state: State) -> tuple[Tensor, Tensor | None]:
        """The decoder's last output (N, C) -> context (N, C) and weights (N, S), None where there are none."""
        raise NotImplementedError


class FixedVector(View):
    """No attention: the encoder's last state, the same at every step (Cho et al. 2014)."""

    def __init__(self, channels: int):
        super().__init__()

    def remember(self, encoded: Tensor, summary: Tensor, src_mask: Tensor) -> State:
        return {"context": summary}

    def ahead(self, state: State, steps: int) -> Tensor | None:
        return state["context"].unsqueeze(1).expand(-1, steps, -1)

    def forward(self, query: Tensor, state: State) -> tuple[Tensor, Tensor | None]:
        return state["context"], None


class Memory(View):
    """Keeps the encoder's outputs, brought to the decoder's width: tanh(W [forth; back])."""

    def __init__(self, channels: int):
        super().__init__()
        self.memory = nn.Linear(2 * channels, channels)

    def remember(self, encoded: Tensor, summary: Tensor, src_mask: Tensor) -> State:
        return {"memory": self.memory(encoded).tanh(), "length": src_mask.sum(dim=1)}


class Aligned(Memory):
    """The rigid rule: step t sees output t, C_t = h_t, and those past the end see the last one."""

    def ahead(self, state: State, steps: int) -> Tensor | None:
        place = torch.minimum(torch.arange(steps, device=state["length"].device), state["length"].unsqueeze(1) - 1)
        return state["memory"].gather(1, place.unsqueeze(2).expand(-1, -1, state["memory"].size(2)))

    def forward(self, query: Tensor, state: State) -> tuple[Tensor, Tensor | None]:
        place = torch.minimum(state["position"], state["length"] - 1)
        weights = F.one_hot(place, state["memory"].size(1)).to(state["memory"].dtype)
        return average(weights, state["memory"]), weights


class Attention(Memory):
    """softmax(score + window), of which `pick` takes its part (Bahdanau et al. 2015, eq. 5 and 6)."""

    def __init__(self, channels: int, score: Score, window: Window, pick: nn.Module):
        super().__init__(channels)
        self.score, self.window, self.pick = score, window, pick

    def remember(self, encoded: Tensor, summary: Tensor, src_mask: Tensor) -> State:
        state = super().remember(encoded, summary, src_mask)
        padding = torch.zeros_like(src_mask, dtype=encoded.dtype).masked_fill(~src_mask, -math.inf)
        return state | {"keys": self.score.keys(state["memory"]), "padding": padding}

    def forward(self, query: Tensor, state: State) -> tuple[Tensor, Tensor | None]:
        scores = self.score(query, state["keys"]) + self.window(query, state)
        weights = self.pick(scores.softmax(dim=1))
        return average(weights, state["memory"]), weights


BEFORE_ATTENTION = {"none": FixedVector, "aligned": Aligned}


def average(weights: Tensor, memory: Tensor) -> Tensor:
    """Σ_s weights (N, S) · memory (N, S, C) -> (N, C)."""
    return torch.bmm(weights.unsqueeze(1), memory).squeeze(1)


# Decoder


class Decoder(nn.Module):
    """At each step the context joins the token's embedding as the input of the recurrence (Bahdanau et al. 2015, A.2.2).

    The query is the last layer's output of the step before, and what predicts the next token is
    h̃ = tanh(W [output; context]) (Luong et al. 2015, eq. 5), E wide. With input feeding (section 3.3 there) the h̃ of the step
    before is a part of the input too.

    Its state: `hidden.0`, `cell.0`, … (N, C) by layer, `position` (N,) of the step to come, what the view remembers of the
    source, and with input feeding `fed` (N, E).
    """

    def __init__(self, embedding: Embedding, view: View, cells: list[Cell], *, input_feeding: bool, dropout: float):
        super().__init__()
        channels, width = cells[0].recurrent.size(1), embedding.weight.size(1)
        self.embedding, self.view, self.cells = embedding, view, nn.ModuleList(cells)
        self.token = nn.Linear(width, cells[0].recurrent.size(0), bias=False)  # W [token; context] = W₁ token + W₂ context
        self.readout = nn.Linear(2 * channels, width)
        self.input_feeding, self.dropout = input_feeding, Dropout(dropout)
        self.names = [f"{part}.{i}" for i, cell in enumerate(cells) for part in cell.parts]
        self.top = f"hidden.{len(cells) - 1}"

    def start(self, first: list[Tensor], encoded: Tensor, src_mask: Tensor) -> State:
        """The state before the first step. first: (B, C) by layer and part; encoded: outputs (B, S, 2C) of the encoder."""
        state = dict(zip(self.names, first))
        state["position"] = torch.zeros_like(src_mask[:, 0], dtype=torch.long)
        if self.input_feeding:
            state["fed"] = encoded.new_zeros(src_mask.size(0), self.readout.out_features)
        return state | self.view.remember(encoded, state[self.top], src_mask)

    def forward(
        self, tgt: Tensor, state: State, forced: Tensor | None, own: Callable[[Tensor], Tensor]
    ) -> tuple[Tensor, list[Tensor | None]]:
        """tgt (B, T) -> h̃ (B, T, E), and each step's weights (B, S).

        forced (B, T): where a step is fed tgt's token, and not the one that `own` finds in the h̃ before (None: everywhere).
        """
        tokens, steps = self.token(self.embedding(tgt)).unbind(1), tgt.size(1)
        contexts = None if self.input_feeding else self.view.ahead(state, steps)
        inputs = [None] * steps if contexts is None else self.cells[0].input(contexts).unbind(1)
        pairs, weights = [], []
        for t, token in enumerate(tokens):
            if t and forced is not None:
                token = self._replace(token, ~forced[:, t], pairs[-1], own)
            pair, seen, state = self.step(token, state, inputs[t])
            pairs.append(pair)
            weights.append(seen)
        return self.dropout(self.read(torch.stack(pairs, dim=1))), weights

    def step(self, token: Tensor, state: State, inputs: Tensor | None = None) -> tuple[Tensor, Tensor | None, State]:
        """token (N, G), what the token adds to the first cell's gates -> output and context (N, 2C), weights, new state.

        inputs (N, G): what the context adds to them, where that was known before the step.
        """
        context, weights = self.view(state[self.top], state)
        if inputs is None:
            inputs = self.cells[0].input(torch.cat([context, state["fed"]], dim=1) if self.input_feeding else context)
        state = dict(state)
        for i, cell in enumerate(self.cells):
            x = cell.input(self.dropout(state[f"hidden.{i - 1}"])) if i else token + inputs
            names = [f"{part}.{i}" for part in cell.parts]
            state |= zip(names, cell(x, tuple(state[name] for name in names)))
        pair = torch.cat([state[self.top], context], dim=1)
        state["position"] = state["position"] + 1
        if self.input_feeding:
            state["fed"] = self.read(pair)
        return pair, weights, state

    def read(self, pair: Tensor) -> Tensor:
        """Output and context (…, 2C) -> h̃ (…, E)."""
        return self.readout(pair).tanh()

    def _replace(self, token: Tensor, where: Tensor, pair: Tensor, own: Callable[[Tensor], Tensor]) -> Tensor:
        """token (B, G) with the model's own tokens in the rows `where` (B,)."""
        rows = where.nonzero().squeeze(1)
        if not rows.numel():
            return token
        with torch.no_grad():
            tokens = own(self.read(pair[rows]))
        return token.index_copy(0, rows, self.token(self.embedding(tokens)))


# The whole


class Recurrent(Seq2Seq):
    """Encoder, decoder, and the output layer, under the contract of `Seq2Seq`.

    cell: lstm, gru. layers: of the encoder (each in both directions) and of the decoder.
    channels: width C of each direction, of the decoder and of attention; embedding_channels: width E of the embeddings.
    attention: what a step sees of the source: none (the encoder's last state only), aligned (output t, the rigid rule), or
    all outputs by a score: dot, general, additive.
    window: which of them: global; local_m (around the t-th), local_p (around a predicted place), each with `reach` tokens to
    either side. pick: soft (their average), hard (the best one).
    merge: what the decoder starts from: sum of both directions' last states; bridge, a linear function of them.
    input_feeding: whether the vector that predicted a token is an input of the next step.
    tie: which matrices are one: none; decoder (target embedding = output); all (source embedding too: shared vocabulary).
    dropout: on embeddings, between and after layers, and on what predicts a token.
    Raises ValueError for a choice that is not there, and for sizes and choices that do not fit.
    """

    can_feed_itself = True

    def __init__(
        self,
        src_vocabulary: int,
        tgt_vocabulary: int,
        *,
        cell: str = "lstm",
        layers: int = 1,
        channels: int = 224,
        embedding_channels: int = 128,
        attention: str = "additive",
        window: str = "global",
        reach: int = 5,
        pick: str = "soft",
        merge: str = "sum",
        input_feeding: bool = False,
        tie: str = "all",
        dropout: float = 0.1,
    ):
        super().__init__()
        if tie == "all" and src_vocabulary != tgt_vocabulary:
            raise ValueError(
                f"tie=all needs one shared vocabulary, but source and target have {src_vocabulary} and {tgt_vocabulary} "
                f"entries; allowed here: none, decoder"
            )
        if min(layers, channels, embedding_channels, reach) < 1:
            raise ValueError(
                f"layers, channels, embedding_channels and reach must be at least 1, not "
                f"{layers}, {channels}, {embedding_channels} and {reach}"
            )
        make = choose("cell", cell, CELLS)

        def cells(first: int, other: int) -> list[Cell]:
            return [make(first if i == 0 else other, channels) for i in range(layers)]

        both = 2 * channels
        self.encoder = Encoder(
            Embedding(src_vocabulary, embedding_channels, dropout),
            cells(embedding_channels, both),
            cells(embedding_channels, both),
            dropout=dropout,
        )
        self.merge = choose("merge", merge, MERGES)(channels, layers * len(make.parts))
        self.decoder = Decoder(
            Embedding(tgt_vocabulary, embedding_channels, dropout),
            make_view(channels, attention, window, reach, pick),
            cells(channels + embedding_channels if input_feeding else channels, channels),
            input_feeding=input_feeding,
            dropout=dropout,
        )
        initialise(self, [*self.encoder.forth, *self.encoder.back, *self.decoder.cells])
        by_gate(nn.init.xavier_uniform_, self.decoder.token.weight, make.gates)
        self.output = choose("tie", tie, TIES)(self, tgt_vocabulary, embedding_channels)

    @torch.compiler.disable  # a loop over tokens: it would be compiled again for each length
    def forward(self, src, src_mask, tgt, *, need_weights=False, teacher_forcing=1.0) -> Output:
        """As in `Seq2Seq`; a coin is tossed for each step of each sentence, from torch's default generator.

        Where it says so, a step is fed the likeliest token after the step before (Bengio et al. 2015).
        """
        if not 0.0 <= teacher_forcing <= 1.0:
            raise ValueError(f"teacher_forcing is a probability, from 0 to 1, not {teacher_forcing}")
        forced = torch.rand(tgt.shape, device=tgt.device) < teacher_forcing if teacher_forcing < 1.0 else None
        hidden, weights = self.decoder(tgt, self.encode(src, src_mask), forced, self._likeliest)
        shown = need_weights and weights[0] is not None
        return Output(hidden, {"cross": torch.stack(weights, dim=1)[:, None, None]} if shown else {})

    def project(self, hidden: Tensor) -> Tensor:
        return F.linear(hidden, self.output)

    def encode(self, src: Tensor, src_mask: Tensor, *, need_weights: bool = False) -> State:
        encoded, last = self.encoder(src, src_mask)
        state = self.decoder.start(self.merge(last), encoded, src_mask)
        if need_weights and "memory" in state:  # the fixed vector has no weights
            state["cross"] = encoded.new_zeros(src.size(0), 1, 1, src.size(1))
        return state

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        pair, weights, new = self.decoder.step(self.decoder.token(self.decoder.embedding(tokens)), state)
        if "cross" in state:
            new["cross"] = weights[:, None, None]  # (N, 1, 1, S)
        return self.project(self.decoder.dropout(self.decoder.read(pair))), new

    def _likeliest(self, hidden: Tensor) -> Tensor:
        return self.project(hidden).argmax(dim=-1)


def initialise(model: nn.Module, cells: list[Cell]) -> None:
    """Xavier-uniform matrices (Glorot & Bengio 2010) and zero biases for every linear layer, then what cells want."""
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
    for cell in cells:
        cell.reset_parameters()


def make_view(channels: int, attention: str, window: str, reach: int, pick: str) -> View:
    """What a decoder looks at, by its names; a window and a pick belong to a score."""
    make_window, make_pick = choose("window", window, WINDOWS), choose("pick", pick, PICKS)
    if choose("attention", attention, {**BEFORE_ATTENTION, **SCORES}) in SCORES.values():
        return Attention(channels, SCORES[attention](channels), make_window(channels, reach), make_pick())
    if (window, pick) != ("global", "soft"):
        raise ValueError(
            f"attention={attention} has no score, so it goes with window=global and pick=soft, not with {window} and {pick}"
        )
    return BEFORE_ATTENTION[attention](channels)
