"""One bar for the whole run, and a line for each validation."""

import sys
import time
from datetime import timedelta

from lightning import LightningModule, Trainer
from lightning.pytorch.callbacks import ProgressBar, Timer
from lightning.pytorch.trainer.states import TrainerFn
from tqdm import tqdm


class Progress(ProgressBar):
    """Loss, BLEU, target tokens per second, time left until the first of the run's limits. refresh: seconds between updates."""

    def __init__(self, *, refresh: float = 0.5):
        super().__init__()
        self.refresh, self.bar, self.bleu, self.shown = refresh, None, None, 0.0

    def disable(self) -> None:
        self.refresh = float("inf")

    def on_train_start(self, trainer: Trainer, task: LightningModule) -> None:
        self.began, self.first = time.monotonic(), _done(trainer)
        self.bar = tqdm(
            total=1.0,
            initial=self.first,
            disable=not (trainer.is_global_zero and sys.stderr.isatty()),
            bar_format="{percentage:3.0f}%|{bar}| {elapsed}{postfix}",
            leave=False,
        )

    def on_train_batch_end(self, trainer: Trainer, task: LightningModule, outputs, batch, batch_index: int) -> None:
        now = time.monotonic()
        if self.bar is None or self.bar.disable or now - self.shown < self.refresh:
            return
        self.shown, done = now, _done(trainer)
        self.bar.n = min(done, 1.0)
        left = (now - self.began) / (done - self.first) * (1 - done) if done > self.first else None
        self.bar.set_postfix_str(" · ".join(_parts(trainer, task, self.bleu, left)))

    def on_validation_end(self, trainer: Trainer, task: LightningModule) -> None:
        if trainer.state.fn != TrainerFn.FITTING or not trainer.is_global_zero:
            return
        scores = {name: float(value) for name, value in trainer.callback_metrics.items()}
        self.bleu = scores.get("val/bleu")
        shown = [f"{name} {scores[name]:.{digits}f}" for name, digits in SHOWN.items() if name in scores]
        passed = timedelta(seconds=int(time.monotonic() - self.began))
        line = " · ".join([f"step {trainer.global_step:,}", f"epoch {trainer.current_epoch}", str(passed), *shown])
        (self.bar.write if self.bar is not None and not self.bar.disable else print)(line + _speed(task))
        sys.stdout.flush()

    def on_train_end(self, trainer: Trainer, task: LightningModule) -> None:
        if self.bar is not None:
            self.bar.close()

    on_exception = lambda self, trainer, task, exception: self.on_train_end(trainer, task)  # noqa: E731


SHOWN = {"val/loss": 3, "val/ppl": 2, "val/bleu": 2, "val/chrf": 2}


def _done(trainer: Trainer) -> float:
    """How much of the run is done, by the limit that will be reached first."""
    parts = [0.0]
    if trainer.max_steps and trainer.max_steps > 0:
        parts.append(trainer.global_step / trainer.max_steps)
    if trainer.max_epochs and trainer.max_epochs > 0:
        inside = trainer.fit_loop.epoch_loop.batch_progress.current.ready / max(trainer.num_training_batches, 1)
        parts.append((trainer.current_epoch + min(inside, 1)) / trainer.max_epochs)
    for timer in (callback for callback in trainer.callbacks if isinstance(callback, Timer)):
        if timer.time_remaining() is not None:
            whole = timer.time_elapsed() + timer.time_remaining()
            parts.append(timer.time_elapsed() / whole if whole > 0 else 1.0)
    return max(parts)


def _parts(trainer: Trainer, task: LightningModule, bleu: float | None, left: float | None) -> list[str]:
    parts = [f" step {trainer.global_step:,}"]
    if "train/loss" in task.train_scores:
        parts += [f"loss {task.train_scores['train/loss']:.3f}", _speed(task).removeprefix(" · ")]
    parts += [f"BLEU {bleu:.2f}"] if bleu is not None else []
    return parts + ([f"{timedelta(seconds=int(left))} left"] if left is not None else [])


def _speed(task: LightningModule) -> str:
    speed = task.train_scores.get("train/tokens_per_second")
    return f" · {speed:,.0f} tokens/s" if speed is not None else ""
