"""Decoding beside Hugging Face's MarianMTModel and CTranslate2: python benchmarks/decode_systems.py --ckpt PATH

Sentences per second, text in to text out, of the 1,000 lines of Multi30k's test_2016_flickr in batches of 64, with 2 threads,
float32, greedy and beam 5; they take turns, CTranslate2 both with both threads at one batch and with a batch a thread. Ends
with 1 where the target is not reached. benchmarks/README.md tells more.

--ckpt: a trained Transformer with model.positions=sinusoidal and model.norm=pre, which is what CTranslate2 takes as it is.
"""

# ruff: noqa: E402  imports come after sys.path
import argparse
import multiprocessing
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import tasks  # noqa: F401  # isort: skip  # first: it sets what torch reads when it is loaded

import numpy as np
import torch
from torch import nn

from data.errors import DuetError
from data.sources import read_lines
from data.tokenizer import BOS, EOS, PAD
from model.transformer import Transformer
from tasks.build import Translator, load
from tasks.cli import run
from tasks.decoding import Beam, Decode, Greedy

BEAM, TARGET, THREADS = 5, 1.5, 2
Translate = Callable[[Sequence[str]], list[str]]


def search_of(size: int) -> Decode:
    return Greedy() if size == 1 else Beam(size=size)


def duet_of(model: Translator, size: int, batch_size: int, lengths: dict[str, int]) -> Translate:
    return lambda lines: model.translate(lines, decode=search_of(size), batch_size=batch_size)


# CTranslate2, with the same weights


def ctranslate2_of(model: Translator, size: int, batch_size: int, *, side_by_side: bool = False) -> Translate:
    """As its users run it: a converted model, batches sorted by length.

    side_by_side: each thread has a batch of its own, as in Duet; else both work on one batch, which is what CTranslate2 does
    unless told otherwise.
    """
    import ctranslate2

    threads = {"inter_threads": THREADS, "intra_threads": 1} if side_by_side else {"inter_threads": 1, "intra_threads": THREADS}
    with tempfile.TemporaryDirectory() as folder:
        spec_of(model).save(folder)
        engine = ctranslate2.Translator(folder, device="cpu", compute_type="float32", **threads)
    source, target = model.src_tokenizer, model.tgt_tokenizer
    ids = {piece: id for id, piece in enumerate(target.pieces(range(len(target))))}
    options = dict(beam_size=size, max_batch_size=batch_size, batch_type="examples", max_decoding_length=250, disable_unk=True)

    def translate(lines: Sequence[str]) -> list[str]:
        tokens = [[*source.pieces(source.encode(line)), "</s>"] for line in lines]
        found = engine.translate_batch(tokens, length_penalty=1.0, **options)
        return [target.decode([ids[piece] for piece in result.hypotheses[0]]) for result in found]

    return translate


def spec_of(model: Translator):
    """Our weights under its names."""
    from ctranslate2.specs import TransformerSpec

    ours: Transformer = model.model
    sizes = model.config["model"]
    if sizes["positions"] != "sinusoidal" or sizes["norm"] != "pre" or sizes["activation"] != "relu":
        raise DuetError("CTranslate2 takes model.positions=sinusoidal model.norm=pre model.activation=relu as they are")
    spec = TransformerSpec.from_config((len(ours.encoder.layers), len(ours.decoder.layers)), sizes["heads"])
    for side, part in ((spec.encoder, ours.encoder), (spec.decoder, ours.decoder)):
        embeddings = side.embeddings[0] if isinstance(side.embeddings, list) else side.embeddings
        embeddings.weight = numpy_of(part.embedding.weight)
        side.scale_embeddings = True
        side.position_encodings.encodings = numpy_of(part.embedding.positions.table)
        norm(side.layer_norm, part.last)
        for there, here in zip(side.layer, part.layers):
            norm(there.self_attention.layer_norm, here.around_attention.norm)
            attention(there.self_attention.linear, here.attention, [("query", "key", "value")])
            if hasattr(here, "cross"):
                norm(there.attention.layer_norm, here.around_cross.norm)
                attention(there.attention.linear, here.cross, [("query",), ("key", "value")])
            norm(there.ffn.layer_norm, here.around_feed_forward.norm)
            linear(there.ffn.linear_0, [here.feed_forward.inner])
            linear(there.ffn.linear_1, [here.feed_forward.outer])
    spec.decoder.projection.weight = numpy_of(ours.output)
    spec.config.add_source_eos, spec.config.decoder_start_token = False, "<s>"
    for register, tokenizer in (
        (spec.register_source_vocabulary, model.src_tokenizer),
        (spec.register_target_vocabulary, model.tgt_tokenizer),
    ):
        register(tokenizer.pieces(range(len(tokenizer))))
    spec.validate()
    spec.optimize(quantization="float32")
    return spec


def numpy_of(value: torch.Tensor) -> np.ndarray:
    return value.detach().float().numpy().copy()


def norm(there, here: nn.Module) -> None:
    there.gamma, there.beta = numpy_of(here.scale), numpy_of(here.shift)


def linear(there, parts: Sequence[nn.Linear]) -> None:
    there.weight = np.concatenate([numpy_of(part.weight) for part in parts])
    there.bias = np.concatenate([numpy_of(part.bias) for part in parts])


def attention(there, here: nn.Module, groups: Sequence[Sequence[str]]) -> None:
    """Projections side by side, as it wants them, then that of the output."""
    for spec, names in zip(there, groups):
        linear(spec, [getattr(here, name) for name in names])
    linear(there[-1], [here.output])


# Marian, of the same size


def marian_of(model: Translator, size: int, batch_size: int, lengths: dict[str, int]) -> Translate:
    """`MarianMTModel.generate` with random weights; every output is as long as Duet's for the same line."""
    from transformers import LogitsProcessor, LogitsProcessorList, MarianConfig, MarianMTModel

    sizes, vocabulary = model.config["model"], len(model.tgt_tokenizer)
    both = {}
    for side, layers in (("encoder", "layers"), ("decoder", "decoder_layers")):
        both |= {f"{side}_layers": sizes[layers] or sizes["layers"], f"{side}_attention_heads": sizes["heads"]}
        both |= {f"{side}_ffn_dim": sizes["feed_forward"]}
    ids = dict(pad_token_id=PAD, eos_token_id=EOS, forced_eos_token_id=None, decoder_start_token_id=BOS)
    config = MarianConfig(
        vocab_size=vocabulary, d_model=sizes["channels"], activation_function="relu", scale_embedding=True, **ids, **both
    )
    torch.manual_seed(1)
    marian = MarianMTModel(config).eval()

    class ExactLength(LogitsProcessor):
        def __init__(self, wanted: torch.Tensor):
            self.wanted = wanted.repeat_interleave(size)  # tokens of each row, EOS not counted

        def __call__(self, input_ids, scores):
            done = input_ids.size(1) - 1
            scores[self.wanted > done, EOS] = -torch.inf
            ended = scores[self.wanted <= done]
            ended[:, :EOS], ended[:, EOS + 1 :] = -torch.inf, -torch.inf
            scores[self.wanted <= done] = ended
            return scores

    @torch.inference_mode()
    def translate(lines: Sequence[str]) -> list[str]:
        rows = [[*model.src_tokenizer.encode(line), EOS] for line in lines]
        order, found = sorted(range(len(rows)), key=lambda i: -len(rows[i])), {}
        for places in (order[i : i + batch_size] for i in range(0, len(order), batch_size)):
            some = [torch.tensor(rows[i]) for i in places]
            src = nn.utils.rnn.pad_sequence(some, batch_first=True, padding_value=PAD)
            wanted = torch.tensor([lengths[lines[i]] for i in places])
            limits = dict(max_new_tokens=int(wanted.max()) + 1, num_beams=size, do_sample=False, use_cache=True)
            exact = LogitsProcessorList([ExactLength(wanted)])
            out = marian.generate(input_ids=src, attention_mask=(src != PAD).long(), logits_processor=exact, **limits)
            found |= {place: model.tgt_tokenizer.decode(ids) for place, ids in zip(places, out.tolist())}
        return [found[i] for i in range(len(rows))]

    return translate


# Timing


MAKERS: dict[str, Callable[..., Translate]] = {  # (model, size, batch size, tokens of Duet's output for each line) -> system
    "duet": duet_of,
    "marian": marian_of,
    "ctranslate2": lambda model, size, batch_size, lengths: ctranslate2_of(model, size, batch_size),
    "ct2 inter=2": lambda model, size, batch_size, lengths: ctranslate2_of(model, size, batch_size, side_by_side=True),
}


class Alone:
    """A system in a process of its own: each changes the number of threads and the allocator of the process that it is in."""

    def __init__(self, name: str, ckpt: str, *options):
        context = multiprocessing.get_context("spawn")
        self.pool = ProcessPoolExecutor(1, context, initializer=Alone.begin, initargs=(name, ckpt, *options))

    def __call__(self, lines: Sequence[str]) -> tuple[list[str], float]:
        """Translations, and seconds."""
        return self.pool.submit(Alone.timed, lines).result()

    @staticmethod
    def begin(name: str, ckpt: str, *options) -> None:
        torch.set_num_threads(THREADS)
        Alone.translate = MAKERS[name](load(ckpt), *options)

    @staticmethod
    def timed(lines: Sequence[str]) -> tuple[list[str], float]:
        began = time.perf_counter()
        return Alone.translate(lines), time.perf_counter() - began


def compare(systems: dict[str, Alone], lines: Sequence[str], rounds: int) -> bool:
    """Prints a table; returns whether Duet's median ratio to the best of the others reaches the target."""
    speeds: dict[str, list[float]] = {name: [] for name in systems}
    others = [name for name in systems if name != "duet"]
    print(f"{'round':>8}" + "".join(f"{name:>14}" for name in systems) + f"{'ratio':>10}")
    for number in range(rounds + 1):
        outputs = {}
        for name, system in systems.items():
            outputs[name], seconds = system(lines)
            speeds[name].append(len(lines) / seconds)
        ratio = speeds["duet"][-1] / max(speeds[name][-1] for name in others)
        label = f"{number:>8}" if number else f"{'warm-up':>8}"
        print(label + "".join(f"{speed[-1]:>14.1f}" for speed in speeds.values()) + f"{ratio:>10.2f}", flush=True)
    rest = [{name: speed[i] for name, speed in speeds.items()} for i in range(1, rounds + 1)]
    median = statistics.median(one["duet"] / max(one[name] for name in others) for one in rest)
    medians = "".join(f"{statistics.median(speed[1:]):>14.1f}" for speed in speeds.values())
    print(f"{'median':>8}{medians}{median:>10.2f}   {'PASS' if median >= TARGET else 'below the target'} (target {TARGET})")
    for name in others:
        print(f"duet is {statistics.median(one['duet'] / one[name] for one in rest):.2f} × as fast as {name}")
    same = sum(a == b for a, b in zip(outputs["duet"], outputs["ctranslate2"]))
    print(f"{same:,} of {len(lines):,} outputs of duet and ctranslate2 are the same")
    return median >= TARGET


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ckpt", required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--lines", type=int, default=1000)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--text", type=Path, default=ROOT / "../shared/data/multi30k/test_2016_flickr.en")
    options = parser.parse_args()
    torch.set_num_threads(THREADS)
    model, lines = load(options.ckpt), list(read_lines(options.text))[: options.lines]
    reached = []
    for size in (1, BEAM):
        found = model.search(lines, decode=search_of(size), batch_size=options.batch_size)
        lengths = {line: max(0, len(best[0].ids) - 1) for line, best in zip(lines, found)}
        tokens = sum(lengths.values()) / len(lines)
        print(f"\n{'greedy' if size == 1 else f'beam {size}'}: sentences per second; outputs of {tokens:.1f} tokens")
        systems = {name: Alone(name, options.ckpt, size, options.batch_size, lengths) for name in MAKERS}
        reached.append(compare(systems, lines, options.rounds))
        for system in systems.values():
            system.pool.shutdown()
    if not all(reached):
        sys.exit(1)


if __name__ == "__main__":
    sys.exit(run(main, "translate"))
