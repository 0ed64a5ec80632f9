"""The page that `sciml-par info` prints: sections of rows, a label and a text each."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

PLAIN, GOOD, ODD, BAD = "", "green", "yellow", "bold red"
"""How a row is to be taken, as the colour in which a terminal shows it."""

_INDENT = 2
_GAP = 2
_LABELS = range(16, 29)
"""How wide the labels of a section may be; one that is wider has its text below."""

_WIDTH_WITHOUT_TERMINAL = 80
_WIDEST = 100
_NARROWEST_TEXT = 20


@dataclass(frozen=True)
class Row:
    """One line of the page, or a few where the text is long.

    Attributes
    ----------
    label : of what the text speaks; empty where it goes on from the row above.
    text : plain text; it is broken at spaces.
    mood : PLAIN, GOOD, ODD or BAD.
    hang : how far the second line of a long text is set in.
    """

    label: str
    text: str
    mood: str = PLAIN
    hang: int = 0


@dataclass(frozen=True)
class Section:
    """Rows under a title; its mood is that of the title."""

    title: str
    rows: Sequence[Row]
    mood: str = PLAIN


def print_page(sections: Sequence[Section]) -> None:
    """Print sections: with colours on a terminal, as plain text elsewhere (local)."""
    at_terminal = sys.stdout.isatty()
    # The texts hold brackets and colons, which are not meant as rich's.
    console = Console(markup=False, emoji=False, highlight=False)
    width = min(console.width, _WIDEST) if at_terminal else _WIDTH_WITHOUT_TERMINAL
    for line in page(sections, width=width):
        if at_terminal:
            console.print(line, soft_wrap=True)
        else:
            print(line.plain)
    sys.stdout.flush()


def page(sections: Sequence[Section], *, width: int) -> Iterator[Text]:
    """The lines of the page, none of them wider than `width` unless a single word is (local)."""
    for section in sections:
        yield Text(section.title, style=section.mood or "bold")
        label_width = _label_width(section)
        for row in section.rows:
            yield from _lines(row, width, label_width)
        if section.rows:
            yield Text("")


def _label_width(section: Section) -> int:
    fitting = [len(row.label) for row in section.rows if len(row.label) in _LABELS]
    return max([_LABELS.start, *fitting])


def _lines(row: Row, width: int, label_width: int) -> Iterator[Text]:
    margin = _INDENT + label_width + _GAP
    label = f"{'':{_INDENT}}{row.label}"
    if len(row.label) > label_width:
        yield Text(label)
        label = ""
    for line in _wrapped(row, max(width - margin, _NARROWEST_TEXT)):
        yield Text(f"{label:{margin}}").append(line, style=row.mood)
        label = ""


def _wrapped(row: Row, width: int) -> list[str]:
    lines = textwrap.wrap(
        row.text,
        width,
        subsequent_indent=" " * row.hang,
        # Names and commands stay whole.
        break_long_words=False,
        break_on_hyphens=False,
    )
    return lines or [""]
