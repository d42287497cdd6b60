"""Every model variant that the invariants are tested on; a new model joins by a line in VARIANTS."""

import torch

from model.ensemble import Ensemble
from model.recurrent import Recurrent
from model.tagger import Tagger
from model.transformer import Transformer

VOCABULARY, PAD, BOS, EOS = 20, 0, 2, 3
TINY = dict(layers=2, channels=16, feed_forward=32, heads=2, dropout=0.1, max_positions=64)


def _transformer(**options):
    return lambda: Transformer(VOCABULARY, VOCABULARY, **(TINY | options))


TINY_RNN = dict(channels=12, embedding_channels=10, reach=2, dropout=0.1)
ATTENTIONS = {
    "none": dict(attention="none"),
    "aligned": dict(attention="aligned"),
    "dot": dict(attention="dot"),
    "general": dict(attention="general"),
    "additive": dict(attention="additive"),
    "local_m": dict(attention="general", window="local_m"),
    "local_p": dict(attention="general", window="local_p"),
    "hard": dict(attention="dot", pick="hard"),
    "hard local_p": dict(attention="additive", window="local_p", pick="hard"),
}


def _tagger(**options):
    return lambda: Tagger(VOCABULARY, VOCABULARY, **(dict(channels=12, embedding_channels=10, dropout=0.1) | options))


def recurrent(**options):
    return lambda: Recurrent(VOCABULARY, VOCABULARY, **(TINY_RNN | options))


VARIANTS = {
    "pre": _transformer(),  # rotary positions
    "post": _transformer(norm="post"),
    "learned": _transformer(positions="learned"),
    "sinusoidal": _transformer(positions="sinusoidal"),
    "relative": _transformer(positions="relative"),
    "window": _transformer(window=2),
    "relative window post": _transformer(positions="relative", window=1, norm="post"),
    "gelu untied": _transformer(activation="gelu", tie="none"),
    "swiglu": _transformer(activation="swiglu", tie="decoder"),
    "deep encoder": _transformer(layers=3, decoder_layers=1),
    **{f"{cell} {name}": recurrent(cell=cell, **options) for cell in ("lstm", "gru") for name, options in ATTENTIONS.items()},
    "lstm deep bridge": recurrent(layers=3, merge="bridge", tie="none"),
    "gru input feeding": recurrent(cell="gru", layers=2, input_feeding=True, tie="decoder"),
    "lstm aligned input feeding": recurrent(attention="aligned", input_feeding=True, merge="bridge"),
    "tagger": _tagger(),
    "tagger gru untied": _tagger(cell="gru", layers=1, tie="none"),
}


def ensemble(*names, way):
    return lambda: Ensemble([VARIANTS[name]() for name in names], way=way)


VARIANTS |= {
    "ensemble": ensemble("pre", "lstm additive", way="linear"),
    "log-linear ensemble": ensemble("learned", "gru none", "post", way="log_linear"),
}
RECURRENT = [name for name in VARIANTS if name.startswith(("lstm", "gru"))]
BLIND = [name for name in RECURRENT if name.endswith("none")]  # without attention
ATTENTIVE = [name for name in VARIANTS if name not in BLIND]
DEAF = [name for name in VARIANTS if name.startswith("tagger")]  # these read no target token


def make(name: str, seed: int = 0):
    """A variant in evaluation mode, in float64, with parameters far from their initial ones (all of them matter)."""
    torch.manual_seed(seed)
    model = VARIANTS[name]().double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    return model


def sources(lengths, seed: int = 1):
    """Random sources of these lengths (EOS included), padded: (src, src_mask)."""
    generator = torch.Generator().manual_seed(seed)
    src = torch.full((len(lengths), max(lengths)), PAD)
    for row, length in zip(src, lengths):
        row[: length - 1] = torch.randint(4, VOCABULARY, (length - 1,), generator=generator)
        row[length - 1] = EOS
    return src, torch.arange(src.size(1)) < torch.tensor(lengths).unsqueeze(1)


def targets(sentences: int, length: int, seed: int = 2):
    """Random decoder inputs (B, T) that begin with BOS."""
    generator = torch.Generator().manual_seed(seed)
    tgt = torch.randint(4, VOCABULARY, (sentences, length), generator=generator)
    tgt[:, 0] = BOS
    return tgt
