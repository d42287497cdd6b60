"""The two pictures of a comparison. Like heatmaps they use matplotlib's objects only, and its fonts for any script."""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.ticker import MaxNLocator

from tasks.heatmap import DPI, FRAME, GREY, PLAIN, font_for, shorten

# Okabe and Ito 2008: told apart by colour-blind readers too; the marks are for print, and for more systems than colours
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C6D31")
MARKS = "osD^vPX*"
NAME = 40  # cells of a name in a legend


def by_length(found: Sequence[Mapping], names: Sequence[str], *, unit: str) -> Figure:
    """BLEU of each bucket of `systems.bleu_by_length`, with its bootstrap interval. unit: words or characters."""
    figure, (axes,) = _page(7.2, 4.0, 1)
    for place, name in enumerate(names):
        nudge = (place - (len(names) - 1) / 2) * min(0.04, 0.3 / len(names))  # so that intervals do not hide each other
        at = [i + nudge for i in range(len(found))]
        values, widths = ([bucket[key][name] for bucket in found] for key in ("bleu", "half_width"))
        axes.errorbar(at, values, yerr=widths, label=shorten(name, NAME), capsize=2, elinewidth=0.8, **_style(place))
    ticks = [f"{bucket['first']}–{bucket['last']}\n{bucket['sentences']:,} sent." for bucket in found]
    axes.set_xticks(range(len(found)), ticks)
    _finish(axes, "BLEU by source length", f"{unit} in the source", "BLEU", names)
    _legend(axes, names)
    return figure


def curves(found: Mapping[str, Mapping[str, Sequence[float]]]) -> Figure:
    """val/bleu over steps and over minutes, of every system that has a curve (`runs.curve`)."""
    figure, (left, right) = _page(10.5, 4.0, 2)
    for place, (name, curve) in enumerate(found.items()):
        if curve["values"]:
            for axes, key in ((left, "steps"), (right, "minutes")):
                axes.plot(curve[key], curve["values"], label=shorten(name, NAME), **_style(place))
    for axes in (left, right):
        axes.set_xlim(left=0)  # now: what is drawn later would not widen it
    shown = [name for name, curve in found.items() if curve["values"]]
    _finish(left, "Training", "optimizer steps", "val/bleu", shown)
    _finish(right, "", "minutes", "", shown)
    _legend(left, shown)
    return figure


def _page(width: float, height: float, panels: int) -> tuple[Figure, list[Axes]]:
    """In inches."""
    figure = Figure(figsize=(width, height), dpi=DPI, facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    return figure, list(figure.subplots(1, panels, sharey=True, squeeze=False)[0])


def _style(place: int) -> dict:
    turn = place // len(COLOURS)
    colour, mark = COLOURS[place % len(COLOURS)], MARKS[(place + turn) % len(MARKS)]
    return {"color": colour, "marker": mark, "markersize": 4, "linewidth": 1.4, "linestyle": ("-", "--", ":")[turn % 3]}


def _finish(axes: Axes, title: str, across: str, up: str, names: Sequence[str]) -> None:
    font = font_for("".join([title, across, up, *names]) + "0123456789")
    axes.set_title(title, loc="left", fontproperties=_sized(font, 11), **PLAIN)
    axes.set_xlabel(across, fontproperties=_sized(font, 9), color=GREY, **PLAIN)
    axes.set_ylabel(up, fontproperties=_sized(font, 9), color=GREY, **PLAIN)
    axes.grid(axis="y", linewidth=0.5, color="0.9")
    axes.set_axisbelow(True)
    axes.yaxis.set_major_locator(MaxNLocator(6))
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set(linewidth=0.5, color=FRAME)
    axes.tick_params(width=0.5, color=FRAME)
    for label in [*axes.get_xticklabels(), *axes.get_yticklabels()]:
        label.set(fontproperties=_sized(font, 8), color=GREY)


def _legend(axes: Axes, names: Sequence[str]) -> None:
    """Beside the panels, where however many names hide nothing."""
    font = _sized(font_for("".join(names)), 8)
    box = axes.figure.legend(handles=axes.get_legend_handles_labels()[0], prop=font, frameon=False, loc="outside right upper")
    for text in box.get_texts():
        text.set(**PLAIN)


def _sized(font: FontProperties, size: float) -> FontProperties:
    font = font.copy()
    font.set_size(size)
    return font
