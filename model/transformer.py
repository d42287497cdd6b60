"""The Transformer (Vaswani et al. 2017) in the order of the paper: layers, stacks, and the whole.

Shapes: B sentences, N search rows, S source tokens, T target tokens, C channels, V vocabulary, H heads, D = C / H.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.attention import MultiHeadAttention, window_mask
from model.base import Output, Seq2Seq, State
from model.dropout import Dropout, check_probability
from model.ffn import FEED_FORWARDS
from model.norm import NORMS
from model.positions import POSITIONS, Positions

Cache = tuple[Tensor, Tensor]  # keys and values, each (N, H, tokens, D)


class EncoderLayer(nn.Module):
    """Self-attention over the source, then the feed-forward network."""

    def __init__(
        self, channels: int, hidden: int, heads: int, *, norm, feed_forward, dropout, attention_dropout, activation_dropout
    ):
        super().__init__()
        self.attention = MultiHeadAttention(channels, heads, dropout=attention_dropout)
        self.feed_forward = feed_forward(channels, hidden, activation_dropout)
        self.around_attention, self.around_feed_forward = norm(channels, dropout), norm(channels, dropout)

    def forward(self, x: Tensor, positions: Positions, mask, bias, *, need_weights=False) -> tuple[Tensor, Tensor | None]:
        """(B, S, C) -> (B, S, C), weights (B, H, S, S)."""
        inner = self.around_attention.before(x)
        q = positions.rotate(self.attention.queries(inner))
        k, v = self.attention.keys_values(inner)
        y, weights = self.attention(q, positions.rotate(k), v, mask, bias, need_weights=need_weights)
        x = self.around_attention.after(x, y)
        y = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, y), weights


class DecoderLayer(nn.Module):
    """Self-attention over the target so far, attention to the source, then the feed-forward network."""

    def __init__(
        self, channels: int, hidden: int, heads: int, *, norm, feed_forward, dropout, attention_dropout, activation_dropout
    ):
        super().__init__()
        self.attention = MultiHeadAttention(channels, heads, dropout=attention_dropout)
        self.cross = MultiHeadAttention(channels, heads, dropout=attention_dropout)
        self.feed_forward = feed_forward(channels, hidden, activation_dropout)
        self.around_attention, self.around_cross = norm(channels, dropout), norm(channels, dropout)
        self.around_feed_forward = norm(channels, dropout)

    def forward(
        self, x: Tensor, positions: Positions, cache: Cache | None, memory: Cache, mask, bias, src_mask, *, need_weights=False
    ) -> tuple[Tensor, Cache, Tensor | None, Tensor | None]:
        """x (B, T, C): the whole target (cache None), or its newest token (T = 1) with the cache of those before it.

        memory is the source's keys and values. Returns x, the cache with these tokens in it, and the weights of
        self-attention (B, H, T, all tokens) and of cross-attention (B, H, T, S).
        """
        inner = self.around_attention.before(x)
        start = 0 if cache is None else cache[0].size(2)
        q = positions.rotate(self.attention.queries(inner), start)
        k, v = self.attention.keys_values(inner)
        k = positions.rotate(k, start)
        if cache is not None:
            k, v = torch.cat([cache[0], k], dim=2), torch.cat([cache[1], v], dim=2)
        y, self_weights = self.attention(q, k, v, mask, bias, causal=cache is None, need_weights=need_weights)
        x = self.around_attention.after(x, y)

        q = self.cross.queries(self.around_cross.before(x))
        y, cross_weights = self.cross(q, *memory, src_mask, need_weights=need_weights)
        x = self.around_cross.after(x, y)

        y = self.feed_forward(self.around_feed_forward.before(x))
        return self.around_feed_forward.after(x, y), (k, v), self_weights, cross_weights


class Embedding(nn.Module):
    """Token vectors × √C with positions added (section 3.4), then dropout.

    Vectors start with a standard deviation of 1/√C: so scaled they are as large as the positions, and the same matrix
    used for the output gives logits of about unit size.
    """

    def __init__(self, vocabulary: int, channels: int, positions: Positions, dropout: float):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(vocabulary, channels) * channels**-0.5)
        self.positions, self.dropout, self.scale = positions, Dropout(dropout), channels**0.5

    def forward(self, tokens: Tensor, start: int = 0) -> Tensor:
        """(B, T) -> (B, T, C); the first token stands at `start`."""
        return self.dropout(self.positions.embed(F.embedding(tokens, self.weight) * self.scale, start))


class Encoder(nn.Module):
    """The source's embedding and a stack of layers."""

    def __init__(self, embedding: Embedding, layers: list[EncoderLayer], last: nn.Module, *, window: int | None):
        super().__init__()
        self.embedding, self.layers, self.last, self.window = embedding, nn.ModuleList(layers), last, window

    def forward(self, src: Tensor, src_mask: Tensor, *, need_weights: bool = False) -> tuple[Tensor, list[Tensor]]:
        """(B, S) -> (B, S, C), weights (B, H, S, S) of each layer (empty unless asked for)."""
        x, positions, all_weights = self.embedding(src), self.embedding.positions, []
        mask, bias = src_mask[:, None, None, :], positions.bias(src.size(1), src.size(1))  # (B, 1, 1, S)
        if self.window is not None:
            mask = mask & window_mask(src.size(1), src.size(1), self.window, device=src.device)
        for layer in self.layers:
            x, weights = layer(x, positions, mask, bias, need_weights=need_weights)
            all_weights += [weights] if need_weights else []
        return self.last(x), all_weights


class Decoder(nn.Module):
    """The target's embedding and a stack of layers that also look at the source."""

    def __init__(self, embedding: Embedding, layers: list[DecoderLayer], last: nn.Module, *, window: int | None):
        super().__init__()
        self.embedding, self.layers, self.last, self.window = embedding, nn.ModuleList(layers), last, window

    def memory(self, encoded: Tensor) -> list[Cache]:
        """(B, S, C) -> each layer's keys and values of the source."""
        return [layer.cross.keys_values(encoded) for layer in self.layers]

    def forward(self, tgt: Tensor, caches: list[Cache] | None, memory: list[Cache], src_mask: Tensor, *, need_weights=False):
        """tgt (B, T) whole with caches None, or (N, 1) with them -> (B, T, C), caches, self and cross weights by layer."""
        start = 0 if caches is None else caches[0][0].size(2)
        x, positions = self.embedding(tgt, start), self.embedding.positions
        queries, keys = tgt.size(1), start + tgt.size(1)
        mask = None if self.window is None else window_mask(queries, keys, self.window, device=tgt.device)
        bias, cross_mask = positions.bias(queries, keys), src_mask[:, None, None, :]
        new, self_weights, cross_weights = [], [], []
        for layer, cache, source in zip(self.layers, caches or [None] * len(self.layers), memory):
            x, cache, own, cross = layer(x, positions, cache, source, mask, bias, cross_mask, need_weights=need_weights)
            new.append(cache)
            self_weights += [own] if need_weights else []
            cross_weights += [cross] if need_weights else []
        return self.last(x), new, self_weights, cross_weights


class Transformer(Seq2Seq):
    """Encoder, decoder, and the output layer, under the contract of `Seq2Seq`.

    layers: of the encoder; decoder_layers: of the decoder (None: as many).
    channels: width C; feed_forward: width inside the feed-forward layer; heads: must divide channels.
    norm: pre, post. positions: sinusoidal, learned, rotary, relative. activation: relu, gelu, swiglu.
    tie: which matrices are one: none; decoder (target embedding = output); all (source embedding too: shared vocabulary).
    window: how many positions self-attention sees to either side (None: all). max_positions: where learned ones end.
    dropout: after each sublayer and on embeddings; attention_dropout: on attention weights; activation_dropout: inside the
    feed-forward layer; None takes `dropout`.
    Raises ValueError for a choice that is not there, and for sizes that do not fit.
    """

    def __init__(
        self,
        src_vocabulary: int,
        tgt_vocabulary: int,
        *,
        layers: int = 4,
        decoder_layers: int | None = None,
        channels: int = 128,
        feed_forward: int = 256,
        heads: int = 4,
        norm: str = "pre",
        positions: str = "rotary",
        activation: str = "relu",
        tie: str = "all",
        window: int | None = None,
        max_positions: int = 1024,
        dropout: float = 0.1,
        attention_dropout: float | None = None,
        activation_dropout: float | None = None,
    ):
        super().__init__()
        if tie == "all" and src_vocabulary != tgt_vocabulary:
            raise ValueError(
                f"tie=all needs one shared vocabulary, but source and target have {src_vocabulary} and {tgt_vocabulary} "
                f"entries; allowed here: none, decoder"
            )
        make_positions, around = choose("positions", positions, POSITIONS), choose("norm", norm, NORMS)
        decoder_layers = layers if decoder_layers is None else decoder_layers
        if min(layers, decoder_layers) < 1:
            raise ValueError(f"layers must be at least 1, not {min(layers, decoder_layers)}")
        dropouts = dict(
            dropout=dropout,
            attention_dropout=dropout if attention_dropout is None else attention_dropout,
            activation_dropout=dropout if activation_dropout is None else activation_dropout,
        )
        for name, p in dropouts.items():
            check_probability(name, p)
        options = dict(norm=around, feed_forward=choose("activation", activation, FEED_FORWARDS), **dropouts)

        def embedding(vocabulary: int, causal: bool) -> Embedding:
            place = make_positions(channels, heads, max_positions=max_positions, causal=causal)
            return Embedding(vocabulary, channels, place, dropout)

        self.encoder = Encoder(
            embedding(src_vocabulary, causal=False),
            [EncoderLayer(channels, feed_forward, heads, **options) for _ in range(layers)],
            around.last(channels),
            window=window,
        )
        self.decoder = Decoder(
            embedding(tgt_vocabulary, causal=True),
            [DecoderLayer(channels, feed_forward, heads, **options) for _ in range(decoder_layers)],
            around.last(channels),
            window=window,
        )
        initialise(self)
        self.output = choose("tie", tie, TIES)(self, tgt_vocabulary, channels)
        self.max_source, self.max_target = self.encoder.embedding.positions.limit, self.decoder.embedding.positions.limit

    def forward(self, src, src_mask, tgt, *, need_weights=False, teacher_forcing=1.0) -> Output:
        if teacher_forcing < 1.0:
            raise ValueError(
                f"a Transformer sees all target tokens at once, so teacher_forcing must be 1 here, not {teacher_forcing}"
            )
        encoded, encoder = self.encoder(src, src_mask, need_weights=need_weights)
        memory = self.decoder.memory(encoded)
        hidden, _, own, cross = self.decoder(tgt, None, memory, src_mask, need_weights=need_weights)
        layers = {"encoder": encoder, "decoder": own, "cross": cross}
        return Output(hidden, {name: torch.stack(w, dim=1) for name, w in layers.items()} if need_weights else {})

    def project(self, hidden: Tensor) -> Tensor:
        return F.linear(hidden, self.output)

    def encode(self, src: Tensor, src_mask: Tensor, *, need_weights: bool = False) -> State:
        encoded, _ = self.encoder(src, src_mask)
        state = {"src_mask": src_mask}
        for i, (layer, memory) in enumerate(zip(self.decoder.layers, self.decoder.memory(encoded))):
            empty = encoded.new_empty(src.size(0), layer.attention.heads, 0, encoded.size(-1) // layer.attention.heads)
            state |= _pack("memory", i, memory) | _pack("cache", i, (empty, empty))
        if need_weights:
            heads, layers = self.decoder.layers[0].cross.heads, len(self.decoder.layers)
            state["cross"] = encoded.new_zeros(src.size(0), layers, heads, src.size(1))
        return state

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        count, need_weights = len(self.decoder.layers), "cross" in state
        caches = [_unpack("cache", i, state) for i in range(count)]
        memory = [_unpack("memory", i, state) for i in range(count)]
        hidden, caches, _, cross = self.decoder(
            tokens.unsqueeze(1), caches, memory, state["src_mask"], need_weights=need_weights
        )
        state = dict(state)
        for i, cache in enumerate(caches):
            state |= _pack("cache", i, cache)
        if need_weights:
            state["cross"] = torch.stack(cross, dim=1).squeeze(3)  # (N, layers, H, S)
        return self.project(hidden.squeeze(1)), state


def initialise(model: nn.Module) -> None:
    """Xavier-uniform matrices (Glorot & Bengio 2010) and zero biases for every linear layer."""
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            nn.init.zeros_(module.bias)


def _own_output(model: Transformer, vocabulary: int, channels: int) -> nn.Parameter:
    return nn.Parameter(torch.randn(vocabulary, channels) * channels**-0.5)


def _tie_decoder(model: Transformer, vocabulary: int, channels: int) -> nn.Parameter:
    return model.decoder.embedding.weight


def _tie_all(model: Transformer, vocabulary: int, channels: int) -> nn.Parameter:
    model.encoder.embedding.weight = model.decoder.embedding.weight
    return model.decoder.embedding.weight


TIES = {"none": _own_output, "decoder": _tie_decoder, "all": _tie_all}  # Press & Wolf 2017


def choose(option: str, value: str, choices: dict):
    """The entry of a table that a config names; ValueError with what there is."""
    if value not in choices:
        raise ValueError(f"{option} must be one of {', '.join(choices)}, not {value!r}")
    return choices[value]


def _pack(name: str, layer: int, pair: Cache) -> State:
    return {f"{name}.{layer}.keys": pair[0], f"{name}.{layer}.values": pair[1]}


def _unpack(name: str, layer: int, state: State) -> Cache:
    return state[f"{name}.{layer}.keys"], state[f"{name}.{layer}.values"]
