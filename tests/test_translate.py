"""python -m tasks.translate: lines in, lines out."""

import gzip
import io
import itertools
import json
import math
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest
import torch

from data.errors import DuetError
from data.tokenizer import UNK, Characters, SentencePiece
from tasks import heatmap, load, terminal, translate
from tasks.build import BLANK, NOTHING
from tasks.decoding import Beam, Greedy, Request, Sample
from tasks.lines import terminal_asks, windows
from tasks.sentences import joined, sentences
from tests.runs import ROOT, TINY_RNN, WORDS

LINES = ["one two", "", "three", "   ", "five four three two one", "two"] * 9


@pytest.fixture
def here(shell, small_run):
    """The shell, with a checkpoint and a file to translate."""
    (shell.folder / "a.ckpt").write_bytes(small_run.ckpt.read_bytes())
    (shell.folder / "in.txt").write_text("".join(line + "\n" for line in LINES))
    return shell


def run(shell, *words):
    return shell.run(translate, "translate", words)


def written(shell, name="out.txt"):
    return (shell.folder / name).read_text(encoding="utf-8").split("\n")


def test_one_line_out_for_each_in(here):
    done = run(here, "ckpt=a.ckpt", "input=in.txt", "output=out.txt")
    assert done.code == 0 and done.err == "", done.err
    lines = written(here)
    assert len(lines) == len(LINES) + 1 and lines.pop() == ""
    assert lines == load(here.folder / "a.ckpt").translate(LINES)
    for source, line in zip(LINES, lines):
        assert bool(line) == bool(source.strip())


@pytest.mark.parametrize("window, batch", [(1, 1), (3, 2), (16, 7), (4096, 64)])
@pytest.mark.parametrize("decode", ["greedy", "beam", "sample"])
def test_windows_and_batches_change_nothing(here, window, batch, decode):
    words = ["ckpt=a.ckpt", "input=in.txt", f"decode={decode}"]
    run(here, *words, "output=whole.txt")
    done = run(here, *words, "output=out.txt", f"window={window}", f"batch_size={batch}")
    assert done.code == 0, done.err
    assert written(here) == written(here, "whole.txt")


def test_windows_grow():
    sizes = [len(window) for window in windows(iter(map(str, range(200))), 64)]
    assert sizes == [1, 2, 4, 8, 16, 32, 64, 64, 9]
    assert [len(window) for window in windows(iter("abcd"), 2)] == [1, 2, 1]


INPUTS = {  # name, content, words, the same in plain lines
    "gzip": ("in.txt.gz", gzip.compress(b"one\ntwo\n"), [], ["one", "two"]),
    "CRLF, byte order mark, no end": ("crlf.txt", b"\xef\xbb\xbfone\r\ntwo", [], ["one", "two"]),
    "a column by number": ("in.tsv", b"x\tone\n\ny\ttwo\n", ["column=1"], ["one", "", "two"]),
    "a column by name": ("in.tsv", b"id\ten\n1\tone\n2\ttwo\n", ["column=en"], ["one", "two"]),
    "JSON": ("in.jsonl", b'{"en": "one"}\n{"en": null}\n{"en": "two"}\n', ["column=en"], ["one", "", "two"]),
    "JSON by its first line": ("in.txt", b'{"en": "one"}\n\n', ["column=en"], ["one", ""]),
    "braces in a table": ("in.tsv", b'{"a": 1}\tone\n{b}\ttwo\n', ["column=1"], ["one", "two"]),
    "braces in a text": ("in.txt", b"{a}\tone\n{b}\ttwo\n", ["column=1"], ["one", "two"]),
    "JSON inside": ("in.jsonl", b'{"translation": {"en": "one"}}\n', ["column=en"], ["one"]),
    "a name with = and blanks": ("a b=c [1].txt", b"one\n", [], ["one"]),
    "odd blanks": ("odd.txt", "one\u2028two\n\u00a0\none\x0ctwo\n".encode(), [], ["one\u2028two", "\u00a0", "one\x0ctwo"]),
    "nothing": ("empty.txt", b"", [], []),
}


@pytest.mark.parametrize("case", INPUTS)
def test_what_can_be_read(here, case):
    name, content, words, lines = INPUTS[case]
    (here.folder / name).write_bytes(content)
    done = run(here, "ckpt=a.ckpt", f"input={name}", "output=out.txt", *words)
    assert done.code == 0, done.err
    assert written(here)[:-1] == load(here.folder / "a.ckpt").translate(lines)


def test_json_has_what_the_search_found(here):
    words = ["ckpt=a.ckpt", "input=in.txt", "output=out.txt", "format=json", "decode=beam", "decode.n_best=3", "align=true"]
    done = run(here, *words)
    assert done.code == 0, done.err
    model, decode = load(here.folder / "a.ckpt"), Beam(n_best=3)
    records = [json.loads(line) for line in written(here)[:-1]]
    assert [record["line"] for record in records] == list(range(1, len(LINES) + 1))
    for record, source, found in zip(records, LINES, model.search(LINES, decode=decode)):
        assert record["source"] == source and not record["truncated"]
        assert [h["text"] for h in record["hypotheses"]] == [h.text for h in found]
        for entry, hypothesis in zip(record["hypotheses"], found):
            assert entry["score"] == pytest.approx(hypothesis.score, abs=1e-4)
            assert [piece for piece, _ in entry["tokens"]] == hypothesis.pieces
            assert sum(value for _, value in entry["tokens"]) == pytest.approx(entry["log_prob"], abs=1e-3)
            links = [tuple(map(int, link.split("-"))) for link in entry["alignment"].split()]
            assert all(a < len(source.split()) and b < len(entry["text"].split()) for a, b in links)
            assert not source.strip() or links


def test_json_of_a_line_without_an_answer_has_none(here, monkeypatch):
    """Nothing that was found is no certain blank; what a search gave up is told."""
    found = load(here.folder / "a.ckpt").search(["one", "two"])
    nothing, free = [NOTHING._replace(given_up=("tones",))], [found[1][0]._replace(given_up=("copy",))]
    answers = {"one": nothing, "": [BLANK], "two": found[1], "three": free}
    (here.folder / "in.txt").write_text("one\n\ntwo\nthree\n")
    with monkeypatch.context() as patch:
        patch.setattr(translate, "search", lambda job, texts, places: [answers[text] for text in texts])
        assert run(here, "ckpt=a.ckpt", "input=in.txt", "output=out.txt", "format=json").code == 0
    records = [json.loads(line) for line in written(here)[:-1]]
    texts = [[hypothesis["text"] for hypothesis in record["hypotheses"]] for record in records]
    assert texts == [[], [""], [found[1][0].text], [found[1][0].text]]
    assert [record.get("given_up") for record in records] == [["tones"], None, None, ["copy"]]
    monkeypatch.setattr(SentencePiece, "encode", lambda *_: [])  # as of a line of zero-width characters
    monkeypatch.setattr(Characters, "encode", lambda *_: [])
    assert run(here, "ckpt=a.ckpt", "input=in.txt", "output=out.txt", "format=json").code == 0
    assert [hypothesis["text"] for hypothesis in json.loads(written(here)[0])["hypotheses"]] == [""]


@pytest.mark.parametrize("decode", ["greedy", "beam", "sample"])
def test_threads_change_nothing(here, decode):
    """Batches are searched side by side."""
    words = ["ckpt=a.ckpt", "input=in.txt", f"decode={decode}", "batch_size=4"]
    before = torch.get_num_threads()
    try:
        assert run(here, *words, "output=out.txt", "threads=3").code == 0
        assert run(here, *words, "output=whole.txt", "threads=1").code == 0
    finally:
        torch.set_num_threads(before)
    assert written(here) == written(here, "whole.txt")


def test_memory_is_given_back_after_each_window(here, monkeypatch):
    given = []
    monkeypatch.setattr(translate, "give_memory_back", lambda: given.append(1))
    assert run(here, "ckpt=a.ckpt", "input=in.txt", "output=out.txt", "window=16").code == 0
    assert len(given) == len(list(windows(iter(LINES), 16)))


def test_long_lines_are_cut_with_a_warning_or_split(here):
    (here.folder / "in.txt").write_text("one two. three four. five\none\n" + "one two three four\n")
    done = run(here, "ckpt=a.ckpt", "input=in.txt", "output=cut.txt", "max_length=12")
    assert done.code == 0 and "2 of 3 lines are longer than 12 tokens and cut there, the first is line 1" in done.err
    done = run(here, "ckpt=a.ckpt", "input=in.txt", "output=out.txt", "max_length=12", "split_long=true")
    assert "1 of 3 lines" in done.err and "first is line 3" in done.err, "one has no end of a sentence to be split at"
    model = load(here.folder / "a.ckpt")
    parts = model.translate(["one two.", "three four.", "five"])
    assert written(here)[0] == " ".join(part for part in parts if part) and written(here)[1] == model.translate(["one"])[0]
    run(here, "ckpt=a.ckpt", "input=in.txt", "output=out.json", "max_length=12", "split_long=true", "format=json")
    (best,), (whole,) = (json.loads(line)["hypotheses"] for line in written(here, "out.json")[:2])
    assert best["log_prob"] == pytest.approx(sum(value for _, value in best["tokens"]), abs=1e-3)
    assert "score" in whole and "score" not in best, "what sentences are ranked by does not add up"


SPLITS = [  # text, its sentences
    ("A b. C d. E.", ["A b.", "C d.", "E."]),
    ('He said: "No." Then he left.', ['He said: "No."', "Then he left."]),
    ('(He said: "No!") Then he left.', ['(He said: "No!")', "Then he left."]),
    ("What?! Yes... And no.", ["What?!", "Yes...", "And no."]),
    ("今天很好。明天呢？“好！”他说。", ["今天很好。", "明天呢？", "“好！”", "他说。"]),
    ("他说真的！？我不信。", ["他说真的！？", "我不信。"]),
    ("（他说：“好。”）我走了。", ["（他说：“好。”）", "我走了。"]),
    ("他走了。……她来了。", ["他走了。……", "她来了。"]),
    ("no end at all", ["no end at all"]),
    ("  One.   Two three.  ", ["One.", "Two three."]),
    ("Version 3.5 of it. J. S. Bach came on 3. Oktober 1700. Next.",
     ["Version 3.5 of it.", "J. S. Bach came on 3. Oktober 1700.", "Next."]),
    ("lower case. too.", ["lower case.", "too."]),
    ("Dr. Smith left. He ran.", ["Dr. Smith left.", "He ran."]),
    ("Er wohnt in Ä. Straße. Gut.", ["Er wohnt in Ä. Straße.", "Gut."]),
    ("I have 10. You have 2020. OK.", ["I have 10. You have 2020.", "OK."]),
    (". . . what", [". . . what"]),
    ("Chapter 1 ........ 5", ["Chapter 1 ........", "5"]),
]  # fmt: skip


@pytest.mark.parametrize("text, parts", SPLITS)
def test_sentences(text, parts):
    assert sentences(text, lambda part: True) == parts


def test_a_part_that_does_not_fit_is_cut_at_doubtful_ends_too():
    assert sentences("I have 10. You have 20. It is B. OK then.", lambda part: len(part) < 20) == [
        "I have 10.", "You have 20.", "It is B.", "OK then."]  # fmt: skip


@pytest.mark.parametrize("text, count", [
    ("." * 1_000_000 + "a", 1), (".)" * 1_000_000, 1), ("?! " * 300_000, 300_000), ("。" * 1_000_000, 1), ("A. " * 20_000, 1)
])  # fmt: skip
def test_sentences_of_odd_texts(text, count):
    """In one pass: a search from each mark of a run would not end here."""
    assert len(sentences(text, lambda part: True)) == count


@pytest.mark.parametrize(
    "texts, whole",
    [
        (["One.", "Two."], "One. Two."),
        (["他来了。", "她走了。"], "他来了。她走了。"),
        (["他说：“好。”", "她走了。"], "他说：“好。”她走了。"),
        (["他走了……", "她来了。"], "他走了……她来了。"),
        (["안녕하세요.", "감사합니다."], "안녕하세요. 감사합니다."),
        (["안녕하세요", "감사합니다"], "안녕하세요 감사합니다"),
        (["He said: “No.”", "Then…", "he left."], "He said: “No.” Then… he left."),
        (["", "One.", "", "Two."], "One. Two."),
        ([], ""),
    ],
)
def test_sentences_joined(texts, whole):
    assert joined(texts) == whole


MISTAKES = {
    "no checkpoint named": ([], ["ckpt is missing"]),
    "no such checkpoint": (["ckpt=b.ckpt"], ["b.ckpt", "missing"]),
    "no such input": (["ckpt=a.ckpt", "input=nowhere"], ["nowhere"]),
    "format": (["ckpt=a.ckpt", "format=xml"], ["format is 'xml'", "text, json"]),
    "no number": (["ckpt=a.ckpt", "batch_size=0"], ["batch_size must be a whole number, at least 1"]),
    "unknown option": (["ckpt=a.ckpt", "inptu=in.txt"], ["'inptu'", "did you mean 'input'"]),
    "unknown decode": (["ckpt=a.ckpt", "decode=bean"], ["'bean'", "did you mean 'beam'"]),
    "no such column": (["ckpt=a.ckpt", "input=in.tsv", "column=fr"], ["in.tsv has no column 'fr'", "en, de"]),
    "no column of that number": (["ckpt=a.ckpt", "input=in.tsv", "column=2"], ["in.tsv, line 1: no column 2"]),
    "an ensemble of strangers": (["ckpt=[a.ckpt,other.ckpt]"], ["a.ckpt and other.ckpt are no ensemble", "tokenizer"]),
    "a list without brackets": (["ckpt=a.ckpt,b.ckpt"], ["write ckpt=[a.ckpt,b.ckpt]"]),
    "an ensemble of one in another way": (["ckpt=a.ckpt", "ensemble=max"], ["linear, log_linear", "'max'"]),
    "a name too long": (["ckpt=a.ckpt", "input=in.txt", f"output={'x' * 300}"], ["File name too long"]),
    "an ensemble of another way": (["ckpt=[a.ckpt,a.ckpt]", "ensemble=max"], ["linear, log_linear", "'max'"]),
    "alignment in text": (["ckpt=a.ckpt", "align=true"], ["align=true needs format=json"]),
    "resume without a file": (["ckpt=a.ckpt", "input=in.txt", "resume=true"], ["output=FILE"]),
    "resume is no checkpoint": (["ckpt=a.ckpt", "input=in.txt", "resume=a.ckpt"], ["resume must be true or false", "'a.ckpt'"]),
    "an output that was left": (["ckpt=a.ckpt", "input=in.txt", "output=left.txt"], [".left.txt.part", "resume=true"]),
    "another input": (["ckpt=a.ckpt", "input=short.txt", "output=left.txt", "resume=true"], ["has 2 lines, the input only 1"]),
    "input is output": (["ckpt=a.ckpt", "input=in.txt", "output=./in.txt"], ["the same file"]),
    "a folder as output": (["ckpt=a.ckpt", "input=in.txt", "output=."], ["no ordinary file"]),
    "an endless output": (["ckpt=a.ckpt", "decode.max_len_b=1e20"], ["decode.max_len_b must be at most 10,000"]),
    "a penalty without bounds": (["ckpt=a.ckpt", "decode=beam", "decode.length_penalty=99"], ["decode.length_penalty must"]),
    "compressed output": (["ckpt=a.ckpt", "input=in.txt", "output=out.txt.gz"], ["out.txt.gz", "plain text", "gzip"]),
    "a text for a checkpoint": (["ckpt=in.txt"], ["in.txt is not a checkpoint"]),
    "a run for a checkpoint": (["ckpt=run"], ["run is not a file; run/checkpoints/best.ckpt is one"]),
    "an option of another search": (["ckpt=a.ckpt", "decode=greedy", "decode.size=5"], ["beam or decode=couplet has it"]),
    "shorter than asked": (["ckpt=a.ckpt", "decode.min_len=9", "decode.max_len_a=0", "decode.max_len_b=3"], ["min_len is 9"]),
    "a folder that is not there": (["ckpt=a.ckpt", "input=in.txt", "output=no/out.txt"], ["no/"]),
}  # fmt: skip


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_is_told_in_one_line(here, case):
    words, parts = MISTAKES[case]
    (here.folder / "in.tsv").write_text("en\tde\none\teins\n")
    (here.folder / "short.txt").write_text("one\n")
    (here.folder / ".left.txt.part").write_text("eins\nzwei\n")
    (here.folder / "run/checkpoints").mkdir(parents=True)
    (here.folder / "run/checkpoints/best.ckpt").write_text("")
    content = torch.load(here.folder / "a.ckpt", weights_only=True)
    alphabet = content["duet"]["source"]["alphabet"]
    content["duet"]["source"]["alphabet"] = alphabet[::-1]
    torch.save(content, here.folder / "other.ckpt")
    words = words if any(word.startswith("input=") for word in words) else [*words, "input=in.txt"]
    done = run(here, *words)
    assert done.code == 2 and done.err.count("\n") == 1 and done.err.startswith("error: "), done
    for part in parts:
        assert part in done.err, done.err
    assert (here.folder / ".left.txt.part").read_text() == "eins\nzwei\n", "nothing is lost"


@pytest.mark.parametrize("words", [[], ["format=json", "align=true", "batch_size=5", "window=13"]])
def test_an_interrupted_output_is_continued(here, words):
    """To the last digit of a score: the windows are those of the whole."""
    words = ["ckpt=a.ckpt", "input=in.txt", "decode=sample", *words]
    run(here, *words, "output=whole.txt")
    whole = (here.folder / "whole.txt").read_bytes()
    middle = [whole.index(b"\n", len(whole) // parts) + 1 for parts in (2, 3, 7)]
    for end in (0, 1, 7, 20, *middle, len(whole) - 3, len(whole)):
        (here.folder / ".out.txt.part").write_bytes(whole[:end])
        done = run(here, *words, "output=out.txt", "resume=true")
        assert done.code == 0, done.err
        assert (here.folder / "out.txt").read_bytes() == whole and not (here.folder / ".out.txt.part").exists()


OTHERS = {  # words -> what an output that was begun without them was not begun with
    "a format": (["format=json"], "format"),
    "a search": (["decode=sample"], "decode"),
    "an option of the search": (["decode.max_len_b=3"], "decode"),
    "a length": (["max_length=3"], "max_length"),
    "a checkpoint": (["ckpt=b.ckpt"], "ckpt"),
    "an ensemble": (["ckpt=[a.ckpt,a.ckpt]", "ensemble=log_linear"], "ensemble, ckpt"),
    "an input": (["input=other.txt"], "first lines of the input, input"),
    "splitting": (["split_long=true"], "split_long"),
}


@pytest.mark.parametrize("case", OTHERS)
def test_an_output_is_gone_on_with_by_the_same_command_alone(here, case, monkeypatch):
    words, told = OTHERS[case]
    (here.folder / "other.txt").write_text("".join(line + "\n" for line in reversed(LINES)))
    content = torch.load(here.folder / "a.ckpt", weights_only=True)
    torch.save(content | {"epoch": 77}, here.folder / "b.ckpt")
    same = ["ckpt=a.ckpt", "decode=greedy", "input=in.txt", "output=out.txt", "window=8"]
    with monkeypatch.context() as patch:  # it ends in the middle
        search, calls = translate.search, []
        patch.setattr(translate, "search", lambda *asked: calls.append(1) or (search(*asked) if len(calls) < 4 else 1 / 0))
        assert run(here, *same).code == 1
    part = here.folder / ".out.txt.part"
    before = part.read_bytes()
    assert before.count(b"\n") == 7
    changed = [next((word for word in words if word.partition("=")[0] == own.partition("=")[0]), own) for own in same]
    done = run(here, *changed, *[word for word in words if word not in changed], "resume=true")
    assert done.code == 2 and done.err.endswith(f"was begun with another {told}: go on with the same, or remove it\n"), done.err
    assert part.read_bytes() == before
    (here.folder / "in.txt").rename(here.folder / "moved.txt")  # the same lines
    assert run(here, *same, "input=moved.txt", "resume=true", "batch_size=3").code == 0
    assert written(here)[:-1] == load(here.folder / "a.ckpt").translate(LINES)
    assert not [path for path in here.folder.iterdir() if "part" in path.name]


def test_an_output_of_a_pipe_is_gone_on_with_from_the_file(here, monkeypatch):
    """An input is known again by its first line, a file also by some more of them."""
    words = ["ckpt=a.ckpt", "decode=greedy", "output=out.txt"]
    with monkeypatch.context() as patch:
        search, calls = translate.search, []
        patch.setattr(translate, "search", lambda *asked: calls.append(1) or (search(*asked) if len(calls) < 4 else 1 / 0))
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO((here.folder / "in.txt").read_bytes())))
        assert run(here, *words).code == 1
    (here.folder / "other.txt").write_text("another one\n" * 30)
    done = run(here, *words, "input=other.txt", "resume=true")
    assert done.code == 2 and "was begun with another input:" in done.err
    assert run(here, *words, "input=in.txt", "resume=true").code == 0
    assert written(here)[:-1] == load(here.folder / "a.ckpt").translate(LINES)


def test_a_damaged_record_is_told(here):
    (here.folder / ".out.txt.part").write_text("eins\n")
    (here.folder / ".out.txt.part.json").write_text('{"ckpt": [')
    done = run(here, "ckpt=a.ckpt", "input=in.txt", "output=out.txt", "resume=true")
    assert done.code == 2 and ".out.txt.part.json is damaged" in done.err and done.err.count("\n") == 1
    assert (here.folder / ".out.txt.part").read_text() == "eins\n"


def test_random_draws_are_those_of_the_line_where_lines_are_split_too(here):
    long = ". ".join(["one two three"] * 5) + "."
    lines = [long if i % 3 == 0 else line for i, line in enumerate(LINES)]
    (here.folder / "in.txt").write_text("".join(line + "\n" for line in lines))
    words = ["ckpt=a.ckpt", "input=in.txt", "decode=sample", "max_length=20", "split_long=true"]
    assert run(here, *words, "output=whole.txt").code == 0
    whole = written(here, "whole.txt")
    for window in (1, 5, 16):
        assert run(here, *words, "output=out.txt", f"window={window}").code == 0
        assert written(here) == whole
    (here.folder / ".out.txt.part").write_text("".join(line + "\n" for line in whole[:20]))
    assert run(here, *words, "output=out.txt", "resume=true").code == 0 and written(here) == whole


def test_a_mistake_leaves_nothing_in_the_way(here):
    assert run(here, "ckpt=a.ckpt", "input=nowhere", "output=out.txt").code == 2
    assert not (here.folder / ".out.txt.part").exists()
    assert run(here, "ckpt=a.ckpt", "input=in.txt", "output=out.txt").code == 0


def test_a_link_and_a_pipe_stay_what_they_are(here):
    (here.folder / "link.txt").symlink_to("target.txt")
    (here.folder / "target.txt").write_text("old\n")
    assert run(here, "ckpt=a.ckpt", "input=in.txt", "output=link.txt").code == 0
    assert (here.folder / "link.txt").is_symlink() and len(written(here, "target.txt")) == len(LINES) + 1
    os.mkfifo(here.folder / "pipe")
    reader = subprocess.Popen(["cat", "pipe"], cwd=here.folder, stdout=subprocess.PIPE, text=True)
    assert run(here, "ckpt=a.ckpt", "input=in.txt", "output=pipe").code == 0
    assert reader.communicate(timeout=60)[0].count("\n") == len(LINES) and (here.folder / "pipe").is_fifo()


@pytest.mark.skipif(not os.path.isdir("/dev/fd"), reason="no /dev/fd on this system")
def test_a_pipe_by_its_number(here):
    reader, writer = os.pipe()
    assert run(here, "ckpt=a.ckpt", "input=in.txt", f"output=/dev/fd/{writer}", "window=8").code == 0
    os.close(writer)
    with open(reader, "rb") as pipe:
        assert pipe.read().count(b"\n") == len(LINES)


@pytest.fixture
def blind(here, corpus):
    """The shell, with a checkpoint of a model that has no attention too."""
    words = ("model=rnn_none", "trainer.max_steps=2", "test=false", "hydra.run.dir=none")
    assert here.train(*words, data=corpus, tiny=TINY_RNN).code == 0
    return here


def test_what_needs_attention_is_told_before_anything_is_translated(blind):
    for words in (["format=json", "align=true"], ["decode=beam", "decode.coverage_penalty=0.5"]):
        done = run(blind, "ckpt=none/checkpoints/last.ckpt", "input=in.txt", "output=new.txt", *words)
        assert done.code == 2 and "cross-attention" in done.err and not done.out
        assert not [path.name for path in blind.folder.iterdir() if "new.txt" in path.name]
    assert run(blind, "ckpt=none/checkpoints/last.ckpt", "input=in.txt", "output=new.txt", "decode=beam").code == 0
    words = ["decode=beam", "decode.coverage_penalty=0.5", "format=json", "align=true", "output=seen.txt"]
    assert run(blind, "ckpt=a.ckpt", "input=in.txt", *words).code == 0


# As processes


def start(folder, *words, **options):
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "tasks.translate", *words]
    environment["PYTHONPATH"] = str(ROOT)
    # where the tests run in the background of a shell, SIGINT is ignored, which a child takes over
    heed = {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)}
    return subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.PIPE, **heed, **options)


def test_killed_at_any_moment_it_can_be_continued(here):
    lines = [" ".join(WORDS[(i // 6**k) % 6][0] for k in range(1 + i % 4)) for i in range(600)]
    (here.folder / "in.txt").write_text("".join(line + "\n" for line in lines))
    words = ["ckpt=a.ckpt", "input=in.txt", "window=8", "batch_size=4", "threads=1"]
    assert run(here, *words, "output=whole.txt").code == 0
    part, seen = here.folder / ".out.txt.part", 0
    for goal in (1, 40, 41, 150, 300):
        process = start(here.folder, *words, "output=out.txt", "resume=true")
        until = time.monotonic() + 120
        while process.poll() is None and time.monotonic() < until:
            if part.exists() and part.read_bytes().count(b"\n") >= goal:
                break
            time.sleep(0.002)
        process.kill()
        process.wait()
        seen += part.exists()
    assert seen, "it was killed in the middle at least once"
    assert run(here, *words, "output=out.txt", "resume=true").code == 0
    assert written(here) == written(here, "whole.txt")


def test_a_closed_pipe_ends_it_quietly(here):
    (here.folder / "in.txt").write_text("one two three\n" * 3000)
    with start(here.folder, "ckpt=a.ckpt", "input=in.txt", "window=16", stdout=subprocess.PIPE) as process:
        first = [process.stdout.readline() for _ in range(3)]
        process.stdout.close()
        assert process.wait(timeout=300) == 0 and process.stderr.read() == b""
    assert all(line.endswith(b"\n") for line in first)


def test_ctrl_c_ends_it_quietly(here):
    (here.folder / "in.txt").write_text("one two three\n" * 30000)
    with start(here.folder, "ckpt=a.ckpt", "input=in.txt", "output=out.txt", "window=16") as process:
        part, until = here.folder / ".out.txt.part", time.monotonic() + 120
        while time.monotonic() < until and not (part.exists() and part.stat().st_size):
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=300) == 130 and process.stderr.read() == b""
    assert part.exists() and not (here.folder / "out.txt").exists()


@pytest.mark.parametrize("words", [[], ["output=out.txt"]])
def test_a_line_of_a_slow_pipe_is_answered_as_it_comes(here, words):
    output = subprocess.PIPE if not words else None
    with start(here.folder, "ckpt=a.ckpt", "window=1", *words, stdin=subprocess.PIPE, stdout=output) as process:
        part, until = here.folder / ".out.txt.part", time.monotonic() + 120
        for number, line in enumerate(["one two", "three"], 1):
            process.stdin.write(line.encode() + b"\n")
            process.stdin.flush()
            if words:
                while time.monotonic() < until and not (part.exists() and part.read_bytes().count(b"\n") == number):
                    time.sleep(0.01)
                answer = part.read_text(encoding="utf-8").splitlines()[-1]
            else:
                answer = process.stdout.readline().decode().rstrip("\n")
            assert [answer] == load(here.folder / "a.ckpt").translate([line])
        process.stdin.close()
        assert process.wait(timeout=300) == 0 and process.stderr.read() == b""


def test_stdin_to_stdout(here):
    with start(here.folder, "ckpt=a.ckpt", stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        out, err = process.communicate("one two\n\nfünf".encode(), timeout=300)
    assert process.returncode == 0 and err == b""
    assert out.decode().split("\n")[:-1] == load(here.folder / "a.ckpt").translate(["one two", "", "fünf"])


# The prompt


def test_the_prompt(here, monkeypatch):
    model = load(here.folder / "a.ckpt")
    said = iter([":attention", "one two", ":attention", ":best", ":next", ":nonsense", "", ":quit"])
    monkeypatch.setattr("builtins.input", lambda _: next(said))
    translate.prompt(translate.job_of(["ckpt=a.ckpt", "decode=beam", "decode.n_best=2"]))
    out = here.capfd.readouterr().out
    assert "nothing has been translated yet" in out and model.translate(["one two"], decode=Beam())[0] + "\n" in out
    assert out.count(translate.HELP) == 2 and any(shade in out for shade in "▒▓█")
    assert list(said) == []


def test_the_prompt_ends_with_its_input(monkeypatch):
    def end(_):
        raise EOFError

    monkeypatch.setattr("builtins.input", end)
    translate.prompt(None)


def test_a_long_line_at_the_prompt(here, monkeypatch):
    model, long = load(here.folder / "a.ckpt"), "one two three. four five."
    for words, expected, cut in (
        ([], [long], True),
        (["split_long=true"], ["one two three.", "four five."], False),
    ):
        said = iter([long, ":next", ":attention"])
        monkeypatch.setattr("builtins.input", lambda _, said=said: next(said, ":quit"))
        job = translate.job_of(["ckpt=a.ckpt", "max_length=15", "decode=greedy", *words])
        translate.prompt(job)
        out = here.capfd.readouterr().out
        found = model.search(expected, limit=15)
        assert joined(part[0].text for part in found) + "\n" in out
        assert ("longer than 15 tokens and was cut there" in out) == cut
        for part in expected:
            assert all(f"{value:8.3f}  {piece}\n" in out for piece, value in model.alternatives(part, limit=15))


@pytest.mark.parametrize(
    "words, asks", [([], True), (["output=x"], False), (["format=json"], False), (["input=in.txt"], False)]
)
def test_who_is_asked(here, monkeypatch, words, asks):
    """A person who types lines and reads text; with a file or JSON to write, what is typed is a stream like any other."""
    job = translate.job_of(["ckpt=a.ckpt", *words])
    for stdin, stdout in itertools.product([True, False], repeat=2):
        monkeypatch.setattr("sys.stdin", io.StringIO("one\n"))
        monkeypatch.setattr("sys.stdout", io.StringIO())
        monkeypatch.setattr(sys.stdin, "isatty", lambda stdin=stdin: stdin)
        monkeypatch.setattr(sys.stdout, "isatty", lambda stdout=stdout: stdout)
        assert terminal_asks(job.config) == (asks and stdin and stdout)


def test_the_prompt_goes_on_after_a_mistake(monkeypatch, capsys):
    def on_line(text):
        if text == "bad":
            raise DuetError("not this")
        return text.upper(), text

    said = iter(["bad", ":x", "good", ":x", "bad", ":x", ":bad", ":q"])
    monkeypatch.setattr("builtins.input", lambda _: next(said))
    terminal.converse("help", on_line, lambda command, last: on_line(command)[0] + f" {last}")
    told = ["help", "error: not this", "X None", "GOOD", "X good", "error: not this", "X good", "error: not this"]
    assert capsys.readouterr().out.splitlines() == told


def test_attention_in_characters(here):
    """Rows are what was written and columns what was read, cut as the source was, each with its EOS."""
    model = load(here.folder / "a.ckpt")
    ids = model.search(["one two three"])[0][0].ids
    source, output = model.src_tokenizer.encode("one two three")[:4], model.batch([([], ids[:-1])], [0])
    batch = model.batch([(source, ids[:-1])], [0])
    weights = model.model(batch.src, batch.src_mask, output.tgt, need_weights=True).attention["cross"][0].mean(dim=(0, 1))
    pieces = model.tgt_tokenizer.pieces(ids), model.src_tokenizer.pieces(batch.src[0].tolist())
    assert len(pieces[1]) == 5 and weights.shape == (len(ids), 5)
    assert terminal.attention(model, "one two three", ids, 4) == heatmap.terminal(weights.detach(), *pieces, color=False)


# The Python API


def test_prefixes_are_kept(here):
    model = load(here.folder / "a.ckpt")
    asked = [Request("one two", prefix="zwei"), "three", Request("", prefix="vier"), Request("five", prefix="sechs eins")]
    for decode in (Greedy(), Beam(n_best=2), Beam(max_len_a=0.0, max_len_b=1.0)):
        found = model.search(asked, decode=decode)
        for prefix, hypotheses in zip(["zwei", "", "vier", "sechs eins"], found):
            assert all(h.text.startswith(prefix) for h in hypotheses) if prefix != "vier" else hypotheses == [BLANK]
    free = model.search(["three"], decode=Greedy())[0]
    assert model.search(asked, decode=Greedy())[1][0].text == free[0].text


@pytest.mark.parametrize("decode", [Greedy(), Beam(), Sample()])
def test_nothing_unknown_comes_after_a_prefix_or_beside_one(here, decode):
    model = load(here.folder / "a.ckpt")
    project = model.model.project
    likely = torch.zeros(len(model.tgt_tokenizer))
    likely[UNK] = 50.0
    model.model.project = lambda hidden: project(hidden) + likely
    assert "⁇" in model.search(["five"], decode=replace(decode, unk=True))[0][0].text
    asked = [Request("one two", prefix="zw☃"), "three", Request("five", prefix="zwei drei")]
    for (found,) in model.search(asked, decode=decode):
        assert "⁇" not in found.text.replace("zw⁇", "")


def test_a_prefix_stands_whatever_the_rules_say(here):
    """Unknown characters, and an n-gram that it repeats itself."""
    model = load(here.folder / "a.ckpt")
    for prefix, decode in (
        ("z☃ei", Greedy()),
        ("eins eins eins", Greedy(no_repeat_ngram=2)),
        ("eins eins", Beam(no_repeat_ngram=3)),
    ):
        for hypothesis in model.search([Request("one two", prefix=prefix)], decode=decode)[0]:
            assert hypothesis.text.startswith(prefix.replace("☃", "⁇")) and math.isfinite(hypothesis.score)
            assert "⁇" not in hypothesis.text[len(prefix) :]


def test_a_line_is_no_list_of_lines(here):
    model = load(here.folder / "a.ckpt")
    for method in (model.search, model.translate):
        with pytest.raises(TypeError, match="write .line."):
            method("one two")
        with pytest.raises(TypeError, match="such as Beam.., not 'beam'"):
            method(["one two"], decode="beam")
        with pytest.raises(ValueError, match="batch_size must be at least 1, not 0"):
            method(["one two"], batch_size=0)
    for pair in (("a", ["b"]), (["a"], "b")):
        with pytest.raises(TypeError, match="write .source., .target."):
            model.score(*pair)


def test_lines_may_come_from_anything(here):
    model = load(here.folder / "a.ckpt")
    expected = model.translate(["one two", "three"])
    (here.folder / "two.txt").write_text("one two\nthree\n")
    with open(here.folder / "two.txt") as file:
        assert model.translate(file) == expected
    assert model.translate(line for line in ["one two", "three"]) == model.translate(("one two", "three")) == expected


@pytest.mark.parametrize("wish", [{"fixed": "--"}, {"words": ("eins",)}, {"avoid": "e"}])
def test_what_only_couplets_can_heed_is_told(here, wish):
    with pytest.raises(DuetError, match="need decode=couplet"):
        load(here.folder / "a.ckpt").search(["three", Request("one two", **wish)])


def test_scoring_a_translation_gives_the_number_of_the_search(here):
    model = load(here.folder / "a.ckpt")
    found = [hypotheses[0] for hypotheses in model.search(["one two", "three", "five four"], decode=Beam(length_penalty=0.0))]
    again = model.score(["one two", "three", "five four"], [hypothesis.text for hypothesis in found])
    for one, other in zip(found, again):
        assert other.score == pytest.approx(one.score, abs=1e-4) and other.ids == one.ids
        assert other.token_log_probs == pytest.approx(one.token_log_probs, abs=1e-4)


def test_alternatives_are_the_likeliest_next_tokens(here):
    model = load(here.folder / "a.ckpt")
    best = model.search(["one two"], decode=Greedy())[0][0]
    for place in range(len(best.ids) - 1):
        found = model.alternatives("one two", model.tgt_tokenizer.decode(best.ids[:place]), 4)
        assert len(found) == 4 and found == sorted(found, key=lambda pair: -pair[1])
        assert found[0][0] == best.pieces[place]
        assert found[0][1] == pytest.approx(math.exp(best.token_log_probs[place]), abs=1e-4)
    everything = model.alternatives("one", "", 10_000)
    assert len(everything) == len(model.tgt_tokenizer) and sum(p for _, p in everything) == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize("way", ["linear", "log_linear"])
def test_an_ensemble_of_the_same_model_is_that_model(here, way):
    path = here.folder / "a.ckpt"
    one, two = load(path), load(path, path, way=way)
    for decode in (Greedy(), Beam(n_best=3)):
        for a, b in zip(one.search(LINES, decode=decode), two.search(LINES, decode=decode)):
            assert [h.text for h in a] == [h.text for h in b]
            assert [h.score for h in a] == pytest.approx([h.score for h in b], abs=1e-4)
