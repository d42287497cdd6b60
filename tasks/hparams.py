"""A run's settings in TensorBoard's HPARAMS tab, beside the scalars that it has anyway."""

from collections.abc import Iterator

from lightning import Callback, LightningModule, Trainer
from omegaconf import DictConfig, OmegaConf
from torch.utils.tensorboard.summary import hparams

PARTS = ("name", "seed", "data", "tokenizer", "model", "task", "optimizer", "scheduler", "trainer")
ELSEWHERE = ("data.make_", "tokenizer.source", "tokenizer.target")  # under tokenizer already
Value = str | int | float | bool


def settings(config: DictConfig, **further: Value) -> dict[str, Value]:
    """The config's values by their names on the command line, lists and null as text, and some more."""
    plain = OmegaConf.to_container(config, resolve=True)
    flat = dict(leaves({part: plain[part] for part in PARTS if part in plain}))
    kept = {name: value for name, value in flat.items() if not name.startswith(ELSEWHERE)}
    return {name: value if isinstance(value, int | float | str) else str(value) for name, value in kept.items()} | further


def leaves(value: object, name: str = "") -> Iterator[tuple[str, object]]:
    """(name with its dots, value) of everything in nested dicts, but what only Hydra reads; classes by their last name."""
    if not isinstance(value, dict):
        yield name, value
        return
    for key, inner in value.items():
        if key == "_target_":
            yield f"{name}.class", str(inner).rpartition(".")[2]
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
        _, start, _ = hparams(self.values, {})
        self._write(trainer, start)

    def on_train_end(self, trainer: Trainer, task: LightningModule) -> None:
        _, _, end = hparams({}, {})
        self._write(trainer, end)

    def _write(self, trainer: Trainer, summary) -> None:
        if trainer.is_global_zero:
            for logger in trainer.loggers:
                logger.experiment._get_file_writer().add_summary(summary)
