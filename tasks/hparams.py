"""A run's settings in TensorBoard's HPARAMS tab, beside the scalars that it has anyway."""

import json
from collections.abc import Iterator
from itertools import dropwhile

from lightning import Callback, LightningModule, Trainer
from omegaconf import DictConfig, OmegaConf

PARTS = ("name", "seed", "data", "tokenizer", "model", "task", "optimizer", "scheduler", "trainer")
Value = str | int | float | bool


def settings(config: DictConfig, **further: Value) -> dict[str, Value]:
    """The config's values by their names on the command line, lists and null as text, and some more."""
    plain = OmegaConf.to_container(config, resolve=True)
    flat = dict(leaves({part: plain[part] for part in PARTS if part in plain}))
    kept = {name: value for name, value in flat.items() if not name.startswith("data.make_") and not _repeats(name, flat)}
    return {name: value if isinstance(value, int | float | str) else written(value) for name, value in kept.items()} | further


def written(value: object) -> str:
    """As one writes it on the command line: null, true, 0.5, [1, 2]."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _repeats(name: str, flat: dict[str, object]) -> bool:
    """Whether it is the option of one side's tokenizer that stands for both sides too: data.make_… says it once more."""
    side, _, option = name.removeprefix("tokenizer.").partition(".")
    return side in ("source", "target") and flat.get(f"tokenizer.{option}") == flat[name]


def leaves(value: object, name: str = "") -> Iterator[tuple[str, object]]:
    """(name with its dots, value) of everything in nested dicts, but what only Hydra reads; classes without their modules."""
    if not isinstance(value, dict):
        yield name, value
        return
    for key, inner in value.items():
        if key == "_target_":
            yield f"{name}.class", ".".join(dropwhile(str.islower, str(inner).split("."))) or str(inner)
        elif not key.startswith("_"):
            yield from leaves(inner, f"{name}.{key}" if name else key)


class HParams(Callback):
    """Writes the settings when training begins, and that it has ended when it has.

    `SummaryWriter.add_hparams` would make a subfolder and write scalars a second time. Here all goes into the run's own events,
    and no list of columns with it: TensorBoard takes the first list that it finds for all runs, but models differ in their
    settings. Without one it shows all settings of all runs, and every scalar as a metric.
    """

    def __init__(self, values: dict[str, Value]):
        self.values = values

    def on_train_start(self, trainer: Trainer, task: LightningModule) -> None:
        from torch.utils.tensorboard.summary import hparams  # takes a second

        _, start, _ = hparams(self.values, {})
        self._write(trainer, start)

    def on_train_end(self, trainer: Trainer, task: LightningModule) -> None:
        from torch.utils.tensorboard.summary import hparams

        _, _, end = hparams({}, {})
        self._write(trainer, end)

    def _write(self, trainer: Trainer, summary) -> None:
        if trainer.is_global_zero:
            for logger in trainer.loggers:
                logger.experiment._get_file_writer().add_summary(summary)
