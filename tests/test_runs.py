"""Which runs lie in a folder, what they are called, and how they were trained: on folders made for the purpose."""

import json
import os

import pytest
from torch.utils.tensorboard import SummaryWriter

from data.errors import DuetError
from tasks import runs
from tasks.runs import Entry, find


def make_run(folder, *, finished=True, **metrics):
    (folder / "checkpoints").mkdir(parents=True)
    for name in ("best.ckpt", "last.ckpt", "step_10.ckpt"):
        (folder / "checkpoints" / name).write_text("")
    (folder / "config.yaml").write_text("name: a\n")
    if finished:
        (folder / "metrics.json").write_text(json.dumps({"steps": 10} | metrics))
    return folder


@pytest.fixture
def experiment(tmp_path):
    """Two models: one with three runs, the newest unfinished, one with a run of a name of its own."""
    root = tmp_path / "runs" / "exp"
    for date in ("2026-01-01_10-00-00", "2026-01-02_10-00-00", "2026-01-02_10-00-00-2"):
        make_run(root / "rnn" / date)
    make_run(root / "rnn" / "2026-01-03_10-00-00", finished=False)
    make_run(root / "transformer" / "mine")
    (root / "empty" / "2026-01-01_10-00-00").mkdir(parents=True)
    return root


def found(paths, **options):
    entries, remarks = find([str(path) for path in paths], **options)
    return [(entry.name, entry.run.name if entry.run else None) for entry in entries], remarks


def test_of_each_model_the_newest_finished_run_counts(experiment):
    entries, remarks = found([experiment])
    assert entries == [("rnn", "2026-01-02_10-00-00-2"), ("mine", "mine")]
    assert len(remarks) == 2 and "has not finished" in remarks[0] and "2026-01-03" in remarks[0]
    assert remarks[1] == f"left out 2 older runs below {experiment}: all=true takes every one"


def test_or_all_of_them(experiment):
    entries, remarks = found([experiment], every=True)
    dates = ["2026-01-01_10-00-00", "2026-01-02_10-00-00", "2026-01-02_10-00-00-2"]
    assert entries == [*((f"rnn/{date}", date) for date in dates), ("mine", "mine")] and len(remarks) == 1


def test_the_tenth_run_of_a_second_is_newer_than_the_second(tmp_path):
    for number in ("", "-2", "-10", "-9"):
        make_run(tmp_path / "exp" / "a" / f"2026-01-01_10-00-00{number}")
    assert found([tmp_path / "exp"])[0] == [("a", "2026-01-01_10-00-00-10")]


def test_runs_with_names_of_their_own_are_as_old_as_their_end(tmp_path):
    for name, ended in (("z", 1_000_000_000), ("a", 2_000_000_000)):
        os.utime(make_run(tmp_path / "exp" / "m" / name) / "metrics.json", (ended, ended))
    assert found([tmp_path / "exp"])[0] == [("a", "a")]


def test_what_is_named_itself_counts_finished_or_not(experiment):
    run = experiment / "rnn" / "2026-01-03_10-00-00"
    assert found([run]) == ([("rnn", run.name)], [])
    step = run / "checkpoints" / "step_10.ckpt"
    assert found([run, step])[0] == [("rnn", run.name), ("rnn step_10", run.name)]
    (experiment.parent / "latest").symlink_to(run)
    assert found([experiment.parent / "latest", run])[0] == [("rnn", run.name)], "the same one twice is one"


NAMES = [  # checkpoints (a run is marked by a +), their names
    (["+exp/rnn/2026-01-01_10-00-00/best"], ["rnn"]),
    (["+exp/rnn/mine/best"], ["mine"]),
    (["+exp/rnn/2026-01-01_10-00-00/best", "+exp/gru/2026-01-01_10-00-00/best"], ["rnn", "gru"]),
    (["+exp/rnn/2026-01-01_10-00-00/best", "+exp/rnn/2026-01-02_10-00-00/best"],
     ["rnn/2026-01-01_10-00-00", "rnn/2026-01-02_10-00-00"]),
    (["+a/rnn/2026-01-01_10-00-00/best", "+b/rnn/2026-01-01_10-00-00/best"],
     ["a/rnn/2026-01-01_10-00-00", "b/rnn/2026-01-01_10-00-00"]),
    (["+exp/rnn/2026-01-01_10-00-00/best", "+exp/rnn/2026-01-01_10-00-00/last"], ["rnn", "rnn last"]),
    (["x/one.ckpt", "y/two.ckpt"], ["one", "two"]),
    (["x/one.ckpt", "y/one.ckpt"], ["x/one", "y/one"]),
    (["x/one.ckpt", "y/one.pt"], ["x/one", "y/one"]),
    (["x/one.ckpt", "x/one.pt"], None),
]  # fmt: skip


@pytest.mark.parametrize("places, expected", NAMES)
def test_names_tell_apart_and_are_short(tmp_path, places, expected):
    ckpts = []
    for place in places:
        if place.startswith("+"):
            run, _, name = place[1:].rpartition("/")
            if not (tmp_path / run).exists():
                make_run(tmp_path / run)
            ckpts.append(tmp_path / run / "checkpoints" / f"{name}.ckpt")
        else:
            ckpts.append(tmp_path / place)
    names = runs.names(ckpts)
    assert names == (expected or [str(ckpt) for ckpt in ckpts]) and len(set(names)) == len(names)


def test_a_baseline_goes_by_its_name_or_its_path(experiment):
    entries, _ = find([str(experiment)])
    run = experiment / "transformer" / "mine"
    for wanted in ("mine", str(run), str(run / "checkpoints" / "best.ckpt")):
        assert runs.named(wanted, entries) == 1, wanted
    with pytest.raises(DuetError, match="baseline is 'lstm': choose one of rnn, mine"):
        runs.named("lstm", entries)


MISSING = [
    ("nowhere", "nowhere is missing: name a checkpoint, the folder of a run, or a folder of runs"),
    ("runs/exp/empty", "empty holds no finished run"),
    ("unfinished", "holds no finished run.* itself to take it unfinished"),
]


@pytest.mark.parametrize("path, message", MISSING)
def test_nothing_there(experiment, path, message):
    root = experiment.parents[1]
    make_run(root / "unfinished" / "a" / "b", finished=False)
    with pytest.raises(DuetError, match=message):
        find([str(root / path)])


# How it was trained

WATCH = {"Stopwatch": {"seconds": 120.0, "train_seconds": 100.0, "train_tokens": 50_000}}
WHOLE = {"steps": 900, "best_step": 700, "seconds": 600.0, "train_seconds": 500.0, "train_tokens": 1_000_000}

TRAINING = [  # checkpoint, metrics.json, file, what is known of it
    ({"global_step": 10}, None, "best", (10, None, None, None)),
    ({"global_step": 10, "callbacks": WATCH}, None, "best", (10, None, 2.0, 500.0)),
    ({"global_step": 700, "callbacks": WATCH}, WHOLE, "best", (900, 700, 10.0, 2000.0)),
    ({"global_step": 900, "callbacks": WATCH}, WHOLE, "last", (900, None, 10.0, 2000.0)),
    ({"global_step": 500, "callbacks": WATCH}, WHOLE, "step_10", (500, None, 2.0, 500.0)),
    ({"global_step": 700}, {"steps": 900, "best_step": 700, "seconds": 60.0}, "best", (900, 700, 1.0, None)),
]


@pytest.mark.parametrize("checkpoint, metrics, file, expected", TRAINING)
def test_how_a_checkpoint_was_trained(tmp_path, checkpoint, metrics, file, expected):
    run = make_run(tmp_path / "run", finished=metrics is not None, **(metrics or {}))
    known = runs.training(checkpoint, Entry("a", run / "checkpoints" / f"{file}.ckpt", run))
    names = ("steps", "best_step", "minutes", "train_tokens_per_second")
    assert tuple(known[name] for name in names) == expected
    lone = runs.training(checkpoint, Entry("a", tmp_path / "x.ckpt", None))
    assert lone["steps"] == checkpoint["global_step"] and lone["best_step"] is None


def test_curves_come_from_the_events_over_minutes_of_training(tmp_path):
    board = SummaryWriter(str(tmp_path))
    for step, bleu, minutes in ((10, 5.0, 0.5), (20, 9.0, 1.5)):
        board.add_scalar("val/bleu", bleu, step, walltime=1000.0 + step)
        board.add_scalar("train/minutes", minutes, step)
    for step, speed in ((1, 100.0), (2, 300.0), (3, 200.0)):
        board.add_scalar("train/tokens_per_second", speed, step)
    board.close()
    assert runs.curve(tmp_path) == {"steps": [10, 20], "minutes": [0.5, 1.5], "values": [5.0, 9.0]}
    assert runs.curve(None) == runs.curve(make_run(tmp_path / "none")) == {"steps": [], "minutes": [], "values": []}
    known = runs.training({"global_step": 3}, Entry("a", tmp_path / "checkpoints" / "best.ckpt", tmp_path))
    assert known["train_tokens_per_second"] == 200.0, "a run of before: the median of its curve"


def test_a_run_of_before_has_the_clock_on_the_wall(tmp_path):
    board = SummaryWriter(str(tmp_path))
    board.add_scalar("val/bleu", 5.0, 10, walltime=4e9)
    board.close()
    curve, began = runs.curve(tmp_path), runs.events(tmp_path).FirstEventTimestamp()  # when the file was made
    assert curve["steps"] == [10] and curve["minutes"][0] == pytest.approx((4e9 - began) / 60)
