"""Observations with errors, and how well they determine numbers, as figures take them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sciml_par.errors import InputError
from sciml_par.evaluation._arrays import as_columns, check_finite, check_label, keep
from sciml_par.evaluation.figures.parts import style
from sciml_par.evaluation.figures.parts.data import Prediction

HELD_OUT = "held out"
"""The end of the label of observations that were not trained on."""


@dataclass(frozen=True, eq=False)
class Observed:
    """Observed values with the standard deviations of their errors.

    Attributes
    ----------
    label : str
        The name of the term of the loss.
    x : array [n, d] or [n]
        Where they were observed.
    u : array [n, c] or [n]
        The observed values.
    noise : array [n, c] or [n]
        Standard deviations of their errors, in units of u.
    components : c numbers
        The observed components of the solution, from 0; by default the first c.

    Raises
    ------
    InputError
        If the shapes do not agree, or a number is not finite.
    """

    label: str
    x: np.ndarray
    u: np.ndarray
    noise: np.ndarray
    components: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        check_label(self.label, "Observed.label")
        where = f"Observed {self.label!r}"
        for name in ("x", "u", "noise"):
            array = as_columns(getattr(self, name), f"{where}, {name}")
            check_finite(array, f"{where}, {name}")
            keep(self, **{name: array})
        if self.u.shape != self.noise.shape or len(self.u) != len(self.x):
            raise InputError(
                f"{where}: expected x of shape [n, d], and u and noise of shape [n, c]; got "
                f"{list(self.x.shape)}, {list(self.u.shape)} and {list(self.noise.shape)}."
            )
        columns = self.u.shape[1]
        keep(self, components=tuple(self.components) or tuple(range(columns)))
        if len(self.components) != columns:
            raise InputError(
                f"{where}: expected the numbers of {columns} components; got {self.components}."
            )

    def of(self, component: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return x: [n, d], u: [n] and noise: [n] of a component; n = 0 if it is not observed."""
        if component not in self.components:
            return self.x[:0], self.u[:0, 0], self.noise[:0, 0]
        k = self.components.index(component)
        return self.x, self.u[:, k], self.noise[:, k]


@dataclass(frozen=True, eq=False)
class Uncertain:
    """What figures take of an uncertainty, the base of what `Result.uncertainty` returns."""

    method: str
    level: float
    names: tuple[str, ...]
    values: np.ndarray
    deviations: np.ndarray
    covariance: np.ndarray
    bounds: np.ndarray
    numerical: np.ndarray
    remarks: tuple[str, ...] = ()
    reason: str = ""
    chi_square: float = math.nan
    degrees: float = math.nan
    draws: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))
    profiles: Mapping[str, tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)
    reach: float = math.nan
    true: np.ndarray = field(default_factory=lambda: np.empty(0))
    prediction: Any = None
    observations: tuple[Observed, ...] = ()
    linearized: Uncertain | None = None

    def bands(self, x: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return the lower and upper end of the interval of u(x), [n, m] each (local)."""
        raise NotImplementedError

    def deviations_after(self, x: Any, *, noise: float) -> np.ndarray:
        """Return the deviations with one more observation at x, [n, m, q] (local)."""
        raise NotImplementedError


def check_known(uncertainty: Uncertain, where: str) -> None:
    """Refuse other objects, and an uncertainty that is not known."""
    if not hasattr(uncertainty, "deviations"):
        raise InputError(
            f"{where}: expected what result.uncertainty() returns; got {uncertainty!r}."
        )
    if uncertainty.reason:
        raise InputError(f"{where}: the uncertainty is not known: {uncertainty.reason}.")


def linear_of(uncertainty: Uncertain) -> Uncertain:
    """Return the linearization that other methods begin with."""
    return uncertainty.linearized or uncertainty


def prediction_of(uncertainty: Uncertain, where: str) -> Prediction:
    """Return the prediction of at most two coordinates."""
    found = uncertainty.prediction
    if not isinstance(found, Prediction):
        raise InputError(f"{where}: the arrays of the prediction are not here; call it on rank 0.")
    if found.dimension > 2:
        raise InputError(
            f"{where}: expected one or two coordinates, got {found.dimension}. Take "
            f"uncertainty.bands(x) at points of a line or a plane."
        )
    return found


_GREEK = (
    *("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "kappa", "lambda"),
    *("mu", "nu", "xi", "rho", "sigma", "tau", "phi", "chi", "psi", "omega"),
)


def name_of_number(name: str) -> str:
    """Return the name of an unknown as mathematics."""
    base, bracket, place = name.partition("[")
    if not bracket and base in _GREEK:
        return f"$\\{base}$"
    return style.math(base) + (f"[{place}" if bracket else "")
