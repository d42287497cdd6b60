"""Training end to end: what a run leaves behind, that it can be repeated, cut differently, stopped and resumed."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest
import torch
from omegaconf import OmegaConf
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import train
from data.batching import collate
from tasks import cli, load, values
from tasks.build import make
from tasks.checkpoints import Checkpoints, StopOnSignal
from tasks.samples import Look
from tests.runs import ROOT, TINY, TINY_RNN, command


def curve(folder, tag):
    board = EventAccumulator(str(folder))
    board.Reload()
    return [(point.step, point.value) for point in board.Scalars(tag)]


def weights(path):
    return torch.load(path, weights_only=True)["state_dict"]


def assert_equal_weights(first, second):
    assert first.keys() == second.keys()
    for name in first:
        torch.testing.assert_close(first[name], second[name], rtol=0, atol=0, msg=name)


def test_what_a_run_leaves_behind(shell, corpus):
    done = shell.train("trainer.max_steps=25", "callbacks.samples.images=true", "callbacks.samples.count=1", data=corpus)
    assert done.code == 0, done.err
    run = shell.latest
    assert run.parent.parent == shell.folder / "runs" / "text" and run.parent.name == "transformer_tiny"
    assert {p.name for p in (run / "checkpoints").iterdir()} == {
        "best.ckpt", "last.ckpt", "step_10.ckpt", "step_20.ckpt", "step_25.ckpt"
    }  # fmt: skip
    assert {p.name for p in (run / "heatmaps").iterdir()} == {"cross_1.png", "encoder_1.png", "decoder_1.png"}
    board = EventAccumulator(str(run), size_guidance={"images": 0})
    board.Reload()
    tags = board.Tags()
    assert {"train/loss", "train/tokens_per_second", "lr"} <= set(tags["scalars"])
    assert {"val/loss", "val/ppl", "val/bleu", "val/chrf"} <= set(tags["scalars"])
    assert {"test/loss", "test/bleu", "test/chrf", "test/ter"} <= set(tags["scalars"])
    assert {"attention/cross_1", "attention/encoder_1", "attention/decoder_1"} == set(tags["images"])
    assert any(tag.startswith("samples/1") for tag in tags["tensors"])
    assert [step for step, _ in curve(run, "val/bleu")] == [10, 20, 25]
    metrics = json.loads((run / "metrics.json").read_text())
    assert metrics["steps"] == 25 and metrics["test/sentences"] == 12 and "test/bleu_signature" in metrics
    assert "channels: 16" in (run / "config.yaml").read_text()
    assert_equal_weights(weights(run / "checkpoints/last.ckpt"), weights(run / "checkpoints/step_25.ckpt"))


def test_the_best_checkpoint_is_that_of_the_best_score(shell, corpus):
    shell.train("trainer.max_steps=60", "trainer.val_check_interval=7", "callbacks.checkpoints.keep=99", data=corpus)
    scores = dict(curve(shell.latest, "val/bleu"))
    best = next(step for step, score in scores.items() if score == max(scores.values()))
    folder = shell.latest / "checkpoints"
    assert_equal_weights(weights(folder / "best.ckpt"), weights(folder / f"step_{best}.ckpt"))


def test_only_the_last_checkpoints_stay(shell, corpus):
    shell.train("trainer.max_steps=60", "callbacks.checkpoints.keep=2", data=corpus)
    assert {p.name for p in (shell.latest / "checkpoints").iterdir()} == {
        "best.ckpt", "last.ckpt", "step_50.ckpt", "step_60.ckpt"
    }  # fmt: skip


def test_the_same_command_twice_gives_the_same_curve_and_output(shell, corpus):
    runs = []
    for _ in range(2):
        assert shell.train("trainer.max_steps=20", data=corpus).code == 0
        runs.append(shell.latest)
    assert runs[0] != runs[1]
    for tag in ("train/loss", "val/loss", "val/bleu"):
        assert curve(runs[0], tag) == curve(runs[1], tag)
    assert_equal_weights(*(weights(run / "checkpoints/last.ckpt") for run in runs))


def test_another_seed_gives_another_curve(shell, corpus):
    losses = []
    for seed in (1, 2):
        shell.train("trainer.max_steps=10", f"seed={seed}", data=corpus)
        losses.append(curve(shell.latest, "train/loss"))
    assert losses[0] != losses[1]


RESUMES = {
    "in the middle of an epoch": ["trainer.val_check_interval=7"],
    "in the middle of an accumulation window": ["trainer.accumulate_grad_batches=3", "trainer.val_check_interval=10"],
    "with a moving average": ["callbacks.ema.decay=0.9", "trainer.val_check_interval=7"],
    "with relative positions and post-norm": ["model.positions=relative", "model.norm=post", "trainer.val_check_interval=9"],
}


def test_a_moving_average_of_the_weights_is_what_is_kept(shell, corpus):
    words = ["trainer.max_steps=12", "trainer.val_check_interval=1", "callbacks.checkpoints.keep=99", "task.log_every=1"]
    assert shell.train(*words, data=corpus).code == 0
    plain = shell.latest
    assert shell.train(*words, "callbacks.ema.decay=0.8", data=corpus).code == 0
    kept = shell.latest
    assert curve(plain, "train/loss") == curve(kept, "train/loss"), "training itself is the same"
    average = None
    for step in range(1, 13):
        now = weights(plain / f"checkpoints/step_{step}.ckpt")
        average = now if average is None else {name: 0.8 * average[name] + 0.2 * now[name] for name in now}
        for name, value in weights(kept / f"checkpoints/step_{step}.ckpt").items():
            torch.testing.assert_close(value, average[name], msg=f"{name} at {step}")
    assert [point for point in curve(plain, "val/loss")][0] == curve(kept, "val/loss")[0]
    assert curve(plain, "val/loss")[3:] != curve(kept, "val/loss")[3:]


@pytest.mark.parametrize("words, names", [
    ([], {"EarlyStopping", "Samples", "Progress", "Checkpoints"}),
    (["callbacks.ema.decay=0.9", "callbacks.samples=null"], {"EarlyStopping", "Progress", "EMA", "Checkpoints"}),
    (["callbacks.ema=null", "callbacks.early_stopping=null"], {"Samples", "Progress", "Checkpoints"}),
])  # fmt: skip
def test_callbacks_that_are_not_wanted_are_not_made(tmp_path, words, names):
    config = cli.compose("train", ["data=text", *words])
    trainer = train.make_trainer(config, tmp_path, [Checkpoints()])
    assert {type(callback).__name__ for callback in trainer.callbacks} == names


SCHEDULED = ["task/teacher_forcing=linear", "task.teacher_forcing.steps=30"]


@pytest.mark.parametrize("case", RESUMES)
def test_a_resumed_run_goes_on_as_if_it_had_never_stopped(shell, corpus, case):
    check_resuming(shell, corpus, RESUMES[case], TINY)


def test_a_resumed_run_with_scheduled_sampling_goes_on_as_if_it_had_never_stopped(shell, corpus):
    check_resuming(shell, corpus, [*SCHEDULED, "trainer.val_check_interval=9"], TINY_RNN)


def check_resuming(shell, corpus, options, tiny):
    options = [*options, "callbacks.checkpoints.keep=99", "task.log_every=1"]
    shell.train("trainer.max_steps=40", *options, data=corpus, tiny=tiny)
    whole = shell.latest
    steps = sorted(int(p.stem.removeprefix("step_")) for p in (whole / "checkpoints").glob("step_*.ckpt"))
    for step in (steps[0], steps[len(steps) // 2]):
        resume = f"resume={whole}/checkpoints/step_{step}.ckpt"
        done = shell.train("trainer.max_steps=40", *options, resume, data=corpus, tiny=tiny)
        assert done.code == 0, done.err
        resumed = shell.latest
        assert resumed != whole
        for tag in ("train/loss", "val/loss", "val/bleu"):
            assert [p for p in curve(whole, tag) if p[0] > step] == [p for p in curve(resumed, tag) if p[0] > step], tag
        assert_equal_weights(*(weights(run / "checkpoints/last.ckpt") for run in (whole, resumed)))
        assert_equal_weights(*(weights(run / "checkpoints/best.ckpt") for run in (whole, resumed)))


def test_a_run_over_whole_epochs_validates_at_its_end(shell, corpus):
    done = shell.train("trainer.max_epochs=2", "trainer.val_check_interval=10000", data=corpus)
    assert ", ended by trainer.max_epochs; " in done.out
    folder = shell.latest / "checkpoints"
    steps = json.loads((shell.latest / "metrics.json").read_text())["steps"]
    assert {p.name for p in folder.iterdir()} == {"best.ckpt", "last.ckpt", f"step_{steps}.ckpt"}


def test_a_run_without_validation_data_ends_with_its_last_step(shell, corpus):
    done = shell.train("trainer.max_steps=5", "data.valid_file=null", "data.test_file=null", data=corpus)
    assert done.code == 0, done.err
    assert "trained 5 steps in" in done.out and "ended by" not in done.out
    assert {p.name for p in (shell.latest / "checkpoints").iterdir()} == {"best.ckpt", "last.ckpt", "step_5.ckpt"}


def test_early_stopping(shell, corpus):
    done = shell.train("trainer.max_steps=500", "optimizer.lr=0.0", "callbacks.early_stopping.patience=2", data=corpus)
    assert done.code == 0 and json.loads((shell.latest / "metrics.json").read_text())["steps"] == 30
    assert "trained 30 of 500 steps in" in done.out and ", ended by callbacks.early_stopping; " in done.out


def test_a_run_whose_time_is_over_says_so(shell, corpus):
    words = ["trainer.max_steps=50000", "trainer.max_epochs=-1", "callbacks.early_stopping=null"]
    done = shell.train(*words, "trainer.max_time=00:00:00:01", "test=false", data=corpus)
    assert done.code == 0 and ", ended by trainer.max_time; " in done.out, done.err


def test_a_run_that_never_began_leaves_no_empty_folders(shell, corpus):
    wrong = "model.heads=3"
    assert shell.train(wrong, data=corpus).code == 2 and not [*shell.folder.rglob("*runs*")]
    for name in ("mine", "elsewhere"):
        (shell.folder / name).mkdir()
    (shell.folder / "runs").symlink_to("elsewhere")
    assert shell.train(wrong, data=corpus).code == 2 and (shell.folder / "runs").is_dir(), "a link that leads nowhere"
    assert not [*(shell.folder / "elsewhere").iterdir()]
    assert shell.train(wrong, "hydra.run.dir=mine/run", data=corpus).code == 2
    assert (shell.folder / "mine").is_dir() and not (shell.folder / "mine/run").exists(), "only what stands in runs/ is ours"
    assert shell.train("trainer.max_steps=1", "test=false", data=corpus).code == 0
    before = sorted(shell.folder.rglob("*"))
    assert shell.train(wrong, data=corpus).code == 2 and shell.train(wrong, "name=other", data=corpus).code == 2
    assert sorted(shell.folder.rglob("*")) == before


@pytest.mark.parametrize(("words", "told"), [
    (["trainer.max_steps=-1", "trainer.max_epochs=1", "scheduler.cooldown=0.5"], True),
    (["trainer.max_steps=-1", "trainer.max_epochs=1", "scheduler.cooldown=0.5", "scheduler.steps=9"], False),
    (["trainer.max_steps=-1", "trainer.max_epochs=1", "scheduler.cooldown=0"], False),
    (["trainer.max_steps=2", "scheduler.cooldown=0.5"], False),
])  # fmt: skip
def test_a_cooldown_of_a_run_of_unknown_length_is_told(shell, corpus, words, told):
    done = shell.train(*words, "test=false", data=corpus)
    assert done.code == 0 and ("scheduler.cooldown needs scheduler.steps" in done.out) == told, done.err
    assert (", ended by trainer.max_epochs; " in done.out) == ("trainer.max_steps=-1" in words)


def test_a_taken_folder_gets_a_number(shell, corpus):
    for expected in ("here", "here-2", "here-3"):
        done = shell.train("trainer.max_steps=1", "hydra.run.dir=here", data=corpus)
        assert done.code == 0, done.err
        assert shell.latest.name == expected


def test_a_run_without_validations_keeps_both_weights_of_a_moving_average(shell, corpus):
    words = ["data.valid_file=null", "test=false", "callbacks.ema.decay=0.9"]
    assert shell.train(*words, "trainer.max_steps=20", data=corpus).code == 0
    whole = shell.latest
    assert shell.train(*words, "trainer.max_steps=10", data=corpus).code == 0
    done = shell.train(*words, "trainer.max_steps=20", f"resume={shell.latest}/checkpoints/last.ckpt", data=corpus)
    assert done.code == 0, done.err
    assert_equal_weights(*(weights(run / "checkpoints/last.ckpt") for run in (whole, shell.latest)))


def test_what_is_shown_is_of_the_weights_that_were_validated(shell, corpus, monkeypatch):
    seen = {}

    class Seen(Look):
        def __init__(self, model, *rest):
            seen[len(seen)] = {name: value.clone() for name, value in model.model.state_dict().items()}
            super().__init__(model, *rest)

    monkeypatch.setattr("tasks.samples.Look", Seen)
    words = ["callbacks.ema.decay=0.8", "callbacks.samples.count=1", "trainer.max_steps=12", "trainer.val_check_interval=4"]
    assert shell.train(*words, "test=false", data=corpus).code == 0
    for place, step in enumerate((4, 8, 12)):
        kept = weights(shell.latest / f"checkpoints/step_{step}.ckpt")
        assert_equal_weights({f"model.{name}": value for name, value in seen[place].items()}, kept)


CHOICES = ["optimizer=adamw", "scheduler=constant", "trainer.precision=bf16-mixed"]


@pytest.mark.parametrize("option", CHOICES)
def test_choices_of_training_run(shell, corpus, option):
    done = shell.train("trainer.max_steps=3", option, data=corpus)
    assert done.code == 0, done.err


@pytest.mark.parametrize("option", [*CHOICES, "task.compile=true", "trainer.accumulate_grad_batches=2"])
def test_choices_of_training_run_with_a_recurrent_model(shell, corpus, option):
    done = shell.train("trainer.max_steps=3", option, data=corpus, tiny=TINY_RNN)
    assert done.code == 0, done.err


def test_teacher_forcing_is_a_curve_where_it_is_not_always_1(shell, corpus):
    shell.train("trainer.max_steps=10", *SCHEDULED, "task.teacher_forcing.steps=5", data=corpus, tiny=TINY_RNN)
    steps, ratios = zip(*curve(shell.latest, "train/teacher_forcing"))
    assert steps == (2, 4, 6, 8, 10) and ratios == pytest.approx((0.6, 0.2, 0, 0, 0))
    assert "train/teacher_forcing" in json.loads((shell.latest / "metrics.json").read_text())
    shell.train("trainer.max_steps=4", data=corpus, tiny=TINY_RNN)
    assert "train/teacher_forcing" not in json.loads((shell.latest / "metrics.json").read_text())


def test_validation_is_always_teacher_forced(shell, corpus, monkeypatch):
    from model.recurrent import Recurrent

    seen, forward = set(), Recurrent.forward

    def spy(self, *args, teacher_forcing=1.0, **options):
        seen.add((self.training, teacher_forcing))
        return forward(self, *args, teacher_forcing=teacher_forcing, **options)

    monkeypatch.setattr(Recurrent, "forward", spy)
    done = shell.train("trainer.max_steps=4", "task.teacher_forcing.ratio=0.25", data=corpus, tiny=TINY_RNN)
    assert done.code == 0 and seen == {(True, 0.25), (False, 1.0)}


@pytest.mark.parametrize("attention", ["none", "aligned", "additive"])
def test_a_recurrent_run_from_training_to_pictures(shell, corpus, attention):
    words = [f"model=rnn_{attention}", "callbacks.samples.images=true", "callbacks.samples.count=1"]
    done = shell.train("trainer.max_steps=20", *words, data=corpus, tiny=TINY_RNN)
    assert done.code == 0, done.err
    run, pictures = shell.latest, {"cross_1.png"} if attention != "none" else set()
    assert run.parent.name == f"rnn_{attention}"
    assert {p.name for p in run.glob("heatmaps/*")} == pictures
    assert ("heatmaps" in done.out) == bool(pictures)
    done = shell.evaluate(f"ckpt={run}/checkpoints/best.ckpt", "decode=beam", "heatmaps=1", "out=out")
    assert done.code == 0, done.err
    assert {p.name for p in shell.folder.glob("out/heatmaps/*")} == pictures
    assert ("no attention" in done.out) == (not pictures)
    assert load(run / "checkpoints/best.ckpt").translate(["one two", ""])[1] == ""


def gradients(rows, cuts, monkeypatch):
    """Gradients of one optimizer step on these rows, cut into these batches, as the Trainer makes it."""
    import lightning
    from torch.utils.data import DataLoader

    from data.tokenizer import Characters
    from model.transformer import Transformer
    from tasks.decoding import Greedy
    from tasks.schedule import Constant
    from tasks.seq2seq import Seq2SeqTask

    torch.manual_seed(0)
    tokenizer = Characters("abcdefghijklmnop")
    model = Transformer(20, 20, layers=1, channels=16, feed_forward=32, heads=2, dropout=0.0)
    found = {}

    class Recorded(Seq2SeqTask):
        def on_before_optimizer_step(self, optimizer):
            super().on_before_optimizer_step(optimizer)
            found.update({name: p.grad.clone() for name, p in self.named_parameters()})

    task = Recorded(
        model, tokenizer, tokenizer, optimizer=lambda p: torch.optim.SGD(p, lr=0.1), scheduler=Constant,
        valid_decode=Greedy(), decode=Greedy(), bleu={},
    )  # fmt: skip
    size = len(rows) // cuts
    batches = [collate(rows[i : i + size], range(i, i + size)) for i in range(0, len(rows), size)]
    lightning.Trainer(
        max_steps=1, accumulate_grad_batches=cuts, logger=False, enable_checkpointing=False, enable_progress_bar=False,
        accelerator="cpu", enable_model_summary=False,
    ).fit(task, DataLoader(batches, batch_size=None))  # fmt: skip
    return found


def test_accumulated_batches_make_the_step_of_the_big_batch(monkeypatch):
    generator = torch.Generator().manual_seed(0)
    lengths = torch.linspace(3, 40, 8).long().tolist()
    rows = [(torch.randint(4, 20, (n,), generator=generator).tolist(), torch.randint(4, 20, (m,), generator=generator).tolist())
            for n, m in zip(lengths, reversed(lengths))]  # fmt: skip
    whole = gradients(rows, 1, monkeypatch)
    for cuts in (2, 4, 8):
        parts = gradients(rows, cuts, monkeypatch)
        for name in whole:
            torch.testing.assert_close(parts[name], whole[name], atol=1e-5, rtol=0, msg=name)
    assert max(float(g.abs().max()) for g in whole.values()) > 1e-2, "these are real gradients"


def test_a_trained_model_translates(shell, corpus):
    done = shell.train("trainer.max_steps=400", "trainer.val_check_interval=400", "model.layers=2", "model.channels=32",
                       "model.dropout=0.0", "model.positions=sinusoidal", "optimizer.lr=0.005", data=corpus)  # fmt: skip
    assert done.code == 0, done.err
    model = load(shell.latest / "checkpoints/best.ckpt")
    assert model.translate(["two one", "", "  ", "five"]) == ["zwei eins", "", "", "fünf"]
    metrics = json.loads((shell.latest / "metrics.json").read_text())
    assert metrics["test/bleu"] > 80


def shifted(corpus, folder):
    """The same corpus in other letters, as many."""
    (folder / "shifted").mkdir()
    letters = str.maketrans("abcdefghijklmnopqrstuvwxyz", "bcdefghijklmnopqrstuvwxyza")
    for path in corpus.iterdir():
        (folder / "shifted" / path.name).write_text(path.read_text(encoding="utf-8").translate(letters), encoding="utf-8")
    return folder / "shifted"


DAMAGES = [("callbacks", 5), ("progress", 5), ("progress", {}), ("global_step", "x"), ("optimizer_states", [])]
DAMAGES += [("optimizer_states", 5), ("loops", {}), ("lr_schedulers", [5])]


def damaged(ckpt, folder, part, value):
    path = folder / f"{part}_{value}.ckpt".replace("[", "").replace("]", "").replace("{", "").replace("}", "")
    torch.save(torch.load(ckpt, weights_only=True) | {part: value}, path)
    return path


NEVER_BETTER = ["callbacks.checkpoints.monitor=val/loss", "callbacks.checkpoints.mode=max"]  # the loss falls


def test_a_run_resumed_from_a_checkpoint_that_lies_alone_has_a_best_one(shell, corpus):
    assert shell.train("trainer.max_steps=20", *NEVER_BETTER, "test=false", data=corpus).code == 0
    first = shell.latest
    shutil.copy(first / "checkpoints/last.ckpt", shell.folder / "lone.ckpt")
    done = shell.train("resume=lone.ckpt", "trainer.max_steps=40", *NEVER_BETTER, data=corpus)
    assert done.code == 0, done.err
    best = torch.load(shell.latest / "checkpoints/best.ckpt", weights_only=True)
    assert best["global_step"] == 30 == json.loads((shell.latest / "metrics.json").read_text())["best_step"]


def test_a_resumed_run_has_no_best_checkpoint_from_its_future(shell, corpus):
    better = ["callbacks.checkpoints.monitor=val/loss", "callbacks.checkpoints.mode=min", "test=false"]
    assert shell.train("trainer.max_steps=30", *better, data=corpus).code == 0
    first = shell.latest
    assert torch.load(first / "checkpoints/best.ckpt", weights_only=True)["global_step"] == 30
    words = [f"resume={first}/checkpoints/step_10.ckpt", "trainer.max_steps=14", "trainer.limit_val_batches=0"]
    assert shell.train(*words, *better, data=corpus).code == 0
    best = torch.load(shell.latest / "checkpoints/best.ckpt", weights_only=True)
    assert best["global_step"] == 10 == json.loads((shell.latest / "metrics.json").read_text())["best_step"]


def test_after_ctrl_c_a_sweep_begins_no_further_job(shell, corpus, monkeypatch):
    from tasks.seq2seq import Seq2SeqTask

    step = Seq2SeqTask.training_step
    monkeypatch.setattr(Seq2SeqTask, "training_step", lambda *a: (signal.raise_signal(signal.SIGINT), step(*a))[1])
    done = shell.train("-m", "seed=1,2,3", "trainer.max_steps=8", data=corpus)
    assert done.code == 0 and "stopped: 2 of 3 jobs were not begun" in done.out, done
    assert len(list(shell.folder.glob("runs/text/transformer_tiny/*"))) == 1


@pytest.mark.parametrize("flag", ["--foo", "--resume", "-x"])
def test_an_unknown_flag_is_told_in_one_line(shell, flag):
    done = shell.train_as_it_is(flag, "x")
    assert done.code == 2 and done.err.startswith(f"error: unknown flag {flag!r}: ") and done.err.count("\n") == 1


def test_what_cannot_be_resumed_is_told(shell, corpus):
    shell.train("trainer.max_steps=10", "test=false", data=corpus)
    last = shell.latest / "checkpoints/last.ckpt"
    weights_only = shell.folder / "weights.ckpt"
    torch.save({k: v for k, v in torch.load(last, weights_only=True).items() if k != "optimizer_states"}, weights_only)
    for words, part in [
        ([f"resume={last}", "trainer.max_steps=20", "model.channels=32"], "does not fit this model"),
        ([f"resume={last}", "trainer.max_steps=20", "optimizer.lr=0.5"], "optimizer.lr is 0.5, but"),
        ([f"resume={last}", "trainer.max_steps=20", "optimizer.betas=[0.9,0.5]"], "optimizer.betas is [0.9, 0.5], but"),
        ([f"resume={last}", "trainer.max_steps=20", "data.seed=5"], "data.seed is 5, but"),
        ([f"resume={last}", "trainer.max_steps=20", "data.max_tokens=300"], "data.max_tokens is 300, but"),
        ([f"resume={last}", "trainer.max_steps=10"], "is at step 10, and trainer.max_steps is 10: nothing is left"),
        ([f"resume={weights_only}", "trainer.max_steps=20"], "has no optimizer_states"),
        ([f"resume={last}", "trainer.max_steps=20", f"data.root={shifted(corpus, shell.folder)}"], "with another vocabulary"),
        *[
            ([f"resume={damaged(last, shell.folder, part, value)}", "trainer.max_steps=20"], f"has no {part}")
            for part, value in DAMAGES
        ],
    ]:
        done = shell.train(*words, data=corpus)
        assert done.code == 2 and part in done.err and len(done.err.splitlines()) == 1


@pytest.mark.parametrize(("before", "after", "code"), [
    ("callbacks.ema.decay=0.9", "callbacks.ema.decay=0.9", 0),
    ("callbacks.ema.decay=0.9", "callbacks.ema.decay=null", 2),
    ("callbacks.ema.decay=0.9", "callbacks.ema=null", 2),
    ("callbacks.ema.decay=null", "callbacks.ema.decay=0.9", 0),
    ("callbacks.ema=null", "callbacks.ema=null", 0),
])  # fmt: skip
def test_a_moving_average_is_not_taken_for_the_weights(shell, corpus, before, after, code):
    assert shell.train("trainer.max_steps=10", "test=false", before, data=corpus).code == 0
    last = shell.latest / "checkpoints/last.ckpt"
    done = shell.train(f"resume={last}", "trainer.max_steps=12", "test=false", after, data=corpus)
    told = "callbacks.ema.decay is null, but"
    assert done.code == code and (told in done.err) == (code == 2) and done.err.count("\n") == (code == 2), done.err


def test_the_newest_run_is_gone_on_with_by_its_link(shell, corpus):
    """Which is the new run's once that has begun."""
    assert shell.train("trainer.max_steps=10", "test=false", data=corpus).code == 0
    first = shell.latest
    assert shell.train("trainer.max_steps=abc", data=corpus).code == 2 and shell.latest == first
    for steps in (12, 14):
        done = shell.train("resume=runs/latest/checkpoints/last.ckpt", f"trainer.max_steps={steps}", "test=false", data=corpus)
        assert done.code == 0, done.err
        assert json.loads((shell.latest / "metrics.json").read_text())["steps"] == steps
    assert len([*first.parent.iterdir()]) == 3


def test_the_same_files_may_be_written_in_another_way(shell, corpus):
    assert shell.train("trainer.max_steps=10", "test=false", data=corpus).code == 0
    words = [f"resume={shell.latest}/checkpoints/last.ckpt", "trainer.max_steps=20", "test=false"]
    done = shell.train(*words, "data.train_file=[train]", data=corpus)
    assert done.code == 0, done.err


def test_a_time_that_is_spent_is_told(shell, corpus):
    assert shell.train("trainer.max_steps=10", "test=false", "trainer.max_time=00:01:00:00", data=corpus).code == 0
    last = shell.latest / "checkpoints/last.ckpt"
    content = torch.load(last, weights_only=True)
    elapsed = content["callbacks"]["Timer"]["time_elapsed"]
    assert 0 < elapsed["train"] < 3600
    elapsed["train"] = 61.0
    torch.save(content, shell.folder / "spent.ckpt")
    words = ["resume=spent.ckpt", "trainer.max_steps=20", "test=false"]
    done = shell.train(*words, "trainer.max_time=00:00:01:00", data=corpus)
    assert done.code == 2 and "has trained for 61 s, and trainer.max_time is 00:00:01:00: nothing is left" in done.err
    assert shell.train(*words, "trainer.max_time=00:00:02:00", data=corpus).code == 0


def test_a_compiled_model_trains_alike(shell, corpus):
    words = ["trainer.max_steps=6", "trainer.val_check_interval=6", "model.dropout=0.0", "test=false"]
    curves = []
    for option in ("task.compile=false", "task.compile=true"):
        done = shell.train(*words, option, data=corpus)
        assert done.code == 0, done.err
        curves.append([loss for tag in ("train/loss", "val/loss") for _, loss in curve(shell.latest, tag)])
    assert len(curves[0]) == 4 and curves[1] == pytest.approx(curves[0], rel=1e-4)


def test_two_devices_share_the_work(tmp_path, corpus):
    """DDP over gloo, in processes of its own: every sentence is scored once, and one set of files is written."""
    devices = ["trainer.accelerator=cpu", "trainer.devices=2", "trainer.strategy=ddp"]
    done = command("train.py", *TINY, f"data.root={corpus}", "trainer.max_steps=6", *devices, "hydra.run.dir=run", cwd=tmp_path)
    assert done.code == 0, done.err
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert metrics["steps"] == 6 and metrics["test/sentences"] == 12
    assert sorted(path.name for path in tmp_path.glob("run*")) == ["run", "runs"]  # the run, and the link to it


def test_a_resumed_run_on_two_devices_goes_on_as_if_it_had_never_stopped(tmp_path, corpus):
    """From the middle of an accumulation window, of which each device has gradients of its own."""
    words = [*TINY, f"data.root={corpus}", "trainer.accelerator=cpu", "trainer.devices=2", "trainer.strategy=ddp", "test=false",
             "trainer.max_steps=6", "trainer.accumulate_grad_batches=2", "trainer.val_check_interval=3", "task.log_every=1",
             "callbacks.checkpoints.keep=99", "callbacks.samples=null"]  # fmt: skip
    assert command("train.py", *words, "hydra.run.dir=whole", cwd=tmp_path).code == 0
    first = "runs/latest/checkpoints/step_1.ckpt"  # on each device before it is the new run's
    assert torch.load(tmp_path / first, weights_only=True)["progress"]["gradients"], "it lies in an open window"
    done = command("train.py", *words, f"resume={first}", "hydra.run.dir=resumed", cwd=tmp_path)
    assert done.code == 0, done.err
    whole, resumed = tmp_path / "whole", tmp_path / "resumed"
    for tag in ("train/loss", "val/loss"):
        assert [p for p in curve(whole, tag) if p[0] > 1] == [p for p in curve(resumed, tag) if p[0] > 1], tag
    assert_equal_weights(*(weights(run / "checkpoints/last.ckpt") for run in (whole, resumed)))


def test_a_sweep_is_for_one_device(tmp_path, corpus):
    devices = ["trainer.accelerator=cpu", "trainer.devices=2", "trainer.strategy=ddp"]
    done = command("train.py", "-m", "seed=1,2", *TINY, f"data.root={corpus}", "trainer.max_steps=2", *devices, cwd=tmp_path)
    assert done.code == 2 and "a sweep (-m) is for one device a job" in done.err and "Traceback" not in done.err


def test_a_second_signal_ends_a_run_at_once_and_the_first_never_does():
    """Whatever else has told the trainer to stop: a limit, or early stopping."""
    stop, told = StopOnSignal(), SimpleNamespace(should_stop=True)
    before = signal.getsignal(signal.SIGTERM)
    stop.on_train_start(told, None)
    try:
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.stopped
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(1)
    finally:
        stop.on_train_end(told, None)
    assert signal.getsignal(signal.SIGTERM) == before


@pytest.mark.parametrize("monitor, best", [("val/loss", "min"), ("val/ppl", "min"), ("val/bleu", "max"), ("val/chrf", "max")])
def test_what_is_better_goes_by_the_score(monitor, best):
    parts = ("checkpoints", "early_stopping")
    for words, expected in (([], best), ([f"callbacks.{part}.mode=max" for part in parts], "max")):
        config = cli.compose("train", [f"callbacks.{part}.monitor={monitor}" for part in parts] + words)
        values.check(config)
        assert make(OmegaConf.to_container(config.callbacks.checkpoints)).sign == (1 if expected == "max" else -1)
        assert make(OmegaConf.to_container(config.callbacks.early_stopping)).mode == expected


def test_a_signal_ends_a_run_with_its_last_step_saved(tmp_path, corpus):
    words = [*TINY, f"data.root={corpus}", "trainer.val_check_interval=1000000", "hydra.run.dir=run"]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "DUET_CACHE": str(tmp_path / ".cache"), "PYTHONUNBUFFERED": "1"}
    environment.pop("DUET_RUN", None)
    command = [sys.executable, ROOT / "train.py", *words]
    run = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True)
    for line in run.stdout:
        if "writing to" in line:
            break
    time.sleep(4)
    run.send_signal(signal.SIGINT)
    text, code = run.stdout.read(), run.wait(timeout=60)
    assert code == 0 and "stopping" in text and ", ended by a signal; " in text
    steps = json.loads((tmp_path / "run" / "metrics.json").read_text())["steps"]
    assert (tmp_path / "run" / "checkpoints" / f"step_{steps}.ckpt").is_file() and steps > 0
    last = torch.load(tmp_path / "run/checkpoints/last.ckpt", weights_only=True)
    assert last["global_step"] == steps


def test_a_job_that_fails_in_a_sweep_is_named_and_the_others_are_done(small_sweep):
    done = small_sweep.done
    assert done.code == 2 and done.err.splitlines()[-1] == (
        "error: 1 of 3 jobs failed, the others are done: model.heads=3:"
        " model: channels must be divisible by heads, but 16 channels are not by 3 heads"
    ), done.err
    assert "Traceback" not in done.err and "this job failed: model: channels must be" in done.out
    folders = [path for path in small_sweep.folder.iterdir() if path.is_dir()]
    assert len(folders) == 2, "a job that never began leaves no folder"
    for heads in (2, 4):
        run = small_sweep.run(heads).folder
        assert json.loads((run / "metrics.json").read_text())["steps"] == 60 and (run / "checkpoints/best.ckpt").is_file()


def test_a_sweep_without_a_failure_ends_with_0(shell, corpus):
    done = shell.train("-m", "seed=1,2", "trainer.max_steps=2", "test=false", data=corpus)
    assert done.code == 0, done.err
    texts = [path.read_text() for path in shell.folder.glob("runs/text/transformer_tiny/*/config.yaml")]
    assert sorted(re.search(r"^seed: (\d)$", text, re.MULTILINE)[1] for text in texts) == ["1", "2"]


def test_a_fault_of_ours_in_a_sweep_shows_its_traceback_and_the_others_are_done(shell, corpus, monkeypatch):
    make_trainer = train.make_trainer
    monkeypatch.setattr(train, "make_trainer", lambda config, *rest: 1 / 0 if config.seed == 2 else make_trainer(config, *rest))
    done = shell.train("-m", "seed=1,2,3", "trainer.max_steps=2", "test=false", data=corpus)
    assert done.code == 2 and "Traceback" in done.err
    assert done.err.splitlines()[-1].startswith("error: 1 of 3 jobs failed, the others are done: seed=2: ZeroDivisionError")
    assert len(list(shell.folder.glob("runs/text/transformer_tiny/*/metrics.json"))) == 2
