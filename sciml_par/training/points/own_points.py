"""Points that a condition draws by itself: in a number of its own, or not on the boundary."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sciml_par.problems.conditions.condition import Condition
from sciml_par.problems.conditions.drawing import grid_of_about
from sciml_par.problems.domains.domain import Domain
from sciml_par.problems.domains.surfaces.sampling import GRID

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class OwnCandidates:
    """See `sciml_par.training.points.point_sets.Candidates`.

    Attributes
    ----------
    condition : whose points they are.
    domain : in which they lie.
    number : how many there are; where the condition holds, on a grid about.
    method : by which they are chosen.
    """

    condition: Condition
    domain: Domain
    number: int
    method: str

    @property
    def random(self) -> bool:
        """Whether another draw has other points; in one dimension a face is one point."""
        one = self.domain.dimension == 1 and self.condition.on_boundary
        return self.method != GRID and not one

    @property
    def identity(self) -> object:
        """What is equal where two have the same points."""
        drawn_by = type(self.condition).draw
        kind = None if drawn_by is Condition.draw else id(self.condition)
        return (self.domain, self.number, self.method, self.condition.on_boundary, kind)

    def draw(self, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """Points and normals, [n, d] each."""
        if not self.random:
            return grid_of_about(self.condition, self.domain, self.number)
        return self.condition.draw(self.domain, self.number, method=self.method, rng=rng)
