"""Entries of the catalogue: how to make a problem, and its default settings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from sciml_par._tensorflow import tf
from sciml_par.problems.checks.arrays import FloatArray
from sciml_par.problems.problem import Problem


@dataclass(frozen=True)
class Suggestion:
    """Settings of a training that solves a problem, as plain values.

    Attributes
    ----------
    points : of the equations, of all ranks; on a grid about, or a number per axis.
    boundary : points of the whole boundary; None for the density of the interior.
    method : of the points of the equations, such as "grid" or "sobol"; None for the default.
    network : its name, such as "mlp".
    width, depth : of its hidden layers.
    optimizer : its name, such as "lm" or "adam".
    steps : updates of the weights, at most.
    precision : "float32" or "float64".
    """

    points: int | tuple[int, ...]
    _: KW_ONLY
    boundary: int | None = None
    method: str | None = None
    network: str = "mlp"
    width: int = 20
    depth: int = 2
    optimizer: str = "lm"
    steps: int = 500
    precision: str = "float64"


@dataclass(frozen=True)
class CatalogueEntry:
    """A problem of the catalogue.

    Attributes
    ----------
    name : in small letters, with hyphens.
    equation : in one line, with what holds on the boundary.
    make : makes the problem; its keyword arguments are the problem's parameters.
    suggestion : the default settings of its training.
    goal : the relative L2 error (dimensionless) to reach with the suggestion.
    place : n -> n points, [n, d], with more where the solution is steep; None for the method of the
        suggestion.
    """

    name: str
    equation: str
    make: Callable[..., Problem]
    suggestion: Suggestion
    _: KW_ONLY
    goal: float = 1e-4
    place: Callable[[int], FloatArray] | None = None


def _elementwise(in_numpy: Any, in_tensorflow: str) -> Callable[[Any], Any]:
    def function(x: Any) -> Any:
        # TensorFlow is imported where a tensor comes first.
        return in_numpy(x) if isinstance(x, np.ndarray) else getattr(tf.math, in_tensorflow)(x)

    return function


sin, exp = _elementwise(np.sin, "sin"), _elementwise(np.exp, "exp")
"""For NumPy arrays and TensorFlow tensors alike, so that a solution is written once."""
