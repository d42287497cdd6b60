"""Whether training can go on from a checkpoint, with these options."""

import math
import re

import lightning
from omegaconf import DictConfig, OmegaConf

from data.errors import DuetError
from tasks.build import read_checkpoint, tokenizers_of

NEEDED = {  # what a checkpoint must have, besides weights, that training goes on from
    "optimizer_states": list,
    "lr_schedulers": list,
    "loops": dict,
    "callbacks": dict,
    "progress": dict,
    "global_step": int,
    "pytorch-lightning_version": str,
}


def read_resumed(config: DictConfig) -> dict:
    """The checkpoint to go on from. Raises DuetError where it lacks something, or nothing is left to train."""
    checkpoint = read_checkpoint(config.resume)
    for part, kind in NEEDED.items():
        value = checkpoint.get(part)
        inner = value if kind is list and isinstance(value, list) else []
        if not isinstance(value, kind) or value in ([], {}) or not all(isinstance(one, dict) for one in inner):
            raise DuetError(f"{config.resume} has no {part}, so training cannot go on from it: take a run's last.ckpt")
    if 0 < config.trainer.max_steps <= checkpoint["global_step"]:
        raise DuetError(
            f"{config.resume} is at step {checkpoint['global_step']}, and trainer.max_steps is {config.trainer.max_steps}: "
            f"nothing is left to train"
        )
    spent = spent_time(checkpoint)
    if config.trainer.max_time is not None and spent >= seconds_of(config.trainer.max_time):
        raise DuetError(
            f"{config.resume} has trained for {spent:.0f} s, and trainer.max_time is {config.trainer.max_time}: nothing is "
            f"left to train; raise it, or leave it out with trainer.max_time=null"
        )
    return checkpoint


def spent_time(checkpoint: dict) -> float:
    """Seconds of training that Lightning's timer counted for a checkpoint; 0 where it had none."""
    timers = [state for name, state in checkpoint["callbacks"].items() if name.startswith("Timer")]
    elapsed = timers[0].get("time_elapsed") if timers else None
    return float(elapsed.get("train", 0.0)) if isinstance(elapsed, dict) else 0.0


def seconds_of(time: str) -> float:
    """Of DD:HH:MM:SS; endless where it is written in another way, which is told elsewhere."""
    if not LONG.fullmatch(str(time)):
        return math.inf
    days, hours, minutes, seconds = map(int, str(time).split(":"))
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


LONG = re.compile(r"\d+:\d\d:\d\d:\d\d")


def check_resumed(checkpoint: dict, task: lightning.LightningModule, config: DictConfig) -> None:
    """Raises DuetError where this model or vocabulary is not the checkpoint's."""
    for there, here in zip(tokenizers_of(checkpoint, config.resume), (task.src_tokenizer, task.tgt_tokenizer)):
        if there.pieces(range(len(there))) != here.pieces(range(len(here))):
            raise DuetError(
                f"{config.resume} was trained with another vocabulary than these data and options give: resume with those that "
                f"the run had"
            )
    check_same(checkpoint, config)
    here = {name: tuple(value.shape) for name, value in task.state_dict().items()}
    there = {name: tuple(value.shape) for name, value in checkpoint["state_dict"].items()}
    for name in sorted(here.keys() | there.keys()):
        if here.get(name) != there.get(name):
            raise DuetError(
                f"{config.resume} does not fit this model: {name} has the shape {there.get(name)} there and {here.get(name)} "
                f"here; resume with the options that the run had"
            )


ORDER = ("max_tokens", "seed", "max_length", "max_ratio", "drop_duplicates", "train_file", "source_column", "target_column")


def check_same(checkpoint: dict, config: DictConfig) -> None:
    """Raises DuetError for options that say what the checkpoint says otherwise, and that would be passed over: those of the
    optimizer, whose state is the checkpoint's, and those that batches and their order come from.
    """
    known = checkpoint["duet"]["config"]["data"]
    changed = [(f"data.{name}", known.get(name), config.data[name]) for name in ORDER if name in known and name in config.data]
    changed = [(name, *([part] if isinstance(part, str) else part for part in both)) for name, *both in changed]
    groups = checkpoint["optimizer_states"][0].get("param_groups", [])
    for name, value in config.optimizer.items():
        there = [group["initial_lr" if name == "lr" and "initial_lr" in group else name] for group in groups if name in group]
        if there and not str(name).startswith("_"):
            changed.append((f"optimizer.{name}", there[0], there[0] if _plain(value) in map(_plain, there) else value))
    for name, before, now in changed:
        if _plain(before) != _plain(now):
            told = f"{name} is {now}, but {config.resume} goes on with {before}"
            raise DuetError(f"{told}: resume with the options that the run had")


def _plain(value: object) -> object:
    value = OmegaConf.to_container(value) if OmegaConf.is_config(value) else value
    return list(value) if isinstance(value, tuple) else value
