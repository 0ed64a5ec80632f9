"""Given values on the boundary."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from sciml_par._tensorflow import tf
from sciml_par.problems.conditions.valued import ValuedCondition
from sciml_par.problems.domains.domain import Domain
from sciml_par.problems.operators.arguments import FieldLike


@dataclass(frozen=True, init=False)
class Dirichlet(ValuedCondition):
    """u = value on the boundary.

    Parameters
    ----------
    value : float, sequence of c floats, or callable
        A number; one for each component; or x: [k, d] -> [k, c], or [k] where c = 1, in NumPy or
        TensorFlow. A function is evaluated once at the points, in double precision, not at each
        step; it must not read trainable variables.
    component : int, str, or sequence of these, optional
        Which components the condition is for, c of them, by the names of `Problem.outputs` or by
        numbers from 0. By default all.
    on, where, points, name, weight
        As for `Condition`. Points that are given as an array may lie inside as well.

    Examples
    --------
    >>> from sciml_par.problems import Dirichlet
    >>> left_end = Dirichlet(1.0, on="x=lower")
    >>> lid = Dirichlet((1.0, 0.0), component=("u", "v"), where=lambda x: x[:, 1] == 1.0)
    """

    kind: ClassVar[str] = "dirichlet"

    @property
    def needs_normals(self) -> bool:
        """No."""
        return False

    def _left_side(self, u: FieldLike, x: tf.Tensor, normals: tf.Tensor) -> tf.Tensor:
        return u(x)

    def quantity(self, u: FieldLike, x: tf.Tensor, domain: Domain) -> tf.Tensor:
        """See `Condition`."""
        return u(x)
