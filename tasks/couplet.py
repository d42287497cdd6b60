"""Answers upper lines of couplets: python -m tasks.couplet ckpt=PATH [overrides] < in > out. conf/couplet.yaml lists options.

Each line is an upper line (上联), and what is asked of its answer (下联), behind bars and in any order:

    白日依山尽                  answers that keep the rules
    白日依山尽|-河-海-           with these characters at their places; - is any
    白日依山尽|+春风|+月         in which these words occur
    白日依山尽|!愁苦            without these characters

With a terminal for stdin it asks for lines.
"""

from tasks import cli  # isort: skip  # first: `tasks` sets what torch reads when it is loaded

import dataclasses
import json
import re
import sys
from collections.abc import Sequence
from typing import NamedTuple

import hydra.utils
from omegaconf import DictConfig

from data.errors import DuetError
from data.extras import extra
from data.tokenizer import EOS, UNK, Characters
from data.tones import Tone, Tones, is_mark
from tasks import terminal
from tasks.build import Translation, Translator
from tasks.couplet_scores import broken_rules
from tasks.couplet_search import FREE, Couplet
from tasks.decoding import Request
from tasks.lines import Output, begun, lines_of, piped, terminal_asks, typed, windows
from tasks.using import check_names, use
from tasks.width import cells

SHOWN = {Tone.LEVEL: "平", Tone.OBLIQUE: "仄", Tone.BOTH: "通", Tone.UNKNOWN: "？"}


# What is asked


def parse(line: str) -> Request:
    """A line of the input. A part that is neither words nor what to avoid is fixed characters; of several, the last counts."""
    text, *parts = (part.strip() for part in re.split(r"[|｜]", line.strip()))
    fixed, words, avoid = "", [], ""
    for part in filter(None, parts):
        template = part[0] == text[:1] and len(part) == len(text)  # an upper line may begin with such a mark itself
        if part[0] in "+＋" and not template:
            words += part[1:].split()
        elif part[0] in "!！" and not template:
            avoid += part[1:]
        else:
            fixed = part.replace("－", FREE)
    return Request(text, fixed=fixed, words=tuple(words), avoid=avoid)


class Script:
    """Between the script of a line and that of a model: characters that the model does not know are written the other way."""

    def __init__(self, tokenizer: Characters, wanted: str):
        opencc = extra("opencc", "couplets")
        self.simplify, self.complicate = opencc.OpenCC("t2s").convert, opencc.OpenCC("s2t").convert
        self.known = lambda character: tokenizer.encode(character)[0] != UNK
        self.wanted = wanted

    def into(self, text: str) -> str:
        return "".join(self._known_way(character) for character in text)

    def _known_way(self, character: str) -> str:
        ways = (character, self.simplify(character), self.complicate(character))
        return next((way for way in ways if len(way) == 1 and self.known(way)), character)

    def back(self, text: str, line: str, given: str = "") -> str:
        """An answer in the script that is wanted: that of the line, with auto. One character is always written in one way, so
        that repetitions stay; those that were given with the request as they were given there.
        """
        other = SCRIPTS[self.wanted](self, text, line)
        ways = dict(zip(reversed(text), reversed(other))) if len(other) == len(text) else {}
        ways |= {self._known_way(character): character for character in given}
        return "".join(ways.get(character, character) for character in text)

    def like(self, text: str, line: str) -> str:
        """Traditional where the line is."""
        return self.complicate(text) if self.simplify(line) != line else text


SCRIPTS = {  # how a text that answers a line is written
    "auto": Script.like,
    "simplified": lambda script, text, line: script.simplify(text),
    "traditional": lambda script, text, line: script.complicate(text),
}


# Answers


class Answer(NamedTuple):
    """text: as it is shown; plain: in the model's script. broken: rules that it breaks, named as in given_up.

    text is blank where no line meets what is asked; given_up says what cannot be met.
    """

    text: str
    plain: str
    tones: str
    score: float
    log_prob: float
    broken: list[str]
    given_up: list[str]


class Question(NamedTuple):
    """What a line of the input asks, together with what the options ask of every answer.

    number: of the line, from 1. written: as it stands there. known: in the model's script.
    """

    number: int
    written: Request
    known: Request


class Poet(NamedTuple):
    """What answers lines."""

    model: Translator
    decode: Couplet
    config: DictConfig
    tones: Tones
    script: Script

    def question(self, line: str, number: int = 1) -> Question:
        """DuetError for a line that is longer than the model can take."""
        own, config, into = parse(line), self.config, self.script.into
        words, avoid, most = (*own.words, *config.words), own.avoid + config.avoid, self.model.max_source
        if most is not None and len(own.text) > most:
            raise DuetError(f"line {number} has {len(own.text)} characters, this model takes {most}")
        shown = dataclasses.replace(own, words=words, avoid=avoid)
        known = Request(into(own.text), fixed=into(own.fixed), words=tuple(map(into, words)), avoid=into(avoid))
        return Question(number, shown, known)

    def answers(self, questions: Sequence[Question]) -> list[list[Answer]]:
        """Of each question, the best first; none of a blank line."""
        found = self.search([question.known for question in questions], self.decode)
        return [
            [self.answer(question, hypothesis) for hypothesis in self.chosen(hypotheses)] if question.known.text else []
            for question, hypotheses in zip(questions, found)
        ]

    def search(self, requests: Sequence[Request], decode: Couplet) -> list[list[Translation]]:
        """Hypotheses in the model's script."""
        return self.model.search(requests, decode=decode, batch_size=self.config.batch_size)

    def chosen(self, hypotheses: Sequence[Translation]) -> list[Translation]:
        """The best ones that differ enough, and where these are too few, the best of the others."""
        picked: list[Translation] = []
        for hypothesis in hypotheses:
            if all(distance(hypothesis.text, other.text) >= self.config.different for other in picked):
                picked.append(hypothesis)
        others = [hypothesis for hypothesis in hypotheses if hypothesis not in picked]
        return sorted([*picked, *others][: self.config.answers], key=lambda hypothesis: -hypothesis.score)

    def answer(self, question: Question, hypothesis: Translation) -> Answer:
        written, plain = question.written, hypothesis.text
        names = {f"word {known}": f"word {word}" for known, word in zip(question.known.words, written.words)}
        given_up = [names.get(name, name) for name in hypothesis.given_up]
        own = written.words[: len(written.words) - len(self.config.words)]  # those of the options are for any script
        kept = [word for word in own if f"word {word}" not in given_up]
        shown = self.script.back(plain, written.text, written.fixed.replace(FREE, "") + "".join(kept))
        broken = broken_rules(question.known.text, plain, self.tones, self.decode.particles) if plain else []
        numbers = (hypothesis.score, hypothesis.log_prob)
        return Answer(shown, plain, tones_of(plain, self.tones), *numbers, broken, given_up)

    def alternatives(self, question: Question, answer: Answer, place: int, count: int) -> list[Answer]:
        """The best answers that differ from this one at one place (from 1) only."""
        fixed = answer.plain[: place - 1] + FREE + answer.plain[place:]
        decode = dataclasses.replace(self.decode, size=4 * count, n_best=count, groups=1)
        asked = dataclasses.replace(question.known, fixed=fixed)
        return [self.answer(question, hypothesis) for hypothesis in self.search([asked], decode)[0]]


def distance(one: str, other: str) -> int:
    """Places at which they differ."""
    return sum(a != b for a, b in zip(one, other)) + abs(len(one) - len(other))


def tones_of(line: str, tones: Tones) -> str:
    """平, 仄, 通 (either) or ？ (unknown) for each character; marks stand for themselves."""
    return "".join(character if is_mark(character) else SHOWN[tones(character)] for character in line)


# What is written


def as_text(poet: Poet, question: Question, answers: Sequence[Answer]) -> str:
    """Several lines: the upper line and its tones, then each answer and its tones."""
    if not answers:
        return ""
    upper = question.written.text
    rows = [f"上联  {upper}", f"      {wide(upper, tones_of(question.known.text, poet.tones))}"]
    if not answers[0].text:
        return "\n".join([*rows, f"      no answer; cannot be met: {', '.join(answers[0].given_up)}"])
    for number, answer in enumerate(answers, 1):
        told = ["breaks " + ", ".join(answer.broken)] if answer.broken else ["keeps all rules"]
        told += ["given up: " + ", ".join(answer.given_up)] if answer.given_up else []
        rows += [
            f"{number:>4}  {answer.text}  {answer.score:8.2f}  {'; '.join(told)}",
            f"      {wide(answer.text, answer.tones)}",
        ]
    return "\n".join(rows)


def wide(text: str, marks: str) -> str:
    """The marks, each as wide on a terminal as what it stands under."""
    return "".join(
        " " * cells(own) if is_mark(own) else mark if cells(own) == 2 else "·"
        for own, mark in zip(text, marks)
    )


def as_json(poet: Poet, question: Question, answers: Sequence[Answer]) -> str:
    """One line of JSON."""
    told = [
        {name: value for name, value in answer._asdict().items() if name != "plain"}
        | {"score": round(answer.score, 5), "log_prob": round(answer.log_prob, 5)}
        for answer in answers
        if answer.text
    ]
    record = {
        "line": question.number,
        "upper": question.written.text,
        "tones": tones_of(question.known.text, poet.tones),
        "asked": {name: value for name, value in dataclasses.asdict(question.written).items() if name != "prefix"},
        "answers": told,
        "cannot": answers[0].given_up if answers and not told else [],
    }
    return json.dumps(record, ensure_ascii=False)


FORMATS = {"text": as_text, "json": as_json}


def answer_all(poet: Poet) -> None:
    """From the input to the output."""
    (_, lines), shown = begun(lines_of(poet.config)), FORMATS[poet.config.format]
    output, number = Output(poet.config.output, source=poet.config.input), 0
    for window in windows(lines, 1 if typed(poet.config) else poet.config.batch_size):
        questions = [poet.question(line, place) for place, line in enumerate(window, number + 1)]
        output.write(shown(poet, *pair) for pair in zip(questions, poet.answers(questions)))
        number += len(window)
    output.close()


HELP = """an upper line is answered; behind bars stands what is asked: 白日依山尽|-河-海- or |+春风 or |!愁
then :3 shows what else could stand at the third place of the first answer, :attention where the model looked; :quit ends"""


def prompt(poet: Poet) -> None:
    """Asks for lines."""

    def on_line(text: str) -> tuple[str, tuple[Question, list[Answer]]]:
        question = poet.question(text)
        answers = poet.answers([question])[0]
        return as_text(poet, question, answers), (question, answers)

    terminal.converse(HELP, on_line, lambda command, last: look(poet, command, last))


def look(poet: Poet, command: str, last: tuple[Question, list[Answer]] | None) -> str:
    """What a command prints."""
    if last is None or not last[1] or not last[1][0].text:
        return HELP
    question, (best, *_) = last
    if command == "attention":
        ids = poet.model.tgt_tokenizer.encode(best.plain)
        return terminal.attention(poet.model, question.known.text, [*ids, EOS])
    if command.isdecimal() and 1 <= int(command) <= len(best.plain):
        return as_text(poet, question, poet.alternatives(question, best, int(command), poet.config.answers))
    return HELP


# The command


def check(config: DictConfig) -> None:
    check_names(config, {"format": FORMATS, "script": SCRIPTS})
    if not hydra.utils.get_class(config.decode._target_).takes_wishes:
        raise DuetError("tasks.couplet needs decode=couplet; tasks.translate searches without the rules")


def poet_of(words: Sequence[str]) -> Poet:
    """Loads what the words name. Raises DuetError for what a user can mend."""
    model, config, decode = use("couplet", words, check)
    if decode.n_best < config.answers:
        raise DuetError(f"answers={config.answers} needs as large a decode.n_best (and decode.size), not {decode.n_best}")
    return Poet(model, decode, config, Tones(decode.tone_system), Script(model.tgt_tokenizer, config.script))


def main() -> None:
    words = cli.readable(sys.argv[1:], lists=["words"])
    if not cli.begin(__doc__, words, "couplet"):
        return
    poet = poet_of(words)
    with piped():
        if terminal_asks(poet.config):
            prompt(poet)
        else:
            answer_all(poet)


if __name__ == "__main__":
    sys.exit(cli.run(main, "couplet"))
