"""Boundary conditions as residuals on the boundary."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.problems._checks import checked_number, checked_weight
from sciml_par.problems._operator_arguments import FieldLike
from sciml_par.problems._tape import Function
from sciml_par.problems.domains.box import Box
from sciml_par.problems.operators import jacobian

FloatArray = npt.NDArray[np.float64]
Value = float | Function
Where = Callable[[FloatArray], npt.NDArray[np.bool_]]


class Condition:
    """What the boundary conditions share; not used by itself.

    The residual is left side minus right side, [k, m], at points x: [k, d] of the boundary with
    outward unit normals n: [k, d].
    """

    kind: ClassVar[str] = "condition"
    not_in_residual: ClassVar[tuple[str, ...]] = ("weight", "where")
    value: Value
    where: Where | None
    weight: float | None

    def __post_init__(self) -> None:
        name = type(self).__name__
        if not callable(self.value):
            checked_number(self.value, f"{name}: value, unless a function of x,")
        if self.where is not None and not callable(self.where):
            raise InputError(f"{name}: where must be a function of the boundary points [k, d]")
        if self.weight is not None:
            checked_weight(self.weight, name)

    def points(self, domain: Box, n: int) -> tuple[FloatArray, FloatArray]:
        """Boundary points and outward unit normals, [k, d] each, where the condition holds (local).

        Raises
        ------
        InputError
            `where` selects no point, or returns another shape than [k].
        """
        x, normals = domain.boundary(n)
        chosen = self.holds_at(x)
        if not chosen.any():
            raise self.no_points(len(x), domain)
        return x[chosen], normals[chosen]

    def holds_at(self, x: FloatArray) -> npt.NDArray[np.bool_]:
        """At which points of the boundary the condition holds: x: [n, d] -> [n] (local).

        Raises
        ------
        InputError
            `where` returns something else than n booleans.
        """
        if self.where is None:
            return np.ones(len(x), np.bool_)
        chosen = np.asarray(self.where(x))
        if chosen.shape != (len(x),) or chosen.dtype != np.bool_:
            raise InputError(
                f"{type(self).__name__}: where must return booleans of shape [{len(x)}] for "
                f"points of shape {list(x.shape)}, got {chosen.dtype} of shape "
                f"{list(chosen.shape)}; write for example lambda x: x[:, 0] == 0"
            )
        return chosen

    def no_points(self, tried: int, domain: Box) -> InputError:
        """What to say where the condition holds at none of `tried` points (local)."""
        return InputError(
            f"{type(self).__name__}: where selects none of the {tried} points on the "
            f"boundary of {domain}; check it (points lie inside the faces, not on edges), "
            f"or ask for more points"
        )

    def residual(self, u: FieldLike, x: tf.Tensor, normals: tf.Tensor) -> tf.Tensor:
        """Left side minus right side: [k, m] (local)."""
        left = self._left_side(u, x, normals)
        return left - self._right_side(x, left)

    def _left_side(self, u: FieldLike, x: tf.Tensor, normals: tf.Tensor) -> tf.Tensor:
        raise NotImplementedError

    def _right_side(self, x: tf.Tensor, left: tf.Tensor) -> tf.Tensor:
        if not callable(self.value):
            return tf.constant(self.value, dtype=x.dtype)
        value = tf.convert_to_tensor(self.value(x), dtype=x.dtype)
        if value.shape.rank != 2 or value.shape[1] != left.shape[1]:
            raise InputError(
                f"{type(self).__name__}: value(x) must have the shape {left.shape.as_list()} of "
                f"u(x), got {value.shape.as_list()}; one coordinate is x[:, i:i+1], not x[:, i]"
            )
        return value


@dataclass(frozen=True)
class Dirichlet(Condition):
    """u = value on the boundary.

    Parameters
    ----------
    value : float or callable
        A number, or x: [k, d] -> [k, m] in TensorFlow operations.
    where : callable, optional
        NumPy boundary points [k, d] -> booleans [k]: the part where the condition holds.
    weight : float, optional
        Factor of the mean square in the loss; non-negative, dimensionless. By default 1, or what
        the problem or an optimizer has for conditions without a weight of their own; see
        `Problem.with_condition_weight`.

    Examples
    --------
    >>> from sciml_par.problems import Dirichlet
    >>> left_end = Dirichlet(1.0, where=lambda x: x[:, 0] == 0.0)
    """

    kind: ClassVar[str] = "dirichlet"
    value: Value = 0.0
    _: KW_ONLY
    where: Where | None = None
    weight: float | None = None

    def _left_side(self, u: FieldLike, x: tf.Tensor, normals: tf.Tensor) -> tf.Tensor:
        return u(x)


@dataclass(frozen=True)
class Neumann(Condition):
    """n·∇u = value on the boundary, n the outward unit normal.

    Parameters
    ----------
    value, where, weight
        As for `Dirichlet`.
    """

    kind: ClassVar[str] = "neumann"
    value: Value = 0.0
    _: KW_ONLY
    where: Where | None = None
    weight: float | None = None

    def _left_side(self, u: FieldLike, x: tf.Tensor, normals: tf.Tensor) -> tf.Tensor:
        return _normal_derivative(u, x, normals)


@dataclass(frozen=True)
class Robin(Condition):
    """alpha u + beta n·∇u = value on the boundary, n the outward unit normal.

    Parameters
    ----------
    alpha, beta : float
        Finite; beta carries the unit of length if alpha is dimensionless.
    value, where, weight
        As for `Dirichlet`.
    """

    kind: ClassVar[str] = "robin"
    alpha: float
    beta: float
    value: Value = 0.0
    _: KW_ONLY
    where: Where | None = None
    weight: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        checked_number(self.alpha, "Robin: alpha")
        checked_number(self.beta, "Robin: beta")

    def _left_side(self, u: FieldLike, x: tf.Tensor, normals: tf.Tensor) -> tf.Tensor:
        return self.alpha * u(x) + self.beta * _normal_derivative(u, x, normals)


def _normal_derivative(u: FieldLike, x: tf.Tensor, normals: tf.Tensor) -> tf.Tensor:
    """Σ_i n_i ∂u_c/∂x_i: [k, m]."""
    return tf.reduce_sum(jacobian(u, x) * normals[:, None, :], axis=-1)
