"""Points and weights of integrals over boxes and other domains."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sciml_par._checks import checked_integer, is_integer
from sciml_par.errors import InputError
from sciml_par.problems.checks.arrays import FloatArray
from sciml_par.problems.conditions.plane_quadrature import over_plane
from sciml_par.problems.domains.box import Box, gauss_legendre
from sciml_par.problems.domains.domain import Domain

Rule = tuple[FloatArray, FloatArray]


def on_box(lower: FloatArray, upper: FloatArray, n: int | Sequence[int]) -> Rule:
    """Return Gauss–Legendre points x: [q, k] and weights [q]; one n is met about by all axes."""
    if not len(lower):
        return np.empty((1, 0)), np.ones(1)
    return gauss_legendre(lower, upper, _per_axis(n, len(lower)))


def over_domain(domain: Domain, n: int | Sequence[int]) -> Rule:
    """Return x: [q, d] and weights [q] of ∫ f dx over a domain.

    Gauss–Legendre on a box, and in the plane between lines and ellipses; elsewhere equal weights at
    about n points of a Sobol' sequence, whose error decreases about like 1/n.
    """
    if isinstance(domain, Box):
        return on_box(domain.lower, domain.upper, n)
    if is_integer(n) and (found := over_plane(domain, int(n))) is not None:  # type: ignore[arg-type]
        return found
    if not np.isfinite(domain.volume):
        raise InputError(
            f"the volume of {domain} is not known, and with it the weights of an integral over it; "
            f"give them as IntegralCondition(..., points=(x, weights))"
        )
    count = checked_integer(n, "the number of points of an integral over this domain", least=1)
    x = domain.interior(count, method="sobol", rng=np.random.default_rng(0))
    return x, np.full(len(x), domain.volume / len(x))


def over_faces(domain: Domain, names: Sequence[str], n: int | Sequence[int]) -> Rule:
    """Return x: [q, d] and weights [q] of ∫ f dS over faces of a box, n points on each."""
    if not isinstance(domain, Box):
        raise InputError(
            f"integrals over faces are those of a Box; for {domain} give points=(x, weights)"
        )
    faces = [surface.face for surface in domain.named_surfaces(names)]
    rules = [at_position(domain, face.axis, face.position, n) for face in faces]
    return np.concatenate([x for x, _ in rules]), np.concatenate([w for _, w in rules])


def at_position(domain: Domain, axis: int, position: float, n: int | Sequence[int]) -> Rule:
    """Return x: [q, d] and weights [q] of an integral over all axes of a box but one."""
    if not isinstance(domain, Box):
        raise InputError(
            f"integrals at one value of a coordinate are those of a Box; for {domain} give "
            f"points=(x, weights)"
        )
    others = [i for i in range(domain.dimension) if i != axis]
    x, weights = on_box(domain.lower[others], domain.upper[others], n)
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
