"""Gauss–Newton for the output layers of windows, without a compiled loop around it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par.errors import InputError
from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.training.members.stack import Stack
from sciml_par.training.optimizers.least_squares.least_squares import LEAST_GAIN, LeastSquares
from sciml_par.training.optimizers.least_squares.on_host import threads
from sciml_par.training.outcome.together import together
from sciml_par.training.points.division import longest_axis
from sciml_par.training.points.feed import Batch
from sciml_par.training.windows.exchange import summed
from sciml_par.training.windows.normal import NormalEquations
from sciml_par.training.windows.rows import RowsOfWindows

Array = npt.NDArray[np.float64]
Said = Callable[[int, float, int], None]

_TRIED = 64
"""Points of a window's part of which one may lie in the domain."""
_LINEAR = 0.01
"""A step whose loss differs from the predicted one by no more than this share has found it."""


class WindowedGaussNewton:
    """Solves for the output layers of one network in windows, and for unknowns (collective)."""

    def __init__(self, stack: Stack, ranks: Communicator, method: LeastSquares) -> None:
        self._stack, self._ranks, self._method = stack, ranks, method
        self._rows = RowsOfWindows(stack)
        self._model: Any = stack.network.model

    def solve(
        self, theta: Array, batch: Batch, steps: int, said: Said | None = None
    ) -> tuple[Array, Array]:
        """Return θ: [p] after n steps, and the terms of the loss there, [T].

        After fewer, if the loss falls no further, or where a step ends at the loss that the
        linearized equation predicts.
        """
        terms = self.terms(theta, batch)
        for step in range(1, steps + 1):
            before = float(terms.sum())
            with threads(1):  # several would spin where cores are shared: 11 s in place of 1 s
                direction, predicted, columns = self._direction(theta, batch)
            size = 1.0
            for _ in range(self._method.halvings):
                moved = theta - size * direction
                there = self.terms(moved, batch)
                loss = float(there.sum())
                if loss < before:
                    break
                size /= 2
            else:
                break
            theta, terms = moved, there
            if said is not None:
                said(step, loss, columns)
            linear = size == 1.0 and abs(loss - predicted) <= _LINEAR * predicted
            if loss > LEAST_GAIN * before or linear:
                break
        return theta, terms

    def terms(self, theta: Array, batch: Batch) -> Array:
        """Return the terms of the loss at θ: [p] over the points of all ranks, [T]."""
        here = together(self._ranks, lambda: self._rows.terms(theta, batch))
        return summed(here, self._ranks)

    def _direction(self, theta: Array, batch: Batch) -> tuple[Array, float, int]:
        """Return J⁺ r at the places of θ, the loss that it predicts, and the columns kept."""
        rows = together(self._ranks, lambda: self._rows.rows(theta, batch))
        layout = self._stack.layout
        kernel, bias = layout.linear or ()
        _, w, m = layout.shapes[kernel]
        normal = NormalEquations(
            rows,
            self._model.partition,
            self._ranks,
            axis=longest_axis(self._stack.problem.domain),
            columns=(w + 1) * m,
            cutoff=self._method.cutoff_in(theta.dtype),
        )
        together(self._ranks, lambda: check_windows(self._stack, normal.windows))
        weights, unknowns = normal.solve()
        predicted = float(summed(np.array([normal.predicted(weights, unknowns)]), self._ranks)[0])
        parts = [np.zeros(each) for each in layout.shapes]
        for k, layer in enumerate(weights.reshape(-1, w + 1, m)):
            own = self._model.features_of_windows[k]
            parts[kernel][k][:own], parts[bias][k] = layer[:own], layer[own]
        flat = np.concatenate([each.ravel() for each in parts])
        flat[len(flat) - len(unknowns) :] = unknowns
        return flat.astype(theta.dtype), predicted, normal.columns_kept


def check_windows(stack: Stack, with_rows: Sequence[int]) -> None:
    """Raise if a part of the domain has a window without points (local)."""
    model: Any = stack.network.model
    partition, domain = model.partition, stack.problem.domain
    missing = sorted(set(range(partition.count)) - set(with_rows))
    if not missing or stack.problem.input_scaling:
        return
    unit = np.random.default_rng(0).uniform(size=(_TRIED, domain.dimension))
    lower, upper = partition.boxes()
    for window in missing:
        if domain.contains(lower[window] + unit * (upper - lower)[window]).any():
            raise InputError(
                f"LeastSquares with Windows: no point lies in {partition.name(window)}, in which a "
                f"part of the domain lies. Take more points=, or fewer parts."
            )
