"""How long and on how much a run has trained: also over an interruption."""

import json

import pytest
import torch

from tasks.runs import scalars


def summary(run):
    return json.loads((run / "metrics.json").read_text())


def test_a_resumed_run_goes_on_counting(shell, corpus):
    options = ["trainer.max_steps=20", "callbacks.checkpoints.keep=99", "test=false"]
    shell.train(*options, data=corpus)
    whole = shell.latest
    half = whole / "checkpoints" / "step_10.ckpt"
    state = torch.load(half, weights_only=True)["callbacks"]["Stopwatch"]
    assert shell.train(*options, f"resume={half}", data=corpus).code == 0
    found, other = summary(shell.latest), summary(whole)
    assert found["train_tokens"] == other["train_tokens"] > state["train_tokens"] > 0
    assert found["seconds"] > state["seconds"] and found["train_seconds"] > state["train_seconds"]
    for run in (found, other):
        assert 0 < run["train_seconds"] < run["seconds"]
    minutes = [(step, value) for step, _, value in scalars(shell.latest, "train/minutes")]
    assert [step for step, _ in minutes] == [20] and minutes[0][1] * 60 > state["seconds"]


def test_every_target_token_is_counted_once(shell, corpus):
    """An epoch has each pair once: its characters and EOS."""
    options = ["trainer.max_epochs=1", "trainer.val_check_interval=1000", "test=false", "data.valid_file=null"]
    assert shell.train(*options, data=corpus).code == 0
    lines = (corpus / "train.de").read_text(encoding="utf-8").splitlines()
    assert summary(shell.latest)["train_tokens"] == sum(len(line) + 1 for line in lines)


def test_the_clock_stops_during_validations(monkeypatch):
    from types import SimpleNamespace

    from lightning.pytorch.trainer.states import TrainerFn

    from tasks import stopwatch

    now, logged = [100.0], []
    monkeypatch.setattr(stopwatch.time, "perf_counter", lambda: now[0])
    logger = SimpleNamespace(log_metrics=lambda values, step: logged.append((values, step)))
    trainer = SimpleNamespace(world_size=1, state=SimpleNamespace(fn=TrainerFn.FITTING), loggers=[logger], global_step=7)
    watch = stopwatch.Stopwatch()
    assert watch.read()["seconds"] == 0.0
    watch.on_train_start(trainer, SimpleNamespace(tokens=0))
    for step, seconds in enumerate((30, 12, 18)):  # training, a validation, training
        if step == 1:
            watch.on_validation_start(trainer, None)
        now[0] += seconds
        assert watch.read()["train_seconds"] == pytest.approx([30, 30, 48][step])
        if step == 1:
            watch.on_validation_end(trainer, None)
    assert watch.read()["seconds"] == pytest.approx(60) and logged == [({"train/minutes": 42 / 60}, 7)]
