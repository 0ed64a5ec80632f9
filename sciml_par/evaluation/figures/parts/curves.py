"""Losses, accuracies and times over steps, epochs or ranks, as plain arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

import numpy as np

from sciml_par.errors import InputError
from sciml_par.evaluation._arrays import as_real, check_finite, check_label, keep


@dataclass(frozen=True, eq=False)
class LossCurve:
    """The loss of one training run, at the steps where it was recorded.

    Attributes
    ----------
    label : str
        Name in the legend, such as "rank 0".
    step : array [s]
        Number of updates made before each loss; finite and never decreasing.
    loss : array [s]
        The loss (dimensionless). Values that are not finite are kept, and named in the legend.
    terms : mapping of str to array [s], optional
        The terms of the loss by name; their sum is the loss.
    best_step, best_loss : float, optional
        The step of the least loss, and that loss; without it, that of the nearest record is taken.

    Raises
    ------
    InputError
        If the arrays are empty, of different lengths, or the steps go back.
    """

    label: str
    step: np.ndarray
    loss: np.ndarray
    terms: Mapping[str, np.ndarray] | None = None
    best_step: float | None = None
    best_loss: float | None = None

    def __post_init__(self) -> None:
        check_label(self.label, "LossCurve.label")
        where = f"LossCurve {self.label!r}"
        step = _steps(self.step, f"{where}, step")
        terms = {
            name: _numbers(values, f"{where}, {name}", step)
            for name, values in (self.terms or {}).items()
        }
        keep(self, step=step, loss=_numbers(self.loss, f"{where}, loss", step))
        keep(self, terms=MappingProxyType(terms))


@dataclass(frozen=True, eq=False)
class UnknownCurve:
    """An unknown coefficient during one training run, at the steps where it was recorded.

    Attributes
    ----------
    name : str
        Of the coefficient, such as "D"; those of one name share a panel.
    label : str
        Of the run, in the legend, such as "rank 0".
    step : array [s]
        Number of updates made before each value; finite and never decreasing.
    value : array [s]
        In the unit of the coefficient.
    true : float, optional
        The known value.

    Raises
    ------
    InputError
        If the arrays are empty or of different lengths, or the steps go back.
    """

    name: str
    label: str
    step: np.ndarray
    value: np.ndarray
    true: float | None = None

    def __post_init__(self) -> None:
        check_label(self.name, "UnknownCurve.name")
        check_label(self.label, "UnknownCurve.label")
        where = f"UnknownCurve {self.name!r}"
        step = _steps(self.step, f"{where}, step")
        keep(self, step=step, value=_numbers(self.value, f"{where}, value", step))


@dataclass(frozen=True, eq=False)
class ScalingCurve:
    """How fast a program is on more and more ranks: parallel efficiencies, or times of a step.

    Attributes
    ----------
    label : str
        Name in the legend, such as "128 × 4". Curves of one label have one colour.
    ranks : array [r]
        Numbers of ranks, at least 1 and increasing.
    efficiency : array [r], optional
        The parallel efficiency (dimensionless, 1 is ideal). Either this or `time` is given.
    time : array [r], optional
        Seconds a step.
    kind : {"measured", "modelled", "published"}
        The origin of the numbers; the marks differ.
    scaling : {"weak", "strong"}, optional
        Whether each rank, or all ranks together, have a given amount of work; each kind of scaling
        has separate panels.

    Raises
    ------
    InputError
        If not exactly one of `efficiency` and `time` is given, a shape is wrong, a number is not
        positive, or `kind` or `scaling` is unknown.
    """

    label: str
    ranks: np.ndarray
    efficiency: np.ndarray | None = None
    time: np.ndarray | None = None
    kind: Literal["measured", "modelled", "published"] = "measured"
    scaling: Literal["weak", "strong"] | None = None

    def __post_init__(self) -> None:
        check_label(self.label, "ScalingCurve.label")
        where = f"ScalingCurve {self.label!r}"
        if (self.efficiency is None) == (self.time is None):
            raise InputError(f"{where}: pass either efficiency or time.")
        for name, allowed in (
            ("kind", ("measured", "modelled", "published")),
            ("scaling", ("weak", "strong", None)),
        ):
            if (value := getattr(self, name)) not in allowed:
                *others, last = map(repr, allowed)
                said = f"{', '.join(others)} or {last}"
                raise InputError(f"{where}: expected {name} {said}; got {value!r}.")
        ranks = _numbers(self.ranks, f"{where}, ranks")
        if not np.all((ranks >= 1) & np.isfinite(ranks)) or np.any(np.diff(ranks) <= 0):
            raise InputError(
                f"{where}, ranks: expected increasing numbers, from 1 on; got {ranks.tolist()}."
            )
        name = "efficiency" if self.time is None else "time"
        values = _numbers(getattr(self, name), f"{where}, {name}", ranks)
        if not np.all((values > 0) & np.isfinite(values)):
            raise InputError(f"{where}, {name}: expected positive numbers; got {values.tolist()}.")
        keep(self, ranks=ranks, **{name: values})


def _numbers(values: np.ndarray, where: str, like: np.ndarray | None = None) -> np.ndarray:
    """Return a read-only vector, at least one number or as many as in `like`."""
    found = as_real(values, where)
    if found.ndim != 1 or found.size == 0 or (like is not None and found.size != like.size):
        number = "one or more" if like is None else like.size
        raise InputError(
            f"{where}: expected {number} numbers in one axis; got shape {list(found.shape)}."
        )
    found.flags.writeable = False
    return found


def _steps(values: np.ndarray, where: str) -> np.ndarray:
    steps = _numbers(values, where)
    check_finite(steps, where)
    if np.any(np.diff(steps) < 0):
        raise InputError(f"{where}: expected steps that never decrease. Sort them.")
    return steps
