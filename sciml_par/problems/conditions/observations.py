"""Measured values at points of the domain."""

from __future__ import annotations

import copy
import difflib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.problems.checks.arrays import BoolArray, FloatArray, finite_array
from sciml_par.problems.checks.functions import check_takes
from sciml_par.problems.conditions.condition import Arrays, Condition
from sciml_par.problems.conditions.coupled import at_all, whitening
from sciml_par.problems.conditions.in_time import in_slab
from sciml_par.problems.conditions.robust import LOSSES
from sciml_par.problems.conditions.selection import (
    Component,
    Components,
    as_components,
    points_within,
    select,
)
from sciml_par.problems.domains.domain import Domain
from sciml_par.problems.operators.arguments import FieldLike

Operator = Callable[..., Any]

UNKNOWN = "unknown"
_SHARE = 0.1
"""The deviation at which an unknown one starts, relative to that of the observed values."""


class Observations(Condition):
    """(u(x_i) − u_i)/σ_i = 0 at measured points x_i of the closed domain, or of f(u, x_i).

    All points are used, in their order, distributed over the ranks. With `noise`, the sum of the
    squares is χ². `train` then minimizes χ² among the fields that satisfy the equations and the
    other conditions, unless the observations have a `weight`.

    Parameters
    ----------
    x : array [n, d], or [n] where d = 1
    u : array [n, c], or [n] where c = 1
        The measured values of c components.
    component
        The measured components, as for `Dirichlet`; by default all, c = m.
    noise : float, or array of the shape of u, or [n], or [n, n], or "unknown", optional
        Standard deviations σ_i > 0 of the errors, in units of u. With "unknown", σ is that of u_i
        about their mean over 10 during the training, for each component, and `Member.fits` has the
        deviation that was found. By default the errors are not known: the term is the mean square
        of u(x_i) − u_i and weighs as other conditions do.
        For correlated errors of one component, noise is their covariance C: [n, n] with n > 1,
        symmetric and positive definite, in units of u squared, and the residual is L⁻¹(u(x) − u)
        with C = L Lᵀ. If u: [n, c] has several components, an array [n, n] contains deviations, and
        n must be c. Points with a covariance are one row of the loss, on one rank, which batches
        and bootstrap samples do not divide.
    loss : "squares", "huber" or "student"
        What a value with the error r = (u(x_i) − u_i)/σ_i adds to χ². "squares" is r², for normal
        errors. The others limit the influence of outliers, where σ is the deviation of the good
        values: "huber" is 2δ|r| − δ² beyond δ = 1.345, and "student" is ν log(1 + r²/ν) with ν = 4,
        for outliers that are far off. Both require deviations that are known.
    operator : callable, optional
        (u, x: [n, d]) -> f: [n, c], the measured quantity, in TensorFlow operations and the
        operators of this package; by default u(x). Unknowns of the problem are further arguments,
        by keyword. Everything said above about u(x_i) then holds for f(u, x_i).
    holdout : float or array [n] of bool, optional
        The share of the points, chosen at random, or the points themselves, that the training does
        not use. `train` keeps the weights with the least loss at these in place of the others, and
        ends when it has not fallen for long: early stopping. `held_out` is their condition.
    name, weight
        As for `Condition`.

    Raises
    ------
    InputError
        An array has the wrong shape or contains NaN, a deviation is not positive, no points are
        left to train on or to hold out, points with a covariance are held out, or points lie
        outside the domain of the problem. A robust loss has no deviation of the good values. The
        operator does not return a column for each column of u.

    References
    ----------
    Huber, "Robust estimation of a location parameter", Ann. Math. Statist. 35, 1964. Lange, Little
    and Taylor, "Robust statistical modeling using the t distribution", J. Am. Stat. Assoc. 84,
    1989.

    Examples
    --------
    >>> from sciml_par.problems import Observations
    >>> measured = Observations([[0.1], [0.7]], [1.2, 0.9], noise=0.05)

    A flux −0.5 u′ at both ends:

    >>> from sciml_par.problems import derivative
    >>> def flux(u, x):
    ...     return -0.5 * derivative(u, x, 0)
    >>> fluxes = Observations([[0.0], [1.0]], [0.3, -0.2], noise=0.01, operator=flux)
    """

    kind: ClassVar[str] = "observations"
    on_boundary = False
    selects: ClassVar[tuple[str, ...]] = ("component",)
    points_are_given: ClassVar[bool] = True
    held_out: Observations | None = None

    def __init__(
        self,
        x: npt.ArrayLike,
        u: npt.ArrayLike,
        *,
        component: Component | None = None,
        noise: npt.ArrayLike | str | None = None,
        loss: str = "squares",
        operator: Operator | None = None,
        holdout: npt.ArrayLike | None = None,
        name: str = "",
        weight: float | None = None,
    ) -> None:
        self._set_common(on=None, where=None, points=None, name=name, weight=weight)
        self.component: Components | None = as_components(component, "Observations: component")
        self.operator = _checked_operator(operator, component)
        self.x, values = finite_array(x, "Observations: x"), finite_array(u, "Observations: u")
        self.u = values[:, None] if values.ndim == 1 else values
        if self.x.ndim not in (1, 2) or self.u.ndim != 2 or len(self.x) != len(self.u):
            raise InputError(
                f"Observations: x must be [n, d] and u [n, c] or [n], with one row for each point; "
                f"got {list(self.x.shape)} and {list(values.shape)}"
            )
        self.noise_unknown = isinstance(noise, str)
        self.factor: FloatArray | None = None
        self.noise = None if noise is None else self._checked_noise(noise)
        self.loss = _one_of(loss, tuple(LOSSES), "loss")
        known = self.noise is not None and not (self.noise_unknown or self.coupled)
        if self.loss != "squares" and not known:
            raise InputError(
                f"Observations: loss={self.loss!r} tells outliers by the deviation of the good "
                f"values; give it as a number or an array [n], noise=σ."
            )
        if holdout is not None:
            rows = _rows_of(holdout, len(self.x), coupled=self.coupled)
            self.held_out = copy.copy(self)
            for part, chosen in ((self.held_out, rows), (self, ~rows)):
                part.x, part.u = part.x[chosen], part.u[chosen]
                part.noise = None if part.noise is None else part.noise[chosen]

    @classmethod
    def from_file(
        cls,
        path: str | Path,
        *,
        x: str | Sequence[str],
        u: str | Sequence[str],
        noise: npt.ArrayLike | str | Sequence[str] | None = None,
        units: Mapping[str, float] | None = None,
        missing: str = "error",
        component: Component | None = None,
        loss: str = "squares",
        operator: Operator | None = None,
        holdout: npt.ArrayLike | None = None,
        name: str = "",
        weight: float | None = None,
    ) -> Observations:
        """Read the observations from the columns of a table (local).

        Parameters
        ----------
        path : a file .csv, .tsv, .txt (columns between blanks), .parquet, .npz or .nc.
        x, u : names of the columns with the coordinates and the measured values, in order.
        noise : a column or columns with the deviations; otherwise as for `Observations`.
        units : factors by which columns are multiplied, as {"t": 3600} of hours for seconds.
        missing : "error", or "drop" for leaving out the rows in which a value is missing.
        component, loss, operator, holdout, name, weight : as for `Observations`.

        Raises
        ------
        InputError
            The file cannot be read, a column does not exist or has text or dates, a factor is not a
            number, or values are missing, with the numbers of their rows; or as for `Observations`.

        Examples
        --------
        >>> import pandas, pathlib, tempfile
        >>> from sciml_par.problems import Observations
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "probe.csv"
        >>> table = pandas.DataFrame({"t": [0.1, 0.7], "u": [1.2, 0.9], "sigma": [0.05, 0.05]})
        >>> table.to_csv(path, index=False)
        >>> Observations.from_file(path, x="t", u="u", noise="sigma").u.shape
        (2, 1)
        """
        # It needs pandas, which is an extra.
        from sciml_par.problems.checks.columns_of_files import read_columns

        points, values, deviations = read_columns(
            path,
            where="Observations.from_file",
            x=x,
            u=u,
            noise=noise,
            units=units,
            missing=missing,
        )
        return cls(
            points,
            values,
            noise=deviations,
            component=component,
            loss=loss,
            operator=operator,
            holdout=holdout,
            name=name,
            weight=weight,
        )

    @property
    def statistical(self) -> bool:  # type: ignore[override]
        return self.noise is not None

    @property
    def number_of_rows(self) -> int:  # type: ignore[override]
        """The number of points; 1 of points with a covariance, which are components of one row."""
        return 1 if self.coupled else len(self.x)

    @property
    def coupled(self) -> bool:  # type: ignore[override]
        return self.factor is not None

    @property
    def number_of_values(self) -> int:  # type: ignore[override]
        """See `Condition`; the number of points times that of components."""
        return self.u.size

    def __repr__(self) -> str:
        return f"Observations(x: {list(self.x.shape)}, u: {list(self.u.shape)})"

    def prepared(self, domain: Domain, outputs: Sequence[str]) -> Self:
        points_within(self.x, domain, "Observations: x")
        other = super().prepared(domain, outputs)
        if self.held_out is not None:
            other.held_out = self.held_out.prepared(domain, outputs)
        if self.operator is not None:
            return other
        count = len(outputs) if other.component is None else len(other.component)
        if self.u.shape[1] != count:
            of = "component=..." if self.component is not None else "all; say which by component="
            raise InputError(
                f"Observations: u has {self.u.shape[1]} column(s), and {count} component(s) are "
                f"observed ({of})"
            )
        return other

    def on_slab(self, whole: Domain, slab: Domain) -> Self | None:
        """See `Condition`; each slab has the observations that lie in it."""
        x = points_within(self.x, whole, "Observations: x")
        chosen = in_slab(x, whole, slab)
        if not chosen.any():
            return None
        if self.coupled and not chosen.all():
            raise InputError(
                "Observations: errors with a covariance are correlated between slabs of time; give "
                "noise=σ, or observations of each slab with a covariance."
            )
        noise = None if self.noise is None else self.noise[chosen]
        held_out = self.held_out and self.held_out.on_slab(whole, slab)
        return self._with(x=x[chosen], u=self.u[chosen], noise=noise, held_out=held_out)

    def points(self, domain: Domain, n: int) -> Arrays:
        """Return x: [n, d], u: [n, c] and, if given, σ: [n, c] of all observations (local).

        With a covariance, they are one row: x: [1, n, d], u: [1, n], L⁻¹: [1, n, n].
        """
        x = points_within(self.x, domain, "Observations: x")
        if self.factor is not None:
            return x[None], self.u[:, 0][None], self.factor[None]
        return (x, self.u) if self.noise is None else (x, self.u, self.noise)

    @property
    def single(self) -> Self | None:
        """See `Condition`; the errors before L⁻¹."""
        own = type(self).residual is not Observations.residual
        return self._with(factor=None) if self.coupled and not own else None

    def sums(self, *arrays: FloatArray) -> tuple[Arrays, Any, FloatArray]:
        """See `Condition`."""
        (x,), (measured,), (factor,) = arrays
        return (x, measured[:, None]), factor, np.zeros((len(x), 1))

    def residual(self, u: FieldLike, *arrays: tf.Tensor) -> tf.Tensor:
        """Compute the errors, or what a robust loss makes of them: [k, c], or [1, n] (local)."""
        return LOSSES[self.loss](self.errors(u, *arrays))

    def errors(self, u: FieldLike, *arrays: tf.Tensor) -> tf.Tensor:
        """Compute (u(x) − u)/σ: [k, c], or L⁻¹(u(x) − u): [1, n] (local)."""
        x, measured, *noise = arrays
        if self.factor is not None:
            values = at_all(lambda z: self.quantities(u, z), x)
            return tf.linalg.matvec(noise[0], values - measured)
        difference = self.quantities(u, x) - measured
        return difference / noise[0] if noise else difference

    def quantities(self, u: FieldLike, x: tf.Tensor) -> tf.Tensor:
        """Compute the measured quantities, u(x) or f(u, x): [k, c] (local)."""
        if self.operator is None:
            return select(u(x), self.component, "Observations")
        values = self.operator(u, x)
        columns = self.u.shape[1]
        if not tf.is_tensor(values) or values.shape.rank != 2 or values.shape[1] != columns:
            got = values.shape.as_list() if tf.is_tensor(values) else type(values).__name__
            raise InputError(
                f"Observations: operator must return a tensor [n, {columns}], a column for each of "
                f"u, got {got}; one component is u['v'](x), which keeps both axes"
            )
        return values

    def with_squares(self) -> Self:
        """Return the same observations with the loss "squares", whose residuals are the errors."""
        return self._with(loss="squares")

    def _checked_noise(self, noise: Any) -> FloatArray:
        """Return σ: [n, c]."""
        if isinstance(noise, str):
            _one_of(noise, (UNKNOWN,), "noise")
            spread, size = self.u.std(axis=0), np.abs(self.u).max(axis=0)
            spread = np.where(spread > 0, spread, size)
            start = _SHARE * np.where(spread > 0, spread, 1.0)
            return np.broadcast_to(start, self.u.shape).copy()
        array = finite_array(noise, "Observations: noise")
        rows = len(self.u)
        if array.shape == (rows, rows) and self.u.shape[1] == 1 and rows > 1:
            self.factor = whitening(array, "Observations: noise")
            array = np.sqrt(np.diag(array))
        if array.shape not in ((), self.u.shape, (rows, 1), (rows,)):
            one = self.u.shape[1] == 1
            each = f"[{rows}]" if one else f"[{rows}] or [{rows}, {self.u.shape[1]}]"
            raise InputError(
                f"Observations: noise must be a number, or an array {each} with a standard "
                f"deviation for each of the {rows} rows of u, or, of one component, a covariance "
                f"[{rows}, {rows}]; got {list(array.shape)}"
            )
        array = array[:, None] if array.shape == (rows,) else array
        bad = np.argwhere(~(array > 0))
        if len(bad):
            first = array[tuple(bad[0])]
            row = f" in row {bad[0][0]}" if array.ndim else ""
            raise InputError(
                f"Observations: noise must be positive, the standard deviation of an error; got "
                f"{first:g}{row}. Values without an error belong into a condition: "
                f"Observations(x, u) without noise."
            )
        return np.broadcast_to(array, self.u.shape).copy()


def _checked_operator(operator: Any, component: Any) -> Operator | None:
    """Return the operator, if it can be called as one."""
    if operator is None:
        return None
    what = "Observations: operator"
    if not callable(operator):
        raise InputError(f"{what} must be a function (u, x) -> [n, c], got {operator!r}")
    if component is not None:
        raise InputError(
            f"{what} has all measured columns, so that component={component!r} selects nothing; "
            f"leave it out, and write u['v'] in the operator"
        )
    check_takes(operator, "u, x", what=what, more_by_name=True)
    checked: Operator = operator
    return checked


def _rows_of(holdout: Any, count: int, *, coupled: bool) -> BoolArray:
    """Return which of the rows are held out, [n]."""
    what = "Observations: holdout"
    if coupled:
        raise InputError(f"{what} needs errors that are not correlated; give noise=σ.")
    rows = np.asarray(holdout)
    if rows.dtype != bool or rows.shape != (count,):
        share = finite_array(holdout, what)
        if share.shape != () or not 0 < share < 1:
            raise InputError(
                f"{what} must be a share between 0 and 1, as 0.2, or booleans [{count}], True for "
                f"the points that are not trained on; got {holdout!r}."
            )
        chosen = np.random.default_rng(0).permutation(count)[: max(1, round(float(share) * count))]
        rows = np.isin(np.arange(count), chosen)
    if rows.all() or not rows.any():
        raise InputError(
            f"{what}={holdout!r} of {count} points leaves none to "
            f"{'train on' if rows.all() else 'hold out'}."
        )
    return rows


def _one_of(word: Any, known: tuple[str, ...], what: str) -> str:
    if isinstance(word, str) and word in known:
        return word
    near = difflib.get_close_matches(str(word), known, n=1)
    words = " or ".join(map(repr, known)) + (", or numbers" if what == "noise" else "")
    raise InputError(
        f"Observations: {what} must be {words}, got {word!r}"
        + (f"; did you mean {near[0]!r}?" if near else "")
    )
