"""What a trained network says on a grid, beside the exact solution."""

from __future__ import annotations

from typing import Any

import numpy as np

from sciml_par.evaluation.figures.data import Prediction
from sciml_par.problems.domain import Box
from sciml_par.problems.problem import Problem
from sciml_par.training.settings import Settings


def evaluate(problem: Problem, network: Any, domain: Box, settings: Settings) -> Prediction:
    """The prediction on equispaced points of `domain` (local)."""
    x = domain.grid(settings.evaluation_points)
    u = network(x.astype(settings.precision)).numpy().astype(np.float64)
    u_exact = np.full_like(u, np.nan) if problem.exact is None else problem.exact(x)
    return Prediction("prediction", x, u, u_exact)
