"""The optimizer that suits the size of a problem, where the caller leaves it open."""

from __future__ import annotations

import operator
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.problems.problem import Problem
from sciml_par.training.arguments.arguments import Arguments
from sciml_par.training.arguments.ensemble import as_mode, divide, problem_of
from sciml_par.training.loss.parameter_layout import ParameterLayout
from sciml_par.training.loss.traced_terms import trace_terms
from sciml_par.training.optimizers.adam import Adam
from sciml_par.training.optimizers.least_squares.levenberg_marquardt import LevenbergMarquardt
from sciml_par.training.optimizers.quasi_newton.lbfgs import LBFGS
from sciml_par.training.optimizers.quasi_newton.ss_broyden import SSBroyden
from sciml_par.training.points.make_feed import make_feed
from sciml_par.training.preparation.member_preparation import network_of_member
from sciml_par.training.weights.of_noise import statistical_terms

AUTO = "auto"

Pairs = list[tuple[Any, Any]]

_STEPS_WITH_ADAM = 10_000
_MOST_PARAMETERS = 2_000
_MOST_WITH_A_MATRIX = 3_000  # of p² numbers, which each step of SSBroyden reads and writes
_MOST_PRODUCTS = 2e10  # a few seconds on one core


@dataclass(frozen=True)
class Size:
    """What the choice depends on; the same on any number of ranks.

    Attributes
    ----------
    parameters : p, of a member.
    residuals : N, rows of the vector of residuals of all ranks.
    whole : whether every step uses all points.
    noisy : whether observations have known errors.
    """

    parameters: int
    residuals: int
    whole: bool
    noisy: bool = False


def choose(size: Size, precision: str, steps: Any, *, rates: bool = False) -> tuple[Pairs, str]:
    """Return the phases for problems of this size, and a line that names them."""
    parameters, residuals = size.parameters, size.residuals
    against = None
    if rates:
        against = "members have learning rates"
    elif not size.whole:
        against = "steps use minibatches"
    elif precision != "float64" and not size.noisy:  # of which the equation is a constraint
        against = "precision='float64' allows methods with smaller errors"
    first_order = against is not None
    if parameters > _MOST_PARAMETERS:
        against = against or f"more than {_MOST_PARAMETERS:,} parameters"
    elif residuals * parameters**2 > _MOST_PRODUCTS:
        against = against or "steps of least squares are slow with this many residuals"
    if against is None:
        phases = _one(LevenbergMarquardt(), steps)
    elif first_order:
        phases = _one(Adam(), steps)
    else:
        whole = _STEPS_WITH_ADAM if steps is None else steps
        begin = int(whole) // 5 if isinstance(whole, Integral) else 0
        optimizer = SSBroyden() if parameters <= _MOST_WITH_A_MATRIX else LBFGS()
        phases = [(optimizer, whole)]
        if begin > 0:  # a fifth of the steps by Adam
            phases = [(Adam(), begin), (optimizer, whole - begin)]
    names = ", then ".join(type(optimizer).__name__ for optimizer, _ in phases)
    if against is None and precision != "float64":
        against = "precision='float64' allows smaller errors"
    reason = "" if against is None else f" ({against})"
    said = (
        f"optimizer: {names}, for {parameters:,} parameters, {residuals:,} residuals, "
        f"{precision}{reason}"
    )
    return phases, said


def _one(optimizer: Any, steps: Any) -> Pairs:
    return [(optimizer, optimizer.default_steps if steps is None else steps)]


def with_optimizer(given: Arguments, everyone: Communicator) -> tuple[Arguments, str | None]:
    """Return the arguments with an optimizer where it was left open, and a note (collective)."""
    left = given.optimizer is None and given.phases is None
    # Collective on every rank, as another rank may have been given another optimizer.
    noisy = everyone.attempt(lambda: left and _is_noisy(given, everyone))
    noisy = any(everyone.allgather_object(noisy))
    open_ = isinstance(given.optimizer, str) and given.optimizer == AUTO and given.phases is None
    open_ = open_ or left and noisy
    mine = everyone.attempt(lambda: _size_of(given, everyone) if open_ else None)
    sizes = [size for size in everyone.allgather_object(mine) if size is not None]
    if not open_:
        return given, None
    size = Size(
        max(each.parameters for each in sizes),
        max(each.residuals for each in sizes),
        all(each.whole for each in sizes),
        any(each.noisy for each in sizes),
    )
    rates = getattr(given.mode, "learning_rates", None) is not None
    phases, said = choose(size, given.precision, given.steps, rates=rates)
    return replace(given, optimizer=None, steps=None, phases=phases), said


def _is_noisy(given: Arguments, everyone: Communicator) -> bool:
    """Return whether observations have known errors, which first-order methods hardly fit."""
    ensemble = as_mode(given.mode)
    number = divide(ensemble, rank=everyone.rank, size=everyone.size).numbers[0]
    problem = problem_of(number, given.problem, ensemble)
    return isinstance(problem, Problem) and bool(statistical_terms(problem))


def _size_of(given: Arguments, everyone: Communicator) -> Size:
    """Return the size of the first member of this rank's group."""
    ensemble = as_mode(given.mode)
    division = divide(ensemble, rank=everyone.rank, size=everyone.size)
    number = division.numbers[0]
    problem = problem_of(number, given.problem, ensemble)
    feed = make_feed(
        problem,
        given.points,
        points_per_rank=given.points_per_rank,
        rank=everyone.rank % (everyone.size // division.groups),
        size=everyone.size // division.groups,
        seed=given.seed,
        dtype="float32",
    )
    network = network_of_member(
        problem, given.network, seed=given.seed, members=division.members, dtype=given.precision
    )
    traced = trace_terms(
        problem, network, dtype=given.precision, arrays=feed.arrays, rows=feed.totals
    )
    residuals = sum(map(operator.mul, feed.totals, traced.components))
    parameters = ParameterLayout.of(network.trainable_variables, problem.unknowns).size
    noisy = bool(statistical_terms(problem))
    return Size(parameters, residuals, feed.steps_per_epoch == 1, noisy)
