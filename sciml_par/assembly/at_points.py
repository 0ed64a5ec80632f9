"""The values of solutions at arrays of points."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.problems.fields.recording import record
from sciml_par.problems.problem import Problem

Array = npt.NDArray[np.float64]


class AtPoints:
    """A solution at arrays of points: its problem, parameters and u as a field."""

    problem: Problem
    theta: npt.NDArray[Any]
    field: Any

    def __call__(self, x: Array) -> Array:
        """Return u at x: [n, d] -> [n, m] (local)."""
        return np.asarray(self.field(self._points(x)).numpy(), np.float64)

    def quantity(self, f: Callable[..., Any], x: Array) -> Array:
        """Return f(u, x) at x: [n, d] -> [n, k] (local)."""
        u, points = self.field, self._points(x)
        values = f(u.with_plan(record(f, u, points)), points).numpy()
        return np.asarray(values, np.float64).reshape(len(x), -1)

    def _points(self, x: Array) -> Any:
        d = self.problem.domain.dimension
        if x.ndim != 2 or x.shape[1] != d:
            raise InputError(f"expected points x of the shape [n, {d}]; got {list(x.shape)}.")
        return tf.constant(x, self.theta.dtype)
