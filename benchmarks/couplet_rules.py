"""What the rules of couplets give to lines that no model wrote: python benchmarks/couplet_rules.py [FOLDER]

How many characters of a corpus have which tone, how many references keep the rules of tones, and the scores of
`tasks.couplet_scores` for the references, for copies of the upper lines and for random lower lines of the training split, by
both systems of tones. FOLDER has valid.tsv and train.tsv with the columns upper and lower. docs/couplets.md has the tables.
"""

# ruff: noqa: E402  imports come after sys.path
import argparse
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from data.sources import Tsv
from data.tones import EVEN, SYSTEMS, Tone, Tones, is_mark
from tasks.couplet_scores import baselines, shown

Pairs = list[tuple[str, str]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", default=ROOT.parent / "shared" / "data" / "couplets", help="of the corpus")
    parser.add_argument("--split", default="valid", help="whose references are scored")
    parser.add_argument("--seed", type=int, default=1, help="of the random lines")
    options = parser.parse_args()
    pairs, training = read(options.folder, options.split), read(options.folder, "train")
    systems = {name: Tones(name) for name in SYSTEMS}
    print_table("of 100 characters", {name: kinds(pairs, tones) for name, tones in systems.items()})
    print_table("of 100 references", {name: kept(pairs, tones) for name, tones in systems.items()})
    uppers, references, lowers = [u for u, _ in pairs], [lower for _, lower in pairs], [lower for _, lower in training]
    for name, tones in systems.items():
        print_table(f"{options.split}, {name}", baselines(uppers, references, lowers, tones, seed=options.seed))


def read(folder: str, split: str) -> Pairs:
    return [tuple(pair) for pair in Tsv(folder, split, source_column="upper", target_column="lower") if pair.src]


def kinds(pairs: Pairs, tones: Tones) -> dict[str, float]:
    """Characters by the kind of tone that they have, in percent."""
    counts = Counter(
        tones(character).name.lower() for pair in pairs for line in pair for character in line if not is_mark(character)
    )
    return {tone.lower(): 100 * counts[tone.lower()] / counts.total() for tone in Tone.__members__}


def kept(pairs: Pairs, tones: Tones) -> dict[str, float]:
    """Pairs without clauses that keep each rule, of those that are long enough for it, in percent."""
    counts, held = Counter(), Counter()
    for pair in pairs:
        if not any(map(is_mark, "".join(pair))) and len(pair[0]) == len(pair[1]):
            rules = rules_of(*pair, tones)
            counts.update(rules.keys())
            held.update(name for name, holds in rules.items() if holds)
    return {name: 100 * held[name] / count for name, count in counts.items()}


def rules_of(upper: str, lower: str, tones: Tones) -> dict[str, bool]:
    rules = {
        "upper line ends oblique": tones(upper[-1]).may_be(Tone.OBLIQUE),
        "lower line ends level": tones(lower[-1]).may_be(Tone.LEVEL),
    }
    for place in (place for place in EVEN if place <= len(upper)):
        rules[f"contrast at place {place}"] = tones(upper[place - 1]).may_contrast(tones(lower[place - 1]))
    return {"all that follow": all(rules.values()), **rules}


def print_table(title: str, columns: dict[str, dict]) -> None:
    """Markdown: a column a system."""
    print(f"\n| {title} | {' | '.join(columns)} |\n| --- |{' ---: |' * len(columns)}")
    for row in next(iter(columns.values())):
        print(f"| {row} | {' | '.join(shown(column[row]) for column in columns.values())} |")



if __name__ == "__main__":
    main()
