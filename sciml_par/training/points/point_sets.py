"""The points of the whole job that one or several terms of the loss share, draw for draw."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from sciml_par.errors import InputError
from sciml_par.problems.conditions.condition import Condition
from sciml_par.problems.conditions.given_points import points_within
from sciml_par.problems.domains.domain import Domain
from sciml_par.problems.domains.surfaces.sampling import GRID
from sciml_par.problems.terms.residual import Residual
from sciml_par.training.points.boundary import as_boundary_points, check_known, check_normals
from sciml_par.training.points.generators import Purpose, generator
from sciml_par.training.points.points import INTERIOR, Points
from sciml_par.training.points.sources.source import Arrays

FloatArray = npt.NDArray[np.float64]

_MOST_DRAWS = 1000


class PointSet(Protocol):
    """Points that terms of the loss share.

    Attributes
    ----------
    given : whether the user gave them, so that their order is kept.
    redrawn : whether there are other points in every draw.
    columns : which of the arrays each of the terms takes.
    """

    given: bool
    redrawn: bool
    columns: tuple[tuple[int, ...], ...]

    def points(self, draw: int) -> Arrays:
        """Return the points of a draw, in the same number every time, and what comes with them."""

    def complete(self, points: Arrays) -> Arrays:
        """Return some of these rows with the data that the terms need there."""


class InteriorSet:
    """The points of the equations; see `PointSet`."""

    def __init__(
        self, residuals: Sequence[Residual], domain: Domain, points: Points, seed: int
    ) -> None:
        self._residuals, self._domain, self._seed = residuals, domain, seed
        self._method, self._boxes = points.method_of(INTERIOR, domain), points.boxes
        self._number = 64 if points.interior is None else points.interior
        self.given = isinstance(self._number, np.ndarray)
        if isinstance(self._number, np.ndarray):
            self._number = points_within(self._number, domain, "train: points")
        self.anchors = np.empty((0, domain.dimension))
        if points.anchors is not None:
            self.anchors = points_within(points.anchors, domain, "train: anchors of the points")
        self.redrawn = not self.given and points.resample_every is not None and self._method != GRID
        self.columns = columns_of(residuals)

    @property
    def number(self) -> int:
        """How many points there are, of all ranks."""
        return len(self.points(0)[0])

    def points(self, draw: int) -> Arrays:
        if isinstance(self._number, np.ndarray):
            return (self._number,)
        rng = generator(self._seed, Purpose.INTERIOR, draw)
        if self._boxes is not None:
            drawn = self._boxes.interior(self._number, rng)
        else:
            drawn = self._domain.interior(self._number, method=self._method, rng=rng)
        return (np.concatenate([self.anchors, drawn]),)

    def weights(self, x: FloatArray) -> FloatArray | None:
        """Return factors of |r|² at all points x: [n, d], where these are not all one."""
        return None if self._boxes is None or self.given else self._boxes.weights(x)

    def candidates(self, number: int, rng: np.random.Generator) -> FloatArray:
        """Return random points of the domain: [number, d], or fewer of a cloud of fewer points."""
        method = "sobol" if self._method == GRID else self._method
        return self._domain.interior(number, method=method, rng=rng)

    def complete(self, points: Arrays) -> Arrays:
        return with_data(self._residuals, points[0])


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


class Candidates(Protocol):
    """Points of `domain` among which are those of a condition; `random` if draws differ."""

    @property
    def domain(self) -> Domain: ...

    @property
    def random(self) -> bool: ...

    def draw(self, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """Return points and normals, [n, d] each."""


class ConditionSet:
    """The points of a condition, such as those on the boundary; see `PointSet`.

    Every draw of any seed has equally many points: where the condition holds at more points of the
    boundary, some of them at random, and where it holds at fewer, those of further points.
    """

    def __init__(
        self,
        condition: Condition,
        number: int,
        candidates: Candidates,
        *,
        redrawn: bool,
        seed: int,
        given: bool = False,
        wanted: int | None = None,
    ) -> None:
        self._condition, self._candidates = condition, candidates
        self._number, self._seed = number, seed
        self.given = given
        self.redrawn = redrawn and candidates.random
        # The same for any seed, so that members of an ensemble have points of one shape.
        first = self._holding(generator(0, Purpose.CONDITION, number, 0))
        self._wanted = len(first[0]) if wanted is None or not candidates.random else wanted
        if condition.on_boundary:
            check_known(condition, first[1], f"points of {type(condition).__name__}")
        if self._wanted == 0:
            tried = len(candidates.draw(self._generator(0))[0])
            raise condition.no_points(tried, candidates.domain)
        count = len(self.complete(self.points(0)))
        self.columns: tuple[tuple[int, ...], ...] = (tuple(range(count)),)

    @property
    def number(self) -> int:
        """How many points it has."""
        return self._wanted

    def points(self, draw: int) -> Arrays:
        rng = self._generator(draw if self.redrawn else 0)
        found = self._holding(rng)
        for _ in range(_MOST_DRAWS):
            if len(found[0]) >= self._wanted:
                break
            more = self._holding(rng)
            found = (np.concatenate([found[0], more[0]]), np.concatenate([found[1], more[1]]))
        else:
            raise self._condition.no_points(_MOST_DRAWS, self._candidates.domain)
        if len(found[0]) > self._wanted:
            kept = np.sort(rng.permutation(len(found[0]))[: self._wanted])
            found = (found[0][kept], found[1][kept])
        return found

    def complete(self, points: Arrays) -> Arrays:
        return self._condition.completed(points, self._candidates.domain)

    def _generator(self, draw: int) -> np.random.Generator:
        return generator(self._seed, Purpose.CONDITION, self._number, draw)

    def _holding(self, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        x, normals = self._candidates.draw(rng)
        chosen = self._condition.holds_at(x, self._candidates.domain, normals)
        return x[chosen], normals[chosen]


class GivenSet:
    """Points of a condition that were given; see `PointSet`."""

    given = True
    redrawn = False

    def __init__(self, arrays: Sequence[Any]) -> None:
        self._arrays = tuple(np.asarray(array, dtype=np.float64) for array in arrays)
        self.columns: tuple[tuple[int, ...], ...] = (tuple(range(len(self._arrays))),)

    def points(self, draw: int) -> Arrays:
        return self._arrays

    def complete(self, points: Arrays) -> Arrays:
        return points


def given_set(
    condition: Condition, name: str, value: tuple[FloatArray, FloatArray | None], domain: Domain
) -> GivenSet:
    """Return the points that `Points.conditions` has for a condition."""
    what = f"points of the condition {name!r}"
    x, normals = as_boundary_points(value, domain, what)
    if value[1] is None:
        check_normals(condition, (x, normals), domain, what)
    return GivenSet(condition.completed((x, normals), domain))
