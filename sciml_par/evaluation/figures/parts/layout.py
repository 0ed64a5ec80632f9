"""A figure's panels in a grid, with title and legend outside of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import TextWrapper
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.legend_handler import HandlerTuple
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

ONE_COLUMN = 3.5  # inches: the width of a column of a two-column paper
TWO_COLUMNS = 7.2  # inches: the width of its page
MOST_ENTRIES = 24
_TITLE_HEIGHT = 0.22  # inches
_LINE = 0.14  # inches, of a title's further lines
_GAP = 0.08  # inches, above the legend
_SYMBOL = 0.3  # inches, for a symbol at the end of a title
_BESIDE = 0.6  # inches, for the labels and scales next to the panels
_SPACING = 0.12  # inches between two columns of the legend
_KEY = 0.31 + _SPACING  # inches of an entry of the legend without its text
_NARROW = re.compile(r"[fijlrtI.,:;'|()\[\] -]")  # letters of some 0.37 em, others have 0.64
# A line may end at spaces and after dashes, but not within mathematics.
_BREAKS = re.compile(r"(\$[^$]+\$|\s+|[^\s–$-]+[–-])")

Entry = tuple[Any, str]
"""What the legend shows (an artist, or several) and its text."""


@dataclass(frozen=True)
class Grid:
    """A figure and its panels, filled row by row; the last cells of it may be empty."""

    figure: Figure
    panels: dict[tuple[int, int], Axes]
    rows: int
    columns: int

    def label_x(self, text: str) -> None:
        """Label the x axis of each panel without another below; drop the others' tick labels."""
        for (row, column), axes in self.panels.items():
            lowest = (row + 1, column) not in self.panels
            axes.tick_params(labelbottom=lowest)
            axes.set_xlabel(text if lowest else "")
            # Above an empty cell, the labels have room; reserving more would spread the rows.
            axes.xaxis.set_in_layout(row + 1 == self.rows)

    def title(self, axes: Axes, text: str, symbol: str = "") -> None:
        """Put a title above a panel, in two lines or cut if it is wider than the panel."""
        wide = column_width(self.columns) - 0.1 - (_SYMBOL if symbol else 0.0)
        short = wrap(text, wide, size=8.0, lines=2)
        axes.set_title(f"{short}: {symbol}" if symbol else short)

    def finish(self, entries: Sequence[Entry], *, title: str | None) -> Figure:
        """Add title and legend, and make the figure higher by what titles and legend need."""
        height = self.figure.get_figheight()
        for row in range(self.rows):
            titles = [axes.get_title() for (at, _), axes in self.panels.items() if at == row]
            height += _LINE * any("\n" in text for text in titles)
        if title:
            title = wrap(title, self.figure.get_figwidth() - 0.2, size=9.0, lines=3)
            self.figure.suptitle(title)
            height += _TITLE_HEIGHT + _LINE * title.count("\n")
        if entries:
            legend = _legend_below(self.figure, entries)
            height += _GAP + legend.get_window_extent().height / self.figure.dpi
        self.figure.set_figheight(height)
        return self.figure


def column_width(columns: int, beside: float = 0.0) -> float:
    """Return about how wide a panel is, in inches, with so much `beside` the panels of a row."""
    return ((ONE_COLUMN if columns == 1 else TWO_COLUMNS) - _BESIDE - beside) / columns


def make_grid(
    heights: Sequence[float],
    columns: int,
    cells: Sequence[tuple[int, int]],
    *,
    engine: Literal["constrained", "compressed"] = "constrained",
) -> Grid:
    """Return a figure with a panel in each of the `cells` (row, column)."""
    rows = len(heights)
    # Figure, not pyplot: no window, no list of open figures, no choice of a display.
    figure = Figure((ONE_COLUMN if columns == 1 else TWO_COLUMNS, sum(heights)))
    FigureCanvasAgg(figure)
    # Without a panel to the right, half of the last tick label reaches over the panel's edge.
    figure.set_layout_engine(engine, w_pad=0.04 if len(cells) == rows * columns else 0.1)
    layout = figure.add_gridspec(rows, columns, height_ratios=heights)
    panels = {cell: figure.add_subplot(layout[cell]) for cell in cells}
    return Grid(figure, panels, rows, columns)


def draw_line(axes: Axes, x: np.ndarray, y: np.ndarray, *, label: str, **look: Any) -> Entry:
    """Draw a line, or one point, and return its entry."""
    marker = "o" if len(x) == 1 else ""
    return axes.plot(x, y, label=label, marker=marker, **look)[0], label


def line_entry(label: str, **look: Any) -> Entry:
    """Return the entry of a line."""
    look.pop("zorder", None)
    return Line2D([], [], **look), label


def patch_entry(label: str, color: str, alpha: float) -> Entry:
    """Return the entry of a shaded region."""
    return Patch(facecolor=color, alpha=alpha, linewidth=0.0), label


def text_entry(label: str) -> Entry:
    """Return an entry without a mark."""
    return Line2D([], [], alpha=0.0), label


def wrap(text: str, inches: float, *, size: float, lines: int = 1) -> str:
    """Break a text of `size` points into lines; what is too much for them ends in "…"."""
    wide = _width(text, size)
    if wide <= inches:
        return text
    letters = max(4, int(len(text) * inches / wide))
    mathematics = text.count("$") > 1
    wrapper = TextWrapper(letters, break_long_words=not mathematics)
    wrapper.wordsep_re = _BREAKS
    broken = wrapper.wrap(text)
    if len(broken) > lines:
        last = broken[lines - 1]
        broken[lines - 1] = (last if mathematics else last[: letters - 1].rstrip()) + "…"
    return "\n".join(broken[:lines])


def _width(text: str, size: float) -> float:
    """Estimate the width in inches of a text of `size` points; a command is one letter."""
    letters = re.sub(r"[${}^_]", "", re.sub(r"\\\w+ ?", "x", text))
    narrow = len(_NARROW.findall(letters))
    return (0.64 * (len(letters) - narrow) + 0.37 * narrow) * size / 72.0


def _legend_below(figure: Figure, entries: Sequence[Entry]) -> Legend:
    """Draw a legend of at most `MOST_ENTRIES` entries and the number of the others."""
    left_out = len(entries) - MOST_ENTRIES
    if left_out > 0:
        entries = [*entries[:MOST_ENTRIES], text_entry(f"and {left_out} more")]
    width = figure.get_figwidth() - 0.1
    labels = [wrap(text, width - _KEY, size=7.0) for _, text in entries]
    widths = [_width(label, 7.0) + _KEY for label in labels]
    columns = (
        len(entries)
        if sum(widths) - _SPACING <= width
        else max(1, int((width + _SPACING) / max(widths)))
    )
    return figure.legend(
        [handle for handle, _ in entries],
        labels,
        loc="outside lower center",
        ncols=columns,
        frameon=False,
        handlelength=2.4,
        columnspacing=1.2,
        borderaxespad=0.2,
        handler_map={tuple: HandlerTuple(ndivide=1), list: HandlerTuple(ndivide=None, pad=0.2)},
    )
