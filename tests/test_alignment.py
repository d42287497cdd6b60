"""Word alignment: tables whose right values are worked out by hand, and the command on a real run."""

import json

import numpy as np
import pytest

from data.errors import DuetError
from data.grammar import Grammar
from data.sources import BuiltIn
from data.tokenizer import UNK, Characters, SentencePiece
from tasks import alignment
from tasks.alignment import Counts, Gold, align, choose, compare, links, merge, parse, pharaoh, search, shares, with_means

WORDS = [  # text, unit, the word of each character
    ("", "blank", []),
    ("a", "blank", [0]),
    ("ab c", "blank", [0, 0, -1, 1]),
    ("  ab   c ", "blank", [-1, -1, 0, 0, -1, -1, -1, 1, -1]),
    ("a\u00a0b\u3000c", "blank", [0, -1, 1, -1, 2]),
    ("我 爱你", "character", [0, -1, 1, 2]),
    ("ab", "character", [0, 1]),
]


@pytest.mark.parametrize("text, unit, places", WORDS)
def test_words_of_characters(text, unit, places):
    assert alignment.words_of_characters(text, unit) == places
    assert alignment.count_words(text, unit) == len(set(places) - {-1})


UNITS = [
    (["我爱你。"], "auto", "character"),
    (["I love you."], "auto", "blank"),
    (["我爱你。"], "blank", "blank"),
    (["I"], "character", "character"),
    ([], "auto", "blank"),
]


@pytest.mark.parametrize("lines, wanted, unit", UNITS)
def test_what_is_a_word(lines, wanted, unit):
    assert alignment.unit_of(lines, wanted) == unit


SHARES = [  # labels of the tokens, text, unit, for each token {word: its part}
    (["▁The", "▁old", "▁dog", "."], "The old dog.", "blank", [{0: 1}, {1: 1}, {2: 1}, {2: 1}]),
    (["▁un", "believ", "able"], "  unbelievable ", "blank", [{0: 1}] * 3),
    (["▁a", "▁b"], "a    b", "blank", [{0: 1}, {1: 1}]),
    # a blank alone belongs to the word after it, and to none at the end
    (["▁", "x", "▁", "y"], "x y", "blank", [{0: 1}, {0: 1}, {1: 1}, {1: 1}]),
    (["x", " ", "y", " "], "x y ", "blank", [{0: 1}, {1: 1}, {1: 1}, {}]),
    # Chinese: a token may span several words, that is, characters
    (["▁我", "爱你", "。"], "我爱你。", "character", [{0: 1}, {1: 0.5, 2: 0.5}, {3: 1}]),
    (["我", "爱", " ", "你"], "我爱 你", "character", [{0: 1}, {1: 1}, {2: 1}, {2: 1}]),
    # the tokenizer changed characters one by one
    (["▁a", ",", "▁b"], "a， b", "blank", [{0: 1}, {0: 1}, {1: 1}]),
    # … made several of one
    (["▁x", ".", ".", ".", "▁y"], "x… y", "blank", [{0: 1}] * 4 + [{1: 1}]),
    # … dropped one, and with it a whole word
    (["▁a", "▁b"], "a \u200b b", "blank", [{0: 1}, {2: 1}]),
    # … put a blank where the text has none
    (["▁a", "▁b", "▁c"], "a\u200bb c", "blank", [{0: 1}, {0: 1}, {1: 1}]),
    # one unknown token for several characters, with what follows still in its place
    (["▁", "⁇", "▁dog"], "☃☃☃ dog", "blank", [{0: 1}, {0: 1}, {1: 1}]),
    # words stay apart where there are as many
    (["▁", "⁇", "▁", "⁇", "▁..", "."], "½ a\u0301 …", "blank", [{0: 1}] * 2 + [{1: 1}] * 2 + [{2: 1}] * 2),
    (["⁇", "d"], "我爱d", "character", [{0: 0.5, 1: 0.5}, {2: 1}]),
    ([], "a b", "blank", []),
    (["▁a"], "", "blank", [{}]),
]


@pytest.mark.parametrize("pieces, text, unit, expected", SHARES)
def test_tokens_to_words(pieces, text, unit, expected):
    result = shares(pieces, text, unit)
    assert result.shape == (len(pieces), alignment.count_words(text, unit))
    assert [{word: row[word] for word in np.flatnonzero(row)} for row in result] == expected


TEXTS = ["Three sleeping dogs bark.", "  two   blanks ", "ﬁne ½ a\u0301 … x", "don´t", "☃☃ stop ☃", "a\u00a0b"]


@pytest.mark.parametrize("text", TEXTS)
def test_every_token_of_real_tokenizers_finds_its_words(text):
    """By another road: each word cut into tokens by itself."""
    tokenizer = SentencePiece.train(["Three sleeping dogs bark at two blank walls"] * 3, vocab_size=40, model_type="bpe")
    ids = tokenizer.encode(text)
    result = shares(alignment.labels(tokenizer, ids), text, "blank")
    counts = [len(tokenizer.encode(word)) for word in text.split()]
    assert np.concatenate([np.full(n, i) for i, n in enumerate(counts)]).tolist() == result.argmax(1).tolist()
    assert set(result.sum(1)) <= {0.0, 1.0} and len(ids) == len(result)


@pytest.mark.parametrize("text", TEXTS)
def test_every_character_finds_its_word(text):
    """A blank belongs to the word after it, and to none at the end."""
    tokenizer = Characters("adeghiklnoprstwT .")
    result = shares(alignment.labels(tokenizer, tokenizer.encode(text)), text, "blank")
    places = alignment.words_of_characters(text, "blank")
    after = [next((place for place in places[i:] if place >= 0), None) for i in range(len(text))]
    assert [int(row.argmax()) if row.sum() else None for row in result] == after


def test_an_unknown_token_is_labelled_as_it_is_decoded():
    assert alignment.labels(Characters("ab"), [4, UNK, 5]) == ["a", "⁇", "b"]


# one layer and head, source "▁x y z" + EOS: words {0}, {0 1}; target "p q r" + EOS: words {0 1}, {2}
ATTENTION = np.array([[[
    [0.1, 0.2, 0.6, 0.1],   # p
    [0.5, 0.3, 0.1, 0.1],   # q
    [0.0, 0.1, 0.4, 0.5],   # r: most is on EOS
    [0.7, 0.2, 0.0, 0.1],   # EOS
]]])  # fmt: skip
ROWS = np.array([[1, 0], [1, 0], [0, 1]])
COLUMNS = np.array([[1, 0], [1, 0], [0, 1]])

MERGED = [  # shift, words to words by hand: sums over source tokens, means over target tokens, EOS left out
    (0, [[(0.3 + 0.8) / 2, (0.6 + 0.1) / 2], [0.1, 0.4]]),
    (1, [[(0.8 + 0.1) / 2, (0.1 + 0.4) / 2], [0.9, 0.0]]),
    (-1, [[(0.3 + 0.3) / 2, (0.6 + 0.6) / 2], [0.8, 0.1]]),
]


@pytest.mark.parametrize("shift, expected", MERGED)
def test_merging(shift, expected):
    np.testing.assert_allclose(merge(ATTENTION, ROWS, COLUMNS, shift)[0, 0], expected)


def test_a_token_over_two_words_counts_in_each_by_its_part():
    weights = np.array([[[[0.9, 0.1], [0.5, 0.5]]]])  # one token and EOS on both sides
    np.testing.assert_allclose(merge(weights, np.array([[0.5, 0.5]]), np.array([[0.25, 0.75]]))[0, 0], [[0.225, 0.675]] * 2)


LINKS = [  # words to words, links
    ([[0.9, 0.1], [0.2, 0.8]], [(0, 0), (1, 1)]),
    ([[0.1, 0.9], [0.2, 0.1]], [(0, 1), (1, 0)]),
    ([[0.5, 0.5]], [(0, 0)]),  # the first of equals
    ([[0.0, 0.0], [0.0, 0.1]], [(1, 1)]),  # a word without weight has no link
    (np.zeros((2, 0)), []),
    (np.zeros((0, 2)), []),
]


@pytest.mark.parametrize("weights, expected", LINKS)
def test_links(weights, expected):
    assert links(np.array(weights)) == expected


def test_layers_and_heads_are_chosen_or_averaged():
    weights = np.arange(6.0).reshape(2, 3, 1, 1)  # layer 0: 0 1 2, layer 1: 3 4 5
    table = [(None, None, 2.5), (0, None, 1), (None, 2, 3.5), (1, 0, 3), (-1, -1, 5)]
    for layer, head, expected in table:
        assert choose(weights, layer, head) == [[expected]], (layer, head)
    np.testing.assert_allclose(with_means(weights)[..., 0, 0], [[0, 1, 2, 1], [3, 4, 5, 4], [1.5, 2.5, 3.5, 2.5]])
    with pytest.raises(DuetError, match="alignment.layer is 2, but the cross-attention has 2: choose 0 to 1"):
        choose(weights, 2)
    with pytest.raises(DuetError, match="alignment.head is -4"):
        choose(weights, None, -4)


def test_pharaoh_lines_read_back():
    line = "0-0 1-2 3?1 4p4"
    gold = parse(line)
    assert gold == Gold(frozenset({(0, 0), (1, 2)}), frozenset({(0, 0), (1, 2), (3, 1), (4, 4)}))
    assert pharaoh(sorted(gold.sure)) == "0-0 1-2" and parse("") == Gold(frozenset(), frozenset()) and pharaoh([]) == ""
    for wrong in ("0", "0-", "a-1", "0-0,1-1", "0--1"):
        with pytest.raises(DuetError, match="gold.txt, line 3: .* is no link"):
            parse(wrong, "gold.txt, line 3")


ERRORS = [  # found, gold, aer, precision, recall
    ("0-0 1-1", "0-0 1-1", 0.0, 1.0, 1.0),
    ("0-1 1-0", "0-0 1-1", 1.0, 0.0, 0.0),
    # A = 4, S = 2, A∩S = 1, A∩P = 3: 1 - (1 + 3) / (4 + 2)
    ("0-0 1-1 2-2 3-3", "0-0 4-4 1?1 2?2", 1 - 4 / 6, 3 / 4, 1 / 2),
    # possible links need not be found
    ("0-0", "0-0 1?1 2?2", 0.0, 1.0, 1.0),
    ("", "0-0", 1.0, 1.0, 0.0),
    ("", "", 0.0, 1.0, 1.0),
]


@pytest.mark.parametrize("found, gold, aer, precision, recall", ERRORS)
def test_error_rate(found, gold, aer, precision, recall):
    scores = compare(sorted(parse(found).sure), parse(gold)).scores()
    assert scores == pytest.approx({"aer": aer, "precision": precision, "recall": recall})


def test_the_error_rate_of_a_corpus_is_that_of_all_its_links():
    both = Counts(1, 1, 1, 1) + Counts(3, 1, 0, 0)  # 1 - (1 + 1) / (4 + 2), not the mean of 0 and 1
    assert both.scores()["aer"] == pytest.approx(1 - 2 / 6)


def sentences(seed=0, layers=2, heads=2):
    """Random attention for three sentences whose words are their tokens."""
    generator = np.random.default_rng(seed)
    for place, (target, source) in enumerate([(3, 4), (2, 2), (4, 3)]):
        weights = generator.dirichlet(np.ones(source + 1), (layers, heads, target + 1))
        yield alignment.Sentence(place, weights, np.eye(target), np.eye(source))


def test_the_search_finds_what_each_choice_gives():
    golds = [parse("0-0 1-1 2?2"), parse("1-0"), parse("0-3 2-1")]
    found = search(sentences(), golds)
    assert len(found) == 3 * 3 * 3 and [r["aer"] for r in found] == sorted(r["aer"] for r in found)
    for row in found:
        chosen = {name: row[name] for name in ("layer", "head", "shift")}
        lines = align(sentences(), 3, **chosen)
        scores = sum((compare(*pair) for pair in zip(lines, golds)), Counts()).scores()
        assert {name: row[name] for name in scores} == pytest.approx(scores), chosen


def test_the_mean_of_a_single_layer_or_head_is_not_listed():
    golds = [parse("0-0")] * 3
    assert {(r["layer"], r["head"]) for r in search(sentences(layers=1, heads=1), golds)} == {(0, 0)}


def test_the_built_in_corpus_knows_its_alignment_in_both_directions():
    pairs, known = list(Grammar("test")), Grammar("test").alignments()
    forth = BuiltIn(None, "test", source_column="en", target_column="de")
    back = BuiltIn(None, "test", source_column="de", target_column="en")
    assert forth.alignments() == known
    assert [{(t, s) for s, t in pair} for pair in back.alignments()] == [set(pair) for pair in known]
    for pair, found in zip(back, back.alignments()):
        assert all(s < len(pair.src.split()) and t < len(pair.tgt.split()) for s, t in found)
    assert len(pairs) == len(known)


# The command


def aligned(shell, run, *words):
    done = shell.evaluate(f"ckpt={run.ckpt}", "alignment.write=true", "out=out", *words)
    assert done.code == 0, done.err
    lines = (shell.folder / "out/alignment.txt").read_text().split("\n")
    return lines[:-1], json.loads((shell.folder / "out/metrics.json").read_text())["alignment"], done.out


def test_one_line_of_links_for_each_line(shell, small_run):
    (shell.folder / "in.txt").write_text("one two\n\n  three   one \n   \ntwo\n")
    (shell.folder / "ref.txt").write_text("eins zwei\n\ndrei  eins\nzwei\n\n")
    lines, found, _ = aligned(shell, small_run, "source=in.txt", "reference=ref.txt")
    assert len(lines) == 5 and lines[1] == lines[3] == lines[4] == "" and "aer" not in found
    for line in (lines[0], lines[2]):
        assert {target for _, target in parse(line).sure} == {0, 1}  # each target word has one link
        assert all(source < 2 for source, _ in parse(line).sure)


def test_the_error_rate_against_a_gold_file(shell, small_run):
    words = (small_run.corpus / "test.en").read_text().splitlines()
    gold = "".join(" ".join(f"{i}-{i}" for i in range(len(line.split()))) + "\n" for line in words)
    (shell.folder / "gold.txt").write_text(gold)
    lines, found, out = aligned(shell, small_run, "alignment.gold=gold.txt", "alignment.search=true")
    scores = sum((compare(sorted(parse(a).sure), parse(b)) for a, b in zip(lines, gold.splitlines())), Counts()).scores()
    assert {name: found[name] for name in scores} == scores and f"{scores['aer']:.3f}" in out
    best = found["search"][0]
    chosen = [f"alignment.{name}={'null' if best[name] is None else best[name]}" for name in ("layer", "head", "shift")]
    _, again, _ = aligned(shell, small_run, "alignment.gold=gold.txt", *chosen)
    assert again["aer"] == pytest.approx(best["aer"]) and best["aer"] <= found["aer"]


def test_the_output_can_be_aligned_instead_of_the_reference(shell, small_run):
    lines, found, _ = aligned(shell, small_run, "alignment.of=hypothesis")
    outputs = (shell.folder / "out/hypotheses.txt").read_text().splitlines()
    assert found["of"] == "hypothesis" and len(lines) == len(outputs)
    for line, output in zip(lines, outputs):
        assert {target for _, target in parse(line).sure} == set(range(len(output.split())))


WRONG = {  # a gold file of another content, options, what the error line says
    "too few lines": ("0-0\n", [], ["gold.txt has 1 lines, but there are 12 sentences"]),
    "no link": ("0-0\nx\n" + "0-0\n" * 10, [], ["gold.txt, line 2: 'x' is no link", "0?0"]),
    "no such word": ("0-0\n" * 11 + "0-9\n", [], ["gold.txt, line 12: 0-9", "the target has", "from 0"]),
    "no such layer": ("0-0\n" * 12, ["alignment.layer=5"], ["alignment.layer is 5", "null"]),
    "no such shift": ("0-0\n" * 12, ["alignment.shift=2"], ["alignment.shift is 2", "-1, 0, 1"]),
    "no such unit": ("0-0\n" * 12, ["alignment.unit=letter"], ["alignment.unit is 'letter'", "blank, character"]),
    "no such text": ("0-0\n" * 12, ["alignment.of=source"], ["alignment.of is 'source'", "hypothesis"]),
    "gold of a hypothesis": ("0-0\n" * 12, ["alignment.of=hypothesis"], ["alignment.of=hypothesis has no gold"]),
    "search without gold": (None, ["alignment.search=true"], ["alignment.search needs gold"]),
    "missing": (None, ["alignment.gold=nowhere.txt"], ["nowhere.txt"]),
    "misspelt": (None, ["alignment.layr=0"], ["'alignment.layr'", "did you mean 'alignment.layer'"]),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_mistake_is_told_in_one_line(shell, small_run, case):
    content, words, parts = WRONG[case]
    if content:
        (shell.folder / "gold.txt").write_text(content)
        words = [*words, "alignment.gold=gold.txt"]
    done = shell.evaluate(f"ckpt={small_run.ckpt}", *([] if content else ["alignment.write=true"]), "out=out", *words)
    assert done.code == 2 and len(done.err.splitlines()) == 1 and done.err.startswith("error: "), done.err
    for part in parts:
        assert part in done.err, done.err
