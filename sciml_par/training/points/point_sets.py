"""The points of the whole job that one or several terms of the loss share, draw for draw."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par.errors import InputError
from sciml_par.problems.conditions.condition import Condition
from sciml_par.problems.conditions.drawing import grid_of_about
from sciml_par.problems.conditions.initial import Initial
from sciml_par.problems.conditions.selection import points_within
from sciml_par.problems.domains.domain import Domain
from sciml_par.problems.domains.surfaces.sampling import GRID
from sciml_par.problems.problem import Problem
from sciml_par.problems.terms.residual import Residual
from sciml_par.training.points.boundary import (
    LEAST,
    Candidates,
    Given,
    as_boundary_points,
    boundary_of,
    check_known,
    check_normals,
)
from sciml_par.training.points.division import Purpose, generator
from sciml_par.training.points.points import INTERIOR, Points
from sciml_par.training.points.sources.source import Arrays

FloatArray = npt.NDArray[np.float64]

_MOST_DRAWS = 1000


@dataclass(frozen=True, eq=False)
class PointSet:
    """Points that terms of the loss share.

    Attributes
    ----------
    points : draw -> its points, in the same number every time, and what comes with them.
    complete : some of these rows -> the same with the data that the terms need there.
    columns : which of the arrays each of the terms takes.
    given : whether the user gave them, so that their order is kept.
    every : after how many steps there are other points, in another draw; None if never.
    weights : x: [n, d] -> factors of |r|² at all points, where these are not all one.
    candidates : (number, rng) -> random points of the domain, or fewer of a cloud of fewer points.
    anchors : how many of the first points are the same in every draw.
    """

    points: Callable[[int], Arrays]
    complete: Callable[[Arrays], Arrays]
    columns: tuple[tuple[int, ...], ...]
    given: bool
    every: int | None
    weights: Callable[[FloatArray], FloatArray] | None = None
    candidates: Callable[[int, np.random.Generator], FloatArray] | None = None
    anchors: int = 0

    @property
    def number(self) -> int:
        """How many points there are, of all ranks."""
        return len(self.points(0)[0])


def interior_set(
    residuals: Sequence[Residual], domain: Domain, points: Points, seed: int
) -> PointSet:
    """Return the points of the equations."""
    method, boxes = points.method_of(INTERIOR, domain), points.boxes
    number: Any = 64 if points.interior is None else points.interior
    given = isinstance(number, np.ndarray)
    if given:
        number = points_within(number, domain, "train: points")
    anchors = np.empty((0, domain.dimension))
    if points.anchors is not None:
        anchors = points_within(points.anchors, domain, "train: anchors of the points")

    def drawn(draw: int) -> Arrays:
        if given:
            return (number,)
        rng = generator(seed, Purpose.INTERIOR, draw)
        if boxes is not None:
            x = boxes.interior(number, rng)
        else:
            x = domain.interior(number, method=method, rng=rng)
        return (np.concatenate([anchors, x]),)

    def candidates(count: int, rng: np.random.Generator) -> FloatArray:
        return domain.interior(count, method="sobol" if method == GRID else method, rng=rng)

    return PointSet(
        drawn,
        lambda arrays: with_data(residuals, arrays[0]),
        columns_of(residuals),
        given=given,
        every=None if given or method == GRID else points.resample_every,
        weights=None if boxes is None or given else boxes.weights,
        candidates=candidates,
        anchors=len(anchors),
    )


def columns_of(residuals: Sequence[Residual]) -> tuple[tuple[int, ...], ...]:
    """Return which of the arrays of `with_data` each residual takes."""
    columns: list[tuple[int, ...]] = []
    first = 1
    for residual in residuals:
        more = (residual.data is not None) + (residual.where is not None)
        columns.append((0, *range(first, first + more)))
        first += more
    return tuple(columns)


def with_data(residuals: Sequence[Residual], x: FloatArray) -> Arrays:
    """Return x: [n, d], and what each residual knows there beside x."""
    return (x, *(known for each in residuals for known in each.payload(x)[1:]))


def condition_sets(problem: Problem, points: Points, seed: int, interior: int) -> list[PointSet]:
    """Return the points of the conditions, in their order."""
    boundary = boundary_of(problem.domain, points, interior)
    names = [term.name for _, term in problem.terms_of_conditions]
    unknown = [name for name in points.conditions or {} if name not in names]
    if unknown:
        raise InputError(
            f"train: Points has points for the condition {unknown[0]!r}, and the loss has "
            f"{listed(names)}."
        )
    return [
        _set_of(condition, name, i, problem.domain, boundary, points, seed, interior)
        for i, (name, condition) in enumerate(zip(names, problem.conditions, strict=True))
    ]


def listed(names: list[str]) -> str:
    """Return the names of conditions in a sentence."""
    return "the conditions " + ", ".join(map(repr, names)) if names else "no conditions"


def _set_of(
    condition: Condition,
    name: str,
    i: int,
    domain: Domain,
    boundary: Candidates,
    points: Points,
    seed: int,
    interior: int,
) -> PointSet:
    wanted, what = (points.conditions or {}).get(name), f"points of the condition {name!r}"
    if wanted is not None and (isinstance(condition.own, tuple) or condition.points_are_given):
        raise InputError(
            f"train: Points has points for the condition {name!r}, which has its own: "
            f"{condition!r}."
        )
    if isinstance(wanted, tuple):
        given = as_boundary_points(wanted, domain, what)
        if wanted[1] is None:
            check_normals(condition, given, domain, what)
        return _given_set(condition.completed(given, domain))
    if type(condition).points is not Condition.points or isinstance(condition.own, tuple):
        number = wanted or condition.number or boundary.number
        return _given_set(condition.points(domain, number))
    own = condition.number if wanted is None else wanted
    if own is None and condition.on_boundary:
        for x, normals in boundary.derived:
            chosen = condition.holds_at(x, domain)
            check_normals(condition, (x[chosen], normals[chosen]), domain, what)
        found = _drawn_set(condition, i, domain, boundary, every=points.resample_every, seed=seed)
        least = max(LEAST, math.isqrt(interior))
        # Where their number is left open, there may be more.
        fixed = points.boundary is not None or domain.dimension == 1
        fixed |= isinstance(condition, Initial) and points.initial is not None
        if found.number >= least or fixed or not math.isfinite(domain.volume):
            return found
        own = least
    candidates = _own_candidates(condition, domain, own, interior, points)
    every = points.resample_every
    return _drawn_set(condition, i, domain, candidates, every=every, seed=seed, wanted=own)


def _own_candidates(
    condition: Condition, domain: Domain, number: int | None, interior: int, points: Points
) -> Candidates:
    """Return the points that a condition draws, by default as dense as the interior ones.

    On a grid they are about as many. In one dimension a face is one point.
    """
    inside, d = condition.on == (INTERIOR,), domain.dimension
    kind = "initial" if isinstance(condition, Initial) else INTERIOR if inside else "boundary"
    count = number or (interior if inside else max(1, round(interior ** ((d - 1) / d))))
    method = points.method_of(kind, domain)
    random = method != GRID and not (d == 1 and condition.on_boundary)

    def draw(rng: np.random.Generator) -> Given:
        if not random:
            return grid_of_about(condition, domain, count)
        return condition.draw(domain, count, method=method, rng=rng)

    return Candidates(draw, random)


def _drawn_set(
    condition: Condition,
    i: int,
    domain: Domain,
    candidates: Candidates,
    *,
    every: int | None,
    seed: int,
    wanted: int | None = None,
) -> PointSet:
    """Return the points of a condition among candidates.

    Every draw of any seed has equally many points: where the condition holds at more of the
    candidates, some of them at random, and where it holds at fewer, those of further draws.
    """

    def holding(rng: np.random.Generator) -> Given:
        x, normals = candidates.draw(rng)
        chosen = condition.holds_at(x, domain, normals)
        return x[chosen], normals[chosen]

    def random_of(draw: int) -> np.random.Generator:
        return generator(seed, Purpose.CONDITION, i, draw)

    # The same for any seed, so that members of an ensemble have points of one shape.
    first = holding(generator(0, Purpose.CONDITION, i, 0))
    count = len(first[0]) if wanted is None or not candidates.random else wanted
    if condition.on_boundary:
        check_known(condition, first[1], f"points of {type(condition).__name__}")
    if count == 0:
        raise condition.no_points(len(candidates.draw(random_of(0))[0]), domain)
    every = every if candidates.random else None

    def points(draw: int) -> Arrays:
        rng = random_of(0 if every is None else draw)
        x, normals = holding(rng)
        for _ in range(_MOST_DRAWS):
            if len(x) >= count:
                break
            more = holding(rng)
            x, normals = np.concatenate([x, more[0]]), np.concatenate([normals, more[1]])
        else:
            raise condition.no_points(_MOST_DRAWS, domain)
        if len(x) > count:
            kept = np.sort(rng.permutation(len(x))[:count])
            x, normals = x[kept], normals[kept]
        return x, normals

    def complete(arrays: Arrays) -> Arrays:
        return condition.completed(arrays, domain)

    columns = (tuple(range(len(complete(points(0))))),)
    return PointSet(points, complete, columns, given=candidates.given, every=every)


def _given_set(arrays: Sequence[Any]) -> PointSet:
    """Return points of a condition that were given."""
    known = tuple(np.asarray(array, dtype=np.float64) for array in arrays)
    columns = (tuple(range(len(known))),)
    return PointSet(lambda _: known, lambda arrays: arrays, columns, given=True, every=None)


def check_pointwise(point_set: PointSet) -> None:
    """Check that data are functions of the point, not of its place in an array."""
    points = point_set.points(0)
    backwards = tuple(each[::-1] for each in points)
    there, back = point_set.complete(points), point_set.complete(backwards)
    for a, b in zip(there, back, strict=True):
        scale = float(np.max(np.abs(a), initial=0.0))
        if not np.allclose(a, b[::-1], rtol=1e-6, atol=1e-6 * scale, equal_nan=True):
            raise InputError(
                "train: with resample_every or adapt, the data of a residual and the values of a "
                "condition must be functions of x, which these are not: they depend on the order "
                "of the points. Give measured values together with an array of points."
            )
