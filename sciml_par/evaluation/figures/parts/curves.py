"""What is drawn over steps, epochs or ranks: losses, accuracies and times, as plain arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

import numpy as np

from sciml_par.errors import InputError
from sciml_par.evaluation._arrays import as_real, check_finite, check_label


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
        The terms that the loss is the sum of, by name; by default none are known.
    best_step, best_loss : float, optional
        The step of the least loss, and that loss; without it, that of the nearest record is taken.
    phases : sequence of (step, str)
        Where each phase of the training began, and its name.
    learning_rate : array [s], optional
        The learning rate at each of the steps.

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
    phases: Sequence[tuple[float, str]] = ()
    learning_rate: np.ndarray | None = None

    def __post_init__(self) -> None:
        check_label(self.label, "LossCurve.label")
        where = f"LossCurve {self.label!r}"
        step, loss = _over_steps(self.step, self.loss, where, "loss")
        object.__setattr__(self, "step", step)
        object.__setattr__(self, "loss", loss)
        given = self.terms or {}
        terms = {name: _like(step, given[name], f"{where}, {name}") for name in given}
        object.__setattr__(self, "terms", MappingProxyType(terms))
        if self.learning_rate is not None:
            rate = _like(step, self.learning_rate, f"{where}, learning_rate")
            object.__setattr__(self, "learning_rate", rate)
        object.__setattr__(self, "phases", _phases(self.phases, where))


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
        What it is known to be.

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
        step, value = _over_steps(self.step, self.value, where, "value")
        object.__setattr__(self, "step", step)
        object.__setattr__(self, "value", value)


@dataclass(frozen=True, eq=False)
class AccuracyCurve:
    """The accuracy of one training run of a classifier, after each epoch.

    Attributes
    ----------
    label : str
        Name in the legend, such as "2 ranks".
    accuracy : array [e]
        The share of the test data that is classified rightly, 0 to 1, after epochs 1 to e.
    training_accuracy : array [e], optional
        The same of the training data.

    Raises
    ------
    InputError
        If an array is empty or of another shape, or a value is no share.
    """

    label: str
    accuracy: np.ndarray
    training_accuracy: np.ndarray | None = None

    def __post_init__(self) -> None:
        check_label(self.label, "AccuracyCurve.label")
        where = f"AccuracyCurve {self.label!r}"
        accuracy = _shares(self.accuracy, f"{where}, accuracy")
        object.__setattr__(self, "accuracy", accuracy)
        if self.training_accuracy is None:
            return
        training = _shares(self.training_accuracy, f"{where}, training_accuracy")
        if training.shape != accuracy.shape:
            raise InputError(
                f"{where}: expected both accuracies after the same epochs; got "
                f"{accuracy.size} and {training.size} of them."
            )
        object.__setattr__(self, "training_accuracy", training)


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
        What the numbers are: told apart by the marks.
    scaling : {"weak", "strong"}, optional
        Whether each rank, or all ranks together, have a given amount of work; each kind of scaling
        has panels of its own.

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
        if self.kind not in ("measured", "modelled", "published"):
            raise InputError(
                f"{where}: expected kind 'measured', 'modelled' or 'published'; got {self.kind!r}."
            )
        if self.scaling not in ("weak", "strong", None):
            raise InputError(
                f"{where}: expected scaling 'weak', 'strong' or None; got {self.scaling!r}."
            )
        ranks = as_real(self.ranks, f"{where}, ranks")
        increasing = ranks.ndim == 1 and ranks.size > 0 and np.all(np.diff(ranks) > 0)
        if not increasing or not np.all((ranks >= 1) & np.isfinite(ranks)):
            raise InputError(
                f"{where}, ranks: expected increasing numbers of ranks [r], from 1 on; got "
                f"{ranks.tolist()}."
            )
        object.__setattr__(self, "ranks", _frozen(ranks))
        name = "efficiency" if self.time is None else "time"
        values = _like(ranks, getattr(self, name), f"{where}, {name}")
        if not np.all((values > 0) & np.isfinite(values)):
            raise InputError(f"{where}, {name}: expected positive numbers; got {values.tolist()}.")
        object.__setattr__(self, name, values)


def _frozen(values: np.ndarray) -> np.ndarray:
    values.flags.writeable = False
    return values


def _over_steps(
    step: np.ndarray, values: np.ndarray, where: str, name: str
) -> tuple[np.ndarray, np.ndarray]:
    """Return the steps and the values recorded at them, both of shape [s]."""
    step, values = as_real(step, f"{where}, step"), as_real(values, f"{where}, {name}")
    if step.ndim != 1 or step.shape != values.shape or step.size == 0:
        raise InputError(
            f"{where}: expected step and {name} of one shape [s], s >= 1; got "
            f"{list(step.shape)} and {list(values.shape)}. Record one {name} for each step."
        )
    check_finite(step, f"{where}, step")
    if np.any(np.diff(step) < 0):
        raise InputError(f"{where}, step: expected steps that never decrease. Sort them.")
    return _frozen(step), _frozen(values)


def _phases(phases: Sequence[tuple[float, str]], where: str) -> tuple[tuple[float, str], ...]:
    try:
        found = tuple((float(start), str(name)) for start, name in phases)
    except (TypeError, ValueError):
        found = ((np.nan, ""),)
    starts = np.array([start for start, _ in found])
    # Written so that a NaN fails, as no comparison with it is true.
    if not np.all(np.isfinite(starts)) or not np.all(np.diff(starts) >= 0):
        raise InputError(
            f"{where}, phases: expected pairs (step, name) in order, such as [(0, 'Adam'), "
            f"(5000, 'SGD')]; got {phases!r}."
        )
    return found


def _like(places: np.ndarray, values: np.ndarray, where: str) -> np.ndarray:
    found = as_real(values, where)
    if found.shape != places.shape:
        raise InputError(
            f"{where}: expected {places.size} numbers in one axis; got shape {list(found.shape)}."
        )
    return _frozen(found)


def _shares(values: np.ndarray, where: str) -> np.ndarray:
    found = as_real(values, where)
    if found.ndim != 1 or found.size == 0 or not np.all((found >= 0) & (found <= 1)):
        raise InputError(
            f"{where}: expected shares from 0 to 1, one an epoch, shape [e]; got {found.tolist()}."
        )
    return _frozen(found)
