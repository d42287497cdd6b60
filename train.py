"""Trains a model, then tests its best checkpoint: python train.py [overrides]. conf/train.yaml lists what can be set."""

from tasks import cli, values  # isort: skip  # first: `tasks` sets what torch reads when it is loaded

import contextlib
import errno
import functools
import os
import re
import sys
import threading
import traceback
from pathlib import Path

import hydra
import lightning
import torch
from hydra._internal.utils import get_args_parser
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from lightning.pytorch.callbacks import LambdaCallback, Timer
from lightning.pytorch.loggers import TensorBoardLogger
from omegaconf import DictConfig, OmegaConf

from data.errors import DuetError
from data.files import write_json
from data.module import PairData
from tasks.allocator import keep_memory
from tasks.build import build, count, make, read_checkpoint
from tasks.checkpoints import StopOnSignal
from tasks.hparams import HParams, settings
from tasks.quiet import quiet
from tasks.resume import check_resumed, read_resumed
from tasks.seq2seq import VALIDATED, Seq2SeqTask
from tasks.stopwatch import Stopwatch

SWEEP = {"-m", "--multirun"}
stopped = threading.Event()  # by Ctrl-C or SIGTERM: no further job of a sweep is begun
jobs: list[list[str]] = []  # the overrides of each job
skipped: list[list[str]] = []  # those of each job that was not begun, since Ctrl-C or SIGTERM had ended the one before
failures: list[tuple[list[str], Exception]] = []  # the overrides of each job that failed, and why


@hydra.main(config_path=str(cli.CONF), config_name="train", version_base="1.3")
def job(config: DictConfig) -> None:
    """One run. What goes wrong is kept for `main`: raised here, it would end a sweep's other jobs."""
    jobs.append(list(HydraConfig.get().overrides.task))
    try:
        if stopped.is_set():
            skipped.append(jobs[-1])
            skip(Path(HydraConfig.get().runtime.output_dir))
            return
        folder, latest, watch = claim(Path(HydraConfig.get().runtime.output_dir)), pointed(), Stopwatch()
        there = {*folder.rglob("*")} - {folder / "config.yaml"}
        try:
            OmegaConf.save(config, folder / "config.yaml", resolve=True)
            train(config, folder, watch)
        except BaseException:
            if not watch.moved and os.environ.get("LOCAL_RANK", "0") == "0":
                forget(folder, there, latest)
            raise
    except Exception as error:
        failures.append((jobs[-1], error))
        if HydraConfig.get().mode == RunMode.MULTIRUN:
            print(f"\nthis job failed: {cli.explain(error, 'train') or repr(error)}", flush=True)


def train(config: DictConfig, folder: Path, watch: Stopwatch) -> None:
    """Builds, trains, tests, and says where everything is. watch: knows whether a step has been made."""
    quiet()
    keep_memory()
    values.check(config, needed=values.NEEDED)
    check_scores(config.callbacks)
    check_limits(config.trainer)
    if config.threads:
        torch.set_num_threads(config.threads)
    resumed = read_resumed(config) if config.resume else None  # a wrong one is told before anything is read or built
    lightning.seed_everything(config.seed, workers=True, verbose=False)
    task, data = build(config)
    if resumed:
        check_resumed(resumed, task, config)
    del resumed  # Lightning reads it once more: this one is not kept while it trains
    checkpoints, stop = make(OmegaConf.to_container(config.callbacks.checkpoints)), StopOnSignal()
    known = HParams(settings(config, model=HydraConfig.get().runtime.choices.model, parameters=count(task.model)))
    latest = LambdaCallback(on_train_start=functools.partial(has_begun, folder=folder))
    trainer = make_trainer(config, folder, [checkpoints, stop, watch, known, latest])
    if trainer.world_size > 1 and HydraConfig.get().mode == RunMode.MULTIRUN:
        raise DuetError("a sweep (-m) is for one device a job: with several, start the jobs one after the other")
    if trainer.is_global_zero:
        if "cooldown" in config.scheduler and config.scheduler.cooldown > 0 >= config.scheduler.steps:
            known = f"which is {config.scheduler.steps}"
            print(f"scheduler.cooldown needs scheduler.steps (as a rule trainer.max_steps), {known}: lr does not fall to 0")
        print(f"{config.name}: {count(task.model):,} parameters, {trainer.accelerator.__class__.__name__}, writing to {folder}")
    trainer.fit(task, datamodule=data, ckpt_path=config.resume, weights_only=True)
    if stop.stopped:
        stopped.set()
    summary = {
        "steps": trainer.global_step,
        "epochs": trainer.current_epoch,
        **watch.read(),
        "parameters": count(task.model),
        "best_step": checkpoints.best_step,
        **checkpoints.scores,
        **task.train_scores,
    }
    if config.test and data.test_splits and not stop.stopped:
        summary |= test(trainer, task, data, checkpoints.folder(trainer) / "best.ckpt")
    if trainer.is_global_zero:
        write_json(folder / "metrics.json", summary)
        report(summary, folder, data, config.trainer.max_steps, "a signal" if stop.stopped else ended_by(trainer))


def make_trainer(config: DictConfig, folder: Path, callbacks: list[lightning.Callback]) -> lightning.Trainer:
    """Lightning's Trainer with these callbacks and the config's further ones; one that is null, or made None, is none."""
    parts = OmegaConf.to_container(config.callbacks)
    further = [make(part) for name, part in parts.items() if part and name != "checkpoints"]
    options = OmegaConf.to_container(config.trainer, resolve=True)
    if options["accelerator"] == "auto":  # Lightning would take Apple's GPU too, which has no float64
        options["accelerator"] = "gpu" if torch.cuda.is_available() else "cpu"
    return make(
        options,
        logger=TensorBoardLogger(folder, name="", version=""),
        callbacks=[*(callback for callback in further if callback is not None), *callbacks],
        default_root_dir=str(folder),
        use_distributed_sampler=False,  # TokenBuckets knows its rank
        check_val_every_n_epoch=None,  # val_check_interval counts across epochs
        num_sanity_val_steps=0,
        enable_model_summary=False,
        log_every_n_steps=1,
    )


def check_scores(options: DictConfig) -> None:
    """The best checkpoint and the end of training must depend on scores that a validation has."""
    for name in ("checkpoints", "early_stopping"):
        if options[name] is not None and "monitor" in options[name] and options[name].monitor not in VALIDATED:
            raise DuetError(f"callbacks.{name}.monitor is {options[name].monitor!r}: choose {', '.join(VALIDATED)}")


def check_limits(options: DictConfig) -> None:
    """What Lightning would take in silence, or refuse in its own words."""
    for name in ("max_steps", "max_epochs"):
        if options[name] is not None and options[name] < 1 and options[name] != -1:
            raise DuetError(f"trainer.{name} is {options[name]}: it must be at least 1, or -1 for no limit")
    if options.max_time is not None and not re.fullmatch(r"\d+:\d\d:\d\d:\d\d", str(options.max_time)):
        raise DuetError(f"trainer.max_time is {options.max_time!r}: write DD:HH:MM:SS, as in 00:00:20:00 for 20 minutes")
    if options.limit_train_batches == 0:
        raise DuetError("trainer.limit_train_batches is 0: nothing would be trained; choose a share, or a number of batches")
    if options.accelerator in ("gpu", "cuda") and not torch.cuda.is_available():
        raise DuetError(f"trainer.accelerator is {options.accelerator}, but torch sees no GPU here: choose cpu or auto")


def test(trainer: lightning.Trainer, task: Seq2SeqTask, data: PairData, best: Path) -> dict:
    """Scores the best checkpoint on the first test set."""
    task.load_state_dict(read_checkpoint(best)["state_dict"])
    trainer.test(task, datamodule=data, verbose=False)
    return {f"test/{name}": value for name, value in task.test_scores.items()}


SHOWN = (("BLEU", "bleu"), ("chrF", "chrf"), ("exact match", "exact_match"))


def ended_by(trainer: lightning.Trainer) -> str | None:
    """The option that ended training; None: it was at trainer.max_steps."""
    if trainer.global_step >= trainer.max_steps > 0:
        return None
    if any(callback.time_remaining() <= 0 for callback in trainer.callbacks if isinstance(callback, Timer)):
        return "trainer.max_time"
    if trainer.current_epoch >= (trainer.max_epochs or -1) > 0:
        return "trainer.max_epochs"
    return "callbacks.early_stopping"


def report(summary: dict, folder: Path, data: PairData, max_steps: int, ended: str | None) -> None:
    """What came out, and where to look. max_steps: what was planned; -1: no number. ended: what ended it before that."""
    best = folder / "checkpoints" / "best.ckpt"
    planned = f" of {max_steps:,}" if summary["steps"] < max_steps else ""
    done = f"trained {summary['steps']:,}{planned} steps in {summary['seconds']:.0f} s"
    done += f", ended by {ended}" if ended else ""
    print(f"\n{done}; best at step {summary['best_step']:,}", end="")
    print(f": val/bleu {summary['val/bleu']:.2f}" if "val/bleu" in summary else "")
    if "test/bleu" in summary:
        numbers = [f"{title} {summary[f'test/{name}']:.2f}" for title, name in SHOWN]
        print(f"test: {' · '.join(numbers)} %")
        print(f"      {summary['test/bleu_signature']}")
    print(f"checkpoint   {best}")
    if (folder / "heatmaps").is_dir():  # there is none without images, or without attention
        print(f"heatmaps     {folder / 'heatmaps'}")
    print(f"curves       tensorboard --logdir {folder.parent.parent}")
    for split in data.test_splits:
        print(f"evaluate     python evaluate.py ckpt={best} split={split}")


# The run's folder


def claim(wanted: Path) -> Path:
    """A folder of this run alone: the wanted one, or where a run has it already, the same with -2, -3, …

    Processes that a run starts for further devices share its folder.
    """
    if os.environ.get("LOCAL_RANK", "0") != "0" and "DUET_RUN" in os.environ:
        return Path(os.environ["DUET_RUN"])
    for number in range(1, 10_000):
        folder = wanted if number == 1 else wanted.with_name(f"{wanted.name}-{number}")
        folder.mkdir(parents=True, exist_ok=True)
        try:
            os.close(os.open(folder / "config.yaml", os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        except FileExistsError:
            continue
        os.environ["DUET_RUN"] = str(folder)
        return folder
    raise DuetError(f"no free folder beside {wanted}")


def forget(folder: Path, there: set[Path], latest: str | None) -> None:
    """Removes what a run wrote that ended before its first step was done. there: what it found in its folder; latest: where
    runs/latest pointed.
    """
    for path in sorted({*folder.rglob("*")} - there, reverse=True):  # what is in a folder comes before it
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
    skip(folder)
    if pointed() != latest and latest is not None:
        point_latest(Path("runs", latest))
    elif pointed() != latest:
        Path("runs/latest").unlink()


def skip(folder: Path) -> None:
    """Removes the folder of a run, if it is empty, and then those that it stands in, in runs/, as far as they are."""
    runs = Path("runs").absolute()
    with contextlib.suppress(OSError):  # a folder that is not empty; runs/ where it is a link to a folder elsewhere
        for path in (folder, *(above for above in folder.parents if runs in (above, *above.parents))):
            path.rmdir()


def pointed() -> str | None:
    """Where runs/latest points."""
    link = Path("runs/latest")
    return os.readlink(link) if link.is_symlink() else None


def has_begun(trainer: lightning.Trainer, task: Seq2SeqTask, *, folder: Path) -> None:
    """Now runs/latest is this run, and not before: the checkpoint to go on from may have been named by that link."""
    trainer.strategy.barrier("runs/latest")  # every device has read it
    if trainer.is_global_zero:
        point_latest(folder)


def point_latest(folder: Path) -> None:
    """The link runs/latest."""
    link = Path("runs/latest")
    link.parent.mkdir(exist_ok=True)
    new = link.with_name(f".latest.{os.getpid()}")
    try:
        new.symlink_to(os.path.relpath(folder, link.parent))
        os.replace(new, link)
    except OSError as error:  # a file system without links, or something else by that name
        new.unlink(missing_ok=True)
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.EISDIR):
            raise


def told(failed: list[tuple[list[str], Exception]]) -> str:
    """One line for the jobs of a sweep that failed: what each had that not all had, and why it failed. Faults of ours leave a
    traceback before it.
    """
    parts = []
    for overrides, error in failed:
        own = [word for word in overrides if any(word not in others for others in jobs)]
        reason = cli.explain(error, "train")
        if reason is None:
            traceback.print_exception(error)
        parts.append(f"{' '.join(own or overrides)}: {reason or repr(error)}")
    number = f"{len(failed)} of {len(jobs)} jobs failed"
    others = ", the others are done" if len(failed) < len(jobs) else ""
    return f"{number}{others}: {'; '.join(parts)}"


def check_flags(words: list[str]) -> None:
    """Raises DuetError for what looks like a flag and is none of Hydra's."""
    known = get_args_parser()._option_string_actions
    for word in words:
        if word.startswith("-") and word.partition("=")[0] not in known:
            raise DuetError(f"unknown flag {word!r}: options are written key=value, -m makes a sweep of them; --help lists all")


def main() -> None:
    sweep = sorted(SWEEP & set(sys.argv[1:]))
    words = cli.readable([word for word in sys.argv[1:] if word not in SWEEP])
    check_flags(words)
    cli.check_choices(words)
    sys.argv[1:] = sweep + words  # argparse wants it before or after all overrides, not among them
    jobs.clear()
    failures.clear()
    skipped.clear()
    stopped.clear()
    job()
    if skipped:
        print(f"\nstopped: {len(skipped)} of {len(jobs)} jobs were not begun")
    if failures and not sweep:
        raise failures[0][1]
    if failures:
        raise DuetError(told(failures))


if __name__ == "__main__":
    sys.exit(cli.run(main, "train"))
