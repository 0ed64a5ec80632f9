"""Given normal derivatives on the boundary."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from sciml_par._tensorflow import tf
from sciml_par.problems.conditions.valued import ValuedCondition, normal_derivative
from sciml_par.problems.domains.domain import Domain
from sciml_par.problems.operators.arguments import FieldLike
from sciml_par.problems.operators.operators import jacobian


@dataclass(frozen=True, init=False)
class Neumann(ValuedCondition):
    """n·∇u = value on the boundary, n the outward unit normal.

    At the beginning of time n points back in time; see `Initial` for ∂u/∂t there.

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

    @property
    def needs_normals(self) -> bool:
        """Yes."""
        return True

    def _left_side(self, u: FieldLike, x: tf.Tensor, normals: tf.Tensor) -> tf.Tensor:
        return normal_derivative(u, x, normals)

    def quantity(self, u: FieldLike, x: tf.Tensor, domain: Domain) -> tf.Tensor:
        """∇u, and beside it u over the length of the domain, since ∇u may be zero everywhere."""
        slopes = tf.reshape(jacobian(u, x), [len(x), -1])
        return tf.concat([slopes, u(x) / float(max(domain.extent))], axis=1)
