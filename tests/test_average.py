"""The mean of several checkpoints."""

import json
import os
import shutil
import weakref

import pytest
import torch

from tasks import average, load
from tasks.build import read_checkpoint
from tests.test_errors import assert_mistake


@pytest.fixture
def run(shell, small_run):
    """A run with checkpoints of steps 20, 40 and 60."""
    shutil.copytree(small_run.folder, shell.folder / "run")
    return shell.folder / "run"


def averaged(shell, *words):
    return shell.run(average, "average", words)


def weights(path):
    return torch.load(path, weights_only=True)["state_dict"]


@pytest.mark.parametrize("words, name, steps", [
    (["n=2"], "average_2.ckpt", (60, 40)),
    (["n=3"], "average_3.ckpt", (60, 40, 20)),
    (["n=1"], "average_1.ckpt", (60,)),
    (["n=2", "by=best"], "average_best_2.ckpt", None),
])  # fmt: skip
def test_weights_are_the_mean(shell, run, words, name, steps):
    done = averaged(shell, "run", *words)
    assert done.code == 0, done.err
    if steps is None:
        from tasks.runs import curve

        found = curve(run)
        steps = [step for _, step in sorted(zip(found["values"], found["steps"]), key=lambda pair: (-pair[0], -pair[1]))][:2]
        assert all(f"step_{step}.ckpt" in done.out for step in steps)
    parts = [weights(run / f"checkpoints/step_{step}.ckpt") for step in steps]
    for key, value in weights(run / "checkpoints" / name).items():
        torch.testing.assert_close(value, sum(part[key] for part in parts) / len(parts))


def test_the_result_is_an_ordinary_checkpoint(shell, run, small_run):
    assert averaged(shell, "run", "n=2", "out=mean.ckpt").code == 0
    assert load(shell.folder / "mean.ckpt").translate(["one two", ""])[1] == ""
    done = shell.evaluate("ckpt=mean.ckpt", "decode=greedy", "out=out")
    assert done.code == 0 and json.loads((shell.folder / "out/metrics.json").read_text())["sentences"] == 12, done.err
    done = shell.train("resume=mean.ckpt", "trainer.max_steps=70", data=small_run.corpus)
    assert done.code == 2 and "training cannot go on from it" in done.err


def test_one_checkpoint_is_in_memory_at_a_time(run, monkeypatch):
    alive = []

    def read(path):
        assert not [weight for weight in alive if weight() is not None]
        content = read_checkpoint(path)
        alive[:] = [weakref.ref(value) for value in content["state_dict"].values()]
        return content

    monkeypatch.setattr(average, "read_checkpoint", read)
    paths = [run / f"checkpoints/step_{step}.ckpt" for step in (60, 40, 20)]
    mean = average.average(paths)["state_dict"]
    assert alive and {name: value.dtype for name, value in mean.items()} == {n: v.dtype for n, v in weights(paths[0]).items()}


def test_what_cannot_be_written_leaves_nothing_behind(shell, run, monkeypatch):
    (shell.folder / "file").write_text("kept")
    (shell.folder / "mean.ckpt").write_text("kept")
    before = sorted(shell.folder.rglob("*"))
    assert_mistake(averaged(shell, "run", "n=2", "out=nowhere/mean.ckpt"), "nowhere/mean.ckpt cannot be written: No such file")
    assert_mistake(averaged(shell, "run", "n=2", "out=file/mean.ckpt"), "file/mean.ckpt cannot be written: Not a directory")
    assert_mistake(averaged(shell, "run", "n=2", "out=run"), "out=", "is no ordinary file")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    assert_mistake(averaged(shell, "run", "n=2", "out=mean.ckpt"), "mean.ckpt cannot be written: No space left on device")
    assert sorted(shell.folder.rglob("*")) == before and (shell.folder / "mean.ckpt").read_text() == "kept"


def test_another_dropout_is_no_other_model(shell, run):
    content = torch.load(run / "checkpoints/step_40.ckpt", weights_only=True)
    content["duet"]["config"]["model"] |= {"dropout": 0.4}
    torch.save(content, run / "checkpoints/step_40.ckpt")
    assert averaged(shell, "run", "n=2").code == 0


def strange(run):
    content = torch.load(run / "checkpoints/step_40.ckpt", weights_only=True)
    content["state_dict"] = {name: value[..., :1] for name, value in content["state_dict"].items()}
    torch.save(content, run / "checkpoints/step_40.ckpt")


def other(run):
    """As many weights of the same shapes, which mean another thing."""
    content = torch.load(run / "checkpoints/step_40.ckpt", weights_only=True)
    content["duet"]["config"]["model"] |= {"activation": "gelu"}
    torch.save(content, run / "checkpoints/step_40.ckpt")


def damage(run):
    (run / "checkpoints/step_40.ckpt").write_text("x")


MISTAKES = {
    "no run": (None, ["nowhere"], ["name one run's folder, not nowhere"]),
    "two runs": (None, ["run", "run"], ["name one run's folder"]),
    "too many": (None, ["run", "n=9"], ["has 3 checkpoints step_<n>.ckpt, not 9", "callbacks.checkpoints.keep"]),
    "no number": (None, ["run", "n=abc"], ["n must be a whole number, at least 1, not 'abc'"]),
    "none": (None, ["run", "n=0"], ["at least 1"]),
    "by what": (None, ["run", "by=worst"], ["by is 'worst'", "last or best"]),
    "unknown option": (None, ["run", "m=3"], ["unknown option 'm'", "n, by, out"]),
    "different models": (strange, ["run", "n=2"], ["cannot be averaged", "different models"]),
    "a model of the same shapes": (other, ["run", "n=2"], ["cannot be averaged", "different models"]),
    "a damaged checkpoint": (damage, ["run", "n=2"], ["step_40.ckpt", "not a checkpoint"]),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_is_told_in_one_line(shell, run, case):
    change, words, parts = MISTAKES[case]
    if change:
        change(run)
    done = averaged(shell, *words)
    assert done.code == 2 and done.err.count("\n") == 1 and done.err.startswith("error: "), done
    for part in parts:
        assert part in done.err, done.err
    assert not list(run.glob("checkpoints/average_*"))
