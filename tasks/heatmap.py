"""Attention as pictures: who looked at whom, layer by layer and head by head.

    figure = draw(output.attention["cross"][0], rows=gold_tokens, columns=source_tokens, title="cross attention")
    save(figure, "heatmaps/cross.png")
    writer.add_image("attention/cross", to_array(figure), step, dataformats="HWC")
    print(terminal(weights.mean((0, 1)), gold_tokens, source_tokens))

Row t is the token that is predicted, read from the top; column s is the token looked at, read from the left, as in
Bahdanau et al. 2015, figure 3. White is 0 and dark is 1 in every picture, so that any two can be compared.

Only matplotlib's object interface is used: no pyplot, no global state, nothing to close, safe in threads.
Shapes: L layers, H heads, T rows, S columns. Lengths in a figure are points (1/72 inch).
"""

from __future__ import annotations

import math
import os
import re
import threading
import unicodedata
import warnings
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from importlib.util import find_spec
from itertools import count, islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from matplotlib import colormaps, font_manager
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg, RendererAgg
from matplotlib.collections import LineCollection
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.font_manager import FontEntry, FontProperties
from matplotlib.ft2font import FT2Font
from matplotlib.image import AxesImage
from matplotlib.text import Text
from PIL import Image

from tasks.width import cells, combines

# ---------------------------------------------------------------------------------------------------------------------
# Labels: a token as a reader should see it
# ---------------------------------------------------------------------------------------------------------------------

LONGEST = 16  # cells of a label; what is longer ends with "…"
SPACES = {" ": "␣", "\u2581": "␣"}  # SentencePiece writes a space as U+2581
ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
BLANKS = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")  # drawn as nothing, though no category says so


def label(token: str) -> str:
    """The token, shortened, with all that is invisible made visible: '▁das' is '␣das', a zero-width space 'U+200B'."""
    text = "".join(map(_visible, token)) or "∅"
    return shorten("◌" + text if combines(text[0]) else text)


def shorten(text: str, longest: int = LONGEST) -> str:
    """At most `longest` cells of `text`, the last one an ellipsis where something was left out."""
    if cells(text) <= longest and len(text) <= 4 * longest:
        return text
    kept, room = "", longest - 1
    for char in text[: 4 * longest]:  # a mark above a letter takes no cell, but there may be thousands of them
        room -= cells(char)
        if room < 0:
            break
        kept += char
    return kept + "…"


def _visible(char: str) -> str:
    if char in SPACES or char in ESCAPES:
        return SPACES.get(char) or ESCAPES[char]
    hidden = unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zs", "Zl", "Zp") or char in BLANKS
    return _code(char) if hidden or "\ufe00" <= char <= "\ufe0f" else char


def _code(char: str) -> str:
    return f"U+{ord(char):04X}"


# ---------------------------------------------------------------------------------------------------------------------
# Fonts: matplotlib's own has no Chinese
# ---------------------------------------------------------------------------------------------------------------------

DEFAULT = "DejaVu Sans"  # comes with matplotlib
PACKAGE = "cvttf_NotoSansCJK_Regular"  # `pip install cvttf-notosanscjk-regular`
PROBE = "的一是不了人我在有他这中国来说门见风东龙书鸟飞，。"  # a font with these draws simplified Chinese
SIMPLIFIED = re.compile(r"\b(sc|cn|gb|hans)\b|wenquanyi|sim(hei|sun)|yahei|dengxian|heiti", re.IGNORECASE)
UNPLEASANT = re.compile(r"mono|serif|song|ming|kai|emoji|condensed|light|thin|bold", re.IGNORECASE)
HINT = "pip install -e .[couplets], or on Debian: apt-get install fonts-noto-cjk"

# The same code point has Chinese and Japanese shapes in one font. matplotlib before 3.11 cannot ask for either.
PLAIN = {"parse_math": False, "usetex": False} | ({"language": "zh-Hans"} if hasattr(Text, "set_language") else {})


def font_for(text: str) -> FontProperties:
    """DejaVu Sans and behind it, in matplotlib's fallback list, the fonts that have what it lacks of `text`.

    They are looked for once, among the system's fonts and in the package of the `couplets` extra. What a font has is read
    from its character map, not guessed from its name. Where no font has a character, a warning says once what to install.
    """
    return FontProperties(family=_FONTS.families(text))


def missing_glyphs(texts: Iterable[str], fonts: FontProperties | Sequence[str]) -> set[str]:
    """The characters of `texts` that none of `fonts` (properties, or family names) can draw."""
    families = fonts.get_family() if isinstance(fonts, FontProperties) else fonts
    return {char for char in set("".join(texts)) if not any(ord(char) in _characters(name) for name in families)}


class _Fonts:
    """The fallback families found so far, and the characters that nothing on this machine can draw."""

    def __init__(self):
        self.found = [DEFAULT]
        self.hopeless: set[str] = set()
        self.warned: set[bool] = set()
        self.lock = threading.Lock()

    def families(self, text: str) -> list[str]:
        """The families found that `text` needs, the default first."""
        with self.lock:
            missing = missing_glyphs(text, self.found) - self.hopeless
            if missing:
                self._search(missing)
        needed = missing_glyphs(text, [DEFAULT])
        return [DEFAULT] + [name for name in self.found[1:] if needed - missing_glyphs(needed, [name])]

    def _search(self, missing: set[str]) -> None:
        """Adds the best font for what is missing, then the best for what still is, …"""
        _add_packaged_fonts()
        while missing and (family := _best_family(missing)):
            self.found.append(family)
            missing = missing_glyphs(missing, self.found)
        self.hopeless |= missing
        if missing:
            self._warn(missing, chinese=any(map(_is_chinese, missing)))

    def _warn(self, missing: set[str], *, chinese: bool) -> None:
        if chinese in self.warned:
            return
        self.warned.add(chinese)
        shown = shorten("".join(sorted(missing)), 24)
        hint = f" Install a Chinese font: {HINT}." if chinese else ""
        message = f"no font on this machine has {shown!r}: heatmaps show code points instead.{hint}"
        warnings.warn(message, UserWarning, stacklevel=2)


def _best_family(missing: set[str]) -> str | None:
    """The installed family that draws most of `missing`, or None if none draws any.

    Where Chinese is missing, a font counts by common simplified characters too, so that one font serves all later
    pictures, and fonts named as Simplified Chinese come before their Japanese or Traditional sisters.
    """
    wanted = missing | set(PROBE) if any(map(_is_chinese, missing)) else missing
    scored = ((_score(entry, missing, wanted), entry.name) for entry in _one_a_family())
    ranked = sorted(((score, name) for score, name in scored if score), reverse=True)
    # What matplotlib opens under a name may be another file of the family: ask it.
    return next((name for _, name in ranked if len(missing_glyphs(missing, [name])) < len(missing)), None)


def _score(entry: FontEntry, missing: set[str], wanted: set[str]) -> tuple | None:
    """Sorts fonts: what they draw, then the name and how much else they draw; None if they draw nothing missing."""
    try:
        font = _open(entry.fname, getattr(entry, "index", 0))
    except (OSError, RuntimeError):  # deleted since matplotlib listed it, or damaged
        return None
    # Different glyphs, not characters: "last resort" fonts draw one box for a whole block.
    drawn, all_drawn = (len({font.get_char_index(ord(char)) for char in chars} - {0}) for chars in (missing, wanted))
    ugly = len(UNPLEASANT.findall(entry.name))
    return (drawn, all_drawn, bool(SIMPLIFIED.search(entry.name)), -ugly, font.num_glyphs) if drawn else None


def _one_a_family() -> list[FontEntry]:
    """Upright fonts known to matplotlib, the one of each family nearest to the regular weight."""
    best: dict[str, FontEntry] = {}
    for entry in font_manager.fontManager.ttflist:
        if entry.style == "normal" and not entry.name.startswith("Last Resort"):
            kept = best.setdefault(entry.name, entry)
            best[entry.name] = min(kept, entry, key=lambda font: abs(_weight(font) - 400))
    return list(best.values())


def _weight(entry: FontEntry) -> int:
    return font_manager.weight_dict.get(entry.weight, 400) if isinstance(entry.weight, str) else entry.weight


def _add_packaged_fonts() -> None:
    """Makes the font of the `couplets` extra known to matplotlib, if it is installed."""
    known = {entry.fname for entry in font_manager.fontManager.ttflist}
    for path in _packaged_fonts():
        if str(path) not in known:
            font_manager.fontManager.addfont(str(path))


def _packaged_fonts() -> list[Path]:
    spec = find_spec(PACKAGE)
    folders = spec.submodule_search_locations if spec else None
    return sorted(path for folder in folders or () for path in Path(folder).glob("*.[ot]t[fc]"))


@lru_cache(16)
def _characters(family: str) -> frozenset[int]:
    """The code points in the font that matplotlib opens for `family`."""
    try:
        path = font_manager.findfont(FontProperties(family=[family]), fallback_to_default=False)
    except ValueError:
        return frozenset()
    return frozenset(_open(str(path), getattr(path, "face_index", 0)).get_charmap())


def _open(path: str, face: int) -> FT2Font:
    return FT2Font(path, face_index=face) if face else FT2Font(path)  # before 3.11: only the first of a collection


def _is_chinese(char: str) -> bool:
    return unicodedata.east_asian_width(char) in "WF" and unicodedata.category(char)[0] in "LP"


_FONTS = _Fonts()


# ---------------------------------------------------------------------------------------------------------------------
# Measures: how large things get, so that every label fits
# ---------------------------------------------------------------------------------------------------------------------

DPI = 144  # two pixels a point: cells of half points are whole pixels
SIDE = 360  # the longer side of the main panel, while its cells stay within:
CELL = (9.5, 44)
TINY = 72  # at least this side, for sentences of one or two tokens
BOUND = 1440  # the side at which a figure stops growing and its cells shrink instead
FONT = (5.0, 9.5)
SMALL_FONT = (5.0, 6.5)
SMALL_SIDE = (72, 150)  # the longer side of a small panel
SMALL_CELL = 2.5
MARGIN, GAP = 10, 8
WIDEST = 2.2  # width of a page in heights, beyond which the grid goes below the mean
TITLE = 11
TICK, PAD = 2, 2.5  # tick length, and from there to the label
BAR = 9  # width of the colour bar
LINE = 1.2  # height of a line, in sizes of its font
GREY, FRAME = "0.3", "0.6"
COLOURS = ListedColormap(colormaps["Blues"](np.linspace(0, 1, 256) ** 0.75), "attention")  # lifts small weights


class Labels(NamedTuple):
    """The labels along one side of a panel."""

    texts: list[str]
    turned: list[bool]  # by 90°, to be read upwards
    cell: float
    size: float
    step: int  # every step-th is written
    room: float  # from the edge of the panel to the far end of the longest

    def written(self) -> Iterator[tuple[int, str, bool]]:
        """Position, text, turned."""
        return islice(zip(count(), self.texts, self.turned), 0, None, self.step)


class _Ruler:
    """Measures text in `font`."""

    def __init__(self, font: FontProperties):
        self.font = font
        self.renderer = RendererAgg(8, 8, DPI)

    def width(self, text: str, size: float) -> float:
        return self.renderer.get_text_width_height_descent(text, self.sized(size), ismath=False)[0] * 72 / DPI

    def sized(self, size: float) -> FontProperties:
        font = self.font.copy()
        font.set_size(size)
        return font

    def rows(self, texts: list[str], cell: float, sizes: tuple[float, float]) -> Labels:
        """Labels at the left of rows `cell` points high, in a size within `sizes` that fits them."""
        size = min(max(0.78 * cell, sizes[0]), sizes[1])
        step = max(1, math.ceil(1.15 * size / cell))
        room = max(self.width(text, size) for text in texts[::step])
        return Labels(texts, [False] * len(texts), cell, size, step, math.ceil(TICK + PAD + room))

    def columns(self, texts: list[str], cell: float, sizes: tuple[float, float]) -> Labels:
        """Labels above columns: level where they all fit in, else turned; but Chinese then runs downwards."""
        level = self.rows(texts, cell, sizes)
        if level.room - TICK - PAD <= 0.9 * cell * level.step:
            return level._replace(room=math.ceil(TICK + PAD + level.size))
        downwards = [_runs_down(text) for text in texts]
        lengths = [
            LINE * level.size * len(text) if down else self.width(text, level.size)
            for text, down in zip(texts[:: level.step], downwards[:: level.step], strict=True)
        ]
        return level._replace(
            texts=["\n".join(text) if down else text for text, down in zip(texts, downwards, strict=True)],
            turned=[not down for down in downwards],
            room=math.ceil(TICK + PAD + max(lengths)),
        )


def _runs_down(text: str) -> bool:
    wide = [cells(char) == 2 for char in text]
    return any(wide) and all(is_wide or char in "␣…" for is_wide, char in zip(wide, text, strict=True))


def _half(points: float) -> float:
    """Rounded down to half points, which are whole pixels."""
    return math.floor(2 * points) / 2 if points >= 0.5 else points


def _main_cell(shape: tuple[int, int]) -> float:
    longest = max(shape)
    cell = min(max(SIDE / longest, CELL[0]), max(CELL[1], TINY / longest))
    return _half(min(cell, BOUND / longest))


def _small_cell(shape: tuple[int, int], side: float) -> float:
    """Cells of a small panel whose longer side is about `side`."""
    longest = max(shape)
    return _half(min(max(side, SMALL_SIDE[0], SMALL_CELL * longest), SMALL_SIDE[1]) / longest)


# ---------------------------------------------------------------------------------------------------------------------
# Blocks: one panel, a grid of panels, the colour bar
# ---------------------------------------------------------------------------------------------------------------------


class _Page:
    """A figure on which things are placed in points from the top left corner."""

    def __init__(self, width: float, height: float, ruler: _Ruler):
        self.width, self.height, self.ruler = math.ceil(width), math.ceil(height), ruler
        self.figure = Figure(figsize=(self.width / 72, self.height / 72), dpi=DPI, facecolor="white", layout="none")
        FigureCanvasAgg(self.figure)

    def axes(self, x: float, y: float, width: float, height: float) -> Axes:
        bottom = self.height - y - height
        box = (x / self.width, bottom / self.height, width / self.width, height / self.height)
        return self.figure.add_axes(box, facecolor="0.9")

    def write(self, x: float, baseline: float, text: str, size: float, color: str = GREY) -> None:
        place = (x / self.width, 1 - baseline / self.height)
        self.figure.text(*place, text, color=color, va="baseline", fontproperties=self.ruler.sized(size), **PLAIN)


class _Panel:
    """One matrix (T, S) with its labels at the left and above, and a heading over all."""

    heading_size = 8.5

    def __init__(self, weights, rows: list[str], columns: list[str], heading: str, ruler: _Ruler):
        self.weights, self.heading = weights, heading
        cell = _main_cell(weights.shape)
        self.rows, self.columns = ruler.rows(rows, cell, FONT), ruler.columns(columns, cell, FONT)
        self.inner = (weights.shape[1] * cell, weights.shape[0] * cell)  # width, height
        self.left, self.top = self.rows.room, self.columns.room + (1.7 * self.heading_size if heading else 0)
        self.width = self.left + max(self.inner[0], ruler.width(heading, self.heading_size))
        self.height = self.inner[1]  # below the panels' common upper edge

    def place(self, page: _Page, x: float, y: float) -> AxesImage:
        """Puts the matrix at the right of x + left, below y."""
        if self.heading:
            page.write(x + self.left, y - self.columns.room - 0.6 * self.heading_size, self.heading, self.heading_size)
        axes = page.axes(x + self.left, y, *self.inner)
        return _matrix(axes, self.weights, self.rows, self.columns, page.ruler)


class _Grid:
    """All matrices (L, H, T, S), small: a line a layer, or as square as can be if there is one layer or one head.

    They are as high together as the mean, if they can stand `beside` it; else as wide, and stand below.
    """

    heading_size = 6.5

    def __init__(self, weights, names: list[str], rows: list, columns: list, ruler: _Ruler, *, beside: _Panel):
        self.panels = weights.reshape(-1, *weights.shape[2:])  # (L·H, T, S)
        self.names = names
        self.across = _across(*weights.shape[:2])
        self.lines = math.ceil(len(names) / self.across)
        height, width = (beside.height + 2 * GAP) / self.lines - 2 * GAP, (beside.width + GAP) / self.across - GAP
        ratio = max(weights.shape[2:]) / np.array(weights.shape[2:])
        self._measure(rows, columns, ruler, height * ratio[0])
        self.below = self.width + beside.width > WIDEST * (max(self.height, beside.height) + max(self.top, beside.top))
        if self.below:
            self._measure(rows, columns, ruler, width * ratio[1])

    def _measure(self, rows: list[str], columns: list[str], ruler: _Ruler, side: float) -> None:
        """Sets all sizes, for panels whose longer side is about `side`."""
        cell = _small_cell(self.panels[0].shape, side)
        self.rows, self.columns = ruler.rows(rows, cell, SMALL_FONT), ruler.columns(columns, cell, SMALL_FONT)
        self.inner = (self.panels.shape[2] * cell, self.panels.shape[1] * cell)
        heading = max(ruler.width(name, self.heading_size) for name in self.names)
        self.pitch = (_half(max(self.inner[0], heading) + GAP), _half(self.inner[1] + 2 * self.heading_size + 1))
        self.left, self.top = self.rows.room, self.columns.room + 1.5 * self.heading_size
        self.width = self.left + (self.across - 1) * self.pitch[0] + max(self.inner[0], heading)
        self.height = (self.lines - 1) * self.pitch[1] + self.inner[1]

    def place(self, page: _Page, x: float, y: float) -> None:
        for index, (weights, name) in enumerate(zip(self.panels, self.names, strict=True)):
            line, place = divmod(index, self.across)
            left, top = x + self.left + place * self.pitch[0], y + line * self.pitch[1]
            above = (self.columns.room if line == 0 else 0) + 0.5 * self.heading_size
            page.write(left, top - above, name, self.heading_size)
            axes = page.axes(left, top, *self.inner)
            rows, columns = self.rows if place == 0 else None, self.columns if line == 0 else None
            _matrix(axes, weights, rows, columns, page.ruler)


def _across(layers: int, heads: int) -> int:
    """Panels in one line of the grid: the heads, or about the root of their number where there is but one line."""
    if layers > 1 and heads > 1:
        return heads
    number = layers * heads
    return next(width for width in range(math.ceil(number**0.5), number + 1) if number % width == 0 or width >= 6)


def _matrix(axes: Axes, weights, rows: Labels | None, columns: Labels | None, ruler: _Ruler) -> AxesImage:
    """Draws weights (T, S), row 0 at the top, with labels where given. Plain texts: ticks take ten times as long."""
    image = axes.imshow(weights, cmap=COLOURS, vmin=0, vmax=1, aspect="auto", origin="upper", interpolation="auto")
    axes.xaxis.set_visible(False)
    axes.yaxis.set_visible(False)
    for spine in axes.spines.values():
        spine.set(visible=True, linewidth=0.5, color=FRAME)
    if rows:
        _row_labels(axes, rows, ruler.sized(rows.size))
    if columns:
        _column_labels(axes, columns, ruler.sized(columns.size))
    return image


def _row_labels(axes: Axes, labels: Labels, font: FontProperties) -> None:
    mark, edge = -0.5 - TICK / labels.cell, -0.5 - (TICK + PAD) / labels.cell  # in cells
    for row, text, _ in labels.written():
        axes.text(edge, row, text, color="black", fontproperties=font, ha="right", va="center_baseline", **PLAIN)
    _marks(axes, [((mark, row), (-0.5, row)) for row, *_ in labels.written()])


def _column_labels(axes: Axes, labels: Labels, font: FontProperties) -> None:
    mark, edge = -0.5 - TICK / labels.cell, -0.5 - (TICK + PAD) / labels.cell
    level = {"ha": "center", "va": "bottom" if any(labels.turned) else "baseline", "linespacing": 1.0}
    turned = {"rotation": 90, "rotation_mode": "anchor", "ha": "left", "va": "center_baseline"}
    for column, text, is_turned in labels.written():
        axes.text(column, edge, text, color="black", fontproperties=font, **(turned if is_turned else level), **PLAIN)
    _marks(axes, [((column, mark), (column, -0.5)) for column, *_ in labels.written()])


def _marks(axes: Axes, lines: list) -> None:
    axes.add_collection(LineCollection(lines, linewidths=0.5, colors=FRAME, clip_on=False), autolim=False)


def _colour_bar(page: _Page, image: AxesImage, x: float, y: float, height: float) -> None:
    bar = page.figure.colorbar(image, cax=page.axes(x, y, BAR, height), ticks=[0, 0.25, 0.5, 0.75, 1])
    bar.ax.minorticks_off()
    bar.outline.set(linewidth=0.5, edgecolor=FRAME)
    bar.ax.tick_params("y", length=TICK, pad=PAD, width=0.5, color=FRAME)
    texts = ["0", "", "0.5", "", "1"]
    bar.ax.set_yticks([0, 0.25, 0.5, 0.75, 1], texts, fontproperties=page.ruler.sized(7), color=GREY, **PLAIN)


# ---------------------------------------------------------------------------------------------------------------------
# The picture
# ---------------------------------------------------------------------------------------------------------------------


def draw(
    weights: torch.Tensor | np.ndarray,
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    title: str = "",
    layers: Sequence[int] | None = None,
    heads: Sequence[int] | None = None,
    mean_only: bool = False,
) -> Figure:
    """The attention of one sentence: the mean of the chosen layers and heads, and beside it each of them, small.

    weights: (L, H, T, S), on any device and of any precision, without padding
    rows: T tokens, those predicted (`gold` for "cross", `tgt` for "decoder", the source for "encoder")
    columns: S tokens, those looked at
    layers, heads: which of them, counted from 0 (or -1 for the last, …); None is all
    mean_only: no small panels

    `figure.axes` are the mean, the small panels layer by layer, and the colour bar. A single layer and head is one
    panel. In the mean every label is written, up to about 240 tokens; in small panels as many as can be read. ValueError if
    shapes and labels do not fit together, or a layer or head does not exist.
    """
    weights = _checked(weights, rows, columns)
    layers, heads = choose(weights.shape, layers, heads)
    weights = weights[np.ix_(layers, heads)]  # (L, H, T, S)
    names = [f"layer {layer}, head {head}" for layer in layers for head in heads]
    rows, columns, title, font = _written(rows, columns, title)
    ruler = _Ruler(font)
    heading = f"mean of {_count(layers, 'layer')} × {_count(heads, 'head')}" if len(names) > 1 else ""
    mean = _Panel(weights.mean((0, 1)), rows, columns, heading, ruler)
    if mean_only or len(names) == 1:
        return _compose(mean, None, title, ruler)
    return _compose(mean, _Grid(weights, names, rows, columns, ruler, beside=mean), title, ruler)


def _compose(mean: _Panel, grid: _Grid | None, title: str, ruler: _Ruler) -> Figure:
    """The title; below it the mean, the grid and the colour bar; or the grid below them where it is wide."""
    under = grid if grid and grid.below else None
    row = [mean] + ([grid] if grid and not under else [])
    bar_x = MARGIN + sum(block.width + 2 * GAP for block in row)
    bar_height = min(max(mean.height, TINY), 200)
    width = bar_x + BAR + TICK + PAD + ruler.width("0.5", 7) + MARGIN
    title = _fitting(title, ruler, max(width, 400) - 2 * MARGIN)
    y = _half(MARGIN + (20 if title else 0) + max(block.top for block in row))
    bottom = y + max(bar_height, *(block.height for block in row))
    spots = [(mean, MARGIN, y)] + [(grid, _half(MARGIN + mean.width + 2 * GAP), y)] * len(row[1:])
    if under:
        spots.append((under, _half(MARGIN + max(0, mean.left - under.left)), _half(bottom + 2 * GAP + under.top)))
        width, bottom = max(width, spots[-1][1] + under.width + MARGIN), spots[-1][2] + under.height
    page = _Page(max(width, ruler.width(title, TITLE) + 2 * MARGIN), bottom + MARGIN, ruler)
    if title:
        page.write(MARGIN, MARGIN + 10, title, TITLE, "black")
    images = [block.place(page, left, top) for block, left, top in spots]
    _colour_bar(page, images[0], _half(bar_x), y, bar_height)
    return page.figure


def _checked(weights, rows: Sequence[str], columns: Sequence[str]) -> np.ndarray:
    """float32 (L, H, T, S) on the CPU, or ValueError."""
    weights = torch.as_tensor(weights).detach().float().cpu().numpy()
    if weights.ndim != 4 or weights.shape[2:] != (len(rows), len(columns)) or 0 in weights.shape:
        raise ValueError(
            f"attention must be (layers, heads, rows, columns), none of them 0: got {tuple(weights.shape)} "
            f"for {len(rows)} row and {len(columns)} column labels"
        )
    return weights


def choose(shape: Sequence[int], layers: Sequence[int] | None, heads: Sequence[int] | None) -> tuple[list[int], list[int]]:
    """Places from 0 of the wanted layers and heads (None: all) in attention of shape (L, H, …); ValueError for one beyond."""
    return _chosen(layers, shape[0], "layer"), _chosen(heads, shape[1], "head")


def _chosen(wanted: Sequence[int] | None, number: int, what: str) -> list[int]:
    if wanted is None:
        return list(range(number))
    wrong = [index for index in wanted if not -number <= index < number]
    if wrong or not wanted:
        raise ValueError(f"no such {what}: {wrong or list(wanted)}; choose from 0 to {number - 1}, or -1 for the last")
    return [index % number for index in wanted]


def _written(rows, columns, title: str) -> tuple[list[str], list[str], str, FontProperties]:
    """Labels and title as they are drawn, and the font that can draw them."""
    texts = [label(token) for token in (*rows, *columns)]
    title = " ".join("".join(char if char.isspace() else _visible(char) for char in title).split())
    font = font_for("".join(texts) + title)
    lost = missing_glyphs([*texts, title], font)
    codes = str.maketrans({char: _code(char) for char in lost})
    texts = [shorten(text.translate(codes)) for text in texts]
    return texts[: len(rows)], texts[len(rows) :], title.translate(codes), font


def _fitting(title: str, ruler: _Ruler, width: float) -> str:
    """The title, shortened to `width`."""
    longest = cells(title)
    while longest > 1 and ruler.width(shorten(title, longest), TITLE) > width:
        longest = min(longest - 1, int(longest * width / ruler.width(shorten(title, longest), TITLE)) + 1)
    return shorten(title, longest) if title else ""


def _count(items: list, noun: str) -> str:
    return f"{len(items)} {noun}{'s' if len(items) != 1 else ''}"


# ---------------------------------------------------------------------------------------------------------------------
# Out: files, TensorBoard, the terminal
# ---------------------------------------------------------------------------------------------------------------------


def to_array(figure: Figure) -> np.ndarray:
    """The picture as uint8 (height, width, 3); drawn once, however often it is asked for."""
    canvas = figure.canvas
    if figure.stale or not hasattr(canvas, "renderer"):
        canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()


def save(figure: Figure, path: str | os.PathLike) -> Path:
    """Writes a PNG: all of it or nothing, folders made as needed. Returns the path."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.stem[:80]}.{os.getpid()}.{threading.get_ident()}.tmp")
    try:
        with open(part, "wb") as file:
            Image.fromarray(to_array(figure)).save(file, "png", dpi=(figure.dpi, figure.dpi))
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
    return path


SHADES = " ░▒▓█"


def terminal(weights: torch.Tensor | np.ndarray, rows: Sequence[str], columns: Sequence[str], *, color: bool = True) -> str:
    """weights (T, S) as text: a line a row, two cells a column, the columns' labels written downwards.

    color: 24 greys (ANSI, black is 0) instead of five shades of text.
    """
    weights = _checked(torch.as_tensor(weights)[None, None], rows, columns)[0, 0]
    rows, columns = [label(token) for token in rows], [label(token) for token in columns]
    margin = max(map(cells, rows))
    paint, end = (_grey, "\x1b[0m") if color else (_shade, "")
    lines = [" " * (margin + 1) + line for line in _downwards(columns)]
    for text, line in zip(rows, weights, strict=True):
        lines.append(" " * (margin - cells(text)) + text + " " + "".join(map(paint, line)) + end)
    legend = "".join(paint(step / 11) for step in range(12)) + end
    return "\n".join([*(line.rstrip() for line in lines), "", " " * (margin + 1) + f"0 {legend} 1"])


def _downwards(texts: list[str]) -> Iterator[str]:
    """Lines in which each text runs down a column two cells wide, all ending on the last line."""
    stacks = [_clusters(text) for text in texts]
    height = max(map(len, stacks))
    for line in zip(*([""] * (height - len(stack)) + stack for stack in stacks), strict=True):
        yield "".join(cluster + " " * (2 - cells(cluster)) for cluster in line)


def _clusters(text: str) -> list[str]:
    """Characters with the marks that stand on them."""
    clusters: list[str] = []
    for char in text:
        if clusters and combines(char):
            clusters[-1] += char
        else:
            clusters.append(char)
    return clusters


def _grey(weight: float) -> str:
    return "??" if math.isnan(weight) else f"\x1b[48;5;{232 + _level(weight, 24)}m  "


def _shade(weight: float) -> str:
    return "??" if math.isnan(weight) else SHADES[_level(weight, len(SHADES))] * 2


def _level(weight: float, levels: int) -> int:
    return round((levels - 1) * min(max(float(weight), 0.0), 1.0))
