"""The user's names in a figure: as mathematics, and cut to the width that there is."""

from __future__ import annotations

import re
import textwrap
from typing import Any

import matplotlib
from matplotlib.cbook import is_math_text
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path

from sciml_par.evaluation.figures.parts.data import Prediction

# A line may end at spaces and after dashes, but not within mathematics.
_BREAKS = re.compile(r"(\$[^$]+\$|\s+|[^\s–$-]+[–-])")


def symbol(name: str) -> str:
    """Return a name for use between two "$": a letter, with an index or without, in italics."""
    if name[0] == name[-1] == "$":
        return name[1:-1]
    letter, _, index = name.partition("_")
    if len(letter) == 1 and letter.isalpha() and (index.isalnum() or not index):
        return letter + (f"_{{{_upright(index)}}}" if index else "")
    return _upright(name)


def coordinate(curve: Prediction, axis: int) -> str:
    """Return the label of an axis over a coordinate."""
    return f"${symbol(curve.coordinates[axis])}$"


def value_label(curve: Prediction, component: int) -> str:
    """Return the label u(x) of an axis over one coordinate."""
    return f"${symbol(curve.fields[component])}({symbol(curve.coordinates[0])})$"


def error_label(curve: Prediction, component: int) -> str:
    """Return the label |u − u*| of a pointwise error."""
    name = symbol(curve.fields[component])
    return f"$|{name} - {_starred(name)}|$"


def exact_label(curve: Prediction, component: int) -> str:
    """Return the label u* of an exact solution."""
    return f"${_starred(symbol(curve.fields[component]))}$"


def fit(text: str, inches: float, size: str, *, lines: int = 1) -> str:
    """Break a text into lines no wider than `inches`; what is too much for them ends in "…"."""
    settings: Any = matplotlib.rcParams
    font = FontProperties(size=settings[size])
    mathematics = is_math_text(text)
    wide = text_to_path.get_text_width_height_descent(text, font, ismath=mathematics)[0] / 72.0
    if wide <= inches:
        return text
    letters = max(4, int(len(text) * inches / wide))
    wrapper = textwrap.TextWrapper(letters, break_long_words=not mathematics)
    wrapper.wordsep_re = _BREAKS
    broken = wrapper.wrap(text)
    if len(broken) > lines:
        kept = broken[lines - 1] if mathematics else broken[lines - 1][: letters - 1].rstrip()
        broken[lines - 1] = kept + "…"
    return "\n".join(broken[:lines])


def _upright(word: str) -> str:
    if word.isdigit():
        return word
    return "\\text{" + re.sub(r"([\\{}])", r"\\\1", word) + "}"


def _starred(name: str) -> str:
    return f"{name}^*"
