"""What lies in the folders of runs: which runs there are, what to call them, how they were trained."""

import json
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

from data.errors import DuetError

DATED = re.compile(r"\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d")
BEST = "best.ckpt"


class Entry(NamedTuple):
    """One checkpoint of a comparison."""

    name: str
    ckpt: Path
    run: Path | None  # the folder of its run; None for a lone checkpoint


# Finding


def run_of(ckpt: str | Path) -> Path | None:
    """The folder of the run that a checkpoint belongs to; None for a lone one."""
    ckpt = Path(ckpt).resolve()
    of_a_run = ckpt.parent.name == "checkpoints" and (ckpt.parent.parent / "config.yaml").is_file()
    return ckpt.parent.parent if of_a_run else None


def find(paths: Sequence[str], *, every: bool = False) -> tuple[list[Entry], list[str]]:
    """Checkpoints, folders of runs and folders that hold runs -> entries with unique names, and remarks on what was left out.

    A run counts by its best checkpoint. In a folder of runs only finished ones count (they have a metrics.json), and of
    those that stand side by side, as the runs of one model do, the newest, or all with `every`.
    DuetError where there is nothing.
    """
    ckpts: dict[Path, None] = {}
    remarks: list[str] = []
    for path in map(Path, paths):
        found, left_out = _below(path, every)
        ckpts |= dict.fromkeys(ckpt.resolve() for ckpt in found)
        remarks += left_out
    return [Entry(name, ckpt, run_of(ckpt)) for name, ckpt in zip(names(list(ckpts)), ckpts)], remarks


def _below(path: Path, every: bool) -> tuple[list[Path], list[str]]:
    if path.is_file():
        return [path], []
    if not path.is_dir():
        raise DuetError(f"{path} is missing: name a checkpoint, the folder of a run, or a folder of runs")
    if (path / "checkpoints" / BEST).is_file():
        return [path / "checkpoints" / BEST], []
    runs = sorted(best.parent.parent for best in path.rglob(f"checkpoints/{BEST}"))
    finished = [run for run in runs if (run / "metrics.json").is_file()]
    remarks = [f"left out {run}: it has not finished" for run in runs if run not in finished]
    if not finished:
        raise DuetError(f"{path} holds no finished run: one has checkpoints/{BEST} and metrics.json" + _unfinished(runs))
    kept = finished if every else _newest(finished)
    older = len(finished) - len(kept)
    if older:
        remarks.append(f"left out {older} older {'run' if older == 1 else 'runs'} below {path}: all=true takes every one")
    return [run / "checkpoints" / BEST for run in kept], remarks


def _unfinished(runs: list[Path]) -> str:
    return f"; name {runs[0]} itself to take it unfinished" if runs else ""


def _newest(runs: list[Path]) -> list[Path]:
    """Of the runs in one folder the newest."""
    newest: dict[Path, Path] = {}
    for run in sorted(runs, key=_age):
        newest[run.parent] = run
    return sorted(newest.values())


def _age(run: Path) -> tuple[str, str]:
    """Sorts runs by when they began, which their names say (-2, -3, …: in the same second), or else by when they ended."""
    if DATED.match(run.name):
        number = run.name[len("2000-01-01_00-00-00") :].lstrip("-")
        return run.name[: len("2000-01-01_00-00-00")], number.rjust(9)
    ended = (run / "metrics.json").stat().st_mtime
    return time.strftime("%Y-%m-%d_%H-%M-%S", time.localtime(ended)), ""


# Names


def names(ckpts: Sequence[Path]) -> list[str]:
    """A name for each checkpoint: the model's folder, and as much of the path besides as it takes to tell them apart."""
    forms = [_forms(ckpt) for ckpt in ckpts]
    level = [0] * len(ckpts)
    while True:
        chosen = [form[min(place, len(form) - 1)] for form, place in zip(forms, level)]
        twice = [i for i, name in enumerate(chosen) if chosen.count(name) > 1 and level[i] < len(forms[i]) - 1]
        if not twice:
            return chosen
        for i in twice:
            level[i] += 1


def _forms(ckpt: Path) -> list[str]:
    """Names of one checkpoint, the shortest first; the last is its path."""
    run = run_of(ckpt)
    if run is None:
        forms = ["/".join((*ckpt.parts[-n:-1], ckpt.stem)) for n in range(1, len(ckpt.parts))]
        return [*forms, str(ckpt)]
    which = "" if ckpt.name == BEST else f" {ckpt.stem}"
    short = 2 if DATED.match(run.name) else 1
    first = [run.parent.name] if short == 2 else []
    return [f"{name}{which}" for name in first + ["/".join(run.parts[-n:]) for n in range(short, len(run.parts))]] + [str(ckpt)]


def named(wanted: str, entries: Sequence[Entry]) -> int:
    """The place of the entry of that name or path. DuetError names those that there are."""
    path = Path(wanted).resolve()
    for place, entry in enumerate(entries):
        if wanted == entry.name or path in (entry.ckpt, entry.run):
            return place
    raise DuetError(f"baseline is {wanted!r}: choose one of {', '.join(entry.name for entry in entries)}")


# How it was trained


def training(checkpoint: dict, entry: Entry) -> dict[str, float | int | None]:
    """steps, best_step, minutes (validations included) and target tokens a second (without them); None: not known.

    For a run's best or last checkpoint they are those of the whole run; for any other, what led to it.
    """
    callbacks = checkpoint.get("callbacks")
    states = callbacks.items() if isinstance(callbacks, dict) else ()
    watch = next((state for key, state in states if str(key).startswith("Stopwatch") and isinstance(state, dict)), {})
    whole = summary(entry.run) if entry.run and entry.ckpt.name in (BEST, "last.ckpt") else {}
    found = {name: value for name, value in (watch | whole).items() if type(value) in (int, float)}
    speed = found["train_tokens"] / found["train_seconds"] if found.get("train_seconds") else None
    if speed is None and entry.run:
        points = scalars(entry.run, "train/tokens_per_second")
        speed = median(value for _, _, value in points) if points else None
    return {
        "steps": found.get("steps", checkpoint.get("global_step")),
        "best_step": whole.get("best_step") if entry.ckpt.name == BEST else None,
        "minutes": found["seconds"] / 60 if "seconds" in found else None,
        "train_tokens_per_second": speed,
    }


def summary(run: Path) -> dict:
    """The numbers in a run's metrics.json; {} where there is none, or it cannot be read."""
    try:
        found = json.loads((run / "metrics.json").read_text(encoding="utf-8"))
        return {name: value for name, value in found.items() if type(value) in (int, float)} if isinstance(found, dict) else {}
    except (OSError, ValueError):
        return {}


def scalars(run: Path, tag: str, read: Callable | None = None) -> list[tuple[int, float, float]]:
    """(step, seconds since the run began by the clock on the wall, value) of a curve in a run's TensorBoard events."""
    board = (read or events)(run)
    if tag not in board.Tags()["scalars"]:
        return []
    began = board.FirstEventTimestamp()
    return [(point.step, point.wall_time - began, point.value) for point in board.Scalars(tag)]


def events(run: Path):
    """The TensorBoard events of a run; scalars only."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator  # takes a second

    board = EventAccumulator(str(run), size_guidance={"scalars": 0, "images": 1, "tensors": 1})
    board.Reload()
    return board


def curve(run: Path | None, tag: str = "val/bleu") -> dict[str, list[float]]:
    """steps, minutes and values of a curve; empty lists where there is none.

    Minutes are those that training has taken, in all runs that this one went on from; older runs have only the clock.
    """
    board = events(run) if run else None
    points = scalars(run, tag, lambda _: board) if run else []
    trained = {step: minutes for step, _, minutes in scalars(run, "train/minutes", lambda _: board)} if run else {}
    return {
        "steps": [step for step, _, _ in points],
        "minutes": [trained.get(step, seconds / 60) for step, seconds, _ in points],
        "values": [value for _, _, value in points],
    }
