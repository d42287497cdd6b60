"""python -m tasks.couplet: what is read, what is written, and mistakes in one line."""

import io
import json
import sys
from types import SimpleNamespace

import pytest
import torch

from data.errors import DuetError
from data.tokenizer import Characters, SentencePiece
from data.tones import Tones
from tasks import cli, couplet, load
from tasks.build import BLANK
from tasks.couplet import broken_rules, distance, parse, tones_of, wide
from tasks.couplet_search import Couplet
from tasks.decoding import Request
from tests.runs import command

PAIRS = [
    ("春风吹柳绿", "秋月照花红"), ("山高云自起", "海阔月常明"), ("白日依山尽", "黄河入海流"), ("春风，秋月", "白雪，红梅"),
    ("青山依旧在", "绿水自长流"), ("云开天地远", "雨过水山新"), ("日月光天德", "山河壮帝居"), ("千里江陵近", "万重山水轻"),
    ("花开春不老", "月照夜常明"),
]  # fmt: skip


@pytest.mark.parametrize(
    "line, wanted",
    [
        ("白日依山尽", Request("白日依山尽")),
        ("  白日 ", Request("白日")),
        ("白日依山尽|--河-海", Request("白日依山尽", fixed="--河-海")),
        ("白日依山尽｜－河－海－", Request("白日依山尽", fixed="-河-海-")),
        ("白日|+春风 月|+花", Request("白日", words=("春风", "月", "花"))),
        ("白日依山尽|!愁苦|-----", Request("白日依山尽", fixed="-----", avoid="愁苦")),
        ("白日依山尽|!愁苦悲恨", Request("白日依山尽", avoid="愁苦悲恨")),
        ("白日依山尽|+愁苦悲恨", Request("白日依山尽", words=("愁苦悲恨",))),
        ("！春风|！秋月", Request("！春风", fixed="！秋月")),
        ("白日|", Request("白日")),
        ("", Request("")),
        ("|--", Request("", fixed="--")),
    ],
)
def test_what_a_line_asks(line, wanted):
    assert parse(line) == wanted


@pytest.mark.parametrize(
    "upper, lower, broken",
    [
        ("白日依山尽", "黄河入海流", []),
        ("白日依山尽", "黄河入海", ["length", "repetition", "tones"]),
        ("白日依山尽", "黄河入海水", ["tones"]),
        ("白日依山尽", "黄水入海流", ["tones"]),
        ("白日依山尽", "黄河入山流", ["tones", "copy"]),
        ("白日依山尽", "黄河黄海流", ["repetition"]),
        ("春风，秋月", "白雪红，梅", ["punctuation"]),
        ("黄河入海流", "白日依山尽", []),
    ],
)
def test_rules_that_a_pair_breaks(upper, lower, broken):
    assert broken_rules(upper, lower, Tones()) == broken


def test_particles_are_those_of_the_search(ckpt):
    assert broken_rules("山之水", "云之风", Tones()) == ["tones"] and "copy" in broken_rules("山之水", "云之风", Tones(), "而")
    poet = couplet.poet_of([f"ckpt={ckpt}", "decode.particles='红'", "decode.copy=false", "decode.repetition=false"])
    broken = [poet.answers([poet.question(line)])[0][0].broken for line in ("红月|红山", "山月|山红")]
    assert "copy" not in broken[0] and "copy" in broken[1]


def test_a_rule_that_was_given_up_is_broken_under_the_same_name(ckpt):
    poet = couplet.poet_of([f"ckpt={ckpt}", "decode.tones=hard", "answers=1"])
    lines = {"白日|--": [], "白日|-白": ["copy", "tones"], "春春|秋月": ["repetition"], "白日|水水": ["tones", "repetition"]}
    for line, rules in lines.items():
        answer = poet.answers([poet.question(line)])[0][0]
        assert answer.text and {*rules} == {*answer.given_up} == {*answer.broken}, (line, answer)


def test_tones_stand_under_their_characters():
    assert tones_of("白日，看A", Tones()) == "仄仄，通？"
    assert wide("白日，看A", "仄仄，通？") == "仄仄  通·"
    assert distance("春风", "春月来") == 2


@pytest.fixture(scope="module")
def ckpt(tmp_path_factory):
    """A model of a few characters, without training."""
    from omegaconf import OmegaConf

    from tasks import cli
    from tasks.build import build_model

    plain = OmegaConf.to_container(
        cli.compose(
            "train", ["data=couplets", "tokenizer=characters", "model.layers=1", "model.channels=16", "model.heads=2", "name=x"]
        ),
        resolve=True,
    )
    tokenizer = Characters.train(line for pair in PAIRS for line in pair)
    torch.manual_seed(3)
    model = build_model(plain, tokenizer, tokenizer)
    kept = {part: plain[part] for part in ("data", "decode", "metrics", "model", "name", "seed")}
    path = tmp_path_factory.mktemp("couplet") / "a.ckpt"
    content = {
        "state_dict": {f"model.{name}": value for name, value in model.state_dict().items()},
        "duet": {"format": 1, "config": kept, "source": tokenizer.state(), "target": None},
    }
    torch.save(content, path)
    return path


@pytest.mark.parametrize(
    "word, wanted",
    [
        ("words=[春风]", ["春风"]),
        ("words=[春风, 秋月]", ["春风", "秋月"]),
        ("words=['春风',a]", ["春风", "a"]),
        ("words=[]", []),
        ("avoid=愁苦", "愁苦"),
        ("output=[春].txt", "[春].txt"),
    ],
)
def test_options_in_chinese(word, wanted):
    from omegaconf import OmegaConf

    from tasks import cli

    config = cli.compose("couplet", cli.readable([word], lists=["words"]))
    found = config[word.partition("=")[0]]
    assert (OmegaConf.to_container(found) if OmegaConf.is_list(found) else found) == wanted


def ask(shell, monkeypatch, ckpt, text, *words):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    return shell.run(couplet, "couplet", [f"ckpt={ckpt}", *words])


def test_answers_are_printed_with_their_tones(shell, monkeypatch, ckpt):
    done = ask(shell, monkeypatch, ckpt, "白日依山尽\n\n山高云自起|-月---\n", "answers=3")
    assert done.code == 0, done.err
    first, blank, second = done.out.partition("\n\n")
    assert first.splitlines()[:2] == ["上联  白日依山尽", "      仄仄平平仄"]
    assert len(first.splitlines()) == 2 + 3 * 2 and "keeps all rules" in first
    rows = second.splitlines()[2::2]
    assert len(rows) == 3 and all(row.split()[1][1] == "月" for row in rows)


def test_json_tells_all_and_what_cannot_be(shell, monkeypatch, ckpt):
    text = "白日依山尽|+春风\n白日依山尽|--河-海-\n白日依山尽|+春风吹柳绿花\n\n春風吹柳綠\n"
    done = ask(shell, monkeypatch, ckpt, text, "format=json", "answers=2", "avoid=花")
    assert done.code == 0, done.err
    records = [json.loads(line) for line in done.out.splitlines()]
    assert [record["line"] for record in records] == [1, 2, 3, 4, 5]
    assert [len(record["answers"]) for record in records] == [2, 0, 2, 0, 2]
    assert all("春风" in answer["text"] and "花" not in answer["text"] for answer in records[0]["answers"])
    assert records[0]["asked"] == {"text": "白日依山尽", "fixed": "", "words": ["春风"], "avoid": "花"}
    assert records[3]["asked"] == {"text": "", "fixed": "", "words": [], "avoid": "花"}
    assert records[1]["answers"] == [] and records[1]["cannot"] == ["fixed characters (6 places for a line of 5)"]
    assert all(answer["given_up"] == ["word 春风吹柳绿花"] for answer in records[2]["answers"])
    assert records[3]["answers"] == records[3]["cannot"] == []
    assert records[4]["upper"] == "春風吹柳綠" and records[4]["tones"] == "平平通仄仄"  # 吹 has both
    answer = records[0]["answers"][0]
    assert answer["log_prob"] >= answer["score"] and len(answer["tones"]) == 5


def test_traditional_lines_have_traditional_answers(shell, monkeypatch, ckpt):
    alphabet = load(ckpt).tgt_tokenizer
    one = couplet.Script(alphabet, "auto")
    assert (
        one.into("春風吹柳綠") == "春风吹柳绿"
        and one.back("秋月云", "春風") == "秋月雲"
        and one.back("秋月云", "春风") == "秋月云"
    )
    assert couplet.Script(alphabet, "traditional").back("云", "春风") == "雲"
    assert len({*one.back("头发出发", "春風")}) == 3, "one character is written in one way"
    assert one.back("丹里", "春風", "裡") == "丹裡", "what is given stays as it was"
    assert couplet.Script(alphabet, "simplified").back("雲", "春風") == "云"
    done = ask(shell, monkeypatch, ckpt, "春風吹柳綠|--紅--\n", "format=json")
    answers = json.loads(done.out)["answers"]
    assert answers and all(answer["text"][2] == "紅" for answer in answers)


@pytest.mark.parametrize(
    "line, script, part", [("白日依山尽|--紅--", "simplified", "紅"), ("白日依山尽|+春风", "traditional", "春风")]
)
def test_what_a_line_asks_for_is_written_as_it_stands_there(ckpt, line, script, part):
    poet = couplet.poet_of([f"ckpt={ckpt}", f"script={script}"])
    answers = poet.answers([poet.question(line)])[0]
    assert answers and all(part in answer.text for answer in answers)


def test_answers_differ_and_alternatives_differ_at_one_place(ckpt, monkeypatch, shell):
    poet = couplet.poet_of([f"ckpt={ckpt}", "different=3", "answers=4"])
    question = poet.question("白日依山尽")
    answers = poet.answers([question])[0]
    assert len(answers) == 4 and [a.score for a in answers] == sorted((a.score for a in answers), reverse=True)
    others = poet.alternatives(question, answers[0], 3, 5)
    assert len({o.text for o in others}) == 5 and all(distance(o.text, answers[0].text) <= 1 for o in others)
    assert others[0].text == answers[0].text or others[0].score >= answers[0].score
    question = poet.question("白日依山尽|+云")
    best = poet.answers([question])[0][0]
    place = best.plain.index("云") + 1
    assert all("云" in other.text for other in poet.alternatives(question, best, place, 5)), "what was asked for still is"


def test_words_of_the_options_are_written_as_the_answer_is_and_a_word_given_up_changes_nothing(ckpt):
    words = cli.readable([f"ckpt={ckpt}", "script=traditional", "words=[春风]", "answers=1"], lists=["words"])
    poet = couplet.poet_of(words)
    (best,) = poet.answers([poet.question("白日依山尽")])[0]
    assert "春風" in best.text and "风" not in best.text
    poet = couplet.poet_of([f"ckpt={ckpt}", "script=simplified", "answers=1"])
    (best,) = poet.answers([poet.question("白日依山尽|+春風秋月花红")])[0]
    assert best.given_up == ["word 春風秋月花红"] and "風" not in best.text


@pytest.mark.parametrize(
    "different, answers, wanted",
    [
        (2, 2, ["天地", "山水"]),  # 天水 is too like 天地
        (1, 2, ["天地", "天水"]),
        (0, 3, ["天地", "天水", "山水"]),
        (2, 3, ["天地", "天水", "山水"]),  # too few differ: the best of the others, too
        (3, 2, ["天地", "天水"]),
        (2, 9, ["天地", "天水", "山水", "山地"]),
    ],
)
def test_the_answers_that_are_chosen(different, answers, wanted):
    found = [BLANK._replace(text=text, score=-rank) for rank, text in enumerate(["天地", "天水", "山水", "山地"])]
    poet = couplet.Poet(None, None, SimpleNamespace(different=different, answers=answers), None, None)
    assert [hypothesis.text for hypothesis in poet.chosen(found)] == wanted


def test_a_line_that_is_too_long_is_told_with_its_number(ckpt):
    poet = couplet.poet_of([f"ckpt={ckpt}"])
    short = poet._replace(model=SimpleNamespace(max_source=4))
    assert short.question("山高云起|!花", 7).number == 7
    with pytest.raises(DuetError, match="^line 7 has 5 characters, this model takes 4$"):
        short.question("白日依山尽", 7)


@pytest.mark.parametrize(
    "words, part",
    [
        (["format=xml"], "format is 'xml'"),
        (["script=both"], "script is 'both'"),
        (["answers=0"], "answers must be"),
        (["answers=30"], "decode.n_best"),
        (["decode=beam"], "decode=couplet"),
        (["decode=greedy"], "decode=couplet"),
        (["decode=sample"], "decode=couplet"),
        (["decode.tones=loud"], "decode.tones"),
        (["decode.give_up=[length]"], "decode.give_up"),
        (["frob=1"], "frob"),
        (["words=春"], "words must be"),
    ],
)
def test_a_mistake_is_told_in_one_line(shell, monkeypatch, ckpt, words, part):
    done = ask(shell, monkeypatch, ckpt, "白日\n", *words)
    assert done.code == 2 and done.out == ""
    assert done.err.count("\n") == 1 and part in done.err, done.err


def test_a_prompt_answers_and_looks(ckpt, monkeypatch, capsys):
    poet = couplet.poet_of([f"ckpt={ckpt}", "answers=2"])
    lines = iter(["白日依山尽", ":3", ":attention", ":9", "白日|---", ":quit"])
    monkeypatch.setattr("builtins.input", lambda _: next(lines))
    couplet.prompt(poet)
    out = capsys.readouterr().out
    assert out.count("上联") == 3 and "cannot be met" in out and out.count(couplet.HELP) == 2 and any(c in out for c in "░▒▓█")


def test_the_search_needs_characters_on_both_sides(ckpt):
    model = load(ckpt)
    other = SentencePiece.__new__(SentencePiece)
    for pair in ((other, model.tgt_tokenizer), (model.src_tokenizer, other)):
        with pytest.raises(DuetError, match="tokenizer=characters"):
            Couplet().check(model.model, *pair)
    Couplet().check(model.model, model.src_tokenizer, model.tgt_tokenizer)


def test_requests_of_the_benchmark_are_met(ckpt, tmp_path):
    """What it times on a model without training says nothing."""
    pairs = [("白日依山尽", "黄河入海流"), ("春风，秋月", "白雪，红梅"), ("山高云自起", "海阔月常明")]
    text = "upper\tlower\n" + "".join(f"{upper}\t{lower}\n" for upper, lower in pairs)
    (tmp_path / "test.tsv").write_text(text, encoding="utf-8")
    words = ["--root", str(tmp_path), "--requests", "20", "--rounds", "1"]
    done = command("benchmarks/couplet_requests.py", str(ckpt), *words, cwd=tmp_path)
    assert "20 requests" in done.out and "0 answers that break a wish" in done.out and "the rules cost" in done.out, done.err
