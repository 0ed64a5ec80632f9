"""Legends outside the axes, so that they never cover data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.legend_handler import HandlerTuple
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

# What the legend shows (an artist, or a tuple of artists) and its text.
Entry = tuple[Any, str]

MOST_ENTRIES = 24
_LETTER = 0.052  # inches: mean width of a letter at the legend's font size
_HANDLE = 0.43  # inches: the line before the text, and the gap after it
_EDGE = 0.05  # inches
_MOST_COLUMNS = 6


def legend_rows(entries: Sequence[Entry], width: float) -> int:
    """Return the number of rows that the legend takes in a figure of `width` inches."""
    shown = _shortened(entries)
    return -(-len(shown) // _columns(shown, width))


def outside_legend(figure: Figure, entries: Sequence[Entry], width: float) -> None:
    """Draw the legend below all panels; of more than `MOST_ENTRIES` entries, say how many more."""
    shown = _shortened(entries)
    figure.legend(
        [handle for handle, _ in shown],
        [label for _, label in shown],
        loc="outside lower center",
        ncols=_columns(shown, width),
        frameon=False,
        handlelength=2.4,
        columnspacing=1.2,
        borderaxespad=0.2,
        handler_map={tuple: HandlerTuple(ndivide=1), list: HandlerTuple(ndivide=None, pad=0.2)},
    )


def line_entry(label: str, **look: Any) -> Entry:
    """Return the entry of a line."""
    look.pop("zorder", None)
    return Line2D([], [], **look), label


def patch_entry(label: str, color: str, alpha: float) -> Entry:
    """Return the entry of a shaded region."""
    return Patch(facecolor=color, alpha=alpha, linewidth=0.0), label


def tick_entry(label: str, color: str) -> Entry:
    """Return the entry of the ticks that mark training points."""
    return Line2D([], [], color=color, linestyle="", marker="|", markersize=6.0), label


def _shortened(entries: Sequence[Entry]) -> list[Entry]:
    shown = list(entries[:MOST_ENTRIES])
    if len(entries) > len(shown):
        shown.append((Line2D([], [], alpha=0.0), f"and {len(entries) - len(shown)} more"))
    return shown


def _columns(entries: Sequence[Entry], width: float) -> int:
    widths = [_HANDLE + _LETTER * len(label) for _, label in entries]
    for columns in range(min(_MOST_COLUMNS, len(widths)), 1, -1):
        if _total(widths, columns) <= width - _EDGE:
            return columns
    return 1


def _total(widths: Sequence[float], columns: int) -> float:
    """Return the legend's width: Matplotlib fills columns first, each as wide as it must be."""
    parts = np.array_split(np.asarray(widths), columns)
    return float(sum(part.max() for part in parts))
