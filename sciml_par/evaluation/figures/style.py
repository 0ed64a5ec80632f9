"""The look of every figure: sizes, colours, line styles, and the grid of panels."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from sciml_par.evaluation.figures.legend import Entry, legend_rows, outside_legend

ONE_COLUMN = 3.5  # inches: the width of a column of a two-column paper
TWO_COLUMNS = 7.2  # inches: the width of its page

INK = "#222222"
EXACT: dict[str, Any] = {
    "color": "#bdbdbd",
    "linewidth": 4.0,
    "solid_capstyle": "round",
    "zorder": 1.5,
}

# Okabe and Ito (2008), "Color universal design", without yellow, which is faint as a line on
# white; the wine red of Paul Tol's "muted" scheme (2021) stands in for it.
PALETTE = (
    "#0072b2",
    "#d55e00",
    "#009e73",
    "#cc79a7",
    "#e69f00",
    "#56b4e9",
    "#000000",
    "#882255",
)
# Five patterns against eight colours: 40 members before a pair repeats.
DASHES: tuple[Any, ...] = (
    "-",
    (0, (5.0, 1.5)),
    (0, (1.2, 1.2)),
    (0, (5.0, 1.5, 1.2, 1.5)),
    (0, (8.0, 1.5, 2.5, 1.5)),
)
_FEW = 4  # members whose lines are drawn at full width

_RC: Any = {
    "text.usetex": False,
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "mathtext.fontset": "dejavusans",
    "font.size": 8.0,
    "axes.labelsize": 8.0,
    "axes.titlesize": 8.0,
    "figure.titlesize": 9.0,
    "legend.fontsize": 7.0,
    "xtick.labelsize": 7.0,
    "ytick.labelsize": 7.0,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.minor.width": 0.4,
    "ytick.minor.width": 0.4,
    "lines.linewidth": 1.3,
    "figure.facecolor": "white",
    "axes.facecolor": "white",
    "savefig.facecolor": "white",
    "savefig.bbox": None,
    "axes.unicode_minus": True,
    "pdf.fonttype": 42,
    "ps.fonttype": 42,
}


def paper_style() -> AbstractContextManager[None]:
    """Return a context in which Matplotlib draws in this package's style; it restores the old."""
    return matplotlib.rc_context(_RC)


def color_of(index: int) -> str:
    """Return the colour of member or shard `index`."""
    return PALETTE[index % len(PALETTE)]


def line_of(index: int, *, of: int = 1) -> dict[str, Any]:
    """Return colour, dash pattern and width of member `index` `of` so many in a panel."""
    return {
        "color": color_of(index),
        "linestyle": DASHES[index % len(DASHES)],
        "linewidth": 1.3 if of <= _FEW else 0.9,
        "zorder": 2.5,
    }


@dataclass(frozen=True)
class Grid:
    """A figure and its panels, filled row by row; the last cells of it may be empty."""

    figure: Figure
    panels: dict[tuple[int, int], Axes]
    rows: int
    columns: int
    panel_height: float

    @property
    def width(self) -> float:
        """Width of the figure in inches."""
        return ONE_COLUMN if self.columns == 1 else TWO_COLUMNS

    def label_x(self, text: str) -> None:
        """Label the x axis of each panel without another below; drop the others' tick labels."""
        for (row, column), axes in self.panels.items():
            lowest = (row + 1, column) not in self.panels
            axes.tick_params(labelbottom=lowest)
            axes.set_xlabel(text if lowest else "")
            # Above an empty cell, the labels have room; reserving more would spread the rows.
            axes.xaxis.set_in_layout(row + 1 == self.rows)

    def finish(self, entries: Sequence[Entry], *, title: str | None) -> Figure:
        """Add title and legend outside the panels, and give the figure its final size."""
        height = self.rows * self.panel_height
        if title:
            self.figure.suptitle(title)
            height += 0.22
        if entries:
            outside_legend(self.figure, entries, self.width)
            height += 0.08 + 0.155 * legend_rows(entries, self.width)
        self.figure.set_size_inches(self.width, height)
        return self.figure


def make_grid(rows: int, columns: int, cells: Sequence[tuple[int, int]], height: float) -> Grid:
    """Return a figure with a panel, `height` inches tall, in each of the `cells` (row, column)."""
    # Figure, not pyplot: no window, no list of open figures, no choice of a display.
    figure = Figure()
    FigureCanvasAgg(figure)
    # Without a panel to the right, half of the last tick label reaches over the panel's edge.
    figure.set_layout_engine("constrained", w_pad=0.04 if len(cells) == rows * columns else 0.1)
    layout = figure.add_gridspec(rows, columns)
    panels = {cell: figure.add_subplot(layout[cell]) for cell in cells}
    return Grid(figure, panels, rows, columns, height)
