"""The result of a solution that was found without a training."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._tensorflow import tf
from sciml_par.assembly.equations import Equations
from sciml_par.assembly.solution import Solution, zero_jets
from sciml_par.evaluation.figures.parts.data import Prediction, Shard
from sciml_par.parallel.groups.world import World
from sciml_par.problems.problem import Problem
from sciml_par.results.error_estimate import ErrorEstimate
from sciml_par.results.member import Member, RankContribution, Weights
from sciml_par.results.result import Result
from sciml_par.results.trained_field import TrainedField, form_of
from sciml_par.training.arguments.arguments import Arguments, texts_of
from sciml_par.training.arguments.settings import LAST
from sciml_par.training.identity.fingerprint import architecture_of
from sciml_par.training.loss.objective import field_of
from sciml_par.training.optimizers.least_squares.least_squares import LeastSquares
from sciml_par.training.outcome.collect import collect, sample_for_figures
from sciml_par.training.outcome.evaluate import points_of

Array = npt.NDArray[np.float64]

_FOR_SIZES = 500
"""Points at which the size of what a condition gives is found."""


@dataclass(frozen=True)
class Judged:
    """The loss at points that were not solved at, by terms; see `Member`."""

    loss: float
    of_zero: float
    misfits: dict[str, float]

    @classmethod
    def of(cls, solution: Solution, equations: Equations) -> Judged:
        """Evaluate a solution, and a network of zeros, at the points of equations (local)."""
        squares, of_zero = (
            np.array([float(np.sum(np.square(r))) for r in equations.residuals(jets)])
            for jets in (solution.jets(equations), zero_jets(equations))
        )
        problem, x = equations.problem, equations.rows[0].arrays[0]
        u, x = solution.field, x[:: -(-len(x) // _FOR_SIZES)]
        names = [term.name for term in problem.terms[len(problem.residuals) :]]
        asked = dict(zip(names, problem.conditions, strict=True))
        misfits = {}
        for rows, square, zero in zip(equations.rows, squares, of_zero, strict=True):
            condition = asked.get(rows.term.name)
            quantity: Any = condition and condition.quantity(u, x, problem.domain)
            if quantity is None:
                continue
            weight = float(rows.factors @ rows.factors)
            size = weight * float(np.sum(np.square(quantity.numpy()))) / len(x)
            with np.errstate(divide="ignore", invalid="ignore"):
                misfit = float(np.sqrt(square / np.fmax(zero, size)))
            if math.isfinite(misfit):
                misfits[rows.term.name] = misfit
        loss, begin = (v if math.isfinite(v) else math.nan for v in (squares.sum(), of_zero.sum()))
        return cls(float(loss), float(begin), misfits)


def result_of(
    problem: Problem,
    model: Any,
    solution: Solution,
    *,
    world: World,
    equations: Equations,
    terms: Sequence[Array],
    steps: int,
    judged: Judged,
    error: ErrorEstimate,
    seed: int,
    seconds: float,
    sizes: dict[str, float],
) -> Result:
    """Return a solution as what `train` returns (collective).

    Parameters
    ----------
    model : of the solution, with its weights.
    equations : at the points that were solved at.
    terms : squares of each term before the first step and after the last one, [T] each.
    """
    everyone = world.communicator
    x, inside = points_of(problem.domain, None)
    values = solution(x)
    exact = np.full_like(values, np.nan)
    if problem.exact is not None:
        exact[inside] = problem.exact(x[inside])
    prediction = Prediction(
        "prediction",
        x,
        values,
        exact,
        inside=inside,
        coordinates=problem.domain.names,
        fields=problem.output_names,
    )
    interior = equations.rows[0].arrays[0].numpy()[everyone.rank :: everyone.size]
    own = RankContribution(
        rank=everyone.rank,
        points=len(interior),
        shard=Shard(
            f"rank {everyone.rank}",
            training_points=sample_for_figures(interior, everyone.size),
        ),
        seconds_compile=0.0,
        seconds_train=seconds,
    )
    history = np.array(terms)
    losses = history.sum(axis=1)
    network = solution.networks[0]
    field = partial(field_of, problem, network), model
    optimizer = LeastSquares()
    member = Member(
        number=0,
        rank=0,
        problem=problem.name,
        seed=seed,
        steps=steps,
        steps_asked=steps,
        ended="no further decrease",
        loss=float(losses[-1]),
        best_loss=float(losses[-1]),
        best_step=steps,
        kept=LAST,
        loss_steps=np.array([0, steps]),
        losses=losses,
        terms=tuple(term.name for term in problem.terms),
        term_losses=history,
        times_brought_together=0,
        largest_drift=0.0,
        stacked_with=(0,),
        prediction=prediction,
        on_own_domain=prediction,
        weights=Weights(solution.theta, solution.theta),
        architecture=architecture_of(model),
        contributions=(own,),
        validation_loss=judged.loss,
        zero_loss=judged.of_zero,
        misfits=judged.misfits,
        form=form_of(problem, tf.float64.name),
        field=TrainedField(lambda: field),
        error=error,
        sizes=sizes,
        most_left=optimizer.most_left,
    )
    arguments = Arguments(
        problem=problem,
        network=model,
        points=None,
        optimizer=optimizer,
        steps=steps,
        keep=LAST,
        seed=seed,
        precision=tf.float64.name,
    )
    return Result(
        "data",
        collect([member], everyone, lambda _: problem),
        [model],
        everyone,
        arguments=texts_of(arguments),
    )
