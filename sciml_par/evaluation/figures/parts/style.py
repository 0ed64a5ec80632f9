"""The look of every figure: sizes of text, colours, line styles, and names as mathematics."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sciml_par.evaluation.figures.parts.data import Prediction

INK = "#222222"
NEUTRAL = "#7f7f7f"
EXACT: dict[str, Any] = {"color": "#bdbdbd", "linewidth": 4.0, "solid_capstyle": "round"}
EXACT |= {"zorder": 1.5}
DASHED: dict[str, Any] = {"color": INK, "linewidth": 0.9, "linestyle": (0, (4.0, 2.5))}
DASHED |= {"zorder": 3.0}
"""An exact solution or a true value that lies over a line."""

TIMES = ("t", "time", "$t$")
"""Names of coordinates that are drawn as time."""

VECTORS = (
    *(("u", "v", "w"), ("u_x", "u_y", "u_z"), ("ux", "uy", "uz")),
    *(("v_x", "v_y", "v_z"), ("vx", "vy", "vz")),
)
"""Names of components that are those of a vector in space, or the first two in the plane."""

MEAN, ERROR = "#0072b2", "#d55e00"  # the mean of members with its band; the error of it
BAND = 0.3  # opacity of a band
TRUE_ERROR, ESTIMATED, LARGEST = "|true error|", "|estimated error|", "largest |estimate|"
PALE: dict[str, Any] = {"color": "#8a8a8a", "linewidth": 0.5, "alpha": 0.7, "zorder": 2.0}
"""A member among others."""

DOTS: dict[str, Any] = {"s": 9.0, "color": "white", "edgecolors": INK, "linewidths": 0.6}
DOTS |= {"zorder": 3.0, "clip_on": False}
"""The places of observations on a map."""

STAR: dict[str, Any] = {"marker": "*", "s": 40.0, "zorder": 4.0, "clip_on": False}
"""The place of a least value."""

# Okabe and Ito (2008), "Color universal design", without yellow, which is faint as a line on
# white; the wine red of Paul Tol's "muted" scheme (2021) stands in for it.
PALETTE = (
    *("#0072b2", "#d55e00", "#009e73", "#cc79a7"),
    *("#e69f00", "#56b4e9", "#000000", "#882255"),
)
# Five patterns against eight colours: 40 members before a pair repeats.
DASHES: tuple[Any, ...] = (
    "-",
    (0, (5.0, 1.5)),
    (0, (1.2, 1.2)),
    (0, (5.0, 1.5, 1.2, 1.5)),
    (0, (8.0, 1.5, 2.5, 1.5)),
)
COUNT = "{x:,.0f}"
"""The format of steps and ranks at an axis."""
_FEW = 4  # members whose lines are drawn at full width

_RC: Any = {
    "text.usetex": False,
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "mathtext.fontset": "dejavusans",
    **dict.fromkeys(("font.size", "axes.labelsize", "axes.titlesize"), 8.0),
    **dict.fromkeys(("legend.fontsize", "xtick.labelsize", "ytick.labelsize"), 7.0),
    "figure.titlesize": 9.0,
    **dict.fromkeys(("axes.linewidth", "xtick.major.width", "ytick.major.width"), 0.6),
    **dict.fromkeys(("xtick.minor.width", "ytick.minor.width"), 0.4),
    "lines.linewidth": 1.3,
    "path.simplify": True,
    **dict.fromkeys(("figure.facecolor", "axes.facecolor", "savefig.facecolor"), "white"),
    "savefig.bbox": None,
    "axes.unicode_minus": True,
    **dict.fromkeys(("pdf.fonttype", "ps.fonttype"), 42),
}


@contextmanager
def paper_style() -> Iterator[None]:
    """Draw in this package's style, within this context or in the function that it decorates."""
    import matplotlib  # slow, and results use the names of this module

    with matplotlib.rc_context(_RC):
        yield


def color_of(index: int) -> str:
    """Return the colour of member or shard `index`."""
    return PALETTE[index % len(PALETTE)]


def line_of(index: int, *, of: int = 1) -> dict[str, Any]:
    """Return colour, dash pattern and width of member `index` of `of` members in a panel."""
    return {
        "color": color_of(index),
        "linestyle": DASHES[index % len(DASHES)],
        "linewidth": 1.3 if of <= _FEW else 0.9,
        "zorder": 2.5,
    }


def symbol(name: str) -> str:
    """Return a name for use between two "$": a letter, with an index or without, in italics."""
    if name[0] == name[-1] == "$":
        return name[1:-1]
    letter, _, index = name.partition("_")
    if len(letter) == 1 and letter.isalpha() and (index.isalnum() or not index):
        return letter + (f"_{{{_upright(index)}}}" if index else "")
    return _upright(name)


def of_time(curve: Prediction) -> list[int]:
    """Return which coordinates are the time."""
    return [i for i, name in enumerate(curve.coordinates) if name.lower() in TIMES]


def vector_of(curve: Prediction) -> list[int] | None:
    """Return which components are a vector in the plane or space of the coordinates, or None."""
    d, names = curve.dimension, list(curve.fields)
    if d not in (2, 3) or of_time(curve):
        return None
    found = next((each[:d] for each in VECTORS if set(each[:d]) <= set(names)), None)
    return [names.index(name) for name in found] if found else None


def math(name: str) -> str:
    """Return a name as mathematics."""
    return f"${symbol(name)}$"


def coordinate(curve: Prediction, axis: int) -> str:
    """Return the label of an axis over a coordinate."""
    return math(curve.coordinates[axis])


def value_label(curve: Prediction, component: int, *, coordinates: int = 1) -> str:
    """Return the label u(x), or u(x, t), of an axis."""
    names = ", ".join(symbol(name) for name in curve.coordinates[:coordinates])
    return f"${symbol(curve.fields[component])}({names})$"


def error_label(curve: Prediction, component: int) -> str:
    """Return the label |u − u*| of a pointwise error."""
    return "$|{0} - {0}^*|$".format(symbol(curve.fields[component]))


def exact_label(curve: Prediction, component: int) -> str:
    """Return the label u* of an exact solution."""
    return f"${symbol(curve.fields[component])}^*$"


def _upright(word: str) -> str:
    if word.isdigit():
        return word
    return "\\text{" + re.sub(r"([\\{}])", r"\\\1", word) + "}"
