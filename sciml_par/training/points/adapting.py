"""How interior points follow the residual: RAD draws all of them anew, RAR adds some."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, fields
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from sciml_par._checks import checked_integer, checked_number
from sciml_par._other_names import ByName
from sciml_par.errors import InputError

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, repr=False)
class Adapting(ByName):
    """What RAD and RAR have in common.

    The residual at a point is |r| = (Σ_t w_t |r_t|²)^½ over the equations t with their weights. It
    is computed at candidates, random points of the domain that are new every time; each rank
    computes those of its share, and all choose the same.
    """

    grows: ClassVar[bool] = False

    every: int
    _: KW_ONLY
    candidates: int | None = None

    def __post_init__(self) -> None:
        name = type(self).__name__
        checked_integer(self.every, f"{name}: every", least=1)
        if self.candidates is not None:
            checked_integer(self.candidates, f"{name}: candidates", least=2)

    def __repr__(self) -> str:
        values = [(each.name, getattr(self, each.name), each.default) for each in fields(self)]
        shown = ", ".join(f"{name}={value!r}" for name, value, usual in values if value != usual)
        return f"{type(self).__name__}({shown})"

    def capacity(self, first: int) -> int:
        """Return how many points there may be at the end, if there are `first` at the start."""
        return first

    def next_points(
        self,
        points: FloatArray,
        candidates: FloatArray,
        squares: FloatArray,
        *,
        capacity: int,
        rng: np.random.Generator,
        anchors: int = 0,
    ) -> FloatArray:
        """Return the points from now on, at most `capacity` (local).

        Parameters
        ----------
        points : until now, [n, d], of which the first are `anchors`, which stay.
        candidates : x: [C, d].
        squares : |r(x)|²: [C]. Those that are not finite count as the largest.
        """
        good = np.isfinite(squares)
        finite = np.where(good, squares, squares[good].max(initial=0.0))
        order = np.argsort(-self._keys(finite, rng), kind="stable")
        kept = points if self.grows else points[:anchors]
        chosen = np.sort(order[: self._wanted(capacity - len(kept))])
        return np.concatenate([kept, candidates[chosen]])

    def number_of_candidates(self, points: int) -> int:
        """Return how many candidates there are for this number of points at the end.

        Raises
        ------
        InputError
            There are fewer than points.
        """
        number = 10 * points if self.candidates is None else self.candidates
        if number < points:
            raise InputError(
                f"Points: {type(self).__name__} must have at least as many candidates as points; "
                f"got {number} candidates for {points} points. Leave candidates out for ten times "
                f"as many."
            )
        return number

    def _keys(self, squares: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Return numbers of which the largest choose the candidates, [C]."""
        raise NotImplementedError

    def _wanted(self, room: int) -> int:
        """Return how many candidates are chosen if there is room for `room` points."""
        return room


@dataclass(frozen=True, repr=False)
class RAD(Adapting):
    """Residual-based adaptive distribution: all interior points are drawn anew, by the residual.

    Every `every` steps the points are drawn among the candidates without replacement, with
    probabilities in proportion to

        |r(x)|^k / mean(|r|^k) + c

    (Wu, Zhu, Tan, Kartha and Lu, Comput. Methods Appl. Mech. Eng. 403, 2023, arXiv:2207.10289,
    Eq. 2). With a large k points gather where the residual is large; with a large c they are spread
    evenly. The loss weighs the chosen points equally.

    Parameters
    ----------
    every : int
        After how many steps.
    k, c : float
        At least 0, and not both 0; dimensionless.
    candidates : int, optional
        How many there are each time; ten times the points by default.

    Raises
    ------
    InputError
        A number is not of this kind.

    Examples
    --------
    >>> from sciml_par.training import RAD, Points
    >>> Points(2000, method="sobol", adapt=RAD(1000))
    Points(interior=2000, method='sobol', adapt=RAD(every=1000))
    """

    _: KW_ONLY
    k: float = 1.0
    c: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("k", "c"):
            if checked_number(getattr(self, name), f"RAD: {name}") < 0:
                raise InputError(f"RAD: {name} must be at least 0, got {getattr(self, name)!r}")
        if self.k == 0 and self.c == 0:
            raise InputError("RAD: k and c must not both be 0")

    def _keys(self, squares: FloatArray, rng: np.random.Generator) -> FloatArray:
        sizes = squares ** (self.k / 2)
        mean = sizes.mean()
        share = (sizes / mean if mean > 0 else np.ones_like(sizes)) + self.c
        # The largest of log p + Gumbel noise are a draw without replacement (Efraimidis and
        # Spirakis, Inf. Process. Lett. 97, 2006, in logarithms).
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(share) + rng.gumbel(size=len(share)))


@dataclass(frozen=True, repr=False)
class RAR(Adapting):
    """Residual-based adaptive refinement: points are added where the residual is largest.

    Every `every` steps those `add` candidates join the interior points at which |r| is largest (Lu,
    Meng, Mao and Karniadakis, SIAM Rev. 63, 2021, Procedure 2.1), until there are `most` points.

    Parameters
    ----------
    every : int
        After how many steps.
    add : int
        How many points each time.
    most : int, optional
        How many there are at most; twice those at the start by default. Each step takes the time of
        this number of points, since a compiled loop does not change its shapes.
    candidates : int, optional
        How many there are each time; ten times `most` by default.

    Raises
    ------
    InputError
        A number is not of this kind.

    Examples
    --------
    >>> from sciml_par.training import RAR, Points
    >>> Points(1000, adapt=RAR(500, add=50, most=1500))
    Points(interior=1000, adapt=RAR(every=500, add=50, most=1500))
    """

    grows: ClassVar[bool] = True

    _: KW_ONLY
    add: int = 10
    most: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        checked_integer(self.add, "RAR: add", least=1)
        if self.most is not None:
            checked_integer(self.most, "RAR: most", least=1)

    def capacity(self, first: int) -> int:
        if self.most is None:
            return 2 * first
        if self.most < first:
            raise InputError(
                f"Points: RAR adds points up to most={self.most}, and there are {first} at the "
                f"start. Take a larger number for most."
            )
        return self.most

    def _keys(self, squares: FloatArray, rng: np.random.Generator) -> FloatArray:
        return squares

    def _wanted(self, room: int) -> int:
        return min(self.add, room)
