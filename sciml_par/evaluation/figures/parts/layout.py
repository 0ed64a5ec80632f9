"""A figure's panels in a grid, with the title above and one legend below."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

ONE_COLUMN, TWO_COLUMNS = 3.5, 7.2
"""Inches: the width of a column of a two-column paper, and of its page."""
_MOST_ENTRIES = 24  # of the legend
_LETTER = 0.56 / 72  # inches of a letter, for each point of its size
# A line may end at spaces and after dashes, but not within mathematics.
_BREAKS = re.compile(r"(\$[^$]+\$|\s+|[^\s–$-]+[–-])")
_LINE, _KEY = 0.15, 0.42  # inches of a line of text, and of an entry of the legend without text
_BESIDE = 0.6  # inches, for the labels and scales next to the panels

Cell = tuple[int, int]


@dataclass(frozen=True)
class Grid:
    """A figure and its panels by (row, column); the last cells may be empty."""

    figure: Figure
    panels: dict[Cell, Axes]
    columns: int

    def title(self, axes: Axes, text: str, symbol: str = "", *, wide: float | None = None) -> None:
        """Put "text: symbol" above a panel `wide` inches; a text of more than two lines is cut."""
        wide = (wide or column_width(self.columns)) - (0.3 if symbol else 0.0)
        axes.set_title(": ".join(filter(None, (wrap(text, wide, size=8.0, lines=2), symbol))))

    def finish(self, title: str | None, *, x: str = "") -> Figure:
        """Add title and legend, higher by what they take, and label the lowest panels with `x`."""
        last = max(row for row, _ in self.panels)
        for (row, column), axes in self.panels.items() if x else ():
            lowest = (row + 1, column) not in self.panels
            axes.tick_params(labelbottom=lowest)
            axes.set_xlabel(x if lowest else "")
            # Above an empty cell, the labels have room; reserving more would spread the rows.
            axes.xaxis.set_in_layout(row == last)
        figure, height = self.figure, 0.0
        if title:
            title = wrap(title, figure.get_figwidth() - 0.1, size=9.0, lines=3)
            figure.suptitle(title)
            height += _LINE * (title.count("\n") + 1.5)
        height += _legend_below(figure, list(self.panels.values()))
        titles = {row: axes.get_title() for (row, _), axes in self.panels.items()}
        height += _LINE * sum("\n" in text for text in titles.values())
        figure.set_figheight(figure.get_figheight() + height)
        return figure


def column_width(columns: int) -> float:
    """Return about how wide a panel is, in inches."""
    return ((ONE_COLUMN if columns == 1 else TWO_COLUMNS) - _BESIDE) / columns


def make_grid(
    heights: Sequence[float],
    columns: int,
    cells: Sequence[Cell] | None = None,
    *,
    engine: Any = "constrained",
    projection: str | None = None,
    wide: Sequence[int] = (),
) -> Grid:
    """Return a figure with a panel in each of the `cells`, by default in all; rows in inches.

    A row that is `wide` has one panel over all columns.
    """
    full = [(r, c) for r in range(len(heights)) for c in range(1 if r in wide else columns)]
    # Figure, not pyplot: no window, no list of open figures, no choice of a display.
    figure = Figure((ONE_COLUMN if columns == 1 else TWO_COLUMNS, sum(heights)))
    FigureCanvasAgg(figure)
    # Without a panel to the right, half of the last tick label reaches over the panel's edge.
    figure.set_layout_engine(engine, w_pad=0.04 if len(cells or full) == len(full) else 0.1)
    layout = figure.add_gridspec(len(heights), columns, height_ratios=heights)
    panels: dict[Cell, Axes] = {
        (r, c): figure.add_subplot(
            layout[r, slice(None) if r in wide else c], projection=projection
        )
        for r, c in cells or full
    }
    return Grid(figure, panels, columns)


def make_panels(count: int, columns: int, height: float) -> Grid:
    """Return a figure of `count` panels, row by row, `height` inches each."""
    columns = min(columns, count)
    cells = [divmod(i, columns) for i in range(count)]
    return make_grid([height] * (cells[-1][0] + 1), columns, cells)


def wrap(text: str, inches: float, *, size: float, lines: int = 1) -> str:
    """Break a text of `size` points into lines, not within mathematics; the rest is "…"."""
    letters = max(4, int(inches / (_LETTER * size)))
    wrapper = textwrap.TextWrapper(
        letters, max_lines=lines, placeholder="…", break_long_words="$" not in text
    )
    wrapper.wordsep_re = _BREAKS
    return wrapper.fill(text)


def _legend_below(figure: Figure, panels: Sequence[Axes]) -> float:
    """Draw one legend of all labels, in the order of drawing; return its height in inches."""
    found: dict[str, Any] = {}
    for axes in panels:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    if not found:
        return 0.0
    entries, left_out = list(found.items())[:_MOST_ENTRIES], len(found) - _MOST_ENTRIES
    if left_out > 0:
        entries.append((f"and {left_out} more", Line2D([], [], alpha=0.0)))
    width = figure.get_figwidth() - 0.1
    labels = [wrap(label, width - _KEY, size=7.0) for label, _ in entries]
    widths = np.array([_KEY + len(label) * _LETTER * 7.0 for label in labels])
    count = len(labels)
    # Matplotlib fills columns, each as wide as its widest entry; a ragged last one looks odd.
    columns = next(
        n
        for n in range(count, 0, -1)
        if n == 1
        or (n == -(-count // -(-count // n)))
        and sum(part.max() for part in np.array_split(widths, n)) <= width
    )
    look: Any = {"handlelength": 2.4, "columnspacing": 1.2, "borderaxespad": 0.2, "frameon": False}
    handles = [handle for _, handle in entries]
    legend = figure.legend(handles, labels, loc="outside lower center", ncols=columns, **look)
    return 0.08 + legend.get_window_extent().height / figure.dpi
