"""Translating and scoring one split with one checkpoint: what evaluate.py and tasks.compare share."""

import json
import math
import os
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from omegaconf import DictConfig, OmegaConf

from data.batching import Batch
from data.errors import DuetError, Missing
from data.files import digest, file_digest, write_json, write_text
from data.module import PairData
from data.sources import Pair, TwoFiles, read_lines
from data.tones import Tones
from model.base import attention_shapes
from tasks import alignment, heatmap, using
from tasks.build import Translator, build_data, respect_limits
from tasks.cli import CONF
from tasks.couplet_scores import baselines, with_bleu
from tasks.decoding import Decode
from tasks.metrics import scores
from tasks.parallel import side_by_side
from tasks.samples import Look
from tasks.seq2seq import Translated, translate_batch


class Subject(NamedTuple):
    """What is to be scored: a model, the sentences, and how they are translated."""

    ckpts: tuple[Path, ...]  # several: an ensemble
    model: Translator
    config: DictConfig  # conf/evaluate.yaml or conf/compare.yaml
    data: PairData
    split: str
    sources: list[str]
    references: list[str]
    decode: Decode


class Outcome(NamedTuple):
    """result: what metrics.json holds. reused: whether the hypotheses were there already."""

    result: dict
    hypotheses: list[str]
    out: Path
    reused: bool


def configure(name: str, words: Sequence[str], model: Translator) -> DictConfig:
    """The config of a command (conf/<name>.yaml) for a checkpoint's model, as `tasks.using` makes it."""
    return using.configure(name, words, model, check, needed=("data", "decode"))


def check(config: DictConfig) -> None:
    """Options that are wrong whatever the checkpoint is."""
    check_alignment(config)
    if system := OmegaConf.select(config, "metrics.couplet"):
        Tones(system)  # a wrong one is told before the work


def check_alignment(config: DictConfig) -> None:
    options = config.alignment
    alignment.unit_of([], options.unit)
    if options.of not in ("reference", "hypothesis"):
        raise DuetError(f"alignment.of is {options.of!r}: choose reference or hypothesis")
    if options.shift not in alignment.SHIFTS:
        raise DuetError(f"alignment.shift is {options.shift}: choose {', '.join(map(str, alignment.SHIFTS))}")
    if options.of == "hypothesis" and (options.gold or options.search):
        raise DuetError("alignment.of=hypothesis has no gold alignment: gold is of the references, alignment.of=reference")


def prepare(config: DictConfig, ckpts: Sequence[str | Path], model: Translator) -> Subject:
    """Reads what is to be scored, and moves the model to its device. config has passed `check`.

    Raises DuetError for options and files that do not fit.
    """
    model.model.to(config.device)
    split, data = make_split(config, model)
    decode, texts = using.search_of(config, model), (data.sources(split), data.references(split))
    return Subject(tuple(map(Path, ckpts)), model, config, data, split, *texts, decode)


def make_split(config: DictConfig, model: Translator) -> tuple[str, PairData]:
    """The name of what is to be scored, and the data module that has it."""
    if (config.source is None) != (config.reference is None):
        raise DuetError("source and reference go together: give both files, or neither and a split")
    plain = OmegaConf.to_container(config, resolve=True)
    plain["data"]["cache_dir"] = None
    data = build_data(plain, tokenizers=(model.src_tokenizer, model.tgt_tokenizer))
    respect_limits(data, model.model)
    split = str(config.split)
    if config.source is not None:
        split = Path(str(config.source)).name  # a file may be called 1
        if split in ("train", "valid", *data.test_splits):
            split = f"file_{split}"
        data.add_split(split, TwoFiles(str(config.source), str(config.reference)))
    if config.limit is not None:
        pairs = list(zip(data.sources(split), data.references(split)))[: config.limit]
        data.add_split(split, [Pair(*pair) for pair in pairs])
    return split, data


def decode_name(decode: Mapping) -> str:
    """Of the config of a search: beam, couplet, greedy or sample."""
    return decode["_target_"].rpartition(".")[2].lower()


def result_name(subject: Subject) -> str:
    """Of the folder of an evaluation: <split>-<decode>, and what keeps another checkpoint than best.ckpt, an ensemble (by its
    members' places and how it joins them) and a part of the split apart.
    """
    which, limit = subject.ckpts[0].stem, subject.config.limit
    if len(subject.ckpts) > 1:
        members = [str(ckpt.resolve()) for ckpt in subject.ckpts]
        which = f"ensemble_of_{len(members)}-{digest([*members, subject.config.ensemble])[:8]}"
    name = f"{subject.split}-{decode_name(subject.config.decode)}"
    return name + ("" if which == "best" else f"-{which}") + ("" if limit is None else f"-first_{limit}")


def writable(folder: Path) -> Path:
    """Makes the folder now: a place that cannot be written to is told before the work, not after it."""
    folder.mkdir(parents=True, exist_ok=True)
    if not os.access(folder, os.W_OK):
        raise DuetError(f"cannot write to {folder}: out=FOLDER names another one")
    return folder


# The work


def evaluate(subject: Subject, out: Path, *, reuse: bool = False, must_align: bool = True) -> Outcome:
    """Translates and scores; writes metrics.json, hypotheses.txt and, where asked for, alignment.txt into `out`.

    reuse: takes the hypotheses that lie in `out` if they were made with the same checkpoint, sentences, search and code, so
    that they would come out the same. Scores are computed anew all the same.
    must_align: whether a model without attention is a mistake where alignment is asked for (DuetError), or just has none.
    """
    config = subject.config
    plan = plan_alignment(subject, must_align=must_align)  # a mistake there is told before the work
    training = training_answers(subject)  # likewise
    origin = origin_of(subject)
    before = stored(out, origin) if reuse else None
    options = (subject.split, subject.decode, config.batch_size)
    produced = before["produced"] if before else translate_split(subject.model, subject.data, *options)
    hypotheses, seconds, tokens, given_up = produced
    bleu = OmegaConf.to_container(config.metrics.bleu, resolve=True)
    result = scores(hypotheses, subject.references, **bleu) | {
        "seconds": seconds,
        "sentences_per_second": len(hypotheses) / seconds,
        "tokens": tokens,
        "tokens_per_second": tokens / seconds,
        "given_up": given_up,
        "split": subject.split,
        "decode": OmegaConf.to_container(config.decode, resolve=True),
        "ckpt": str(subject.ckpts[0]) if len(subject.ckpts) == 1 else [str(ckpt) for ckpt in subject.ckpts],
    }
    if len(subject.ckpts) > 1:
        result["ensemble"] = config.ensemble
    write_text(out / "hypotheses.txt", as_lines(hypotheses))
    if OmegaConf.select(config, "metrics.couplet"):
        result["couplet"] = couplet_figures(subject, hypotheses, training)
    if plan:
        result["alignment"] = write_alignment(subject, plan, out)
    of_what = {"references": digest(subject.references), "origin": origin | {"hypotheses": digest(hypotheses)}}
    kept = {} if before is None or before["references"] != of_what["references"] else before["alignment"]
    write_json(out / "metrics.json", kept | result | of_what)
    return Outcome(result, hypotheses, out, before is not None)


def training_answers(subject: Subject) -> list[str]:
    """Lower lines to draw random ones from: none where the training split is not at hand, or couplets are not asked for."""
    if not OmegaConf.select(subject.config, "metrics.couplet"):
        return []
    try:
        return subject.data.references("train")
    except Missing:
        return []


def couplet_figures(subject: Subject, hypotheses: Sequence[str], training: Sequence[str]) -> dict:
    """How well the rules of couplets are kept, by the answers and by what they have to be read against; and the perplexity of
    the references. training: lower lines to draw random ones from; without any there are no random ones.
    """
    system = subject.config.metrics.couplet
    tones, known = Tones(system), subject.model.score(subject.sources, subject.references, limit=subject.data.max_target)
    losses = [-value for found in known for value in found.token_log_probs]
    return {
        "tones": system,
        "perplexity": math.exp(sum(losses) / max(1, len(losses))),
        "systems": {"answers": with_bleu(subject.sources, hypotheses, subject.references, tones)}
        | baselines(subject.sources, subject.references, training, tones, seed=subject.config.seed),
    }


class Produced(NamedTuple):
    """hypotheses: in the file's order. seconds: that it took. tokens: that were produced. given_up: rule -> lines."""

    hypotheses: list[str]
    seconds: float
    tokens: int
    given_up: dict[str, int]


def translate_split(model: Translator, data: PairData, split: str, decode: Decode, batch_size: int) -> Produced:
    sources = data.sources(split)
    found, produced, given_up, began = {}, 0, Counter(), time.perf_counter()

    def work(batch: Batch) -> tuple[Batch, Translated]:
        moved = Batch(*(part.to(model.device) for part in batch))
        return batch, translate_batch(model.model, decode, moved, model.tgt_tokenizer, sources)

    for batch, some in side_by_side(work, data.loader(split, batch_size=batch_size), model.device):
        found |= dict(zip(batch.index.tolist(), some.lines))
        produced += some.tokens
        given_up.update(name for names in some.given_up for name in names)
    return Produced([found[place] for place in range(len(found))], time.perf_counter() - began, produced, dict(given_up))


def as_lines(lines: Iterable[str]) -> str:
    return "".join(line + "\n" for line in lines)


def draw_heatmaps(subject: Subject, count: int, out: Path) -> None:
    """All attention of the first sentences, as out/heatmaps/<kind>_<n>.png."""
    if count and not attention_shapes(subject.model.model):
        print("no heatmaps: this model has no attention")
        return
    for n, sentence in enumerate(subject.sources[:count], 1):
        if not sentence.strip():
            continue
        for kind, figure in look(subject, n - 1).figures(subject.config.layers, subject.config.heads):
            heatmap.save(figure, out / "heatmaps" / f"{kind}_{n}.png")


def look(subject: Subject, place: int) -> Look:
    """A sentence's translation and attention."""
    return Look(subject.model, subject.sources[place], subject.decode, subject.data.max_source, place)


# What lies there already


def origin_of(subject: Subject) -> dict:
    """All that hypotheses, and the time they take, depend on."""
    config = subject.config
    return {
        "checkpoint": [file_digest(ckpt) for ckpt in subject.ckpts],
        "sources": digest(subject.sources),
        "decode": OmegaConf.to_container(config.decode, resolve=True),
        "longest_source": subject.data.max_source,
        "batch_size": config.batch_size,
        "device": config.device,
        "threads": torch.get_num_threads(),
        "code": code_digest(),
        "torch": torch.__version__,
    }


def stored(out: Path, origin: dict) -> dict | None:
    """produced, references (their digest) and alignment ({} or {"alignment": …}) of an earlier evaluation with the same origin;
    None: there is none, or a damaged one.
    """
    try:
        result = json.loads((out / "metrics.json").read_text(encoding="utf-8"))
        hypotheses = list(read_lines(out / "hypotheses.txt"))
        same = result["origin"] == origin | {"hypotheses": digest(hypotheses)}
        aligned = {name: result[name] for name in ("alignment",) if name in result}
        produced = Produced(hypotheses, result["seconds"], result["tokens"], result["given_up"])
        return {"produced": produced, "references": result["references"], "alignment": aligned} if same else None
    except (OSError, ValueError, KeyError, TypeError, DuetError):
        return None


CODE = (
    "model", "data/tokenizer.py", "data/batching.py", "data/module.py", "data/tones.py",
    "tasks/decoding.py", "tasks/couplet_search.py", "tasks/parallel.py", "tasks/seq2seq.py",
)  # fmt: skip


def code_digest() -> str:
    """SHA-256 of the code between a source and its translation."""
    root = CONF.parent
    paths = [path for name in CODE for path in ([root / name] if name.endswith(".py") else sorted((root / name).glob("*.py")))]
    return digest(file_digest(path) for path in paths)


# Word alignment


class Plan(NamedTuple):
    """What is to be aligned, and with what it is compared (None: nothing is known)."""

    options: dict
    texts: alignment.Texts
    golds: list[alignment.Gold] | None


def plan_alignment(subject: Subject, *, must_align: bool) -> Plan | None:
    """None where no alignment is asked for, or the model has no attention and need not. DuetError for what cannot be."""
    options = OmegaConf.to_container(subject.config.alignment, resolve=True)
    if not (options["write"] or options["search"] or options["gold"] is not None):
        return None
    shape = attention_shapes(subject.model.model).get("cross")
    if shape is None and must_align:
        raise DuetError(alignment.NO_ATTENTION)
    if shape is None:
        return None
    alignment.choose(np.zeros((*shape, 1, 1)), options["layer"], options["head"])
    texts = alignment.Texts(subject.sources, subject.references, units_of(subject, options["unit"]))
    golds = find_gold(subject, texts)
    if options["search"] and golds is None:
        raise DuetError("alignment.search needs gold alignments: give alignment.gold=FILE")
    return Plan(options, texts, golds)


def write_alignment(subject: Subject, plan: Plan, out: Path) -> dict:
    """Writes alignment.txt and returns what metrics.json says of it: the options and, where gold is known, the error rate."""
    options, texts, golds = plan
    chosen = {name: options[name] for name in ("layer", "head", "shift")}
    found = alignment.align(read_attention(subject, texts), len(texts.sources), **chosen)
    write_text(out / "alignment.txt", as_lines(map(alignment.pharaoh, found)))
    result = {"of": options["of"], **chosen, "units": list(texts.units)}
    if golds is not None:
        result |= sum((alignment.compare(*pair) for pair in zip(found, golds)), alignment.Counts()).scores()
    if options["search"]:
        result["search"] = alignment.search(read_attention(subject, texts), golds)
    return result


def units_of(subject: Subject, wanted: str) -> tuple[str, str]:
    return alignment.unit_of(subject.sources, wanted), alignment.unit_of(subject.references, wanted)


def read_attention(subject: Subject, texts: alignment.Texts):
    model = subject.model
    decode = None if subject.config.alignment.of == "reference" else subject.decode
    tokenizers = (model.src_tokenizer, model.tgt_tokenizer)
    return alignment.attention(model.model, tokenizers, subject.data, subject.split, texts, decode=decode)


def find_gold(subject: Subject, texts: alignment.Texts) -> list[alignment.Gold] | None:
    """From the file that is named, or from the corpus if it knows; None where there is none, or it is not of these texts."""
    config = subject.config
    if config.alignment.of != "reference":
        return None
    if config.alignment.gold is not None:
        whole = config.limit is None
        return alignment.read_gold(str(config.alignment.gold), texts, whole=whole)
    known = subject.data.alignments(subject.split) if config.source is None else None
    if known is None or texts.units != ("blank", "blank"):
        return None
    return [alignment.Gold(frozenset(pair), frozenset(pair)) for pair in known[: len(texts.sources)]]
