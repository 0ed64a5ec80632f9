"""Continuity of two components and of their fluxes across a surface inside the domain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from sciml_par._checks import checked_number
from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.problems.checks.arrays import FloatArray
from sciml_par.problems.conditions.condition import Arrays, FrozenCondition, Predicate
from sciml_par.problems.conditions.selection import (
    Component,
    Components,
    as_components,
    axis_number,
    checked_at,
    select,
)
from sciml_par.problems.conditions.valued import normal_derivative
from sciml_par.problems.domains.box import Box
from sciml_par.problems.domains.domain import Domain
from sciml_par.problems.domains.surfaces.sampling import GRID
from sciml_par.problems.operators.arguments import FieldLike


@dataclass(frozen=True, init=False)
class Interface(FrozenCondition):
    """Two components meet at a surface: u_r − u_l = jump, k_r ∂u_r/∂n − k_l ∂u_l/∂n = flux_jump.

    A field with a kink or a jump at a known surface has two smooth components, one for the left
    side and one for the right side. Each satisfies an equation on its side, and this condition
    joins them. n is the unit normal from left to right. The two residuals together are [k, 2c], the
    second divided by a usual flux in units in which that is far larger or smaller than u.

    Parameters
    ----------
    component_left, component_right : int, str, or sequences of c of these
        As for `Dirichlet`; both sides have the same number of components, which must differ.
    at : pair (axis, position), optional
        A plane of a box: x_axis = position, with the normal in the direction of the axis (a number
        or a name).
    points : int, or pair of arrays, optional
        With `at`, the number of points on the plane (approximate on a grid). Without it, the points
        of the surface and the unit normals, (x: [k, d], normals: [k, d]).
    k_left, k_right : float
        Factors of the normal derivatives, such as conductivities.
    jump, flux_jump : float
        Right-hand sides.
    where : callable, optional
        Points x: [k, d] of the plane -> booleans [k].
    name, weight
        As for `Condition`.

    Examples
    --------
    Two metals, joined at x = 0.5:

    >>> from sciml_par.problems import Interface
    >>> joined = Interface("left", "right", at=("x", 0.5), k_left=1.0, k_right=10.0)
    """

    kind: ClassVar[str] = "interface"
    needs_normals = True
    on_boundary = False
    selects: ClassVar[tuple[str, ...]] = ("component_left", "component_right")
    component_left: Components
    component_right: Components
    at: Any
    k_left: float
    k_right: float
    jump: float
    flux_jump: float

    def __init__(
        self,
        component_left: Component,
        component_right: Component,
        *,
        at: tuple[int | str, float] | None = None,
        points: Any = None,
        k_left: float = 1.0,
        k_right: float = 1.0,
        jump: float = 0.0,
        flux_jump: float = 0.0,
        where: Predicate | None = None,
        name: str = "",
        weight: float | None = None,
    ) -> None:
        put = object.__setattr__
        sides = []
        for side, component in (("left", component_left), ("right", component_right)):
            found = as_components(component, f"Interface: component_{side}")
            if found is None:
                raise InputError(f"Interface: component_{side} must name at least one component")
            sides.append(found)
            put(self, f"component_{side}", found)
        if len(sides[0]) != len(sides[1]) or sides[0] == sides[1]:
            raise InputError(
                f"Interface: both sides must have the same number of components, and different "
                f"ones; got {component_left!r} and {component_right!r}"
            )
        numbers = {"k_left": k_left, "k_right": k_right, "jump": jump, "flux_jump": flux_jump}
        for key, value in numbers.items():
            put(self, key, checked_number(value, f"Interface: {key}"))
        if at is not None:
            axis, place = checked_at(at, "Interface", "(axis, position), as ('x', 0.5)")
            at = axis, checked_number(place, "Interface: the position")
        put(self, "at", at)
        self._set_common(on=None, where=where, points=points, name=name, weight=weight)
        pair = isinstance(self.own, tuple)
        if pair == (at is not None) or (pair and self.own[1] is None):
            raise InputError(
                "Interface: give either at=(axis, position), a plane of a box, or the surface's "
                "points with unit normals from left to right, points=(x, normals)"
            )

    def prepared(self, domain: Domain, outputs: Sequence[str]) -> Self:
        if self.at is not None:
            self._plane(domain)
        return super().prepared(domain, outputs)

    def on_slab(self, whole: Domain, slab: Domain) -> Self | None:
        if self.at is not None and self._plane(whole)[0] == whole.dimension - 1:
            raise InputError(
                f"Interface: at={self.at!r} is a time, where a slab may end; leave out slabs=."
            )
        return super().on_slab(whole, slab)

    def draw(
        self, domain: Domain, n: int, *, method: str = GRID, rng: np.random.Generator | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Return points on the plane, and the normal (local)."""
        axis, position = self._plane(domain)
        normal = np.eye(domain.dimension)[axis]
        if domain.dimension == 1:
            return np.array([[position]]), normal[None]
        others = [i for i in range(domain.dimension) if i != axis]
        section = Box(domain.lower[others], domain.upper[others])
        n = max(n, 2 ** len(others))
        inside = section.interior(n, method=method, rng=rng)
        return np.insert(inside, axis, position, axis=1), np.tile(normal, (len(inside), 1))

    def no_points(self, tried: int, domain: Domain) -> InputError:
        return InputError(f"Interface: where selects none of the {tried} points of the plane")

    def completed(self, arrays: Arrays, domain: Domain) -> Arrays:
        """Return points, normals, both jumps, and what fluxes are divided by: [k, 1] (local)."""
        count, k = (len(arrays[0]), 1), max(abs(self.k_left), abs(self.k_right))
        usual = k * np.linalg.norm(arrays[1] / domain.extent, axis=1, keepdims=True)
        # In units in which fluxes are far larger or smaller than u, one row would hide the other.
        size = np.where((usual > 1e3) | (usual > 0) & (usual < 1e-3), usual, 1.0)
        return (*arrays, np.full(count, self.jump), np.full(count, self.flux_jump), size)

    def residual(self, u: FieldLike, *arrays: tf.Tensor) -> tf.Tensor:
        """Compute u_r − u_l − jump, then k_r ∂u_r/∂n − k_l ∂u_l/∂n − flux_jump: [k, 2c] (local)."""
        x, normals, jump, flux_jump, size = arrays
        values, slopes = u(x), normal_derivative(u, x, normals)
        left, right = self.component_left, self.component_right
        step = select(values, right, "Interface") - select(values, left, "Interface")
        flux = self.k_right * select(slopes, right, "Interface")
        flux -= self.k_left * select(slopes, left, "Interface")
        return tf.concat([step - jump, (flux - flux_jump) / size], axis=1)

    def _plane(self, domain: Domain) -> tuple[int, float]:
        axis, position = axis_number(self.at[0], domain, "Interface"), self.at[1]
        if not isinstance(domain, Box):
            raise InputError(
                f"Interface: at=(axis, position) is a plane of a Box; in {domain} give "
                f"points=(x, normals)"
            )
        if not domain.lower[axis] < position < domain.upper[axis]:
            raise InputError(
                f"Interface: {domain.names[axis]} = {position} does not lie inside {domain}"
            )
        return axis, position
