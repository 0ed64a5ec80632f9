"""What a trained network says on a grid, beside the exact solution."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._tensorflow import tf
from sciml_par.evaluation.figures.data import Prediction
from sciml_par.networks.network import Network
from sciml_par.problems.domains.box import Box
from sciml_par.problems.problem import Problem
from sciml_par.results.trained_field import Function
from sciml_par.training.objective import field_of
from sciml_par.training.parameter_layout import ParameterLayout
from sciml_par.training.settings import Settings


def evaluate(
    problem: Problem,
    network: Network,
    layout: ParameterLayout,
    weights: npt.NDArray[Any],
    domain: Box,
    settings: Settings,
) -> Prediction:
    """The prediction with weights [p] on equispaced points of `domain` (local)."""
    x = domain.grid(settings.evaluation_points)
    u = values_of(problem, network)
    parameters = layout.unflatten(tf.constant(weights))
    values = u(parameters, tf.constant(x, settings.precision)).numpy().astype(np.float64)
    u_exact = np.full_like(values, np.nan) if problem.exact is None else problem.exact(x)
    return Prediction(
        "prediction",
        x,
        values,
        u_exact,
        coordinates=domain.names,
        fields=problem.output_names,
    )


def values_of(problem: Problem, network: Network) -> Function:
    """u(x) of a problem by a network, as a pure function (parameters, x) -> u (local)."""
    return lambda parameters, x: field_of(problem, network, parameters)(x)
