"""What every domain can tell of itself: its box, what lies in it, and points inside and around."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from sciml_par.problems.sampling import GRID

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]


class Domain(ABC):
    """A bounded part of ℝ^d; immutable.

    Subclasses are geometries: `Box` and `Interval` first. Equal domains have equal points for equal
    numbers and seeds; a domain can be hashed.
    """

    __slots__ = ()

    @property
    @abstractmethod
    def lower(self) -> FloatArray:
        """Lower bounds [d] of the smallest axis-parallel box around the domain."""

    @property
    @abstractmethod
    def upper(self) -> FloatArray:
        """Upper bounds [d] of that box."""

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """Names of the coordinates, d of them."""

    @property
    @abstractmethod
    def volume(self) -> float:
        """The length, area or volume, in units of the coordinates."""

    @property
    @abstractmethod
    def faces(self) -> tuple[str, ...]:
        """Names of the parts of the boundary, for conditions that hold `on` some of them."""

    @property
    def dimension(self) -> int:
        """Number d of coordinates."""
        return int(self.lower.size)

    @property
    def extent(self) -> FloatArray:
        """Edge lengths upper − lower [d] of the box around the domain."""
        return self.upper - self.lower

    @abstractmethod
    def contains(self, x: npt.ArrayLike) -> BoolArray:
        """Whether points lie in the domain or on its boundary: x: [n, d] -> [n] (local)."""

    @abstractmethod
    def interior(
        self,
        n: int | Sequence[int],
        *,
        method: str = GRID,
        rng: np.random.Generator | None = None,
    ) -> FloatArray:
        """Points in the domain by any method, x: [k, d]; k = n for a random one (local)."""

    @abstractmethod
    def boundary(
        self,
        n: int,
        *,
        method: str = GRID,
        rng: np.random.Generator | None = None,
        with_initial: bool = True,
    ) -> tuple[FloatArray, FloatArray]:
        """Points on the boundary and the outward unit normals there, [k, d] each (local)."""

    @abstractmethod
    def on_faces(self, x: FloatArray, faces: Sequence[str]) -> BoolArray:
        """Which points of the boundary lie on one of these faces: x: [n, d] -> [n] (local).

        Raises
        ------
        InputError
            There is no face of such a name; the message lists those that there are.
        """
