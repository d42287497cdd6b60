"""Scores a checkpoint: python evaluate.py ckpt=PATH [overrides]. conf/evaluate.yaml lists what can be set."""

from tasks import cli  # isort: skip  # first: `tasks` sets what torch reads when it is loaded

import sys
from collections.abc import Sequence
from pathlib import Path

from omegaconf import DictConfig

from tasks.build import Translator
from tasks.couplet_scores import shown
from tasks.evaluation import Outcome, Subject, configure, decode_name, draw_heatmaps, prepare, result_name, writable
from tasks.evaluation import evaluate as evaluate_subject
from tasks.lines import piped
from tasks.runs import run_of
from tasks.samples import check_places
from tasks.using import loaded


def evaluate(config: DictConfig, ckpts: Sequence[str], model: Translator) -> dict:
    """Translates and scores one split; writes metrics.json, hypotheses.txt and, if asked for, heatmaps and alignment.txt."""
    subject = prepare(config, ckpts, model)
    outcome = evaluate_subject(subject, output_folder(subject))
    draw_heatmaps(subject, config.heatmaps, outcome.out)
    report(outcome)
    return outcome.result


def output_folder(subject: Subject) -> Path:
    """Where the results go."""
    run, out = run_of(subject.ckpts[0]) if len(subject.ckpts) == 1 else None, subject.config.out
    return writable(Path(str(out)) if out is not None else (run or Path()) / "evaluate" / result_name(subject))


def report(outcome: Outcome) -> None:
    """The table."""
    result = outcome.result
    print(f"{result['split']}: {result['sentences']:,} sentences, {decode_name(result['decode'])}")
    for name, unit in {"bleu": "", "chrf": "", "ter": "", "exact_match": " %", "length_ratio": ""}.items():
        digits = 3 if name == "length_ratio" else 2
        print(f"  {name:<13}{result[name]:>8.{digits}f}{unit:<3}{result.get(name + '_signature', '')}")
    print(f"  {'seconds':<13}{result['seconds']:>8.1f}   ", end="")
    print(f"{result['sentences_per_second']:,.1f} sentences and {result['tokens_per_second']:,.0f} tokens a second")
    for line in couplet_lines(result):
        print(f"  {line}")
    for line in alignment_lines(result.get("alignment", {})):
        print(f"  {line}")
    print(f"written to {outcome.out}")


def couplet_lines(result: dict) -> list[str]:
    """How the rules of couplets are kept, beside what that has to be read against."""
    if "couplet" not in result:
        return []
    systems = result["couplet"]["systems"]
    lines = ["", f"{'couplets':<18}" + "".join(f"{name:>12}" for name in systems)]
    for figure in systems["answers"]:
        lines.append(f"{figure:<18}" + "".join(f"{shown(column[figure]):>12}" for column in systems.values()))
    given_up = ", ".join(f"{name} in {count} lines" for name, count in result["given_up"].items()) or "nothing"
    return [*lines, f"{'perplexity':<18}{result['couplet']['perplexity']:>12.2f}   of the references", f"given up: {given_up}"]


def alignment_lines(found: dict) -> list[str]:
    """The error rate of the alignment, if gold is known, and the best of a search."""
    lines = []
    if "aer" in found:
        quality = f"precision {found['precision']:.3f}, recall {found['recall']:.3f}"
        lines.append(f"{'aer':<13}{found['aer']:>8.3f}   {quality}: {where(found)}")
    for place, best in enumerate(found.get("search", [])[:5], 1):
        lines.append(f"{f'aer, {place}.':<13}{best['aer']:>8.3f}   {where(best)}")
    return lines


def where(found: dict) -> str:
    """Which layer, head and shift."""
    parts = [f"{name} {found[name]}" if found[name] is not None else f"mean of {name}s" for name in ("layer", "head")]
    return ", ".join([*parts, f"shift {found['shift']}"])


def main() -> None:
    words = cli.readable(sys.argv[1:])
    if not cli.begin(__doc__, words, "evaluate"):
        return
    model = loaded(words)
    config = configure("evaluate", words, model)
    if config.heatmaps:
        check_places(model.model, config.layers, config.heads)
    with piped():
        evaluate(config, cli.values_of("ckpt", words), model)


if __name__ == "__main__":
    sys.exit(cli.run(main, "evaluate"))
