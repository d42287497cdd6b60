"""Decoding with and without the key-value cache: python benchmarks/decode.py

Sentences per second of `transformer_tiny`, text in to text out, on the 1,000 lines of Multi30k's test_2016_flickr (without
the corpus, on sentences of the built-in one), in batches of 64. The variants share weights and search and take turns.
Weights are random, and every output is made as long as its reference; or, with --ckpt, trained ones that end where they
want. benchmarks/README.md tells more.
"""

# ruff: noqa: E402  imports come after sys.path
import argparse
import statistics
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import tasks  # noqa: F401  # isort: skip  # first: it sets what torch reads when it is loaded

import hydra
import torch
from omegaconf import OmegaConf
from torch import Tensor

from data.batching import Batch
from data.tokenizer import EOS
from model.base import Seq2Seq, State
from model.constraints import at_least
from model.search import beam, sample
from model.transformer import Transformer
from tasks.build import Translator, build_data, build_model, load
from tasks.decoding import IDS, About, Beam, Decoded, Greedy, in_words

BEAM = 5


# The model without its cache, for the same search


class DecoderAgain(Seq2Seq):
    """Each step runs the decoder over all tokens so far; the source's keys and values are kept."""

    def __init__(self, model: Transformer):
        super().__init__()
        self.model, self.max_source, self.max_target = model, model.max_source, model.max_target

    def encode(self, src: Tensor, src_mask: Tensor, *, need_weights: bool = False) -> State:
        state = self.model.encode(src, src_mask)
        kept = {name: value for name, value in state.items() if not name.startswith("cache.")}
        return kept | {"prefix": src[:, :0]}

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        prefix = torch.cat([state["prefix"], tokens.unsqueeze(1)], dim=1)  # (N, t)
        return self.model.project(self.hidden(prefix, state)[:, -1]), state | {"prefix": prefix}

    def hidden(self, prefix: Tensor, state: State) -> Tensor:
        layers = range(len(self.model.decoder.layers))
        memory = [(state[f"memory.{i}.keys"], state[f"memory.{i}.values"]) for i in layers]
        return self.model.decoder(prefix, None, memory, state["src_mask"])[0]


class ForwardAgain(DecoderAgain):
    """Each step runs the whole model, as when nothing but `forward` is there."""

    def encode(self, src: Tensor, src_mask: Tensor, *, need_weights: bool = False) -> State:
        return {"src": src, "src_mask": src_mask, "prefix": src[:, :0]}

    def hidden(self, prefix: Tensor, state: State) -> Tensor:
        return self.model(state["src"], state["src_mask"], prefix).hidden


VARIANTS = {"cache": lambda model: model, "decoder again": DecoderAgain, "forward again": ForwardAgain}


# What is decoded


class ExactLength:
    """Greedy search (size 1) or a beam, of outputs that have exactly the given tokens each, EOS not counted."""

    def __init__(self, size: int, lengths: list[int]):
        self.size, self.lengths = size, torch.tensor(lengths)

    def __call__(self, model: Seq2Seq, batch: Batch, about: About) -> Decoded:
        lengths = self.lengths[batch.index]
        options = dict(max_len=lengths, constraints=[at_least(lengths, eos=EOS)], **IDS)
        if self.size == 1:
            return in_words(sample(model, batch.src, batch.src_mask, **options), about.tokenizer)
        return in_words(beam(model, batch.src, batch.src_mask, size=self.size, **options), about.tokenizer)


def corpus(root: Path) -> tuple[list[str], str]:
    """Overrides that name the data, and what to say of it."""
    if (root / "test_2016_flickr.en").is_file():
        return ["experiment=multi30k", f"data.root='{root}'"], "test_2016_flickr"
    return ["experiment=grammar"], f"the built-in corpus (there is no Multi30k in {root})"


def prepare(words: list[str], ckpt: str | None) -> tuple[Translator, list[str], list[int]]:
    """The model, the lines to translate, and the tokens of their references."""
    with hydra.initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
        config = OmegaConf.to_container(hydra.compose("train", [*words, "name=decode"]), resolve=True)
    trained = load(ckpt) if ckpt else None
    data = build_data(config, tokenizers=(trained.src_tokenizer, trained.tgt_tokenizer) if ckpt else None)
    data.setup("test")
    if not trained:
        torch.manual_seed(1)
        model = build_model(config, data.src_tokenizer, data.tgt_tokenizer).eval()
        trained = Translator(model, data.src_tokenizer, data.tgt_tokenizer, config)
    lengths = [len(data.tgt_tokenizer.encode(line)) for line in data.references("test")]
    return trained, data.sources("test"), lengths


# Timing


def compare(model: Translator, lines: list[str], decode, options: argparse.Namespace) -> None:
    """Prints a table: the variants of a round one after the other, their medians, and what the cache gains."""
    variants = {name: change(model.model) for name, change in VARIANTS.items()}
    speeds, outputs = {name: [] for name in variants}, {}
    print(f"{'round':>8}" + "".join(f"{name:>16}" for name in variants))
    for number in range(1, options.rounds + 1):
        for name, variant in variants.items():
            translator = Translator(variant, model.src_tokenizer, model.tgt_tokenizer, model.config)
            started = time.perf_counter()
            outputs[name] = translator.translate(lines, decode=decode, batch_size=options.batch_size)
            speeds[name].append(len(lines) / (time.perf_counter() - started))
        print(f"{number:>8}" + "".join(f"{speed[-1]:>16.1f}" for speed in speeds.values()), flush=True)
    print(f"{'median':>8}" + "".join(f"{statistics.median(speed):>16.1f}" for speed in speeds.values()))
    for name in list(variants)[1:]:
        gain = statistics.median(fast / slow for fast, slow in zip(speeds["cache"], speeds[name]))
        same = sum(line == other for line, other in zip(outputs["cache"], outputs[name]))
        print(f"the cache is {gain:.1f} × as fast as the {name}; {same:,} of {len(lines):,} outputs are the same")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="alternations")
    parser.add_argument("--lines", type=int, help="the first of the lines only")
    parser.add_argument("--batch-size", type=int, default=64, help="sentences of a batch")
    parser.add_argument("--ckpt", help="a trained model")
    parser.add_argument("--root", type=Path, default=ROOT / "../shared/data/multi30k", help="folder of Multi30k")
    options = parser.parse_args()
    words, name = corpus(options.root)
    model, lines, lengths = prepare(words, options.ckpt)
    lines, lengths = lines[: options.lines], lengths[: options.lines]
    weights = "outputs as the model ends them" if options.ckpt else f"outputs of {sum(lengths) / len(lengths):.1f} tokens"
    print(f"{len(lines):,} lines of {name}, batches of {options.batch_size}, {torch.get_num_threads()} threads; {weights}")
    for size, search in {1: "greedy", BEAM: f"beam {BEAM}"}.items():
        print(f"\n{search}: sentences per second")
        trained = Greedy() if size == 1 else Beam(size=size)
        compare(model, lines, trained if options.ckpt else ExactLength(size, lengths), options)


if __name__ == "__main__":
    main()
