"""How long a run has trained, and on how much, also over interruptions."""

import time

import torch
from lightning import Callback, LightningModule, Trainer
from lightning.pytorch.trainer.states import TrainerFn


class Stopwatch(Callback):
    """Counts from the first batch on; what it has counted is in every checkpoint, so that a resumed run goes on counting.

    Logs train/minutes at each validation, so that a curve can be drawn over time.
    """

    def __init__(self):
        self.before = {"seconds": 0.0, "train_seconds": 0.0, "train_tokens": 0}  # of the runs that this one goes on from
        self.task: LightningModule | None = None  # it counts the tokens
        self.began: float | None = None
        self.paused, self.pause_began = 0.0, None  # seconds of validations
        self.devices = 1

    def on_train_start(self, trainer: Trainer, task: LightningModule) -> None:
        self.task, self.began, self.devices = task, time.perf_counter(), trainer.world_size

    def on_validation_start(self, trainer: Trainer, task: LightningModule) -> None:
        if trainer.state.fn == TrainerFn.FITTING:
            self.pause_began = time.perf_counter()

    def on_validation_end(self, trainer: Trainer, task: LightningModule) -> None:
        if self.pause_began is None:
            return
        self.paused, self.pause_began = self._paused(), None
        for logger in trainer.loggers:
            logger.log_metrics({"train/minutes": self.read()["seconds"] / 60}, step=trainer.global_step)

    @property
    def moved(self) -> bool:
        """Whether a batch has been trained on."""
        return self.task is not None and torch.is_tensor(self.task.tokens)

    def _paused(self) -> float:
        return self.paused + (0.0 if self.pause_began is None else time.perf_counter() - self.pause_began)

    def read(self) -> dict[str, float]:
        """seconds: since the first batch, validations included; train_seconds: without them; train_tokens: target tokens, EOS
        included. With several devices the tokens are estimated from those of one.
        """
        seconds = 0.0 if self.began is None else time.perf_counter() - self.began
        now = {
            "seconds": seconds,
            "train_seconds": seconds - self._paused(),
            "train_tokens": 0 if self.task is None else int(self.task.tokens) * self.devices,
        }
        return {name: self.before[name] + value for name, value in now.items()}

    def state_dict(self) -> dict:
        return self.read()

    def load_state_dict(self, state: dict) -> None:
        self.before = {name: state[name] for name in self.before}
