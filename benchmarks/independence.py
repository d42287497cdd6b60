"""Does a translation depend on its batch? python benchmarks/independence.py CKPT [CKPT …]

1,000 mixed lines (1 to 60 words, blank ones, ones of unknown characters) with batches of 1, 7 and 64, by every kind of search;
for each checkpoint, and for an ensemble of all. Prints how many lines have another text than with batches of 64 (and in how
many of these two were within 1e-5 of each other), and by how much scores differ; ends with 1 if a text differs without a tie,
more than one in 1,000 does, or a score differs by more than 1e-4. Every line is also translated greedily and by a beam of one,
and what a beam of 5 found is scored again by `Translator.score`.
"""

# ruff: noqa: E402  imports come after sys.path
import argparse
import math
import random
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import tasks  # noqa: F401  # isort: skip  # first: it sets what torch reads when it is loaded

from data.errors import DuetError
from data.sources import read_lines
from model.search import penalty
from tasks.build import Translation, Translator, load
from tasks.decoding import Beam, Decode, Greedy, Sample

SEARCHES: dict[str, Decode] = {
    "greedy": Greedy(),
    "beam 5": Beam(),
    "sampling": Sample(top_p=0.9),
    "beam 5, no n-gram of 3 twice": Beam(no_repeat_ngram=3, repetition_penalty=1.2),
    "beam 5, coverage, 2 best": Beam(coverage_penalty=0.3, n_best=2),
    "diverse beam of 6, all 6": Beam(size=6, groups=3, n_best=6),
}
BATCHES = (1, 7, 64)


def mixed(path: Path, count: int) -> list[str]:
    """Lines of 1 to 60 words cut out of a text, short ones more often, every 20th blank, every 25th of characters that no model
    has seen.
    """
    generator = random.Random(1)
    words = " ".join(read_lines(path)).split()
    lines = []
    for number in range(count):
        begin, length = generator.randrange(len(words) - 60), int(61 ** generator.random())
        lines.append(" ".join(words[begin : begin + length]))
        if number % 20 == 7:
            lines[-1] = " " * (number % 3)
        elif number % 25 == 3:
            lines[-1] = "龘靐 齉爩"[: 1 + number // 25 % 5]
    return lines


TIE = 1e-5


def differences(one: list[list[Translation]], other: list[list[Translation]]) -> tuple[int, int, float]:
    """Lines with another text among their hypotheses, how many of these are ties, and the largest difference of scores among
    the rest.
    """
    texts, ties, largest = 0, 0, 0.0
    for a, b in zip(one, other, strict=True):
        if [found.text for found in a] != [found.text for found in b]:
            texts, ties = texts + 1, ties + tied(a, b)
        else:
            largest = max([largest, *(abs(x.score - y.score) for x, y in zip(a, b))])
    return texts, ties, largest


def tied(one: list[Translation], other: list[Translation]) -> bool:
    """Whether the first hypotheses that differ were as good as each other, to the search that ranked them or, for a greedy one,
    at the token where they part. More of them in one than in the other are no tie.
    """
    differing = [(x, y) for x, y in zip(one, other) if x.text != y.text]
    if not differing:
        return False
    x, y = differing[0]
    parting = next((i for i, (a, b) in enumerate(zip(x.ids, y.ids)) if a != b), None)
    token = parting is not None and abs(x.token_log_probs[parting] - y.token_log_probs[parting]) <= TIE
    return token or abs(x.score - y.score) <= TIE


def check(name: str, model: Translator, lines: list[str]) -> bool:
    """Prints a line for each search. Returns whether nothing depends on a batch."""
    good = True
    for how, decode in SEARCHES.items():
        try:
            decode.check(model.model, model.src_tokenizer, model.tgt_tokenizer)
        except DuetError as error:  # coverage, of a model without attention
            print(f"{name:>24}  {how:<30} {error}")
            continue
        began = time.perf_counter()
        found = {size: model.search(lines, decode=decode, batch_size=size) for size in BATCHES}
        counts = [differences(found[BATCHES[-1]], found[size]) for size in BATCHES[:-1]]
        texts, scores = sum(count for count, _, _ in counts), max(largest for _, _, largest in counts)
        ties = sum(tie for _, tie, _ in counts)
        good = good and texts == ties <= max(1, len(lines) // 1000) * len(counts) and scores <= 1e-4
        seconds = time.perf_counter() - began
        told = f"{texts} lines differ, {ties} by ties, scores by at most {scores:.1e}   ({seconds:.0f} s)"
        print(f"{name:>24}  {how:<30} {told}", flush=True)
    one = model.search(lines, decode=Beam(size=1))
    texts, ties, _ = differences(model.search(lines), one)
    print(f"{name:>24}  {'beam 1 and greedy':<30} {texts} lines differ, {ties} by ties", flush=True)
    best = [found[0] for found in model.search(lines, decode=Beam())]
    again = model.score(lines, [found.text for found in best])
    same = [(a, b) for line, a, b in zip(lines, best, again) if line.strip() and a.ids == b.ids]
    worst = max((abs(a.score - b.score / penalty(len(b.ids), 1.0)) for a, b in same), default=math.inf)
    print(f"{name:>24}  {'scored again':<30} {len(same)} lines of the same tokens differ by at most {worst:.1e}", flush=True)
    return good and texts == ties and worst <= 1e-4


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("ckpt", nargs="+")
    parser.add_argument("--lines", type=int, default=1000)
    parser.add_argument("--ensemble", action="store_true", help="only the ensemble of all")
    parser.add_argument("--text", type=Path, default=ROOT / "../shared/data/multi30k/test_2017_flickr.en")
    options = parser.parse_args()
    lines = mixed(options.text, options.lines)
    models = {f"model {number}": load(path) for number, path in enumerate(options.ckpt, 1) if not options.ensemble}
    if len(options.ckpt) > 1:
        models["ensemble"] = load(*options.ckpt)
    return 0 if all([check(name, model, lines) for name, model in models.items()]) else 1


if __name__ == "__main__":
    sys.exit(main())
