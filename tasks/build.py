"""From a config to the objects of a run, and from a checkpoint to a model that translates."""

import math
import pickle
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import hydra.utils
import torch
from omegaconf import DictConfig, OmegaConf
from torch import Tensor

from data.batching import Batch, collate
from data.errors import DuetError
from data.module import PairData
from data.tokenizer import PAD, SPECIALS, Tokenizer, restore
from data.tones import Tones
from model.base import Seq2Seq, least
from model.ensemble import WAYS, Ensemble
from model.search import score
from tasks import values
from tasks.decoding import About, Decode, Decoded, Greedy, Request, target_ids
from tasks.forcing import Schedule
from tasks.metrics import bleu_for
from tasks.parallel import side_by_side
from tasks.seq2seq import Seq2SeqTask

# What a checkpoint may name, by the part of its config. Loading one must not run what a stranger wrote into it.
TARGETS = {
    "data": {
        "data.module.PairData",
        "data.sources.BuiltIn",
        "data.sources.Hub",
        "data.sources.Jsonl",
        "data.sources.PairedText",
        "data.sources.SpacedText",
        "data.sources.Tsv",
        "data.tokenizer.Characters.train",
        "data.tokenizer.SentencePiece.train",
    },
    "decode": {"tasks.couplet_search.Couplet", "tasks.decoding.Beam", "tasks.decoding.Greedy", "tasks.decoding.Sample"},
    "metrics": set(),
    "model": {"model.recurrent.Recurrent", "model.tagger.Tagger", "model.transformer.Transformer"},
}


FOREIGN = ("_args_", "_convert_", "_recursive_")  # what Hydra would read too, and no config of ours has


def make(config: dict, **given: Any) -> Any:
    """What a config names, by Hydra's `instantiate`, and then called with the given objects.

    A user's mistake (a value that does not fit, an option that is not there) becomes a DuetError.
    """
    try:
        factory = hydra.utils.instantiate({**config, "_partial_": True}, _convert_="all")
        return factory if config.get("_partial_") else factory(**given)
    except hydra.errors.InstantiationException as error:
        if isinstance(error.__cause__, DuetError):
            raise error.__cause__ from None
        raise DuetError(f"{config.get('_target_')} cannot be made: {' '.join(str(error).split())[:300]}") from error
    except (ValueError, TypeError) as error:
        raise DuetError(str(error).replace("__init__() got an unexpected keyword argument", "has no option")) from error


def build_data(config: dict, **given: Any) -> PairData:
    """The data module of a run."""
    return make(config["data"], **given)


def count(model: torch.nn.Module) -> int:
    """Parameters."""
    return sum(p.numel() for p in model.parameters())


def build_model(config: dict, src_tokenizer: Tokenizer, tgt_tokenizer: Tokenizer) -> Seq2Seq:
    """The model, with as many embeddings as the tokenizers have entries."""
    if src_tokenizer is not tgt_tokenizer and config["model"].get("tie") == "all":
        raise DuetError(
            "model.tie=all needs one shared vocabulary, but source and target have their own; allowed here: "
            "model.tie=none, and model.tie=decoder where a model has a decoder"
        )
    given = {"src_vocabulary": len(src_tokenizer), "tgt_vocabulary": len(tgt_tokenizer)}
    return make(config["model"] | {"_partial_": False}, **given)


def check_model(config: dict) -> None:
    """Raises DuetError for choices and sizes that no model of its class can have, whatever the vocabulary.

    It makes one without memory, so that they are told before a corpus is read.
    """
    try:
        with torch.device("meta"):
            make(config["model"] | {"_partial_": False}, src_vocabulary=len(SPECIALS), tgt_vocabulary=len(SPECIALS))
    except DuetError as error:
        raise DuetError(f"model: {error}") from None


def build(config: DictConfig) -> tuple[Seq2SeqTask, PairData]:
    """Task and data of a training run. Trains tokenizers and reads the corpus where that was not done before.

    Raises DuetError for what a user can mend.
    """
    plain = OmegaConf.to_container(config, resolve=True)
    bleu_for([], **plain["metrics"]["bleu"])  # a wrong choice is told now, not at the first validation
    if system := plain["metrics"].get("couplet"):
        Tones(system)  # likewise
    nothing = torch.optim.SGD([torch.zeros(1)], lr=1.0)
    make(plain["scheduler"] | {"_partial_": False}, optimizer=nothing)  # likewise
    teacher_forcing = make_teacher_forcing(plain["task"].pop("teacher_forcing"), plain["model"])
    check_model(plain)
    decode, valid_decode = make(plain["decode"]), make(plain["task"].pop("valid_decode"))
    data = build_data(plain)
    data.prepare_data()
    data.setup("fit")
    tokenizers = (data.src_tokenizer, data.tgt_tokenizer)
    model = build_model(plain, *tokenizers)
    decode.check(model, *tokenizers)
    valid_decode.check(model, *tokenizers)
    respect_limits(data, model)
    data.check_training()
    task = make(
        plain["task"],
        model=model,
        src_tokenizer=data.src_tokenizer,
        tgt_tokenizer=data.tgt_tokenizer,
        optimizer=make(plain["optimizer"]),
        scheduler=make(plain["scheduler"]),
        valid_decode=valid_decode,
        teacher_forcing=teacher_forcing,
        decode=decode,
        bleu=plain["metrics"]["bleu"],
        recipe={part: plain[part] for part in (*TARGETS, "name", "seed")},
    )
    return task, data


def make_teacher_forcing(config: Any, model: dict) -> Schedule:
    """The schedule, refused where the model cannot follow it."""
    if not isinstance(config, dict):
        raise DuetError(
            f"task.teacher_forcing is a schedule, not {config!r}: write task.teacher_forcing.ratio={config}, or "
            f"task/teacher_forcing=linear or inverse_sigmoid"
        )
    schedule = make(config)
    if schedule.lowest < 1 and not hydra.utils.get_class(model["_target_"]).can_feed_itself:
        raise DuetError(
            f"task.teacher_forcing would be {schedule.lowest:g}, but {model['_target_'].rpartition('.')[2]} models predict "
            f"all target tokens at once, so it must be 1 for them; allowed below 1: model=rnn_…"
        )
    return schedule


def respect_limits(data: PairData, model: Seq2Seq) -> None:
    """Evaluation sources are cut to what the model has positions for; EOS takes one."""
    if model.max_source is not None:
        data.max_source = min(data.max_source, model.max_source - 1)
    if model.max_target is not None:
        data.max_target = min(data.max_target, model.max_target - 1)


class Translation(NamedTuple):
    """A hypothesis. score: what it is ranked by; log_prob: of the model, in all and a token. ids and pieces end with EOS.

    given_up: what the search gave up for its sentence. Where nothing was found all is blank, and both numbers are -inf.
    """

    text: str
    score: float
    log_prob: float
    ids: list[int]
    pieces: list[str]
    token_log_probs: list[float]
    given_up: tuple[str, ...] = ()


BLANK = Translation("", 0.0, 0.0, [], [], [])  # of a blank line
NOTHING = BLANK._replace(score=-math.inf, log_prob=-math.inf)


class Translator:
    """A trained model (or an ensemble of several) with its tokenizers and config, as `load` gives it."""

    def __init__(self, model: Seq2Seq, src_tokenizer: Tokenizer, tgt_tokenizer: Tokenizer, config: dict):
        self.model, self.src_tokenizer, self.tgt_tokenizer, self.config = model, src_tokenizer, tgt_tokenizer, config

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    @property
    def max_source(self) -> int | None:
        """Tokens of a source, EOS not counted, for which the model has positions; None: no limit."""
        return None if self.model.max_source is None else self.model.max_source - 1

    def translate(self, lines: Iterable[str], *, decode: Decode | None = None, batch_size: int = 64) -> list[str]:
        """One line for each line, in order; a blank one for a blank one. decode: `tasks.decoding` (None: greedy).

        A source beyond the model's positions is cut.
        """
        return [found[0].text for found in self.search(lines, decode=decode, batch_size=batch_size)]

    def search(
        self,
        lines: Iterable[str | Request],
        *,
        decode: Decode | None = None,
        batch_size: int = 64,
        places: Sequence[int] | None = None,
        limit: int | None = None,
    ) -> list[list[Translation]]:
        """The hypotheses of each line, best first; of a blank one the blank one.

        lines: texts (without their line ends, if they have any), or a `Request` where more is asked of an answer, such as what
        it begins with. places: of the lines in their file, on which random draws depend (None: 0, 1, …). limit: tokens of a
        source, at which it is cut (None: what the model has positions for). A line that no hypothesis was found for (rules may
        forbid all) has `NOTHING`.
        """
        if isinstance(lines, str):  # whose characters would be taken for lines
            raise TypeError("lines are a list, even of one: write [line]")
        if isinstance(decode, str):
            raise TypeError(f"decode is a search of tasks.decoding, such as Beam(), not {decode!r}")
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, not {batch_size}")
        lines, decode = list(lines), decode or Greedy()
        found = [[BLANK] for _ in lines]
        asked = [Request(line.rstrip("\r\n")) if isinstance(line, str) else line for line in lines]
        longest, numbers = least([limit, self.max_source]), range(len(asked)) if places is None else places
        texts = [request.text for request in asked]
        rows = [self.src_tokenizer.encode(text)[:longest] if text.strip() else [] for text in texts]
        order = sorted((i for i, row in enumerate(rows) if row), key=lambda i: -len(rows[i]))

        def work(some: list[int]) -> list[list[Translation]]:
            batch = self.batch([(rows[i], []) for i in some], [numbers[i] for i in some])
            best = decode(self.model, batch, About(self.tgt_tokenizer, [asked[i] for i in some]))
            return [self._hypotheses(best, row) for row in range(len(some))]

        batches = [order[i : i + batch_size] for i in range(0, len(order), batch_size)]
        for some, results in zip(batches, side_by_side(work, batches, self.device)):
            for i, hypotheses in zip(some, results):
                found[i] = hypotheses
        return found

    def score(
        self, sources: Sequence[str], targets: Sequence[str], *, batch_size: int = 64, limit: int | None = None
    ) -> list[Translation]:
        """Each target as a translation of its source: its log-probability a token, and their sum as its score.

        limit: tokens after which a target is cut (None: not). DuetError for one that the model has no positions for.
        """
        if isinstance(sources, str) or isinstance(targets, str):
            raise TypeError("sources and targets are lists, even of one: write [source], [target]")
        rows = [
            (self.src_tokenizer.encode(source)[: self.max_source], target_ids(self.model, self.tgt_tokenizer, target, limit))
            for source, target in zip(sources, targets, strict=True)
        ]
        found: dict[int, Translation] = {}
        order = sorted(range(len(rows)), key=lambda i: -len(rows[i][0]))
        for places in (order[i : i + batch_size] for i in range(0, len(order), batch_size)):
            batch = self.batch([rows[i] for i in places], places)
            each = score(self.model, batch.src, batch.src_mask, batch.tgt, batch.gold, pad=PAD)
            for row, place in enumerate(places):
                ids = batch.gold[row][batch.gold[row] != PAD].tolist()
                values = each[row, : len(ids)].tolist()
                pieces = self.tgt_tokenizer.pieces(ids)
                found[place] = Translation(targets[place], sum(values), sum(values), ids, pieces, values)
        return [found[place] for place in range(len(rows))]

    @torch.no_grad()
    def alternatives(
        self, line: str, prefix: str = "", count: int = 5, *, limit: int | None = None
    ) -> list[tuple[str, float]]:
        """What could come next after a translation's beginning: the likeliest tokens (as pieces) and their probabilities.

        limit: tokens of the line, at which it is cut (None: what the model has positions for).
        """
        begin = target_ids(self.model, self.tgt_tokenizer, prefix)
        batch = self.batch([(self.src_tokenizer.encode(line)[: least([limit, self.max_source])], begin)], [0])
        hidden = self.model(batch.src, batch.src_mask, batch.tgt).hidden[:, -1]
        values, ids = self.model.project(hidden).float().softmax(dim=-1)[0].topk(min(count, len(self.tgt_tokenizer)))
        return list(zip(self.tgt_tokenizer.pieces(ids.tolist()), values.tolist()))

    @torch.no_grad()
    def attention(self, source: Sequence[int], ids: Sequence[int]) -> dict[str, Tensor]:
        """encoder, decoder, cross -> the attention (L, H, T, S) of that kind, on the CPU, while a source (ids without EOS) is
        read and a hypothesis (ids with EOS) written.
        """
        batch = self.batch([(list(source), list(ids[:-1]))], [0])
        found = self.model(batch.src, batch.src_mask, batch.tgt, need_weights=True).attention
        return {kind: weights[0].float().cpu() for kind, weights in found.items()}

    def batch(self, rows: list[tuple[list[int], list[int]]], places: Sequence[int]) -> Batch:
        """Of (source ids, target ids), both without EOS, on the model's device."""
        return Batch(*(part.to(self.device) for part in collate(rows, places)))

    def _hypotheses(self, decoded: Decoded, row: int) -> list[Translation]:
        """Those of one sentence of a batch; the blank one where there is none."""
        result, (found, texts, given_up) = [], decoded
        for place, worth in enumerate(found.scores[row].tolist()):
            if worth > -math.inf:
                tokens = found.tokens[row, place]
                ids, log_prob = tokens[tokens != PAD].tolist(), float(found.log_probs[row, place])
                pieces, values = self.tgt_tokenizer.pieces(ids), found.token_log_probs[row, place, : len(ids)].tolist()
                result.append(Translation(texts[row][place], worth, log_prob, ids, pieces, values, given_up[row]))
        return result or [NOTHING._replace(given_up=given_up[row])]


def load(*paths: str | Path, way: str = "linear") -> Translator:
    """A checkpoint of ours, ready to translate, on the CPU and in evaluation mode. Several are an ensemble: load(a, b).

    way: how an ensemble joins probabilities, linear or log_linear (`model.ensemble`).
    Raises DuetError for a file that is missing, damaged, not ours, or names anything but Duet's own parts, and for an
    ensemble whose tokenizers differ.
    """
    if way not in WAYS:
        raise DuetError(f"ensemble is {way!r}: choose {', '.join(WAYS)}")
    first, *others = [revive(read_checkpoint(path), path) for path in paths]
    if not others:
        return first
    for path, other in zip(paths[1:], others):
        for side in ("src_tokenizer", "tgt_tokenizer"):
            if getattr(first, side).state() != getattr(other, side).state():
                raise DuetError(f"{paths[0]} and {path} are no ensemble: their {side} are not the same")
    model = Ensemble([first.model, *(other.model for other in others)], way=way)
    return Translator(model.eval(), first.src_tokenizer, first.tgt_tokenizer, first.config)


def revive(checkpoint: dict, path: str | Path) -> Translator:
    """The translator of a checkpoint that `read_checkpoint` has checked; path: to name it in errors."""
    config = checkpoint["duet"]["config"]
    source, target = tokenizers_of(checkpoint, path)
    model = build_model(config, source, target)
    weights = {name.removeprefix("model."): value for name, value in checkpoint["state_dict"].items()}
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        raise DuetError(f"{path} does not fit the model that it names: {str(error).splitlines()[-1].strip()}") from None
    return Translator(model.eval(), source, target, config)


def tokenizers_of(checkpoint: dict, path: str | Path) -> tuple[Tokenizer, Tokenizer]:
    """Those of the source and of the target. Raises DuetError for damaged ones."""
    ours = checkpoint["duet"]
    try:
        source = restore(ours["source"])
        return source, source if ours["target"] is None else restore(ours["target"])
    except Exception:  # a damaged state can be anything
        raise DuetError(f"{path} is damaged: its tokenizers cannot be read") from None


MAGIC = (b"PK", b"\x80")  # of what torch.save writes, a zip file, and of a pickle, as it wrote once


def read_checkpoint(path: str | Path, *, mapped: bool = False) -> dict:
    """The checked content of a checkpoint file; nothing in it has been run or built.

    mapped: tensors are read from the file when somebody looks at them.
    """
    path = Path(path)
    if not path.is_file():
        best = next((one for one in (path / "checkpoints/best.ckpt", path / "best.ckpt") if one.is_file()), None)
        raise DuetError(f"checkpoint missing: {path} is not a file" + (f"; {best} is one" if best else ""))
    with open(path, "rb") as file:
        if (begin := file.read(2)) and not begin.startswith(MAGIC):
            raise DuetError(f"{path} is not a checkpoint: it does not begin like one")
    try:
        checkpoint = torch.load(path, map_location="cpu", weights_only=True, mmap=mapped)
    except pickle.UnpicklingError:
        raise DuetError(f"{path} is not a checkpoint of Duet: it holds more than plain values, so it was not read") from None
    except (RuntimeError, EOFError, OSError, zipfile.BadZipFile, KeyError, ValueError) as error:
        raise DuetError(f"{path} is not a checkpoint, or cut off: {' '.join(str(error).split())[:100] or 'empty'}") from None
    if not isinstance(checkpoint, dict) or "state_dict" not in checkpoint or "duet" not in checkpoint:
        raise DuetError(f"{path} is a checkpoint, but not one of Duet: the part 'duet' is missing")
    state = checkpoint["state_dict"]
    if not isinstance(state, dict) or not all(isinstance(name, str) and torch.is_tensor(state[name]) for name in state):
        raise DuetError(f"{path} is damaged: its weights cannot be read")
    ours = checkpoint["duet"]
    check_config(ours.get("config") if isinstance(ours, dict) else None, path)
    return checkpoint


def check_config(config: Any, path: str | Path) -> None:
    """Refuses a config that names what is not Duet's, lacks a part, or has values that none of its options can have."""
    if not isinstance(config, dict) or not all(isinstance(part, str) for part in config):
        raise DuetError(f"{path} is damaged: its config cannot be read")
    check_targets(config, path)
    for part, allowed in TARGETS.items():
        if not isinstance(config.get(part), dict) or (allowed and "_target_" not in config[part]):
            raise DuetError(f"{path} is damaged: its config has no {part}")
    try:
        values.check(OmegaConf.create(config))
    except DuetError as error:
        raise DuetError(f"{path} is damaged: its {error}") from None
    except Exception:  # keys that are none, for one
        raise DuetError(f"{path} is damaged: its config cannot be read") from None


def check_targets(config: dict, path: str | Path) -> None:
    """Refuses a config that would run anything but what `TARGETS` lists, or look anything up while it is built."""
    for part, value in config.items():
        for key, leaf in _leaves(value):
            if key in FOREIGN:
                raise DuetError(f"{path} has {key} in its config, which is not allowed there")
            if key == "_target_" and (not isinstance(leaf, str) or leaf not in TARGETS.get(part, ())):
                raise DuetError(f"{path} names {leaf!r} as its {part}, which is none of Duet's own; it was not run")
            if isinstance(leaf, str) and "${" in leaf:
                raise DuetError(f"{path} has {leaf!r} in its config: interpolations are not allowed there")


def _leaves(value: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for name, inner in value.items():
            if name in ("_target_", *FOREIGN):
                yield name, inner
            yield from _leaves(inner, name)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _leaves(inner, key)
    else:
        yield key, value
