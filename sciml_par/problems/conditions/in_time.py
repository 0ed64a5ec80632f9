"""Conditions on a slab, a part of the time that is solved after the parts before it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from sciml_par.errors import InputError
from sciml_par.problems.checks.arrays import BoolArray, FloatArray
from sciml_par.problems.domains.domain import Domain

Before = Callable[[FloatArray, int], FloatArray]
"""The solution on the slab before: (x: [k, d], q) -> ∂^q u/∂t^q at x, [k, m]."""
C = TypeVar("C", bound=Any)

_TRIED = 1024
"""Points among which a condition may select some."""


@dataclass(frozen=True)
class StartValue:
    """Values at the end of the slab before, x: [k, d] -> [k, c], of these components."""

    before: Before
    order: int
    components: Sequence[Any] | None

    def __call__(self, x: Any) -> FloatArray:
        """Return the values (local)."""
        found = self.before(np.asarray(x, np.float64), self.order)
        return found if self.components is None else found[:, list(self.components)]


def in_slab(x: FloatArray, whole: Domain, slab: Domain) -> BoolArray:
    """Return which points lie in a slab, x: [n, d] -> [n]; those between two in the earlier one."""
    t, first, last = x[:, -1], slab.lower[-1], slab.upper[-1]
    is_first, is_last = first == whole.lower[-1], last == whole.upper[-1]
    return np.asarray(((t > first) | is_first) & ((t <= last) | is_last))


def on_initial_face(condition: Any, domain: Domain) -> bool:
    """Return whether a condition names the face at the initial time, and gives no points."""
    initial, _ = domain._time_faces
    names = isinstance(condition.on, tuple) and not isinstance(condition.own, tuple)
    return names and bool({*condition.on} & {*initial})


def check_faces(condition: Any, domain: Domain, *, starts: bool) -> None:
    """Check that a condition holds on faces in space, or if it `starts` at the initial time alone.

    Raises
    ------
    InputError
        It holds at the final time, or it is not known whether it holds at the ends of slabs.
    """
    if not condition.on_boundary or isinstance(condition.own, tuple):
        return
    initial, final = domain._time_faces
    owner = f"{type(condition).__name__} (condition {condition.name!r})"
    if not isinstance(condition.on, tuple):
        raise InputError(
            f"{owner}: in slabs of time, a condition must name its faces, because those at the "
            f"initial and at the final time are treated separately. Write on=… with some of "
            f"{', '.join(domain.faces)}, and where=… for a part of them."
        )
    if {*condition.on} & {*final}:
        raise InputError(
            f"{owner}: a condition at the final time cannot be used in slabs of time, which are "
            f"solved from the initial time on; leave out slabs=."
        )
    if {*condition.on} & {*initial} and not (starts and {*condition.on} <= {*initial}):
        advice = (
            "give one condition at the initial time and another one in space"
            if starts
            else ("values at the initial time are Initial(…), derivatives Initial(…, order=1)")
        )
        raise InputError(
            f"{owner}: at the initial time of each slab, u and its derivatives by time are those "
            f"of the slab before, in place of on={condition.on!r}; {advice}."
        )


def with_points_in(condition: C, whole: Domain, slab: Domain) -> C | None:
    """Return the condition with those of its given points that lie in a slab; None without any."""
    given = condition.given(whole)
    if given is not None:
        chosen = in_slab(given[0], whole, slab)
        if not chosen.any():
            return None
        normals = condition.own[1]
        return condition.with_own(given[0][chosen], None if normals is None else given[1][chosen])
    if condition.where is not None:
        try:
            condition.points(slab, _TRIED)
        except InputError:  # it selects points of other slabs
            return None
    return condition
