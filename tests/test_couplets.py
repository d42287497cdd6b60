"""The rules by which couplets are taken out of poems and split."""

import itertools
import random

import pytest

from data import couplets
from data.couplets import ACCOUNT, Couplet, Poem, Rules
from data.errors import DuetError
from tests import poetry


def account():
    return dict.fromkeys(ACCOUNT, 0)


@pytest.mark.parametrize("upper, lower, good", [
    ("仄仄平平仄", "平平仄仄平", True),
    ("平平平仄仄", "仄仄仄平平", True),
    ("仄仄平平平", "平平仄仄平", False),          # the upper line ends level
    ("仄仄平平仄", "平平仄仄仄", False),          # the lower line ends oblique
    ("仄仄平平○", "平平仄仄○", True),             # both tones fit everywhere
    ("仄仄平平仄", "仄仄仄仄平", True),           # one of the places 2 and 4 has the same tone
    ("仄仄平平仄", "仄仄平平平", False),          # both have
    ("仄○平平仄", "仄○平平平", True),
    ("仄仄平平仄", "平平平仄平", True),           # the places 1, 3, 5 are free
    ("平平仄仄平平仄", "仄仄平平仄仄平", True),
    ("平平仄仄平平仄", "仄仄平平仄平平", True),
    ("平平仄仄平平仄", "仄平平平仄平平", False),
])  # fmt: skip
def test_tones(upper, lower, good):
    assert couplets.contrasts(upper, lower) is good


LINES, TONES = tuple("abcdefgh"), tuple(poetry.tones())


@pytest.mark.parametrize("lines, tones, reason", [
    (8 * ("一二三四五",), TONES, "regulated_poems"),
    (None, TONES, "other_form"),
    (8 * ("一二三四五六七",), tuple(poetry.tones(7)), "other_length"),
    (8 * ("一二三四五",), None, "no_tones"),
    (8 * ("一二三四五",), tuple(poetry.tones(7)), "no_tones"),
    (8 * ("一二三四五",), TONES[:7] + ("平平仄仄仄",), "oblique_rhyme"),
    (8 * ("一二三四五",), TONES[:7] + ("平平仄仄○",), "regulated_poems"),
])  # fmt: skip
def test_poems(lines, tones, reason):
    count = account()
    package = couplets.Package({"id": lines}, {"id": tones} if tones else {}, "2.0.1", "")
    list(couplets.regulated(package, (5,), count))
    assert {name for name, value in count.items() if value} == {"poems", reason}


@pytest.mark.parametrize("text, lines", [
    ("一二三四五，" * 7 + "一二三四五。", 8),
    ("一二三四五六七？一二三四五六七！" * 4, 8),
    ("一二三四五，" * 7, None),
    ("一二三四五，" * 7 + "一二三四。", None),
    ("一二三四，" * 8, None),
    ("", None),
])  # fmt: skip
def test_eight_lines(text, lines):
    found = couplets._eight(text)
    assert (found and len(found)) == lines


def test_inner_couplets_only_and_each_drop_is_counted():
    lines = tuple(poetry.verse(random.Random(2)))
    rare = (*lines[:2], "一二三四□", *lines[3:])
    flat = (*TONES[:4], "仄仄平平平", *TONES[5:])
    count = account()
    poems = [Poem(lines, TONES), Poem(rare, TONES), Poem(lines, flat)]
    found = couplets.distinct(couplets.inner_couplets(poems, count), count)
    assert [couplet[:2] for couplet in found] == [lines[2:4], lines[4:6]]
    assert [couplet.poem for couplet in found] == [0, 0]  # of equal pairs the first
    assert {name: value for name, value in count.items() if value} == {
        "rare_characters": 1, "no_contrast": 1, "duplicates": 2, "couplets": 2,
    }  # fmt: skip


@pytest.mark.parametrize("script, text, written", [
    ("traditional", "秦川雄帝宅", "秦川雄帝宅"),
    ("traditional", "隠疎簷鴈", "隱疏檐雁"),
    ("simplified", "隠疎簷鴈鬰", "隐疏檐雁郁"),
    ("simplified", "綺殿千尋起", "绮殿千寻起"),
])  # fmt: skip
def test_scripts(script, text, written):
    assert couplets.converter(script)([text, "一"]) == (written, "一")


def test_each_variant_has_one_usual_form():
    rare, usual = zip(*couplets.VARIANTS.split())
    assert len(set(rare)) == len(rare) and not set(rare) & set(usual)


# near-duplicates, and splits


@pytest.mark.parametrize("one, other, near", [
    ("一二三四五 六七八九十", "一二三四五 六七八九十", True),
    ("一二三四五 六七八九十", "甲二三四五 六七八九乙", True),
    ("一二三四五 六七八九十", "一二甲四五 六七乙九十", True),
    ("一二三四五 六七八九十", "甲乙三四五 六七八九十", False),
    ("一二三四五 六七八九十", "一二三四五 甲乙八九十", False),
    ("一二三四五 六七八九十", "一二三四五六七 六七八九十一二", False),
])  # fmt: skip
def test_near_duplicates(one, other, near):
    pairs = [Couplet(*text.split(), number) for number, text in enumerate((one, other))]
    assert bool(list(couplets.near_duplicates(pairs))) is near


def test_near_duplicates_are_all_found():
    rng = random.Random(3)
    made = [Couplet(*("".join(rng.choices("一二三", k=5)) for _ in range(2)), number) for number in range(300)]
    expected = {pair for pair in itertools.combinations(made, 2) if couplets._near(*pair)}
    assert expected and set(couplets.near_duplicates(made)) == expected


def corpus(count=120, changed=40):
    """Poems of which some repeat a line or nearly repeat a couplet of another."""
    rng = random.Random(4)
    poems = [Poem(tuple(poetry.verse(rng)), TONES) for _ in range(count)]
    for number in range(changed):
        lines, other = list(poems[number].lines), poems[number + 1].lines
        if number % 2:
            lines[rng.randrange(8)] = other[rng.randrange(8)]
        else:
            lines[2:4] = ["甲" + other[2][1:], other[3][:-1] + "乙"]
        poems[number] = Poem(tuple(lines), TONES)
    return poems, couplets.distinct(couplets.inner_couplets(poems, account()), account())


def test_no_line_and_no_near_duplicate_is_in_two_splits():
    poems, pairs = corpus()
    for seed in range(5):
        splits = couplets.split(pairs, couplets.related(poems, pairs), Rules(valid=20, test=20, seed=seed))
        assert {name: len(part) for name, part in splits.items()} == {"train": len(pairs) - 40, "valid": 20, "test": 20}
        for one, other in itertools.combinations(splits.values(), 2):
            assert not {pair.poem for pair in one} & {pair.poem for pair in other}
            lines = [{line for pair in part for line in poems[pair.poem].lines} for part in (one, other)]
            assert not lines[0] & lines[1]
            assert not any(couplets._near(a, b) for a, b in itertools.product(one, other))


def test_a_large_group_is_trained_on():
    poems, pairs = corpus(changed=0)
    related = [0 if number < 60 else number for number in range(len(poems))]
    for seed in range(20):
        splits = couplets.split(pairs, related, Rules(valid=20, test=20, seed=seed))
        assert all(pair.poem >= 60 for name in ("valid", "test") for pair in splits[name])


def test_a_split_depends_on_the_seed_and_not_on_the_order_of_the_package():
    poems, pairs = corpus(changed=0)
    rules = Rules(valid=20, test=20)

    def texts(seed, order):
        ranked = couplets.split(order, couplets.related(poems, pairs), Rules(valid=20, test=20, seed=seed))
        return {name: [pair[:2] for pair in part] for name, part in ranked.items()}

    assert texts(rules.seed, pairs) == texts(rules.seed, pairs[::-1]) != texts(2, pairs)


def test_too_few_couplets():
    poems, pairs = corpus(count=30, changed=0)
    related = couplets.related(poems, pairs)
    for valid, test in ((20, 40), (100, 5)):
        with pytest.raises(DuetError, match=f"60 couplets are too few for test={test}, valid={valid}"):
            couplets.split(pairs, related, Rules(valid=valid, test=test))
