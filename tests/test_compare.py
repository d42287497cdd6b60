"""Comparing models: the command on real runs, small ones."""

import json
import shutil
from pathlib import Path

import pytest
import torch

from tasks import compare, runs
from tasks.evaluation import evaluate
from tests.browser import visit
from tests.runs import TINY_RNN, write_corpus

QUICK = ["bootstrap=100", "randomization=100", "heatmaps=0", "decode=greedy"]


@pytest.fixture
def experiment(shell, small_sweep):
    """A folder of runs of two models: one has an older run too, and one that did not finish."""
    root = shell.folder / "runs" / "counting"
    for model, date, heads in (("two", "2026-01-02", 2), ("two", "2026-01-01", 4), ("four", "2026-01-01", 4)):
        shutil.copytree(small_sweep.run(heads).folder, root / model / f"{date}_10-00-00")
    shutil.copytree(root / "four" / "2026-01-01_10-00-00", root / "four" / "2026-01-09_10-00-00")
    (root / "four" / "2026-01-09_10-00-00" / "metrics.json").unlink()
    return root


def report_of(folder):
    return json.loads((folder / "compare.json").read_text(encoding="utf-8"))


def test_an_experiment_in_one_command(shell, experiment):
    done = shell.compare(str(experiment), *QUICK, "heatmaps=2", "examples=4")
    assert done.code == 0, done.err
    folder = experiment / "compare" / "test-greedy"
    report = report_of(folder)
    models = {model["name"]: model for model in report["models"]}
    assert set(models) == {"two", "four"}
    scores = [model["bleu"] for model in report["models"]]
    assert scores == sorted(scores, reverse=True) and report["baseline"] == report["models"][0]["name"]
    for name, model in models.items():
        run = Path(model["ckpt"]).parents[1]
        summary = json.loads((run / "metrics.json").read_text())
        assert model["parameters"] == summary["parameters"] and model["steps"] == summary["steps"] == 60
        assert model["minutes"] == summary["seconds"] / 60 and model["best_step"] == summary["best_step"]
        assert model["train_tokens_per_second"] == pytest.approx(summary["train_tokens"] / summary["train_seconds"])
        for metric in ("bleu", "chrf", "ter", "length_ratio"):
            assert model[metric] == summary[f"test/{metric}"], "the run's own test was greedy too"
        assert len(report["curves"][name]["values"]) == 3 and report["curves"][name]["steps"] == [20, 40, 60]
        lines = (run / "evaluate" / "test-greedy" / "hypotheses.txt").read_text(encoding="utf-8").splitlines()
        assert len(lines) == 12 and all(lines[e["line"] - 1] in [o["text"] for o in e["outputs"]] for e in report["examples"])
        for part in (name, f"{model['bleu']:.2f} ± {model['bleu_half_width']:.2f}", f"{model['ter']:.2f}"):
            assert part in done.out
    assert report["settings"]["model.heads"] == {"two": 2, "four": 4} and len(report["examples"]) == 4
    assert sum(bucket["sentences"] for bucket in report["lengths"]["buckets"]) == 12
    assert "nrefs:1|case:mixed|eff:no|tok:13a" in done.out and "left out 1 older run" in done.out and "not finished" in done.out
    names = {path.name for path in folder.iterdir()}
    assert names == {"compare.json", "compare.md", "compare.html", "bleu_by_length.png", "training_curves.png"}
    text = (folder / "compare.html").read_text(encoding="utf-8")
    assert text.count("data:image/png") == 2 + 2 * 2


def test_a_browser_opens_the_page_of_real_runs_without_a_request_or_a_complaint(shell, experiment, chromium):
    done = shell.compare(str(experiment), *QUICK, "heatmaps=1", "examples=2", "out=out")
    assert done.code == 0, done.err
    assert visit(shell.folder / "out" / "compare.html")[:2] == ([], [])


def test_the_scores_are_those_of_evaluate(shell, small_sweep):
    for heads in (2, 4):
        shutil.copy(small_sweep.run(heads).ckpt, shell.folder / f"{heads}.ckpt")
        done = shell.evaluate(f"ckpt={heads}.ckpt", "decode=beam", f"out=evaluated/{heads}")
        assert done.code == 0, done.err
    done = shell.compare("2.ckpt", "4.ckpt", "out=compared", *QUICK[:3])
    assert done.code == 0, done.err
    for model in report_of(shell.folder / "compared")["models"]:
        alone = shell.folder / "evaluated" / model["name"]
        metrics = json.loads((alone / "metrics.json").read_text())
        for name in ("bleu", "chrf", "ter", "length_ratio", "exact_match", "decode"):
            assert model[name] == metrics[name]
        assert Path(model["hypotheses"]).read_bytes() == (alone / "hypotheses.txt").read_bytes()
        assert model["steps"] == torch.load(shell.folder / f"{model['name']}.ckpt", weights_only=True)["global_step"]
        assert model["best_step"] is None and model["minutes"] > 0, "a lone checkpoint knows how long it was trained"


def hypotheses_of(experiment):
    return experiment / "two" / "2026-01-02_10-00-00" / "evaluate" / "test-greedy" / "hypotheses.txt"


def other_weights(experiment, corpus):
    path = hypotheses_of(experiment).parents[2] / "checkpoints" / "best.ckpt"
    content = torch.load(path, weights_only=True)
    content["state_dict"] = {name: value + 0.01 for name, value in content["state_dict"].items()}
    torch.save(content, path)
    return []


def other_lines(experiment, corpus):
    path = hypotheses_of(experiment)
    path.write_text("".join(line + "\n" for line in ["something else", *path.read_text().splitlines()[1:]]))
    return []


def cut_metrics(experiment, corpus):
    (hypotheses_of(experiment).parent / "metrics.json").write_text("{")
    return []


def other_sources(experiment, corpus):
    root = experiment / "corpus"
    shutil.copytree(corpus, root)
    (root / "test.en").write_text((root / "test.en").read_text().replace("one", "two"))
    return [f"data.root={root}"]


CHANGES = {  # what is done to the run or the command, whether the translation is still good
    "nothing": (lambda *_: [], True),
    "other scores": (lambda *_: ["metrics.bleu.lowercase=true"], True),
    "the weights": (other_weights, False),
    "the sources": (other_sources, False),
    "the search": (lambda *_: ["decode.max_len_b=3"], False),
    "the batches, and with them the speed": (lambda *_: ["batch_size=5"], False),
    "the length that is read": (lambda *_: ["data.max_length=10"], False),
    "hypotheses": (other_lines, False),
    "metrics.json": (cut_metrics, False),
    "reuse=false": (lambda *_: ["reuse=false"], False),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_translation_is_used_again_only_if_it_would_be_the_same(shell, experiment, corpus, change):
    run = experiment / "two" / "2026-01-02_10-00-00"

    def evaluated(*words):
        candidate = compare.read(runs.find([str(run)])[0][0], ["decode=greedy", *words])
        return evaluate(candidate.subject, compare.result_folder(candidate, shell.folder), reuse=candidate.subject.config.reuse)

    assert not evaluated().reused
    make, good = CHANGES[change]
    words = make(experiment, corpus)
    second = evaluated(*words)
    assert second.reused is good
    if good:
        fresh = evaluated(*words, "reuse=false")
        assert second.hypotheses == fresh.hypotheses and second.result["bleu"] == fresh.result["bleu"]


def test_steps_of_a_run_beside_its_best(shell, experiment):
    run = experiment / "two" / "2026-01-02_10-00-00"
    for _ in range(2):
        done = shell.compare(str(run), str(run / "checkpoints" / "step_20.ckpt"), "out=out", "baseline=two step_20", *QUICK)
        assert done.code == 0, done.err
    report = report_of(shell.folder / "out")
    models = {model["name"]: model for model in report["models"]}
    assert set(models) == {"two", "two step_20"} and all(model["reused"] for model in models.values())
    assert models["two step_20"]["steps"] == 20 and models["two step_20"]["minutes"] < models["two"]["minutes"]
    assert report["baseline"] == "two step_20" and {test["name"] for test in report["significance"]["tests"]} == {"two"}
    assert {path.name for path in (run / "evaluate").iterdir()} == {"test-greedy", "test-greedy-step_20"}


def test_an_alignment_is_kept_when_the_translation_is_used_again(shell, experiment):
    run = experiment / "two" / "2026-01-02_10-00-00"
    done = shell.evaluate(f"ckpt={run}/checkpoints/best.ckpt", "decode=greedy", "alignment.write=true")
    assert done.code == 0, done.err
    before = json.loads((run / "evaluate/test-greedy/metrics.json").read_text())["alignment"]
    assert shell.compare(str(run), "out=out", *QUICK).code == 0
    model = report_of(shell.folder / "out")["models"][0]
    assert model["reused"] and "alignment" not in model, "a comparison that did not ask has none"
    assert json.loads((run / "evaluate/test-greedy/metrics.json").read_text())["alignment"] == before


def test_checkpoints_of_similar_names_have_files_of_their_own(shell, small_run):
    for name in ("p/best.ckpt", "q/best.ckpt", "p_best.ckpt", "p__best.ckpt"):
        (shell.folder / name).parent.mkdir(exist_ok=True)
        shutil.copy(small_run.ckpt, shell.folder / name)
    done = shell.compare("p/best.ckpt", "q/best.ckpt", "p_best.ckpt", "p__best.ckpt", "out=out", "limit=3", *QUICK)
    assert done.code == 0, done.err
    assert len({model["hypotheses"] for model in report_of(shell.folder / "out")["models"]}) == 4


DAMAGES = {  # file of the run -> its content
    "numbers that are none": ("metrics.json", '{"train_seconds": "x", "train_tokens": 3, "seconds": null, "best_step": "x"}'),
    "steps that are none": ("metrics.json", '{"steps": [1]}'),
    "a list": ("metrics.json", "[]"),
    "no YAML": ("config.yaml", "a: ["),
    "a reference to nothing": ("config.yaml", "x: ${y}"),
    "no mapping": ("config.yaml", "- 1"),
    "no UTF-8": ("config.yaml", b"\xff"),
}


@pytest.mark.parametrize("case", DAMAGES)
def test_a_damaged_run_is_compared_all_the_same(shell, experiment, case):
    file, content = DAMAGES[case]
    run = experiment / "two" / "2026-01-02_10-00-00"
    (run / file).write_bytes(content if isinstance(content, bytes) else content.encode())
    done = shell.compare(str(run), "out=out", "limit=3", *QUICK)
    assert done.code == 0, done.err


def test_a_checkpoint_without_the_state_of_its_callbacks_is_compared_all_the_same(shell, small_run):
    content = torch.load(small_run.ckpt, weights_only=True)
    torch.save(content | {"callbacks": 5}, shell.folder / "a.ckpt")
    assert shell.compare("a.ckpt", "out=out", "limit=3", *QUICK).code == 0


def test_heatmaps_are_of_what_was_translated(shell, small_run):
    """A source that is cut for the translation is cut for the picture too."""
    shutil.copy(small_run.ckpt, shell.folder / "a.ckpt")
    entry = runs.find(["a.ckpt"])[0][0]
    subject = compare.read(entry, ["decode=greedy", "data.max_length=4"]).subject
    place = max(range(len(subject.sources)), key=lambda i: len(subject.sources[i]))
    assert len(compare.look(subject, place).labels["cross"][1]) == 5  # with EOS


def test_the_same_model_twice_differs_in_nothing(shell, experiment):
    done = shell.compare(str(experiment), "all=true", "limit=7", "out=out", "baseline=four", *QUICK)
    assert done.code == 0, done.err
    report = report_of(shell.folder / "out")
    names = [model["name"] for model in report["models"]]
    assert sorted(names) == ["four", "two/2026-01-01_10-00-00", "two/2026-01-02_10-00-00"] and report["sentences"] == 7
    tests = [t for t in report["significance"]["tests"] if t["name"] == "two/2026-01-01_10-00-00"]
    assert [(t["difference"], t["p_bootstrap"], t["p_randomization"]) for t in tests] == [(0.0, 1.0, 1.0)] * 2


def test_alignments_of_all_models(shell, experiment, corpus):
    lines = (corpus / "test.en").read_text().splitlines()
    gold = "".join(" ".join(f"{i}-{i}" for i in range(len(line.split()))) + "\n" for line in lines)
    (shell.folder / "gold.txt").write_text(gold)
    done = shell.compare(str(experiment), "alignment.gold=gold.txt", "alignment.search=true", *QUICK, "out=out")
    assert done.code == 0, done.err
    for model in report_of(shell.folder / "out")["models"]:
        found = model["alignment"]
        assert f"{found['aer']:.3f}" in done.out and f"{found['search'][0]['aer']:.3f}" in done.out
        assert len((Path(model["hypotheses"]).parent / "alignment.txt").read_text().splitlines()) == 12
    assert "best of all" in (shell.folder / "out" / "compare.html").read_text()


def test_each_may_search_as_its_run_did(shell, experiment):
    path = experiment / "two" / "2026-01-02_10-00-00" / "checkpoints" / "best.ckpt"
    content = torch.load(path, weights_only=True)
    content["duet"]["config"]["decode"] = {"_target_": "tasks.decoding.Beam", "size": 2}
    torch.save(content, path)
    done = shell.compare(str(experiment), *QUICK[:3], "decode=checkpoint", "out=out")
    assert done.code == 0, done.err
    decode = report_of(shell.folder / "out")["decode"]
    assert "two: beam (size 2)" in decode and "four: greedy" in decode


# Mistakes


def elsewhere(change):
    """A checkpoint whose corpus is another one."""

    def make(folder, ckpt, corpus):
        root = write_corpus(folder / "other")
        change(root)
        content = torch.load(ckpt, weights_only=True)
        content["duet"]["config"]["data"]["root"] = str(root)
        torch.save(content, folder / "other.ckpt")

    return make


def cut(root):
    for name in ("test.en", "test.de"):
        (root / name).write_text("".join((root / name).read_text().splitlines(keepends=True)[:5]))


def reword(root):
    lines = (root / "test.de").read_text().splitlines()
    (root / "test.de").write_text("".join(line + "\n" for line in [*lines[:3], "etwas anderes", *lines[4:]]))


def resource(root):
    (root / "test.en").write_text((root / "test.en").read_text().upper())


def other_bleu(folder, ckpt, corpus):
    content = torch.load(ckpt, weights_only=True)
    content["duet"]["config"]["metrics"]["bleu"]["tokenize"] = "char"
    torch.save(content, folder / "other.ckpt")


BOTH = ["a.ckpt", "other.ckpt"]

MISTAKES = {  # what is made beside a.ckpt, words, what the error line says
    "nothing named": (None, [], ["nothing to compare"]),
    "no such path": (None, ["nowhere"], ["nowhere is missing", "checkpoint"]),
    "no run inside": (None, ["."], ["holds no finished run"]),
    "no checkpoint": (lambda folder, *_: (folder / "b.ckpt").write_text("x"), ["b.ckpt"], ["b.ckpt is not a checkpoint"]),
    "fewer references": (elsewhere(cut), BOTH, ["a and other cannot be compared on test", "12 references", "other 5"]),
    "other references": (elsewhere(reword), BOTH, ["1 of 12 references differ", "line 4", "'etwas anderes'", "sha256"]),
    "other sources": (elsewhere(resource), BOTH, ["sources differ", "line 1"]),
    "another tokenizer of BLEU": (other_bleu, BOTH, ["BLEU's tokenize is 13a", "char", "metrics.bleu.tokenize"]),
    "unknown split": (None, ["a.ckpt", "split=tset"], ["tset.en", "missing"]),
    "unknown baseline": (None, ["a.ckpt", "baseline=b"], ["baseline is 'b'", "choose one of a"]),
    "unknown option": (None, ["a.ckpt", "basline=b"], ["'basline'", "did you mean 'baseline'"]),
    "unknown decode": (None, ["a.ckpt", "decode=bean"], ["'bean'", "did you mean 'beam'"]),
    "few resamples": (None, ["a.ckpt", "bootstrap=10"], ["bootstrap must be a whole number, at least 100, not 10"]),
    "no number": (None, ["a.ckpt", "examples=few"], ["examples must be a whole number, at least 0, not 'few'"]),
    "no answer": (None, ["a.ckpt", "all=maybe"], ["all must be true or false, not 'maybe'"]),
    "no such layer": (None, ["a.ckpt", *QUICK, "layers=[9]", "heatmaps=1"], ["no such layer"]),
    "no layer to align by": (None, ["a.ckpt", *QUICK, "alignment.write=true", "alignment.layer=9"], ["alignment.layer is 9"]),
    "not writable": (None, ["a.ckpt", "out=/proc/x", *QUICK], ["/proc/x"]),
    "a flag": (None, ["a.ckpt", "--fast"], ["--fast"]),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_is_told_in_one_line(shell, small_run, case):
    make, words, parts = MISTAKES[case]
    shutil.copy(small_run.ckpt, shell.folder / "a.ckpt")
    if make:
        make(shell.folder, shell.folder / "a.ckpt", small_run.corpus)
    done = shell.compare(*words)
    assert done.code == 2 and done.err.count("\n") == 1 and done.err.startswith("error: "), done
    for part in parts:
        assert part in done.err, done.err
    assert not list(shell.folder.glob("compare/*/compare.json"))


def test_one_command_can_set_bleu_for_all(shell, small_run):
    shutil.copy(small_run.ckpt, shell.folder / "a.ckpt")
    other_bleu(shell.folder, shell.folder / "a.ckpt", small_run.corpus)
    done = shell.compare(*BOTH, "metrics.bleu.tokenize=13a", *QUICK)
    assert done.code == 0, done.err
    assert (shell.folder / "compare" / "test-greedy" / "compare.md").is_file()


def test_help(shell):
    done = shell.compare("--help")
    assert done.code == 0 and "baseline" in done.out and done.err == ""


WORDS = [
    (["runs/a", "split=test"], ["runs/a"], ["split=test"]),
    (["split=test", "a.ckpt", "b.ckpt"], ["a.ckpt", "b.ckpt"], ["split=test"]),
    (["here=1/a.ckpt", "split=数据"], ["here=1/a.ckpt"], ["split='数据'"]),  # it exists
    (["-h"], [], ["-h"]),
]


@pytest.mark.parametrize("words, paths, overrides", WORDS)
def test_paths_and_overrides(shell, words, paths, overrides):
    (shell.folder / "here=1").mkdir()
    (shell.folder / "here=1" / "a.ckpt").touch()
    assert compare.separate(words) == (paths, overrides)


def test_a_model_without_attention_has_no_alignment_and_no_heatmap(shell, experiment, corpus):
    done = shell.train("model=rnn_none", "trainer.max_steps=2", "hydra.run.dir=none", data=corpus, tiny=TINY_RNN)
    assert done.code == 0, done.err
    (shell.folder / "gold.txt").write_text("0-0\n" * 12)
    four = str(experiment / "four" / "2026-01-01_10-00-00")
    done = shell.compare("none", four, "alignment.gold=gold.txt", "alignment.write=true", "out=out", *QUICK, "heatmaps=1")
    assert done.code == 0, done.err
    models = {model["name"]: model for model in report_of(shell.folder / "out")["models"]}
    assert "alignment" not in models["none"] and "aer" in models["four"]["alignment"]
    text = (shell.folder / "out" / "compare.html").read_text()
    assert text.count("no attention to show") == 1 and text.count("data:image/png") == 3
