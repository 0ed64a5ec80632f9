"""Functions of the layer that grows from a side of the domain at the initial time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._partial_operators import Axes, splits
from sciml_par.errors import InputError
from sciml_par.networks.propagation.singular_function import (
    Arithmetic,
    Derivative,
    FloatArray,
    SingularFunction,
)

_EARLIEST = 1e-30
"""The least τ, since derivatives have no value at the initial time on the side itself."""
_MOMENTS = (0, -1), (1, 0), (3, 1), (5, 2)
"""The powers p and k of s^p τ^−k g, with g = exp(−s²/4τ)/√τ, which are G, H₁, H₃ and H₅."""
_THICK, _ROUNDING = 6.0, 1e-9
"""s/2√τ from which on erfc is below rounding; and that of times."""


@dataclass(frozen=True)
class LayerFunction(SingularFunction):
    r"""E = erfc(s/2√τ) and G = √τ exp(−s²/4τ), s = w · (x − c), τ = (t − t0)/T.

    Solutions of ∂u/∂t = Σ a_ij ∂²u/∂x_i∂x_j + … are so beside a side w · (x − c) = 0, with
    T Σ a_ij w_i w_j = 1, where initial and boundary values contradict each other, or the equation:
    the functions iⁿerfc of such layers are sums of both times powers of s and τ (Carslaw, Jaeger,
    Conduction of Heat in Solids, 1959, §2.5 and appendix II). Where u is multiplied with
    itself, E², E G and G² are so, too: E² = ∂²w/∂s² − ∂w/∂τ of w = s²E²/2 − 2 s E G/√π + 2 G²/π.
    Where T is another one, E changes by H₁ = η exp(−η²/4), η = s/√τ: T ∂E/∂T = H₁/(2√π); where it
    varies along x, terms of the order τ^(n/2) are η^j exp(−η²/4) with j < 3n, as of H₃ and H₅.

    Attributes
    ----------
    at : c and t0, in the units of x and t, the last coordinate.
    across : w, in the inverse units of x.
    duration : T, in the units of t.
    degree : of polynomials in s and √τ that the functions are multiplied by.
    until : the time from which on the functions are not used.
    products : whether there are E², E G and G².
    changes : how many there are of H₁, H₃ and H₅, the same with η³ and η⁵ in place of η.
    """

    across: tuple[float, ...]
    duration: float
    degree: int
    until: float = math.inf
    products: bool = False
    changes: int = 0

    def __post_init__(self) -> None:
        if len(self.across) != len(self.at) - 1 or not any(self.across) or not self.duration > 0:
            raise InputError(
                f"LayerFunction: expected at= to have one number more than across=, which is not "
                f"zero, and duration > 0; got at={self.at}, across={self.across} and duration="
                f"{self.duration}."
            )

    @property
    def count(self) -> int:
        return 2 + self.changes + 3 * self.products

    @property
    def label(self) -> tuple[Any, ...]:
        return *self.at, *self.across, self.duration

    def rows_of(self, exponents: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        across = exponents[:, :-1] @ (np.array(self.across) != 0.0)
        return np.flatnonzero(across + 2 * exponents[:, -1] <= self.degree)

    def near(self, low: FloatArray, high: FloatArray) -> npt.NDArray[np.bool_]:
        w, at, end = np.array(self.across), np.array(self.at), high[:, -1]
        ends = np.stack([low[:, :-1] - at[:-1], high[:, :-1] - at[:-1]]) * w
        thickness = 2 * np.sqrt(np.maximum(end - at[-1], 0.0) / self.duration)
        in_time = end <= self.until + _ROUNDING * self.duration
        return np.asarray(in_time & (ends.min(axis=0).sum(axis=1) < _THICK * thickness))

    def _derivatives(self, x: Sequence[Any], order: int, of: Arithmetic) -> Derivative:
        s = sum(w * (x[i] - self.at[i]) for i, w in enumerate(self.across))
        tau = (x[len(self.across)] - self.at[-1]) / self.duration
        tau = of.where(tau < _EARLIEST, _EARLIEST, tau)
        # ∂ⁿg of g = exp(−s²/4τ)/√τ, from 2τ g′ = −s g; and ∂erfc = −g/√π, both by s.
        g = [of.exp(-(s**2) / (4 * tau)) / tau**0.5]
        g.append(-s * g[0] / (2 * tau))
        for n in range(1, 2 * order):
            g.append(-(s * g[n] + n * g[n - 1]) / (2 * tau))
        erfc = [of.erfc(s / (2 * tau**0.5)), *(-each / math.sqrt(math.pi) for each in g)]

        def derivative(axes: Axes) -> Any:
            # erfc and g solve ∂/∂τ = ∂²/∂s².
            by_time = axes.count(len(self.across))
            slopes = (self.across[axis] for axis in axes if axis < len(self.across))
            factor = math.prod(slopes, start=self.duration**-by_time)
            by_s = len(axes) - by_time
            moments = (moment(p, -k, by_s, by_time) for p, k in _MOMENTS[: 1 + self.changes])
            values = erfc[by_s + 2 * by_time], *moments
            return factor * of.stack(values) if factor else None

        def moment(p: int, q: int, by_s: int, by_time: int) -> Any:
            # ∂^a/∂s^a ∂^b/∂τ^b of s^p τ^q g.
            return sum(
                math.comb(by_s, i)
                * math.perm(p, i)
                * s ** (p - i)
                * math.comb(by_time, j)
                * math.prod(range(q - j + 1, q + 1))
                * tau ** float(q - j)
                * g[by_s - i + 2 * (by_time - j)]
                for i in range(min(by_s, p) + 1)
                for j in range(by_time + 1)
            )

        def with_products(axes: Axes) -> Any:
            single, products = derivative(axes), []
            for part, rest in splits(axes):
                a, b = derivative(part), derivative(rest)
                if a is not None and b is not None:
                    products.append(of.joined([a[:1] * b[:2], a[1:2] * b[1:2]]))
            return None if single is None else of.joined([single, sum(products)])

        return with_products if self.products else derivative
