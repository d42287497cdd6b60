"""Tests of differences, scores by length and the choice of sentences, on outputs made by hand."""

import pytest
from sacrebleu.metrics import BLEU, CHRF

from tasks import systems

REFERENCES = [f"the {animal} number {i} sleeps in the {place} today" for i, (animal, place) in
              enumerate(zip(["dog", "cat", "old horse", "bird"] * 15, ["house", "garden", "warm sun"] * 20))]  # fmt: skip
GOOD = [line if i % 6 else line.replace("sleeps", "slept") for i, line in enumerate(REFERENCES)]
BAD = [line.replace("sleeps", "runs").replace("today", "now") if i % 3 else line for i, line in enumerate(REFERENCES)]
CLOSE = [line if i % 6 != 1 else line.replace("sleeps", "slept") for i, line in enumerate(REFERENCES)]
OPTIONS = {"bleu": {"tokenize": "13a", "lowercase": False}, "bootstrap": 200, "randomization": 500}


def by_name(found, metric="bleu"):
    return {test.name: test for test in found.tests if test.metric == metric}


def test_a_clear_difference_is_significant_and_a_slight_one_is_not():
    found = systems.significance({"good": GOOD, "bad": BAD, "close": CLOSE}, REFERENCES, baseline="good", **OPTIONS)
    tests = by_name(found)
    assert set(tests) == {"bad", "close"}
    expected = BLEU().corpus_score(BAD, [REFERENCES]).score - BLEU().corpus_score(GOOD, [REFERENCES]).score
    assert tests["bad"].difference == pytest.approx(expected) and expected < -10
    assert tests["bad"].p_bootstrap == pytest.approx(1 / 201) and tests["bad"].p_randomization == pytest.approx(1 / 501)
    assert tests["close"].p_bootstrap > 0.05 and tests["close"].p_randomization > 0.05
    chrf = by_name(found, "chrf")["bad"].difference
    assert chrf == pytest.approx(CHRF().corpus_score(BAD, [REFERENCES]).score - CHRF().corpus_score(GOOD, [REFERENCES]).score)
    assert 0 < found.half_widths["good"] < 10 and set(found.half_widths) == {"good", "bad", "close"}
    assert "bs:200|seed:12345" in found.signatures["bleu bootstrap"] and "nc:6" in found.signatures["chrf randomization"]


def test_the_same_output_is_no_difference_at_all():
    """sacreBLEU gives it the smallest p-value there is."""
    tests = by_name(systems.significance({"a": GOOD, "b": list(GOOD)}, REFERENCES, baseline="a", **OPTIONS))
    assert tests["b"][2:] == (0.0, 1.0, 1.0)


def test_the_order_of_the_systems_does_not_matter():
    first = systems.significance({"a": GOOD, "b": BAD}, REFERENCES, baseline="a", **OPTIONS)
    second = systems.significance({"b": BAD, "a": GOOD}, REFERENCES, baseline="a", **OPTIONS)
    assert first == second
    back = systems.significance({"a": GOOD, "b": BAD}, REFERENCES, baseline="b", **OPTIONS)
    assert by_name(back)["a"].difference == -by_name(first)["b"].difference


def test_one_system_alone_has_a_half_width_and_no_test():
    found = systems.significance({"a": GOOD}, REFERENCES, baseline="a", **OPTIONS)
    assert found.tests == [] and found.half_widths["a"] > 0


BUCKETS = [  # lengths, least, [(first, last, sentences)]
    ([], 1, []),
    ([0, 0], 1, []),
    ([3], 10, [(3, 3, 1)]),
    ([1, 2, 3, 3], 1, [(1, 1, 1), (2, 2, 1), (3, 3, 2)]),
    ([0, 2, 2, 9], 1, [(2, 2, 2), (9, 9, 1)]),
    # 1 to 16: eight buckets of two
    (list(range(1, 17)), 1, [(n, n + 1, 2) for n in range(1, 17, 2)]),
    # 1 to 17: ten lengths at a step of two are too many, so five
    (list(range(1, 18)), 1, [(1, 5, 5), (6, 10, 5), (11, 15, 5), (16, 17, 2)]),
    # too few at the end join those before, too few at the beginning those after
    ([1] * 5 + [2] * 5 + [3], 4, [(1, 1, 5), (2, 3, 6)]),
    ([1] + [2] * 5 + [3] * 5, 4, [(1, 2, 6), (3, 3, 5)]),
    ([1, 2, 3], 10, [(1, 3, 3)]),
    ([4] * 20 + [900], 5, [(4, 900, 21)]),
]


@pytest.mark.parametrize("lengths, least, expected", BUCKETS)
def test_buckets(lengths, least, expected):
    found = systems.buckets(lengths, least=least)
    assert [(bucket.first, bucket.last, len(bucket.places)) for bucket in found] == expected
    for bucket in found:
        assert bucket.places == sorted(bucket.places) and all(bucket.first <= lengths[i] <= bucket.last for i in bucket.places)


def test_bleu_by_length_is_that_of_the_bucket():
    lengths = [len(line.split()) for line in REFERENCES]
    found = systems.bleu_by_length({"good": GOOD, "bad": BAD}, REFERENCES, lengths, bleu=OPTIONS["bleu"], bootstrap=50)
    assert sum(bucket["sentences"] for bucket in found) == len(REFERENCES) and len(found) > 1
    places = [i for i, n in enumerate(lengths) if found[0]["first"] <= n <= found[0]["last"]]
    for name, lines in (("good", GOOD), ("bad", BAD)):
        score = BLEU().corpus_score([lines[i] for i in places], [[REFERENCES[i] for i in places]]).score
        assert found[0]["bleu"][name] == pytest.approx(score) and found[0]["half_width"][name] >= 0


def test_perfect_output_scores_100_at_every_length():
    """BLEU is 0 where no reference has a 4-gram: such sentences are counted with longer ones."""
    words = ["word", "other", "third", "fourth", "fifth", "sixth"]
    references = [" ".join(words[:n]) for n in range(1, 7) for _ in range(12)]
    lengths = [len(line.split()) for line in references]
    found = systems.bleu_by_length({"perfect": list(references)}, references, lengths, bleu=OPTIONS["bleu"], bootstrap=50)
    assert [(bucket["first"], bucket["last"], bucket["sentences"]) for bucket in found] == [(1, 4, 48), (5, 5, 12), (6, 6, 12)]
    assert [bucket["bleu"]["perfect"] for bucket in found] == pytest.approx([100] * 3)


def test_the_sentences_that_differ_most_come_first():
    references, sources = ["one two three", "four five six", "seven", ""], ["1 2 3", "4 5 6", "7", " "]
    outputs = {
        "a": ["one two three", "four five six", "seven", "x"],
        "b": ["one two tree", "nothing", "seven", ""],
        "c": ["one two three", "four five", "seven", ""],
    }
    found = systems.examples(outputs, sources, references, 10)
    assert [example["line"] for example in found] == [2, 1]  # equal outputs, and blank sources, are left out
    assert [output["names"] for output in found[0]["outputs"]] == [["a"], ["c"], ["b"]]
    assert [output["names"] for output in found[1]["outputs"]] == [["a", "c"], ["b"]]
    assert found[0]["outputs"][0]["chrf"] == pytest.approx(100) and found[0]["spread"] > found[1]["spread"] > 0
    assert systems.examples(outputs, sources, references, 1) == found[:1]
    assert systems.examples(outputs, sources, references, 0) == []


def test_of_one_system_the_worst_sentences_are_shown():
    found = systems.examples({"a": ["x y", "one"]}, ["1", "2"], ["three", "one"], 5)
    assert [example["line"] for example in found] == [1, 2] and found[0]["spread"] > found[1]["spread"]
