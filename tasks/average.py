"""Averages the weights of a run's last or best checkpoints: python -m tasks.average RUN [n=5] [by=last] [out=FILE]

The result, RUN/checkpoints/average_<n>.ckpt (by=best: average_best_<n>.ckpt), is an ordinary checkpoint, without what is needed
to go on with training. by: last, the newest ones; or best, those with the highest val/bleu in the run's training curve (its
TensorBoard events), whatever score its best.ckpt is chosen by.
"""

from tasks import cli  # isort: skip  # first: `tasks` sets what torch reads when it is loaded

import io
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from data.errors import DuetError
from data.files import replacing
from tasks import runs
from tasks.build import read_checkpoint, revive

KEPT = ("state_dict", "duet", "epoch", "global_step", "callbacks", "pytorch-lightning_version")


def average(paths: Sequence[Path]) -> dict:
    """The newest (the first) of these checkpoints, with the mean of all their weights (Vaswani et al. 2017, section 6.1).

    They are read one at a time. Raises DuetError where they are of different models or vocabularies.
    """
    newest = read_checkpoint(paths[0])
    content = {name: newest[name] for name in KEPT if name in newest}
    weights = content.pop("state_dict")
    kinds = {name: value.dtype for name, value in weights.items()}
    sums = {name: value.double() for name, value in weights.items()}
    del newest, weights
    for path in paths[1:]:
        if not _add(path, sums, content["duet"]):
            raise DuetError(f"{paths[0]} and {path} cannot be averaged: they are of different models or vocabularies")
    return content | {"state_dict": {name: (value / len(paths)).to(kinds[name]) for name, value in sums.items()}}


def _add(path: Path, sums: dict[str, Tensor], duet: dict) -> bool:
    """Adds a checkpoint's weights; False, and nothing is added, where model or vocabulary is another one."""
    other = read_checkpoint(path)
    weights = other["state_dict"]
    same = weights.keys() == sums.keys() and all(weights[name].shape == value.shape for name, value in sums.items())
    if not same or any(other["duet"][side] != duet[side] for side in ("source", "target")):
        return False
    if structure(other["duet"]) != structure(duet):
        return False
    for name, value in sums.items():
        value += weights[name].double()
    return True


def structure(duet: dict) -> dict:
    """What weights mean: a model's options, but those of training alone."""
    return {name: value for name, value in duet["config"]["model"].items() if "dropout" not in name}


def chosen(run: Path, count: int, by: str) -> list[Path]:
    """That many of a run's `step_<n>.ckpt`, the newest or the best first. DuetError where there are not enough."""
    folder = run if run.name == "checkpoints" else run / "checkpoints"
    steps = {int(found[1]): path for path in folder.glob("step_*.ckpt") if (found := re.fullmatch(r"step_(\d+)", path.stem))}
    if len(steps) < count:
        raise DuetError(f"{folder} has {len(steps)} checkpoints step_<n>.ckpt, not {count}: lower n, or train with more "
                        f"validations (trainer.val_check_interval) and keep as many (callbacks.checkpoints.keep)")  # fmt: skip
    order = sorted(steps, reverse=True)
    if by == "best":
        curve = runs.curve(folder.parent)
        bleu = dict(zip(curve["steps"], curve["values"]))
        if missing := [step for step in order if step not in bleu]:
            raise DuetError(f"{folder.parent} has no val/bleu of step {missing[0]}: by=last needs none")
        order.sort(key=lambda step: -bleu[step])
    return [steps[step] for step in order[:count]]


def save(content: dict, path: Path) -> None:
    """All at once. Raises DuetError where it cannot be written, and leaves nothing behind."""
    if path.exists() and not path.is_file():
        raise DuetError(f"out={path} is no ordinary file")
    bytes_ = io.BytesIO()
    torch.save(content, bytes_)
    try:
        with replacing(path) as unfinished:
            unfinished.write_bytes(bytes_.getbuffer())
    except OSError as error:
        raise DuetError(f"{path} cannot be written: {error.strerror}") from None


def main() -> None:
    words = cli.readable(sys.argv[1:])
    if not cli.begin(__doc__, words or ["--help"]):
        return
    paths, options = cli.plain(words, {"n": "5", "by": "last", "out": ""})
    count, by = options["n"], options["by"]
    if not count.isdecimal() or int(count) < 1:
        raise DuetError(f"n must be a whole number, at least 1, not {count!r}")
    if by not in ("last", "best"):
        raise DuetError(f"by is {by!r}: choose last or best")
    if len(paths) != 1 or not Path(paths[0]).is_dir():
        raise DuetError(f"name one run's folder, not {' '.join(paths) or 'none'}")
    files = chosen(Path(paths[0]).resolve(), int(count), by)
    content = average(files)
    revive(content, files[0])  # a result that cannot be used is told now
    name = f"average_{count}.ckpt" if by == "last" else f"average_best_{count}.ckpt"
    out = Path(options["out"]) if options["out"] else files[0].with_name(name)
    save(content, out.resolve())
    print(f"{out}: the mean of {', '.join(path.name for path in files)}")


if __name__ == "__main__":
    sys.exit(cli.run(main, "evaluate"))
