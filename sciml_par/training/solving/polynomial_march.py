"""Evolution by polynomials: slabs of time, whose lengths the estimated error chooses."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._tensorflow import import_module
from sciml_par.assembly.asked import Asked
from sciml_par.assembly.equations import Equations
from sciml_par.assembly.solution import Solution
from sciml_par.assembly.system import System, flat, gauss_newton, newton
from sciml_par.errors import InputError
from sciml_par.networks.propagation.cells import Cells
from sciml_par.problems.conditions.in_time import Before, StartValue
from sciml_par.problems.conditions.initial import Initial
from sciml_par.problems.domains.bounded_region import INITIAL
from sciml_par.problems.domains.domain import Domain
from sciml_par.problems.problem import Problem
from sciml_par.training.outcome.evaluate import in_time
from sciml_par.training.solving.cell_points import PointsOfTerms, cell_of, outside
from sciml_par.training.solving.corners import functions_of
from sciml_par.training.solving.polynomial_stage import operations
from sciml_par.training.weights.of_noise import statistical_terms

Array = npt.NDArray[np.float64]

_DEGREES = {1: (16,), 2: (12, 12), 3: (8, 5)}
"""Of a slab: the total degree in space, and the one in time."""
_RICHER = 3
"""By which degrees are higher in the space that tells the error."""
_CELLS = {1: 1, 2: 4, 3: 2}
"""Along each axis of space at first; a single one is not divided."""
_STEPS, _ROUNDS = 8, 20
_FIRST, _SHORTEST, _SHORTEST_ALONE, _LEAST_SHARE = 1 / 10, 1e-7, 1e-15, 1e-5
"""Of the whole time: the first slab, and a shorter one ends the march, also of time alone; and of
the target, what the shortest slab may add."""
_LARGE, _FALL, _TAIL, _UNRESOLVED = 0.1, 2.5, 0.2, 0.01
"""Cells with more than this share of the largest error are divided; if the error falls by less than
this factor, the slab is shortened in place of it, unless coefficients of the highest degrees are
that large: then cells are divided once more."""
_TOLERATED = 10.0
"""Times what a slab may add, where a shorter one adds no less of what it may: rounding, and what is
left of errors of slabs before, do not fall with the duration."""
_SAFE, _SHORTER = 0.9, (0.2, 0.6)
_LONGER, _LONGER_ALONE, _AFTER_SHORTER = 2.0, 6.0, 1.3
"""Times its length, the next slab at most; of time alone; and after one that had to be shorter."""
_ROUNDING, _TINY, _OF_U = 1e-13, 1e-16, 5e-16
"""What is allowed at least; no number; and the rounding of u at the end of a slab."""
_SHARE, _PATIENCE, _GROWS = 0.15, 3.0, 1.5
"""Of the remaining time, after which a march is late that foreseeably takes so many times as long,
from half of the time on one that takes longer; and the growth of the last slab, from which slabs
are taken to double further on."""
_EQUAL = 8
"""Slabs of equal durations, through which `grown` carries the error of a solution."""
_LOOSER, _LOOSEST = 30.0, 1e-3
"""So many times the error a late march may add from then on; one that may add more is given up."""
_MOST_COLUMNS, _MOST_OPERATIONS = {1: 8_000, 2: 20_000, 3: 8_000}, 2e11
"""Of a slab; and of the factorization that tells its error."""


@dataclass(frozen=True)
class Part:
    """One slab of time: its cells, the coefficients of u and of its error, [K, M, m] each.

    corners : the functions of corners of space and time, of u and of its error.
    """

    begin: float
    end: float
    cells: Cells
    c: Array
    e: Array
    steps: int
    corners: tuple[Any, Any]


@dataclass
class March:
    """A march from the initial time on, as far as it has come (local).

    Attributes
    ----------
    problem : with the weights of its terms.
    target : the relative error that may be added in the whole time, more if there is no time for
        that; then it is `loosened`.
    left : returns the remaining seconds.
    orders : q, the highest order of derivatives by time.
    start : the network with whose values the next slab begins, x: [n, d] -> [n, m].
    asked : what the terms of the whole problem ask for; see `Equations`.
    free : components that the problem does not determine, as a pressure up to a constant.
    layers : points of which the first slab has those of layers, and functions; or None.
    """

    problem: Problem
    seed: int
    target: float
    left: Callable[[], float]
    orders: int
    start: Callable[[Array], Array]
    asked: dict[str, Asked]
    free: Sequence[int] = ()
    layers: PointsOfTerms | None = None
    parts: list[Part] = field(default_factory=list)

    def __post_init__(self) -> None:
        domain, self._d = self.problem.domain, self.problem.domain.dimension
        self._begin, self._end = float(domain.lower[-1]), float(domain.upper[-1])
        self._m = self.problem.network_outputs
        self._networks: Any = import_module("sciml_par.networks")
        self._degrees = _DEGREES[self._d]
        self._size, self.seconds, self.loosened = 0.0, 0.0, False
        self._tried: Any = None
        free = self.free if self._m == self.problem.outputs else ()
        self._kept = np.setdiff1d(np.arange(self._m), free)
        of_equations = {term.name for term in self.problem.terms[: len(self.problem.residuals)]}
        known = {name: asked for name, asked in self.asked.items() if name in of_equations}
        # In the first slab, and in others, which begin with conditions of their own.
        self._asked = dict(known), dict(known)

    @property
    def ended(self) -> bool:
        """Whether the final time is reached."""
        return bool(self.parts) and self.parts[-1].end == self._end

    @property
    def steps(self) -> int:
        """Gauss–Newton steps of all slabs."""
        return sum(part.steps for part in self.parts)

    @property
    def text(self) -> str:
        """How many slabs and windows, and where it ended before the final time."""
        windows, count = sum(len(part.cells.kept) for part in self.parts), len(self.parts)
        size = f"{windows:,} in {count:,} slabs" if self._d > 1 else f"{count:,} slabs"
        at = self.parts[-1].end if self.parts else self._begin
        return size if self.ended else f"{size}, to {self.problem.domain.names[-1]} = {at:.3g}"

    def run(self) -> None:
        """March to the final time, or until nothing lowers the error of a slab."""
        began = time.perf_counter()
        t, h = self._begin, _FIRST * (self._end - self._begin)
        breaks = [
            np.linspace(a, b, _CELLS[self._d] + 1)
            for a, b in zip(self.problem.domain.lower, self.problem.domain.upper, strict=True)
        ][:-1]
        before: tuple[Before | None, Before | None] = None, None
        while t < self._end:
            # No sliver is left for the last slab.
            last, at_begin = self._end - t <= 1.01 * h, time.perf_counter()
            h = self._end - t if last else min(h, (self._end - t) / 2)
            found = self._slab(t, self._end if last else t + h, breaks, before)
            if found is None:
                break
            part, breaks, before, h = found
            self.parts.append(part)
            self._solution = self._tried
            self.start = self._solution.network_values
            t = part.end
            now, further = time.perf_counter(), (self._end - t) / h
            if h > _GROWS * (t - part.begin):
                further = math.log2(1 + further)  # as where a layer at the begin has faded
            # The first slabs also find their lengths and cells.
            each = min((now - began) / len(self.parts), now - at_begin)
            spent, left = now - began, self.left()
            # Beside a front the first slabs are short, and the next ones may be longer.
            late = further * each > (_PATIENCE if spent < left else 1) * left
            if self._d > 1 and spent > _SHARE * left and late:
                if self.target >= _LOOSEST:
                    break  # other methods need the time
                former, self.loosened = self.target, True
                self.target = min(_LOOSER * former, _LOOSEST)
                h *= (self.target / former) ** (1 / self._degrees[-1])
        self.seconds = time.perf_counter() - began

    def grown(self, u: Solution) -> float:
        """Return the error of any u as the linearized equation carries it on, relative to u in L2.

        From slab to slab of time, so that it grows where the equation amplifies errors: e^{λt} has
        no residual there, but one in a space over the whole time, which therefore leaves it out.
        Infinite where no slab can be solved (local).
        """
        domain, before, squares = self.problem.domain, None, np.zeros(2)
        singular = bool(self.free)
        breaks = [np.array(each) for each in zip(domain.lower, domain.upper, strict=True)][:-1]
        for begin, end in pairwise(np.linspace(self._begin, self._end, _EQUAL + 1)):
            slab: Domain = domain._between(float(begin), float(end))  # type: ignore[attr-defined]
            problem = self._beginning(self.problem.on_slab(slab), before)
            asked = self._asked[before is None]
            model, at = self._system(problem, slab, breaks, self._degrees, asked)
            system = System(at, model, jets := u.jets(at), singular=singular)
            nothing = np.zeros(model.coefficients.shape.num_elements())
            try:
                e = -system.step(system.linearized(nothing))[0]
            except np.linalg.LinAlgError:
                return math.inf
            values, both = (z[0][0][0, self._kept] for z in (jets, system.jets(e)))
            squares += [np.mean((both - values) ** 2), np.mean(both**2)]
            models, theta = (*u.models, model), np.concatenate([u.theta, e])
            before = _end_of(Solution(problem, models, theta))
        return float(np.sqrt(squares[0] / max(squares[1], np.finfo(np.float64).tiny)))

    def _beginning(self, slab: Problem, before: Before | None) -> Problem:
        """Return the problem of a slab that begins with the end of the one before, if there is."""
        if before is None:
            return slab
        return slab.starting_from(before, also=_begins(self.problem, before, self.orders))

    def _slab(
        self, begin: float, end: float, breaks: list[Array], before: tuple[Any, Any]
    ) -> tuple[Part, list[Array], tuple[Any, Any], float] | None:
        """Solve for one slab; return it with cells, ends and the duration for the next one."""
        error, used, longer = math.inf, breaks, _LONGER_ALONE if self._d == 1 else _LONGER
        excused, best, kept = False, _TOLERATED, None
        for _ in range(_ROUNDS):
            h = end - begin
            shortest = _SHORTEST_ALONE if self._d == 1 else _SHORTEST
            if h < shortest * (self._end - self._begin) or self.left() <= 0:
                return None
            try:
                solved = self._solved(begin, end, breaks, before)
            except np.linalg.LinAlgError:
                solved = None
            if solved is None:
                fall, local, tails = 0.0, math.inf, np.array([0.0, 1.0])
            else:
                part, ends, local, of_cells, tails = solved
                fall = error / local if local else math.inf
            share = max(h / (self._end - self._begin), _LEAST_SHARE)
            allowed = max(self.target * share, _ROUNDING)
            of_time = local * tails[-1] / max(tails.max(), _TINY)  # the rest is that of the cells
            change = _SAFE * (allowed / max(of_time, _TINY * allowed)) ** (1 / self._degrees[-1])
            if local <= allowed:
                return part, breaks, ends, h * min(change, longer)
            shorter_is_no_better = kept is not None and local >= best * allowed
            if local < best * allowed:
                best, kept = local / allowed, ((part, breaks, ends, h), self._tried)
            falls, rough = fall > _FALL, not excused and tails.max() > _UNRESOLVED
            in_space = solved is not None and self._d > 1 and tails[:-1].max() > tails[-1]
            if in_space and (falls or rough):
                error, used = (local, breaks) if falls else (error, used)
                excused = not falls
                breaks = self._divided(part.cells, of_cells, tails, allowed / local)
                continue
            if kept is not None and shorter_is_no_better and longer == _AFTER_SHORTER:
                self._tried = kept[1]
                return kept[0]
            # Cells gained nothing, or the time is what is not resolved.
            breaks, excused = used if fall <= _FALL else breaks, False
            end = begin + h * float(np.clip(change, *_SHORTER))
            error, used, longer = math.inf, breaks, _AFTER_SHORTER
        return None

    def _solved(
        self, begin: float, end: float, breaks: Sequence[Array], before: tuple[Any, Any]
    ) -> tuple[Part, tuple[Before, Before], float, Array, Array] | None:
        """Return a slab, its ends, the relative error that it adds, by cells too, and tails."""
        whole = self.problem
        domain: Domain = whole.domain._between(begin, end)  # type: ignore[attr-defined]
        first = whole.on_slab(domain)
        problems = [self._beginning(first, each) for each in before]
        asked = self._asked[before[0] is None]
        higher = tuple(each + _RICHER for each in self._degrees)
        (model, at), (richer, fine) = (
            self._system(problems[0], domain, breaks, degrees, asked)
            for degrees in (self._degrees, higher)
        )
        many = model.coefficients.shape.num_elements() > _MOST_COLUMNS[self._d]
        if many or operations(richer, self.problem) > _MOST_OPERATIONS:
            return None
        system = System(at, model, singular=bool(self.free))
        step = newton if self._d == 1 else gauss_newton
        steps = step(system, self._start(system, begin), steps=_STEPS)
        if not math.isfinite(steps.loss) or (self._d == 1 and not steps.size):
            return None
        model.coefficients.assign(steps.c)
        u = self._tried = Solution.of(problems[0], model)
        jets = u.jets(fine)
        base = System(fine, richer, jets, singular=bool(self.free))
        terms = base.linearized(np.zeros(richer.coefficients.shape).ravel())
        right = [flat(terms)]
        if before[1] is not None:
            # The same equations from another begin, in which errors of slabs before go on.
            carried = self._system(problems[1], domain, breaks, higher, asked)[1]
            right.append(np.concatenate([r.ravel() for r in carried.residuals(jets)]))
        found = [d for d, _ in base.reduced(terms, np.array(right))]
        shape = tuple(richer.coefficients.shape)
        x, values = fine.rows[0].requests[0].x, jets[0][0][0, self._kept].T
        alone = values - base.jets(found[0])[0][0][0, self._kept].T
        self._size = max(self._size, float(np.sqrt(np.mean(values**2))))
        if not np.isfinite(alone).all() or not self._size:
            return None
        local = float(np.sqrt(np.mean(alone**2))) / self._size
        numbers, errors = np.maximum(cell_of(model.cells, x), 0), np.sum(alone**2, axis=1)
        of_cells = np.asarray(np.bincount(numbers, errors, len(model.cells.kept)), np.float64)
        richer.coefficients.assign(-found[-1].reshape(shape))
        both = Solution.of(problems[0], model, richer)
        corners = [each for each, _ in model.corners], [each for each, _ in richer.corners]
        e = richer.coefficients.numpy()
        part = Part(begin, end, model.cells, steps.c, e, steps.steps, corners)
        # What follows may amplify rounding, too, which e itself is where the slab is exact.
        rounded = both.at(np.concatenate([(1 + _OF_U) * steps.c.ravel(), e.ravel()]))
        ends = _end_of(u), _end_of(rounded)
        return part, ends, local, of_cells, self._tails(model, steps.c)

    def _system(
        self,
        problem: Problem,
        domain: Domain,
        breaks: Sequence[Array],
        degrees: tuple[int, ...],
        asked: dict[str, Asked],
    ) -> tuple[Any, Equations]:
        box = domain.lower, domain.upper
        sides = (*(tuple(map(float, b)) for b in breaks), (float(box[0][-1]), float(box[1][-1])))
        # In the plane they would be many.
        first = box[0][-1] == self._begin and self._d == 2
        along = tuple(int(1.5 * degrees[0]) + 2 for _ in breaks) + (degrees[-1] + 3,)
        cells = Cells(sides)
        dropped = outside(problem, cells, along) if breaks else ()
        points = PointsOfTerms(problem, self.seed, asked)
        if self.layers is not None and first:
            points = replace(points, in_layers=True, products=self.layers.products)
        corners = functions_of(points.corners, degrees[0], problem)
        exponents = exponents_in_slab(self._d, degrees)
        of = {"exponents": exponents, "breaks": sides, "dropped": dropped, "corners": corners}
        model = self._networks.Polynomials(self._d, self._m, box=box, **of)
        return model, points.in_cells(model.cells, along)

    def _start(self, system: System, begin: float) -> Array:
        """Return coefficients that go on as u does at the begin: as a constant, or along a line."""

        def both(x: Array) -> Array:
            at_begin = np.column_stack([x[:, :-1], np.full(len(x), begin)])
            if not self.parts:
                return self.start(at_begin)
            z = self._solution.network_jets(at_begin)
            return np.vstack([z[0], z[0] + z[-1] * (x[:, -1] - begin)]).T

        fitted = system.fitted(both)
        starts = [c.ravel() for c in np.split(fitted, fitted.shape[2] // self._m, axis=2)]
        if len(starts) == 1:
            return starts[0]
        of = system.equations
        return min(starts, key=lambda c: sum(np.vdot(r, r) for r in of.residuals(system.jets(c))))

    def _tails(self, model: Any, c: Array) -> Array:
        """Return the largest coefficients of the highest degrees, of space axes and of time."""
        exponents = model.exponents
        size = np.abs(c[:, : len(exponents), self._kept]).max(axis=2)
        degrees = [*[self._degrees[0]] * (self._d - 1), self._degrees[-1]]
        high = [exponents[:, axis] >= degree - 1 for axis, degree in enumerate(degrees)]
        return np.array([size[:, rows].max() for rows in high])

    def _divided(self, cells: Cells, of_cells: Array, tails: Array, share: float) -> list[Array]:
        """Return breaks in space, where cells are divided as long as others exceed the share."""
        smallest = np.sort(of_cells)
        spared = int(np.sum(np.cumsum(smallest) <= share**2 / 2 * smallest.sum()))
        large = of_cells >= max(smallest[spared], _LARGE**2 * smallest[-1])
        places, breaks = np.unravel_index(cells.kept[large], cells.shape), []
        for axis, b in enumerate(map(np.asarray, cells.breaks[:-1])):
            middle = ((b[1:] + b[:-1]) / 2)[np.unique(places[axis])]
            needed = tails[axis] >= _TAIL * tails[:-1].max()
            breaks.append(np.sort(np.concatenate([b, middle])) if needed else b)
        return breaks

    def joined(self) -> tuple[Any, Any]:
        """Return u and its error over the whole time, as models with their coefficients."""
        slabs = [([list(b) for b in p.cells.breaks], p.cells.dropped) for p in self.parts]
        box = self.problem.domain.lower, self.problem.domain.upper
        found = []
        for k, (name, more) in enumerate((("c", 0), ("e", _RICHER))):
            exponents = exponents_in_slab(self._d, tuple(n + more for n in self._degrees))
            of = {"exponents": exponents, "slabs": slabs, "corners": self.parts[0].corners[k]}
            model = self._networks.Polynomials(self._d, self._m, box=box, **of)
            every = [getattr(part, name) for part in self.parts]
            more_of = [(0, model.width - each.shape[1]) for each in every]
            padded = [np.pad(c, ((0, 0), n, (0, 0))) for c, n in zip(every, more_of, strict=True)]
            model.coefficients.assign(np.concatenate(padded))
            found.append(model)
        return found[0], found[1]


def _end_of(u: Solution) -> Before:
    """Return u at the end of a slab, which conditions of the next one ask for at equal points."""
    known: dict[Any, Array] = {}

    def end(x: Array, order: int) -> Array:
        key = (x.tobytes(), order)
        if key not in known:
            known[key] = in_time(u.field, x, order, "float64")
        return known[key]

    return end


def exponents_in_slab(d: int, degrees: tuple[int, ...]) -> npt.NDArray[np.int64]:
    """Return exponents of total degree in space times those in time, [M, d]."""
    if d == 1:
        return np.arange(degrees[-1] + 1)[:, None]
    grid = np.indices((*[degrees[0] + 1] * (d - 1), degrees[-1] + 1)).reshape(d, -1).T
    rows: npt.NDArray[np.int64] = grid[grid[:, :-1].sum(axis=1) <= degrees[0]]
    return rows[np.lexsort([*rows.T, rows.sum(axis=1)])]


def march_suits(problem: Problem) -> bool:
    """Return whether a problem begins at an initial time, and has conditions of space beside it."""
    domain = problem.domain
    evolves = INITIAL in domain._time_faces[0] and domain.dimension in _DEGREES
    if not evolves or problem.scaled_box is not None or not hasattr(domain, "_between"):
        return False
    if problem.unknowns or statistical_terms(problem):
        return False
    begin, end = float(domain.lower[-1]), float(domain.upper[-1])
    try:
        slab = problem.on_slab(domain._between(begin, (begin + end) / 2))
        zero: Before = lambda x, _: np.zeros((len(x), problem.outputs))  # noqa: E731
        slab.starting_from(zero, also=_begins(problem, zero, 1))
    except InputError:  # as of a condition at the final time
        return False
    return True


def _begins(problem: Problem, before: Before, orders: int) -> list[Initial]:
    """Return conditions for all components of a slab, where an ansatz has initial values."""
    count = 0 if problem.ansatz is None else orders
    return [Initial(StartValue(before, q, None), order=q, name=f"begin {q}") for q in range(count)]


def has_all_begins(problem: Problem, equations: Equations) -> bool:
    """Return whether initial values determine functions of time alone, one equation for each."""
    if problem.domain.dimension > 1 or not march_suits(problem):
        return False
    every, rows = range(problem.outputs), equations.rows[: len(problem.residuals)]
    begins = [c for c in problem.conditions if isinstance(c, Initial)]
    known = {(k, c.order) for c in begins for k in (every if c.component is None else c.component)}
    asked = {(k, order) for k in every for order in range(time_order(equations))}
    return asked <= known and sum(each.asked.components for each in rows) == len(every)


def time_order(equations: Equations) -> int:
    """Return the highest order of derivatives by time, at least 1."""
    last = equations.problem.domain.dimension - 1
    asked = [request.operators for rows in equations.rows for request in rows.requests]
    axes = [a for operators in asked for each in operators for a, _ in each]
    return max([1, *(each.count(last) for each in axes)])
