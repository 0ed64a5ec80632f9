"""What fuzz.py draws: values that a parameter may have, and values that it may not.

Most arguments of a call are of the right kind, so that the wrong ones are met where they are used,
and not all at the first check.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st

INTEGERS = st.sampled_from([0, 1, 2, 3, 5, 8, -1, -7, 64])
NUMBERS = st.sampled_from([0.0, 0.5, 1.0, 2, 1e-3, -1.0, 3.5, 1e-30, 1e30])
TEXTS = st.sampled_from(["", "x", "y", "t", "u", "left", "right", "tanh", "grid", "é\n", "a" * 200])

WRONG = st.one_of(
    st.sampled_from(
        [
            *(None, True, False, 0, 1, -1, 2.5, math.nan, math.inf, -math.inf, 2**63, 10**30),
            *("", "x", "nan", b"x", (), [], {}, set(), 1j, object(), int, len, lambda *a: None),
            *([1, "a"], [[1, 2], [3]], [None], {"x": 1}, {1: 2}, range(3), slice(2), ...),
        ]
    ),
    st.builds(lambda: np.zeros((0, 2))),
    st.builds(lambda: np.array([["a", "b"]])),
    st.builds(lambda: np.array(3.0)),
    st.builds(lambda: np.full((3, 2), np.nan)),
    st.builds(lambda: np.zeros((2, 2, 2))),
    st.builds(lambda: np.array([1, 2], dtype=object)),
    st.builds(lambda: (i for i in range(3))),
)
"""One of each kind of thing that stands where something else should."""

Values = dict[str, Any]


def right_by_annotation(annotation: str) -> Any:
    """Draw values that a parameter's annotation allows."""
    kinds = {
        "float": NUMBERS,
        "Number": NUMBERS,
        "Value": NUMBERS,
        "int": INTEGERS,
        "bool": st.booleans(),
        "str": TEXTS,
        "Sequence[str]": st.lists(TEXTS, max_size=3),
        "Sequence[float]": st.lists(NUMBERS, max_size=3),
        "Sequence[int]": st.lists(INTEGERS, max_size=3),
        "Component": st.sampled_from([0, 1, "u", "p"]),
        "npt.ArrayLike": st.lists(st.lists(NUMBERS, min_size=2, max_size=2), max_size=4),
        "ArrayLike": st.lists(NUMBERS, max_size=4),
        "np.ndarray": st.lists(NUMBERS, max_size=4).map(np.array),
    }
    found = [kinds[part] for part in map(str.strip, annotation.split("|")) if part in kinds]
    return st.one_of(found) if found else WRONG


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    if inspect.isclass(function) and function.__init__ is not object.__init__:
        # Keras gives its classes a __new__ of any arguments, which inspect may take in its place.
        return list(inspect.signature(function.__init__).parameters.values())[1:]
    return list(inspect.signature(function).parameters.values())


def arguments_of(
    function: Callable[..., Any], known: Values | None = None, *, wrong: float = 0.15
) -> Any:
    """Draw (positional, by keyword) for a call of `function`.

    Parameters
    ----------
    known : what to draw for a parameter by its name, where the annotation does not say enough.
    wrong : how likely an argument is of another kind. What is to be true or false is left out:
        in Python nearly everything is one of them.
    """
    parameters = [
        each
        for each in _parameters(function)
        if each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL)
    ]
    right = {
        each.name: (known or {}).get(each.name, right_by_annotation(str(each.annotation)))
        for each in parameters
    }

    @st.composite
    def draw_call(draw: Any) -> tuple[list[Any], Values]:
        positional, named = [], {}
        for each in parameters:
            chance = draw(st.floats(0, 1))
            if each.default is not each.empty and chance < 0.5:
                continue
            is_wrong = chance > 1 - wrong and str(each.annotation) != "bool"
            value = draw(WRONG if is_wrong else right[each.name])
            if each.kind is each.POSITIONAL_ONLY:
                positional.append(value)
            else:
                named[each.name] = value
        return positional, named

    return draw_call()
