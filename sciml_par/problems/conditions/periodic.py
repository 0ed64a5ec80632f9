"""Equal values and derivatives on opposite faces of a box."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from sciml_par._checks import checked_integer
from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.problems.checks.arrays import BoolArray, FloatArray
from sciml_par.problems.checks.functions import holds_at
from sciml_par.problems.conditions.condition import Arrays, FrozenCondition, Predicate
from sciml_par.problems.conditions.in_time import with_points_in
from sciml_par.problems.conditions.selection import (
    Component,
    Components,
    as_components,
    axis_number,
    checked_axis,
    lies_at,
    select,
)
from sciml_par.problems.domains.box import Box
from sciml_par.problems.domains.domain import Domain
from sciml_par.problems.domains.surfaces.sampling import GRID
from sciml_par.problems.operators.arguments import FieldLike
from sciml_par.problems.operators.operators import derivative


@dataclass(frozen=True, init=False)
class Periodic(FrozenCondition):
    """∂^q u/∂x_a^q is equal on the two faces of an axis a of a box, for each order q.

    With y = x + (upper_a − lower_a) e_a for points x of the lower face, the residuals are
    ∂^q u/∂x_a^q(x) − ∂^q u/∂x_a^q(y): [k, c · number of orders].

    Parameters
    ----------
    axis : int or str
        Number (from 0) or name of the coordinate.
    order : int or sequence of int
        q, the orders of the derivatives along the axis; 0 is u. By default 0 and 1.
    component
        As for `Dirichlet`.
    where : callable, optional
        Points x: [k, d] of the lower face -> booleans [k], in NumPy or TensorFlow.
    points, name, weight
        As for `Condition`; points given as an array must lie on the lower face.

    Examples
    --------
    >>> from sciml_par.problems import Periodic
    >>> values, all_smooth = Periodic("x", order=0), Periodic("x", order=(0, 1, 2))
    """

    kind: ClassVar[str] = "periodic"
    needs_normals = False
    selects: ClassVar[tuple[str, ...]] = ("component",)
    axis: int | str
    orders: tuple[int, ...]
    component: Components | None

    def __init__(
        self,
        axis: int | str,
        *,
        order: int | Sequence[int] = (0, 1),
        component: Component | None = None,
        where: Predicate | None = None,
        points: Any = None,
        name: str = "",
        weight: float | None = None,
    ) -> None:
        several = order if isinstance(order, (tuple, list)) else (order,)
        orders = tuple(checked_integer(q, "Periodic: order", least=0) for q in several)
        if not orders or len(set(orders)) < len(orders):
            raise InputError(f"Periodic: order must be one or several different ones, got {order}")
        put = object.__setattr__
        put(self, "axis", checked_axis(axis, "Periodic"))
        put(self, "orders", orders)
        put(self, "component", as_components(component, "Periodic: component"))
        self._set_common(on=None, where=where, points=points, name=name, weight=weight)

    def prepared(self, domain: Domain, outputs: Sequence[str]) -> Self:
        if not isinstance(domain, Box):
            raise InputError(f"Periodic: opposite faces are those of a Box; the domain is {domain}")
        other = super().prepared(domain, outputs)
        return other._changed(axis=axis_number(self.axis, domain, "Periodic"))

    def on_slab(self, whole: Domain, slab: Domain) -> Self | None:
        if self.axis == whole.dimension - 1:
            raise InputError(
                f"Periodic: a solution that is periodic in {whole.names[-1]} is not solved from an "
                f"initial time on; leave out slabs=."
            )
        return with_points_in(self, whole, slab)

    def given(self, domain: Domain) -> Arrays | None:
        arrays = super().given(domain)
        if arrays is not None:
            elsewhere = ~self._on_lower_face(arrays[0], domain)
            if elsewhere.any():
                first = int(np.argmax(elsewhere))
                raise InputError(
                    f"Periodic: points must lie on the lower face of {domain}, axis {self.axis!r}; "
                    f"number {first} does not: {arrays[0][first].tolist()}"
                )
        return arrays

    def draw(
        self, domain: Domain, n: int, *, method: str = GRID, rng: np.random.Generator | None = None
    ) -> tuple[FloatArray, FloatArray]:
        name = domain.names[axis_number(self.axis, domain, "Periodic")]
        return domain.near_faces((f"{name}=lower",), n, method=method, rng=rng)

    def holds_at(
        self, x: FloatArray, domain: Domain, normals: FloatArray | None = None
    ) -> BoolArray:
        chosen = self._on_lower_face(x, domain)
        if self.where is not None and chosen.any():
            chosen[chosen] &= holds_at(self.where, x[chosen], "Periodic")
        return chosen

    def no_points(self, tried: int, domain: Domain) -> InputError:
        return InputError(
            f"Periodic: none of the {tried} points on the boundary of {domain} lies on the lower "
            f"face of axis {self.axis!r}" + (" where `where` holds" if self.where else "")
        )

    def completed(self, arrays: Arrays, domain: Domain) -> Arrays:
        """Return points x of the lower face and y of the upper one, [k, d] each (local)."""
        axis = axis_number(self.axis, domain, "Periodic")
        lower, upper = arrays[0].copy(), arrays[0].copy()
        lower[:, axis], upper[:, axis] = domain.lower[axis], domain.upper[axis]
        return lower, upper

    def residual(self, u: FieldLike, *arrays: tf.Tensor) -> tf.Tensor:
        """Compute the differences between the faces, order by order: [k, c · orders] (local)."""
        x, y = arrays
        return tf.concat([self._at(u, x, q) - self._at(u, y, q) for q in self.orders], axis=1)

    def _at(self, u: FieldLike, x: tf.Tensor, order: int) -> tf.Tensor:
        if not isinstance(self.axis, int):
            raise InputError(
                f"Periodic: the number of axis {self.axis!r} is known where the condition belongs "
                f"to a Problem"
            )
        values = derivative(u, x, *[self.axis] * order) if order else u(x)
        return select(values, self.component, "Periodic")

    def _on_lower_face(self, x: FloatArray, domain: Domain) -> BoolArray:
        axis = axis_number(self.axis, domain, "Periodic")
        return lies_at(x, domain, axis, float(domain.lower[axis]))
