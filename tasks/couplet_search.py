"""`decode=couplet`: a beam search whose answers keep the rules of couplets (对联), and what a person asks of one line.

The rules themselves are `model.constraints`; here are the tables that they read, and what is done where nothing keeps them all.
"""

import functools
import itertools
import math
import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from data.batching import Batch
from data.errors import DuetError
from data.tokenizer import EOS, PAD, SPECIALS, UNK, UNKNOWN, Characters, Tokenizer
from data.tones import EVEN, PARTICLES, SYSTEMS, Tone, Tones, clauses, is_mark
from model import constraints
from model.base import Seq2Seq
from model.search import Constraint, Hypotheses, ranked
from tasks.decoding import IDS, About, Beam, Decoded, Request

FREE = "-"  # in a template: any character
RULES = ("tones", "copy", "repetition")  # what may be given up
MODES = ("hard", "soft", "off")


@dataclass(kw_only=True)
class Couplet(Beam):
    """Beam search for the lower line of a couplet. It answers each place of the upper line, so both are equally long.

    punctuation, repetition, copy: whether the answer has the upper line's marks at its places and no others; repeats a
    character where the upper line does, and nowhere else; has no character of the upper line but `particles` at their own
    place. tones: "hard", "soft" or "off": the answer ends level (平), or where the upper line itself ends level, oblique (仄),
    and its places 2, 4 and 6 of a clause have the other tone than the upper line's. Soft: `tone_weight` is taken off the
    log-probability of each character that breaks this; it counts in the ranking too. tone_system: `data.tones.SYSTEMS`.
    give_up: the rules that are dropped where no answer keeps all, as few as possible, those named first before others.
    placements: how many ways to place the words that must occur are searched, at most.
    """

    takes_wishes: ClassVar[bool] = True
    max_len_a: float = 1.0
    max_len_b: float = 0.0
    length_penalty: float | str = 0.0
    punctuation: bool = True
    repetition: bool = True
    copy: bool = True
    particles: str = "".join(sorted(PARTICLES))
    tones: str = "soft"
    tone_weight: float = 2.0
    tone_system: str = "pingshui"
    give_up: Sequence[str] = RULES
    placements: int = 16

    def __post_init__(self):
        super().__post_init__()
        self.check_least({"tone_weight": 0, "placements": 1})
        if self.tones not in MODES:
            raise ValueError(f"decode.tones must be one of {', '.join(MODES)}, not {self.tones!r}")
        if self.tone_system not in SYSTEMS:
            raise ValueError(f"decode.tone_system must be one of {', '.join(SYSTEMS)}, not {self.tone_system!r}")
        if not {*self.give_up} <= {*RULES} or len({*self.give_up}) < len(self.give_up):
            raise ValueError(f"decode.give_up is a list of {', '.join(RULES)}, each once at most, not {list(self.give_up)}")

    def __call__(self, model: Seq2Seq, batch: Batch, about: About) -> Decoded:
        """The texts of the upper lines are needed, since unknown characters are one id to the model."""
        if any(request.prefix for request in about.requests):
            raise DuetError("decode=couplet takes fixed characters instead of what a line begins with")
        tables = self.tables(about.tokenizer)
        sizes = [int(size) - 1 for size in batch.src_mask.sum(dim=1)]
        if model.max_target is not None and max(sizes) >= model.max_target:
            raise DuetError(f"an upper line has {max(sizes)} characters, and the model answers {model.max_target - 1} at most")
        jobs = [Job(tables, request, size, self.punctuation) for request, size in zip(about.requests, sizes)]
        return Session(self, tables, jobs, model, batch).run()

    def check(self, model: Seq2Seq, src_tokenizer: Tokenizer, tgt_tokenizer: Tokenizer) -> None:
        super().check(model, src_tokenizer, tgt_tokenizer)
        if not (isinstance(src_tokenizer, Characters) and isinstance(tgt_tokenizer, Characters)):
            raise DuetError("decode=couplet answers character by character: it needs a model with tokenizer=characters")
        self.tables(tgt_tokenizer)

    def tables(self, tokenizer: Characters) -> "Tables":
        return tables_of(tokenizer, self.tone_system, self.particles, self.tones != "off")

    @property
    def hard(self) -> frozenset[str]:
        """The rules of RULES that every answer has to keep."""
        chosen = {"tones": self.tones == "hard", "copy": self.copy, "repetition": self.repetition}
        return frozenset(name for name, holds in chosen.items() if holds)


class Tables:
    """What the rules ask of the target's characters: each a tensor over its vocabulary."""

    def __init__(self, tokenizer: Characters, system: str, particles: str, toned: bool):
        self.tokenizer, self.size = tokenizer, len(tokenizer)
        self.tones_of = Tones(system) if toned else lambda character: Tone.UNKNOWN
        self.is_particle = frozenset(particles).__contains__
        characters = tokenizer.pieces(range(len(SPECIALS), self.size))
        self.marks = torch.tensor([False] * len(SPECIALS) + [is_mark(character) for character in characters])
        self.particles = torch.tensor([False] * len(SPECIALS) + [*map(self.is_particle, characters)])
        self.tones = torch.tensor([Tone.BOTH.value] * len(SPECIALS) + [self.bits(character) for character in characters])

    def bits(self, character: str) -> int:
        """Which tones the character may have, as `model.constraints.tones` counts them."""
        return self.tones_of(character).value or Tone.BOTH.value

    def id(self, character: str) -> int:
        return self.tokenizer.encode(character)[0]

    def needs(self, upper: str) -> list[int]:
        """The tone that each place of the answer needs, in bits; 0: any."""
        found = [self.other(character) if place in EVEN else 0 for character, place in zip(upper, clauses(upper))]
        letters = [place for place, character in enumerate(upper) if not is_mark(character)]
        if letters:
            ends_level = self.bits(upper[letters[-1]]) == Tone.LEVEL.value
            found[letters[-1]] = (Tone.OBLIQUE if ends_level else Tone.LEVEL).value
        return found

    def other(self, character: str) -> int:
        """The tone against this one; 0 where it may have both."""
        return {Tone.LEVEL.value: Tone.OBLIQUE.value, Tone.OBLIQUE.value: Tone.LEVEL.value}.get(self.bits(character), 0)


@functools.lru_cache(maxsize=8)
def tables_of(tokenizer: Characters, system: str, particles: str, toned: bool) -> Tables:
    """Made once."""
    return Tables(tokenizer, system, particles, toned)


class Job:
    """One upper line and what is asked of its answer. punctuation: whether the answer is to have the line's marks.

    template: FREE or the fixed character of each place. unmet: the parts of the request that no line of this length meets.
    possible: whether there can be an answer at all, since fixed characters and length are never given up.
    """

    def __init__(self, tables: Tables, request: Request, size: int, punctuation: bool = True):
        self.tables, self.size, self.upper, self.punctuation = tables, size, request.text[:size], punctuation
        self.unmet: list[str] = []
        self.template = request.fixed or FREE * size
        self.possible = len(self.template) == size
        if not self.possible:
            self.unmet.append(f"fixed characters ({len(self.template)} places for a line of {size})")
            self.template = FREE * size
        if not all(self._suits(own, other) for own, other in self._fixed(self.template)):
            self.unmet.append("punctuation")
        self.words = self._words(request.words)
        marks = filter(is_mark, self.upper) if punctuation else ()
        asked = {*self.template.replace(FREE, ""), *"".join(self.words), *marks}
        self.unmet += [f"avoid {character}" for character in dict.fromkeys(request.avoid) if character in asked]
        self.avoid = [character for character in dict.fromkeys(request.avoid) if character not in asked]
        self.needs = tables.needs(self.upper)

    def can_drop(self, wishes: Sequence[str]) -> bool:
        """Whether there can be an answer, and these wishes are asked of it."""
        marks = any(map(is_mark, self.upper + self.template.replace(FREE, "")))
        asked = {"avoid": self.avoid, "words": self.words, "punctuation": marks}
        return self.possible and all(asked[name] for name in wishes)

    def _fixed(self, template: str) -> Iterator[tuple[str, str]]:
        """(fixed character, upper line's character) of each fixed place."""
        return ((own, other) for own, other in zip(template, self.upper) if own != FREE)

    def _words(self, wanted: Sequence[str]) -> list[str]:
        """Those that can all stand in the answer, by its length, its punctuation and the fixed characters."""
        kept: list[str] = []
        for word in wanted:
            if any(True for _ in self.ways([*kept, word])):
                kept.append(word)
            else:
                self.unmet.append(f"word {word}")
        return kept

    WAYS = 5_000  # are looked at, at most

    def ways(self, words: Sequence[str]) -> Iterator[str]:
        """Templates with these words in different places. Where there are very many ways, not all."""
        steps = itertools.count()
        return itertools.islice(self.placed(sorted(words, key=len, reverse=True), self.template, steps), self.WAYS)

    def placed(self, words: Sequence[str], template: str, steps: Iterator[int]) -> Iterator[str]:
        """The template with the words in all ways that they can stand there, until `steps` are too many."""
        if not words:
            yield template
            return
        if next(steps) > 4 * self.WAYS:
            return
        word, *others = words
        for start in range(self.size - len(word) + 1):
            end = start + len(word)
            places = zip(word, template[start:end], self.upper[start:end])
            if all(own == fixed if fixed != FREE else self._suits(own, upper) for own, fixed, upper in places):
                yield from self.placed(others, template[:start] + word + template[end:], steps)

    def _suits(self, own: str, upper: str) -> bool:
        """Whether a character and the one above it go together as punctuation does."""
        return own == upper or not self.punctuation or not (is_mark(own) or is_mark(upper))

    def templates(self, rules: frozenset[str], count: int) -> list[str]:
        """Templates that keep these rules as far as they are filled; of more than `count`, so many from first to last."""
        found = [template for template in dict.fromkeys(self.ways(self.words)) if self._keeps(template, rules)]
        step = max(1.0, len(found) / count)
        return [found[int(i * step)] for i in range(min(count, len(found)))]

    def mirrored(self, template: str) -> str:
        """With each fixed character that the model does not know also where the upper line repeats the one above it: the search
        itself cannot tell it from others.
        """
        unknown = {upper: own for own, upper in self._fixed(template) if self.tables.id(own) == UNK and not is_mark(upper)}
        pairs = zip(template, self.upper)
        return "".join(unknown.get(upper, own) if own == FREE else own for own, upper in pairs)

    def _keeps(self, template: str, rules: frozenset[str]) -> bool:
        pairs = [(own, upper) for own, upper in self._fixed(template) if not (is_mark(own) or is_mark(upper))]
        copies = (own in self.upper and (own != upper or not self.tables.is_particle(own)) for own, upper in pairs)
        if "copy" in rules and any(copies):
            return False
        mirrored = len({*pairs}) == len({own for own, _ in pairs}) == len({upper for _, upper in pairs})
        if "repetition" in rules and not mirrored:
            return False
        fixed = [(own, need) for own, need in zip(template, self.needs) if own != FREE]
        return "tones" not in rules or all(self.tables.bits(own) & need == need for own, need in fixed)

    def shared_needs(self) -> list[int]:
        """`needs`, each with those of the later places that will have the same character, since the upper line does."""
        later = [
            [need for need, other in zip(self.needs[i:], self.upper[i:]) if other == own] for i, own in enumerate(self.upper)
        ]
        return [functools.reduce(operator.or_, needs) for needs in later]


WISHES = ("avoid", "words", "punctuation")  # what is asked of an answer beside RULES, its length and the fixed characters


class Asked(NamedTuple):
    """What an attempt asks of every answer. rules: of RULES, those that are hard; wishes: of WISHES."""

    rules: frozenset[str]
    wishes: frozenset[str]


class Found(NamedTuple):
    """A lower line: its text, ids with EOS, what it is ranked by, and the model's log-probability of each."""

    text: str
    tokens: list[int]
    score: float
    log_probs: list[float]


class Session:
    """The search for a batch. Sentences that find nothing are searched again, with less asked of them."""

    ROWS = 128  # lines searched together, at most

    def __init__(self, decode: Couplet, tables: Tables, jobs: Sequence[Job], model: Seq2Seq, batch: Batch):
        self.decode, self.tables, self.jobs, self.model, self.batch = decode, tables, jobs, model, batch
        self.further: dict[str, int] = {}  # characters that the target has no id for

    def run(self) -> Decoded:
        found: dict[int, list[Found]] = {}
        given_up = [tuple(job.unmet) for job in self.jobs]
        for asked, rules, wishes in self.attempts():
            left = [place for place, job in enumerate(self.jobs) if place not in found and job.can_drop(wishes)]
            found |= (now := self.attempt(left, asked) if left else {})
            for place in now:
                given_up[place] = tuple(dict.fromkeys((*given_up[place], *rules, *wishes)))
            if len(found) == len(self.jobs):
                break
        for place, job in enumerate(self.jobs):
            if job.possible and place not in found:
                given_up[place] += ("no line keeps all that is asked",)
        return self.joined([found.get(place, []) for place in range(len(self.jobs))], given_up)

    def attempts(self) -> Iterator[tuple[Asked, tuple[str, ...], tuple[str, ...]]]:
        """What is asked, and the rules and the wishes that are not: few wishes before many, then few rules, each in order."""
        may = [name for name in self.decode.give_up if name in self.decode.hard]
        known = frozenset(WISHES) if self.decode.punctuation else frozenset(WISHES) - {"punctuation"}
        for wishes in subsets([name for name in WISHES if name in known]):
            for rules in subsets(may):
                yield Asked(self.decode.hard - {*rules}, known - {*wishes}), rules, wishes

    def attempt(self, places: Sequence[int], asked: Asked) -> dict[int, list[Found]]:
        """The lines that have been found of these sentences, best first."""
        rows = [(place, template) for place in places for template in self.templates(self.jobs[place], asked)]
        found: dict[int, dict[tuple[int, ...], Found]] = {}
        for some in (rows[i : i + self.ROWS] for i in range(0, len(rows), self.ROWS)):
            for (place, _), lines in zip(some, self.beam(some, asked)):
                found.setdefault(place, {}).update({line.text: line for line in lines})
        ranked = {place: sorted(lines.values(), key=lambda line: -line.score) for place, lines in found.items() if lines}
        return {place: lines[: self.decode.n_best] for place, lines in ranked.items()}

    def templates(self, job: Job, asked: Asked) -> list[str]:
        found = job.templates(asked.rules, self.decode.placements) if "words" in asked.wishes else [job.template]
        return [*map(job.mirrored, found)] if "repetition" in asked.rules else found

    def beam(self, rows: Sequence[tuple[int, str]], asked: Asked) -> list[list[Found]]:
        """The lines of each (sentence, template)."""
        jobs, device = [self.jobs[place] for place, _ in rows], self.batch.src.device
        which = torch.tensor([place for place, _ in rows], device=device)
        fixed = self.padded([self.fixed(job, template, asked) for job, (_, template) in zip(jobs, rows)])
        lengths = torch.tensor([job.size for job in jobs], device=device)
        source = self.padded([[self.id(character) for character in job.upper] for job in jobs])
        rules = [*self.decode.rules(), constraints.at_least(lengths, eos=EOS), *self.rules(jobs, fixed, asked)]
        never = [] if self.decode.unk or (fixed == UNK).any() else [UNK]
        common = {"max_len": lengths, "constraints": rules, "source": source, "never": never, **IDS}
        best = self.decode.search(self.model, Batch(*(part[which] for part in self.batch)), common)
        return [self.lines_of(best, row, job, template) for row, (job, (_, template)) in enumerate(zip(jobs, rows))]

    def rules(self, jobs: Sequence[Job], fixed: Tensor, asked: Asked) -> list[Constraint]:
        device, chosen = fixed.device, []
        marks, particles = self.tables.marks.to(device), self.tables.particles.to(device)
        if (fixed != PAD).any():
            chosen.append(constraints.fixed(fixed, eos=EOS, pad=PAD))
        if not self.decode.unk and (fixed == UNK).any():
            chosen.append(constraints.only_where(fixed, UNK))
        if "punctuation" in asked.wishes:
            chosen.append(constraints.where_free(fixed, constraints.punctuation(marks), pad=PAD))
        if "repetition" in asked.rules:
            chosen.append(constraints.repetition(marks, pad=PAD, unk=UNK, fixed=fixed))
        if "copy" in asked.rules:
            chosen.append(constraints.copies(marks, particles, pad=PAD))
        if self.decode.tones != "off":
            hard = "tones" in asked.rules
            mirrored = hard and "repetition" in asked.rules
            needs = self.padded([job.shared_needs() if mirrored else job.needs for job in jobs])
            if hard or self.decode.tones == "soft":
                weight = None if hard else self.decode.tone_weight
                chosen.append(constraints.tones(self.tables.tones.to(device), needs, weight=weight))
        if "avoid" in asked.wishes and any(job.avoid for job in jobs):
            avoided = self.padded([[self.tables.id(character) for character in job.avoid] for job in jobs])
            chosen.append(constraints.where_free(fixed, constraints.avoid(avoided), pad=PAD))
        return chosen

    def fixed(self, job: Job, template: str, asked: Asked) -> list[int]:
        """The template in ids; UNK also where the upper line has a mark that the target has no id for."""
        found = [PAD if character == FREE else self.tables.id(character) for character in template]
        if "punctuation" in asked.wishes:
            found = [UNK if id == PAD and self.unknown_mark(c) else id for id, c in zip(found, job.upper)]
        return found

    def unknown_mark(self, character: str) -> bool:
        return is_mark(character) and self.tables.id(character) == UNK

    def id(self, character: str) -> int:
        """In target ids; a character that the target lacks has one of its own behind the target's last."""
        known = self.tables.id(character)
        return known if known != UNK else self.further.setdefault(character, self.tables.size + len(self.further))

    def padded(self, rows: Sequence[Sequence[int]]) -> Tensor:
        """(B, longest), PAD (or no tone) behind each."""
        longest = max(map(len, rows), default=0)
        return torch.tensor([[*row, *[PAD] * (longest - len(row))] for row in rows], device=self.batch.src.device).long()

    def lines_of(self, best: Hypotheses, row: int, job: Job, template: str) -> list[Found]:
        """Of one row of the search, those that are there."""
        found = []
        for place, score in enumerate(best.scores[row].tolist()):
            if score > -math.inf:
                tokens = [id for id in best.tokens[row, place].tolist() if id != PAD]
                each = best.token_log_probs[row, place, : len(tokens)].tolist()
                found.append(Found(self.text(tokens, job, template), tokens, score, each))
        return found

    def text(self, tokens: Sequence[int], job: Job, template: str) -> str:
        """A character that the model does not know is written as it was asked for, or as the upper line's mark."""
        shown = []
        for place, id in enumerate(tokens[:-1]):
            wanted, upper = template[place], job.upper[place]
            known = wanted if wanted != FREE else upper if self.unknown_mark(upper) else UNKNOWN
            shown.append(known if id == UNK else self.tables.tokenizer.decode([id]))
        return "".join(shown)

    def joined(self, found: Sequence[Sequence[Found]], given_up: list[tuple[str, ...]]) -> Decoded:
        """The lines of each sentence as one batch of hypotheses."""
        count = self.decode.n_best
        length = max((len(line.tokens) for lines in found for line in lines), default=1)
        tokens = torch.full((len(found), count, length), PAD)
        scores, each = torch.full((len(found), count), -math.inf), torch.zeros(len(found), count, length)
        for row, lines in enumerate(found):
            for place, line in enumerate(lines):
                tokens[row, place, : len(line.tokens)] = torch.tensor(line.tokens)
                each[row, place, : len(line.tokens)] = torch.tensor(line.log_probs)
                scores[row, place] = line.score
        texts = [[*(line.text for line in lines), *[""] * (count - len(lines))] for lines in found]
        return Decoded(ranked(*(part.to(self.batch.src.device) for part in (tokens, each, scores))), texts, given_up)


def subsets(names: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """None of them, each, each two, …, in their order."""
    return itertools.chain.from_iterable(itertools.combinations(names, count) for count in range(len(names) + 1))
