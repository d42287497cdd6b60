"""Whether training can go on from a checkpoint, with these options."""

import lightning
from lightning.pytorch.callbacks import Timer
from omegaconf import DictConfig, ListConfig

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
    check_time(checkpoint, config)
    check_average(checkpoint, config)
    check_same(checkpoint, config)
    return checkpoint


def check_time(checkpoint: dict, config: DictConfig) -> None:
    """Raises DuetError where trainer.max_time has been spent, which Lightning's timer counts over all of a run's parts."""
    if config.trainer.max_time is None:
        return
    timer = Timer(config.trainer.max_time)
    timer.load_state_dict(checkpoint["callbacks"].get(timer.state_key, {}))
    if timer.time_remaining() <= 0:
        raise DuetError(
            f"{config.resume} has trained for {timer.time_elapsed():.0f} s, and trainer.max_time is {config.trainer.max_time}: "
            f"nothing is left to train; raise it, or leave it out with trainer.max_time=null"
        )


def check_average(checkpoint: dict, config: DictConfig) -> None:
    """Raises DuetError where the weights that were trained would be lost: they stand beside their average, which only
    callbacks.ema takes away again.
    """
    if "current_model_state" in checkpoint and (config.callbacks.ema is None or config.callbacks.ema.decay is None):
        raise DuetError(
            f"callbacks.ema.decay is null, but {config.resume} goes on with a moving average of its weights: resume with the "
            f"options that the run had"
        )


ORDER = ("max_tokens", "seed", "max_length", "max_ratio", "drop_duplicates", "train_file", "source_column", "target_column")


def check_same(checkpoint: dict, config: DictConfig) -> None:
    """Raises DuetError for options that say what the checkpoint says otherwise, and that would be passed over: those of the
    optimizer, whose state is the checkpoint's, and those that batches and their order come from.
    """
    known, (optimizer, *_) = checkpoint["duet"]["config"]["data"], checkpoint["optimizer_states"][0]["param_groups"]
    optimizer = optimizer | {"lr": optimizer.get("initial_lr", optimizer["lr"])}  # the schedule changes lr itself
    pairs = [(f"data.{name}", known[name], config.data[name]) for name in ORDER if name in known and name in config.data]
    pairs += [(f"optimizer.{name}", optimizer[name], value) for name, value in config.optimizer.items() if name in optimizer]
    for name, before, now in pairs:
        if _plain(before) != _plain(now):
            told = f"{name} is {now}, but {config.resume} goes on with {before}"
            raise DuetError(f"{told}: resume with the options that the run had")


def _plain(value: object) -> list:
    """A value, or several, in one way: `train`, [train] and (train,) are the same."""
    return list(value) if isinstance(value, list | tuple | ListConfig) else [value]


def check_resumed(checkpoint: dict, task: lightning.LightningModule, config: DictConfig) -> None:
    """Raises DuetError where this model or vocabulary is not the checkpoint's."""
    for there, here in zip(tokenizers_of(checkpoint, config.resume), (task.src_tokenizer, task.tgt_tokenizer)):
        if there.pieces(range(len(there))) != here.pieces(range(len(here))):
            raise DuetError(
                f"{config.resume} was trained with another vocabulary than these data and options give: resume with those that "
                f"the run had"
            )
    here = {name: tuple(value.shape) for name, value in task.state_dict().items()}
    there = {name: tuple(value.shape) for name, value in checkpoint["state_dict"].items()}
    for name in sorted(here.keys() | there.keys()):
        if here.get(name) != there.get(name):
            raise DuetError(
                f"{config.resume} does not fit this model: {name} has the shape {there.get(name)} there and {here.get(name)} "
                f"here; resume with the options that the run had"
            )
