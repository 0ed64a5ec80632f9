"""Ellipses in the plane."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from itertools import product

import numpy as np
import numpy.typing as npt

from sciml_par._checks import checked_number
from sciml_par.errors import InputError
from sciml_par.problems.checks.arrays import BoolArray, FloatArray, checked_vector
from sciml_par.problems.checks.names import names_of_axes
from sciml_par.problems.domains.ball import SURFACE, Ball
from sciml_par.problems.domains.domain import Domain
from sciml_par.problems.domains.region import Region
from sciml_par.problems.domains.surfaces.surface import Level, OnSurface, Surface, all_kept

_UNIT = Ball([0.0, 0.0], 1.0)
_NEWTON_STEPS = 4


class Ellipse(Domain):
    """The closed ellipse {c + R(angle) (a y₁, b y₂) : |y| <= 1} in the plane; immutable.

    Parameters
    ----------
    center : sequence of 2 numbers
    semi_axes : sequence of 2 numbers
        a and b, positive, in units of the coordinates.
    angle : float
        From the first coordinate to the semi-axis a, anticlockwise, in radians.
    names : sequence of 2 strings, optional
        Of the coordinates; as for `Box`.

    Raises
    ------
    InputError
        A semi-axis is not positive, or a number is not finite.

    Examples
    --------
    >>> from sciml_par.problems import Ellipse
    >>> ellipse = Ellipse([0, 0], [2, 1])
    >>> round(ellipse.volume, 6), round(ellipse.surface, 6)
    (6.283185, 9.688448)
    """

    def __init__(
        self,
        center: npt.ArrayLike,
        semi_axes: npt.ArrayLike,
        *,
        angle: float = 0.0,
        names: Sequence[str] | None = None,
    ) -> None:
        self._center = checked_vector(center, "Ellipse: center")
        self._axes = checked_vector(semi_axes, "Ellipse: semi_axes")
        self._angle = checked_number(angle, "Ellipse: angle")
        if self._center.size != 2 or self._axes.size != 2 or self._axes.min() <= 0:
            raise InputError(
                f"Ellipse: expected a center of two numbers and two positive semi-axes, got "
                f"{center!r} and {semi_axes!r}"
            )
        self._names = names_of_axes(names, 2, "Ellipse")
        cos, sin = math.cos(self._angle), math.sin(self._angle)
        self._rotation = np.array([[cos, -sin], [sin, cos]])
        half = np.linalg.norm(self._rotation * self._axes, axis=1)
        self._bounds = self._center - half, self._center + half

    @property
    def volume(self) -> float:
        """The area π a b."""
        return math.pi * float(np.prod(self._axes))

    @property
    def _key(self) -> Hashable:
        return ("ellipse", tuple(self._center.tolist()), tuple(self._axes.tolist()), self._angle)

    def __repr__(self) -> str:
        angle = f", angle={self._angle}" if self._angle else ""
        names = self._names_argument
        return f"Ellipse({self._center.tolist()}, {self._axes.tolist()}{angle}{names})"

    def _within(self, x: FloatArray, margin: float = 0.0) -> BoolArray:
        y = ((x - self._center) @ self._rotation) / self._axes
        length = np.linalg.norm(y, axis=1)
        # To first order, |y| = 1 + margin |∇|y|| at that distance from the ellipse.
        slope = np.linalg.norm(y / self._axes, axis=1) / np.where(length > 0, length, 1.0)
        return np.asarray(length <= 1 + margin * slope)

    @property
    def _coordinates(self) -> int:
        return _UNIT._coordinates

    @property
    def _candidates(self) -> float:
        return self.volume

    def _place(self, unit: FloatArray) -> tuple[FloatArray, BoolArray]:
        y, kept = _UNIT._place(unit)
        return self._center + (y * self._axes) @ self._rotation.T, kept

    @property
    def _surfaces(self) -> tuple[Surface, ...]:
        return (EllipseCurve(self._center, self._axes, self._rotation),)

    def _surely_contains(self, other: Region) -> bool:
        corners = np.array(list(product(*zip(other.lower, other.upper, strict=True))))
        return bool(self._within(corners).all())

    def _cuts(self, axis: int, shares: FloatArray) -> FloatArray:
        """Return the cuts of the disc, since an affine map keeps the shares of the area."""
        return self._center[axis] + self.extent[axis] / 2 * _UNIT._cuts(axis, shares)


class EllipseCurve(Surface):
    """The ellipse as a curve by its length; see `Surface`."""

    names = (SURFACE,)
    coordinates = 1

    def __init__(self, center: FloatArray, axes: FloatArray, rotation: FloatArray) -> None:
        self._center, self._axes, self._rotation = center, axes, rotation

    @property
    def measure(self) -> float:
        """4 a E(1 − b²/a²), with E the complete elliptic integral of the second kind."""
        from scipy.special import ellipe

        a, b = self._axes
        return float(4 * a * ellipe(1 - (b / a) ** 2))

    def levels(self, name: str) -> list[Level]:  # noqa: ARG002
        return [Level.ellipsoid(self._center, self._rotation.T / self._axes[:, None])]

    def place(self, unit: FloatArray) -> OnSurface:
        return self._at(self._parameters(unit[:, 0]))

    def grid(self, n: int) -> tuple[FloatArray, FloatArray]:
        return self._at(self._parameters((np.arange(n) + 0.5) / n))[:2]

    def project(self, x: FloatArray) -> OnSurface:
        """See `Surface`; along the ray from the centre, which is as good for points close by."""
        y = ((x - self._center) @ self._rotation) / self._axes
        return self._at(np.arctan2(y[:, 1], y[:, 0]))

    def _parameters(self, shares: FloatArray) -> FloatArray:
        """Return the parameters up to which the curve has these shares of its length, by Newton.

        The length of (a cos s, b sin s) from s = 0 on is a (E(s + π/2 | m) − E(m)), m = 1 − b²/a².
        """
        from scipy.special import ellipe, ellipeinc

        a, b = self._axes
        m = 1 - (b / a) ** 2
        offset, whole = ellipe(m), 4 * ellipe(m)
        table = np.linspace(0, 2 * math.pi, 4097)
        lengths = ellipeinc(table + math.pi / 2, m) - offset
        s = np.interp(shares * whole, lengths, table)
        for _ in range(_NEWTON_STEPS):
            excess = ellipeinc(s + math.pi / 2, m) - offset - shares * whole
            s = s - excess / np.sqrt(1 - m * np.cos(s) ** 2)
        return np.asarray(s)

    def _at(self, s: FloatArray) -> OnSurface:
        y = np.stack([np.cos(s), np.sin(s)], axis=1)
        normals = y / self._axes
        normals /= np.linalg.norm(normals, axis=1, keepdims=True)
        x = self._center + (y * self._axes) @ self._rotation.T
        return all_kept(x, normals @ self._rotation.T)
