"""A family of problems that is solved once: its queries are answered in milliseconds."""

from __future__ import annotations

import json
import math
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._checks import is_positive
from sciml_par._files import checked_path, write_whole
from sciml_par._other_names import OtherAttributes, by_name
from sciml_par.errors import InputError, ResultWarning
from sciml_par.families.answers import Answer, Answers, as_points
from sciml_par.families.basis import Basis
from sciml_par.families.fitting import Fitted, fit, minimized
from sciml_par.families.inputs import FunctionInput, Inputs
from sciml_par.families.space import Space, bound_problem
from sciml_par.parallel.groups.world import current_world
from sciml_par.problems.conditions.observations import Observations
from sciml_par.problems.problem import Problem
from sciml_par.results.error_estimate import KNOWN, ErrorEstimate
from sciml_par.training.solve import solve

Array = npt.NDArray[np.float64]

_CAUTION, _FILE, _OWN_SEEDS, _FLOOR = 3.0, "operator.npz", 1000, 1e-14
_ROUGH = (
    "the estimate lowers the error that polynomials of a higher degree find by a factor of {:.1f} "
    "only: the space is too small for this query, or as exact as it can be."
)


@dataclass(frozen=True)
class Unseen:
    """Estimated errors of queries that `learn` has not used: levels 0 and 1, [Q] each, and q."""

    by_regression: Array
    by_basis: Array
    reliability: Array


class Operator(OtherAttributes):
    """The solutions of a family, as `learn` returns them: call it with the inputs of a query.

        u = operator(D=0.02, f=lambda x: np.sin(3 * x))

    An answer climbs until its estimated error meets `tolerance`: level 1 is Gauss–Newton for the
    coordinates in the basis of solutions, started by regression (level 0); level 2 in the whole
    space of polynomials; level 3 is `solve`. Without a tolerance it is that of level 1.
    """

    def __init__(
        self, problem: Problem, basis: Basis, tolerance: float, queries: Array, unseen: Unseen
    ) -> None:
        self._problem, self._basis, self.tolerance = problem, basis, tolerance
        self._queries, self.unseen = queries, unseen

    @property
    def problem(self) -> Problem:
        """The problem whose unknowns are the inputs."""
        return self._problem

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the inputs."""
        return tuple(self._basis.space.inputs.parts)

    @property
    def modes(self) -> int:
        """The number of functions in the basis."""
        return len(self._basis.v)

    @by_name
    def nodes(self, name: str) -> Array:
        """Return the nodes of an input that is a function: [K, e]; see the call (local)."""
        part = self._basis.space.inputs.parts.get(name)
        if not isinstance(part, FunctionInput):
            raise InputError(f"operator.nodes: {name!r} is not a function among the inputs.")
        return part.nodes

    @by_name
    def draw(self, queries: int, *, seed: int = 0) -> dict[str, Any]:
        """Return inputs of queries from the ranges and priors: arrays, [Q], and lists of functions.

        They suit a call, and are other ones for each seed; `learn` has used some of Sobol's points
        that no seed gives (local).
        """
        family = self._basis.space.inputs
        return family.shown(family.draw(queries, seed + _OWN_SEEDS))

    @by_name
    def regress(self, x: Any, **inputs: Any) -> Array:
        """Return u of level 0 for queries at x: [n, d] -> [Q, n, m], without an error (local)."""
        vectors, _ = self._basis.space.inputs.vectors(inputs)
        return self._values_at(self._basis.start(vectors), x)

    @by_name
    def gradient(self, x: Any, **inputs: Any) -> dict[str, Array]:
        """Return ∂u/∂μ of level 1 at x, by each input of one query (local).

            ∂u/∂μ = Σ_j ψ_j(x) ∂a_j/∂μ        ∂a/∂μ = −J⁺ ∂r/∂μ

        Parameters
        ----------
        x : [n, d].
        **inputs : as of a call.

        Returns
        -------
        By name: [n, m] for a number, [n, m, k] for an array of k numbers in their order, and [n, m,
        K] for a function, by its values at `nodes(name)`. Without errors.

        Raises
        ------
        InputError
            These are inputs of several queries, or outside of the family's range.
        """
        family, basis = self._basis.space.inputs, self._basis
        vectors, single = family.vectors(inputs)
        if not single:
            raise InputError("operator.gradient: expected the inputs of one query; got several.")
        outside, names = family.outside(vectors)
        if outside.any():
            raise InputError(f"operator.gradient: {names} is outside of the range of the family.")
        slopes = basis.reduced.by_inputs(basis.solve(vectors)[0], vectors)[0]
        found = np.moveaxis(self._values_at(slopes.T, x), 0, 2)
        return family.by_values(found, vectors[0])

    def _values_at(self, a: Array, x: Any) -> Array:
        """Return u for coordinates a: [Q, r] at x: [n, d] -> [Q, n, m]."""
        points = as_points(x, self._problem.domain.dimension)
        at = np.stack([self._basis.space.solution(c)(points) for c in self._basis.v])
        return np.einsum("qr,rnm->qnm", a, at)

    @by_name
    def __call__(
        self, *, tolerance: float | None = None, seconds: float = 120.0, **inputs: Any
    ) -> Any:
        """Answer a query, or many (local up to level 2; `solve` is collective).

        Parameters
        ----------
        tolerance : of the relative L2 error; by default that of level 1 is reported, whatever it
            is. Of many queries it is given to each alone.
        seconds : of wall time for `solve`.
        **inputs : a value for each unknown of the problem. A number; of functions a function z: [n,
            e] -> [n, 1], or values at `nodes(name)`, [K]. Arrays of numbers, lists of functions or
            rows of values are many queries, whose answers are an `Answers`.

        Returns
        -------
        An `Answer` with `predict`, `evaluate` and `error`, or `Answers`.

        Raises
        ------
        InputError
            An input is missing, not finite, or has another shape.

        Warns
        -----
        ResultWarning
            An input lies outside of the family's range, where the query is solved alone, or the
            tolerance is not met.
        """
        if tolerance is not None and not is_positive(tolerance):
            raise InputError(f"operator: tolerance must be a number > 0; got {tolerance!r}.")
        family = self._basis.space.inputs
        vectors, single = family.vectors(inputs)
        outside, names = family.outside(vectors)
        if outside.any():
            said = "" if single else f" of {np.count_nonzero(outside)} of {len(vectors)} queries"
            warnings.warn(
                f"operator: {names}{said} is outside of the range of the family; `solve` answers.",
                ResultWarning,
                stacklevel=3,
            )
        own = family.interpolation_errors(inputs, vectors)
        if single:
            of = vectors[0], bool(outside[0]), tolerance, seconds, inputs, float(own[0])
            return self._answer(*of)
        assert self._basis.quick is not None
        a, _ = self._basis.solve(vectors)
        _, relative, q = self._basis.quick(a, vectors)
        relative = np.maximum(relative, _FLOOR) + own
        relative = np.where((q >= KNOWN) & ~outside, relative, math.nan)

        def one(number: int) -> Answer:
            of = vectors[number], bool(outside[number]), tolerance, seconds
            return self._answer(*of, family.one(vectors[number]), float(own[number]))

        return Answers(one, partial(self._values_at, a), relative)

    def _answer(
        self,
        vector: Array,
        outside: bool,
        tolerance: float | None,
        seconds: float,
        inputs: Mapping[str, Any],
        own: float,
    ) -> Answer:
        """Return the answer of one query, by the lowest level that meets the tolerance."""
        began, basis = time.perf_counter(), self._basis
        space, answer = basis.space, None
        if not outside:
            a, _ = basis.solve(vector[None])
            assert basis.quick is not None
            e, _, q = basis.quick(a, vector[None])
            r, values = self.modes, basis.values
            assert basis.errors is not None and values is not None
            of_e = np.concatenate([e[0, :r] @ basis.v, e[0, r:] @ basis.errors])
            parts = a[0] @ basis.v, of_e
            at_points = values[:, :r] @ a[0], values @ e[0]
            answer = self._made(1, parts, at_points, float(q[0]), inputs, own, began)
            if tolerance is None or answer.error.relative <= tolerance:
                return answer
            if own > tolerance:
                warnings.warn(
                    f"operator: a function differs from what its values at nodes tell by {own:.1e} "
                    f"of its size, so that no level meets the tolerance of {tolerance:g}; a prior "
                    f"Smooth of a shorter length has more nodes.",
                    ResultWarning,
                    stacklevel=4,
                )
                return answer
            steps = space.solve(vector, parts[0])
            c = steps.c.ravel()
            of_e = space.error(c, vector)
            q2 = space.reliability(c, of_e, vector)
            at_points = space.values_of(c[None])[:, 0], space.values_of_errors(of_e[None])[:, 0]
            parts = c, np.concatenate([np.zeros_like(c), of_e])
            answer = self._made(2, parts, at_points, q2, inputs, own, began)
            if answer.error.relative <= tolerance:
                return answer
        start = None if answer is None else lambda x: answer.predict(x).mean
        known = space.inputs.known(vector)
        goal = self.tolerance if tolerance is None else tolerance
        result = solve(
            self._problem.with_values(known),
            tolerance=goal,
            seconds=seconds,
            progress=False,
            start=start,
        )
        error = replace(result.error, relative=result.error.relative + own)
        return Answer(dict(inputs), 3, error, time.perf_counter() - began, result)

    def _made(
        self,
        level: int,
        parts: tuple[Array, Array],
        at_points: tuple[Array, Array],
        q: float,
        inputs: Mapping[str, Any],
        own: float,
        began: float,
    ) -> Answer:
        """Return an answer u, with the errors of both spaces, of their coefficients and values."""
        space, m = self._basis.space, self._problem.outputs
        u, e = at_points
        e = e.reshape(-1, m)
        size = max(float(np.linalg.norm(u + e.ravel())), np.finfo(np.float64).tiny)
        relative = max(float(np.linalg.norm(e)) / size, _FLOOR) + own
        seconds = time.perf_counter() - began
        if q >= KNOWN:
            absolute = space.sizes * np.sqrt(np.mean(e**2, axis=0))
            error = ErrorEstimate(relative, absolute, q, own_error=_CAUTION / q, seconds=seconds)
        else:
            error = ErrorEstimate.not_known(m, _ROUGH.format(q), reliability=q, seconds=seconds)
        of = (space.model, space.richer), *parts
        known = partial(self._known_problem, dict(inputs))
        return Answer(dict(inputs), level, error, seconds, None, space.problem, known, of)

    def _known_problem(self, inputs: Mapping[str, Any]) -> Problem:
        vectors, _ = self._basis.space.inputs.vectors(inputs)
        return self._problem.with_values(self._basis.space.inputs.known(vectors[0]))

    @by_name
    def fit(self, data: Observations) -> Fitted:
        """Find the inputs from measured values, by least χ² in the reduced basis (local).

        Priors of inputs count as they do in `train`. The best of 1,024 draws by regression begin
        Gauss–Newton steps with exact derivatives, ∂a/∂μ = −J⁺ ∂r/∂μ.

        Parameters
        ----------
        data : with `noise`, so that deviations and intervals are in its units; without, the noise
            is estimated from the residuals.

        Returns
        -------
        Values, deviations and `intervals(0.95)` by the noise, and the `answer` for these inputs.
        """
        usual = isinstance(data, Observations) and data.loss == "squares" and not data.coupled
        if not usual or data.noise_unknown:
            raise InputError(
                "operator.fit: expected Observations(x, u, noise=σ) with known deviations or none, "
                "independent errors and the loss of squares; Problem and train take the others."
            )
        return fit(self._problem, self._basis, self, data)

    @by_name
    def minimize(self, cost: Callable[[Answer], float]) -> Answer:
        """Find the inputs of least cost, inside of their bounds (local).

        Parameters
        ----------
        cost : a function of an `Answer`, with a number as its value; smooth, since L-BFGS-B
            minimizes it from the best of 64 draws, with derivatives by differences.

        Returns
        -------
        The answer, whose `parameters` are the inputs.
        """
        return minimized(self._basis, self, cost)

    @by_name
    def save(self, directory: str | Path, *, overwrite: bool = False) -> Path:
        """Write the operator into a folder, on rank 0; other ranks need not call it (local).

        Raises
        ------
        InputError
            The folder holds an operator, and `overwrite` is False.
        """
        path = checked_path(directory, "Operator.save") / _FILE
        if path.exists() and not overwrite:
            raise InputError(f"Operator.save: {path} exists; write overwrite=True to replace it.")
        if current_world().communicator.rank > 0:
            return path.parent
        path.parent.mkdir(parents=True, exist_ok=True)
        basis, unseen = self._basis, self.unseen
        about = {
            "tolerance": self.tolerance,
            "degree": basis.space.degree,
            "layers": basis.space.layers,
            "branch": basis.branch.choice,
            "problem": basis.space.described,
        }
        arrays: dict[str, Any] = {
            "about": np.array(json.dumps(about)),
            "basis": basis.v,
            "errors": basis.errors,
            "queries": self._queries,
            "coordinates": basis.branch.outputs,
            "unseen": np.stack([unseen.by_regression, unseen.by_basis, unseen.reliability]),
        }
        write_whole(path, lambda draft: np.savez(draft, allow_pickle=False, **arrays))
        return path.parent

    @classmethod
    def load(cls, directory: str | Path, *, problem: Problem) -> Operator:
        """Read an operator; its problem is given again, since files hold no functions (local).

        Raises
        ------
        InputError
            There is no operator in the folder, or it is one of another problem.
        """
        path = checked_path(directory, "Operator.load") / _FILE
        if not path.exists():
            raise InputError(f"Operator.load: there is no operator in {directory}.")
        with np.load(path) as file:
            arrays = dict(file)
        about = json.loads(str(arrays["about"]))
        inputs = Inputs(problem)
        of = bound_problem(problem, inputs), inputs, about["degree"]
        space = Space(*of, layers=about.get("layers", False))
        if wrong := space.difference(about["problem"]):
            raise InputError(
                f"Operator.load: {path} is of another problem, which differs in {wrong}."
            )
        basis = Basis.with_functions(
            space, arrays["basis"], arrays["queries"], arrays["coordinates"]
        )
        basis = basis.with_error_functions(arrays["errors"])
        unseen = Unseen(*arrays["unseen"])
        return cls(problem, basis, about["tolerance"], arrays["queries"], unseen)

    def __repr__(self) -> str:
        space, unseen = self._basis.space, self.unseen
        known = unseen.reliability >= KNOWN
        sure, many = np.count_nonzero(known), len(known)
        met = np.count_nonzero(known & (unseen.by_basis <= self.tolerance))

        def line(name: str, errors: Array) -> str:
            errors = errors[known]
            if not len(errors):
                return f"  {name:<28}not known"
            return f"  {name:<28}median {np.median(errors):.1e}, largest {errors.max():.1e}"

        return "\n".join(
            [
                f"Operator of {', '.join(self.inputs)}: {self.modes} solutions span those of "
                f"{len(self._queries)} queries, in {space.columns} polynomials of degree "
                f"{space.degree}",
                f"estimated relative errors of {sure} of {many} unseen queries (others not known):",
                line("level 0, regression", unseen.by_regression),
                line("level 1, reduced basis", unseen.by_basis),
                f"  {met} of {many} meet the tolerance of {self.tolerance:g} at level 1",
            ]
        )
