"""Measured values at points of the domain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.problems.checks.arrays import finite_array
from sciml_par.problems.conditions.condition import Arrays, Condition
from sciml_par.problems.conditions.coupled import at_all, whitened, whitening
from sciml_par.problems.conditions.given_points import points_within
from sciml_par.problems.conditions.selection import (
    Component,
    Components,
    as_components,
    select,
)
from sciml_par.problems.domains.domain import Domain
from sciml_par.problems.operators.arguments import FieldLike

FloatArray = npt.NDArray[np.float64]


class Observations(Condition):
    """(u(x_i) − u_i)/σ_i = 0 at measured points x_i of the closed domain.

    All points are used, in their order, distributed over the ranks.

    Parameters
    ----------
    x : array [n, d], or [n] where d = 1
    u : array [n, c], or [n] where c = 1
        The measured values of c components.
    component
        The measured components, as for `Dirichlet`; by default all, c = m.
    noise : float, or array of the shape of u, or [n], or [n, n], optional
        Standard deviations σ_i > 0 in units of u; by default 1. They make the term of the loss a
        mean of squares of order 1, so that observations with different units can be combined.
        For correlated errors of one component, noise is their covariance C: [n, n] with n > 1,
        symmetric and positive definite, in units of u squared, and the residual is L⁻¹(u(x) − u)
        with C = L Lᵀ. If u: [n, c] has several components, an array [n, n] contains deviations, and
        n must be c. Points with a covariance are one row of the loss, on one rank, which batches
        and bootstrap samples do not divide.
    name, weight
        As for `Condition`.

    Raises
    ------
    InputError
        An array has the wrong shape or contains NaN, or points lie outside the domain of the
        problem.

    Examples
    --------
    >>> from sciml_par.problems import Observations
    >>> measured = Observations([[0.1], [0.7]], [1.2, 0.9], noise=0.05)
    """

    kind: ClassVar[str] = "observations"
    on_boundary = False
    selects: ClassVar[tuple[str, ...]] = ("component",)
    points_are_given: ClassVar[bool] = True

    def __init__(
        self,
        x: npt.ArrayLike,
        u: npt.ArrayLike,
        *,
        component: Component | None = None,
        noise: npt.ArrayLike | None = None,
        name: str = "",
        weight: float | None = None,
    ) -> None:
        self._set_common(on=None, where=None, points=None, name=name, weight=weight)
        self.component: Components | None = as_components(component, "Observations: component")
        self.x, values = finite_array(x, "Observations: x"), finite_array(u, "Observations: u")
        self.u = values[:, None] if values.ndim == 1 else values
        if self.x.ndim not in (1, 2) or self.u.ndim != 2 or len(self.x) != len(self.u):
            raise InputError(
                f"Observations: x must be [n, d] and u [n, c] or [n], with one row for each point; "
                f"got {list(self.x.shape)} and {list(values.shape)}"
            )
        self.factor: FloatArray | None = None
        self.noise = None if noise is None else self._checked_noise(noise)

    @property
    def statistical(self) -> bool:  # type: ignore[override]
        """See `Condition`."""
        return self.noise is not None

    @property
    def number_of_rows(self) -> int:  # type: ignore[override]
        """The number of points; 1 of points with a covariance, which are components of one row."""
        return 1 if self.coupled else len(self.x)

    @property
    def coupled(self) -> bool:  # type: ignore[override]
        """See `Condition`."""
        return self.factor is not None

    def __repr__(self) -> str:
        return f"Observations(x: {list(self.x.shape)}, u: {list(self.u.shape)})"

    def prepared(self, domain: Domain, outputs: Sequence[str]) -> Self:
        """See `Condition`."""
        points_within(self.x, domain, "Observations: x")
        other = super().prepared(domain, outputs)
        count = len(outputs) if other.component is None else len(other.component)
        if self.u.shape[1] != count:
            of = "component=..." if self.component is not None else "all; say which by component="
            raise InputError(
                f"Observations: u has {self.u.shape[1]} column(s), and {count} component(s) are "
                f"observed ({of})"
            )
        return other

    def points(self, domain: Domain, n: int) -> Arrays:
        """Return x: [n, d], u: [n, c] and, if given, σ: [n, c] of all observations (local).

        With a covariance, they are one row: x: [1, n, d], u: [1, n], L⁻¹: [1, n, n].
        """
        x = points_within(self.x, domain, "Observations: x")
        if self.factor is not None:
            return x[None], self.u[:, 0][None], self.factor[None]
        return (x, self.u) if self.noise is None else (x, self.u, self.noise)

    def residual(self, u: FieldLike, *arrays: tf.Tensor) -> tf.Tensor:
        """Compute (u(x) − u)/σ: [k, c], or L⁻¹(u(x) − u): [1, n] (local)."""
        x, measured, *noise = arrays
        if self.factor is not None:
            values = at_all(lambda z: select(u(z), self.component, "Observations"), x)
            return whitened(noise[0], values - measured)
        difference = select(u(x), self.component, "Observations") - measured
        return difference / noise[0] if noise else difference

    def _checked_noise(self, noise: Any) -> FloatArray:
        array = finite_array(noise, "Observations: noise")
        array = array[:, None] if array.shape == (len(self.u),) else array
        if array.shape == (len(self.u),) * 2 and self.u.shape[1] == 1 and len(self.u) > 1:
            self.factor = whitening(array, "Observations: noise")
            array = np.sqrt(np.diag(array))[:, None]
        if array.shape not in ((), self.u.shape, (len(self.u), 1)):
            raise InputError(
                f"Observations: noise must be a number, deviations of the shape "
                f"{list(self.u.shape)} of u, or, of one component, a covariance "
                f"[{len(self.u)}, {len(self.u)}]; got {list(array.shape)}"
            )
        if not np.all(array > 0):
            raise InputError("Observations: noise must be positive, a standard deviation")
        return np.broadcast_to(array, self.u.shape).copy()
