"""A figure's panels in a grid, with title and legend outside of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.legend_handler import HandlerTuple
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from sciml_par.evaluation.figures.parts.names import fit

ONE_COLUMN = 3.5  # inches: the width of a column of a two-column paper
TWO_COLUMNS = 7.2  # inches: the width of its page
MOST_ENTRIES = 24
_TITLE_HEIGHT = 0.22  # inches
_LINE = 0.14  # inches, of a title's further lines
_GAP = 0.08  # inches, above the legend
_SYMBOL = 0.3  # inches, for a symbol at the end of a title
_BESIDE = 0.6  # inches, for the labels and scales beside the panels

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
        wide = column_width(self.columns) - 0.1
        short = fit(text, wide - (_SYMBOL if symbol else 0.0), "axes.titlesize", lines=2)
        axes.set_title(f"{short}: {symbol}" if symbol else short)

    def finish(self, entries: Sequence[Entry], *, title: str | None) -> Figure:
        """Add title and legend, and make the figure higher by what titles and legend need."""
        height = self.figure.get_figheight()
        for row in range(self.rows):
            titles = [axes.get_title() for (at, _), axes in self.panels.items() if at == row]
            height += _LINE * any("\n" in text for text in titles)
        if title:
            title = fit(title, self.figure.get_figwidth() - 0.2, "figure.titlesize", lines=3)
            self.figure.suptitle(title)
            height += _TITLE_HEIGHT + _LINE * title.count("\n")
        if entries:
            legend = _legend_below(self.figure, _shortened(entries))
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


def _shortened(entries: Sequence[Entry]) -> list[Entry]:
    """At most `MOST_ENTRIES` entries; then one says how many more there are."""
    left_out = len(entries) - MOST_ENTRIES
    return [*entries[:MOST_ENTRIES], *([text_entry(f"and {left_out} more")] * (left_out > 0))]


def _legend_below(figure: Figure, entries: Sequence[Entry]) -> Legend:
    """Draw the legend below all panels, in the fewest rows that fit into the figure's width."""
    handles, texts = zip(*entries, strict=True)
    labels = [fit(text, figure.get_figwidth() - 0.6, "legend.fontsize") for text in texts]
    for rows in range(1, len(entries) + 1):
        legend = figure.legend(
            handles,
            labels,
            loc="outside lower center",
            ncols=-(-len(entries) // rows),
            frameon=False,
            handlelength=2.4,
            columnspacing=1.2,
            borderaxespad=0.2,
            handler_map={
                tuple: HandlerTuple(ndivide=1),
                list: HandlerTuple(ndivide=None, pad=0.2),
            },
        )
        if legend.get_window_extent().width <= figure.bbox.width:
            break
        if rows < len(entries):
            legend.remove()
    return legend
