"""Which tests run on how many ranks, and how few cases of a product show every pair of values."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import pytest

ALL = "--all"

_ARGUMENTS = frozenset(("least", "most", "reason"))


def add_option(parser: pytest.Parser) -> None:
    parser.addoption(
        ALL,
        action="store_true",
        help="also run the cases marked `all`, and on every number of ranks the tests for which "
        "fewer are enough",
    )


def runs_here(item: pytest.Item, ranks: int) -> bool:
    """Return whether a run of `ranks` ranks has this test."""
    everything = item.config.getoption(ALL)
    if item.get_closest_marker("all") and not everything:
        return False
    if item.get_closest_marker("launches") and ranks > 1:
        return False
    least, most = _bounds(item)
    if everything and most > 1:
        most = math.inf
    return least <= ranks <= most


def is_repeated(item: pytest.Item) -> bool:
    """Return whether the test is one of a training that the run on two ranks has as well."""
    return item.path.parent.name == "training" and _bounds(item)[1] > 1


def _bounds(item: pytest.Item) -> tuple[int, float]:
    """Return the least and the greatest number of ranks.

    What a test says takes the place of what its module says. Where a test and a parameter say
    something, the stricter one counts.
    """
    marks = list(item.iter_markers_with_node("ranks"))
    for _, mark in marks:
        if mark.args or not mark.kwargs.keys() <= _ARGUMENTS or not mark.kwargs.get("reason"):
            raise pytest.UsageError(
                f"{item.nodeid}: expected ranks(least=1, most=None, reason='...'), all by name and "
                f"with a reason; got {mark}"
            )
    found = {}
    for name in ("least", "most"):
        told = [(node, mark.kwargs[name]) for node, mark in marks if name in mark.kwargs]
        found[name] = [number for node, number in told if node is told[0][0]]
    return max(found["least"], default=1), min(found["most"], default=math.inf)


def pairwise(indirect: Sequence[str] = (), **parameters: Sequence[Any]) -> pytest.MarkDecorator:
    """Parametrize a test over the product of the parameters.

    A few cases that show every pair of values of two parameters are run always; the others are
    marked `all`. A value may be a `pytest.param` of one value with marks.
    """
    marked = list(itertools.product(*(map(_without_marks, each) for each in parameters.values())))
    cases = [[value for value, _ in case] for case in marked]
    quick = covering(cases)
    return pytest.mark.parametrize(
        list(parameters),
        [
            pytest.param(
                *cases[i],
                marks=[
                    *itertools.chain.from_iterable(marks for _, marks in case),
                    *([] if i in quick else [pytest.mark.all]),
                ],
            )
            for i, case in enumerate(marked)
        ],
        indirect=list(indirect),
    )


def in_groups(
    names: str, values: Sequence[Any], cases: Sequence[tuple[Any, ...]]
) -> pytest.MarkDecorator:
    """Parametrize a test by a value and a list of cases, all of which it does in one function.

    The lists show every pair of a value and an entry of a case, and every pair of two entries that
    `cases` has; the lists of what they leave out are marked `all`.

    Parameters
    ----------
    names : those of the value and of the list, as in "context, cases".
    values : what the cases are done with; some may be a `pytest.param` of one value with marks.
    """
    quick = covering([(i, *case) for i in range(len(values)) for case in cases])
    parameters = []
    for i, value in enumerate(values):
        plain, marks = _without_marks(value)
        numbers = [(i * len(cases) + k, case) for k, case in enumerate(cases)]
        chosen = [case for number, case in numbers if number in quick]
        others = [case for number, case in numbers if number not in quick]
        name = getattr(plain, "__name__", str(plain))
        parameters.append(pytest.param(plain, chosen, marks=marks, id=name))
        if others:
            parameters.append(
                pytest.param(plain, others, marks=[*marks, pytest.mark.all], id=f"{name}, others")
            )
    return pytest.mark.parametrize(names, parameters)


def _without_marks(value: Any) -> tuple[Any, Sequence[Any]]:
    if isinstance(value, type(pytest.param())):
        (plain,) = value.values
        return plain, value.marks
    return value, ()


def covering(cases: Sequence[Sequence[Any]]) -> set[int]:
    """Return the numbers of a few of `cases` that show every pair of two columns' values.

    Always the first of those that add most: all ranks find the same ones.
    """
    missing = [_pairs(case) for case in cases]
    chosen: set[int] = set()
    while True:
        best = max(range(len(cases)), key=lambda i: len(missing[i]))
        if not missing[best]:
            return chosen
        chosen.add(best)
        shown = frozenset(missing[best])
        missing = [pairs - shown if pairs else pairs for pairs in missing]


def _pairs(case: Sequence[Any]) -> set[Any]:
    """Return the pairs of entries, each with its column."""
    return set(itertools.combinations(enumerate(map(_key, case)), 2))


def _key(value: Any) -> Any:
    """Return a hashable value itself, and the identity of others."""
    return value if value.__hash__ else id(value)
