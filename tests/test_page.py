"""The report as text: nothing in it is fetched, nothing runs, and every text is text, whatever a corpus has in it."""

import re
import subprocess
import sys
from html.parser import HTMLParser

import pytest

from tasks import heatmap, page, plots
from tests import browser
from tests.runs import ROOT

EVIL = "</dd><script src=http://x.example/a.js>alert('&')</script> | `code` *star* ![i](http://x.example/i.png) \x00\ud800 好"
NAMES = ["rnn_<b>additive</b>", "transformer|tiny", "模型"]


def make_report(**changes):
    models = [
        {
            "name": name, "ckpt": f"/runs/{name}/best.ckpt", "parameters": 1234567, "steps": 900, "best_step": 700 + 100 * i,
            "minutes": 12.34 if i else None, "train_tokens_per_second": 6543.2 if i else None, "bleu": 40.0 - i,
            "bleu_half_width": 1.234, "chrf": 50.0, "ter": 60.0, "length_ratio": 0.98, "sentences_per_second": 321.5,
            "alignment": {"aer": 0.25, "precision": 0.7, "recall": 0.8, "layer": None, "head": 0, "shift": 1} if i else {},
        }
        for i, name in enumerate(NAMES)
    ]  # fmt: skip
    tests = [
        {"name": name, "metric": metric, "difference": -1.5, "p_bootstrap": 0.04, "p_randomization": 0.5}
        for name in NAMES[1:]
        for metric in ("bleu", "chrf")
    ]
    buckets = [
        {"first": n, "last": n + 4, "sentences": 20, "bleu": dict.fromkeys(NAMES, 30.0), "half_width": dict.fromkeys(NAMES, 2)}
        for n in (1, 6)
    ]
    outputs = [{"text": EVIL, "chrf": 12.3, "names": NAMES[:2]}, {"text": "", "chrf": 0.0, "names": NAMES[2:]}]
    return {
        "split": "test & <i>more</i>", "sentences": 1000, "decode": "beam (size 5)", "baseline": NAMES[0], "summary": "3",
        "models": models, "signatures": {"bleu": "nrefs:1|tok:13a", "chrf": "nc:6", "ter": "asian:no"},
        "significance": {"tests": tests, "signatures": {"bleu bootstrap": "bs:1000"}},
        "lengths": {"unit": "words", "buckets": buckets},
        "curves": {name: {"steps": [10, 20], "minutes": [1.0, 2.0], "values": [5.0, 9.0]} for name in NAMES[:2]}
        | {NAMES[2]: {"steps": [], "minutes": [], "values": []}},
        "settings": {
            "model.layers": {NAMES[0]: 2, NAMES[1]: "<b>"},
            "model.window": {NAMES[0]: None, NAMES[1]: True, NAMES[2]: 0.5},
        }, "examples_title": "Where the outputs differ most",
        "examples": [{"line": 7, "source": EVIL, "reference": "gut", "spread": 12.3, "outputs": outputs}],
    } | changes  # fmt: skip


def make_page(report):
    pictures = {"BLEU by length": plots.by_length(report["lengths"]["buckets"], NAMES, unit="words")}
    pictures["Training curves"] = plots.curves(report["curves"])
    map_ = heatmap.draw([[[[0.5, 0.5]]]], ["a"], ["b", "c"], mean_only=True)
    return page.page(report, pictures, {7: [(NAMES[0], map_), (NAMES[1], None)]})


VOID = {"meta", "link", "img", "br", "hr"}
ALLOWED = {"src": re.compile(r"data:image/png;base64,[A-Za-z0-9+/=]+"), "href": re.compile(r"data:,")}


class Strict(HTMLParser):
    """Fails on tags that do not nest; collects attributes that fetch, elements and text."""

    def __init__(self):
        super().__init__()
        self.open, self.fetched, self.tags, self.styles, self.text = [], [], [], [], []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        names = [name for name, _ in attributes]
        assert len(set(names)) == len(names), (tag, names)
        for name, value in attributes:
            assert not name.startswith("on"), (tag, name)
            if name in ("src", "href", "srcset", "data", "action", "poster", "background", "style"):
                self.fetched.append((name, value))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open and self.open.pop() == tag, f"</{tag}> in {self.open}"

    def handle_data(self, data):
        (self.styles if self.open and self.open[-1] == "style" else self.text).append(data)


@pytest.fixture(scope="module")
def parsed():
    strict = Strict()
    strict.feed(make_page(make_report()))
    strict.close()
    return strict


def test_the_page_nests_and_fetches_nothing(parsed):
    assert parsed.open == []
    for name, value in parsed.fetched:
        assert ALLOWED[name].fullmatch(value), (name, value[:80])
    assert [name for name, _ in parsed.fetched].count("src") == 3  # two plots and a heatmap
    assert not {"script", "iframe", "object", "embed", "form", "base", "b", "i"} & set(parsed.tags)
    assert not re.search(r"url\(|@import|expression", "".join(parsed.styles))


def test_texts_stand_as_they_are(parsed):
    text = "".join(parsed.text)
    evil = EVIL.replace("\x00", "\ufffd").replace("\ud800", "\ufffd")
    for part in (*NAMES, "test & <i>more</i>", evil, "no attention to show"):
        assert part in text, part


def test_what_is_not_there_is_left_out():
    bare = make_report(settings={}, examples=[], significance={"tests": [], "signatures": {"bleu bootstrap": "bs"}})
    bare["lengths"]["buckets"], bare["models"] = [], [bare["models"][0]]
    titles = ("Significance", "Settings that differ", "Where the outputs differ most", "Word alignment", "by source length")
    for text in (page.page(bare, {}, {}), page.markdown(bare, {}), page.terminal(bare)):
        assert not [title for title in titles if title in text]


def test_the_tables():
    report = make_report()
    first, second, _ = page.scores_table(report)[1:]
    assert first == [NAMES[0], "1,234,567", "900 (best 700)", "–", "–", "40.00 ± 1.23", "50.00", "60.00", "0.980", "321.5", "–"]
    assert second[2:5] == ["900 (best 800)", "12.3", "6,543"] and second[-1] == "0.250"
    assert page.tests_table(report)[1] == [NAMES[1], "-1.50", "0.0400*", "0.5000", "-1.50", "0.0400*", "0.5000"]
    assert page.alignment_table(report)[1] == [NAMES[1], "0.250", "0.700", "0.800", "mean", "0", "1", "as asked for"]
    assert page.lengths_table(report)[2] == [NAMES[0], "30.0 ± 2.0", "30.0 ± 2.0"]
    assert page.settings_table(report)[1:] == [["model.layers", "2", "<b>", "–"], ["model.window", "null", "true", "0.5"]]
    assert "0.025 is the careful bound" in page.explanation(report) and NAMES[0] in page.explanation(report)


def test_columns_of_the_terminal_are_level():
    lines = page.plain(page.scores_table(make_report())).splitlines()
    assert len({heatmap.cells(line) for line in lines}) == 1
    assert page.terminal(make_report()).count("\n\n") >= 4


def test_markdown_keeps_its_tables_whole():
    text = page.markdown(make_report(), {"Training curves": "training_curves.png"})
    for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        counts = {len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}
        assert len(counts) == 1, table
    assert "![Training curves](training_curves.png)" in text and "\\<b\\>" in text
    fenced = re.search(r"^(`{3,})text\n(.*?)^\1$", text, re.DOTALL | re.MULTILINE)
    assert "`code`" in fenced[2] and EVIL[:20] in fenced[2]


def test_a_fence_is_longer_than_what_it_holds():
    report = make_report()
    report["examples"][0]["source"] = "````\nx"
    assert "`````text" in page.markdown(report, {})


def test_curves_of_any_length_are_inside_the_picture():
    found = {str(n): {"steps": [n, 10 * n], "minutes": [n, 20 * n], "values": [1.0, 2.0]} for n in (1, 5, 3)}
    steps, minutes = plots.curves(found).axes
    assert steps.get_xlim()[0] == minutes.get_xlim()[0] == 0 and steps.get_xlim()[1] > 50 and minutes.get_xlim()[1] > 100


@pytest.mark.parametrize("number", [1, 3, 9, 16])
def test_names_hide_nothing_however_many(number):
    names = [f"a_model_{n}" for n in range(number)]
    scores = {"bleu": dict.fromkeys(names, 50.0), "half_width": dict.fromkeys(names, 1.0)}
    buckets = [{"first": n, "last": n, "sentences": 9, **scores} for n in (1, 2)]
    curve = {"steps": [1, 2], "minutes": [1, 2], "values": [1.0, 2.0]}
    for figure in (plots.by_length(buckets, names, unit="words"), plots.curves(dict.fromkeys(names, curve))):
        figure.canvas.draw()
        (legend,) = figure.legends
        box = legend.get_window_extent()
        assert [text.get_text() for text in legend.get_texts()] == names
        assert not any(box.overlaps(axes.get_window_extent()) for axes in figure.axes)
        assert box.x0 >= 0 and box.x1 <= figure.bbox.x1 and box.y0 >= 0 and box.y1 <= figure.bbox.y1


def test_many_names_have_many_looks():
    styles = [tuple(sorted((k, str(v)) for k, v in plots._style(place).items())) for place in range(24)]
    assert len(set(styles)) == 24


def test_what_drives_a_browser_is_imported_where_a_page_is_opened():
    code = "import sys; from tests import browser; browser.browser(); print(sorted({'PIL', 'playwright'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_browser_finds_nothing_to_complain_of(tmp_path, chromium):
    path = tmp_path / "compare.html"
    path.write_text(make_page(make_report()), encoding="utf-8")
    seen = browser.visit(path, picture=tmp_path / "page.png", dark=True)
    assert seen == browser.Visit([], [], "test & <i>more</i>: 1,000 sentences, beam (size 5)")
    assert (tmp_path / "page.png").stat().st_size > 10_000


def test_the_browser_would_tell(tmp_path, chromium):
    """That nothing is found means something only if something would be."""
    path = tmp_path / "bad.html"
    path.write_text("<title>x</title><img src='there.png'><script>console.error('no'); nothing()</script>")
    seen = browser.visit(path)
    assert any(url.endswith("there.png") for url in seen.requests)
    assert "no" in seen.complaints and len(seen.complaints) >= 2
