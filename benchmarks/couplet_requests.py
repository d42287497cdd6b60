"""Couplets on request: python benchmarks/couplet_requests.py CKPT

Random requests for upper lines of a test set, in batches of 64: fixed characters, words that must occur, characters to avoid,
mixed. Counts the answers that break one, and what is said to be impossible (and whether it is). Then what the rules cost:
seconds of the same beam with all rules and with none, in turns. Ends with 1 if a request is broken or the rules cost more
than 1.5 times.
"""

# ruff: noqa: E402  imports come after sys.path
import argparse
import itertools
import random
import statistics
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import tasks  # noqa: F401  # isort: skip  # first: it sets what torch reads when it is loaded

from data.sources import Tsv
from data.tones import is_mark
from tasks.build import Translator, load
from tasks.couplet_search import FREE, Couplet
from tasks.decoding import Request

LIMIT = 1.5


def request(upper: str, lines: Sequence[str], draw: random.Random) -> Request:
    """One, two or three kinds of wishes, of characters from other lower lines; some of them cannot be met."""
    kinds = draw.sample(["fixed", "words", "avoid"], draw.randint(1, 3))
    fixed, words, avoid = "", (), ""
    if "fixed" in kinds:
        places = draw.sample(range(len(upper)), min(len(upper), draw.randint(1, 3)))
        other = draw.choice(lines)
        fixed = "".join(draw.choice(other) if i in places else FREE for i in range(len(upper)))
    if "words" in kinds:
        words = tuple(cut(draw.choice(lines), draw.randint(1, 3), draw) for _ in range(draw.randint(1, 2)))
    if "avoid" in kinds:
        avoid = "".join(draw.choice(draw.choice(lines)) for _ in range(draw.randint(1, 6)))
    return Request(upper, fixed=fixed, words=words, avoid=avoid)


def cut(line: str, length: int, draw: random.Random) -> str:
    begin = draw.randrange(max(1, len(line) - length + 1))
    return line[begin : begin + length]


def broken(asked: Request, text: str, given_up: Sequence[str]) -> list[str]:
    """The wishes that an answer does not fulfil, and does not say so."""
    found = [] if len(text) == len(asked.text) else ["length"]
    found += ["fixed"] if any(own not in (FREE, got) for own, got in zip(asked.fixed, text)) else []
    found += [f"word {word}" for word in asked.words if word not in text and f"word {word}" not in given_up]
    found += [f"avoid {c}" for c in asked.avoid if c in text and f"avoid {c}" not in given_up]
    if "punctuation" not in given_up:
        found += ["punctuation"] if any((is_mark(a) or is_mark(b)) and a != b for a, b in zip(asked.text, text)) else []
    return found


def impossible(asked: Request, remark: str) -> bool:
    """Whether what is said to be impossible is: no place for a word beside the others, or a character that is asked for too."""
    kind, _, what = remark.partition(" ")
    if kind == "avoid":
        return what in asked.fixed or any(what in word for word in asked.words)
    if kind == "punctuation":
        pairs = [(own, upper) for own, upper in zip(asked.fixed, asked.text) if own != FREE]
        return any((is_mark(own) or is_mark(upper)) and own != upper for own, upper in pairs)
    if kind != "word":
        return True  # a rule that was given up: not a wish
    lines = [asked.fixed or FREE * len(asked.text)]
    for word in asked.words:
        starts = range(len(asked.text) - len(word) + 1)
        placed = [line[:i] + word + line[i + len(word) :] for line in lines for i in starts if fits(line, word, i, asked.text)]
        if word == what:
            return not placed
        lines = placed or lines
    return False


def fits(line: str, word: str, start: int, upper: str) -> bool:
    spots = zip(word, line[start:], upper[start:])
    return all(
        own == there if there != FREE else is_mark(own) == is_mark(up) and (own == up or not is_mark(own))
        for own, there, up in spots
    )


def cost(model: Translator, lines: Sequence[str], rounds: int) -> float:
    """Median ratio of the seconds with all rules to those of the same beam with none but the length."""
    none = Couplet(punctuation=False, repetition=False, copy=False, tones="off")
    ratios = []
    for _ in range(rounds):
        seconds = []
        for decode in (Couplet(), none):
            began = time.perf_counter()
            model.search(lines, decode=decode)
            seconds.append(time.perf_counter() - began)
        ratios.append(seconds[0] / seconds[1])
        print(f"rules {seconds[0]:.2f} s, no rules {seconds[1]:.2f} s: {ratios[-1]:.2f}", flush=True)
    return statistics.median(ratios[1:])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("ckpt")
    parser.add_argument("--requests", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--root", type=Path, default=ROOT / "../shared/data/couplets")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    model, draw = load(options.ckpt), random.Random(options.seed)
    pairs = list(Tsv(str(options.root), "test", source_column="upper", target_column="lower"))
    lines = [pair.tgt for pair in pairs]
    asked = [request(pair.src, lines, draw) for pair in itertools.islice(itertools.cycle(pairs), options.requests)]
    found = model.search(asked, decode=Couplet(n_best=3), batch_size=64)
    faults, told, wrong = Counter(), Counter(), 0
    for one, answers in zip(asked, found):
        for answer in answers:
            faults.update(broken(one, answer.text, answer.given_up))
        told.update(remark.partition(" ")[0] for remark in answers[0].given_up)
        wrong += sum(not impossible(one, remark) for remark in answers[0].given_up)
    answered = sum(bool(answers[0].text) for answers in found)
    print(f"{len(asked)} requests, {answered} answered, {sum(faults.values())} answers that break a wish {dict(faults)}")
    print(f"given up, in so many requests: {dict(told)}; {wrong} of these could have been met")
    ratio = cost(model, [pair.src for pair in pairs[:640]], options.rounds + 1)
    print(f"the rules cost {ratio:.2f} times the same beam without them (limit {LIMIT})")
    return 1 if faults or wrong or answered < len(asked) or ratio > LIMIT else 0


if __name__ == "__main__":
    sys.exit(main())
