"""The rules of couplets, rule by rule: tables of lines and what they score."""

import pytest

from data.errors import DuetError
from data.tones import Tone
from tasks import couplet_scores as couplets
from tasks.couplet_scores import baselines, couplet_scores, random_baseline


def toy(character: str) -> Tone:
    """平 is level, 仄 oblique, 双 both; nothing is known of any other."""
    return {"平": Tone.LEVEL, "仄": Tone.OBLIQUE, "双": Tone.BOTH}.get(character, Tone.UNKNOWN)


def check(score, rows, *more):
    """Each row by itself, then all together: a share is of what is counted, not a mean over lines."""
    for upper, lower, held, counted in rows:
        expected = 100 * held / counted if counted else None
        assert score([upper], [lower], *more) == pytest.approx(expected), (upper, lower)
    uppers, lowers, held, counted = zip(*rows)
    assert score(uppers, lowers, *more) == pytest.approx(100 * sum(held) / sum(counted))
    assert score([], [], *more) is None


def test_length_match():
    check(couplets.length_match, [("春风", "秋月", 1, 1), ("春风", "秋", 0, 1), ("春", "", 0, 1), ("𠀀，", "秋月", 1, 1)])


def test_punctuation_match():
    rows = [
        ("春，风", "秋，月", 1, 1),
        ("春，风", "秋、月", 0, 1),
        ("春，风", "秋月，", 0, 1),
        ("春风", "秋月来", 1, 1),
        ("春风", "秋月。", 0, 1),
        ("春，", "", 0, 1),
    ]
    check(couplets.punctuation_match, rows)


def test_repetition_match():
    rows = [
        ("山山水", "月月星", 1, 1),
        ("山山水", "月星月", 0, 1),
        ("山山水", "月星云", 0, 1),
        ("山水云", "月月星", 0, 1),
        ("山水山水", "风月风月", 1, 1),
        ("山水山水", "风月月风", 0, 1),
        ("山，山", "月，月", 1, 1),
        ("山，水，", "月星", 1, 1),  # repeated marks are no repetition
        ("山水", "月", 0, 1),
        ("", "", 1, 1),
    ]
    check(couplets.repetition_match, rows)


def test_copies():
    rows = [
        ("春风来", "秋月去", 0, 3),
        ("春风来", "春月去", 1, 3),  # at the same place
        ("春风来", "来月春", 2, 3),  # at another
        ("春之风", "秋之月", 0, 3),  # a particle at the same place
        ("春之风", "之秋月", 1, 3),  # and at another
        ("春不风", "秋不月", 1, 3),  # no particle
        ("春，风", "秋，月", 0, 2),
        ("春，风", "，", 0, 0),
        ("春风", "春春春", 3, 3),
        ("春风", "", 0, 0),
    ]
    check(couplets.copies, rows)
    uppers, lowers, held, _ = zip(*rows)
    assert couplets.copied_lines(uppers, lowers) == sum(value > 0 for value in held)


@pytest.mark.parametrize(
    "lowers, one, two",
    [
        (["春风", "春月"], 3 / 4, 2 / 2),
        (["春春春春"], 1 / 4, 1 / 3),
        (["春风，春风"], 2 / 4, 1 / 2),  # no pair across a mark
        (["春", "风"], 2 / 2, None),
        (["", "，"], None, None),
    ],
)
def test_distinct(lowers, one, two):
    for size, expected in ((1, one), (2, two)):
        assert couplets.distinct(lowers, size) == (None if expected is None else pytest.approx(100 * expected))


def test_tone_contrast():
    rows = [
        ("平平", "平仄", 1, 1),  # odd places do not matter
        ("平平", "仄平", 0, 1),
        ("平", "平", 0, 0),
        ("平平平平平平平平", "仄仄仄平仄仄仄平", 2, 3),  # 2 and 6 contrast, 4 does not, 8 is not counted
        ("平仄，平仄", "平平，平仄", 1, 2),  # places are counted within clauses
        ("平双", "平平", 1, 1),
        ("平双", "平双", 0, 1),  # one character does not contrast with itself
        ("平甲", "平乙", 1, 1),
        ("平仄", "平", 0, 1),
        ("平仄平仄", "平，平平", 1, 2),
    ]
    check(couplets.tone_contrast, rows, toy)


def test_end_tones():
    rows = [
        ("平仄", "仄平", 1, 1),
        ("平仄", "平仄", 0, 1),
        ("平仄。", "仄平！", 1, 1),
        ("平双", "仄平", 1, 1),  # it may end oblique, so it is taken to
        ("平双", "仄仄", 0, 1),
        ("平甲", "仄乙", 1, 1),
        ("平仄", "", 0, 1),
        ("平平", "仄仄", 0, 0),  # turned
    ]
    check(couplets.end_tones, rows, toy)


def test_an_upper_line_that_ends_level_is_counted_apart():
    rows = [
        ("平平", "平仄", 1, 1),
        ("平平。", "平平。", 0, 1),
        ("平平", "平双", 1, 1),
        ("平平", "", 0, 1),
        ("平仄", "平平", 0, 0),
        ("平双", "平平", 0, 0),
    ]
    check(couplets.turned_end_tones, rows, toy)
    assert couplets.turned_lines([upper for upper, *_ in rows], toy) == 4


def test_all_scores_come_in_one_order_and_in_percent():
    found = couplet_scores(["平平仄", "平仄"], ["仄仄平", "仄仄"], toy)
    assert found == {
        "length_match": 100.0,
        "punctuation_match": 100.0,
        "repetition_match": 50.0,
        "copies": 100.0,
        "copied_lines": 2,
        "tone_contrast": 50.0,
        "end_tones": 50.0,
        "turned_end_tones": None,
        "turned_lines": 0,
        "distinct_1": 40.0,
        "distinct_2": pytest.approx(200 / 3),
    }
    assert list(found)[0] == "length_match" and list(found)[-2:] == ["distinct_1", "distinct_2"]
    assert list(couplet_scores([], [], toy)) == list(found)


def test_lists_that_differ_in_length_are_told():
    with pytest.raises(DuetError, match="1 lower lines cannot answer 2 upper lines"):
        couplet_scores(["平", "仄"], ["平"], toy)


# Baselines


def test_random_lines_have_the_length_of_the_line_they_answer():
    training = ["一", "二", "三四", "五六", "七八", "九十百千"]
    uppers = ["春", "风风", "月月", "来来来来", "去去去", "长" * 9, ""]
    drawn = random_baseline(uppers, training, seed=3)
    assert [len(line) for line in drawn] == [1, 2, 2, 4, 2, 4, 1]  # the nearest, of two the shorter
    assert set(drawn) <= set(training)
    assert drawn == random_baseline(uppers, training, seed=3)
    assert len({tuple(random_baseline(uppers, training, seed=seed)) for seed in range(20)}) > 1
    with pytest.raises(DuetError, match="no training lines"):
        random_baseline(uppers, [])


def test_baselines_of_references_copies_and_random_lines():
    uppers, references = ["平仄平仄", "仄平仄"] * 5, ["仄平仄平", "平仄平"] * 5
    table = baselines(uppers, references, ["仄平仄平", "平仄平"], toy)
    assert list(table) == ["reference", "copy", "random"]
    assert table["reference"]["bleu"] == table["random"]["bleu"] == pytest.approx(100)
    assert table["reference"] | {"bleu": 0} == couplet_scores(uppers, references, toy) | {"bleu": 0}
    assert table["copy"]["copies"] == 100 and table["copy"]["tone_contrast"] == table["copy"]["end_tones"] == 0
    assert all(next(iter(scores)) == "bleu" for scores in table.values())
