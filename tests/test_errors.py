"""Mistakes of users: exit code 2, one line on stderr that names what, which value and what is allowed, and nothing lost.

One row a mistake. And what is no mistake, though it looks like one.
"""

import gzip
import json

import pytest
import torch

from tasks import load
from tests.runs import TINY_RNN, WORDS, command, write_corpus


def assert_mistake(done, *parts):
    assert done.code == 2, done
    lines = done.err.splitlines()
    assert len(lines) == 1 and lines[0].startswith("error: "), done.err
    for part in parts:
        assert part in lines[0], lines[0]


def damage(root, name, change):
    path = root / name
    path.write_bytes(change(path.read_bytes()))


def cut_a_line(content):
    return b"".join(content.splitlines(keepends=True)[:-1])


# what is done to the corpus, options, what the error line says
MISTAKES = {
    "folder missing": (None, ["data.root=nowhere"], ["nowhere/", "missing"]),
    "file missing": (None, ["data.train_file=tarin"], ["tarin.en", "missing"]),
    "test file missing": (None, ["data.test_file=tset"], ["tset.en", "missing"]),
    "lines do not match": (lambda root: damage(root, "train.de", cut_a_line), [], ["train.en has 120", "train.de has 119"]),
    "validation lines do not match": (lambda root: damage(root, "valid.en", cut_a_line), [], ["valid.en has 11", "valid.de has 12"]),
    "not UTF-8": (lambda root: damage(root, "train.de", lambda c: c.replace("fünf".encode(), b"f\xfcnf", 1)), [], ["train.de, line", "UTF-8"]),
    "empty corpus": (lambda root: [damage(root, f"train.{x}", lambda c: b"") for x in ("en", "de")], [], ["train.en", "empty"]),
    "TSV without the column": (None, ["data=tsv", "data.train_file=train.tsv", "data.valid_file=null", "data.test_file=null", "data.target_column=fr"], ["train.tsv has no column 'fr'", "en, de"]),
    "vocabulary too large": (None, ["tokenizer=sentencepiece", "tokenizer.vocab_size=5000"], ["vocab_size=5000", "too large", "largest possible"]),
    "vocabulary too small": (None, ["tokenizer=sentencepiece", "tokenizer.vocab_size=8"], ["vocab_size=8", "too small"]),
    "channels not divisible": (None, ["model.heads=3"], ["16 channels", "3 heads"]),
    "unknown norm": (None, ["model.norm=middle"], ["error: model: norm must be one of pre, post", "'middle'"]),
    "an impossible model is told before the corpus is read": (lambda root: (root / "train.tsv").unlink(), ["model.heads=3"], ["error: model: channels must be", "3 heads"]),
    "no dropout of attention": (None, ["model.attention_dropout=1.5"], ["error: model: attention_dropout must be at least 0 and below 1", "1.5"]),
    "no dropout of activations": (None, ["model.activation_dropout=-0.1"], ["error: model: activation_dropout must be", "-0.1"]),
    "training pairs beyond the positions": (None, ["model.positions=learned", "model.max_positions=10"], ["has places for 9", "data.max_length to 9"]),
    **{
        f"value: {word}": (None, [word], [f"{word.partition('=')[0]} must be "])
        for word in (
            "data.root=[1]", "data.max_ratio=abc", "data.train_file=[1]", "model.dropout=abc", "model.window=abc", "optimizer.betas=5",
            "trainer.max_epochs=[1]", "trainer.max_steps=abc", "trainer.max_steps=null", "decode.max_len_a=abc", "scheduler.cooldown=abc",
            "callbacks.samples.count=abc", "callbacks.early_stopping.patience=abc", "task.valid_decode.max_len_b=-1", "task.compile=5",
            "tokenizer.min_count=abc", "metrics.bleu.lowercase=abc", "test=abc", "optimizer.lr=.inf",
            "seed=-1", "seed=null", "seed=abc", "threads=-1", "threads=abc", "data.num_workers=-1", "data.seed=abc", "model.heads=0",
            "model.channels=-4", "model.layers=abc", "optimizer.lr=-1", "optimizer.lr=abc", "optimizer.eps=-1",
            "optimizer.weight_decay=abc", "task.log_every=0", "task.log_every=[1]", "trainer.accumulate_grad_batches=0",
        )
    },
    "a part that a run needs": (None, ["callbacks.checkpoints=null"], ["callbacks.checkpoints is None, but a run needs it"]),
    "all callbacks": (None, ["callbacks=null"], ["callbacks is chosen by a name, not None"]),
    "a layer of heatmaps that is not there": (None, ["callbacks.samples.images=true", "callbacks.samples.layers=[9]"], ["callbacks.samples: no such layer: [9]"]),
    "a head of heatmaps that is not there": (None, ["callbacks.samples.images=true", "callbacks.samples.heads=[]"], ["callbacks.samples: no such head"]),
    "decay": (None, ["callbacks.ema.decay=1.5"], ["callbacks.ema.decay must be above 0 and below 1", "1.5"]),
    "nothing but blanks": (lambda root: [(root / f"train.{x}").write_text("\n \n\n") for x in ("en", "de")], [], ["every pair is blank"]),
    "a score that is not there": (None, ["callbacks.early_stopping.monitor=val/blue"], ["early_stopping.monitor is 'val/blue'", "val/bleu"]),
    "a score of checkpoints that is not there": (None, ["callbacks.checkpoints.monitor=bleu"], ["checkpoints.monitor is 'bleu'", "val/bleu"]),
    "a negative column": (None, ["data=tsv", "data.train_file=train.tsv", "data.valid_file=null", "data.test_file=null", "data.source_column=0", "data.target_column=-1"], ["train.tsv has no column -1", "from 0"]),
    "unknown positions": (None, ["model.positions=round"], ["sinusoidal, learned, rotary, relative", "'round'"]),
    "tied but not shared": (None, ["tokenizer.shared=false"], ["tie=all", "shared"]),
    "unknown option": (None, ["model.drpout=0.2"], ["'model.drpout'", "did you mean 'model.dropout'"]),
    "unknown option on top": (None, ["sead=2"], ["'sead'", "did you mean 'seed'"]),
    "unknown trainer option": (None, ["trainer.max_step=2"], ["'trainer.max_step'", "did you mean 'trainer.max_steps'"]),
    "unknown experiment": (None, ["experiment=multi31k"], ["unknown experiment 'multi31k'", "did you mean 'multi30k'", "grammar"]),
    "data of an experiment": (None, ["data=multi30k"], ["write experiment=multi30k"]),
    "data of an experiment, quoted": (None, ["data='multi30k'"], ["write experiment=multi30k"]),
    "unknown model": (None, ["model=transformer_huge"], ["'transformer_huge'", "transformer_tiny"]),
    "unknown decode": (None, ["decode=bean"], ["'bean'", "did you mean 'beam'", "greedy"]),
    "unknown group": (None, ["modle=transformer_tiny"], ["'modle'"]),
    "a number for a group": (None, ["tokenizer=5"], ["tokenizer is chosen by a name, not 5", "characters, sentencepiece"]),
    "null for a group": (None, ["model=null"], ["model is chosen by a name, not None", "rnn_dot"]),
    "a number for a part": (None, ["data.source=5"], ["data.source is a part with options of its own"]),
    "a number for a tokenizer": (None, ["tokenizer.source=5"], ["tokenizer.source is a part with options of its own"]),
    "not an override": (None, ["model.dropout"], ["model.dropout", "key=value"]),
    "temperature": (None, ["decode=sample", "decode.temperature=1e-40"], ["decode.temperature must be at least 0.000001, not 1e-40", "greedy"]),
    "no temperature": (None, ["decode=sample", "decode.temperature=0"], ["decode.temperature must be at least 0.000001, not 0"]),
    "beam size": (None, ["decode=beam", "decode.size=0"], ["decode.size must be at least 1, not 0"]),
    "label smoothing": (None, ["task.label_smoothing=1.5"], ["label_smoothing must be", "1.5"]),
    "a Transformer that feeds itself": (None, ["task.teacher_forcing.ratio=0.5"], ["task.teacher_forcing would be 0.5", "Transformer", "must be 1", "rnn_"]),
    "a Transformer that comes to feed itself": (None, ["task/teacher_forcing=inverse_sigmoid"], ["would be 0", "Transformer"]),
    "a number for a schedule": (None, ["task.teacher_forcing=0.5"], ["is a schedule, not 0.5", "task.teacher_forcing.ratio=0.5"]),
    "teacher forcing": (None, ["task.teacher_forcing.ratio=2"], ["task.teacher_forcing.ratio is a probability", "2"]),
    "unknown schedule": (None, ["task/teacher_forcing=cosine"], ["'cosine'", "inverse_sigmoid"]),
    "unknown option of a schedule": (None, ["task/teacher_forcing=linear", "task.teacher_forcing.step=3"], ["did you mean 'task.teacher_forcing.steps'"]),
    "dropout": (None, ["model.dropout=1.5"], ["dropout must be", "1.5"]),
    "rows longer than a batch": (None, ["data.max_tokens=20"], ["data.max_tokens is 20", "data.max_length=50"]),
    "BLEU tokenizer": (None, ["metrics.bleu.tokenize=moses"], ["metrics.bleu.tokenize", "'moses'", "13a"]),
    "no GPU": (None, ["trainer.accelerator=gpu"], ["gpu", "cpu"]),
    "precision": (None, ["trainer.precision=17"], ["17", "bf16-mixed"]),
    "time": (None, ["trainer.max_time=soon"], ["soon", "DD:HH:MM:SS"]),
    "no batches to train on": (None, ["trainer.limit_train_batches=0"], ["trainer.limit_train_batches is 0"]),
    "no interval": (None, ["trainer.val_check_interval=0"], ["trainer.val_check_interval must be", "at least 1", "not 0"]),
    "a seed too large": (None, ["seed=5000000000"], ["seed must be a whole number, at least 0 and at most 4294967295, not 5000000000"]),
    "nothing to train for": (None, ["trainer.max_steps=0"], ["trainer.max_steps", "0"]),
    "cosine of unknown length": (None, ["scheduler=cosine", "trainer.max_steps=-1"], ["scheduler.steps", "-1"]),
    "resume missing": (None, ["resume=nowhere.ckpt"], ["nowhere.ckpt", "missing"]),
    "resume is no file": (None, ["resume=true"], ["resume must be text or null", "True"]),
    "output not writable": (None, ["hydra.run.dir=/proc/runs"], ["/proc/runs"]),
}  # fmt: skip


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_in_training_is_told_in_one_line(shell, tmp_path, case):
    change, words, parts = MISTAKES[case]
    root = write_corpus(tmp_path / "corpus")
    (root / "train.tsv").write_text("en\tde\n" + "one\teins\n" * 20)
    if change:
        change(root)
    before = sorted(path for path in root.rglob("*"))
    done = shell.train("trainer.max_steps=2", *words, data=root)
    assert_mistake(done, *parts)
    assert sorted(path for path in root.rglob("*")) == before
    assert not list(shell.folder.glob("runs/*/*/*")), "a run that never began leaves no folder"


RECURRENT_MISTAKES = {
    "unknown attention": (["model.attention=cosine"], ["attention must be one of none, aligned, dot, general, additive", "'cosine'"]),
    "a window without attention": (["model.attention=none", "model.window=local_m"], ["attention=none has no score", "local_m"]),
    "an option of the Transformer": (["model.heads=2"], ["unknown option 'model.heads'"]),
    "tied but not shared": (["tokenizer.shared=false"], ["tie=all", "shared"]),
}


@pytest.mark.parametrize("case", RECURRENT_MISTAKES)
def test_a_mistake_with_a_recurrent_model_is_told_in_one_line(shell, corpus, case):
    words, parts = RECURRENT_MISTAKES[case]
    assert_mistake(shell.train("trainer.max_steps=2", *words, data=corpus, tiny=TINY_RNN), *parts)
    assert not list(shell.folder.glob("runs/*/*/*"))


def test_debug_shows_the_traceback_too(shell, corpus):
    done = shell.train("model.heads=3", "debug=true", data=corpus)
    assert done.code == 2 and "Traceback" in done.err and done.err.splitlines()[-1].startswith("error: ")


def test_a_fault_of_ours_is_not_called_a_mistake(shell, corpus, monkeypatch):
    monkeypatch.setattr("train.make_trainer", lambda *_: 1 / 0)
    done = shell.train("trainer.max_steps=2", data=corpus)
    assert done.code == 1 and "ZeroDivisionError" in done.err


def test_the_command_itself_ends_with_2_and_0(tmp_path):
    done = command("train.py", "model.drpout=0.2", cwd=tmp_path)
    assert_mistake(done, "did you mean 'model.dropout'")
    for script, option in {"train.py": "max_steps", "evaluate.py": "alignment"}.items():
        done = command(script, "--help", cwd=tmp_path)
        assert done.code == 0 and option in done.out and done.err == ""


# Checkpoints


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """The bytes of a good checkpoint, and the corpus that it was trained on."""
    folder = tmp_path_factory.mktemp("trained")
    root = write_corpus(folder / "corpus")
    from tests.runs import TINY

    done = command("train.py", *TINY, f"data.root={root}", "trainer.max_steps=2", "model.positions=learned",
                   "model.max_positions=30", "hydra.run.dir=run", cwd=folder)  # fmt: skip
    assert done.code == 0, done.err
    return (folder / "run" / "checkpoints" / "best.ckpt").read_bytes(), root


def rewritten(path, change):
    content = torch.load(path, weights_only=True)
    change(content)
    torch.save(content, path)


def set_target(part, value):
    def change(content):
        content["duet"]["config"][part]["_target_"] = value

    return lambda path: rewritten(path, change)


class Evil:
    def __reduce__(self):
        return (open, ("pwned", "w"))


def nested(content):
    content["duet"]["config"]["data"]["source"] = {"deep": [{"_target_": "os.system", "command": "touch pwned"}]}


def interpolated(content):
    content["duet"]["config"]["data"]["root"] = "${oc.env:HOME}"


def truncated(path):
    path.write_bytes(path.read_bytes()[:-5000])


def wrong_shape(content):
    content["state_dict"]["model.output"] = torch.zeros(3, 3)


CHECKPOINTS = {
    "missing": (lambda path: path.unlink(), ["missing"]),
    "a folder": (lambda path: (path.unlink(), path.mkdir()), ["missing", "not a file"]),
    "truncated": (truncated, ["not a checkpoint, or cut off"]),
    "empty": (lambda path: path.write_bytes(b""), ["not a checkpoint, or cut off"]),
    "a text": (lambda path: path.write_text("hello"), ["not a checkpoint"]),
    "somebody else's": (lambda path: torch.save({"state_dict": {}}, path), ["not one of Duet"]),
    "a list": (lambda path: torch.save([1, 2], path), ["not one of Duet"]),
    "code in the pickle": (lambda path: torch.save({"duet": Evil(), "state_dict": {}}, path), ["not a checkpoint of Duet"]),
    "a foreign target": (set_target("model", "os.system"), ["'os.system'", "not run"]),
    "a target that begins like ours": (set_target("model", "model.attention.os.getcwd"), ["'model.attention.os.getcwd'", "not run"]),
    "a part that belongs elsewhere": (set_target("model", "data.module.PairData"), ["'data.module.PairData'"]),
    "a nested target": (lambda path: rewritten(path, nested), ["'os.system'"]),
    "a target that is no text": (set_target("model", {"a": 1}), ["best.ckpt"]),
    "an interpolation": (lambda path: rewritten(path, interpolated), ["${oc.env:HOME}"]),
    "weights that do not fit": (lambda path: rewritten(path, wrong_shape), ["does not fit"]),
    "no config": (lambda path: rewritten(path, lambda c: c["duet"].pop("config")), ["damaged"]),
    **{
        f"no {part}": (lambda path, part=part: rewritten(path, lambda c: c["duet"]["config"].pop(part)), ["damaged", part])
        for part in ("data", "model", "decode", "metrics")
    },
    "weights that are none": (lambda path: rewritten(path, lambda c: c.update(state_dict=5)), ["damaged", "weights"]),
    "a weight that is none": (lambda path: rewritten(path, lambda c: c["state_dict"].update({"model.x": "y"})), ["damaged", "weights"]),
    "no part of ours": (lambda path: rewritten(path, lambda c: c.update(duet=5)), ["damaged"]),
    "a config that is none": (lambda path: rewritten(path, lambda c: c["duet"].update(config=[5])), ["damaged"]),
    "a part that is none": (lambda path: rewritten(path, lambda c: c["duet"]["config"].update(data=5)), ["damaged", "data"]),
    "an option of a wrong kind": (lambda path: rewritten(path, lambda c: c["duet"]["config"]["model"].update(layers="x")), ["model.layers must be a whole number"]),
    "an option that is not there": (lambda path: rewritten(path, lambda c: c["duet"]["config"]["model"].update(wings=2)), ["wings"]),
    "arguments beside the options": (lambda path: rewritten(path, lambda c: c["duet"]["config"]["model"].update(_args_=[5])), ["_args_"]),
    "a damaged tokenizer": (lambda path: rewritten(path, lambda c: c["duet"].update(source={"kind": "sentencepiece", "model": b"x"})), ["damaged", "tokenizers"]),
    "no tokenizer": (lambda path: rewritten(path, lambda c: c["duet"].pop("source")), ["damaged"]),
}  # fmt: skip


def test_a_model_is_made_even_if_its_config_asks_for_half_a_one(shell, checkpoint):
    content, root = checkpoint
    (shell.folder / "best.ckpt").write_bytes(content)
    rewritten(shell.folder / "best.ckpt", lambda c: c["duet"]["config"]["model"].update(_partial_=True))
    assert load(shell.folder / "best.ckpt").translate(["one"])


@pytest.mark.parametrize("case", CHECKPOINTS)
def test_a_bad_checkpoint_is_refused_and_nothing_in_it_run(shell, checkpoint, case):
    change, parts = CHECKPOINTS[case]
    content, root = checkpoint
    path = shell.folder / "best.ckpt"
    path.write_bytes(content)
    change(path)
    assert_mistake(shell.evaluate("ckpt=best.ckpt", f"data.root={root}"), *parts)
    assert not (shell.folder / "pwned").exists()


EVALUATIONS = {
    "no checkpoint named": ([], ["ckpt is missing"]),
    "unknown split": (["ckpt=best.ckpt", "split=tset"], ["tset.en", "missing"]),
    "data elsewhere": (["ckpt=best.ckpt", "data.root=nowhere"], ["nowhere/", "missing"]),
    "only a source": (["ckpt=best.ckpt", "source=a.txt"], ["source and reference go together"]),
    "files of unequal length": (["ckpt=best.ckpt", "source=three.txt", "reference=two.txt"], ["three.txt has 3", "two.txt has 2"]),
    "unknown option": (["ckpt=best.ckpt", "batchsize=3"], ["'batchsize'", "did you mean 'batch_size'"]),
    "output not writable": (["ckpt=best.ckpt", "out=/proc/out"], ["/proc/out"]),
    "batch of none": (["ckpt=best.ckpt", "batch_size=0"], ["batch_size", "0"]),
    **{
        f"value: {word}": (["ckpt=best.ckpt", word], [f"{word.partition('=')[0]} must be "])
        for word in ("layers=5", "heads=abc", "alignment.layer=abc", "alignment.write=5", "decode.max_len_a=abc", "data.root=[1]",
                     "batch_size=abc", "batch_size=-1", "limit=abc", "limit=0", "heatmaps=abc", "threads=abc", "seed=null")
    },
    "a number for a group": (["ckpt=best.ckpt", "decode=5"], ["decode is chosen by a name", "beam, couplet, greedy, sample"]),
    "a layer that is not there": (["ckpt=best.ckpt", "heatmaps=1", "layers=[9]"], ["no such layer: [9]"]),
    "no such device": (["ckpt=best.ckpt", "device=tpu"], ["device", "tpu"]),
}


@pytest.mark.parametrize("case", EVALUATIONS)
def test_a_mistake_in_evaluation_is_told_in_one_line(shell, checkpoint, case):
    words, parts = EVALUATIONS[case]
    content, root = checkpoint
    (shell.folder / "best.ckpt").write_bytes(content)
    (shell.folder / "three.txt").write_text("one\ntwo\nthree\n")
    (shell.folder / "two.txt").write_text("eins\nzwei\n")
    roots = [] if any(word.startswith("data.root") for word in words) else [f"data.root={root}"]
    assert_mistake(shell.evaluate(*words, *roots), *parts)
    assert not list(shell.folder.glob("evaluate/**/metrics.json"))


@pytest.mark.parametrize("case", ["new", "resumed", "a folder that has logs"])
def test_a_run_that_fails_at_its_first_batch_leaves_nothing_behind_and_takes_nothing_away(shell, corpus, monkeypatch, case):
    shell.train("trainer.max_steps=2", data=corpus)
    (shell.folder / "logs" / "old").mkdir(parents=True)
    (shell.folder / "logs" / "events.out.tfevents.1").write_text("somebody's")
    before, runs = shell.latest, sorted(path for name in ("runs", "logs") for path in (shell.folder / name).rglob("*"))
    words = {"new": [], "resumed": [f"resume={before}/checkpoints/last.ckpt"], "a folder that has logs": ["hydra.run.dir=logs"]}

    def fail(self, batch, place):
        raise RuntimeError("the power is gone")

    monkeypatch.setattr("tasks.seq2seq.Seq2SeqTask.training_step", fail)
    assert shell.train("trainer.max_steps=4", *words[case], data=corpus).code == 1
    assert shell.latest == before
    assert sorted(path for name in ("runs", "logs") for path in (shell.folder / name).rglob("*")) == runs


# Right without complaint


def encode(lines, *, end="\n", bom=False, last=True):
    text = end.join(lines) + (end if last else "")
    return (b"\xef\xbb\xbf" if bom else b"") + text.encode("utf-8")


FORMS = {
    "CRLF": dict(end="\r\n"),
    "BOM": dict(bom=True),
    "no final newline": dict(last=False),
    "all of it": dict(end="\r\n", bom=True, last=False),
}


@pytest.mark.parametrize("form", FORMS)
def test_forms_of_text_files_train_the_same_model(shell, tmp_path, corpus, form):
    shell.train("trainer.max_steps=3", data=corpus)
    expected = torch.load(shell.latest / "checkpoints/last.ckpt", weights_only=True)["state_dict"]
    root = tmp_path / "with spaces and 中文"
    root.mkdir()
    for path in corpus.iterdir():
        (root / path.name).write_bytes(encode(path.read_text(encoding="utf-8").splitlines(), **FORMS[form]))
    done = shell.train("trainer.max_steps=3", data=root)
    assert done.code == 0, done.err
    got = torch.load(shell.latest / "checkpoints/last.ckpt", weights_only=True)["state_dict"]
    for name in expected:
        torch.testing.assert_close(got[name], expected[name], rtol=0, atol=0)


ODD = ["one\u2028two", "one\u0085two", "one\u00a0two", "one\ttwo", "", "   ", "two\x0cone", "five \u200b"]


def test_one_line_in_is_one_line_out(shell, checkpoint):
    content, _ = checkpoint
    (shell.folder / "best.ckpt").write_bytes(content)
    (shell.folder / "in.txt").write_bytes("".join(line + "\n" for line in ODD).encode())
    (shell.folder / "ref.txt").write_bytes("".join(line + "\n" for line in ODD).encode())
    done = shell.evaluate("ckpt=best.ckpt", "source=in.txt", "reference=ref.txt", "out=out")
    assert done.code == 0, done.err
    lines = (shell.folder / "out/hypotheses.txt").read_text(encoding="utf-8").split("\n")
    assert len(lines) == len(ODD) + 1 and lines[-1] == "" and lines[4] == lines[5] == ""
    assert json.loads((shell.folder / "out/metrics.json").read_text())["sentences"] == len(ODD)


def test_a_source_beyond_the_learned_positions_is_cut_with_a_warning(shell, checkpoint):
    content, _ = checkpoint
    (shell.folder / "best.ckpt").write_bytes(content)
    long = " ".join(word for word, _ in WORDS * 5)
    assert len(long) > 30
    (shell.folder / "in.txt").write_text(long + "\none\n")
    done = shell.evaluate("ckpt=best.ckpt", "source=in.txt", "reference=in.txt", "decode=greedy", "decode.max_len_b=500")
    assert done.code == 0 and done.err == "warning: 1 of 2 sources of in.txt are longer than 29 tokens and cut there\n"
    for line in (shell.folder / "evaluate/in.txt-greedy/hypotheses.txt").read_text().splitlines():
        assert len(line) <= 29
    model = load(shell.folder / "best.ckpt")
    assert model.model.max_source == 30 and len(model.translate([long, "one"])) == 2


def test_compressed_files_are_read(shell, tmp_path, corpus):
    root = tmp_path / "gz"
    root.mkdir()
    for path in corpus.iterdir():
        (root / (path.name + ".gz")).write_bytes(gzip.compress(path.read_bytes()))
    done = shell.train("trainer.max_steps=2", data=root)
    assert done.code == 0, done.err
