"""Compares models on the same sentences: python -m tasks.compare PATH... [overrides]. conf/compare.yaml lists what can be set.

A PATH is the folder of a run, a folder that holds runs (of each model the newest finished one counts, with all=true every
one), or a checkpoint. Results: a table, significance tests, and a report as compare.json, compare.md and compare.html.
"""

from tasks import cli  # isort: skip  # first: `tasks` sets what torch reads when it is loaded

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from matplotlib.figure import Figure
from omegaconf import DictConfig, OmegaConf

from data.errors import DuetError
from data.files import digest, write_json, write_text
from tasks import alignment, heatmap, page, plots, runs, systems
from tasks.build import count, read_checkpoint, revive
from tasks.evaluation import (
    Outcome,
    Subject,
    configure,
    decode_name,
    evaluate,
    look,
    prepare,
    result_name,
    units_of,
    writable,
)
from tasks.hparams import leaves, settings
from tasks.lines import piped, say
from tasks.metrics import tokenizer_for
from tasks.samples import check_places


class Candidate(NamedTuple):
    """A model in a comparison."""

    entry: runs.Entry
    subject: Subject
    training: dict  # steps, best_step, minutes, train_tokens_per_second
    settings: dict

    @property
    def name(self) -> str:
        return self.entry.name


Outcomes = dict[str, Outcome]
"""By the models' names."""


def compare(candidates: Sequence[Candidate], out: Path) -> dict:
    """Evaluates all, and makes the report. Raises DuetError where they were not asked to translate the same."""
    check_same(candidates)
    config = candidates[0].subject.config
    wanted = config.baseline and candidates[runs.named(str(config.baseline), [c.entry for c in candidates])].name
    outcomes = evaluate_all(candidates, writable(out))
    ranked = sorted(candidates, key=lambda candidate: -outcomes[candidate.name].result["bleu"])
    return report_of(ranked, outcomes, wanted or ranked[0].name)


def evaluate_all(candidates: Sequence[Candidate], out: Path) -> Outcomes:
    outcomes = {}
    for candidate in candidates:
        folder, reuse = result_folder(candidate, out), candidate.subject.config.reuse
        outcomes[candidate.name] = outcome = evaluate(candidate.subject, folder, reuse=reuse, must_align=False)
        how = "translated before, nothing has changed" if outcome.reused else f"translated in {outcome.result['seconds']:.1f} s"
        say(f"{candidate.name}: BLEU {outcome.result['bleu']:.2f} ({how}: {outcome.out})")
    return outcomes


def report_of(ranked: Sequence[Candidate], outcomes: Outcomes, baseline: str) -> dict:
    """All that compare.json holds. ranked: the best first."""
    best, config = ranked[0].subject, ranked[0].subject.config
    bleu = OmegaConf.to_container(config.metrics.bleu, resolve=True)
    outputs = {candidate.name: outcomes[candidate.name].hypotheses for candidate in ranked}
    samples = {"bootstrap": config.bootstrap, "randomization": config.randomization}
    tests = systems.significance(outputs, best.references, baseline=baseline, bleu=bleu, **samples)
    return {
        "split": best.split,
        "sentences": len(best.references),
        "references": digest(best.references),
        "decode": _decode_of(ranked),
        "baseline": baseline,
        "summary": _summary(outcomes),
        "models": [_row(candidate, outcomes[candidate.name], tests) for candidate in ranked],
        "signatures": {name: outcomes[ranked[0].name].result[f"{name}_signature"] for name in ("bleu", "chrf", "ter")},
        "significance": {"tests": [test._asdict() for test in tests.tests], "signatures": tests.signatures},
        "lengths": _lengths(outputs, best, bleu),
        "curves": {candidate.name: runs.curve(candidate.entry.run) for candidate in ranked},
        "settings": differing({candidate.name: candidate.settings for candidate in ranked}),
        "examples_title": "Where the outputs differ most" if len(ranked) > 1 else "Furthest from the reference",
        "examples": systems.examples(outputs, best.sources, best.references, config.examples),
    }


def _lengths(outputs: systems.Outputs, subject: Subject, bleu: dict) -> dict:
    unit = units_of(subject, "auto")[0]
    lengths = [alignment.count_words(source, unit) for source in subject.sources]
    buckets = systems.bleu_by_length(outputs, subject.references, lengths, bleu=bleu)
    return {"unit": "words" if unit == "blank" else "characters", "buckets": buckets}


def _row(candidate: Candidate, outcome: Outcome, tests: systems.Significance) -> dict:
    """What is known of one model."""
    parameters = count(candidate.subject.model.model)
    kept = {name: value for name, value in outcome.result.items() if name not in ("split", "ckpt")}
    return {
        "name": candidate.name,
        "ckpt": str(candidate.entry.ckpt),
        "parameters": parameters,
        **candidate.training,
        "bleu_half_width": tests.half_widths[candidate.name],
        **kept,
        "hypotheses": str(outcome.out / "hypotheses.txt"),
        "reused": outcome.reused,
    }


def _summary(outcomes: Outcomes) -> str:
    speeds = "Speeds are those of when each was trained and translated"
    before = any(outcome.reused for outcome in outcomes.values())
    models = "1 model" if len(outcomes) == 1 else f"{len(outcomes)} models, best first"
    return f"{models}. {speeds}{'; reuse=false translates all again' if before else ''}."


def _decode_of(candidates: Sequence[Candidate]) -> str:
    """How the models search, in words."""
    said = []
    for candidate in candidates:
        plain = OmegaConf.to_container(candidate.subject.config.decode, resolve=True)
        options = ", ".join(f"{name} {value}" for name, value in plain.items() if name not in ("_target_", "unk"))
        said.append(f"{decode_name(candidate.subject.config.decode)} ({options})")
    if len(set(said)) == 1:
        return said[0]
    return "; ".join(f"{candidate.name}: {how}" for candidate, how in zip(candidates, said))


def differing(values: dict[str, dict]) -> dict[str, dict]:
    """setting -> model -> value, of the settings that are not the same for all."""
    keys = dict.fromkeys(key for found in values.values() for key in found)
    table = {key: {name: found[key] for name, found in values.items() if key in found} for key in keys}
    return {key: row for key, row in table.items() if len(row) < len(values) or len(set(map(str, row.values()))) > 1}


# The same sentences for all


def check_same(candidates: Sequence[Candidate]) -> None:
    """DuetError says what differs, where a comparison would not be one."""
    (first, one), *others = [(candidate.name, candidate.subject) for candidate in candidates]
    for name, other in others:
        for kind in ("references", "sources"):
            here, there = getattr(one, kind), getattr(other, kind)
            if here != there:
                raise DuetError(f"{first} and {name} cannot be compared on {one.split}: {_difference(kind, here, there)}")
        for option in ("tokenize", "lowercase"):
            here, there = (_bleu_option(subject, option) for subject in (one, other))
            if here != there:
                raise DuetError(
                    f"{first} and {name} cannot be compared: BLEU's {option} is {here} for one and {there} for the other;"
                    f" metrics.bleu.{option}=… sets it for all"
                )


def _bleu_option(subject: Subject, option: str) -> str | bool:
    value = subject.config.metrics.bleu[option]
    return tokenizer_for(subject.references, value) if option == "tokenize" else bool(value)


def _difference(kind: str, here: Sequence[str], there: Sequence[str]) -> str:
    if len(here) != len(there):
        return f"one has {len(here):,} {kind}, the other {len(there):,}"
    places = [place for place, (a, b) in enumerate(zip(here, there)) if a != b]
    a, b = here[places[0]], there[places[0]]
    shown = [repr(heatmap.shorten(text, 60)) for text in (a, b)]
    lines, hashes = f"{len(places):,} of {len(here):,} {kind} differ", [digest(texts)[:12] for texts in (here, there)]
    return f"{lines} (sha256 {hashes[0]} and {hashes[1]}), the first is line {places[0] + 1:,}: {shown[0]} and {shown[1]}"


# Files


def result_folder(candidate: Candidate, out: Path) -> Path:
    """Where a model's hypotheses go: into its run's evaluate folder, or to the report if there is none to write to."""
    entry = candidate.entry
    if entry.run is not None:
        try:
            return writable(entry.run / "evaluate" / result_name(candidate.subject))
        except (OSError, DuetError):
            pass
    return writable(out / "evaluate" / quote(entry.name, safe=" "))  # unique, as names are


def write(report: dict, candidates: Sequence[Candidate], out: Path) -> None:
    """compare.json, compare.md with its pictures, and compare.html."""
    config = candidates[0].subject.config
    pictures, files = draw(report), {}
    for title, figure in pictures.items():
        files[title] = heatmap.save(figure, out / f"{title.replace(' ', '_').lower()}.png").name
    maps = {
        example["line"]: [(candidate.name, attention(candidate, example["line"] - 1)) for candidate in candidates]
        for example in report["examples"][: config.heatmaps]
    }
    write_json(out / "compare.json", report)
    write_text(out / "compare.md", page.markdown(report, files))
    write_text(out / "compare.html", page.page(report, pictures, maps))


def draw(report: dict) -> dict[str, Figure]:
    """title -> picture."""
    pictures = {}
    if report["lengths"]["buckets"]:
        names = [model["name"] for model in report["models"]]
        pictures["BLEU by length"] = plots.by_length(report["lengths"]["buckets"], names, unit=report["lengths"]["unit"])
    if any(curve["values"] for curve in report["curves"].values()):
        pictures["Training curves"] = plots.curves(report["curves"])
    return pictures


def attention(candidate: Candidate, place: int) -> Figure | None:
    """The mean of the cross-attention (of the chosen layers and heads) of one sentence; None for a model without."""
    seen, config = look(candidate.subject, place), candidate.subject.config
    if "cross" not in seen.attention:
        return None
    weights, labels = seen.attention["cross"], seen.labels["cross"]
    return heatmap.draw(weights, *labels, layers=config.layers, heads=config.heads, mean_only=True)


# The command


def main() -> None:
    paths, words = separate(sys.argv[1:])
    if not cli.begin(__doc__, words, "compare"):
        return
    if not paths:
        raise DuetError("nothing to compare: name runs, folders of runs or checkpoints: python -m tasks.compare runs/grammar")
    entries, remarks = runs.find(paths, every=cli.value_of("all", words, "false").lower() == "true")
    candidates = [read(entry, words) for entry in entries]
    config = candidates[0].subject.config
    for remark in remarks:
        say(remark)
    out = report_folder(config, paths, candidates[0].subject.split)
    report = compare(candidates, out)
    ranks = {model["name"]: rank for rank, model in enumerate(report["models"])}
    write(report, sorted(candidates, key=lambda candidate: ranks[candidate.name]), out)
    with piped():
        print(f"\n{page.terminal(report)}\n\nwritten to {out}: compare.html, compare.md, compare.json")


def separate(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Paths, and overrides that Hydra can read. A word with `=` is a path only if something by that name is there."""
    paths = [word for word in words if not word.startswith("-") and ("=" not in word or Path(word).exists())]
    return paths, cli.readable([word for word in words if word not in paths])


def read(entry: runs.Entry, words: Sequence[str]) -> Candidate:
    """Loads a checkpoint, and reads what it is to translate."""
    checkpoint = read_checkpoint(entry.ckpt)
    model = revive(checkpoint, entry.ckpt)
    config = configure("compare", words, model)
    if config.heatmaps:
        check_places(model.model, config.layers, config.heads, kinds=("cross",), name=entry.name)
    subject = prepare(config, [entry.ckpt], model)
    return Candidate(entry, subject, runs.training(checkpoint, entry), settings_of(entry, model.config))


def settings_of(entry: runs.Entry, config: dict) -> dict:
    """By their names on the command line; a lone checkpoint knows only a part of them."""
    path = entry.run / "config.yaml" if entry.run else None
    if path and path.stat().st_size:
        try:
            return settings(OmegaConf.load(path))
        except Exception:  # damaged, in any way
            print(f"{path} cannot be read: the settings of {entry.name} are those of its checkpoint")
    return {name: value for name, value in leaves(config) if not name.startswith("data.make_")}


def report_folder(config: DictConfig, paths: Sequence[str], split: str) -> Path:
    if config.out is not None:
        return Path(str(config.out))
    only = Path(paths[0])
    of_runs = len(paths) == 1 and only.is_dir() and not (only / "checkpoints" / runs.BEST).is_file()
    part = "" if config.limit is None else f"-first_{config.limit}"
    return (only if of_runs else Path()) / "compare" / f"{split}-{decode_name(config.decode)}{part}"


if __name__ == "__main__":
    sys.exit(cli.run(main, "compare"))
