"""What commands do with a checkpoint before their work: the model, the config that goes with it, and the search."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import torch
from omegaconf import DictConfig, OmegaConf

from data.errors import DuetError
from tasks import cli, values
from tasks.build import Translator, load, make
from tasks.decoding import Decode

Check = Callable[[DictConfig], None]
"""Raises DuetError for values of a command's own options."""


def loaded(words: Sequence[str]) -> Translator:
    """What ckpt=… and ensemble=… name, on the CPU."""
    return load(*cli.values_of("ckpt", words), way=cli.value_of("ensemble", words, "linear"))


def configure(
    name: str, words: Sequence[str], model: Translator, check: Check, *, needed: Sequence[str] = ("decode",),
    kinds: dict[str, values.Kind] | None = None,
) -> DictConfig:  # fmt: skip
    """The config of a command (conf/<name>.yaml), where the parts of the model's can be chosen, checked; it sets the threads.

    needed, kinds: as in `values.check`.
    """
    cli.offer(model.config)
    config = cli.compose(name, words)
    values.check(config, needed=needed, kinds=kinds)
    check_device(config.device)
    check(config)
    if config.threads:
        torch.set_num_threads(config.threads)
    return config


def check_device(device: str) -> None:
    if device not in ("cpu", "cuda") or (device == "cuda" and not torch.cuda.is_available()):
        allowed = "cpu, cuda" if torch.cuda.is_available() else "cpu (torch sees no GPU here)"
        raise DuetError(f"device is {device!r}: allowed is {allowed}")


def check_names(config: DictConfig, choices: Mapping[str, Iterable[str]]) -> None:
    """Raises DuetError for an option that is none of its choices."""
    for name, allowed in choices.items():
        if config[name] not in allowed:
            raise DuetError(f"{name} is {config[name]!r}: choose {', '.join(allowed)}")


def search_of(config: DictConfig, model: Translator) -> Decode:
    """What decode=… chooses. Raises DuetError where it cannot work with this model."""
    decode = make(OmegaConf.to_container(config.decode, resolve=True))
    decode.check(model.model, model.src_tokenizer, model.tgt_tokenizer)
    return decode


class Use(NamedTuple):
    """A checkpoint (or an ensemble), ready."""

    model: Translator
    config: DictConfig
    decode: Decode


def use(name: str, words: Sequence[str], check: Check, *, kinds: dict[str, values.Kind] | None = None) -> Use:
    """What the words of a command name, on its device. Raises DuetError for what a user can mend."""
    model = loaded(words)
    config = configure(name, words, model, check, kinds=kinds)
    model.model.to(config.device)
    return Use(model, config, search_of(config, model))
