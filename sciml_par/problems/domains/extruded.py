"""Cylinders and prisms: regions of the plane, extruded along a third axis."""

from __future__ import annotations

import functools
from collections.abc import Hashable

from sciml_par._checks import checked_number
from sciml_par.errors import InputError
from sciml_par.problems.checks.names import checked_names
from sciml_par.problems.domains.bounded_region import INITIAL
from sciml_par.problems.domains.box import Interval
from sciml_par.problems.domains.domain import Domain
from sciml_par.problems.domains.product import Product
from sciml_par.problems.domains.surfaces.surface import Surface


class Extruded(Product):
    """The points (x, y, z) with (x, y) in a region and lower ≤ z ≤ upper; immutable.

    A disc gives a cylinder, a ring a hollow one, and a polygon a prism. The faces are those of the
    region, and both ends.

    Parameters
    ----------
    base : Domain
        The region, of any dimension, without a time; most often in the plane.
    lower, upper : float
        Finite, lower < upper, in the unit of the base.
    name : str
        Of the further coordinate; not t or time.

    Raises
    ------
    InputError
        The base is not a domain or has a time, lower is not below upper, or the name is taken.

    Examples
    --------
    >>> from sciml_par.problems import Ball, Extruded
    >>> pipe = Extruded(Ball([0, 0], 1), 0, 2)
    >>> round(pipe.volume, 6), pipe.faces
    (6.283185, ('surface', 'z=lower', 'z=upper'))
    """

    def __init__(self, base: Domain, lower: float, upper: float, *, name: str = "z") -> None:
        if not isinstance(base, Domain):
            raise InputError(f"Extruded: expected a domain, as Ball([0, 0], 1); got {base!r}.")
        checked_names((*base.names, name), "Extruded: the names of the coordinates")
        low, high = (checked_number(e, "Extruded: each of lower and upper") for e in (lower, upper))
        if not low < high:
            raise InputError(f"Extruded: lower must be below upper; got {lower!r} and {upper!r}.")
        along = Interval(low, high, name=name)
        if any(INITIAL in (*each.faces, *each._time_faces[0]) for each in (base, along)):
            raise InputError(
                f"Extruded: expected a domain and a name without a time; got {base!r} and "
                f"{name!r}; a time comes last, as domain * Time(0, 1)."
            )
        super().__init__(base, along)

    @property
    def _key(self) -> Hashable:
        return ("extruded", self._space._key, self._along._key)

    def __repr__(self) -> str:
        low, high, (name,) = self._along.lower[0], self._along.upper[0], self._along.names
        named = "" if name == "z" else f", name={name!r}"
        return f"Extruded({self._space!r}, {low}, {high}{named})"

    @functools.cached_property
    def _surfaces(self) -> tuple[Surface, ...]:
        (name,) = self._along.names
        return self._surfaces_over(float(self._along.extent[0]), (f"{name}=lower", f"{name}=upper"))

    def _with(self, space: Domain, along: Interval) -> Domain:
        low, high = float(along.lower[0]), float(along.upper[0])
        return Extruded(space, low, high, name=along.names[0])
