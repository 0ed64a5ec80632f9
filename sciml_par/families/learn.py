"""Solve a family of problems once: a space, queries solved in it, their basis and its errors."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._checks import is_positive
from sciml_par._other_names import by_name
from sciml_par._terminal import console
from sciml_par.errors import InputError, ResultWarning, TrainingError
from sciml_par.families.basis import Basis, error_functions_of, functions_of
from sciml_par.families.from_pairs import learn_pairs
from sciml_par.families.inputs import Inputs
from sciml_par.families.operator import Operator, Unseen
from sciml_par.families.pairs import Pairs
from sciml_par.families.space import Space, bound_problem
from sciml_par.parallel.groups.world import World, current_world
from sciml_par.problems.conditions.drawing import has_time
from sciml_par.problems.conditions.observations import Observations
from sciml_par.problems.problem import Problem
from sciml_par.results.error_estimate import KNOWN
from sciml_par.training.optimizers.least_squares.on_host import threads
from sciml_par.training.preparation.description import first_difference

Array = npt.NDArray[np.float64]

_DEGREES = {1: (12, 20, 32, 48, 64, 96), 2: (10, 15, 20, 26, 32), 3: (4, 7, 10, 12, 15)}
_CANDIDATES, _FEW, _SHARE, _BELOW = 12, 4, 0.3, 0.1
"""Queries at which spaces are compared, at first and the worst of them; the part of the tolerance
for the error of a space; and the part of this error, if it is larger, that is asked of a basis."""
_FALL = 1.5
"""The fall of the largest error, of which two degrees in a row may fall short."""
_POOL, _FIRST, _FURTHER, _ROUNDS = 1024, 48, 48, 8
"""Queries among which the next ones are chosen; solved at first and in each round; and rounds."""
_LOSS = 3.0
"""Times the residual error of solved queries, from which a query wants to be solved."""
_OF_ERRORS, _UNSEEN, _ENOUGH = 64, 128, 0.5
"""Queries whose errors are solved for; unseen ones, by which the operator is judged; and the share
of these that is to meet the tolerance."""


@by_name
def learn(
    problem: Problem | Pairs,
    *,
    tolerance: float = 1e-5,
    seconds: float = 120.0,
    seed: int = 0,
    progress: bool = True,
) -> Any:
    """Solve a family of problems, so that each query is answered in milliseconds (collective).

    The unknowns of the problem are the inputs μ: an `Unknown` with bounds or a prior, or an
    `UnknownFunction` with the prior `Smooth`. Queries are solved in one space of polynomials, by
    all ranks; the next ones are those that the basis of the former ones answers worst. An answer is
    a least-squares solution in this basis (Quarteroni, Manzoni, Negri 2016, Reduced Basis Methods
    for Partial Differential Equations, chapters 3 and 7), and its error is solved for in a basis of
    errors.

    Parameters
    ----------
    problem : with unknowns; on a domain of up to three dimensions, with equations. The same on all
        ranks. Or `Pairs` of functions without an equation, of which a tenth is left out: the better
        of a kernel regression of principal components and a Fourier neural operator is returned.
    tolerance : the relative L2 error that answers are to have, dimensionless; not for `Pairs`.
    seconds : of wall time, after which no further queries are solved, or a network is not trained.
    seed : of the queries that are drawn, the pairs left out, and the weights of a network.
    progress : show a line for each step on rank 0.

    Returns
    -------
    The `Operator`, or of `Pairs` a `PairsOperator`, the same on all ranks.

    Raises
    ------
    InputError
        The problem has no unknowns, one without a range, or observations; or its equations are no
        functions of u and its derivatives at single points, row by row.
    TrainingError
        No polynomials solve the queries.

    Warns
    -----
    ResultWarning
        Fewer than half of unseen queries are known to meet the tolerance.

    Examples
    --------
    >>> import sciml_par as sp
    >>> from sciml_par.problems import Dirichlet, Interval, Problem, Unknown, laplacian
    >>> sp.init()
    >>> problem = Problem(
    ...     Interval(0, 1),
    ...     lambda u, x, *, k: laplacian(u, x) - k * u(x) + 1,
    ...     conditions=[Dirichlet(0.0)],
    ...     unknowns={"k": Unknown(1.0, lower=0.1, upper=10.0)},
    ... )
    >>> operator = sp.learn(problem, progress=False)
    >>> u = operator(k=2.0)
    >>> u.error.relative < 1e-5
    True
    """
    if isinstance(problem, Pairs):
        return learn_pairs(problem, seconds=seconds, seed=seed, progress=progress)
    world = current_world()
    inputs = world.communicator.attempt(lambda: _check(problem, tolerance, seconds))
    given = f"tolerance={tolerance!r}, {seconds=}, {seed=}"
    everyone = world.communicator.allgather_object(given)
    if len(set(everyone)) > 1:
        raise InputError(f"learn: expected the same arguments on every rank; got {everyone}.")
    work = _Learning(problem, inputs, tolerance, seconds, seed, world, progress)
    with threads(1):  # the same digits on any number of ranks; matrices are small
        space = work.space()
        space.share()
        vectors, basis = work.basis(space)
        basis = work.with_errors(basis)
        return Operator(problem, basis, tolerance, vectors, work.judged(basis))


def _check(problem: Any, tolerance: Any, seconds: Any) -> Inputs:
    if not isinstance(problem, Problem):
        raise InputError(f"learn: expected a Problem or Pairs; got {problem!r}.")
    for name, value in (("tolerance", tolerance), ("seconds", seconds)):
        if not is_positive(value):
            raise InputError(f"learn: {name} must be a number > 0; got {value!r}.")
    if not problem.residuals:
        raise InputError("learn: the problem has no equation.")
    if any(isinstance(condition, Observations) for condition in problem.conditions):
        raise InputError(
            "learn: a family is solved before there are data; leave Observations out of the "
            "problem, and give them to operator.fit."
        )
    if problem.domain.dimension not in _DEGREES or math.isnan(problem.domain.volume):
        raise InputError("learn: expected a domain of one to three dimensions, with its shape.")
    return Inputs(problem)


@dataclass
class _Learning:
    """The steps of `learn`, which all ranks do together."""

    problem: Problem
    inputs: Inputs
    tolerance: float
    seconds: float
    seed: int
    world: World
    shown: bool

    def __post_init__(self) -> None:
        self._began = time.perf_counter()
        self._bound = self.world.communicator.attempt(
            lambda: bound_problem(self.problem.without_slabs(), self.inputs)
        )
        self.say("step", "size", "error", "time")

    def say(self, step: str, size: str, error: str = "", gone: str = "") -> None:
        """Show a line on rank 0."""
        if self.shown and self.world.communicator.rank == 0:
            gone = gone or f"{time.perf_counter() - self._began:.1f} s"
            console().print(f"{step:<9}{size:<38}{error:<23}{gone:>8}")

    def agreed(self, found: Any) -> Any:
        """Return what the first rank has found (collective); others may have rounded otherwise."""
        return self.world.communicator.broadcast_object(found)

    def late(self) -> bool:
        """Return whether time is up (collective)."""
        return bool(self.agreed(time.perf_counter() - self._began > self.seconds))

    def each(self, action: Callable[[int], Any], count: int) -> list[Any]:
        """Do one thing for each number, divided among the ranks (collective)."""
        everyone = self.world.communicator

        def of_rank() -> list[Any]:
            return [action(k) for k in range(everyone.rank, count, everyone.size)]

        parts = everyone.allgather_object(everyone.attempt(of_rank))
        return [parts[k % everyone.size][k // everyone.size] for k in range(count)]

    def space(self) -> Space:
        """Return the polynomials whose error for the worst candidate suffices."""
        candidates = self.inputs.draw(_CANDIDATES, self.seed + 1)
        best, chosen, in_vain = math.inf, None, 0
        errors = np.full(_CANDIDATES, math.inf)
        degrees = _DEGREES[self.problem.domain.dimension]
        # Layers are tried once: if inputs change their widths, or are rough, they do not help.
        stages = [(degree, False) for degree in degrees]
        if has_time(self.problem.domain):
            stages.insert(1, (degrees[0], True))
        for degree, tried in stages:
            layers = tried or chosen is not None and chosen.layers
            space = self.world.communicator.attempt(
                partial(Space, self._bound, self.inputs, degree, layers=layers)
            )
            if tried and not space.layers:  # as of waves
                continue
            everyone = self.world.communicator.allgather_object(space.described)
            if wrong := first_difference(everyone):
                raise InputError(f"learn: the ranks differ in {wrong}.")
            # Few that failed before tell that a space does not do; that it does, only all.
            order = np.argsort(-errors, kind="stable")
            asked, rest = np.split(order, [_CANDIDATES if chosen is None else _FEW])
            errors[asked] = self._errors(space, candidates[asked])
            worst = float(errors[asked].max())
            if len(rest) and worst <= _SHARE * self.tolerance:
                errors[rest] = self._errors(space, candidates[rest])
                worst = float(errors.max())
            beside = " and layers" if layers else ""
            said = f"{space.columns:,} polynomials{beside}, degree {degree}"
            self.say("space", said, f"{worst:.1e}")
            in_vain = 0 if worst * _FALL < best else in_vain + 1
            if worst * (_FALL if tried else 1.0) < best:
                best, chosen = worst, space
            if best <= _SHARE * self.tolerance or in_vain > 1 or self.late():
                break
        if chosen is None:
            raise TrainingError(
                "learn: no polynomials solve the queries: the equations are not finite somewhere, "
                "or Gauss–Newton steps from u = 0 do not converge."
            )
        self.goal = max(_BELOW * best, self.tolerance)  # a basis is no better than its space
        return chosen

    def _errors(self, space: Space, vectors: Array) -> Array:
        """Return the relative errors of queries in a space; infinite without a solution."""

        def of_query(k: int) -> float:
            return space.relative_error(_solution_of(space, vectors, None, k), vectors[k])

        found = np.array(self.each(of_query, len(vectors)))
        return np.where(np.isfinite(found), found, math.inf)

    def basis(self, space: Space) -> tuple[Array, Basis]:
        """Return queries and the basis of their solutions."""
        pool = self.inputs.draw(_POOL, self.seed + 2)
        taken = list(range(_FIRST))
        c = np.stack(self.each(partial(_solution_of, space, pool, None), _FIRST))
        while True:
            solved = np.isfinite(c).all(axis=1)
            vectors = pool[taken][solved]
            functions = self.agreed(functions_of(space, c[solved], self.goal))
            basis = Basis.with_functions(space, functions[0], vectors, functions[1])
            a, left = self.agreed(basis.solve(pool))
            errors = left / np.maximum(np.linalg.norm(a, axis=1), np.finfo(np.float64).tiny)
            usual = float(np.median(errors[np.array(taken)[solved]]))
            order = np.argsort(-errors)
            order = order[~np.isin(order, taken)]
            worst = float(errors[order[0]])
            said = f"{len(basis.v)} of {len(taken)} solutions"
            self.say("basis", said, f"{worst:.1e}")
            rounds = (len(taken) - _FIRST) // _FURTHER
            if worst <= max(_LOSS * usual, _SHARE * self.goal) or rounds >= _ROUNDS or self.late():
                return vectors, basis
            further = order[:_FURTHER].tolist()
            begins = a[further] @ basis.v
            more = self.each(partial(_solution_of, space, pool[further], begins), len(further))
            taken, c = [*taken, *further], np.concatenate([c, np.stack(more)])

    def with_errors(self, basis: Basis) -> Basis:
        """Return the basis with the one of its errors."""
        vectors = self.inputs.draw(_OF_ERRORS, self.seed + 3)
        a, _ = self.agreed(basis.solve(vectors))
        e = self.each(lambda k: basis.space.error(a[k] @ basis.v, vectors[k]), len(vectors))
        functions = self.agreed(error_functions_of(basis.space, np.stack(e)))
        self.say("errors", f"{len(functions)} modes of {len(vectors)} errors")
        return basis.with_error_functions(functions)

    def judged(self, basis: Basis) -> Unseen:
        """Return the estimated errors of unseen queries."""
        vectors, found = self.inputs.draw(_UNSEEN, self.seed + 4), []
        assert basis.quick is not None
        for a in (basis.start(vectors), basis.solve(vectors)[0]):
            _, relative, q = self.agreed(basis.quick(a, vectors))
            found.append(relative)
        known = found[1][q >= KNOWN]
        said = f"{np.median(known):.1e}, at most {known.max():.1e}" if len(known) else "not known"
        self.say("unseen", f"{len(vectors)} queries, known for {len(known)}", said)
        met = np.count_nonzero((found[1] <= self.tolerance) & (q >= KNOWN))
        if met < _ENOUGH * len(vectors) and self.world.communicator.rank == 0:
            warnings.warn(
                f"learn: {met} of {len(vectors)} unseen queries are known to meet the tolerance of "
                f"{self.tolerance:g} by the basis. The others take longer, if operator(…, "
                f"tolerance=) asks for it; solutions may be too rough for polynomials on the box.",
                ResultWarning,
                stacklevel=4,
            )
        return Unseen(found[0], found[1], q)


def _solution_of(space: Space, vectors: Array, begins: Array | None, k: int) -> Array:
    """Return the coefficients of one query, [p]."""
    return space.solve(vectors[k], None if begins is None else begins[k]).c.ravel()
