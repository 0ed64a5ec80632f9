"""The values and the error that a slab hands on to the next one."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from sciml_par._tensorflow import tf
from sciml_par.networks.keras.network import Network
from sciml_par.problems.conditions.in_time import Before
from sciml_par.problems.problem import Problem
from sciml_par.results.error_estimate import ErrorEstimate
from sciml_par.results.result import Result
from sciml_par.training.estimate.by_correction import Correction
from sciml_par.training.loss.objective import field_of
from sciml_par.training.outcome.evaluate import in_time
from sciml_par.training.slabs.divide import Slab


@dataclass
class Carried:
    """The results of the slabs so far, and what the next one begins with.

    Attributes
    ----------
    outputs : m, the components of u.
    before : the solution at the end of the last slab.
    error : the estimate of its error.
    unknown : why that is not known; "" if it is, or is not asked for.
    """

    outputs: int
    results: list[Result] = field(default_factory=list)
    before: Before | None = None
    error: Correction | None = None
    unknown: str = ""

    def add(self, slab: Slab, problem: Problem, found: Result, *, estimate: bool) -> None:
        """Take the result of the next slab (local)."""
        (member,) = found.members
        error = member.error
        if estimate and self.unknown:
            error = ErrorEstimate.not_known(self.outputs, self.unknown)
        elif estimate and error is not None and not error.known:
            self.unknown = f"{slab.text}: {error.reason}"
            error = replace(error, reason=self.unknown)
        elif estimate and error is not None and isinstance(error.evaluate, Correction):
            self.error = error.evaluate
        self.results.append(replace(found, members=(replace(member, error=error),)))
        self.before = _end_of(problem, found.networks[0])


def _end_of(problem: Problem, model: object) -> Before:
    """Return the solution of a slab, with which the one after it begins."""
    from sciml_par.networks.keras.from_model import as_network  # it imports TensorFlow

    d, m = problem.domain.dimension, problem.network_outputs
    dtype = str(model.trainable_variables[0].dtype)  # type: ignore[attr-defined]
    network: Network = as_network(model, d, m, dtype=dtype)
    weights = [tf.constant(np.asarray(variable)) for variable in network.trainable_variables]
    u = field_of(problem, network, weights)
    return lambda x, order: in_time(u, x, order, dtype)
