"""Where the parameters of windows lie in a banded matrix JᵀJ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import reverse_cuthill_mckee

from sciml_par.networks.keras.network import Network
from sciml_par.problems.conditions.periodic import Periodic
from sciml_par.problems.problem import Problem
from sciml_par.training.loss.parameter_layout import ParameterLayout

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class WindowBand:
    """The order of windows in which those that share points are near to each other."""

    places: IntArray  # in θ, of the parameters of each window that are trained, [K, c]
    position: IntArray  # of each window in the order, [K]
    coupled: npt.NDArray[np.bool_]  # which windows may have residuals in common, [K, K]
    unknowns: int  # how many numbers at the end of θ are unknowns of the problem, q
    slots: int  # how many windows cover a point, at most

    @classmethod
    def of(cls, problem: Problem, network: Network, layout: ParameterLayout) -> WindowBand | None:
        """Return that of a network in windows, or None of another one."""
        model: Any = network.model
        if not hasattr(model, "features_of_windows") or network.others:
            return None
        partition = model.partition
        starts = np.concatenate([[0], np.cumsum(layout.sizes)])
        trained = range(len(layout.shapes) - layout.unknowns)
        parts = [
            np.arange(starts[i], starts[i + 1]).reshape(partition.count, -1)
            for i in trained
            if i not in layout.frozen
        ]
        axes = [cast(int, each.axis) for each in problem.conditions if isinstance(each, Periodic)]
        coupled = partition.coupled(axes)
        middle = np.mean(partition.boxes(), axis=0).T  # [d, K]
        # Of a regular grid, the order along an axis has a band of half the width.
        orders = [np.lexsort(np.roll(middle, axis, axis=0)) for axis in range(len(middle))]
        orders.append(reverse_cuthill_mckee(csr_matrix(coupled), symmetric_mode=True))
        places = np.concatenate(parts, axis=1)
        sizes = layout.size_of_unknowns, len(partition.slots)
        made = [cls(places, np.argsort(order), coupled, *sizes) for order in orders]
        return min(made, key=lambda each: each.width)

    @property
    def size(self) -> int:
        """The number of parameters of all windows, P."""
        return self.places.size

    @property
    def width(self) -> int:
        """The number of diagonals below the main one, b."""
        k, other = np.nonzero(self.coupled)
        steps = np.abs(self.position[k] - self.position[other]).max(initial=0)
        return int(steps + 1) * self.places.shape[1] - 1

    def start(self, window: int) -> int:
        """Return the first row of a window in the matrix."""
        return int(self.position[window]) * self.places.shape[1]

    @property
    def in_order(self) -> IntArray:
        """The places in θ of the rows of the matrix, [P]."""
        return self.places[np.argsort(self.position)].ravel()
