"""Taylor propagation of derivatives of third and fourth order.

An operator of order q with constant coefficients is P(∂) for a homogeneous polynomial P(ξ) of
degree q. With P_k = ∂P/∂ξ_k, P_kl = ∂²P/∂ξ_k∂ξ_l and so on, and with z_k = ∂_k z, the formula of
Faà di Bruno for a = σ(z), its partitions of the same shape summed, is

    q = 3:  P(∂)a = σ′ P(∂)z + σ″ Σ_k z_k P_k(∂)z + σ‴ P(∇z)
    q = 4:  P(∂)a = σ′ P(∂)z + σ″ (Σ_k z_k P_k(∂)z + ⅛ Σ_ijkl P_ijkl z_ij z_kl)
                    + σ‴ ½ Σ_ij z_ij P_ij(∇z) + σ⁗ P(∇z)

So a layer carries, besides the operators asked for, their derivatives P_k(∂) by ξ, each as one
quantity, down to the first order; second derivatives of an operator of fourth order are carried one
by one, because their products are needed. u_xxx takes four quantities, the biharmonic operator in
two dimensions nine. Directional derivatives, from which mixed ones can be interpolated (Griewank,
Utke and Walther 2000, Math. Comp. 69, 1117), would take seventeen for it: four directions of four
coefficients, and the value.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations, product
from typing import Any

from sciml_par._partial_operators import (
    Axes,
    Operator,
    lowered,
    multiplicity,
    operator_of,
    operator_of_matrix,
    order_of,
)
from sciml_par._tensorflow import tf
from sciml_par.networks.layers.activation import LINEAR
from sciml_par.networks.propagation.taylor import (
    Coefficients,
    Layer,
    recorded_first,
    together,
    with_bias,
)

Product = tuple[int, ...]
Combination = tuple[tuple[Product, float], ...]
"""Σ c · a product of quantities, by their numbers."""


def jet_of_layers(
    layers: Sequence[Layer], x: tf.Tensor, second: Coefficients, higher: Sequence[Operator]
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
    """As `taylor.jet_of_layers`, and operators of third and fourth order.

    Parameters
    ----------
    layers : sequence of Layer
    x : tensor [n, d]
    second : array [K, d, d]
    higher : sequence of operators
        Q of them, one at least.

    Returns
    -------
    u : tensor [n, m]
    du : tensor [n, m, d]
    L : tensor [n, m, K]
    H : tensor [n, m, Q]
    """
    d = second.shape[1]
    wanted = tuple(operator_of_matrix(matrix) for matrix in second)
    carried = _carried(d, wanted, tuple(higher))
    first, *others = layers
    quantities = _first_layer(first, x, carried)
    for layer in others[:-1]:
        quantities = _hidden_layer(layer, quantities, carried)
    if others and others[-1].activation is LINEAR:
        found = _last_layer(others[-1], quantities, carried)
    else:
        for layer in others[-1:]:
            quantities = _hidden_layer(layer, quantities, carried)
        found = dict(enumerate(quantities))
    u = found[0]
    n = tf.shape(x)[0] if x.shape[0] is None else x.shape[0]
    results = [_combined(found, each, u) for each in carried.results]
    return (
        tf.transpose(u),
        together([found[1 + i] for i in range(d)], u, n),
        together(results[: len(wanted)], u, n),
        together(results[len(wanted) :], u, n),
    )


@dataclass(frozen=True)
class _Carried:
    """What the layers carry: number 0 is the value, 1 … d the first derivatives, then operators.

    Attributes
    ----------
    d : the dimension.
    operators : from number d + 1 on, of second order first, then of third and of fourth.
    forms : P(∇z) of each operator.
    rules : for each operator, what σ″, σ‴ (and so on) are multiplied with; σ′ is with P(∂)z.
    results : each operator that was asked for, as a combination of what is carried.
    """

    d: int
    operators: tuple[Operator, ...]
    forms: tuple[Combination, ...]
    rules: tuple[tuple[Combination, ...], ...]
    results: tuple[Combination, ...]

    @property
    def order(self) -> int:
        return order_of(self.operators[-1])

    @property
    def used(self) -> list[int]:
        """The numbers of what is asked for: value, first derivatives and parts of the results."""
        places = {place for result in self.results for (place,), _ in result}
        return sorted({*range(1 + self.d), *places})


@lru_cache(maxsize=256)
def _carried(d: int, second: tuple[Operator, ...], higher: tuple[Operator, ...]) -> _Carried:
    fourth = _chosen([p for p in higher if order_of(p) == 4])
    third = _chosen([p for p in higher if order_of(p) == 3] + _all_lowered(fourth, d))
    below = _all_lowered(third, d)
    singles = {axes for p in _all_lowered(_all_lowered(fourth, d), d) for axes, _ in p}
    seconds = _chosen([p for p in second if p] + below, singles)
    known = _Known(d, (*seconds, *third, *fourth))
    return _Carried(
        d,
        known.operators,
        tuple(known.form(p) for p in known.operators),
        tuple(known.rule(p) for p in known.operators),
        tuple(known.combination(p) for p in (*second, *higher)),
    )


def _all_lowered(operators: Iterable[Operator], d: int) -> list[Operator]:
    found = (lowered(p, k) for p in operators for k in range(d))
    return [p for p in found if p]


def _chosen(needed: Sequence[Operator], singles: Iterable[Axes] = ()) -> tuple[Operator, ...]:
    """What to carry of one order, so that each operator needed is a combination of it.

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
        """As Σ c · a quantity."""
        if not operator:
            return ()
        whole = self._places.get(_normalized(operator))
        if whole is not None:
            return (((whole,), operator[0][1]),)
        return tuple(((self._places[(axes, 1.0),],), c) for axes, c in operator)

    def form(self, operator: Operator) -> Combination:
        """P(∇z)."""
        return tuple((tuple(1 + axis for axis in axes), c) for axes, c in operator)

    def rule(self, operator: Operator) -> tuple[Combination, ...]:
        """What σ″, σ‴, … are multiplied with."""
        order = order_of(operator)
        if order == 2:
            return (self.form(operator),)
        with_slopes = self._with_slopes(operator)
        if order == 3:
            return (with_slopes, self.form(operator))
        pairs, curved = self._pairs(operator), self._curved(operator)
        return (_sum([*with_slopes, *pairs]), curved, self.form(operator))

    def _with_slopes(self, operator: Operator) -> Combination:
        """Σ_k z_k P_k(∂)z."""
        return _sum(
            ((1 + k, *places), c)
            for k in range(self.d)
            for places, c in self.combination(lowered(operator, k))
        )

    def _pairs(self, operator: Operator) -> Combination:
        """⅛ Σ_ijkl P_ijkl z_ij z_kl, P_ijkl being c α! for the term c ∂^α that has these axes."""
        terms = []
        for axes, c in operator:
            share = c * multiplicity(axes) / 8
            for first, second, third, fourth in set(permutations(axes)):
                pair = (self._single(first, second), self._single(third, fourth))
                terms.append((pair, share))
        return _sum(terms)

    def _curved(self, operator: Operator) -> Combination:
        """½ Σ_ij z_ij P_ij(∇z)."""
        return _sum(
            ((self._single(i, j), *(1 + axis for axis in axes)), c / 2)
            for i, j in product(range(self.d), repeat=2)
            for axes, c in lowered(lowered(operator, i), j)
        )

    def _single(self, i: int, j: int) -> int:
        return self._places[operator_of([((i, j), 1.0)])]


def _sum(terms: Iterable[tuple[Product, float]]) -> Combination:
    """Equal products together."""
    found: dict[Product, float] = {}
    for places, c in terms:
        key = tuple(sorted(places))
        found[key] = found.get(key, 0.0) + c
    return tuple(sorted((key, c) for key, c in found.items() if c != 0.0))


def _first_layer(layer: Layer, x: tf.Tensor, carried: _Carried) -> list[tf.Tensor]:
    """Here ∂_i z is a row of W at every point, and P(∂)z = 0."""
    weight = layer.weight
    z = tf.linalg.matmul(weight, x, transpose_a=True, transpose_b=True)
    rows = [weight[i][:, None] for i in range(carried.d)]
    if layer.record is not None:
        z, *rows = recorded_first(layer.record, x, z, rows)
    a, *slopes = layer.activation.up_to(carried.order, with_bias(z, layer.bias))
    products = _Products([z, *rows])
    return [
        a,
        *(slopes[0] * row for row in rows),
        *(
            slopes[order_of(p) - 1] * products.combined(form)
            for p, form in zip(carried.operators, carried.forms, strict=True)
        ),
    ]


def _hidden_layer(layer: Layer, before: Sequence[tf.Tensor], carried: _Carried) -> list[tf.Tensor]:
    z, *parts = layer.multiply(before)
    a, *slopes = layer.activation.up_to(carried.order, with_bias(z, layer.bias))
    products = _Products([z, *parts])
    after = [a, *(slopes[0] * part for part in parts[: carried.d])]
    for part, rule in zip(parts[carried.d :], carried.rules, strict=True):
        terms = [
            slope * products.combined(combination)
            for slope, combination in zip(slopes[1:], rule, strict=False)
            if combination
        ]
        after.append(sum(terms, slopes[0] * part))
    return after


def _last_layer(
    layer: Layer, before: Sequence[tf.Tensor], carried: _Carried
) -> dict[int, tf.Tensor]:
    # A product each, so that the compiler can drop those that the residual does not read.
    parts = layer.multiply([before[place] for place in carried.used], apart=True)
    found = dict(zip(carried.used, parts, strict=True))
    found[0] = with_bias(found[0], layer.bias)
    return found


def _combined(found: dict[int, tf.Tensor], combination: Combination, like: tf.Tensor) -> tf.Tensor:
    terms = [_times(c, found[place]) for (place,), c in combination]
    return sum(terms[1:], terms[0]) if terms else tf.zeros_like(like)


class _Products:
    """Products of a layer's quantities, each computed once."""

    def __init__(self, quantities: Sequence[tf.Tensor]) -> None:
        self._found: dict[Product, Any] = {(i,): q for i, q in enumerate(quantities)}

    def combined(self, combination: Combination) -> tf.Tensor:
        terms = [_times(c, self._of(places)) for places, c in combination]
        return sum(terms[1:], terms[0])

    def _of(self, places: Product) -> tf.Tensor:
        if places not in self._found:
            self._found[places] = self._of(places[:-1]) * self._found[places[-1:]]
        return self._found[places]


def _times(factor: float, tensor: tf.Tensor) -> tf.Tensor:
    return tensor if factor == 1.0 else factor * tensor
