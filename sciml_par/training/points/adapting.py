"""How interior points follow the residual: RAD draws all of them anew, RAR adds some."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from sciml_par._checks import checked_integer, checked_number
from sciml_par._other_names import ByName
from sciml_par.errors import InputError

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Adapting(ByName):
    """What both have in common; not used by itself.

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

    def capacity(self, first: int) -> int:
        """How many points there may be in the end, where there are `first` at the beginning."""
        raise NotImplementedError

    def next_points(
        self,
        points: FloatArray,
        candidates: FloatArray,
        squares: FloatArray,
        *,
        capacity: int,
        rng: np.random.Generator,
    ) -> FloatArray:
        """Return the points from now on, capacity at the most (local).

        Parameters
        ----------
        points : until now, [n, d].
        candidates : x: [C, d].
        squares : |r(x)|²: [C].
        """
        raise NotImplementedError

    def number_of_candidates(self, points: int) -> int:
        """Return how many candidates there are for so many points in the end.

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


@dataclass(frozen=True)
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

    def __repr__(self) -> str:
        return _shown(self, RAD(self.every))

    def capacity(self, first: int) -> int:
        """See `Adapting`."""
        return first

    def next_points(
        self,
        points: FloatArray,
        candidates: FloatArray,
        squares: FloatArray,
        *,
        capacity: int,
        rng: np.random.Generator,
    ) -> FloatArray:
        """See `Adapting`."""
        sizes = _finite(squares) ** (self.k / 2)
        mean = sizes.mean()
        share = (sizes / mean if mean > 0 else np.ones_like(sizes)) + self.c
        # The largest of log p + Gumbel noise are a draw without replacement (Efraimidis and
        # Spirakis, Inf. Process. Lett. 97, 2006, in logarithms).
        with np.errstate(divide="ignore"):
            keys = np.log(share) + rng.gumbel(size=len(share))
        return candidates[_largest(keys, capacity)]


@dataclass(frozen=True)
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
        How many there are at most; twice those at the beginning by default. The time of a step is
        that of so many points from the beginning, since a compiled loop does not change its shapes.
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

    def __repr__(self) -> str:
        return _shown(self, RAR(self.every, add=self.add), always=("add",))

    def capacity(self, first: int) -> int:
        """See `Adapting`."""
        if self.most is None:
            return 2 * first
        if self.most < first:
            raise InputError(
                f"Points: RAR adds points up to most={self.most}, and there are {first} from the "
                f"beginning. Take a larger number for most."
            )
        return self.most

    def next_points(
        self,
        points: FloatArray,
        candidates: FloatArray,
        squares: FloatArray,
        *,
        capacity: int,
        rng: np.random.Generator,
    ) -> FloatArray:
        """See `Adapting`."""
        wanted = min(self.add, capacity - len(points))
        return np.concatenate([points, candidates[_largest(_finite(squares), wanted)]])


def checked_adapting(value: object) -> Adapting | None:
    """Let what `Points` takes as adapt through."""
    if value is None or isinstance(value, (RAD, RAR)):
        return value
    raise InputError(
        f"Points: adapt must be RAD(every) or RAR(every, add=…), which say after how many steps "
        f"the points follow the residual; got {value!r}"
    )


def _finite(squares: FloatArray) -> FloatArray:
    """|r|² where it is finite, and otherwise the largest that is."""
    good = np.isfinite(squares)
    return np.where(good, squares, squares[good].max(initial=0.0))


def _largest(keys: FloatArray, wanted: int) -> IntArray:
    return np.sort(np.argsort(-keys, kind="stable")[:wanted])


def _shown(given: Adapting, default: Adapting, always: tuple[str, ...] = ()) -> str:
    names = ("add", "most", "k", "c", "candidates")
    shown = [f"every={given.every}"] + [
        f"{name}={getattr(given, name)!r}"
        for name in names
        if hasattr(given, name)
        and (name in always or getattr(given, name) != getattr(default, name))
    ]
    return f"{type(given).__name__}({', '.join(shown)})"
