"""Points and weights of integrals over boxes and other domains."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from sciml_par._checks import checked_integer, is_integer
from sciml_par.errors import InputError
from sciml_par.problems.conditions.drawing import faces_named
from sciml_par.problems.domains.box import Box
from sciml_par.problems.domains.domain import Domain

FloatArray = npt.NDArray[np.float64]
Rule = tuple[FloatArray, FloatArray]


def gauss_legendre(lower: npt.ArrayLike, upper: npt.ArrayLike, n: int | Sequence[int]) -> Rule:
    """Return the tensor product of Gauss–Legendre rules on a box: x: [q, k], weights: [q].

    With n_i points on axis i it is exact for polynomials of degree 2 n_i − 1 in x_i.

    Parameters
    ----------
    lower, upper : arrays [k]
    n : int or sequence of k ints
        Points in all, met about by equally many on each axis; or those on each axis.
    """
    low, high = np.atleast_1d(np.asarray(lower, float)), np.atleast_1d(np.asarray(upper, float))
    k = low.size
    if k == 0:
        return np.empty((1, 0)), np.ones(1)
    axes = [np.polynomial.legendre.leggauss(count) for count in _per_axis(n, k)]
    nodes = [a + (b - a) * (z + 1) / 2 for a, b, (z, _) in zip(low, high, axes, strict=True)]
    factors = [(b - a) / 2 * w for a, b, (_, w) in zip(low, high, axes, strict=True)]
    x = np.stack(np.meshgrid(*nodes, indexing="ij"), axis=-1).reshape(-1, k)
    weights = np.stack(np.meshgrid(*factors, indexing="ij"), axis=-1).reshape(-1, k).prod(axis=1)
    return x, weights


def over_domain(domain: Domain, n: int | Sequence[int]) -> Rule:
    """x: [q, d] and weights [q] of ∫ f dx over a domain.

    Gauss–Legendre on a box; elsewhere equal weights at about n points of a Sobol' sequence, whose
    error decreases about like 1/n.
    """
    if isinstance(domain, Box):
        return gauss_legendre(domain.lower, domain.upper, n)
    if not np.isfinite(domain.volume):
        raise InputError(
            f"the volume of {domain} is not known, and with it the weights of an integral over it; "
            f"give them as IntegralCondition(..., points=(x, weights))"
        )
    count = checked_integer(n, "the number of points of an integral over this domain", least=1)
    x = domain.interior(count, method="sobol", rng=np.random.default_rng(0))
    return x, np.full(len(x), domain.volume / len(x))


def over_faces(domain: Domain, names: Sequence[str], n: int | Sequence[int]) -> Rule:
    """x: [q, d] and weights [q] of ∫ f dS over faces of a box, n points on each."""
    if not isinstance(domain, Box):
        raise InputError(
            f"integrals over faces are those of a Box; for {domain} give points=(x, weights)"
        )
    rules = [at_position(domain, f.axis, f.position, n) for f in faces_named(domain, names)]
    return np.concatenate([x for x, _ in rules]), np.concatenate([w for _, w in rules])


def at_position(domain: Domain, axis: int, position: float, n: int | Sequence[int]) -> Rule:
    """x: [q, d] and weights [q] of an integral over all axes of a box but one."""
    if not isinstance(domain, Box):
        raise InputError(
            f"integrals at one value of a coordinate are those of a Box; for {domain} give "
            f"points=(x, weights)"
        )
    others = [i for i in range(domain.dimension) if i != axis]
    x, weights = gauss_legendre(domain.lower[others], domain.upper[others], n)
    return np.insert(x, axis, position, axis=1), weights


def _per_axis(n: int | Sequence[int], k: int) -> list[int]:
    if is_integer(n):
        total = checked_integer(n, "points of an integral", least=1)
        return [max(1, round(total ** (1 / k)))] * k
    counts = list(n)  # type: ignore[arg-type]
    if len(counts) != k:
        raise InputError(
            f"points of an integral must be a number, or {k}, one for each axis it goes over, got "
            f"{n!r}"
        )
    return [checked_integer(count, "points of an integral per axis", least=1) for count in counts]
