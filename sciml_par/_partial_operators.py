"""Linear combinations of partial derivatives of one order, Σ c_α ∂^α, and their algebra.

Such an operator is a homogeneous polynomial in ∂_1, …, ∂_d. It is written as pairs of axes in
ascending order and a coefficient: ∂³/∂x²∂y + 2 ∂³/∂y³ is ``(((0, 0, 1), 1.0), ((1, 1, 1), 2.0))``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from math import factorial, prod
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par.errors import InputError

Axes = tuple[int, ...]
Operator = tuple[tuple[Axes, float], ...]

HIGHEST = 4
"""The highest order that Taylor propagation carries."""


def operator_of(terms: Mapping[Axes, float] | Iterable[tuple[Axes, float]]) -> Operator:
    """Return an operator in the one form that equal operators share: sorted, without zeros."""
    pairs = terms.items() if isinstance(terms, Mapping) else terms
    found: dict[Axes, float] = {}
    for axes, coefficient in pairs:
        key = tuple(sorted(int(axis) for axis in axes))
        found[key] = found.get(key, 0.0) + float(coefficient)
    return tuple(sorted((axes, c) for axes, c in found.items() if c != 0.0))


def order_of(operator: Operator) -> int:
    """Return the number of derivatives in each term."""
    return len(operator[0][0])


def lowered(operator: Operator, axis: int) -> Operator:
    """Return ∂P/∂ξ_axis of the polynomial P(ξ) of an operator P(∂); of one order less."""
    return operator_of(
        (axes[:place] + axes[place + 1 :], c * axes.count(axis))
        for axes, c in operator
        if axis in axes
        for place in [axes.index(axis)]
    )


def divided(operator: Operator) -> dict[int, Operator]:
    """Return operators Q_i with P = Σ_i ∂_i Q_i: each term is given to the first of its axes."""
    axes_first = sorted({axes[0] for axes, _ in operator})
    return {
        i: operator_of((axes[1:], c) for axes, c in operator if axes[0] == i) for i in axes_first
    }


def scaled(operator: Operator, factors: Sequence[float] | npt.NDArray[np.float64]) -> Operator:
    """Return the operator in z where x = z/s: ∂/∂x_i = s_i ∂/∂z_i."""
    return operator_of(
        (axes, c * prod(float(factors[axis]) for axis in axes)) for axes, c in operator
    )


def operator_of_matrix(matrix: npt.NDArray[np.float64]) -> Operator:
    """Return Σ_ij C_ij ∂²/∂x_i∂x_j of a matrix C: [d, d]."""
    d = len(matrix)
    return operator_of(((i, j), float(matrix[i, j])) for i in range(d) for j in range(d))


def matrix_of(operator: Operator, d: int) -> npt.NDArray[np.float64]:
    """Return the symmetric C: [d, d] of an operator Σ_ij C_ij ∂²/∂x_i∂x_j of second order."""
    matrix = np.zeros((d, d))
    for (i, j), c in operator:
        matrix[i, j] += c / 2
        matrix[j, i] += c / 2
    return matrix


def multiplicity(axes: Axes) -> int:
    """Return α! of the multi-index α that counts each axis: 2 of ∂³/∂x²∂y."""
    return prod(factorial(count) for count in Counter(axes).values())


def checked_operators(operators: Any, d: int, what: str) -> tuple[Operator, ...]:
    """Return operators of third and fourth order in d dimensions in their one form."""
    try:
        found = tuple(operator_of(each) for each in operators)
    except (TypeError, ValueError):
        found = ((),)
    for operator in found:
        orders = {len(axes) for axes, _ in operator}
        inside = all(0 <= axis < d for axes, _ in operator for axis in axes)
        if len(orders) != 1 or not orders <= {3, 4} or not inside:
            raise InputError(
                f"{what}: higher must be operators of third or fourth order, each a mapping of "
                f"axes in 0..{d - 1} to coefficients such as {{(0, 0, 0): 1.0}}, all terms of one "
                f"order; got {operators!r}"
            )
    return found


def splits(axes: Axes) -> Iterator[tuple[Axes, Axes]]:
    """Yield the terms of the product rule: which derivatives the first factor has, and the rest."""
    places = range(len(axes))
    for count in range(len(axes) + 1):
        for some in combinations(places, count):
            rest = tuple(axes[p] for p in places if p not in some)
            yield tuple(axes[p] for p in some), rest
