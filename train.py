"""Trains a model, then tests its best checkpoint: python train.py [overrides]. conf/train.yaml lists what can be set."""

from tasks import cli, values  # isort: skip  # first: `tasks` sets what torch reads when it is loaded

import contextlib
import errno
import os
import re
import sys
import traceback
from pathlib import Path

import hydra
import lightning
import torch
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from lightning.pytorch.loggers import TensorBoardLogger
from omegaconf import DictConfig, OmegaConf

from data.errors import DuetError
from data.module import PairData
from tasks.allocator import keep_memory
from tasks.build import build, make, read_checkpoint, tokenizers_of
from tasks.checkpoints import StopOnSignal
from tasks.hparams import HParams, settings
from tasks.quiet import quiet
from tasks.seq2seq import VALIDATED, Seq2SeqTask
from tasks.stopwatch import Stopwatch

SWEEP = {"-m", "--multirun"}
jobs: list[list[str]] = []  # the overrides of each job
interrupted: list[list[str]] = []  # the job during which Ctrl-C or SIGTERM came: those after it are not begun
failures: list[tuple[list[str], Exception]] = []  # the overrides of each job that failed, and why


@hydra.main(config_path=str(cli.CONF), config_name="train", version_base="1.3")
def job(config: DictConfig) -> None:
    """One run. What goes wrong is kept for `main`: raised here, it would end a sweep's other jobs."""
    jobs.append(list(HydraConfig.get().overrides.task))
    if interrupted:
        forget(Path(HydraConfig.get().runtime.output_dir))
        return
    try:
        folder = claim(Path(HydraConfig.get().runtime.output_dir))
        try:
            OmegaConf.save(config, folder / "config.yaml", resolve=True)
            train(config, folder)
        finally:
            forget(folder)
    except Exception as error:
        failures.append((jobs[-1], error))
        if HydraConfig.get().mode == RunMode.MULTIRUN:
            print(f"\nthis job failed: {cli.explain(error, 'train') or repr(error)}", flush=True)


def train(config: DictConfig, folder: Path) -> None:
    """Builds, trains, tests, and says where everything is."""
    quiet()
    keep_memory()
    values.check(config, values.TRAIN, needed=values.NEEDED)
    check_scores(config.callbacks)
    if config.threads:
        torch.set_num_threads(config.threads)
    resumed = read_checkpoint(config.resume) if config.resume else None  # a wrong one is told before anything is read or built
    lightning.seed_everything(config.seed, workers=True, verbose=False)
    task, data = build(config)
    if resumed:
        check_resumed(resumed, task, config)
    checkpoints, stop, watch = make(OmegaConf.to_container(config.callbacks.checkpoints)), StopOnSignal(), Stopwatch()
    known = HParams(settings(config, model=HydraConfig.get().runtime.choices.model, parameters=count(task.model)))
    trainer = make_trainer(config, folder, [checkpoints, stop, watch, known])
    if trainer.is_global_zero:
        before = point_latest(folder)
        print(f"{config.name}: {count(task.model):,} parameters, {trainer.accelerator.__class__.__name__}, writing to {folder}")
    try:
        trainer.fit(task, datamodule=data, ckpt_path=config.resume, weights_only=True)
    except BaseException:
        if trainer.is_global_zero and not watch.moved:
            undo(folder, before)
        raise
    if stop.stopped:
        interrupted.append(jobs[-1])
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
        cli.write_json(folder / "metrics.json", summary)
        report(summary, folder, data)


def make_trainer(config: DictConfig, folder: Path, callbacks: list[lightning.Callback]) -> lightning.Trainer:
    """Lightning's Trainer with these callbacks and the config's further ones (null: without it)."""
    check_limits(config.trainer)
    parts = OmegaConf.to_container(config.callbacks)
    averages = parts.get("ema") and parts["ema"]["decay"] is not None
    unwanted = {"checkpoints"} | (set() if averages else {"ema"})
    further = [part for name, part in parts.items() if part and name not in unwanted]
    return make(
        OmegaConf.to_container(config.trainer, resolve=True),
        logger=TensorBoardLogger(folder, name="", version=""),
        callbacks=[*map(make, further), *callbacks],
        default_root_dir=str(folder),
        use_distributed_sampler=False,  # TokenBuckets knows its rank
        check_val_every_n_epoch=None,  # val_check_interval counts across epochs
        num_sanity_val_steps=0,
        enable_model_summary=False,
        log_every_n_steps=1,
    )


NEEDED = {  # what a checkpoint must have, besides weights, that training goes on from
    "optimizer_states": list,
    "lr_schedulers": list,
    "loops": dict,
    "callbacks": dict,
    "progress": dict,
    "global_step": int,
    "pytorch-lightning_version": str,
}


def check_resumed(checkpoint: dict, task: lightning.LightningModule, config: DictConfig) -> None:
    """Raises DuetError where a checkpoint cannot be gone on from with this model and these limits."""
    for part, kind in NEEDED.items():
        value = checkpoint.get(part)
        inner = value if kind is list and isinstance(value, list) else []
        if not isinstance(value, kind) or value in ([], {}) or not all(isinstance(one, dict) for one in inner):
            raise DuetError(f"{config.resume} has no {part}, so training cannot go on from it: take a run's last.ckpt")
    for side, tokenizer in zip(tokenizers_of(checkpoint, config.resume), (task.src_tokenizer, task.tgt_tokenizer)):
        if side.pieces(range(len(side))) != tokenizer.pieces(range(len(tokenizer))):
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
    if 0 < config.trainer.max_steps <= checkpoint["global_step"]:
        raise DuetError(
            f"{config.resume} is at step {checkpoint['global_step']}, and trainer.max_steps is {config.trainer.max_steps}: "
            f"nothing is left to train"
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
    if options.accelerator in ("gpu", "cuda") and not torch.cuda.is_available():
        raise DuetError(f"trainer.accelerator is {options.accelerator}, but torch sees no GPU here: choose cpu or auto")


def test(trainer: lightning.Trainer, task: Seq2SeqTask, data: PairData, best: Path) -> dict:
    """Scores the best checkpoint on the first test set."""
    task.load_state_dict(read_checkpoint(best)["state_dict"])
    trainer.test(task, datamodule=data, verbose=False)
    return {f"test/{name}": value for name, value in task.test_scores.items()}


def count(model: torch.nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


SHOWN = (("BLEU", "bleu"), ("chrF", "chrf"), ("exact match", "exact_match"))


def report(summary: dict, folder: Path, data: PairData) -> None:
    """What came out, and where to look."""
    best = folder / "checkpoints" / "best.ckpt"
    print(f"\ntrained {summary['steps']:,} steps in {summary['seconds']:.0f} s; best at step {summary['best_step']:,}", end="")
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


def forget(folder: Path) -> None:
    """Removes the folder of a run that ended before it had made anything."""
    if {path.name for path in folder.iterdir()} <= {"config.yaml"}:
        (folder / "config.yaml").unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            folder.rmdir()


def undo(folder: Path, before: str | None) -> None:
    """Removes what a run wrote that ended before its first step was done; runs/latest goes back to where it pointed."""
    for path in (*folder.glob("events.out.tfevents.*"), folder / "hparams.yaml"):
        path.unlink(missing_ok=True)
    if before is not None:
        point_latest(Path("runs", before))
    elif Path("runs/latest").is_symlink():
        Path("runs/latest").unlink()


def point_latest(folder: Path) -> str | None:
    """The link runs/latest. Returns where it pointed before."""
    link = Path("runs/latest")
    link.parent.mkdir(exist_ok=True)
    before = os.readlink(link) if link.is_symlink() else None
    new = link.with_name(f".latest.{os.getpid()}")
    try:
        new.symlink_to(os.path.relpath(folder, link.parent))
        os.replace(new, link)
    except OSError as error:  # a file system without links, or something else by that name
        new.unlink(missing_ok=True)
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.EISDIR):
            raise
    return before


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


FLAGS = {"--cfg", "-c", "--resolve", "--package", "-p", "--run", "-r", "--info", "-i", "--config-path", "-cp", "--config-name",
         "-cn", "--config-dir", "-cd", "--version", "--shell-completion", "-sc"}  # fmt: skip  # Hydra's


def check_flags(words: list[str]) -> None:
    for word in words:
        if word.startswith("-") and word.partition("=")[0] not in FLAGS and not cli.wants_help([word]):
            raise DuetError(f"unknown flag {word!r}: options are written key=value, -m makes a sweep of them; --help lists all")


def main() -> None:
    sweep = sorted(SWEEP & set(sys.argv[1:]))
    words = [word for word in sys.argv[1:] if word not in SWEEP]
    sys.argv[1:] = sweep + cli.readable(words)  # argparse wants it before or after all overrides, not among them
    cli.check_experiment(words)
    cli.check_groups(cli.readable(words))
    jobs.clear()
    failures.clear()
    interrupted.clear()
    check_flags(words)
    job()
    if interrupted and sweep:
        print(f"\nstopped: {len(jobs) - 1 - jobs.index(interrupted[0])} of {len(jobs)} jobs were not begun")
    if failures and not sweep:
        raise failures[0][1]
    if failures:
        raise DuetError(told(failures))


if __name__ == "__main__":
    sys.exit(cli.run(main, "train"))
