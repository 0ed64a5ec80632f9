"""Given values, normal derivatives, and sums of both on the boundary."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

from sciml_par._checks import checked_number
from sciml_par._tensorflow import tf
from sciml_par.problems.conditions.condition import On, Predicate
from sciml_par.problems.conditions.in_time import (
    Before,
    StartValue,
    check_faces,
    on_initial_face,
    with_points_in,
)
from sciml_par.problems.conditions.selection import Component
from sciml_par.problems.conditions.valued import Value, ValuedCondition, normal_derivative
from sciml_par.problems.domains.domain import Domain
from sciml_par.problems.operators.arguments import FieldLike
from sciml_par.problems.operators.operators import jacobian


@dataclass(frozen=True, init=False)
class Dirichlet(ValuedCondition):
    """u = value on the boundary.

    Parameters
    ----------
    value : float, sequence of c floats, or callable
        A number; one for each component; or x: [k, d] -> [k, c], or [k] if c = 1, in NumPy or
        TensorFlow. A function is evaluated once at the points, in double precision, before
        training. It must not read trainable variables.
    component : int, str, or sequence of these, optional
        The c components that the condition is for, by the names of `Problem.outputs` or by numbers
        from 0. By default all.
    on, where, points, name, weight
        As for `Condition`. Points given as an array may also lie inside.

    Examples
    --------
    >>> from sciml_par.problems import Dirichlet
    >>> left_end = Dirichlet(1.0, on="x=lower")
    >>> lid = Dirichlet((1.0, 0.0), component=("u", "v"), where=lambda x: x[:, 1] == 1.0)
    """

    kind: ClassVar[str] = "dirichlet"
    needs_normals = False

    def on_slab(self, whole: Domain, slab: Domain) -> Self | None:
        """See `Condition`."""
        check_faces(self, whole, starts=True)
        return self if on_initial_face(self, whole) else with_points_in(self, whole, slab)

    def starting_from(self, before: Before, domain: Domain) -> Self:
        """See `Condition`."""
        if not on_initial_face(self, domain):
            return self
        return self._changed(value=StartValue(before, 0, self.component))

    def _left_side(self, u: FieldLike, x: tf.Tensor, normals: tf.Tensor) -> tf.Tensor:
        return u(x)

    def quantity(self, u: FieldLike, x: tf.Tensor, domain: Domain) -> tf.Tensor:
        """See `Condition`."""
        return u(x)


@dataclass(frozen=True, init=False)
class Neumann(ValuedCondition):
    """n·∇u = value on the boundary, n the outward unit normal.

    At the initial time n points backwards in time; use `Initial` for ∂u/∂t there.

    Parameters
    ----------
    value, component
        As for `Dirichlet`.
    on, where, points, name, weight
        As for `Condition`.

    Examples
    --------
    >>> from sciml_par.problems import Neumann
    >>> insulated = Neumann(0.0, on=("y=lower", "y=upper"))
    """

    kind: ClassVar[str] = "neumann"
    needs_normals = True

    def _left_side(self, u: FieldLike, x: tf.Tensor, normals: tf.Tensor) -> tf.Tensor:
        return normal_derivative(u, x, normals)

    def quantity(self, u: FieldLike, x: tf.Tensor, domain: Domain) -> tf.Tensor:
        """Return ∇u, and u over the length of the domain, since ∇u may be zero everywhere."""
        slopes = tf.reshape(jacobian(u, x), [len(x), -1])
        return tf.concat([slopes, u(x) / float(max(domain.extent))], axis=1)


@dataclass(frozen=True, init=False)
class Robin(ValuedCondition):
    """alpha u + beta n·∇u = value on the boundary, n the outward unit normal.

    Parameters
    ----------
    alpha, beta : float
        Finite; beta carries the unit of length if alpha is dimensionless.
    value, component
        As for `Dirichlet`.
    on, where, points, name, weight
        As for `Condition`.

    Examples
    --------
    Cooling, k ∂u/∂n + h (u − 20) = 0 with h/k = 0.5:

    >>> from sciml_par.problems import Robin
    >>> cooled = Robin(0.5, 1.0, 10.0, on="x=upper")
    """

    kind: ClassVar[str] = "robin"
    needs_normals = True
    alpha: float
    beta: float

    def __init__(
        self,
        alpha: float,
        beta: float,
        value: Value = 0.0,
        *,
        component: Component | None = None,
        on: On | None = None,
        where: Predicate | None = None,
        points: Any = None,
        name: str = "",
        weight: float | None = None,
    ) -> None:
        super().__init__(
            value,
            component=component,
            on=on,
            where=where,
            points=points,
            name=name,
            weight=weight,
        )
        object.__setattr__(self, "alpha", checked_number(alpha, "Robin: alpha"))
        object.__setattr__(self, "beta", checked_number(beta, "Robin: beta"))

    def _left_side(self, u: FieldLike, x: tf.Tensor, normals: tf.Tensor) -> tf.Tensor:
        return self.alpha * u(x) + self.beta * normal_derivative(u, x, normals)
