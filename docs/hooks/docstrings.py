"""The docstrings of sciml_par as the site is to show them.

In a list of parameters or attributes most entries have their description behind the colon, the type
being in the signature; NumPy's form, which griffe reads, has the type there.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

_SECTION = re.compile(r"^(Parameters|Attributes)\n-+\n((?:.+\n?|\n(?! *\w+\n-))*)", re.MULTILINE)
_ENTRY = re.compile(r"^(?P<names>[*\w][*\w, ]*) : (?P<text>.+)$", re.MULTILINE)
_TYPE = re.compile(
    r"(array|tensors?|str|int|float|bool|number|callable|sequence|tuple|list|dict)\b"
    r"|\{|[A-Z]\w*(\[|,| or |$)|[a-z_]+\.[\w.]+$"
)


def with_descriptions(text: str) -> str:
    """The docstring with each description on lines of its own, below the name."""

    def entry(found: re.Match[str]) -> str:
        if _TYPE.match(found["text"]):
            return found[0]
        return f"{found['names']}\n    {found['text']}"

    return _SECTION.sub(lambda section: _ENTRY.sub(entry, section[0]), text)


class Descriptions(griffe.Extension):
    """What griffe calls for everything that it has read."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring:
            obj.docstring.value = with_descriptions(obj.docstring.value)
