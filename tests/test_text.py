"""The wording that messages share."""

from __future__ import annotations

import pytest

from sciml_par._text import counted, listed, one_line, rank_list


def test_counted() -> None:
    found = [counted(n, "rank") for n in (0, 1, 2, 1000)]
    assert found == ["0 ranks", "1 rank", "2 ranks", "1,000 ranks"]


def test_listed() -> None:
    assert [listed(list(text)) for text in ("a", "ab", "abc")] == ["a", "a and b", "a, b and c"]


@pytest.mark.parametrize(
    ("ranks", "text"),
    [
        ([3], "rank 3"),
        ([0, 1], "ranks 0 and 1"),
        ([0, 2, 5], "ranks 0, 2 and 5"),
        ([0, 1, 2, 3], "ranks 0, 1, 2 and 3"),
        (range(64), "ranks 0–63"),
        ([0, *range(2, 9)], "ranks 0 and 2–8"),
        ([*range(5), 6, 8], "ranks 0–4, 6 and 8"),
    ],
    ids=str,
)
def test_ranks(ranks: list[int], text: str) -> None:
    assert rank_list(ranks) == text


def test_one_line() -> None:
    errors = [ValueError("a\n  b"), ValueError(), ValueError("x" * 999)]
    assert [one_line(error) for error in errors] == ["a b", "ValueError", "x" * 299 + "…"]
