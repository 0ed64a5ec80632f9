"""The holes of a plane domain, and what solutions are made of around them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par.networks.propagation.hole_functions import HoleFunction
from sciml_par.training.solving.initial_layers import unit_points

Array = npt.NDArray[np.float64]

_ON_HOLE, _CLOSE = 200, 1e-6
"""Points of the boundary of a hole, and the step off it, relative to its size."""
_PER_DEGREE = 0.15
"""The degree of the polynomials by which a function of the order n is multiplied, for each degree
of polynomials more than n."""


@dataclass(frozen=True)
class Hole:
    """A hole of a plane domain, with a smooth boundary.

    Attributes
    ----------
    region : the closed hole.
    at : its centre.
    matrix : B, by whose ζ = B (x − c) the equation is Δu = f, and |ω| is 1 on the hole or more.
    square : f² of the ellipse in the plane of ζ that the hole is or resembles; see `HoleFunction`.
    share : of the boundary of the domain.
    """

    region: Any
    at: Array
    matrix: Array
    square: complex
    share: float
    inward, reach = True, math.inf

    def functions(self, degree: int, *, mixed: bool) -> list[HoleFunction]:
        """Return those beside polynomials of a degree (local)."""
        at, real, imaginary = (tuple(v.tolist()) for v in (self.at, *self.matrix))
        of = at, real, imaginary, (self.square.real, self.square.imag)
        by = [int(_PER_DEGREE * (degree - n)) for n in range(degree + 1)]
        return [HoleFunction(*of, *pair) for pair in enumerate(by)]

    def inside(self, domain: Any, count: int, seed: Sequence[int]) -> tuple[Array, Array]:
        """Return interior points around it, [n, d], and shares of the volume (local).

        They are denser near to the hole as 1/|ω|².
        """
        unit, size = unit_points(domain, count, seed), domain.upper - domain.lower
        x, ends = domain.lower + size * unit, (ends_of(domain) - self.at) @ self.matrix.T
        farthest = np.abs(omega(ends @ [1, 1j], self.square)).max()
        w = farthest ** unit[:, 0] * np.exp(2j * math.pi * unit[:, 1])
        z = (w + self.square / w) / 2
        x[:, :2] = self.at + np.linalg.solve(self.matrix, [z.real, z.imag]).T
        slopes = np.abs(w - self.square / w) ** 2 / 4  # |∂ζ/∂ log ω|²
        areas = 2 * math.pi * math.log(farthest) * slopes / abs(np.linalg.det(self.matrix))
        inside = domain._within(x)
        return x[inside], areas[inside] / (count * np.prod(size[:2]))

    def on_sides(self, domain: Any, count: int, seed: Sequence[int]) -> tuple[Array, Array, Array]:
        """Return points on its boundary, [n, d], normals into it, and shares of the boundary."""
        rng = np.random.default_rng(seed)
        on_hole, outward = self.region.boundary(count, method="sobol", rng=rng)
        unit = unit_points(domain, len(on_hole), seed)
        others = (domain.lower + (domain.upper - domain.lower) * unit)[:, 2:]
        normals = np.hstack([-outward, np.zeros_like(others)])
        shares = np.full(len(on_hole), self.share / len(on_hole))
        return np.hstack([on_hole, others]), normals, shares


def holes_of(plane: Any, matrix: Array) -> list[Hole]:
    """Return the holes without corners, whose boundaries the whole domain has (local).

    matrix : see `Hole`, up to a factor.
    """
    found, leaves = list[Hole](), getattr(plane, "_leaves", ())
    for region in (each for each in leaves if each._polygon is None and len(leaves) > 1):
        x, normals = region.boundary(_ON_HOLE)
        at = (region.lower + region.upper) / 2
        step = _CLOSE * float(region.extent.max()) * normals
        around = plane._within(x + step).all() and not plane._within(x - step).any()
        if around and region._within(at[None])[0]:
            z = (x - at) @ matrix.T
            square = _square_of_focus(z)
            scale = np.abs(omega(z @ [1, 1j], square)).min()
            of = matrix / scale, square / scale**2, region.surface / plane.surface
            found.append(Hole(region, at, *of))
    return found


def omega(z: Any, square: complex) -> Any:
    """Return ω = ζ + √(ζ² − f²), of the roots the one outside (local)."""
    return z + z * np.sqrt(1 - square / z**2)


def _square_of_focus(z: Array) -> complex:
    """Return f² of the ellipse zᵀ Q z = 1 that points resemble, [n, 2]; 0 if it is none."""
    products = np.stack([z[:, 0] ** 2, 2 * z[:, 0] * z[:, 1], z[:, 1] ** 2], axis=1)
    a, b, c = np.linalg.lstsq(products, np.ones(len(z)), rcond=None)[0]
    squares, axes = np.linalg.eigh([[a, b], [b, c]])
    known = squares[0] > 0
    return complex((1 / squares[0] - 1 / squares[1]) * complex(*axes[:, 0]) ** 2) if known else 0j


def ends_of(domain: Any) -> Array:
    """Return the corners of the box around a domain in the plane, [4, 2]."""
    return np.array(list(product(*zip(domain.lower[:2], domain.upper[:2], strict=True))))
