"""A comparison as text: for the terminal, as Markdown, and as one HTML page that needs nothing else.

All three are made of the same tables; a table is a list of rows of text, the first of them the heading.
"""

import base64
import html
import io
import re
from collections.abc import Iterator, Mapping, Sequence

from matplotlib.figure import Figure
from PIL import Image

from tasks.heatmap import DPI, cells, to_array
from tasks.hparams import written

Table = list[list[str]]

NONE = "–"


# Tables


def scores_table(report: Mapping) -> Table:
    """One row a model, best first."""
    aligned = any("aer" in model.get("alignment", {}) for model in report["models"])
    training = ["parameters", "steps", "minutes", "train tokens/s"]
    rows = [["model", *training, "BLEU", "chrF", "TER", "length ratio", "sentences/s", *["AER"] * aligned]]
    for model in report["models"]:
        row = [
            model["name"],
            f"{model['parameters']:,}",
            _steps(model),
            _number(model["minutes"], 1),
            _number(model["train_tokens_per_second"], 0),
            f"{model['bleu']:.2f} ± {model['bleu_half_width']:.2f}",
            f"{model['chrf']:.2f}",
            f"{model['ter']:.2f}",
            f"{model['length_ratio']:.3f}",
            f"{model['sentences_per_second']:,.1f}",
        ]
        rows.append(row + [_number(model.get("alignment", {}).get("aer"), 3)] * aligned)
    return rows


def _steps(model: Mapping) -> str:
    best = model["best_step"]
    return _number(model["steps"], 0) + (f" (best {best:,})" if best not in (None, 0, model["steps"]) else "")


def _number(value: float | None, digits: int) -> str:
    return NONE if value is None else f"{value:,.{digits}f}"


def tests_table(report: Mapping) -> Table:
    """One row a model other than the baseline; * marks p-values below 0.05."""
    found: dict[str, dict[str, Mapping]] = {}
    for test in report["significance"]["tests"]:
        found.setdefault(test["name"], {})[test["metric"]] = test
    heading = ["against " + report["baseline"]]
    for metric in ("BLEU", "chrF"):
        heading += [f"Δ {metric}", "p bootstrap", "p randomization"]
    rows = [heading]
    for name, tests in found.items():
        row = [name]
        for metric in ("bleu", "chrf"):
            test = tests[metric]
            row += [f"{test['difference']:+.2f}", _p(test["p_bootstrap"]), _p(test["p_randomization"])]
        rows.append(row)
    return rows


def _p(value: float) -> str:
    return f"{value:.4f}{'*' if value < 0.05 else ''}"


def lengths_table(report: Mapping) -> Table:
    """BLEU by source length, one row a model."""
    buckets = report["lengths"]["buckets"]
    rows = [[report["lengths"]["unit"], *(f"{bucket['first']}–{bucket['last']}" for bucket in buckets)]]
    rows.append(["sentences", *(f"{bucket['sentences']:,}" for bucket in buckets)])
    for model in report["models"]:
        name = model["name"]
        rows.append([name, *(f"{bucket['bleu'][name]:.1f} ± {bucket['half_width'][name]:.1f}" for bucket in buckets)])
    return rows


def alignment_table(report: Mapping) -> Table:
    """The error rate as it was asked for and, after a search, the best there is; no row for a model without attention."""
    rows = [["model", "AER", "precision", "recall", "layer", "head", "shift", "picked"]]
    for model in report["models"]:
        found = model.get("alignment", {})
        choices = [("as asked for", found)] if "aer" in found else []
        choices += [("best of all", found["search"][0])] if found.get("search") else []
        for how, choice in choices:
            quality = [f"{choice[name]:.3f}" for name in ("aer", "precision", "recall")]
            place = ["mean" if choice[name] is None else str(choice[name]) for name in ("layer", "head")]
            rows.append([model["name"], *quality, *place, str(choice["shift"]), how])
    return rows


def settings_table(report: Mapping) -> Table:
    """The settings that are not the same for all, one column a model."""
    names = [model["name"] for model in report["models"]]
    rows = [["setting", *names]]
    return rows + [[key, *(written(values.get(name, NONE)) for name in names)] for key, values in report["settings"].items()]


def explanation(report: Mapping) -> str:
    """What the p-values mean."""
    count = len({test["name"] for test in report["significance"]["tests"]})
    line = (
        f"p is how often two equally good models would differ by more than this by chance; * marks p < 0.05, below which a"
        f" difference from {report['baseline']} is usually called significant"
    )
    return line + (f" (with {count} comparisons, {0.05 / count:.3g} is the careful bound)." if count > 1 else ".")


def heading(report: Mapping) -> str:
    return f"{report['split']}: {report['sentences']:,} sentences, {report['decode']}"


def signatures(report: Mapping) -> list[tuple[str, str]]:
    """What is measured, and sacreBLEU's signature of it."""
    titles = {"bleu": "BLEU", "chrf": "chrF", "ter": "TER"}
    found = [(titles[name], signature) for name, signature in report["signatures"].items()]
    tests = report["significance"]["signatures"] if report["significance"]["tests"] else {}
    return found + [(f"{titles[name.partition(' ')[0]]}, {name.partition(' ')[2]}", value) for name, value in tests.items()]


# For the terminal


def plain(table: Table) -> str:
    """Columns side by side: the first to the left, the others to the right."""
    widths = [max(cells(row[i]) for row in table) for i in range(len(table[0]))]
    lines = ([_padded(text, width, left=i == 0) for i, (text, width) in enumerate(zip(row, widths))] for row in table)
    return "\n".join("  ".join(line).rstrip() for line in lines)


def _padded(text: str, width: int, *, left: bool) -> str:
    blanks = " " * (width - cells(text))
    return text + blanks if left else blanks + text


def terminal(report: Mapping) -> str:
    parts = [heading(report), plain(scores_table(report))]
    parts.append("\n".join(f"{name + ':':<22}{signature}" for name, signature in signatures(report)))
    if report["significance"]["tests"]:
        parts += [plain(tests_table(report)), explanation(report)]
    if report["lengths"]["buckets"]:
        parts.append("BLEU by source length\n" + plain(lengths_table(report)))
    if len(found := alignment_table(report)) > 1:
        parts.append("word alignment\n" + plain(found))
    return "\n\n".join(parts)


# Markdown


def markdown(report: Mapping, pictures: Mapping[str, str]) -> str:
    """pictures: title -> file, beside the page."""
    parts = [f"# {_mark(heading(report))}", _mark_table(scores_table(report))]
    parts.append("\n".join(f"- {name}: `{signature}`" for name, signature in signatures(report)))
    if report["significance"]["tests"]:
        parts += ["## Significance", _mark_table(tests_table(report)), _mark(explanation(report))]
    if report["lengths"]["buckets"]:
        parts += ["## BLEU by source length", _mark_table(lengths_table(report))]
    parts += [f"![{_mark(title)}]({file})" for title, file in pictures.items()]
    if len(found := alignment_table(report)) > 1:
        parts += ["## Word alignment", _mark_table(found)]
    if report["settings"]:
        parts += ["## Settings that differ", _mark_table(settings_table(report))]
    if report["examples"]:
        parts.append(f"## {_mark(report['examples_title'])}")
        parts += [_mark_example(example) for example in report["examples"]]
    parts += ["## Checkpoints", "\n".join(f"- {_mark(model['name'])}: {_code(model['ckpt'])}" for model in report["models"])]
    return "\n\n".join(parts) + "\n"


def _mark(text: str) -> str:
    """Text that Markdown takes for text."""
    return re.sub(r"([\\`*_{}\[\]<>#|~&!])", r"\\\1", " ".join(text.split()))


def _code(text: str) -> str:
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return f"{fence} {text} {fence}" if "`" in text else f"`{text}`"


def _mark_table(table: Table) -> str:
    lines = ["| " + " | ".join(map(_mark, row)) + " |" for row in table]
    return "\n".join([lines[0], "| --- |" + " ---: |" * (len(table[0]) - 1), *lines[1:]])


def _mark_example(example: Mapping) -> str:
    """Text as it is, in a fence that it does not hold."""
    lines = [("source", example["source"]), ("reference", example["reference"])]
    lines += [(f"{', '.join(output['names'])} ({output['chrf']:.0f})", output["text"]) for output in example["outputs"]]
    width = max(cells(name) for name, _ in lines)
    body = "\n".join(f"{_padded(name, width, left=True)}  {text}" for name, text in lines)
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", body)), default=0))
    return f"Line {example['line']:,}\n\n{fence}text\n{body}\n{fence}"


# HTML

STYLE = """
:root { color-scheme: light dark }
:root { --ink: #1d2329; --soft: #5b6670; --line: #dde2e6; --page: #fbfbfa; --card: #fff; --mark: #fff3c9 }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e7ea; --soft: #9aa5af; --line: #343b42; --page: #14181c; --card: #1b2025; --mark: #3a3315 }
}
* { box-sizing: border-box }
body { margin: 0; background: var(--page); color: var(--ink); font: 15px/1.5 system-ui, "Segoe UI", "Noto Sans", sans-serif }
main { max-width: 76rem; margin: 0 auto; padding: 2rem 1.25rem 4rem }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 .25rem }
h2 { font-size: 1.15rem; margin: 2.75rem 0 .75rem }
p, figcaption, summary, .soft { color: var(--soft) }
.wide { overflow-x: auto; border: 1px solid var(--line); border-radius: 8px; background: var(--card) }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums }
th, td { padding: .45rem .65rem; text-align: right; border-bottom: 1px solid var(--line) }
td, tbody th { white-space: nowrap }
th { font-weight: 600; font-size: .82rem; color: var(--soft) }
th:first-child, td:first-child { text-align: left }
tbody th { font-size: 1em; color: var(--ink) }
tr:last-child > * { border-bottom: 0 }
.best > * { background: var(--mark) }
code { font: .85em ui-monospace, "DejaVu Sans Mono", monospace; overflow-wrap: anywhere }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .15rem 1rem; margin: .75rem 0; color: var(--soft) }
dd { margin: 0 }
figure { margin: 0 }
img { display: block; max-width: 100%; height: auto; background: #ffffff; border-radius: 8px; border: 1px solid var(--line) }
.pictures { display: grid; gap: 1rem }
.example { border: 1px solid var(--line); border-radius: 8px; background: var(--card); padding: .9rem 1rem; margin: 0 0 1rem }
.example dl { margin: .3rem 0 0; color: var(--ink) }
.example dt { color: var(--soft); max-width: 22rem; overflow-wrap: anywhere }
.example dd { overflow-wrap: anywhere }
.example .gold { border-bottom: 1px solid var(--line); padding-bottom: .3rem }
.maps { display: grid; grid-template-columns: repeat(auto-fit, minmax(17rem, 1fr)); gap: 1rem; margin-top: .9rem }
.maps figcaption { font-size: .85rem; margin-bottom: .25rem; overflow-wrap: anywhere }
.maps img { max-height: 26rem }
details { margin-top: 1rem }
summary { cursor: pointer; margin-bottom: .5rem }
"""

# Nothing may be fetched and nothing may run, whatever a corpus has in it. (A page without an icon makes a browser ask for one.)
HEAD = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<link rel="icon" href="data:,">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<main>
"""


Heatmaps = Mapping[int, Sequence[tuple[str, Figure | None]]]
"""Line of an example -> for each model its name and the heatmap, or None where it has no attention."""


def page(report: Mapping, pictures: Mapping[str, Figure], heatmaps: Heatmaps) -> str:
    """One file with everything in it."""
    title = _text(heading(report))
    body = "\n".join(_body(report, title, pictures, heatmaps))
    return HEAD.format(title=title, style=STYLE) + body + "\n</main>\n</body>\n</html>\n"


def _body(report: Mapping, title: str, pictures: Mapping[str, Figure], heatmaps: Heatmaps) -> Iterator[str]:
    yield f"<h1>{title}</h1>"
    yield f"<p>{_text(report['summary'])}</p>"
    yield _html_table(scores_table(report), best=True)
    terms = [f"<dt>{_text(name)}</dt><dd><code>{_text(value)}</code></dd>" for name, value in signatures(report)]
    yield f"<dl>{''.join(terms)}</dl>"
    if report["significance"]["tests"]:
        yield "<h2>Significance</h2>" + _html_table(tests_table(report)) + f"<p>{_text(explanation(report))}</p>"
    if pictures:
        shown = "".join(f"<figure>{_image(figure, name)}</figure>" for name, figure in pictures.items())
        yield f'<h2>Length and training</h2><div class="pictures">{shown}</div>'
    if report["lengths"]["buckets"]:
        numbers = _html_table(lengths_table(report))
        yield f"<details><summary>BLEU by source length, as numbers</summary>{numbers}</details>"
    if len(found := alignment_table(report)) > 1:
        yield "<h2>Word alignment</h2>" + _html_table(found)
    if report["examples"]:
        yield f"<h2>{_text(report['examples_title'])}</h2>"
        yield from (_html_example(example, heatmaps.get(example["line"], [])) for example in report["examples"])
    if report["settings"]:
        yield "<h2>Settings that differ</h2>" + _html_table(settings_table(report))
    rows = [["model", "checkpoint"], *([model["name"], model["ckpt"]] for model in report["models"])]
    yield "<h2>Checkpoints</h2>" + _html_table(rows)


def _text(text: str) -> str:
    """Text that HTML takes for text; what is no character there becomes �."""
    return html.escape(re.sub("[\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f\\x7f\\ud800-\\udfff]", "\ufffd", text))


def _html_table(table: Table, *, best: bool = False) -> str:
    """best: marks the first row."""
    head = "".join(f'<th scope="col">{_text(text)}</th>' for text in table[0])
    rows = []
    for place, (first, *others) in enumerate(table[1:]):
        mark = ' class="best"' if best and place == 0 and len(table) > 2 else ""
        row = "".join(f"<td>{_text(text)}</td>" for text in others)
        rows.append(f'<tr{mark}><th scope="row">{_text(first)}</th>{row}</tr>')
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>'


def _html_example(example: Mapping, heatmaps: Sequence) -> str:
    lines = [("source", example["source"], ""), ("reference", example["reference"], ' class="gold"')]
    lines += [(f"{', '.join(output['names'])} ({output['chrf']:.0f})", output["text"], "") for output in example["outputs"]]
    rows = "".join(
        f'<dt{mark}>{_text(name)}</dt><dd dir="auto"{mark}>{_text(text) or "&nbsp;"}</dd>' for name, text, mark in lines
    )
    maps = "".join(_html_map(name, figure) for name, figure in heatmaps)
    maps = f'<div class="maps">{maps}</div>' if maps else ""
    return f'<section class="example"><div class="soft">line {example["line"]:,}</div><dl>{rows}</dl>{maps}</section>'


def _html_map(name: str, figure: Figure | None) -> str:
    picture = "<p>no attention to show</p>" if figure is None else _image(figure, f"cross-attention of {name}")
    return f"<figure><figcaption>{_text(name)}</figcaption>{picture}</figure>"


def _image(figure: Figure, title: str) -> str:
    """The picture inside the page."""
    pixels, buffer = to_array(figure), io.BytesIO()
    Image.fromarray(pixels).quantize(128).save(buffer, "png", optimize=True)
    data = base64.b64encode(buffer.getvalue()).decode("ascii")
    height, width = (round(side * 96 / DPI) for side in pixels.shape[:2])  # a browser has 96 pixels an inch
    size = f'width="{width}" height="{height}"'
    return f'<img alt="{_text(title)}" {size} src="data:image/png;base64,{data}">'
