"""Values and time derivatives at the beginning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np

from sciml_par._checks import checked_integer
from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.problems.checks.arrays import BoolArray, FloatArray
from sciml_par.problems.checks.names import coordinate_names
from sciml_par.problems.conditions.condition import Arrays, Predicate
from sciml_par.problems.conditions.in_time import Before, StartValue
from sciml_par.problems.conditions.selection import Component, lies_at, select
from sciml_par.problems.conditions.valued import Value, ValuedCondition, checked_value
from sciml_par.problems.domains.domain import Domain
from sciml_par.problems.domains.surfaces.sampling import GRID
from sciml_par.problems.operators.arguments import FieldLike
from sciml_par.problems.operators.operators import derivative


@dataclass(frozen=True, init=False)
class Initial(ValuedCondition):
    """u = value, or ∂^q u/∂t^q = value, at the initial time; t is the last coordinate.

    Its points lie on the face where t has its lower bound; ``initial=`` of `Points` sets their
    number. The derivative is the one by t; a normal derivative there has the opposite sign.

    Parameters
    ----------
    value : float, sequence of c floats, or callable
        As for `Dirichlet`; a function gets all coordinates, x: [k, d], including t.
    order : int
        q, the order of the derivative; 0 for u.
    velocity : float, sequence of c floats, or callable, optional
        ∂u/∂t, in addition to u (order 0). The residuals are [k, 2c]: u − value, then
        ∂u/∂t − velocity.
    component
        As for `Dirichlet`.
    where, points, name, weight
        As for `Condition`.

    Examples
    --------
    A string released at rest: u = sin πx and ∂u/∂t = 0 at t = 0.

    >>> import numpy as np
    >>> from sciml_par.problems import Initial
    >>> start = Initial(lambda x: np.sin(np.pi * x[:, 0:1]), velocity=0.0)
    """

    kind: ClassVar[str] = "initial"
    sides: ClassVar[tuple[str, ...]] = ("value", "velocity")
    needs_normals = False
    order: int
    velocity: Any

    def __init__(
        self,
        value: Value = 0.0,
        *,
        order: int = 0,
        velocity: Value | None = None,
        component: Component | None = None,
        where: Predicate | None = None,
        points: Any = None,
        name: str = "",
        weight: float | None = None,
    ) -> None:
        super().__init__(
            value, component=component, where=where, points=points, name=name, weight=weight
        )
        object.__setattr__(self, "order", checked_integer(order, "Initial: order", least=0))
        if velocity is not None:
            velocity = checked_value(velocity, "Initial: velocity")
            if order != 0:
                raise InputError(
                    f"Initial: velocity belongs to order=0, in which value is that of u; got "
                    f"order={order}"
                )
        object.__setattr__(self, "velocity", velocity)

    def prepared(self, domain: Domain, outputs: Sequence[str]) -> Self:
        d, names = domain.dimension, domain.names
        if d > 1 and names == coordinate_names(d):
            raise InputError(
                f"Initial: {domain} has no time: its coordinates are {', '.join(names)}. Write "
                f"space * Time(0, 1), or name the last coordinate of a box, as names=('x', 't'); "
                f"values on a face in space are Dirichlet(on=...)."
            )
        return super().prepared(domain, outputs)

    def on_slab(self, whole: Domain, slab: Domain) -> Self:
        """See `Condition`; its points move to the initial time of the slab."""
        given = self.given(whole)
        if given is None:
            return self
        x = given[0].copy()
        x[:, -1] = slab.lower[-1]
        return self.with_own(x, None)

    def starting_from(self, before: Before, domain: Domain) -> Self:
        start = partial(StartValue, before, components=self.component)
        velocity = None if self.velocity is None else start(1)
        return self._changed(value=start(self.order), velocity=velocity)

    def given(self, domain: Domain) -> Arrays | None:
        arrays = super().given(domain)
        if arrays is not None:
            later = ~lies_at(arrays[0], domain, -1, float(domain.lower[-1]))
            if later.any():
                first = int(np.argmax(later))
                raise InputError(
                    f"Initial: points must have the least value {domain.lower[-1]} of "
                    f"{domain.names[-1]}; {int(later.sum())} of {len(later)} have not, the first "
                    f"of them number {first}: {arrays[0][first].tolist()}"
                )
        return arrays

    def draw(
        self, domain: Domain, n: int, *, method: str = GRID, rng: np.random.Generator | None = None
    ) -> tuple[FloatArray, FloatArray]:
        return domain.initial(n, method=method, rng=rng)

    def holds_at(
        self, x: FloatArray, domain: Domain, normals: FloatArray | None = None
    ) -> BoolArray:
        chosen = lies_at(x, domain, -1, float(domain.lower[-1]))
        if chosen.any():
            chosen[chosen] &= super().holds_at(x[chosen], domain)
        return chosen

    def no_points(self, tried: int, domain: Domain) -> InputError:
        return InputError(
            f"Initial: none of the {tried} points on the boundary of {domain} has "
            f"{domain.names[-1]} = {domain.lower[-1]}"
            + (", or where selects none of them" if self.where is not None else "")
            + "; time is the last coordinate"
        )

    def residual(self, u: FieldLike, *arrays: tf.Tensor) -> tf.Tensor:
        """Return u − value, ∂^q u/∂t^q − value, or both parts: [k, c] or [k, 2c] (local)."""
        r = super().residual(u, *arrays)
        if self.velocity is None:
            return r
        x, normals, *values = arrays
        speed = select(derivative(u, x, x.shape[1] - 1), self.component, "Initial")
        right = self._right_side(self.velocity, speed, values[-1:], (u, x, normals), "velocity")
        return tf.concat([r, speed - right], axis=1)

    def _left_side(self, u: FieldLike, x: tf.Tensor, normals: tf.Tensor) -> tf.Tensor:
        return derivative(u, x, *[x.shape[1] - 1] * self.order) if self.order else u(x)

    def quantity(self, u: FieldLike, x: tf.Tensor, domain: Domain) -> tf.Tensor | None:
        """See `Condition`; of u alone."""
        return u(x) if self.order == 0 and self.velocity is None else None
