"""Where conditions hold: functions of the points of the boundary, for `where`."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Where = Callable[[npt.NDArray[np.float64]], npt.NDArray[np.bool_]]


def at(axis: int, *values: float) -> Where:
    """Where the coordinate of an axis has one of these values."""

    def where(x: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
        return np.isin(x[:, axis], values)

    return where
