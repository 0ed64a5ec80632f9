"""Given sums of values and normal derivatives on the boundary."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from sciml_par._checks import checked_number
from sciml_par._tensorflow import tf
from sciml_par.problems.conditions.components import Component
from sciml_par.problems.conditions.condition import On, Predicate
from sciml_par.problems.conditions.valued import Value, ValuedCondition, normal_derivative
from sciml_par.problems.operators.arguments import FieldLike


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

    @property
    def needs_normals(self) -> bool:
        """Yes."""
        return True

    def _left_side(self, u: FieldLike, x: tf.Tensor, normals: tf.Tensor) -> tf.Tensor:
        return self.alpha * u(x) + self.beta * normal_derivative(u, x, normals)
