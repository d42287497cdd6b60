"""What values options may have. The annotations of what a config names (`_target_`) say it; some have a least value too."""

import functools
import inspect
import math
import types
import typing
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import hydra.utils
from omegaconf import DictConfig, OmegaConf

from data.errors import DuetError

Kind = Any  # an annotation

OPTIONS: dict[str, Kind] = {  # those that no `_target_` has, of all commands; a command has some of them
    # train
    "name": str,
    "resume": str | None,  # a checkpoint
    "test": bool,
    "tokenizer.source": Callable,
    "tokenizer.target": Callable,
    "tokenizer.shared": bool,
    "tokenizer.model_type": str,
    "tokenizer.vocab_size": int,
    "tokenizer.normalization": str,
    "tokenizer.character_coverage": float,
    "tokenizer.input_sentence_size": int,
    "tokenizer.seed": int,
    "tokenizer.min_count": int,
    # all
    "seed": int,
    "debug": bool,
    "threads": int | None,
    "metrics.bleu.tokenize": str,
    "metrics.bleu.lowercase": bool,
    "metrics.couplet": str | None,
    # evaluate, compare
    "ckpt": str | list[str],
    "split": str,
    "source": str | None,
    "reference": str | None,
    "batch_size": int,
    "limit": int | None,
    "heatmaps": int,
    "layers": list[int] | None,
    "heads": list[int] | None,
    "out": str | None,
    "device": str,
    "alignment.write": bool,
    "alignment.of": str,
    "alignment.layer": int | None,
    "alignment.head": int | None,
    "alignment.shift": int,
    "alignment.unit": str,
    "alignment.gold": str | None,
    "alignment.search": bool,
    # compare
    "all": bool,
    "baseline": str | None,
    "reuse": bool,
    "bootstrap": int,
    "randomization": int,
    "examples": int,
    # translate
    "ensemble": str,
    "input": str | None,
    "column": str | int | None,
    "output": str | None,
    "format": str,
    "align": bool,
    "max_length": int | None,
    "split_long": bool,
    "window": int,
    "progress": bool,
    # couplet
    "answers": int,
    "different": int,
    "words": list[str],
    "avoid": str,
    "script": str,
}

LEAST: dict[str, float] = {  # the smallest value, where who gets a smaller one takes it in silence, fails late, or misnames it
    "answers": 1,
    "seed": 0,
    "threads": 1,
    "batch_size": 1,
    "bootstrap": 100,
    "callbacks.early_stopping.min_delta": 0,
    "callbacks.early_stopping.patience": 1,
    "callbacks.progress.refresh": 0,
    "data.num_workers": 0,
    "data.seed": 0,
    "data.source.held_back": 0,
    "data.source.seed": 0,
    "decode.seed": 0,
    "different": 0,
    "examples": 0,
    "heatmaps": 0,
    "limit": 1,
    "max_length": 1,
    "model.channels": 1,
    "model.decoder_layers": 1,
    "model.embedding_channels": 1,
    "model.feed_forward": 1,
    "model.heads": 1,
    "model.layers": 1,
    "model.max_positions": 2,
    "model.reach": 1,
    "optimizer.eps": 0,
    "optimizer.lr": 0,
    "optimizer.weight_decay": 0,
    "randomization": 100,
    "scheduler.final": 0,
    "task.log_every": 1,
    "task.valid_decode.max_len_a": 0,
    "task.valid_decode.max_len_b": 0,
    "task.valid_decode.min_len": 0,
    "task.valid_decode.no_repeat_ngram": 0,
    "task.valid_decode.repetition_penalty": 1,
    "tokenizer.input_sentence_size": 0,
    "tokenizer.seed": 0,
    "trainer.accumulate_grad_batches": 1,
    "trainer.gradient_clip_val": 0,
    "trainer.val_check_interval": 1,
    "window": 1,
}
MOST: dict[str, float] = {"seed": 2**32 - 1}  # the largest one, likewise: NumPy's generator takes 32 bits
TOLD_ELSEWHERE = ("task.teacher_forcing",)  # with what to write instead
NEEDED = ("data", "model", "task", "optimizer", "scheduler", "decode", "trainer", "callbacks.checkpoints")


def check(config: DictConfig, *, needed: Sequence[str] = (), kinds: dict[str, Kind] | None = None) -> None:
    """Raises DuetError, with the option's name, for the first value that is of another kind than its option, or too small.

    needed: parts that must not be null. kinds: of options that are another thing to this command than OPTIONS says.
    A whole number where only text will do becomes that text (data.train_file=2016). Options of a `_target_` that cannot be
    found pass.
    """
    for key in needed:
        if not isinstance(OmegaConf.select(config, key), DictConfig):
            raise DuetError(f"{key} is {OmegaConf.select(config, key)!r}, but a run needs it: leave it out, or choose one")
    known = [*(OPTIONS | (kinds or {})).items(), *_annotated(config)]
    known.sort(key=lambda option: _refers(config, option[0]))  # a value is told under the name that it was given to
    for key, kind in known:
        if (value := OmegaConf.select(config, key, default=_ABSENT)) is _ABSENT:
            continue
        if isinstance(value, DictConfig) and "_target_" in value:
            continue
        value = OmegaConf.to_container(value, resolve=True) if OmegaConf.is_config(value) else value
        if set(_choices(kind)) <= {types.NoneType}:
            if key not in TOLD_ELSEWHERE and value is not None:
                raise DuetError(f"{key} is a part with options of its own, {key}.…, and cannot be {value!r}")
        elif type(value) is int and not fits(value, kind) and fits("", kind):
            OmegaConf.update(config, key, str(value))
        elif not fits(value, kind) or not _within(value, key):
            bound = f", at least {LEAST[key]}" if key in LEAST else ""
            bound += f" and at most {MOST[key]}" if key in MOST else ""
            raise DuetError(f"{key} must be {in_words(kind)}{bound}, not {value!r}")


_ABSENT = object()


def _within(value: object, key: str) -> bool:
    """Whether a number is none that is too small or too large for its option."""
    return type(value) not in (int, float) or LEAST.get(key, -math.inf) <= value <= MOST.get(key, math.inf)


def _refers(config: DictConfig, key: str) -> bool:
    parent, _, name = key.rpartition(".")
    node = OmegaConf.select(config, parent) if parent else config
    return isinstance(node, DictConfig) and name in node and OmegaConf.is_interpolation(node, name)


def _annotated(config: DictConfig, path: str = "") -> Iterator[tuple[str, Kind]]:
    """(key, annotation) of every option whose part has a `_target_`, the inner parts' first."""
    hints = hints_of(str(config["_target_"])) if "_target_" in config else {}
    for key in config:
        name = f"{path}.{key}" if path else str(key)
        child = None if OmegaConf.is_missing(config, key) else config[key]
        if isinstance(child, DictConfig):
            yield from _annotated(child, name)
        if key in hints:
            yield name, hints[key]


@functools.cache
def hints_of(target: str) -> dict[str, Kind]:
    """parameter -> annotation of a class or function; {} where nothing is known."""
    try:
        found: Callable = hydra.utils.get_object(target)
        return typing.get_type_hints(found.__init__ if inspect.isclass(found) else found)
    except Exception:  # importing what a config names, and reading foreign annotations, can fail in any way
        return {}


# Kinds


def fits(value: object, kind: Kind) -> bool:
    """Whether a plain value is of that kind. A number may be whole, a truth value is none, and inf and nan are none either."""
    choices = _choices(kind)
    if not choices:
        return True  # only objects will do, which somebody else has to judge
    return any(_fits(value, choice) for choice in choices)


def _fits(value: object, kind: Kind) -> bool:
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Literal:
        return any(type(value) is type(allowed) and value == allowed for allowed in inner)
    if origin in _LISTS or kind in _LISTS:
        elements = [part for part in inner if part is not ...]
        if not isinstance(value, list) or (origin is tuple and ... not in inner and len(value) != len(inner)):
            return False
        return all(any(fits(part, element) for element in elements) for part in value) if elements else True
    if kind is types.NoneType:
        return value is None
    if kind is float:
        return type(value) in (int, float) and math.isfinite(value)
    return type(value) is kind


_LISTS = (list, tuple, Sequence)
_PLAIN = {bool: "true or false", int: "a whole number", float: "a number", str: "text", types.NoneType: "null"}
_SEVERAL = {bool: "truth values", int: "whole numbers", float: "numbers", str: "texts"}


def _choices(kind: Kind) -> list[Kind]:
    """The parts of a union that a plain value can have."""
    origin = typing.get_origin(kind)
    if origin in (typing.Union, types.UnionType):
        return [choice for part in typing.get_args(kind) for choice in _choices(part)]
    simple = kind in _PLAIN or origin is typing.Literal or origin in _LISTS or kind in _LISTS
    return [kind] if simple else []


def in_words(kind: Kind) -> str:
    """As in "a whole number or null"."""
    choices = _choices(kind)
    words = list(dict.fromkeys(_in_words(choice) for choice in choices if choice is not int or float not in choices))
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def _in_words(kind: Kind) -> str:
    if kind in _PLAIN:
        return _PLAIN[kind]
    inner = [part for part in typing.get_args(kind) if part is not ...]
    if typing.get_origin(kind) is typing.Literal:
        return ", ".join(map(str, inner))
    number = f"{len(inner)} " if typing.get_origin(kind) is tuple and ... not in typing.get_args(kind) else ""
    named = [_SEVERAL[choice] for part in inner[:1] for choice in _choices(part) if choice in _SEVERAL]
    return f"a list of {number}{named[-1]}" if named else "a list"
