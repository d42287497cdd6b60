"""Training on couplets and telling how the rules are kept, from the files to metrics.json."""

import json
from types import SimpleNamespace

import pytest
from omegaconf import OmegaConf

from data.errors import DuetError
from data.module import PairData
from data.sources import Tsv
from data.tokenizer import Characters
from tasks.evaluation import Subject, couplet_figures, training_answers
from tests.runs import TINY

PAIRS = [
    ("春风吹柳绿", "秋月照花红"), ("山高云自起", "海阔月常明"), ("白日依山尽", "黄河入海流"), ("春风，秋月", "白雪，红梅"),
    ("青山依旧在", "绿水自长流"), ("云开天地远", "雨过水山新"), ("日月光天德", "山河壮帝居"), ("花开春不老", "月照夜常明"),
]  # fmt: skip
WORDS = [word for word in TINY if not word.startswith(("data", "decode", "tokenizer"))]
FIGURES = ("length_match", "punctuation_match", "repetition_match")


def write(folder, pairs, *names):
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        text = "upper\tlower\n" + "".join(f"{upper}\t{lower}\n" for upper, lower in pairs)
        (folder / f"{name}.tsv").write_text(text, encoding="utf-8")


@pytest.fixture
def corpus(tmp_path):
    write(tmp_path / "corpus", PAIRS, "train", "valid", "test")
    return tmp_path / "corpus"


def train(shell, corpus, *words):
    return shell.train("experiment=couplet_classical", "trainer.max_steps=10", *words, data=corpus, tiny=WORDS)


def test_how_the_rules_are_kept_is_told_beside_references_copies_and_random_lines(shell, corpus):
    assert train(shell, corpus, "test=false").code == 0
    done = shell.evaluate("ckpt=runs/latest/checkpoints/best.ckpt", "out=out")
    assert done.code == 0, done.err
    figures = json.loads((shell.folder / "out/metrics.json").read_text())
    found, systems = figures["couplet"], figures["couplet"]["systems"]
    assert figures["given_up"] == {} and found["tones"] == "pingshui" and found["perplexity"] > 1
    assert all(systems["answers"][name] == 100 for name in FIGURES) and systems["answers"]["copied_lines"] == 0
    assert systems["reference"]["bleu"] == pytest.approx(100) and systems["copy"]["copied_lines"] == len(PAIRS)
    assert systems["random"]["length_match"] == 100
    for title in ("answers", "reference", "copy", "random", "tone_contrast", "perplexity", "given up: nothing"):
        assert title in done.out


def test_couplets_of_several_clauses_and_no_test_set(shell, corpus):
    """The public set of 对联 has no test split: the experiment takes `valid`."""
    (corpus / "test.tsv").unlink()
    done = shell.train("experiment=couplet_duilian", "trainer.max_steps=10", data=corpus, tiny=WORDS)
    assert done.code == 0, done.err
    assert "runs/couplet_duilian/" in done.out and "test: BLEU" in done.out
    done = shell.evaluate("ckpt=runs/latest/checkpoints/best.ckpt", "split=valid", "out=out")
    found = json.loads((shell.folder / "out/metrics.json").read_text())["couplet"]["systems"]["answers"]
    assert all(found[name] == 100 for name in FIGURES)
    answers = (shell.folder / "out/hypotheses.txt").read_text(encoding="utf-8").splitlines()
    assert answers[[upper for upper, _ in PAIRS].index("春风，秋月")][2] == "，"


def test_one_model_for_both_collections(shell, tmp_path):
    write(tmp_path / "data/couplets", PAIRS[:5], "train", "test")
    write(tmp_path / "data/duilian", PAIRS[5:], "train", "valid")
    done = shell.train("experiment=couplet_both", "trainer.max_steps=10", data=tmp_path / "data", tiny=WORDS)
    assert done.code == 0, done.err
    assert "training pairs of couplets/train and duilian/train" in done.out and "runs/couplet_both/" in done.out
    for folder, split in (("couplets", "test"), ("duilian", "valid")):
        words = [f"data.root={tmp_path}/data/{folder}", f"split={split}", f"data.{split}_file={split}", f"out={folder}"]
        assert shell.evaluate("ckpt=runs/latest/checkpoints/best.ckpt", *words).code == 0
        figures = json.loads((shell.folder / folder / "metrics.json").read_text())["couplet"]
        assert all(figures["systems"]["answers"][name] == 100 for name in FIGURES)


def test_what_was_given_up_is_counted(shell, corpus):
    """In an alphabet of three characters some lines cannot avoid those of the upper line."""
    write(corpus, [("春风春月", "春月春风"), ("风月", "月春")], "train", "valid", "test")
    assert train(shell, corpus, "test=false").code == 0
    done = shell.evaluate("ckpt=runs/latest/checkpoints/best.ckpt", "out=out")
    figures = json.loads((shell.folder / "out/metrics.json").read_text())
    assert figures["given_up"] == {"copy": 2}  # the second line leaves 春 alone, which may not stand there twice
    assert "given up: copy in" in done.out


def figures_of(root, train_file):
    """The figures of references as answers, without a model."""
    columns = {"source_column": "upper", "target_column": "lower"}
    data = PairData(Tsv, Characters.train, Characters.train, root=str(root), train_file=train_file, **columns)
    model = SimpleNamespace(score=lambda sources, references, limit: [])
    config = OmegaConf.create({"metrics": {"couplet": "pingshui"}, "seed": 1})
    texts = data.sources("test"), data.references("test")
    subject = Subject((), model, config, data, "test", *texts, None)
    return couplet_figures(subject, texts[1], training_answers(subject))


@pytest.mark.parametrize("files", ["elsewhere", ["train", "elsewhere"]])
def test_without_the_training_split_there_are_no_random_lines(corpus, files):
    assert "random" not in figures_of(corpus, files)["systems"] and "random" in figures_of(corpus, "train")["systems"]


@pytest.mark.parametrize("content, reason", [
    (b"\xff\n", "train.tsv, line 1: not UTF-8"),
    (b"one\ttwo\n", "train.tsv has no column 'upper'"),
    (b"upper\tlower\n", "train.tsv is empty"),
])  # fmt: skip
def test_a_damaged_training_split_is_told(corpus, content, reason):
    (corpus / "train.tsv").write_bytes(content)
    with pytest.raises(DuetError, match=reason):
        figures_of(corpus, "train")


def test_it_is_told_before_anything_is_translated(shell, corpus):
    assert train(shell, corpus, "test=false").code == 0
    (corpus / "train.tsv").write_bytes(b"\xff\n")
    done = shell.evaluate("ckpt=runs/latest/checkpoints/best.ckpt", "out=out")
    assert done.code == 2 and "train.tsv, line 1: not UTF-8" in done.err and not list((shell.folder / "out").iterdir())


def test_several_training_files_are_one_corpus(shell, tmp_path):
    write(tmp_path / "both/a", PAIRS[:5], "train", "valid", "test")
    write(tmp_path / "both/b", PAIRS[5:], "train")
    files = ["data.train_file=[a/train,b/train]", "data.valid_file=a/valid", "data.test_file=a/test"]
    done = train(shell, tmp_path / "both", *files)
    assert done.code == 0, done.err
    assert "training pairs of a/train and b/train" in done.out and "read" in done.out
    assert next(line.split()[-1] for line in done.out.splitlines() if line.strip().startswith("kept")) == str(len(PAIRS))


@pytest.mark.parametrize(
    "words, part",
    [
        (["tokenizer=sentencepiece", "tokenizer.vocab_size=120"], "tokenizer=characters"),
        (["metrics.couplet=cantonese"], "tones are 'cantonese'"),
        (["decode.tone_system=cantonese"], "decode.tone_system"),
        (["data.train_file=[]"], "data.train_file"),
        (["data.train_file=[train,missing]"], "missing"),
    ],
)
def test_a_mistake_is_told_before_training(shell, corpus, words, part):
    done = train(shell, corpus, *words)
    assert done.code == 2 and done.err.count("\n") == 1 and part in done.err, done.err
    assert not (shell.folder / "runs/latest").exists()
