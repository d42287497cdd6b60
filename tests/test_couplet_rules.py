"""The rules of couplets: each is a table of (upper line, what is written so far, what may come, what may not)."""

import itertools
import math

import pytest
import torch

from data.tokenizer import EOS, PAD, UNK, UNKNOWN, Characters
from data.tones import PARTICLES, Tone
from model import constraints
from tasks.build import Translator
from tasks.couplet_search import FREE, Couplet, Job, Tables
from tasks.decoding import Beam, Request

ALPHABET = "，。；：、！？春风秋月山水江海花鸟入出白日黄河流尽依之不中看一人天地红绿"
TOKENIZER = Characters(ALPHABET)
SIZE = len(TOKENIZER)
FORTY = "春风秋月山水江海花鸟" * 4


def tables(system="pingshui"):
    return Tables(TOKENIZER, system, "".join(PARTICLES), True)


def ids(text):
    """Unknown characters have ids of their own, FREE is PAD."""
    further = {c: SIZE + i for i, c in enumerate(dict.fromkeys(c for c in text if c not in ALPHABET and c != FREE))}
    return torch.tensor([[PAD if c == FREE else further.get(c, TOKENIZER.encode(c)[0]) for c in text]], dtype=torch.long)


def may_come(rule, upper, prefix):
    """The characters that a rule allows."""
    scores = torch.zeros(1, SIZE)
    left = rule(scores, ids(prefix), ids(upper), torch.tensor([0]))
    assert torch.equal(scores, torch.zeros(1, SIZE))  # pure
    return {c for c in ALPHABET if left[0, TOKENIZER.encode(c)[0]] > -math.inf}


def rule_of(name, fixed=None):
    t = tables()
    places = None if fixed is None else ids(fixed)

    def free(rule):
        return rule if places is None else constraints.where_free(places, rule, pad=PAD)

    return {
        "punctuation": lambda: free(constraints.punctuation(t.marks)),
        "repetition": lambda: constraints.repetition(t.marks, pad=PAD, unk=UNK, fixed=places),
        "copy": lambda: constraints.copies(t.marks, t.particles, pad=PAD),
    }[name]()


CASES = [  # rule, upper line, so far, may come, may not; fixed characters
    ("punctuation", "春风", "", "秋月之", "，。", None),
    ("punctuation", "春风，秋月", "山水", "，", "。；江山", None),
    ("punctuation", "春风，秋月", "山水，", "江海", "，。", None),
    ("punctuation", "春？风！", "山", "？", "！，海", None),
    ("punctuation", "春？风！", "山？水", "！", "？海", None),
    ("punctuation", "春风，秋月", "山水", "海，", "", "--海--"),
    ("punctuation", "龘风", "", "春秋", "，", None),
    ("punctuation", FORTY, FORTY[:39], "鸟", "，", None),
    ("punctuation", "一", "", "天", "，", None),
    ("repetition", "春风", "", "山水春", "", None),
    ("repetition", "春风", "山", "水风", "山", None),
    ("repetition", "山山水水", "春", "春", "风山", None),
    ("repetition", "山山水水", "春春", "风山", "春", None),
    ("repetition", "山山水水", "春春风", "风", "春秋", None),
    ("repetition", "春风，秋月，江海", "山水，", "花鸟", "山水", None),
    ("repetition", "春，春", "山，", "山", "，水", None),
    ("repetition", "龘风龘", "山水", "山", "水风", None),
    ("repetition", "龘靐风", "山", "水风", "山", None),
    ("repetition", FORTY, FORTY[:10], "春", "风山", None),
    ("repetition", FORTY, FORTY[:9], "鸟人", "春花", None),
    ("repetition", "一", "", "人天", "", None),
    ("repetition", "山山水水", "", "花", "春水", "-花--"),
    ("repetition", "山水山水", "", "风秋", "花", "---花"),
    ("repetition", "春风秋月", "", "山水", "花", "---花"),
    ("repetition", "春风秋月", "山水", "鸟", "花山", "---花"),
    ("copy", "春风秋月", "", "山水", "春风秋月", None),
    ("copy", "春之风", "", "山", "春风之", None),
    ("copy", "春之风", "山", "之水", "春风", None),
    ("copy", "春之风", "山水", "海", "之春风", None),
    ("copy", "春不风", "山", "海", "不", None),
    ("copy", "春，风", "山", "，。海", "春风", None),
    ("copy", "龘风", "", "春", "风", None),
    ("copy", "一", "", "人", "一", None),
    ("copy", FORTY, FORTY[:39], "天地", "春鸟", None),
]


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c[0]}: {c[1][:9]} | {c[2][:9]} | {c[5] or ''}")
def test_what_a_rule_allows(case):
    name, upper, prefix, may, may_not, fixed = case
    allowed = may_come(rule_of(name, fixed), upper, prefix)
    assert {*may} <= allowed and not {*may_not} & allowed


NEEDS = [  # upper line -> what each place of the answer needs: 平, 仄, - anything
    ("白日依山尽", "-平-仄平"),  # 日 oblique, 山 level, 尽 oblique
    ("黄河入海流", "-仄-平仄"),  # it ends level, as a lower line: its answer ends oblique
    ("春风", "-仄"),
    ("春风，秋月", "-仄--平"),
    ("看山", "-仄"),
    ("山看", "-平"),  # 看 may be either: no contrast, but an end
    ("山看海", "--平"),
    ("山X海", "--平"),  # nothing is known of Latin letters
    ("一", "平"),
    ("之", "仄"),
    ("，", "-"),
    ("", ""),
    ("白日山依尽，白日依山尽", "-平-仄---平-仄平"),
    ("白日依山尽黄河入海", "-平-仄-仄--平"),  # only 2, 4 and 6 of a clause
]


@pytest.mark.parametrize("upper, wanted", NEEDS)
def test_tones_that_an_answer_needs(upper, wanted):
    shown = {0: "-", Tone.LEVEL.value: "平", Tone.OBLIQUE.value: "仄"}
    assert "".join(shown[need] for need in tables().needs(upper)) == wanted


@pytest.mark.parametrize("weight", [None, 2.0])
@pytest.mark.parametrize(
    "need, may, may_not",
    [(1, "山春看中", "水海月"), (2, "水海月看中", "山春"), (0, ALPHABET, ""), (3, "看中", "山水")],
)
def test_tones_hard_and_soft(need, may, may_not, weight):
    rule = constraints.tones(tables().tones, torch.tensor([[need]]), weight=weight)
    scores = rule(torch.zeros(1, SIZE), ids(""), ids("春"), torch.tensor([0]))[0]
    assert all(scores[TOKENIZER.encode(c)[0]] == 0 for c in may)
    assert all(scores[TOKENIZER.encode(c)[0]] == (-math.inf if weight is None else -weight) for c in may_not)


def test_characters_to_avoid_may_be_fixed_all_the_same():
    rule = constraints.where_free(ids("-山"), constraints.avoid(ids("山水")), pad=PAD)
    assert may_come(rule, "春风", "") == {*ALPHABET} - {*"山水"}
    assert "山" in may_come(rule, "春风", "月")


# Whole lines


class Random(torch.nn.Module):
    """Draws its logits from the prefix: a model without any training, whose every line has a probability of its own."""

    max_source = max_target = None

    def __init__(self, size):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(64, size, generator=torch.Generator().manual_seed(3)))

    def encode(self, src, src_mask, *, need_weights=False):
        return {"sum": (src * src_mask).sum(dim=1) * 7}

    def step(self, tokens, state):
        total = state["sum"] * 31 + tokens
        return self.weight[total % 64], {"sum": total}


def translator(alphabet):
    tokenizer = Characters(alphabet)
    return Translator(Random(len(tokenizer)), tokenizer, tokenizer, {})


def keeps(upper, lower, decode, tones):
    """The rules, written once more: by looking at whole lines."""
    marks, t = set("，。；：、！？"), tones
    if len(upper) != len(lower) or any((a in marks or b in marks) and a != b for a, b in zip(upper, lower)):
        return False
    pairs = [(a, b) for a, b in zip(upper, lower) if a not in marks]
    if decode.copy and any(b in upper and not (a == b and b in PARTICLES) for a, b in pairs):
        return False
    if decode.repetition and any((a == c) != (b == d) for (a, b), (c, d) in itertools.combinations(pairs, 2)):
        return False
    return decode.tones != "hard" or all(t.bits(b) & need == need for b, need in zip(lower, t.needs(upper)))


def keeps_repetition(upper, lower):
    pairs = [(a, b) for a, b in zip(upper, lower) if a not in "，" and b not in "，"]
    return all((a == c) == (b == d) for (a, b), (c, d) in itertools.combinations(pairs, 2))


SMALL = "，春山水海看之"
UPPERS = ["春", "水海", "春山水", "海海春", "春，海", "看之水", "龘春", "山之，之", "春山水海看"]


@pytest.mark.parametrize("upper", UPPERS)
@pytest.mark.parametrize("tones", ["hard", "off"])
def test_a_wide_beam_finds_the_best_of_all_lines_that_keep_the_rules(upper, tones):
    model, decode = translator(SMALL), Couplet(size=400, n_best=5, tones=tones, give_up=[])
    t = Tables(model.tgt_tokenizer, "pingshui", "".join(PARTICLES), True)
    lines = ["".join(p) for p in itertools.product(SMALL, repeat=len(upper))]
    good = [line for line in lines if keeps(upper, line, decode, t)]
    found = model.search([upper], decode=decode)[0]
    if upper == "春山水海看":  # whose characters are nearly all that there are
        assert not good and [(h.text, h.given_up) for h in found] == [("", ("no line keeps all that is asked",))]
        return
    worth = {line: best.score for line, best in zip(good, worths(model, upper, good))}
    best = sorted(worth, key=lambda line: -worth[line])[:5]
    assert [h.text for h in found] == best
    assert [h.score for h in found] == pytest.approx([worth[line] for line in best], abs=1e-4)
    assert all(not h.given_up for h in found)


def worths(model, upper, lines):
    """Each line's log-probability, by stepping through it alone."""
    batch = model.batch([(model.src_tokenizer.encode(upper), [])], [0])
    for line in lines:
        state, total = model.model.encode(batch.src, batch.src_mask), 0.0
        tokens = [2, *model.tgt_tokenizer.encode(line), EOS]
        for one, other in itertools.pairwise(tokens):
            logits, state = model.model.step(torch.tensor([one]), state)
            total += logits.log_softmax(-1)[0, other].item()
        yield type("Worth", (), {"score": total})


REQUESTS = [  # what is asked -> what is given up
    (Request("白日依山尽", fixed="-河-海-"), {()}),
    (Request("白日依山尽", fixed="--河-海-"), {("fixed characters (6 places for a line of 5)",)}),
    (Request("白日依山尽", words=("黄河", "流")), {()}),
    (Request("白日依山尽", words=("黄河", "入海流花")), {("word 入海流花",)}),
    (Request("白日依山尽", words=("黄河入海流花",)), {("word 黄河入海流花",)}),
    (Request("白日依山尽", words=("河",), avoid="河海"), {("avoid 河",)}),
    (Request("白日依山尽", avoid="黄河"), {()}),
    (Request("白日依山尽", fixed="白----"), {("copy",)}),
    (Request("山山水水", fixed="花鸟--"), {("repetition",)}),
    (Request("山山水水", fixed="山鸟--"), {("copy", "repetition")}),
    (Request("春风，秋月", fixed="--花--"), {("punctuation",)}),
    (Request("春风，秋月", fixed="，----"), {("punctuation",)}),
    (Request("白日依山尽", fixed="-海---"), {("tones",)}),  # 日 and 海 are both oblique
    (Request("白日依山尽", words=("龘靐",)), {()}),  # characters that the model does not know
    (Request("白日依山尽", words=("龘", "春"), avoid="花"), {()}),
    (Request("山山水水", fixed="龘---"), {()}),  # 龘龘, though the model knows no 龘
    (Request("山山水水", words=("龘",)), {()}),
    (Request("春，风月", avoid="，海"), {("avoid ，",)}),
    (Request("矣风月", fixed="矣--"), {()}),  # a particle, though the model does not know it
    (Request("一"), {()}),
    (Request(FORTY), {()}),
]


@pytest.mark.parametrize("request_, wanted", REQUESTS, ids=lambda x: str(x)[:60])
def test_what_is_asked_is_met_or_told(request_, wanted):
    model = translator(ALPHABET + "东西南北高低远近青云雨")
    found = model.search([request_], decode=Couplet(n_best=3, tones="hard"))[0]
    assert {h.given_up for h in found} == wanted
    if request_.fixed and len(request_.fixed) != len(request_.text):
        assert [h.text for h in found] == [""]  # no answer, and why
        return
    for h in found:
        assert len(h.text) == len(request_.text)
        assert all(own in (FREE, got) for own, got in zip(request_.fixed, h.text))
        assert all(word in h.text for word in request_.words if f"word {word}" not in h.given_up)
        assert keeps_repetition(request_.text, h.text) or "repetition" in h.given_up
        assert not any(c in h.text for c in request_.avoid if f"avoid {c}" not in h.given_up)


def test_unknown_characters_keep_their_place_and_what_is_fixed_is_written_as_it_was():
    model = translator(ALPHABET)
    request_ = Request("龘𠀀山龘‽", fixed="-靐---")
    best = model.search([request_], decode=Couplet())[0][0]
    assert best.text[1] == "靐" and best.text[4] == "‽" and best.text[0] == best.text[3] and not best.given_up


@pytest.mark.parametrize("tones", ["hard", "soft"])
def test_a_batch_of_many_is_a_batch_of_one(tones):
    model = translator(ALPHABET)
    asked = [r for r, _ in REQUESTS]
    decode = Couplet(n_best=2, tones=tones)
    many = model.search(asked, decode=decode)
    for r, found in zip(asked, many):
        alone = model.search([r], decode=decode)[0]
        assert [(h.text, h.given_up) for h in alone] == [(h.text, h.given_up) for h in found]
        assert [h.score for h in alone] == pytest.approx([h.score for h in found], abs=1e-4)


def test_rules_that_are_off_are_off():
    model = translator(SMALL)
    off = Couplet(tones="off", copy=False, repetition=False, punctuation=False)
    plain = Beam(length_penalty=0, max_len_a=1, max_len_b=0, min_len=3)
    assert [h.text for h in model.search(["春山水"], decode=off)[0]] == [
        h.text for h in model.search(["春山水"], decode=plain)[0]
    ]


@pytest.mark.parametrize(
    "options, part",
    [
        ({"tones": "loud"}, "decode.tones"),
        ({"tone_system": "x"}, "decode.tone_system"),
        ({"give_up": ["length"]}, "decode.give_up"),
        ({"give_up": ["copy", "copy"]}, "decode.give_up"),
        ({"placements": 0}, "decode.placements"),
        ({"tone_weight": -1}, "decode.tone_weight"),
    ],
)
def test_an_option_that_cannot_be_is_told(options, part):
    with pytest.raises(ValueError, match=part):
        Couplet(**options)


def test_templates_are_no_more_than_asked_for():
    job = Job(tables(), Request(FORTY, words=("天", "地")), 40)
    found = job.templates(frozenset(), 16)
    assert len({*found}) == 16 and all(template.count("天") == template.count("地") == 1 for template in found)


@pytest.mark.parametrize(
    "options, request_, wanted",
    [
        ({"give_up": []}, Request("春风秋月", fixed="春---"), ("no line keeps all that is asked",)),
        ({"give_up": ["tones"]}, Request("春风秋月", fixed="春---"), ("no line keeps all that is asked",)),
        ({"give_up": ["copy"], "tones": "off", "repetition": False}, Request("春风秋月", fixed="春---"), ("copy",)),
        ({"give_up": [], "copy": False}, Request("春风秋月", fixed="春---"), ()),
        ({"no_repeat_ngram": 1}, Request("春，风，月"), ("punctuation",)),
        ({"punctuation": False}, Request("春，风", fixed="。--"), ()),
        ({"punctuation": False}, Request("春，风", words=("山水花",)), ()),
        ({}, Request("春，风", words=("山水花",)), ("word 山水花",)),
        ({"no_repeat_ngram": 1}, Request("春，风，月", fixed="，----"), ("punctuation",)),
        ({}, Request("春，风", avoid=ALPHABET.replace("，", "")), ("avoid",)),
        ({"give_up": [], "no_repeat_ngram": 1}, Request("山山"), ("no line keeps all that is asked",)),
        ({"tones": "hard"}, Request("春风", avoid=ALPHABET), ("avoid",)),
    ],
)
def test_no_more_is_given_up_than_may_be(options, request_, wanted):
    model = translator(ALPHABET)
    found = model.search([request_], decode=Couplet(**options))[0]
    assert found[0].given_up == wanted
    assert bool(found[0].text) == ("no line keeps all that is asked" not in wanted)


def test_many_words_in_a_long_line_take_no_time():
    """All ways to place five words in forty places would be fifty million."""
    words = ("天", "地", "中", "看", "人")
    model = translator(ALPHABET)
    found = model.search([Request(FORTY, words=words)], decode=Couplet())[0][0]
    assert all(word in found.text for word in words) and not any(r.startswith("word") for r in found.given_up)
    asked = Request("春风秋月山水江海花", words=(*words, "日", "黄", "河", "流", "依"))  # ten words, nine places
    assert model.search([asked], decode=Couplet())[0][0].given_up == ("word 依",)


def test_an_unknown_character_that_nobody_asked_for_is_shown_as_one():
    model = translator(ALPHABET)
    with torch.no_grad():
        model.model.weight[:, UNK] += 20
    assert model.search(["春风"], decode=Couplet(unk=True))[0][0].text == UNKNOWN * 2
    assert UNKNOWN not in model.search(["春风"], decode=Couplet())[0][0].text
