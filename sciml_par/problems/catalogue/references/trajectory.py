"""Solutions of initial value problems of ordinary differential equations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]


def trajectory(
    velocity: Callable[[FloatArray], FloatArray],
    start: Sequence[float],
    end: float,
    *,
    tolerance: float = 1e-12,
) -> Callable[[FloatArray], FloatArray]:
    """The solution w(t) of w′ = f(w) from w(0) on [0, end], as t: [n, 1] -> w: [n, k] (local).

    By the method of Dormand and Prince of the order 8 with an interpolant of the order 7 (Hairer,
    Nørsett and Wanner 1993, section II.5), computed at the first call. For Lotka–Volterra and
    Lorenz of the catalogue it is right to about 1e-10, relative.

    Parameters
    ----------
    velocity : f, w: [k] -> [k].
    start : w(0), k numbers.
    end : the last time.
    tolerance : of a step, relative to w.
    """

    @cache
    def solved() -> Callable[[FloatArray], FloatArray]:
        from scipy.integrate import solve_ivp  # its import takes long

        found = solve_ivp(
            lambda t, w: velocity(w),
            (0.0, end),
            np.array(start),
            method="DOP853",
            rtol=tolerance,
            atol=tolerance,
            dense_output=True,
            max_step=end / 400,
        )
        interpolant: Callable[[FloatArray], FloatArray] = found.sol
        return interpolant

    return lambda t: np.asarray(solved()(t[:, 0])).T
