"""The figure of accuracies over epochs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from sciml_par.errors import InputError

from ._arrays import as_real, check_label
from .legend import Entry, line_entry
from .marks import NEUTRAL
from .style import line_of, make_grid, paper_style

_TRAINING = {"linestyle": "-", "linewidth": 0.7, "alpha": 0.5}


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


def plot_accuracies(curves: Sequence[AccuracyCurve], *, title: str | None = None) -> Figure:
    """Draw one line a run, the accuracy over the epoch, and a thin pale one for the training data.

    Local: call it on one rank.

    Parameters
    ----------
    curves : sequence of AccuracyCurve
        One a run; their numbers of epochs may differ.
    title : str, optional
        Title above the panel.

    Returns
    -------
    matplotlib.figure.Figure
        3.5 inches wide. Pass it to `save_figure`.

    Raises
    ------
    InputError
        If there are no curves.
    """
    found = [curve for curve in curves if isinstance(curve, AccuracyCurve)]
    if not found or len(found) < len(curves):
        raise InputError(
            f"plot_accuracies: expected one AccuracyCurve or more in a list; got {list(curves)!r}."
        )
    with paper_style():
        grid = make_grid(1, 1, [(0, 0)], 2.3)
        axes = grid.panels[0, 0]
        entries = _draw(axes, found)
        axes.set_ylabel("accuracy")
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True, min_n_ticks=1))
        grid.label_x("epoch")
        return grid.finish(entries, title=title)


def _draw(axes: Axes, curves: Sequence[AccuracyCurve]) -> list[Entry]:
    entries: list[Entry] = []
    for index, curve in enumerate(curves):
        look = line_of(index, of=len(curves))
        epoch = np.arange(1, curve.accuracy.size + 1)
        marker = "o" if epoch.size == 1 else ""
        lines = axes.plot(epoch, curve.accuracy, label=curve.label, marker=marker, **look)
        entries.append((lines[0], curve.label))
        if curve.training_accuracy is not None:
            axes.plot(epoch, curve.training_accuracy, **{**look, **_TRAINING}, marker=marker)
    if any(curve.training_accuracy is not None for curve in curves):
        entries.append(line_entry("training data", color=NEUTRAL, **_TRAINING))
    axes.set_ylim(*_limits(curves))
    return entries


def _limits(curves: Sequence[AccuracyCurve]) -> tuple[float, float]:
    """From a little below the least accuracy to a little above 1, so that a line at 1 is seen."""
    least = min(
        float(np.min(values))
        for curve in curves
        for values in (curve.accuracy, curve.training_accuracy)
        if values is not None
    )
    reach = max(1.0 - least, 0.01)
    return max(1.0 - 1.05 * reach, -0.02), 1.0 + 0.03 * reach


def _shares(values: np.ndarray, where: str) -> np.ndarray:
    found = as_real(values, where)
    if found.ndim != 1 or found.size == 0 or not np.all((found >= 0) & (found <= 1)):
        raise InputError(
            f"{where}: expected shares from 0 to 1, one an epoch, shape [e]; got {found.tolist()}."
        )
    found.flags.writeable = False
    return found
