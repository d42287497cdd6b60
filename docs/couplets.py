"""The measured tables of docs/couplets.md: python -m docs.couplets NAME=FOLDER… [examples=30] [data=FOLDER]

Each FOLDER is one of `python evaluate.py … metrics=couplet`: what that answered is a column called NAME; beside it stand the
references, copies and random lines of the first one. examples: so many lines of the first one, from the top of data/test.tsv.
"""

from tasks import cli  # isort: skip  # first: `tasks` sets what torch reads when it is loaded

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from data.errors import DuetError
from data.sources import Tsv, read_lines
from tasks.couplet_scores import shown

SETTINGS = {"examples": "30", "data": "../shared/data/couplets"}


def table(folders: dict[str, Path]) -> str:
    """Markdown, a row a figure."""
    results = {name: figures_of(folder) for name, folder in folders.items()}
    first = next(iter(results.values()))["couplet"]
    columns = {name: result["couplet"]["systems"]["answers"] for name, result in results.items()}
    columns |= {name: column for name, column in first["systems"].items() if name != "answers"}
    figures = list(first["systems"]["answers"])
    rows = [[figure, *(shown(columns[name][figure]) for name in columns)] for figure in figures]
    blank = [""] * (len(columns) - len(results))
    further = {
        "perplexity of the references": lambda result: shown(result["couplet"]["perplexity"]),
        "lines for which a rule was given up": given_up,
        "sentences a second": lambda result: f"{result['sentences_per_second']:.0f}",
    }
    rows += [[title, *map(cell, results.values()), *blank] for title, cell in further.items()]
    head = ["| | " + " | ".join(columns) + " |", "| --- |" + " ---: |" * len(columns)]
    return "\n".join([*head, *("| " + " | ".join(row) + " |" for row in rows)])


def figures_of(folder: Path) -> dict:
    """What evaluate.py has written. Raises DuetError where that is not there, or has no figures of couplets."""
    try:
        result = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DuetError(f"{folder} has no metrics.json: name a folder that evaluate.py has written") from None
    if "systems" not in result.get("couplet", {}):
        raise DuetError(f"{folder} has no figures of couplets: evaluate with metrics=couplet")
    return result


def given_up(result: dict) -> str:
    return ", ".join(f"{name} {count}" for name, count in result["given_up"].items()) or "0"


def examples(folder: Path, data: str, count: int) -> str:
    """Markdown: the first lines, as they come."""
    pairs = list(Tsv(data, "test", source_column="upper", target_column="lower"))[:count]
    answers = list(read_lines(folder / "hypotheses.txt"))
    rows = [f"| {pair.src} | {answer} | {pair.tgt} |" for pair, answer in zip(pairs, answers)]
    return "\n".join(["| 上联 | answer | reference |", "| --- | --- | --- |", *rows])


def read(words: Sequence[str]) -> tuple[dict[str, Path], dict[str, str]]:
    """Folders by name, and settings."""
    given = dict(word.partition("=")[::2] for word in words)
    folders = {name: Path(value) for name, value in given.items() if name not in SETTINGS}
    settings = SETTINGS | {name: value for name, value in given.items() if name in SETTINGS}
    if not folders or not settings["examples"].isdecimal():
        raise DuetError("give NAME=FOLDER of at least one evaluation; examples is a whole number")
    return folders, settings


def main() -> None:
    words = sys.argv[1:]
    if not cli.begin(__doc__, words or ["--help"]):
        return
    folders, settings = read(words)
    print(table(folders))
    if count := int(settings["examples"]):
        print("\n" + examples(next(iter(folders.values())), settings["data"], count))


if __name__ == "__main__":
    sys.exit(cli.run(main, "evaluate"))
