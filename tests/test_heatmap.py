import os
import threading
import warnings

import matplotlib
import numpy as np
import pytest
import torch
from fontTools.fontBuilder import FontBuilder
from fontTools.pens.ttGlyphPen import TTGlyphPen
from fontTools.ttLib import TTFont
from fontTools.ttLib.ttCollection import TTCollection
from matplotlib import font_manager, style
from PIL import Image

from tasks import heatmap
from tasks.heatmap import cells, draw, font_for, label, missing_glyphs, save, shorten, terminal, to_array

GERMAN = ["▁Ein", "▁kleines", "▁Mädchen", "▁klettert", "▁in", "▁ein", "▁Spiel", "haus", "▁aus", "▁Holz", ".", "</s>"]
ENGLISH = ["▁A", "▁little", "▁girl", "▁climb", "ing", "▁into", "▁a", "▁wooden", "▁play", "house", ".", "</s>"]
UPPER, LOWER = [*"晚风摇树树还挺", "</s>"], [*"晨露润花花更红", "</s>"]
STRANGE = ["<s>", "$", "$x_1$", "\\frac{1}", "\t", "a\u200bb", "\u0301", "", "▁", "日本語", "▁我们的", "한국어", "🦜", "\x1b[m"]
LONG = [f"▁Donaudampfschifffahrtsgesellschaft{number}" for number in range(60)]


def attention(layers, heads, rows, columns):
    generator = torch.Generator().manual_seed(0)
    return torch.randn(layers, heads, rows, columns, generator=generator).mul(3).softmax(-1)


def picture(rows, columns, layers=1, heads=1, **options):
    return draw(attention(layers, heads, len(rows), len(columns)), rows, columns, **options)


def texts(figure):
    """Every text that is drawn: title, headings, labels, numbers at the colour bar."""
    panels = [text for axes in figure.axes for text in axes.texts]
    return [text for text in [*figure.texts, *panels, *figure.axes[-1].get_yticklabels()] if text.get_text()]


def labels(axes):
    """Row labels, column labels; Chinese that runs downwards joined again."""
    rows = [text.get_text() for text in axes.texts if text.get_position()[0] < -0.5]
    columns = [text.get_text().replace("\n", "") for text in axes.texts if text.get_position()[1] < -0.5]
    return rows, columns


@pytest.fixture
def fonts(monkeypatch):
    """A font search that knows nothing yet; what it adds to matplotlib is taken back."""
    monkeypatch.setattr(heatmap, "_FONTS", heatmap._Fonts())
    monkeypatch.setattr(font_manager.fontManager, "ttflist", list(font_manager.fontManager.ttflist))
    heatmap._characters.cache_clear()
    yield monkeypatch
    monkeypatch.undo()
    heatmap._characters.cache_clear()
    font_manager.fontManager._findfont_cached.cache_clear()


@pytest.fixture
def no_system_fonts(fonts):
    """A machine with matplotlib's own fonts only."""
    own = [entry for entry in font_manager.fontManager.ttflist if entry.name.startswith("DejaVu")]
    fonts.setattr(font_manager.fontManager, "ttflist", own)
    return fonts


# Labels ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("token", "expected"),
    [
        ("▁das", "␣das"),
        ("haus", "haus"),
        ("</s>", "</s>"),
        ("<0x0A>", "<0x0A>"),
        ("$x$", "$x$"),
        (" ", "␣"),
        ("", "∅"),
        ("\n", "\\n"),
        ("\t", "\\t"),
        ("\x1b[31m", "U+001B[31m"),
        ("a\u200bb", "aU+200Bb"),
        ("\u00a0", "U+00A0"),
        ("\u3000", "U+3000"),
        ("\u2028", "U+2028"),
        ("\u202e", "U+202E"),
        ("\ufe0f", "U+FE0F"),
        ("\ud800", "U+D800"),
        ("\u0301", "◌\u0301"),
        ("春风", "春风"),
        ("Donaudampfschifffahrt", "Donaudampfschif…"),
        ("春" * 9, "春" * 7 + "…"),
        ("a" + "\u0301" * 1000, "a" + "\u0301" * 63 + "…"),
    ],
)
def test_label(token, expected):
    assert label(token) == expected


@pytest.mark.parametrize(
    ("text", "width"), [("", 0), ("das", 3), ("春风", 4), ("，", 2), ("ｱ", 1), ("e\u0301", 1), ("…", 1), ("😀", 2), ("한", 2)]
)
def test_cells(text, width):
    assert cells(text) == width


@pytest.mark.parametrize("longest", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("text", ["", "a", "ab", "春", "春风", "a春b风c", "abcdefghijkl"])
def test_a_short_text_stays_and_a_long_one_ends_with_an_ellipsis(text, longest):
    short = shorten(text, longest)
    assert cells(short) <= longest
    assert short == text or (cells(text) > longest and short.endswith("…") and text.startswith(short[:-1]))


# Fonts ----------------------------------------------------------------------------------------------------------------


def test_plain_text_needs_only_the_default_font(fonts):
    assert font_for("Mädchen ␣ … $ → ∅").get_family() == ["DejaVu Sans"]


def test_missing_glyphs_reads_the_font():
    assert missing_glyphs(["Haus", "春", "风a"], ["DejaVu Sans"]) == {"春", "风"}
    assert missing_glyphs(["a"], ["no such family"]) == {"a"}


def test_chinese_has_a_font():
    text = "晚风摇树树还挺晨露润花花更红，。、《》？！的说门见车东龙书鸟骨直"
    font = font_for(text)
    assert font.get_family()[0] == "DejaVu Sans" and not missing_glyphs([text], font)
    assert font_for("plain").get_family() == ["DejaVu Sans"]


def test_chinese_comes_from_the_package_where_the_system_has_none(no_system_fonts):
    assert heatmap._packaged_fonts(), "the dev extra installs cvttf-notosanscjk-regular"
    font = font_for("春风 and text")
    assert len(font.get_family()) == 2 and not missing_glyphs("春风 and text", font)


def test_a_chinese_picture_has_no_missing_glyph():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure = picture([*LOWER, "，"], [*UPPER, "说"], 2, 2, title="上联 → 下联")
        pixels = to_array(figure)
    assert pixels.std() > 0
    for text in texts(figure):
        assert not missing_glyphs([text.get_text().replace("\n", "")], text.get_fontproperties()), text.get_text()
    assert labels(figure.axes[0]) == ([*LOWER, "，"], [*UPPER, "说"])


def test_different_characters_look_different():
    first, second, again = (to_array(picture([char], ["a"])) for char in "风雨风")
    assert not np.array_equal(first, second) and np.array_equal(first, again)


def test_without_a_chinese_font_it_warns_once_and_shows_code_points(no_system_fonts):
    no_system_fonts.setattr(heatmap, "_packaged_fonts", list)
    with pytest.warns(UserWarning, match=r"pip install -e .\[couplets\].*fonts-noto-cjk") as caught:
        figure = picture(["春", "a"], ["风", "b"])
        to_array(figure)
        to_array(picture(["雨", "春"], ["b", "c"]))
    assert len(caught) == 1
    assert labels(figure.axes[0]) == (["U+6625", "a"], ["U+98CE", "b"])


def test_the_search_runs_once(fonts):
    font_for("春风")
    fonts.setattr(heatmap, "_best_family", lambda missing: pytest.fail(f"searched again for {missing}"))
    assert len(font_for("春风雨雪").get_family()) == 2


def tiny_font(path, family, characters, *, boxes=False):
    """A font in which each character is a square of its own size, or with `boxes` all are the same square."""
    names = [".notdef", *(f"g{number}" for number in range(1 if boxes else len(characters)))]
    font = FontBuilder(1000, isTTF=True)
    font.setupGlyphOrder(names)
    font.setupCharacterMap({ord(char): names[1 if boxes else 1 + place] for place, char in enumerate(characters)})
    font.setupGlyf({name: square(100 + 10 * place) for place, name in enumerate(names)})
    font.setupHorizontalMetrics({name: (1000, 0) for name in names})
    font.setupHorizontalHeader(ascent=800, descent=-200)
    font.setupNameTable({"familyName": family, "styleName": "Regular"})
    font.setupOS2()
    font.setupPost()
    font.save(path)
    return path


def square(side):
    pen = TTGlyphPen(None)
    pen.moveTo((0, 0))
    for point in [(0, side), (side, side), (side, 0)]:
        pen.lineTo(point)
    pen.closePath()
    return pen.glyph()


def test_a_font_of_boxes_or_of_kanji_is_not_taken_for_chinese(no_system_fonts, tmp_path):
    boxes = tiny_font(tmp_path / "boxes.ttf", "Boxes SC", heatmap.PROBE + "春风雨雪", boxes=True)
    kanji = tiny_font(tmp_path / "kanji.ttf", "Kanji", "春雨雪的一是不了人我在有")
    for path in (boxes, kanji):
        font_manager.fontManager.addfont(path)
    families = font_for("春雨雪").get_family()
    assert len(families) == 2 and not {"Boxes SC", "Kanji"} & set(families)


def test_simplified_is_preferred_among_equals(no_system_fonts, tmp_path):
    for family in ("Some JP", "Some SC", "Some TC", "Some Mono SC"):
        font_manager.fontManager.addfont(tiny_font(tmp_path / f"{family}.ttf", family, heatmap.PROBE + "春"))
    assert font_for("春").get_family() == ["DejaVu Sans", "Some SC"]


@pytest.mark.skipif(not hasattr(font_manager, "FontPath"), reason="matplotlib before 3.11 opens only the first face")
def test_a_face_inside_a_collection_is_found_and_drawn(fonts, tmp_path):
    rare = "\U0010fff0"  # private use: in no font
    parts = [tiny_font(tmp_path / "a.ttf", "Face A", "ab"), tiny_font(tmp_path / "b.ttf", "Face B", "ab" + rare)]
    collection = TTCollection()
    collection.fonts = [TTFont(part) for part in parts]
    collection.save(tmp_path / "both.ttc")
    font_manager.fontManager.addfont(tmp_path / "both.ttc")
    assert font_for(rare).get_family() == ["DejaVu Sans", "Face B"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        to_array(picture([rare], ["a"]))


# The picture ----------------------------------------------------------------------------------------------------------

SHAPES = [
    (["</s>"], ["</s>"], 1, 1),
    (["</s>"], ENGLISH * 3, 1, 1),
    (GERMAN, ENGLISH, 4, 4),
    (GERMAN[:9], ENGLISH, 1, 1),
    (GERMAN[:3], ENGLISH[:2], 1, 7),
    (GERMAN[:5], ENGLISH * 3, 3, 8),
    (GERMAN * 3, ENGLISH[:2], 2, 3),
    (LOWER, UPPER, 4, 4),
    (STRANGE, STRANGE[::-1], 2, 2),
    (LONG, LONG, 2, 4),
    (["我们", "喜欢", "对联"] * 4, ["▁我们", "中华人民共和国", "的"] * 6, 2, 2),
]


@pytest.mark.filterwarnings("ignore:no font on this machine")  # for 🦜
@pytest.mark.parametrize(("rows", "columns", "layers", "heads"), SHAPES)
def test_all_labels_are_inside_and_apart(rows, columns, layers, heads):
    figure = picture(rows, columns, layers, heads, title="$attention$ of a sentence, " * (len(rows) % 4))
    to_array(figure)
    names = [text.get_text() for text in texts(figure)] + ["a panel"] * len(figure.axes)
    boxes = np.array([thing.get_window_extent().extents for thing in texts(figure) + figure.axes])  # (N, 4): x0 y0 x1 y1
    inside = (boxes[:, :2] >= 0) & (boxes[:, 2:] <= figure.bbox.max)
    assert inside.all(), [name for name, both in zip(names, inside, strict=True) if not both.all()]
    overlap = np.minimum(boxes[:, None, 2:], boxes[None, :, 2:]) - np.maximum(boxes[:, None, :2], boxes[None, :, :2])
    crossing = np.argwhere(np.triu(overlap.min(-1) > 1, 1))  # pixels
    assert not len(crossing), [(names[a], names[b], overlap[a, b]) for a, b in crossing[:9]]


@pytest.mark.parametrize("length", [1, 2, 7, 12, 60, 120])
def test_the_mean_shows_every_label(length):
    rows, columns = [f"r{number}" for number in range(length)], [f"c{number}" for number in range(length)]
    figure = picture(rows, columns)
    assert labels(figure.axes[0]) == (rows, columns)
    assert min(text.get_fontsize() for text in figure.axes[0].texts) >= 5


def test_a_figure_grows_to_a_bound():
    sizes = [max(picture(["a"] * length, ["b"] * length).get_size_inches()) for length in (1, 10, 60, 150, 400)]
    assert sizes[:4] == sorted(sizes[:4]) and max(sizes) < 25


def test_row_t_is_the_token_predicted_at_t_from_the_top():
    weights = torch.tensor([[[[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]]])  # (1, 1, 2, 3)
    figure = draw(weights, ["first", "second"], ["a", "b", "c"])
    axes = figure.axes[0]
    assert labels(axes) == (["first", "second"], ["a", "b", "c"])
    pixels = to_array(figure)

    def darkness(row, column):
        x, y = axes.transData.transform((column, row))
        return 255 - int(pixels[len(pixels) - 1 - int(y), int(x)].mean())

    assert [[darkness(row, column) > 100 for column in range(3)] for row in range(2)] == [[1, 0, 0], [0, 0, 1]]
    first, second = (text.get_window_extent() for text in axes.texts[:2])
    assert first.y0 > second.y1  # upwards in matplotlib
    assert abs((first.y0 + first.y1) / 2 - axes.transData.transform((0, 0))[1]) < 6


def test_panels_are_the_mean_then_layer_by_layer_on_one_scale():
    weights = attention(3, 4, 5, 6)
    figure = draw(weights, GERMAN[:5], ENGLISH[:6])
    images = [axes.images[0] for axes in figure.axes[:-1]]
    assert len(images) == 1 + 12
    np.testing.assert_allclose(images[0].get_array(), weights.mean((0, 1)), rtol=1e-5)
    for image, expected in zip(images[1:], weights.flatten(0, 1), strict=True):
        np.testing.assert_array_equal(image.get_array(), expected)
    assert {image.get_clim() for image in images} == {(0, 1)}
    assert [tick.get_text() for tick in figure.axes[-1].get_yticklabels()] == ["0", "", "0.5", "", "1"]
    assert figure.axes[-1].get_ylim() == (0, 1)


def test_chosen_layers_and_heads():
    weights = attention(3, 4, 5, 6)
    figure = draw(weights, GERMAN[:5], ENGLISH[:6], layers=[0, -1], heads=[2, 1])
    headings = [text.get_text() for text in figure.texts]
    names = [f"layer {layer}, head {head}" for layer in (0, 2) for head in (2, 1)]
    assert headings == ["mean of 2 layers × 2 heads", *names]
    np.testing.assert_allclose(figure.axes[0].images[0].get_array(), weights[[0, 2]][:, [2, 1]].mean((0, 1)), rtol=1e-5)
    np.testing.assert_array_equal(figure.axes[3].images[0].get_array(), weights[2, 2])


@pytest.mark.parametrize("options", [{}, {"mean_only": True}])
def test_one_layer_and_head_is_one_panel(options):
    figure = picture(GERMAN, ENGLISH, title="additive", **options)
    assert len(figure.axes) == 2 and [text.get_text() for text in figure.texts] == ["additive"]


def test_mean_only_leaves_the_small_panels_out():
    figure = picture(GERMAN, ENGLISH, 4, 4, mean_only=True)
    assert len(figure.axes) == 2 and [text.get_text() for text in figure.texts] == ["mean of 4 layers × 4 heads"]


def test_dollars_are_dollars(recwarn):
    figure = picture(["$x_1$", "$", "a$b"], ["$\\frac", "$$", "}"], title="$\\alpha")
    to_array(figure)
    assert labels(figure.axes[0]) == (["$x_1$", "$", "a$b"], ["$\\frac", "$$", "}"])
    assert not recwarn.list


@pytest.mark.parametrize(
    "weights",
    [
        attention(2, 2, 3, 4).requires_grad_(),
        attention(2, 2, 3, 4).bfloat16(),
        attention(2, 2, 3, 4).double().numpy(),
        torch.zeros(2, 2, 3, 4),
        torch.full((2, 2, 3, 4), torch.nan),
    ],
    ids=["gradient", "bfloat16", "numpy", "zeros", "nan"],
)
def test_any_array_is_drawn(weights):
    assert to_array(draw(weights, GERMAN[:3], ENGLISH[:4])).dtype == np.uint8


@pytest.mark.parametrize(
    ("shape", "options", "message"),
    [
        ((3, 4), {}, r"\(layers, heads, rows, columns\).*\(3, 4\) for 3 row and 4 column labels"),
        ((2, 2, 4, 3), {}, r"\(2, 2, 4, 3\) for 3 row and 4 column labels"),
        ((0, 2, 3, 4), {}, "none of them 0"),
        ((2, 2, 3, 4), {"layers": [2]}, r"no such layer: \[2\]; choose from 0 to 1"),
        ((2, 2, 3, 4), {"heads": [0, -3, 9]}, r"no such head: \[-3, 9\]"),
        ((2, 2, 3, 4), {"heads": []}, r"no such head: \[\]"),
    ],
)
def test_what_does_not_fit_is_refused(shape, options, message):
    with pytest.raises(ValueError, match=message):
        draw(torch.zeros(shape), GERMAN[:3], ENGLISH[:4], **options)


USER = {
    "image.origin": "lower",
    "text.parse_math": True,
    "figure.dpi": 50,
    "font.family": ["serif"],
    "figure.constrained_layout.use": True,
    "axes.spines.top": False,
    "ytick.minor.visible": True,
    "savefig.bbox": "tight",
}


@pytest.mark.parametrize("settings", [USER, "dark_background", "ggplot"], ids=["user", "dark", "ggplot"])
def test_matplotlib_s_settings_change_nothing(monkeypatch, settings):
    expected = to_array(picture(["a", "$b"], ["c"], 1, 2))
    for key, value in (settings if isinstance(settings, dict) else style.library[settings]).items():
        monkeypatch.setitem(matplotlib.rcParams, key, value)
    np.testing.assert_array_equal(to_array(picture(["a", "$b"], ["c"], 1, 2)), expected)


def test_threads_draw_the_same_picture():
    expected, results = to_array(picture(LOWER, UPPER)), []
    threads = [threading.Thread(target=lambda: results.append(to_array(picture(LOWER, UPPER)))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4 and all(np.array_equal(result, expected) for result in results)


# Out ------------------------------------------------------------------------------------------------------------------


def test_saved_and_array_are_the_same_picture(tmp_path):
    figure = picture(GERMAN, ENGLISH)
    path = save(figure, tmp_path / "new" / "folder with spaces" / "晚风.png")
    array = to_array(figure)
    assert array.dtype == np.uint8 and array.ndim == 3 and array.shape[2] == 3
    np.testing.assert_array_equal(np.asarray(Image.open(path)), array)
    width, height = figure.get_size_inches() * figure.dpi
    assert array.shape[:2] == (round(height), round(width))


def test_saving_is_all_or_nothing(tmp_path, monkeypatch):
    path = save(picture(["a"], ["b"]), tmp_path / "a.png")
    before, mode = path.read_bytes(), path.stat().st_mode & 0o777
    umask = os.umask(0)
    os.umask(umask)
    assert mode == 0o666 & ~umask

    def full(self, file, *args, **options):
        file.write(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(Image.Image, "save", full)
    with pytest.raises(OSError, match="disk full"):
        save(picture(["c"], ["d"]), path)
    assert path.read_bytes() == before and [entry.name for entry in tmp_path.iterdir()] == ["a.png"]


def test_terminal_in_plain_text():
    weights = torch.tensor([[1.0, 0.0, 0.5], [0.25, 0.75, 0.0]])
    expected = [
        "           <",
        "           /",
        "       ␣   s",
        "       a 风>",
        "    春 ██  ▒▒",
        "␣hello ░░▓▓",
        "",
        "       0     ░░░░░░▒▒▒▒▓▓▓▓▓▓████ 1",
    ]
    assert terminal(weights, ["春", "▁hello"], ["▁a", "风", "</s>"], color=False).split("\n") == expected


def test_terminal_columns_are_two_cells_wide_whatever_stands_above():
    weights = attention(1, 1, len(STRANGE), len(STRANGE))[0, 0]
    lines = terminal(weights.clamp(min=0.2), STRANGE, STRANGE, color=False).split("\n")
    body = lines[-2 - len(STRANGE) : -2]
    margin = max(cells(label(token)) for token in STRANGE) + 1
    assert {cells(line) for line in body} == {margin + 2 * len(STRANGE)}
    assert all(cells(line) <= margin + 2 * len(STRANGE) for line in lines[: -2 - len(STRANGE)])


def test_terminal_escapes_only_what_it_paints_itself():
    weights = torch.tensor([[0.0, 1.0]])
    assert "\x1b" not in terminal(weights, ["\x1b[2J"], ["a", "\x1b[31m"], color=False)
    row = next(line for line in terminal(weights, ["r"], ["a", "b"]).split("\n") if line.startswith("r"))
    assert row == "r \x1b[48;5;232m  \x1b[48;5;255m  \x1b[0m"


def test_terminal_shows_nan_and_refuses_wrong_shapes():
    assert "r ??" in terminal(torch.tensor([[torch.nan]]), ["r"], ["c"], color=False)
    with pytest.raises(ValueError, match="2 row and 1 column labels"):
        terminal(torch.zeros(1, 1), ["a", "b"], ["c"])
