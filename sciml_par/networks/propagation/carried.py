"""Which quantities Taylor propagation carries through a layer, and how they make the next ones.

An operator of order q with constant coefficients is P(∂) for a homogeneous polynomial P(ξ) of
degree q. With P_k = ∂P/∂ξ_k, P_kl = ∂²P/∂ξ_k∂ξ_l and so on, and with z_k = ∂_k z, the formula of
Faà di Bruno for a = σ(z), its partitions of the same shape summed, is

    q = 2:  P(∂)a = σ′ P(∂)z + σ″ P(∇z)
    q = 3:  P(∂)a = σ′ P(∂)z + σ″ Σ_k z_k P_k(∂)z + σ‴ P(∇z)
    q = 4:  P(∂)a = σ′ P(∂)z + σ″ (Σ_k z_k P_k(∂)z + ⅛ Σ_ijkl P_ijkl z_ij z_kl)
                    + σ‴ ½ Σ_ij z_ij P_ij(∇z) + σ⁗ P(∇z)

So a layer carries, besides the operators asked for, their derivatives P_k(∂) by ξ, each as one
quantity, down to the first order; second derivatives of an operator of fourth order are carried one
by one, because their products are needed. The Laplacian takes one quantity besides the first
derivatives, u_xxx two, and the biharmonic operator in two dimensions six. Directional derivatives,
from which mixed ones can be interpolated (Griewank, Utke and Walther 2000, Math. Comp. 69, 1117),
would take seventeen quantities for it in all, instead of nine.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations, product

from sciml_par._partial_operators import (
    Axes,
    Operator,
    lowered,
    multiplicity,
    operator_of,
    order_of,
)

Product = tuple[int, ...]
Combination = tuple[tuple[Product, float], ...]
"""Σ c · a product of quantities, by their numbers."""


@dataclass(frozen=True)
class Carried:
    """The quantities of a layer: 0 is the value, 1 … d the first derivatives, then operators.

    Attributes
    ----------
    d : the dimension.
    operators : from number d + 1 on, of second order first, then of third and of fourth.
    rules : for each operator, the factors of σ″, σ‴ and so on; that of σ′ is P(∂)z.
    results : each operator that was asked for, as a combination of what is carried.
    count_of_second : how many of the results are of second order; they come first.
    """

    d: int
    operators: tuple[Operator, ...]
    rules: tuple[tuple[Combination, ...], ...]
    results: tuple[Combination, ...]
    count_of_second: int

    @property
    def order(self) -> int:
        """The highest order of the derivatives."""
        return order_of(self.operators[-1]) if self.operators else 1

    @property
    def used(self) -> list[int]:
        """The numbers of what is asked for: value, first derivatives and parts of the results."""
        places = {place for result in self.results for (place,), _ in result}
        return sorted({*range(1 + self.d), *places})


@lru_cache(maxsize=256)
def carried_for(d: int, second: tuple[Operator, ...], higher: tuple[Operator, ...]) -> Carried:
    """Return what to carry for operators of second order, and of third and fourth order."""
    fourth = _chosen([p for p in higher if order_of(p) == 4])
    third = _chosen([p for p in higher if order_of(p) == 3] + _all_lowered(fourth, d))
    below = _all_lowered(third, d)
    singles = {axes for p in _all_lowered(_all_lowered(fourth, d), d) for axes, _ in p}
    seconds = _chosen([p for p in second if p] + below, singles)
    known = _Known(d, (*seconds, *third, *fourth))
    return Carried(
        d,
        known.operators,
        tuple(known.rule(p) for p in known.operators),
        tuple(known.combination(p) for p in (*second, *higher)),
        len(second),
    )


def _all_lowered(operators: Iterable[Operator], d: int) -> list[Operator]:
    found = (lowered(p, k) for p in operators for k in range(d))
    return [p for p in found if p]


def _chosen(needed: Sequence[Operator], singles: Iterable[Axes] = ()) -> tuple[Operator, ...]:
    """Return what to carry of one order, so that the operators needed are combinations of it.

    Either the operators themselves, those once that differ by a factor, or the partial derivatives
    that they are made of, whichever are fewer; `singles` are carried one by one in any case.
    """
    alone = [operator_of({axes: 1.0}) for axes in sorted(singles)]
    rest = [p for p in needed if any(operator_of({axes: 1.0}) not in alone for axes, _ in p)]
    whole = list(dict.fromkeys(_normalized(p) for p in rest))
    parts = sorted({operator_of({axes: 1.0}) for p in rest for axes, _ in p} - set(alone))
    return (*alone, *(whole if len(whole) < len(parts) else parts))


def _normalized(operator: Operator) -> Operator:
    leading = operator[0][1]
    return tuple((axes, c / leading) for axes, c in operator)


class _Known:
    """Finds operators among those that are carried."""

    def __init__(self, d: int, operators: tuple[Operator, ...]) -> None:
        self.d, self.operators = d, operators
        self._places = {p: 1 + d + k for k, p in enumerate(operators)}

    def combination(self, operator: Operator) -> Combination:
        """Return the operator as Σ c · a quantity."""
        if not operator:
            return ()
        whole = self._places.get(_normalized(operator))
        if whole is not None:
            return (((whole,), operator[0][1]),)
        return tuple(((self._places[(axes, 1.0),],), c) for axes, c in operator)

    def form(self, operator: Operator) -> Combination:
        """Return P(∇z)."""
        return tuple((tuple(1 + axis for axis in axes), c) for axes, c in operator)

    def rule(self, operator: Operator) -> tuple[Combination, ...]:
        """Return the factors of σ″, σ‴, …"""
        order = order_of(operator)
        if order == 2:
            return (self.form(operator),)
        with_slopes = self._with_slopes(operator)
        if order == 3:
            return (with_slopes, self.form(operator))
        pairs, curved = self._pairs(operator), self._curved(operator)
        return (_sum([*with_slopes, *pairs]), curved, self.form(operator))

    def _with_slopes(self, operator: Operator) -> Combination:
        """Return Σ_k z_k P_k(∂)z."""
        return _sum(
            ((1 + k, *places), c)
            for k in range(self.d)
            for places, c in self.combination(lowered(operator, k))
        )

    def _pairs(self, operator: Operator) -> Combination:
        """Return ⅛ Σ_ijkl P_ijkl z_ij z_kl, P_ijkl being c α! for the term c ∂^α of these axes."""
        terms = []
        for axes, c in operator:
            share = c * multiplicity(axes) / 8
            for first, second, third, fourth in set(permutations(axes)):
                pair = (self._single(first, second), self._single(third, fourth))
                terms.append((pair, share))
        return _sum(terms)

    def _curved(self, operator: Operator) -> Combination:
        """Return ½ Σ_ij z_ij P_ij(∇z)."""
        return _sum(
            ((self._single(i, j), *(1 + axis for axis in axes)), c / 2)
            for i, j in product(range(self.d), repeat=2)
            for axes, c in lowered(lowered(operator, i), j)
        )

    def _single(self, i: int, j: int) -> int:
        return self._places[operator_of([((i, j), 1.0)])]


def _sum(terms: Iterable[tuple[Product, float]]) -> Combination:
    """Return a combination with equal products added."""
    found: dict[Product, float] = {}
    for places, c in terms:
        key = tuple(sorted(places))
        found[key] = found.get(key, 0.0) + c
    return tuple(sorted((key, c) for key, c in found.items() if c != 0.0))
