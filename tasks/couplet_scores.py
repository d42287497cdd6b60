"""How well lower lines keep the rules of couplets (对联): numbers for a list of upper lines and the list of their answers.

Every share is in percent of what its docstring counts, or None where there is nothing to count. Characters are Unicode code
points; marks are punctuation and blanks (`data.tones.is_mark`). A character whose tone is unknown, or may be either, is taken
for what the rule asks for. None of this measures sense: a random line of the right length keeps more than half of the rules.
"""

import random
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence

from data.errors import DuetError
from data.tones import EVEN, PARTICLES, Tone, Tones, clauses, is_mark
from tasks.metrics import quick_scores

Lines = Sequence[str]


# Form


def length_match(uppers: Lines, lowers: Lines) -> float | None:
    """Pairs whose lines have equally many characters, marks included."""
    return _share(len(upper) == len(lower) for upper, lower in zip(uppers, lowers))


def punctuation_match(uppers: Lines, lowers: Lines) -> float | None:
    """Pairs whose lines have the same marks at the same places, counted from the start; most often none at all."""
    return _share(_marks(upper) == _marks(lower) for upper, lower in zip(uppers, lowers))


def repetition_match(uppers: Lines, lowers: Lines) -> float | None:
    """Pairs whose lines repeat characters alike: for any two places, both lines have one character there twice, or neither.

    Places are counted without marks. Lines of different lengths are no match.
    """
    return _share(_repetitions(upper) == _repetitions(lower) for upper, lower in zip(uppers, lowers))


def _marks(line: str) -> list[tuple[int, str]]:
    return [(place, character) for place, character in enumerate(line) if is_mark(character)]


def _repetitions(line: str) -> list[int]:
    """For each character, where it occurred first."""
    letters = _letters(line)
    return [letters.index(letter) for letter in letters]


# Words


def copies(uppers: Lines, lowers: Lines, particles: Collection[str] = PARTICLES) -> float | None:
    """Characters of the answers, marks not counted, that occur in the upper line.

    A particle that stands at the same place of both lines is counted as a character, but not as a copy.
    """
    return _share(copied for upper, lower in zip(uppers, lowers) for copied in _copies(upper, lower, particles))


def copied_lines(uppers: Lines, lowers: Lines, particles: Collection[str] = PARTICLES) -> int:
    """How many answers have such a copy."""
    return sum(any(_copies(upper, lower, particles)) for upper, lower in zip(uppers, lowers))


def distinct(lowers: Lines, size: int) -> float | None:
    """Different n-grams of characters in all answers to all n-grams (Li et al. 2016, distinct-1 and -2); none spans a mark.

    It falls as there are more lines, so compare answers to the same lines only.
    """
    parts = [part for line in lowers for part in _parts(line)]
    found = Counter(part[i : i + size] for part in parts for i in range(len(part) - size + 1))
    return 100 * len(found) / found.total() if found else None


def _copies(upper: str, lower: str, particles: Collection[str]) -> list[bool]:
    """For each character of the lower line but marks, whether it is a copy."""
    return [
        character in upper and not (character in particles and upper[place : place + 1] == character)
        for place, character in enumerate(lower)
        if not is_mark(character)
    ]


def _parts(line: str) -> list[str]:
    """What stands between marks."""
    return "".join(" " if is_mark(character) else character for character in line).split()


# Tones


def tone_contrast(uppers: Lines, lowers: Lines, tones: Tones) -> float | None:
    """Even places of the upper lines' clauses (2, 4, 6) where the answer has a character of the other tone.

    The same character does not contrast with itself, nor does a place that the answer lacks or fills with a mark.
    """
    pairs = (pair for upper, lower in zip(uppers, lowers) for pair in _even_places(upper, lower))
    return _share(one != other and _letters(other) and tones(one).may_contrast(tones(other)) for one, other in pairs)


def end_tones(uppers: Lines, lowers: Lines, tones: Tones) -> float | None:
    """Of the pairs whose upper line ends oblique, as the rule wants, those whose answer ends level."""
    return _share(_ends(lower, Tone.LEVEL, tones) for upper, lower in zip(uppers, lowers) if not _turned(upper, tones))


def turned_end_tones(uppers: Lines, lowers: Lines, tones: Tones) -> float | None:
    """Of the pairs whose upper line ends level, as a lower one should, those whose answer ends oblique."""
    return _share(_ends(lower, Tone.OBLIQUE, tones) for upper, lower in zip(uppers, lowers) if _turned(upper, tones))


def turned_lines(uppers: Lines, tones: Tones) -> int:
    """How many upper lines end level for certain."""
    return sum(_turned(upper, tones) for upper in uppers)


def _even_places(upper: str, lower: str) -> Iterable[tuple[str, str]]:
    """What stands at the even places of the upper line, and at the same places of the lower one ("" past its end)."""
    return ((upper[i], lower[i : i + 1]) for i, place in enumerate(clauses(upper)) if place in EVEN)


def _turned(upper: str, tones: Tones) -> bool:
    return _ends(upper, Tone.LEVEL, tones) and not _ends(upper, Tone.OBLIQUE, tones)


def _ends(line: str, tone: Tone, tones: Tones) -> bool:
    """Whether the last character but marks may have this tone; a line without characters has none."""
    letters = _letters(line)
    return bool(letters) and tones(letters[-1]).may_be(tone)


# All together


def couplet_scores(
    uppers: Lines, lowers: Lines, tones: Tones, particles: Collection[str] = PARTICLES
) -> dict[str, float | int | None]:
    """All of the above, in a fixed order. Raises DuetError where the numbers of lines differ."""
    if len(uppers) != len(lowers):
        raise DuetError(f"{len(lowers)} lower lines cannot answer {len(uppers)} upper lines")
    return {
        "length_match": length_match(uppers, lowers),
        "punctuation_match": punctuation_match(uppers, lowers),
        "repetition_match": repetition_match(uppers, lowers),
        "copies": copies(uppers, lowers, particles),
        "copied_lines": copied_lines(uppers, lowers, particles),
        "tone_contrast": tone_contrast(uppers, lowers, tones),
        "end_tones": end_tones(uppers, lowers, tones),
        "turned_end_tones": turned_end_tones(uppers, lowers, tones),
        "turned_lines": turned_lines(uppers, tones),
        "distinct_1": distinct(lowers, 1),
        "distinct_2": distinct(lowers, 2),
    }


def shown(value: float | int | None) -> str:
    """A figure in a table; – where nothing was counted."""
    return "–" if value is None else f"{value:.2f}" if isinstance(value, float) else str(value)


KEPT = {  # rules, as decode=couplet calls them -> figures, and what these are where a pair keeps it
    "length": {"length_match": 100.0},
    "punctuation": {"punctuation_match": 100.0},
    "repetition": {"repetition_match": 100.0},
    "tones": {"tone_contrast": 100.0, "end_tones": 100.0, "turned_end_tones": 100.0},
    "copy": {"copies": 0.0},
}


def broken_rules(upper: str, lower: str, tones: Tones, particles: Collection[str] = PARTICLES) -> list[str]:
    """The names of the rules that a pair breaks."""
    found = couplet_scores([upper], [lower], tones, particles)
    return [rule for rule, kept in KEPT.items() if any(found[name] not in (None, value) for name, value in kept.items())]


def _letters(line: str) -> str:
    """Its characters without marks."""
    return "".join(character for character in line if not is_mark(character))


def _share(held: Iterable) -> float | None:
    """How many of these are true, in percent."""
    counted = [bool(value) for value in held]
    return 100 * sum(counted) / len(counted) if counted else None


# What figures have to be read against


def random_baseline(uppers: Lines, training: Lines, *, seed: int = 1) -> list[str]:
    """For each upper line a lower line of the training split, drawn from those of its length, else from the nearest length.

    Fluent, and level at its end, but it answers nothing.
    """
    by_length, draw = defaultdict(list), random.Random(seed)
    for line in training:
        by_length[len(line)].append(line)
    if not by_length:
        raise DuetError("there are no training lines to draw from")
    nearest = {n: min(by_length, key=lambda length: (abs(length - n), length)) for n in set(map(len, uppers))}
    return [draw.choice(by_length[nearest[len(upper)]]) for upper in uppers]


def with_bleu(uppers: Lines, lowers: Lines, references: Lines, tones: Tones) -> dict[str, float | int | None]:
    """Character BLEU and `couplet_scores`, with one list of particles for whatever has written the lines."""
    return {"bleu": quick_scores(lowers, references, tokenize="char")["bleu"]} | couplet_scores(uppers, lowers, tones)


def baselines(
    uppers: Lines, references: Lines, training: Lines, tones: Tones, *, seed: int = 1
) -> dict[str, dict[str, float | int | None]]:
    """What the references themselves, copies of the upper lines and random lines get: name -> `with_bleu`. A copy's form is
    perfect, and it breaks every rule of words and tones.

    Without training lines there are no random ones.
    """
    systems = {"reference": list(references), "copy": list(uppers)}
    if training:
        systems["random"] = random_baseline(uppers, training, seed=seed)
    return {name: with_bleu(uppers, lines, references, tones) for name, lines in systems.items()}
