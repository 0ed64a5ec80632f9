"""The page of `sciml-par info` taken apart."""

from __future__ import annotations


def sections_of(out: str) -> dict[str, str]:
    """The page by its titles, each section in one line of single spaces."""
    found: dict[str, str] = {}
    title = ""
    for line in out.splitlines():
        if line and not line.startswith(" "):
            title = line.partition(":")[0]
            found[title] = line.partition(":")[2]
        else:
            found[title] += f" {line}"
    return {title: " ".join(text.split()) for title, text in found.items()}
