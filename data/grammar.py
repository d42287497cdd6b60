"""The built-in corpus: a synchronous grammar of English and German that writes its own sentence pairs.

A derivation is a tree of the classes below, phrases first, sentences last. Each node spells itself in both languages, so that
one tree is one pair, and marks its words with keys: words of the two languages that share a key are aligned. `Writer` draws
derivations at random, and `Grammar` is the corpus of its sentences.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import IntEnum, auto
from functools import cache, lru_cache
from typing import NamedTuple

from data import lexicon as lex
from data.lexicon import ACC, DAT, GEN, HE, NOM, THEY
from data.sources import Pair

SPLITS = ("train", "valid", "test", "test_long")
LIMIT = 14  # words of the longer side in train, valid and test
LONG = (19, 35)  # words of the shorter and of the longer side in test_long


# Words: (text, keys)

Word = tuple[str, tuple]
Words = list[Word]
COMMA: Word = (",", ())


def spell(text: str, *keys) -> Words:
    """The words of a text, all with the same keys."""
    return [(word, keys) for word in text.split()]


def punctuate(words: Words, mark: str) -> list[Word]:
    """Hangs commas on the word before them, ends with `mark` and begins with a capital."""
    out: Words = []
    for word in words:
        if word is not COMMA:
            out.append(word)
        elif out and not out[-1][0].endswith(","):
            text, keys = out[-1]
            out[-1] = (text + ",", keys)
    (first, first_keys), (last, last_keys) = out[0], out[-1]
    out[0] = (first[0].upper() + first[1:], first_keys)
    out[-1] = (last.rstrip(",") + mark, last_keys)
    return out


def align(source: Words, target: Words) -> tuple[tuple[int, int], ...]:
    places: dict = {}
    for there, (_, keys) in enumerate(target):
        for key in keys:
            places.setdefault(key, []).append(there)
    links = {(here, there) for here, (_, keys) in enumerate(source) for key in keys for there in places.get(key, ())}
    return tuple(sorted(links))


# Noun phrases


class Phrase:
    """What noun phrases share, beside `person`, `english(objective)` and `german(case, negation)`."""

    name = ""  # of a pronoun
    adjectives = ()
    pronoun = False
    definite = True
    contracts = False  # its article may join a preposition: im

    @property
    def head(self):
        """The key of the word that shows the case."""
        return self

    def hook(self) -> NounPhrase | None:
        """The noun phrase that a relative clause may be hung on."""
        return None

    def tail(self) -> Words:
        """The relative clause in German, which may move to the end of the clause around it."""
        return []


@dataclass(eq=False)
class Pro(Phrase):
    """A pronoun, a question word or a name."""

    form: lex.Proform

    @property
    def person(self) -> int:
        return self.form.person

    @property
    def name(self) -> str:
        return self.form.subject

    @property
    def pronoun(self) -> bool:
        return self.form.pronoun

    def english(self, objective: bool) -> Words:
        return [(self.form.object if objective else self.form.subject, (self,))]

    def german(self, case: int, negation=None) -> Words:
        return [(self.form.german[case], (self,))]


@dataclass(eq=False)
class NounPhrase(Phrase):
    determiner: lex.Determiner
    noun: lex.Noun
    plural: bool = False
    adjectives: tuple[lex.Adjective, ...] = ()
    degree: lex.Adverb | None = None
    owner: NounPhrase | None = None
    relative: Clause | None = None

    @property
    def person(self) -> int:
        return THEY if self.plural else HE

    @property
    def definite(self) -> bool:
        return self.determiner.definite

    @property
    def contracts(self) -> bool:
        """Not before a relative clause: in dem Haus, das …"""
        return self.determiner is lex.THE and not self.plural and not self.relative

    @property
    def head(self):
        return self if self.determiner.stem else (self, "noun")

    def hook(self) -> NounPhrase | None:
        return None if self.owner or self.relative else self

    def english(self, objective: bool) -> Words:
        article = self.determiner.plural if self.plural else self.determiner.singular
        words = [(article, (self,))] if article else []
        if self.degree:
            words += self.degree.english(self)
        words += [(adjective.en, ((self, i),)) for i, adjective in enumerate(self.adjectives)]
        words.append((self.noun.english(self.plural), ((self, "noun"),)))
        if article == "a" and words[1][0][0] in "aeiou":
            words[0] = ("an", (self,))
        if self.owner:
            words += [("of", (self.owner.head,)), *self.owner.english(True)]
        return words + self.relative.english() if self.relative else words

    def german(self, case: int, negation=None) -> Words:
        """With the key of a negation, `a` and no article become `kein`."""
        gender = "p" if self.plural else self.noun.gender
        determiner = lex.NOT_A if negation and not self.determiner.definite else self.determiner
        article = determiner.stem + determiner.endings[gender][case]
        words = [(article, (self, negation) if negation else (self,))] if article else []
        if self.degree:
            words += self.degree.german(self)
        ending = determiner.adjective[gender][case]
        words += [(adjective.stem + ending, ((self, i),)) for i, adjective in enumerate(self.adjectives)]
        words.append((self.noun.german(case, self.plural), ((self, "noun"),)))
        return words + self.owner.german(GEN) if self.owner else words

    def tail(self) -> Words:
        return [COMMA, *self.relative.german_subordinate(), COMMA] if self.relative else []


@dataclass(eq=False)
class Coordination(Phrase):
    """Noun phrases with `and`, of which only the last may have a relative clause."""

    phrases: tuple[Phrase, ...]

    person = THEY

    @property
    def definite(self) -> bool:
        return all(phrase.definite for phrase in self.phrases)

    @property
    def head(self):
        return self.phrases[0].head

    def hook(self) -> NounPhrase | None:
        return self.phrases[-1].hook()

    def english(self, objective: bool) -> Words:
        return self._join("and", [phrase.english(objective) for phrase in self.phrases])

    def german(self, case: int, negation=None) -> Words:
        return self._join("und", [phrase.german(case) for phrase in self.phrases])

    def tail(self) -> Words:
        return self.phrases[-1].tail()

    def _join(self, conjunction: str, parts: list[Words]) -> Words:
        words = list(parts[0])
        for part in parts[1:-1]:
            words += [COMMA, *part]
        return [*words, (conjunction, ((self, "and"),)), *parts[-1]]


@dataclass(eq=False)
class RelativePronoun(Phrase):
    noun: lex.Noun
    plural: bool

    @property
    def person(self) -> int:
        return THEY if self.plural else HE

    def english(self, objective: bool) -> Words:
        human = "whom" if objective else "who"
        return [(human if "person" in self.noun.kinds else "which", (self,))]

    def german(self, case: int, negation=None) -> Words:
        return [(lex.RELATIVE["p" if self.plural else self.noun.gender][case], (self,))]


# Complements of the verb. A predicate lists them in English order; in German they go by slot


class Slot(IntEnum):
    PRONOUN = auto()
    TIME = auto()  # and perhaps, sometimes, …
    RECIPIENT = auto()
    DEFINITE = auto()  # objects: den Hund nicht, oft einen Hund
    NEGATION = auto()  # and often, never, …
    INDEFINITE = auto()
    MANNER = auto()
    COMPANY = auto()
    PREPOSITIONAL = auto()
    PLACE = auto()
    PREDICATIVE = auto()
    CLAUSE = auto()  # after everything else, the verb too


class Complement:
    """What complements share, beside `slot`, `english()` and `german(negation)`."""

    phrase = None
    comma = False  # in English, after it, where it begins the sentence

    def tail(self) -> Words:
        return self.phrase.tail() if self.phrase else []


@dataclass(eq=False)
class Object(Complement):
    phrase: Phrase
    case: int = ACC

    @property
    def slot(self) -> Slot:
        if self.phrase.pronoun:
            return Slot.PRONOUN
        return Slot.DEFINITE if self.phrase.definite else Slot.INDEFINITE

    def english(self) -> Words:
        return self.phrase.english(True)

    def german(self, negation=None) -> Words:
        return self.phrase.german(self.case, negation)


@dataclass(eq=False)
class Recipient(Object):
    """`to` someone in English, the bare dative in German."""

    case: int = DAT

    @property
    def slot(self) -> Slot:
        return Slot.PRONOUN if self.phrase.pronoun else Slot.RECIPIENT

    def english(self) -> Words:
        return [("to", (self.phrase.head,)), *self.phrase.english(True)]


@dataclass(eq=False)
class Prepositional(Complement):
    preposition: lex.Preposition
    phrase: Phrase
    slot: Slot = Slot.PREPOSITIONAL

    def english(self) -> Words:
        return spell(self.preposition.en, self) + self.phrase.english(True)

    def german(self, negation=None) -> Words:
        (article, keys), *rest = words = self.phrase.german(self.preposition.case)
        short = lex.CONTRACTIONS.get((self.preposition.de, article)) if self.phrase.contracts else None
        return [(short, (self, *keys)), *rest] if short else [(self.preposition.de, (self,)), *words]


@dataclass(eq=False)
class Adverbial(Complement):
    adverb: lex.Adverb
    slot: Slot = Slot.TIME

    def english(self) -> Words:
        return self.adverb.english(self)

    def german(self, negation=None) -> Words:
        return self.adverb.german(self)


@dataclass(eq=False)
class Not(Complement):
    key: tuple
    slot: Slot = Slot.NEGATION

    def german(self, negation=None) -> Words:
        return [("nicht", (self.key,))]


@dataclass(eq=False)
class Predicative(Complement):
    """Adjectives after `be`: very old, old and tired."""

    adjectives: tuple[lex.Adjective, ...]
    degree: lex.Adverb | None = None
    slot: Slot = Slot.PREDICATIVE

    def english(self) -> Words:
        degree = self.degree.english(self) if self.degree else []
        return degree + self._join("and", [adjective.en for adjective in self.adjectives])

    def german(self, negation=None) -> Words:
        degree = self.degree.german(self) if self.degree else []
        return degree + self._join("und", [adjective.de for adjective in self.adjectives])

    def _join(self, conjunction: str, adjectives: list[str]) -> Words:
        first, *others = [(adjective, ((self, i),)) for i, adjective in enumerate(adjectives)]
        return [first] + [word for other in others for word in ((conjunction, ((self, "and"),)), other)]


@dataclass(eq=False)
class Subordinate(Complement):
    """A clause with its conjunction (English, German)."""

    conjunction: tuple[str, str]
    clause: Clause
    slot: Slot = Slot.CLAUSE

    comma = True

    def english(self) -> Words:
        return [(self.conjunction[0], (self,)), *self.clause.english()]

    def german(self, negation=None) -> Words:
        return [COMMA, (self.conjunction[1], (self,)), *self.clause.german_subordinate(), COMMA]


# Tenses. `english`: the auxiliary ("" if none), what stands between it and the verb, the verb. `german`: the finite form, and
# the form at the end of the clause. `when` is a key of lexicon.TIMES. `support`: the clause needs an auxiliary, do if no other


class Simple(NamedTuple):
    when: str

    def english(self, verb: lex.Verb, person: int, support: bool) -> tuple[str, str, str]:
        form = (verb.en_past if self.when == "past" else verb.en_present)[person]
        if verb is lex.BE:
            return form, "", ""
        if support:
            return "did" if self.when == "past" else lex.DO[person], "", verb.en
        return "", "", form

    def german(self, verb: lex.Verb, person: int) -> tuple[str, str]:
        return (verb.past if self.when == "past" else verb.present)[person], ""


class Perfect(NamedTuple):
    when: str = "perfect"

    def english(self, verb: lex.Verb, person: int, support: bool) -> tuple[str, str, str]:
        return lex.HAVE[person], "", verb.en_participle

    def german(self, verb: lex.Verb, person: int) -> tuple[str, str]:
        return verb.perfect[person], verb.prefix + verb.participle


class WithModal(NamedTuple):
    modal: lex.Modal
    when: str = "future"

    def english(self, verb: lex.Verb, person: int, support: bool) -> tuple[str, str, str]:
        return self.modal.en, "", verb.en

    def german(self, verb: lex.Verb, person: int) -> tuple[str, str]:
        return self.modal.german[person], verb.prefix + verb.infinitive


class Wanting(WithModal):
    """English `want` is no auxiliary, and `to` stands before the infinitive."""

    def english(self, verb: lex.Verb, person: int, support: bool) -> tuple[str, str, str]:
        if support:
            return lex.DO[person], "want to", verb.en
        return "", "wants to" if person == HE else "want to", verb.en


Tense = Simple | Perfect | WithModal
PRESENT, PAST, PERFECT = Simple("present"), Simple("past"), Perfect()
MODALS = {name: (Wanting if name == "want" else WithModal)(modal) for name, modal in lex.MODAL.items()}


# Clauses


class Field(NamedTuple):
    """A German predicate: `finite middle closing after` in a main clause, `middle final after` in a subordinate one."""

    finite: Words
    middle: Words
    closing: Words  # prefix, participle or infinitive
    final: Words
    after: Words


@dataclass(eq=False)
class Predicate:
    """A verb with its complements; `middle` is an adverb before the English verb."""

    verb: lex.Verb
    tense: Tense
    complements: tuple[Complement, ...] = ()
    middle: Adverbial | None = None
    negated: bool = False

    def english(self, person: int, inverted: bool = False) -> tuple[Words, Words]:
        """The words that change places with the subject in a question, and the others."""
        auxiliary, between, verb = self.tense.english(self.verb, person, inverted or self.negated)
        finite, lexical, negation = (self, "finite"), (self, "verb"), (self, "not")
        first = [(auxiliary, (finite,))] if auxiliary else []
        rest = [("not", (negation,))] if self.negated else []
        if auxiliary == "can" and self.negated and not inverted:
            first, rest = [("cannot", (finite, negation))], []
        if self.middle:
            rest += self.middle.english()
        rest += spell(between, finite)
        rest += [(verb, (lexical,) if auxiliary or between else (finite, lexical))] if verb else []
        rest += [(self.verb.particle, ((self, "particle"),))] if self.verb.particle else []
        for complement in self.complements:
            rest += complement.english()
        return first, rest

    def german(self, person: int) -> Field:
        finite, closing = self.tense.german(self.verb, person)
        keys = ((self, "finite"), (self, "verb"), (self, "particle"))
        middle, after = self._arrange()
        if closing:
            first, last = (finite, keys[:1]), (closing, keys[1:])
            return Field([first], middle, [last], [last, first], after)
        if prefix := self.verb.prefix:
            return Field([(finite, keys[:2])], middle, [(prefix, keys[1:])], [(prefix + finite, keys)], after)
        return Field([(finite, keys)], middle, [], [(finite, keys)], after)

    def _arrange(self) -> tuple[Words, Words]:
        """What stands before the closing verb, and after it: clauses, and a relative clause that hangs on the last noun."""
        complements = [*self.complements, self.middle] if self.middle else list(self.complements)
        negation = (self, "not") if self.negated else None
        kein = next((item for item in complements if item.slot == Slot.INDEFINITE), None) if negation else None
        if negation and not kein:
            complements.append(Not(negation))
        complements.sort(key=lambda item: item.slot)
        last = next((item for item in reversed(complements) if item.phrase), None)
        middle, after = [], []
        for item in complements:
            (after if item.slot == Slot.CLAUSE else middle).extend(item.german(negation if item is kein else None))
            (after if item is last else middle).extend(item.tail())
        return middle, after


@dataclass(eq=False)
class Clause:
    """A subject and its predicates, joined by `and`; `front` is a complement that stands before the subject."""

    subject: Phrase
    predicates: tuple[Predicate, ...]
    front: Complement | None = None

    def english(self, inverted: bool = False) -> Words:
        first, rest = self.predicates[0].english(self.subject.person, inverted)
        subject = self.subject.english(False)
        words = [*self.front.english(), *[COMMA] * self.front.comma] if self.front else []
        words += first + subject if inverted else subject + first
        words += rest
        for predicate in self.predicates[1:]:
            first, rest = predicate.english(self.subject.person)
            words += [("and", ((predicate, "and"),)), *first, *rest]
        return words

    def german_main(self, question: bool = False) -> Words:
        """The finite verb is second; in a question without a question word it is first."""
        field, *others = self._fields()
        front, subject = self._german_front(), self._german_subject()
        words = front + field.finite + subject if front or question else subject + field.finite
        words += field.middle + field.closing + field.after
        for predicate, field in zip(self.predicates[1:], others, strict=True):
            words += [("und", ((predicate, "and"),)), *field.finite, *field.middle, *field.closing, *field.after]
        return words

    def german_subordinate(self) -> Words:
        """The finite verb is last."""
        field, *others = self._fields()
        words = self._german_front() + self._german_subject() + field.middle + field.final + field.after
        for predicate, field in zip(self.predicates[1:], others, strict=True):
            words += [("und", ((predicate, "and"),)), *field.middle, *field.final, *field.after]
        return words

    def _fields(self) -> list[Field]:
        return [predicate.german(self.subject.person) for predicate in self.predicates]

    def _german_front(self) -> Words:
        return self.front.german() + self.front.tail() if self.front else []

    def _german_subject(self) -> Words:
        return self.subject.german(NOM) + self.subject.tail()


# Sentences


@dataclass(eq=False)
class Sentence:
    """Main clauses, each after the first with its conjunction (`and`, `but`)."""

    clauses: tuple[Clause, ...]
    conjunctions: tuple[str, ...] = ()
    mark: str = "."
    inverted: bool = False  # as in questions about anything but the subject

    def english(self) -> Words:
        return punctuate(self._join([clause.english(self.inverted) for clause in self.clauses], self.conjunctions), self.mark)

    def german(self) -> Words:
        conjunctions = [lex.LINK[conjunction] for conjunction in self.conjunctions]
        return punctuate(self._join([clause.german_main(self.inverted) for clause in self.clauses], conjunctions), self.mark)

    def _join(self, clauses: list[Words], conjunctions) -> Words:
        words = clauses[0]
        for i, (conjunction, clause) in enumerate(zip(conjunctions, clauses[1:], strict=True)):
            words += [COMMA, (conjunction, ((self, i),)), *clause[clause[0] is COMMA :]]
        return words


class Aligned(NamedTuple):
    """`alignment`: (source word, target word), both from 0, words split at blanks."""

    src: str
    tgt: str
    alignment: tuple[tuple[int, int], ...]


def render(sentence: Sentence) -> Aligned:
    source, target = sentence.english(), sentence.german()
    return Aligned(" ".join(text for text, _ in source), " ".join(text for text, _ in target), align(source, target))


# What may go with what


class Determiners(NamedTuple):
    """To choose from; one that is listed twice is drawn twice as often. `share`: of plurals."""

    singular: list[lex.Determiner]
    plural: list[lex.Determiner]
    mass: list[lex.Determiner]
    share: float = 0.3


ANY = Determiners(
    [lex.THE] * 8 + [lex.A] * 5 + [lex.THIS, lex.EVERY],
    [lex.THE] * 6 + [lex.BARE] * 4 + [lex.THIS, lex.ALL, lex.MANY, lex.SOME, lex.TWO, lex.THREE],
    [lex.THE, lex.BARE],
)
NEGATABLE = Determiners(
    [lex.THE] * 6 + [lex.A] * 5 + [lex.THIS], [lex.THE] * 6 + [lex.BARE] * 4 + [lex.THIS], [lex.THE, lex.BARE]
)
DEFINITE = Determiners([lex.THE] * 8 + [lex.THIS], [lex.THE] * 8 + [lex.THIS], [lex.THE])
LOCAL = Determiners([lex.THE] * 10 + [lex.A, lex.THIS], [lex.THE, lex.THIS], [lex.THE], share=0.12)
POSSESSED = {"own", "animal", "text", "thing", "clothing", "vehicle", "machine", "room", "area"}  # takes my, his, …
OWNED = {"own", "animal", "text", "thing", "clothing", "vehicle"}  # takes `of the`
DESCRIBED = ("animal", "food", "drink", "text", "thing", "machine", "clothing", "vehicle", "building", "room", "area", "spot")
CLASHES = [{"I"}, {"we"}, {"I", "we"}]  # as subject and object
TENSES = [PRESENT] * 8 + [PAST] * 6 + [PERFECT] * 3 + list(MODALS.values())
SIMPLE = (PRESENT, PAST)
NOT_PAST = (PERFECT, MODALS["can"], MODALS["must"], MODALS["want"])
MANNERS = [lex.MANNER[name] for name in ("quietly", "alone")]
MANNERS_OF_GOING = [lex.MANNER[name] for name in ("slowly", "slowly", "quietly", "alone", "immediately")]
MANNERS_WITH_OBJECT = [lex.MANNER[name] for name in ("carefully", "quietly", "secretly", "immediately")]


def sharing(words: dict, kinds: tuple[str, ...]) -> list:
    return [word for word in words.values() if set(word.kinds) & set(kinds)]


@cache
def nouns(kinds: tuple[str, ...]) -> list[lex.Noun]:
    return sharing(lex.NOUN, kinds)


@cache
def adjectives(kinds: tuple[str, ...]) -> list[lex.Adjective]:
    return sharing(lex.ADJECTIVE, kinds)


@cache
def colours(kinds: tuple[str, ...]) -> list[lex.Adjective]:
    return sharing(lex.COLOUR, kinds)


@cache
def pronouns(subject: str = "") -> list[lex.Proform]:
    """Those that may be the object beside this subject."""
    return [pronoun for pronoun in lex.PRONOUN.values() if {pronoun.subject, subject} not in CLASHES]


@cache
def verbs(subjects: tuple[str, ...] = (), objects: tuple[str, ...] = (), extras: tuple[str, ...] = ()) -> list[lex.Verb]:
    """Verbs that have one of these kinds of subject, of object and of extra, each where any is given."""
    found = list(lex.WITH_COMPLEMENTS.values())
    for wanted, name in ((subjects, "subjects"), (objects, "objects"), (extras, "extras")):
        found = [verb for verb in found if not wanted or set(wanted) & set(getattr(verb, name))]
    return found


def fits(verb: lex.Verb, tense: Tense) -> bool:
    """English must not spell the past like the present (`read`); trains want nothing."""
    if tense is PAST and verb.en_past[0] == verb.en:
        return False
    if "line" in verb.subjects or "state" in verb.extras:
        return tense.when != "future"
    return True


# Random derivations


class Style(NamedTuple):
    """How often, from 0 to 1, a phrase or clause is given what.

    `kinds`: of sentences, to choose from; `depth`: of relative clauses within relative clauses.
    """

    kinds: list[Callable[[Writer], Sentence]]
    adjective: float
    coordination: float
    relative: float
    time: float
    place: float
    front: float
    depth: int


class Writer:
    """Draws sentences. Of `random.Random` only `random()` is used: its sequence is the same in every version of Python."""

    def __init__(self, seed: int, style: Style):
        self.random = random.Random(seed).random
        self.style = style
        self.depth = 0  # of relative clauses
        self.used: list[str] = []  # nouns of the sentence so far

    def sentence(self) -> Sentence:
        self.used = []
        return self.pick(self.style.kinds)(self)

    def chance(self, probability: float) -> bool:
        return self.random() < probability

    def pick(self, items):
        return items[int(self.random() * len(items))]

    def word(self, words: dict):
        return self.pick(list(words.values()))

    # Noun phrases

    def noun(self, kinds: tuple[str, ...]) -> lex.Noun:
        """Rarely one that the sentence has already."""
        noun = self.pick(nouns(kinds))
        for _ in range(5):
            if noun.en not in self.used:
                break
            noun = self.pick(nouns(kinds))
        self.used.append(noun.en)
        return noun

    def noun_phrase(self, kinds: tuple[str, ...], determiners: Determiners = ANY, owner: float = 0.0) -> NounPhrase:
        noun = self.noun(kinds)
        mass = not noun.de_plural
        plural = not mass and self.chance(determiners.share)
        determiner = self.pick(determiners.mass if mass else determiners.plural if plural else determiners.singular)
        if determiner is lex.BARE and "person" in noun.kinds:
            determiner = lex.SOME if determiners is ANY else lex.THE
        if POSSESSED.intersection(noun.kinds) and self.chance(0.2):
            determiner = self.pick(lex.POSSESSIVES)
        phrase = NounPhrase(determiner, noun, plural, self.attributes(noun))
        if phrase.adjectives and phrase.adjectives[0].en not in lex.COLOUR and self.chance(0.08):
            phrase.degree = lex.DEGREE["very"]
        if determiner is lex.THE and OWNED.intersection(noun.kinds) and self.chance(owner):
            phrase.owner = self.noun_phrase(("person",), DEFINITE)
        return phrase

    def attributes(self, noun: lex.Noun) -> tuple[lex.Adjective, ...]:
        words = []
        for choice, share in ((adjectives(noun.kinds), 1.0), (colours(noun.kinds), 0.5)):
            if choice and self.chance(self.style.adjective * share):
                words.append(self.pick(choice))
        return tuple(words)

    def phrase(self, kinds: tuple[str, ...], determiners: Determiners = ANY) -> Phrase:
        """Anything but a pronoun."""
        for kind, names, probability in (("person", lex.NAME, 0.06), ("town", lex.CITY, 0.5)):
            if kind in kinds and self.chance(probability):
                return Pro(self.word(names))
        if determiners is ANY and self.chance(self.style.coordination):
            return Coordination(tuple(self.noun_phrase(kinds) for _ in range(3 if self.chance(0.2) else 2)))
        return self.noun_phrase(kinds, determiners, owner=0.05)

    def subject(self, kinds: tuple[str, ...]) -> Phrase:
        if "person" in kinds and self.chance(0.3):
            return Pro(self.pick(pronouns()))
        return self.phrase(kinds)

    def object(self, kinds: tuple[str, ...], subject: Phrase, determiners: Determiners = ANY) -> Phrase:
        if "person" in kinds and self.chance(0.25):
            return Pro(self.pick(pronouns(subject.name)))
        return self.phrase(kinds, determiners)

    def relate(self, phrase: Phrase, probability: float) -> None:
        """Hangs a relative clause on the phrase, now and then."""
        noun_phrase = phrase.hook()
        if noun_phrase and self.depth < self.style.depth and self.chance(probability):
            self.depth += 1
            noun_phrase.relative = self.relative(noun_phrase.noun, noun_phrase.plural)
            self.depth -= 1

    # Adverbials

    def time(self, tense: Tense) -> Complement:
        return Adverbial(self.word(lex.TIMES[tense.when]))

    def place(self) -> Complement:
        if self.chance(0.2):
            return Adverbial(self.word(lex.PLACE), Slot.PLACE)
        if self.chance(0.12):
            return Prepositional(lex.IN, Pro(self.word(lex.CITY)), Slot.PLACE)
        preposition, kinds = self.pick(lex.WHERE)
        return Prepositional(preposition, self.noun_phrase(kinds, LOCAL), Slot.PLACE)

    def goal(self, choice: list[tuple[lex.Preposition, tuple[str, ...]]]) -> Complement:
        preposition, kinds = self.pick(choice)
        return Prepositional(preposition, self.noun_phrase(kinds, LOCAL))

    def middle(self, tense: Tense) -> Adverbial:
        if tense is PERFECT and self.chance(0.4):
            return Adverbial(lex.ALREADY, Slot.NEGATION)
        if self.chance(0.4):
            return Adverbial(self.word(lex.SENTENCE_ADVERB))
        return Adverbial(self.word(lex.FREQUENCY), Slot.NEGATION)

    # Predicates

    def negates(self, tense: Tense, subject: Phrase) -> bool:
        """Not `must`: `must not` is no `muss nicht`."""
        return subject.definite and tense is not MODALS["must"] and self.chance(0.15)

    def predicate(
        self, verb: lex.Verb, tense: Tense, subject: Phrase, *, gap: Phrase | None = None, without: tuple[str, ...] = ()
    ) -> Predicate:
        """`gap` is the object, where it is given. `without`: what must not be added (time, place, middle)."""
        negated = "middle" not in without and self.negates(tense, subject)
        complements = self.arguments(verb, subject, NEGATABLE if negated else ANY, gap) if verb.objects else []
        complements += self.extras(verb, subject, without, all(item.phrase.definite for item in complements))
        timed = "time" not in without and "state" not in verb.extras and self.chance(self.style.time)
        if timed:
            complements.append(self.time(tense))
        middle = None if negated or timed or "middle" in without or not self.chance(0.15) else self.middle(tense)
        return Predicate(verb, tense, tuple(complements), middle, negated)

    def arguments(self, verb: lex.Verb, subject: Phrase, determiners: Determiners, gap: Phrase | None) -> list[Complement]:
        phrase = gap or self.object(verb.objects, subject, determiners)
        complements = [Prepositional(verb.preposition, phrase) if verb.preposition else Object(phrase, verb.case)]
        if verb.recipient:
            recipient = self.object(("person",), subject, DEFINITE if determiners is NEGATABLE else ANY)
            complements.append(Recipient(recipient))
        return complements

    def extras(self, verb: lex.Verb, subject: Phrase, without: tuple[str, ...], definite: bool) -> list[Complement]:
        """In English order. `definite`: so is the object, if there is one."""
        complements: list[Complement] = []
        for name, preposition, probability in (("for", lex.FOR, 0.2), ("from", lex.FROM, 0.5)):
            if name in verb.extras and self.chance(probability):
                complements.append(Prepositional(preposition, self.object(("person",), subject)))
        if "how" in verb.extras and definite and self.chance(0.15):
            complements.append(Adverbial(self.pick(self.manners(verb)), Slot.MANNER))
        if "city" in verb.extras and ("trip" not in verb.extras or self.chance(0.5)):
            complements.append(Prepositional(lex.TO_CITY, Pro(self.word(lex.CITY))))
        elif "trip" in verb.extras or "goal" in verb.extras and self.chance(0.3 if verb.objects else 0.9):
            complements.append(self.goal(lex.WHITHER_FAR if "trip" in verb.extras else lex.WHITHER))
        if "company" in verb.extras and self.chance(0.15):
            preposition = self.pick((lex.WITH, lex.WITH, lex.WITHOUT))
            complements.append(Prepositional(preposition, self.object(("own", "animal"), subject), Slot.COMPANY))
        if "place" not in without and ("home" in verb.extras or "place" in verb.extras and self.chance(self.style.place)):
            complements.append(self.place())
        return complements

    def manners(self, verb: lex.Verb) -> list[lex.Adverb]:
        if verb.objects:
            return MANNERS_WITH_OBJECT
        return MANNERS_OF_GOING if "goal" in verb.extras or "trip" in verb.extras else MANNERS

    def copula(self, tense: Tense, subject: Phrase, kinds: tuple[str, ...]) -> Predicate:
        tense = PRESENT if tense is MODALS["want"] else tense
        words = [word for word in (self.pick(adjectives(kinds)) for _ in range(3)) if word not in subject.adjectives]
        both = len(words) > 1 and words[0] is not words[1] and self.chance(0.15)
        degree = self.word(lex.DEGREE) if not both and self.chance(0.3) else None
        negated = self.negates(tense, subject)
        middle = self.middle(tense) if not negated and self.chance(0.15) else None
        words = words or [self.pick(adjectives(kinds))]
        return Predicate(lex.BE, tense, (Predicative(tuple(words[: 1 + both]), degree),), middle, negated)

    # Clauses

    def verb(self, choice: list[lex.Verb], tense: Tense) -> lex.Verb:
        while not fits(verb := self.pick(choice), tense):
            pass
        return verb

    def clause(self, tense: Tense, without: tuple[str, ...] = ()) -> Clause:
        """Somebody does something."""
        if self.chance(0.12):
            return self.description(tense)
        verb = self.verb(verbs(), tense)
        subject = self.subject(verb.subjects)
        predicate = self.predicate(verb, tense, subject, without=without)
        self.relate(subject, self.style.relative / 2)
        return Clause(subject, (predicate,))

    def description(self, tense: Tense) -> Clause:
        """Somebody or something is old."""
        if self.chance(0.5):
            subject, kinds = self.subject(("person",)), ("person",)
        else:
            subject = self.noun_phrase(DESCRIBED)
            kinds, tense = subject.noun.kinds, tense if tense in SIMPLE else PRESENT
        return Clause(subject, (self.copula(tense, subject, kinds),))

    def weather(self, tense: Tense) -> Clause:
        tense = tense if tense in SIMPLE else PRESENT
        place = Prepositional(lex.IN, self.noun_phrase(("area",), DEFINITE), Slot.PLACE)
        complements = (place,) if self.chance(0.25) else (self.time(tense),) if self.chance(0.4) else ()
        return Clause(Pro(lex.IT), (Predicate(self.word(lex.WEATHERS), tense, complements),))

    def relative(self, noun: lex.Noun, plural: bool) -> Clause:
        """A clause in which the noun is the place, the object or the subject."""
        pronoun, tense = RelativePronoun(noun, plural), self.pick(TENSES)
        if set(lex.PLACES) & set(noun.kinds) and self.chance(0.5):
            verb = self.verb(verbs(("person",), (), ("home", "place")), tense)
            return self.beginning(Prepositional(lex.IN, pronoun), verb, tense, without=("place",))
        if verbs((), noun.kinds) and self.chance(0.5):
            return self.about(pronoun, self.verb(verbs((), noun.kinds), tense), tense)
        if not {"person", "animal"} & set(noun.kinds):
            tense = tense if tense in SIMPLE else PRESENT
        if verbs(noun.kinds) and self.chance(0.75):
            verb = self.verb(verbs(noun.kinds), tense)
            return self.ended(Clause(pronoun, (self.predicate(verb, tense, pronoun),)))
        return Clause(pronoun, (self.copula(tense, pronoun, noun.kinds),))

    def beginning(self, front: Complement, verb: lex.Verb, tense: Tense, without: tuple[str, ...]) -> Clause:
        """A clause with `front` before its subject."""
        subject = self.subject(verb.subjects)
        return Clause(subject, (self.predicate(verb, tense, subject, without=without),), front)

    def about(self, phrase: Phrase, verb: lex.Verb, tense: Tense, without: tuple[str, ...] = ()) -> Clause:
        """A clause with its object, `phrase`, before its subject."""
        subject = self.subject(verb.subjects)
        predicate = self.predicate(verb, tense, subject, gap=phrase, without=without)
        front, *complements = predicate.complements
        predicate.complements = tuple(complements)
        return Clause(subject, (predicate,), front)

    def ended(self, clause: Clause) -> Clause:
        """Perhaps with a relative clause, if a noun is the last word in English."""
        complements = clause.predicates[-1].complements
        if complements and complements[-1].phrase:
            self.relate(complements[-1].phrase, self.style.relative)
        return clause

    def fronted(self, clause: Clause) -> Clause:
        """Perhaps with a time, a place or an adverb before its subject."""
        predicate = clause.predicates[0]
        movable = [item for item in predicate.complements if item.slot in (Slot.TIME, Slot.PLACE)]
        if movable and self.chance(self.style.front):
            clause.front = self.pick(movable)
            predicate.complements = tuple(item for item in predicate.complements if item is not clause.front)
        elif not movable and not predicate.negated and not predicate.middle and self.chance(self.style.front / 4):
            clause.front = Adverbial(self.word(lex.SENTENCE_ADVERB))
        return clause

    def doubled(self) -> Clause:
        """One subject does two things. The first holds no clause that the second might belong to."""
        tense = self.pick(SIMPLE)
        first = self.verb(verbs(("person",)), tense)
        second = self.verb([verb for verb in verbs(("person",)) if verb is not first], tense)
        subject = self.subject(("person",))
        clause = Clause(subject, tuple(self.predicate(verb, tense, subject, without=("middle",)) for verb in (first, second)))
        return self.ended(self.fronted(clause))

    def reported(self) -> Clause:
        """Somebody says that, or asks whether."""
        tense = self.pick(TENSES)
        verb = lex.ASK if self.chance(0.2) else self.verb(list(lex.REPORT.values()), tense)
        subject = self.subject(("person",))
        content = self.ended(self.clause(PAST if tense is PAST else self.pick(TENSES)))
        complement = Subordinate(lex.WHETHER if verb is lex.ASK else lex.THAT, content)
        return Clause(subject, (Predicate(verb, tense, (complement,), None, self.negates(tense, subject)),))

    def nested(self) -> Clause:
        """A main clause with a subordinate one before or after it."""
        tense = self.pick(TENSES)
        clause, subordinate = self.clause(tense), self.subordinate(tense)
        if self.chance(0.4):
            clause.front = subordinate
            return self.ended(clause)
        clause = self.ended(self.fronted(clause))
        clause.predicates[0].complements += (subordinate,)
        return clause

    def subordinate(self, main: Tense) -> Subordinate:
        """`main`: the tense of the main clause."""
        conjunction = self.pick(SUBORDINATORS[main.when])
        temporal = conjunction in lex.TEMPORAL
        tense = PAST if main is PAST else PRESENT if temporal or self.chance(0.4) else self.pick(NOT_PAST)
        if self.chance(0.12):
            return Subordinate(conjunction, self.weather(tense))
        return Subordinate(conjunction, self.ended(self.clause(tense, ("middle",) if temporal else ())))

    def main(self) -> Clause:
        return self.ended(self.fronted(self.clause(self.pick(TENSES))))

    # Sentences

    def simple(self) -> Sentence:
        return Sentence((self.main(),))

    def because(self) -> Sentence:
        return Sentence((self.nested(),))

    def that(self) -> Sentence:
        return Sentence((self.reported(),))

    def both(self) -> Sentence:
        return Sentence((self.doubled(),))

    def joined(self) -> Sentence:
        return self.join((self.main(), self.main()))

    def chain(self) -> Sentence:
        """Two or three clauses of any structure."""
        makers = (self.main, self.nested, self.nested, self.doubled, self.reported)
        return self.join(tuple(self.pick(makers)() for _ in range(3 if self.chance(0.4) else 2)))

    def join(self, clauses: tuple[Clause, ...]) -> Sentence:
        return Sentence(clauses, tuple(self.pick(tuple(lex.LINK)) for _ in clauses[1:]))

    def ask(self, clause: Clause, inverted: bool = True) -> Sentence:
        return Sentence((clause,), mark="?", inverted=inverted)

    def whether(self) -> Sentence:
        return self.ask(self.ended(self.clause(self.pick(TENSES))))

    def who(self) -> Sentence:
        tense, subject = self.pick(TENSES), Pro(lex.QUESTION["who"])
        predicate = self.predicate(self.verb(verbs(("person",)), tense), tense, subject, without=("middle",))
        return self.ask(self.ended(Clause(subject, (predicate,))), inverted=False)

    def whom(self) -> Sentence:
        """Whom, with the preposition of the verb if it has one, or what."""
        tense = self.pick(TENSES)
        if self.chance(0.5):
            return self.ask(self.about(Pro(lex.QUESTION["who"]), self.verb(verbs((), ("person",)), tense), tense, ("middle",)))
        choice = [verb for verb in verbs((), ("thing", "food", "text")) if not verb.preposition]
        return self.ask(self.about(Pro(lex.QUESTION["what"]), self.verb(choice, tense), tense, ("middle",)))

    def why(self) -> Sentence:
        """Why, when or where."""
        tense = self.pick(TENSES)
        question, answer, extras = self.pick((("why", "", ()), ("when", "time", ()), ("where", "place", ("place", "home"))))
        verb = self.verb(verbs(("person",), (), extras), tense)
        return self.ask(self.beginning(Adverbial(lex.ASKED[question]), verb, tense, without=(answer, "middle")))


ALWAYS = (lex.BECAUSE, lex.ALTHOUGH)
SUBORDINATORS = {
    "present": (*ALWAYS, lex.IF, *lex.TEMPORAL),
    "past": (*ALWAYS, lex.WHEN, lex.WHEN, *lex.TEMPORAL),
    "perfect": ALWAYS,
    "future": (*ALWAYS, lex.IF, *lex.TEMPORAL),
}
SHORT_STYLE = Style(
    kinds=[Writer.simple] * 46
    + [Writer.because] * 17
    + [Writer.that] * 8
    + [Writer.both] * 7
    + [Writer.joined] * 7
    + [Writer.whether] * 6
    + [Writer.why] * 4
    + [Writer.whom] * 3
    + [Writer.who] * 2,
    adjective=0.25,
    coordination=0.06,
    relative=0.16,
    time=0.2,
    place=0.25,
    front=0.4,
    depth=1,
)
LONG_STYLE = Style(
    kinds=[Writer.chain] * 7 + [Writer.because] * 2 + [Writer.that],
    adjective=0.45,
    coordination=0.15,
    relative=0.5,
    time=0.25,
    place=0.35,
    front=0.4,
    depth=2,
)


# The corpus


def length(pair: Aligned) -> tuple[int, int]:
    """Words of the shorter and of the longer side."""
    return tuple(sorted(text.count(" ") + 1 for text in pair[:2]))


def is_short(pair: Aligned) -> bool:
    return length(pair)[1] <= LIMIT


def is_long(pair: Aligned) -> bool:
    shorter, longer = length(pair)
    return shorter >= LONG[0] and longer <= LONG[1]


# In the order in which they are drawn: what an earlier split has, a later one leaves out
DRAWN = {
    "valid": (SHORT_STYLE, is_short),
    "test": (SHORT_STYLE, is_short),
    "test_long": (LONG_STYLE, is_long),
    "train": (SHORT_STYLE, is_short),
}


@lru_cache(maxsize=8)
def draw(seed: int, sizes: tuple[int, ...]) -> tuple[Aligned, ...]:
    """The last of the splits whose sizes are given, in the order of `DRAWN`. No sentence comes twice, in either language."""
    seen = {text for i in range(1, len(sizes)) for pair in draw(seed, sizes[:i]) for text in pair[:2]}
    style, belongs = list(DRAWN.values())[len(sizes) - 1]
    writer = Writer(seed * len(DRAWN) + len(sizes), style)
    pairs: list[Aligned] = []
    while len(pairs) < sizes[-1]:
        pair = render(writer.sentence())
        if belongs(pair) and pair.src not in seen and pair.tgt not in seen:
            pairs.append(pair)
            seen.update(pair[:2])
    return tuple(pairs)


class Grammar:
    """One split of the corpus, an iterable of pairs. A seed gives the same corpus everywhere.

    `train`, `valid`, `test`, `test_long`: sentences in each. Sentences of `test_long` have 19 to 35 words, all others up to 14.
    No sentence of one split, in either language, occurs again there or in another.
    """

    def __init__(
        self,
        split: str = "train",
        *,
        seed: int = 1,
        train: int = 20000,
        valid: int = 500,
        test: int = 500,
        test_long: int = 500,
    ):
        if split not in SPLITS:
            raise ValueError(f"split of the built-in corpus is {split!r}: it must be one of {', '.join(SPLITS)}")
        sizes = {"valid": valid, "test": test, "test_long": test_long, "train": train}
        self._key = (seed, tuple(sizes[name] for name in list(DRAWN)[: list(DRAWN).index(split) + 1]))

    def __iter__(self) -> Iterator[Pair]:
        return (Pair(pair.src, pair.tgt) for pair in draw(*self._key))

    def __len__(self) -> int:
        return self._key[1][-1]

    def alignments(self) -> list[tuple[tuple[int, int], ...]]:
        """Of each pair, in their order: (source word, target word) from 0, words split at blanks."""
        return [pair.alignment for pair in draw(*self._key)]
