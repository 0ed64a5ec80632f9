"""The points of a training: their number, method, and use in steps."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._checks import checked_integer, is_integer
from sciml_par._other_names import ByName
from sciml_par.errors import InputError
from sciml_par.problems.checks.arrays import finite_array
from sciml_par.problems.domains.domain import Domain
from sciml_par.problems.domains.surfaces.sampling import GRID, MOST_OF_A_GRID, method_name
from sciml_par.training.points.adapting import RAD, RAR, Adapting
from sciml_par.training.points.in_boxes import InBoxes

FloatArray = npt.NDArray[np.float64]

INTERIOR = "interior"
KINDS = (INTERIOR, "boundary", "initial")


@dataclass(frozen=True, eq=False)
class Points(ByName):
    """The points of a training, of all ranks together.

    The same numbers give the same points on any number of ranks, which deal them out.

    Parameters
    ----------
    interior : how many points the equations have (on a grid about, and about equally many on each
        axis, or a tuple of one number per axis); or the points themselves, x: [N, d], as an array,
        a list or a tensor. 64 by default.
    boundary : how many points the whole boundary has (on a grid about); or the points x: [N, d],
        or a pair (x, outward unit normals). Every condition has those at which it holds. By
        default they are as dense as the interior ones: 2d N^((d−1)/d); and a condition has at least
        16, and √N of N interior points. In 1-D there are two.
    initial : the same for the part of the boundary on which the last coordinate, often the time,
        is least; by default it has its share of `boundary` like the other faces.
    method : "grid" (equispaced), "uniform" (independent, random), "latin-hypercube", "sobol" or
        "halton"; or a dictionary of methods by the names "interior", "boundary" and "initial". By
        default, and for those left out, "grid"; but "sobol" in more than three dimensions, because
        a grid of as many points has few on each axis, and none near an edge, and in two or three
        for optimizers of second order, which can make residuals vanish on the lines of a grid.
    batch_size : how many of all ranks' interior points a step uses; by default all of them. Or a
        dictionary of such numbers by "interior" and the names of conditions in the loss.
    resample_every : after how many steps random points are drawn anew; by default never.
    adapt : `RAD(every)` or `RAR(every, add=…)`, by which the interior points follow the residual.
    anchors : interior points x: [a, d] in addition to the `interior` ones, which stay where they
        are if the others are drawn anew.
    seed : of the random points and of the order of batches; by default that of the run.
    conditions : points for single conditions by their names in the loss, in place of those of the
        boundary: how many where the condition holds; or x: [N, d], or a pair (x, outward unit
        normals). A condition may have such points itself, as ``Dirichlet(0.0, points=200)``.

    Raises
    ------
    InputError
        A value cannot be used, or two of them do not go together.

    Examples
    --------
    >>> from sciml_par.training import Points
    >>> Points(1000, boundary=200, method="sobol", resample_every=100)
    Points(interior=1000, boundary=200, method='sobol', resample_every=100)
    """

    interior: Any = None
    boundary: Any = None
    initial: Any = None
    _: KW_ONLY
    method: Any = None
    batch_size: Any = None
    resample_every: int | None = None
    adapt: Adapting | None = None
    anchors: Any = None
    seed: int | None = None
    conditions: Mapping[str, Any] | None = None
    boxes: InBoxes | None = field(default=None, init=False)
    """Of windows that differ in size, in which the points are drawn."""

    def __post_init__(self) -> None:
        put = object.__setattr__
        value, what = self.interior, "Points: interior"
        if isinstance(value, list | tuple) and value and all(map(is_integer, value)):
            put(self, "interior", tuple(checked_integer(n, what, least=1) for n in value))
        else:
            put(self, "interior", _number_or_array(value, what))
        put(self, "boundary", _on_boundary(self.boundary, "Points: boundary"))
        put(self, "initial", _on_boundary(self.initial, "Points: initial"))
        put(self, "method", _methods(self.method))
        if self.anchors is not None:
            if isinstance(self.interior, np.ndarray):
                raise InputError(
                    "Points: anchors stay among interior points that are drawn, and these are "
                    "given as an array. Add the anchors to that array."
                )
            put(self, "anchors", finite_array(self.anchors, "Points: anchors"))
        put(self, "batch_size", _batch_sizes(self.batch_size))
        for name, least in (("resample_every", 1), ("seed", 0)):
            value = getattr(self, name)
            if value is not None:
                put(self, name, checked_integer(value, f"Points: {name}", least=least))
        if not isinstance(self.adapt, RAD | RAR | None):
            raise InputError(
                f"Points: adapt must be RAD(every) or RAR(every, add=…), which say after how many "
                f"steps the points follow the residual; got {self.adapt!r}"
            )
        put(self, "conditions", _conditions(self.conditions))
        self._check_method()

    @classmethod
    def of(cls, value: Any) -> Points:
        """Return `Points` as they are, and anything else as the interior points."""
        return value if isinstance(value, Points) else cls(value)

    def method_of(self, kind: str, domain: Domain) -> str:
        """Return the method for "interior", "boundary" or "initial" points of this domain."""
        by_default = GRID if domain.dimension <= MOST_OF_A_GRID else "sobol"
        if kind == INTERIOR and isinstance(self.interior, tuple):
            by_default = GRID
        return self.chosen_method(kind) or by_default

    def scattered(self, domain: Domain) -> Points:
        """Return the same points with Sobol's sequence for methods that are left open.

        Optimizers of second order can make residuals vanish at the points alone, and on a grid
        those lie on few lines. Nothing changes in one dimension, for clouds, or if the user gave
        the interior points or their number on each axis.
        """
        several = domain.dimension > 1 and math.isfinite(domain.volume)
        if not several or not isinstance(self.interior, int | None):
            return self
        return self.with_changes(
            method={kind: self.chosen_method(kind) or "sobol" for kind in KINDS}
        )

    def with_changes(self, **changes: Any) -> Points:
        """Return a copy with other values, which are not checked."""
        other = copy.copy(self)
        for name, value in changes.items():
            object.__setattr__(other, name, value)
        return other

    def chosen_method(self, kind: str) -> str | None:
        """Return the method that is asked for; None if none is."""
        found: str | None = self.method
        if isinstance(self.method, dict):
            found = self.method.get(kind)
        return found

    def __repr__(self) -> str:
        shown = [f"{name}={_shown(value)}" for name, value in self.settings().items()]
        return f"Points({', '.join(shown)})"

    def settings(self) -> dict[str, Any]:
        """Return the values that differ from the defaults, by name."""
        names = [name for name in self.__dataclass_fields__ if name not in ("_", "boxes")]
        found = {name: getattr(self, name) for name in names}
        return {n: v for n, v in found.items() if v is not None and (type(v) is not dict or v)}

    def _check_method(self) -> None:
        if self.chosen_method(INTERIOR) not in (None, GRID) and isinstance(self.interior, tuple):
            raise InputError(
                f"Points: numbers per axis {self.interior} are for the method 'grid'; give one "
                f"number of points for {self.chosen_method(INTERIOR)!r}."
            )
        for what, given in (
            ("interior points that are given as an array", isinstance(self.interior, np.ndarray)),
            ("batch_size for the interior points", INTERIOR in self.batch_size),
            ("resample_every", self.resample_every is not None),
        ):
            if given and self.adapt is not None:
                raise InputError(
                    f"Points: {type(self.adapt).__name__} chooses the interior points by the "
                    f"residual; got {what} as well. Leave out one of the two."
                )
        if self.resample_every is None:
            return
        if isinstance(self.interior, np.ndarray):
            raise InputError(
                "Points: resample_every cannot draw new points, since the interior points are "
                "given as an array. Give their number and a random method, as in "
                "Points(1000, method='sobol', resample_every=100), or use batch_size, which takes "
                "other points of the array at every step."
            )
        if all(self.chosen_method(kind) in (None, GRID) for kind in KINDS):
            raise InputError(
                "Points: resample_every needs random points, and these are on a grid. Choose a "
                "random method, for example method='sobol'."
            )


def _number_or_array(value: Any, what: str) -> int | FloatArray | None:
    if value is None or is_integer(value):
        return None if value is None else checked_integer(value, what, least=1)
    sized = isinstance(value, Sequence) or hasattr(value, "__array__") or hasattr(value, "__len__")
    if isinstance(value, str | bytes | bool | float) or not sized:
        raise InputError(
            f"{what} must be an integer of at least 1 or an array of points, got {value!r}"
        )
    array = finite_array(value, what)
    if array.ndim == 0:
        return checked_integer(int(array) if array == int(array) else value, what, least=1)
    return array


def _on_boundary(value: Any, what: str) -> int | tuple[FloatArray, FloatArray | None] | None:
    """Return a number, or a pair of points and normals or None."""
    if isinstance(value, tuple) and len(value) == 2 and not any(map(np.isscalar, value)):
        return finite_array(value[0], what), finite_array(value[1], f"{what}: normals")
    found = _number_or_array(value, what)
    return (found, None) if isinstance(found, np.ndarray) else found


def _conditions(value: Any) -> dict[str, int | tuple[FloatArray, FloatArray | None]]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InputError(
            f"Points: conditions must be a dictionary of arrays by the names of conditions, or of "
            f"numbers of points, got {value!r}"
        )
    found: dict[str, int | tuple[FloatArray, FloatArray | None]] = {}
    for name, each in value.items():
        given = _on_boundary(each, f"Points: conditions[{name!r}]")
        if given is None:
            raise InputError(
                f"Points: conditions[{name!r}] must be a number of points, or an array of them, "
                f"got None"
            )
        found[str(name)] = given
    return found


def _methods(value: Any) -> str | dict[str, str] | None:
    if value is None:
        return None
    if not isinstance(value, Mapping):
        return method_name(value, "Points: method")
    for name in value:
        if name not in KINDS:
            raise InputError(f"Points: method is given by {', '.join(KINDS)}; got {name!r}.")
    return {name: method_name(each, f"Points: method of {name}") for name, each in value.items()}


def _batch_sizes(value: Any) -> dict[str, int]:
    """By "interior" and the names of conditions; empty where every step uses all points."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        return {INTERIOR: checked_integer(value, "Points: batch_size", least=1)}
    return {
        str(name): checked_integer(each, f"Points: batch_size of {name!r}", least=1)
        for name, each in value.items()
    }


def _shown(value: Any) -> str:
    """Return a number as it is, of an array the shape."""
    if isinstance(value, np.ndarray):
        return f"array{list(value.shape)}"
    if isinstance(value, tuple) and isinstance(value[0], np.ndarray):
        return _shown(value[0])
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name!r}: {_shown(v)}" for name, v in value.items()) + "}"
    return repr(value)
