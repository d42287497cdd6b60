"""Which checkpoints a run keeps, and how it ends."""

import os
import shutil
import signal
from pathlib import Path

from lightning import Callback, LightningModule, Trainer
from lightning.pytorch.callbacks import Checkpoint, EarlyStopping
from lightning.pytorch.callbacks.weight_averaging import EMAWeightAveraging
from lightning.pytorch.trainer.states import TrainerFn

from data.errors import DuetError
from data.files import replacing
from tasks.build import read_checkpoint

Handlers = dict[int, object]


def mode_of(score: str) -> str:
    """Whether more of a score is better (max) or less (min)."""
    return "min" if score.rpartition("/")[2] in ("loss", "ppl") else "max"


class Checkpoints(Checkpoint):
    """After each validation writes `step_<n>.ckpt` and points `last.ckpt` and, if it is the best so far, `best.ckpt` at it.

    monitor: the score that decides, mode: whether more of it is better (max) or less (min); None: as `mode_of` says.
    keep: how many of the newest `step_<n>.ckpt` stay.

    Makes every run end with a validation if it has trained since the last one, so that `last.ckpt` is the last step.
    """

    def __init__(self, *, monitor: str = "val/bleu", mode: str | None = None, keep: int = 5):
        mode = mode_of(monitor) if mode is None else mode
        if mode not in ("max", "min"):
            raise ValueError(f"callbacks.checkpoints.mode must be max or min, not {mode!r}")
        if keep < 1:
            raise ValueError(f"callbacks.checkpoints.keep must be at least 1, not {keep}")
        self.monitor, self.sign, self.keep = monitor, 1 if mode == "max" else -1, keep
        self.best: float | None = None
        self.best_step = self.saved_step = 0
        self.scores: dict[str, float] = {}  # all of the best validation
        self.steps: list[int] = []

    def folder(self, trainer: Trainer) -> Path:
        return Path(trainer.default_root_dir) / "checkpoints"

    def on_train_start(self, trainer: Trainer, task: LightningModule) -> None:
        """A resumed run has the best checkpoint from before, as of the step that it goes on from, in its own folder too.

        Where that file is not there any more, the best one is the best of this run.
        """
        if not trainer.ckpt_path or self.best is None:
            return
        folder, resumed = Path(trainer.ckpt_path).parent, Path(trainer.ckpt_path)
        candidates = (folder / "best.ckpt", folder / f"step_{self.best_step}.ckpt", resumed)
        before = next((path for path in candidates if step_of(path) == self.best_step), None)
        if before is None:
            if trainer.is_global_zero:
                print(f"the best checkpoint so far (step {self.best_step}) is not beside {resumed}: the best from here counts")
            self.best, self.best_step, self.scores = None, 0, {}
        elif trainer.is_global_zero:
            self.folder(trainer).mkdir(parents=True, exist_ok=True)
            with replacing(self.folder(trainer) / "best.ckpt") as new:
                shutil.copyfile(before, new)

    def on_train_batch_end(self, trainer: Trainer, task: LightningModule, outputs, batch, batch_index: int) -> None:
        """Lightning validates once more where it is told to stop, but not where it runs into a limit: so tell it."""
        last_step = trainer.max_steps is not None and 0 < trainer.max_steps <= trainer.global_step
        last_epoch = trainer.max_epochs is not None and 0 < trainer.max_epochs <= trainer.current_epoch + 1
        if last_step or (last_epoch and trainer.is_last_batch):
            trainer.should_stop = True

    def on_validation_end(self, trainer: Trainer, task: LightningModule) -> None:
        if trainer.state.fn != TrainerFn.FITTING or trainer.sanity_checking:
            return
        scores = {name: float(value) for name, value in trainer.callback_metrics.items()}
        score = scores.get(self.monitor)
        better = score is not None and (self.best is None or self.sign * score > self.sign * self.best)
        if better:
            self.best, self.best_step, self.scores = score, trainer.global_step, scores
        self._save(trainer, better)

    def on_train_end(self, trainer: Trainer, task: LightningModule) -> None:
        if self.saved_step != trainer.global_step:  # there was no validation
            self._save(trainer, self.best is None)

    def _save(self, trainer: Trainer, best: bool) -> None:
        folder, step = self.folder(trainer), trainer.global_step
        self.saved_step = step
        self.steps = [s for s in self.steps if s != step] + [step]
        old, self.steps = self.steps[: -self.keep], self.steps[-self.keep :]
        path = folder / f"step_{step}.ckpt"
        unfinished = folder / f".{path.name}.part"
        trainer.save_checkpoint(unfinished)  # on every device: it may have to collect the weights
        if trainer.is_global_zero:
            os.replace(unfinished, path)
            for name in ("last.ckpt", "best.ckpt") if best else ("last.ckpt",):
                with replacing(folder / name) as new:
                    _link(path, new)
            for step in old:
                (folder / f"step_{step}.ckpt").unlink(missing_ok=True)
        trainer.strategy.barrier("checkpoints")  # no device reads them before they are there

    def state_dict(self) -> dict:
        return {"best": self.best, "best_step": self.best_step, "scores": self.scores, "saved_step": self.saved_step}

    def load_state_dict(self, state: dict) -> None:
        self.best, self.best_step, self.scores = state["best"], state["best_step"], state["scores"]
        self.saved_step = state["saved_step"]


def step_of(path: Path) -> int | None:
    """The optimizer step that a checkpoint was written at; None where there is none, or a damaged one."""
    try:
        return read_checkpoint(path, mapped=True).get("global_step")
    except DuetError:
        return None


def _link(path: Path, new: Path) -> None:
    """A second name for a file, or a copy where the file system has no such thing."""
    try:
        os.link(path, new)
    except OSError:
        shutil.copyfile(path, new)


def early_stopping(
    *, monitor: str = "val/bleu", mode: str | None = None, patience: int = 20, min_delta: float = 0.0, verbose: bool = False
) -> EarlyStopping:
    """Lightning's callback, which ends a run whose score was not better in so many validations; mode as in `Checkpoints`."""
    mode = mode_of(monitor) if mode is None else mode
    return EarlyStopping(monitor, mode=mode, patience=patience, min_delta=min_delta, verbose=verbose)


class EMA(EMAWeightAveraging):
    """An exponential moving average of the weights: validations, tests and checkpoints have it in their place.

    decay: of the average at each optimizer step. Checkpoints hold the weights that are trained too, so that a run can be gone
    on with.
    """

    def __init__(self, *, decay: float):
        if not 0 < decay < 1:
            raise ValueError(f"callbacks.ema.decay must be above 0 and below 1, or null, not {decay}")
        super().__init__(decay=decay)

    def on_train_end(self, trainer: Trainer, task: LightningModule) -> None:
        """Lightning's would put the average in the place of the weights, before the last checkpoint has taken both."""


def ema(*, decay: float | None = None) -> EMA | None:
    """The callback of that decay; None: there is none, and the weights stay themselves."""
    return None if decay is None else EMA(decay=decay)


class StopOnSignal(Callback):
    """Ctrl-C or SIGTERM ends the run after the batch in hand, with a validation and checkpoints; a second one at once."""

    def __init__(self):
        self.before: Handlers = {}
        self.stopped = False

    def on_train_start(self, trainer: Trainer, task: LightningModule) -> None:
        def stop(number: int, frame) -> None:
            if self.stopped:  # should_stop may be true for other reasons: the run is at its end
                raise KeyboardInterrupt
            print("\nstopping: one more validation, then the checkpoint (again to stop at once)", flush=True)
            self.stopped = trainer.should_stop = True

        try:
            self.before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
        except ValueError:  # not in the main thread: signals are not ours
            self.before = {}

    def on_train_end(self, trainer: Trainer, task: LightningModule) -> None:
        self._restore()

    def on_exception(self, trainer: Trainer, task: LightningModule, exception: BaseException) -> None:
        self._restore()

    def _restore(self) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)
        self.before = {}
