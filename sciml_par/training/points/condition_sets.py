"""Which points every condition of a problem has."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sciml_par.errors import InputError
from sciml_par.problems.conditions.condition import Condition
from sciml_par.problems.conditions.drawing import grid_of_about
from sciml_par.problems.conditions.initial import Initial
from sciml_par.problems.domains.domain import Domain
from sciml_par.problems.domains.surfaces.sampling import GRID
from sciml_par.problems.problem import Problem
from sciml_par.training.points.boundary import LEAST, BoundaryPoints
from sciml_par.training.points.point_sets import ConditionSet, GivenSet, PointSet, given_set
from sciml_par.training.points.points import INTERIOR, Points

FloatArray = npt.NDArray[np.float64]


def condition_sets(problem: Problem, points: Points, seed: int, interior: int) -> list[PointSet]:
    """Return the points of the conditions, in their order."""
    boundary = BoundaryPoints.of(problem.domain, points, interior)
    names = [term.name for term in problem.terms[len(problem.residuals) :]]
    at_conditions = points.conditions or {}
    unknown = [name for name in at_conditions if name not in names]
    if unknown:
        raise InputError(
            f"train: Points has points for the condition {unknown[0]!r}, and the loss has "
            f"{listed(names)}."
        )
    return [
        _set_of(condition, name, i, boundary, points, seed, interior)
        for i, (name, condition) in enumerate(zip(names, problem.conditions, strict=True))
    ]


def _set_of(
    condition: Condition,
    name: str,
    i: int,
    boundary: BoundaryPoints,
    points: Points,
    seed: int,
    interior: int,
) -> PointSet:
    domain, wanted = boundary.domain, (points.conditions or {}).get(name)
    custom = type(condition).points is not Condition.points
    if wanted is not None and (isinstance(condition.own, tuple) or condition.points_are_given):
        raise InputError(
            f"train: Points has points for the condition {name!r}, which has its own: "
            f"{condition!r}."
        )
    if isinstance(wanted, tuple):
        return given_set(condition, name, wanted, domain)
    if custom or isinstance(condition.own, tuple):
        share = boundary.number if isinstance(boundary.number, int) else len(boundary.number[0])
        return GivenSet(condition.points(domain, wanted or condition.number or share))
    redrawn = points.resample_every is not None
    own = condition.number if wanted is None else wanted
    if own is None and condition.on_boundary:
        boundary.check(condition, name)
        given = isinstance(boundary.number, tuple)
        found = ConditionSet(condition, i, boundary, redrawn=redrawn, seed=seed, given=given)
        least = max(LEAST, math.isqrt(interior))
        if found.number >= least or not _is_open(condition, points, domain):
            return found
        own = least
    candidates = _own_candidates(condition, domain, own, interior, points)
    return ConditionSet(condition, i, candidates, redrawn=redrawn, seed=seed, wanted=own)


def _own_candidates(
    condition: Condition, domain: Domain, number: int | None, interior: int, points: Points
) -> OwnCandidates:
    """Return the points that a condition draws, by default as dense as the interior ones."""
    inside = condition.on == (INTERIOR,)
    kind = "initial" if isinstance(condition, Initial) else INTERIOR if inside else "boundary"
    if number is None:
        d = domain.dimension
        number = interior if inside else max(1, round(interior ** ((d - 1) / d)))
    return OwnCandidates(condition, domain, number, points.method_of(kind, domain))


def _is_open(condition: Condition, points: Points, domain: Domain) -> bool:
    """Return whether the number of a condition's points is left open, and there may be more."""
    chosen = points.boundary is not None
    if isinstance(condition, Initial):
        chosen |= points.initial is not None
    return not chosen and domain.dimension > 1 and math.isfinite(domain.volume)


def listed(names: list[str]) -> str:
    """Return the names of conditions in a sentence."""
    return "the conditions " + ", ".join(map(repr, names)) if names else "no conditions"


@dataclass(frozen=True, eq=False)
class OwnCandidates:
    """`number` points that a condition draws in a domain; on a grid about as many."""

    condition: Condition
    domain: Domain
    number: int
    method: str

    @property
    def random(self) -> bool:
        """Whether another draw has other points; in one dimension a face is one point."""
        one = self.domain.dimension == 1 and self.condition.on_boundary
        return self.method != GRID and not one

    def draw(self, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """Return points and normals, [n, d] each."""
        if not self.random:
            return grid_of_about(self.condition, self.domain, self.number)
        return self.condition.draw(self.domain, self.number, method=self.method, rng=rng)
