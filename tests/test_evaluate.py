"""Scoring a checkpoint: alone in an empty folder, in any batch size, in the order of the file."""

import json
import os
import subprocess
import sys

import pytest

from tasks import load
from tests.runs import ROOT, TINY, WORDS, command, write_corpus


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run's folder and the corpus it was trained on."""
    folder = tmp_path_factory.mktemp("run")
    corpus = write_corpus(folder / "corpus")
    done = command("train.py", *TINY, f"data.root={corpus}", "trainer.max_steps=150", "trainer.val_check_interval=50",
                   "hydra.run.dir=run", "decode=beam", cwd=folder)  # fmt: skip
    assert done.code == 0, done.err
    return folder / "run", corpus


def results(folder):
    return json.loads((folder / "metrics.json").read_text()), (folder / "hypotheses.txt").read_text(encoding="utf-8")


KEYS = {
    "bleu", "bleu_signature", "chrf", "chrf_signature", "ter", "exact_match", "length_ratio", "sentences", "seconds",
    "sentences_per_second", "tokens_per_second", "split", "decode", "ckpt",
}  # fmt: skip


def test_a_checkpoint_alone_gives_what_the_run_gave(shell, trained):
    run, corpus = trained
    content = (run / "checkpoints/best.ckpt").read_bytes()
    (shell.folder / "alone.ckpt").write_bytes(content)
    for size in (1, 5, 64):
        done = shell.evaluate("ckpt=alone.ckpt", f"data.root={corpus}", f"batch_size={size}", f"out={size}")
        assert done.code == 0, done.err
    (metrics, lines), *others = (results(shell.folder / str(size)) for size in (1, 5, 64))
    assert set(metrics) >= KEYS and metrics["sentences"] == 12 and lines.count("\n") == 12
    for other, text in others:
        assert other["bleu"] == metrics["bleu"] and text == lines
    summary = json.loads((run / "metrics.json").read_text())
    for name in ("bleu", "chrf", "ter", "bleu_signature"):
        assert summary[f"test/{name}"] == metrics[name]


def test_a_table_that_nobody_reads_is_no_mistake(trained, tmp_path):
    run, corpus = trained
    words = [f"ckpt={run}/checkpoints/best.ckpt", f"data.root={corpus}", "decode=greedy", "out=out"]
    reader, writer = os.pipe()
    os.close(reader)
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, ROOT / "evaluate.py", *words], cwd=tmp_path, env=environment, stdout=writer,
                          stderr=subprocess.PIPE, timeout=240)  # fmt: skip
    os.close(writer)
    assert done.returncode == 0 and done.stderr == b"" and (tmp_path / "out/metrics.json").is_file()


def test_results_stand_in_the_runs_folder_or_here(shell, trained):
    run, corpus = trained
    done = shell.evaluate(f"ckpt={run}/checkpoints/best.ckpt", "split=valid", "decode=greedy")
    assert done.code == 0 and (run / "evaluate/valid-greedy/metrics.json").is_file()
    (shell.folder / "a=b 中.ckpt").write_bytes((run / "checkpoints/best.ckpt").read_bytes())
    done = shell.evaluate("ckpt=a=b 中.ckpt", f"data.root={corpus}")
    assert done.code == 0 and (shell.folder / "evaluate/test-beam-a=b 中/hypotheses.txt").is_file(), done.err


def test_a_part_of_a_split_and_another_checkpoint_overwrite_nothing(shell, trained):
    run, corpus = trained
    steps = sorted((run / "checkpoints").glob("step_*.ckpt"))
    (shell.folder / "test.de").write_text("eins\n")
    (shell.folder / "test").write_text("one\n")
    for name, *words in (
        ["best"], ["best", "limit=3"], ["last"], [steps[0].stem], ["best", "source=test", "reference=test.de"]
    ):  # fmt: skip
        done = shell.evaluate(f"ckpt={run}/checkpoints/{name}.ckpt", "decode=greedy", *words)
        assert done.code == 0, done.err
    found = {path.parent.name: json.loads(path.read_text())["sentences"] for path in run.glob("evaluate/*/metrics.json")}
    assert found["test-greedy"] == 12 and found["test-greedy-first_3"] == 3 and found["file_test-greedy"] == 1
    assert found[f"test-greedy-{steps[0].stem}"] == found["test-greedy-last"] == 12


def test_of_two_checkpoints_named_the_last_counts(shell, trained):
    run, corpus = trained
    best = run / "checkpoints/best.ckpt"
    done = shell.evaluate("ckpt=nowhere.ckpt", f"ckpt={best}", "decode=greedy", "out=out")
    assert done.code == 0 and results(shell.folder / "out")[0]["ckpt"] == str(best), done.err


def test_a_wrong_alignment_is_told_before_anything_is_translated(shell, trained, monkeypatch):
    run, _ = trained
    monkeypatch.setattr("tasks.evaluation.translate_split", lambda *_: 1 / 0)
    (shell.folder / "short.txt").write_text("0-0\n")
    for word, part in [("alignment.gold=nowhere.txt", "nowhere.txt"), ("alignment.gold=short.txt", "short.txt has 1"),
                       ("alignment.layer=9", "alignment.layer is 9"), ("alignment.head=-9", "alignment.head is -9"),
                       ("alignment.search=true", "needs gold")]:  # fmt: skip
        done = shell.evaluate(f"ckpt={run}/checkpoints/best.ckpt", "alignment.write=true", word, "out=out")
        assert done.code == 2 and part in done.err, (word, done.err)


def test_the_table_is_what_was_measured(shell, trained):
    run, _ = trained
    done = shell.evaluate(f"ckpt={run}/checkpoints/best.ckpt", "out=out")
    metrics, _ = results(shell.folder / "out")
    for part in (f"{metrics['bleu']:.2f}", metrics["bleu_signature"], f"{metrics['chrf']:.2f}", f"{metrics['ter']:.2f}"):
        assert part in done.out


def test_hypotheses_are_those_of_the_python_api(shell, trained):
    run, corpus = trained
    shell.evaluate(f"ckpt={run}/checkpoints/best.ckpt", "decode=greedy", "out=out")
    lines = results(shell.folder / "out")[1].splitlines()
    sources = (corpus / "test.en").read_text().splitlines()
    assert load(run / "checkpoints/best.ckpt").translate(sources, batch_size=5) == lines


def test_two_files_instead_of_a_split_and_blank_lines(shell, trained):
    run, _ = trained
    (shell.folder / "in.txt").write_text("one\n\ntwo\n   \n")
    (shell.folder / "ref.txt").write_text("eins\n\nzwei\n\n")
    done = shell.evaluate(f"ckpt={run}/checkpoints/best.ckpt", "source=in.txt", "reference=ref.txt", "out=out")
    assert done.code == 0, done.err
    lines = results(shell.folder / "out")[1].split("\n")
    assert len(lines) == 5 and lines[0] and lines[2] and lines[1] == lines[3] == lines[4] == ""


def test_another_kind_of_file_can_be_scored(shell, trained):
    run, _ = trained
    (shell.folder / "test.tsv").write_text("a\tb\n" + "".join(f"{e}\t{d}\n" for e, d in WORDS))
    words = ["data=tsv", "data.root=.", "data.test_file=test.tsv", "data.source_column=a", "data.target_column=b"]
    done = shell.evaluate(f"ckpt={run}/checkpoints/best.ckpt", *words, "out=out")
    assert done.code == 0 and results(shell.folder / "out")[0]["sentences"] == 6, done.err


def test_heatmaps_and_a_limit(shell, trained):
    run, _ = trained
    done = shell.evaluate(f"ckpt={run}/checkpoints/best.ckpt", "limit=3", "heatmaps=2", "out=out")
    assert done.code == 0 and results(shell.folder / "out")[0]["sentences"] == 3, done.err
    names = {path.name for path in (shell.folder / "out/heatmaps").iterdir()}
    assert names == {f"{kind}_{n}.png" for kind in ("cross", "encoder", "decoder") for n in (1, 2)}


def test_sampling_is_seeded_and_independent_of_the_batch(shell, trained):
    run, _ = trained
    texts = []
    for size, seed in ((1, 1), (64, 1), (64, 2)):
        words = ["decode=sample", f"decode.seed={seed}", f"batch_size={size}", f"out=s{size}-{seed}"]
        assert shell.evaluate(f"ckpt={run}/checkpoints/best.ckpt", *words).code == 0
        texts.append(results(shell.folder / f"s{size}-{seed}")[1])
    assert texts[0] == texts[1] != texts[2]


def test_an_ensemble_is_evaluated_like_a_model(shell, trained):
    run, _ = trained
    (shell.folder / "a.ckpt").write_bytes((run / "checkpoints/best.ckpt").read_bytes())
    assert shell.evaluate("ckpt=a.ckpt", "source=in.txt", "reference=in.txt").code == 2  # there is no in.txt
    words = [f"data.root={trained[1]}", "decode=beam"]
    alone = shell.evaluate("ckpt=a.ckpt", *words, "out=one")
    done = shell.evaluate("ckpt=[a.ckpt,a.ckpt]", *words, "ensemble=log_linear")
    assert alone.code == done.code == 0, done.err
    (there,) = shell.folder.glob("evaluate/*")
    one, two = results(shell.folder / "one"), results(there)
    assert one[1] == two[1] and two[0]["ckpt"] == ["a.ckpt", "a.ckpt"] and two[0]["ensemble"] == "log_linear"
    (shell.folder / "b.ckpt").write_bytes((shell.folder / "a.ckpt").read_bytes())
    for way in (["ckpt=[a.ckpt,a.ckpt]"], ["ckpt=[a.ckpt,b.ckpt]", "ensemble=log_linear"]):
        assert shell.evaluate(*way, *words, "limit=2").code == 0
    names = sorted(path.name for path in shell.folder.glob("evaluate/*"))
    assert len(names) == 3 and all(name.startswith("test-beam-ensemble_of_2-") for name in names), "none overwrites another"
    wrong = shell.evaluate("ckpt=[a.ckpt,a.ckpt]", *words, "ensemble=median")
    assert wrong.code == 2 and "linear, log_linear" in wrong.err and wrong.err.count("\n") == 1


def test_the_order_of_the_data_changes_the_order_of_the_output_alone(shell, trained):
    run, corpus = trained
    sides = [(corpus / f"test.{side}").read_text(encoding="utf-8").splitlines() for side in ("en", "de")]
    found = []
    for name, step in (("forth", 1), ("back", -1)):
        for side, lines in zip(("in", "ref"), sides):
            (shell.folder / f"{side}.{name}").write_text("".join(line + "\n" for line in lines[::step]), encoding="utf-8")
        words = [f"source=in.{name}", f"reference=ref.{name}", f"out={name}", "batch_size=5"]
        assert shell.evaluate(f"ckpt={run}/checkpoints/best.ckpt", *words).code == 0
        found.append(results(shell.folder / name))
    (forth, lines), (back, reversed_lines) = found
    assert forth["bleu"] == back["bleu"] and lines.splitlines() == reversed_lines.splitlines()[::-1]
