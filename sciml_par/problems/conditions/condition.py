"""The base of all conditions: points where it holds, and a residual there."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np

from sciml_par._checks import checked_weight, is_integer
from sciml_par._other_names import ByName
from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.problems.checks.arrays import BoolArray, FloatArray, finite_array
from sciml_par.problems.checks.functions import holds_at, in_python, positional_names
from sciml_par.problems.conditions.drawing import grid_of_about, has_time, refuse_whole_boundary
from sciml_par.problems.conditions.in_time import Before, check_faces, with_points_in
from sciml_par.problems.conditions.selection import normals_at, numbers_of, points_within
from sciml_par.problems.domains.domain import Domain
from sciml_par.problems.domains.surfaces.sampling import GRID

Arrays = tuple[FloatArray, ...]
Predicate = Callable[[Any], Any]
On = str | Sequence[str] | Predicate
Given = tuple[FloatArray, FloatArray | None]

INTERIOR = "interior"


class Condition(ByName):
    """A condition with a custom residual; the base of all others.

    Its term of the loss is w · (1/N) Σ_i |r(x_i)|² over its points. Give it a function, or derive a
    class that overrides `residual`, and `points` if it needs custom arrays.

    Parameters
    ----------
    function : callable
        (u, x: [k, d]) -> r: [k, c], or (u, x, normals: [k, d]) -> r, left side minus right side in
        TensorFlow operations and the operators of this package. A third argument without a default
        value receives the outward unit normals. Not needed if a class overrides `residual`.
    on : str, sequence of str, or callable, optional
        Names of `Domain.faces`; or "interior", for points inside; or a function x: [k, d] ->
        booleans [k] of points on the boundary, in NumPy or TensorFlow. By default the whole
        boundary.
    where : callable, optional
        A function x: [k, d] -> booleans [k] that selects points among those of `on`.
    points : int, array, or pair of arrays, optional
        The number of points on all ranks together (approximate on a grid); or the points x: [k, d]
        of the closed domain; or a pair (x, unit normals: [k, d]). By default the condition uses its
        share of the points of the boundary.
    name : str, optional
        Name of the term in the loss; by default the kind of condition.
    weight : float, optional
        Factor of the mean square in the loss; non-negative, dimensionless. By default 1, or the
        weight that the problem or an optimizer sets; see `Problem.with_condition_weight`.

    Raises
    ------
    InputError
        An argument has the wrong kind.

    Notes
    -----
    A subclass overrides ``residual(u, *arrays) -> [k, c]`` and, if needed,
    ``points(domain, n) -> (x: [k, d], ...)``: NumPy arrays with equal first axes, whose rows are
    distributed over the ranks. It need not call this constructor.

    Examples
    --------
    Radiation, ∂u/∂n = 1 − u⁴ on the right, with 100 separate points:

    >>> from sciml_par.problems import Condition, jacobian
    >>> import tensorflow as tf
    >>> def radiation(u, x, normals):
    ...     slope = tf.reduce_sum(jacobian(u, x) * normals[:, None, :], axis=-1)
    ...     return slope - (1 - u(x) ** 4)
    >>> condition = Condition(radiation, on="x=upper", points=100, name="radiation")
    """

    kind: ClassVar[str] = "condition"
    points_are_given: ClassVar[bool] = False
    """Whether `points` returns all points for any number."""
    statistical: bool = False
    """Whether residuals are errors in units of their deviation, of which a sum of squares is χ²."""
    number_of_rows: int = 1
    """Over how many rows χ² sums, if it is statistical."""
    number_of_values: int = 0
    """How many numbers are known with errors: measured values, or those of a prior."""
    held_out: Condition | None = None
    """The values that are not trained on, by which `train` chooses the weights that it keeps."""
    coupled: bool = False
    """Whether all points are one row of the loss, since their errors are correlated."""
    single: Any = None
    """A condition f at single points, if residuals are sums S f − v; see `sums`."""
    selects: ClassVar[tuple[str, ...]] = ()
    """The attributes that select components of u."""
    known_functions: ClassVar[tuple[str, ...]] = ("on", "where")
    """The functions that are evaluated once, before training, and so take no unknowns."""

    # For subclasses that do not call the constructor.
    function: Callable[..., tf.Tensor] | None = None
    on: Any = None
    where: Any = None
    own: int | Given | None = None
    name: str = ""
    weight: float | None = None

    def __init__(
        self,
        function: Callable[..., tf.Tensor] | None = None,
        *,
        on: On | None = None,
        where: Predicate | None = None,
        points: Any = None,
        name: str = "",
        weight: float | None = None,
    ) -> None:
        own_residual = type(self).residual is not Condition.residual
        if not callable(function) and not (function is None and own_residual):
            raise InputError(
                f"{type(self).__name__}: function must be a function (u, x) -> [k, c] or "
                f"(u, x, normals) -> [k, c], got {function!r}"
            )
        if function is not None:
            self.function = in_python(function)
        self._set_common(on=on, where=where, points=points, name=name, weight=weight)

    def _set_common(self, *, on: Any, where: Any, points: Any, name: str, weight: Any) -> None:
        """Check and keep what all conditions take."""
        owner = type(self).__name__
        if where is not None and not callable(where):
            raise InputError(f"{owner}: where must be a function of the boundary points [k, d]")
        if isinstance(weight, list | tuple | np.ndarray):
            raise InputError(
                f"{owner}: weight must be one number, got {weight!r}; for a weight of each "
                f"component give several conditions, as {owner}(…, component=0, weight=10.0)"
            )
        if weight is not None:
            checked_weight(weight, owner)
        if not isinstance(name, str):
            raise InputError(f"{owner}: name must be a text, got {name!r}")
        found = {
            "on": _checked_on(on, owner),
            "where": where,
            "own": _checked_own(points, owner),
            "name": name or None,
            "weight": weight,
        }
        for key, value in found.items():
            if value is not None:  # a class may have another default
                object.__setattr__(self, key, value)  # those derived from it may be frozen

    def with_arrays(self, arrays: Arrays) -> Self:
        """Return the same condition at given points, with what else its residual needs (local)."""
        return self._with(points=lambda domain, n: arrays)

    def __repr__(self) -> str:
        name = getattr(self.function, "__name__", "")
        return f"{type(self).__name__}({self.name or name or self.kind})"

    @property
    def number(self) -> int | None:
        """The number of separate points of the condition, or None."""
        return self.own if isinstance(self.own, int) else None

    @property
    def on_boundary(self) -> bool:
        """Whether it uses the points of the boundary, unless it has separate ones."""
        return self.on != (INTERIOR,)

    @property
    def everywhere(self) -> bool:
        """Whether it holds on the whole boundary: no argument and no class says where."""
        open_ = self.on is None and self.where is None and not isinstance(self.own, tuple)
        own = type(self).points is not Condition.points or type(self).draw is not Condition.draw
        return open_ and not own

    @property
    def needs_normals(self) -> bool:
        """Whether the residual takes normals, so that its points may not lie on edges."""
        return self.function is not None and len(positional_names(self.function)) >= 3

    def prepared(self, domain: Domain, outputs: Sequence[str]) -> Self:
        """Return the condition with names resolved for a problem (local).

        Raises
        ------
        InputError
            The domain has no face of this name, or a given point lies outside the domain. Or the
            condition uses normals on the whole boundary of space and time.
        """
        if isinstance(self.on, tuple) and self.on_boundary:
            domain.on_faces(domain.lower[None], self.on)
        owner = type(self).__name__
        if self.needs_normals and self.everywhere:
            slope = f"where the normal derivative is ∂u/∂{domain.names[-1]}"
            refuse_whole_boundary(domain, owner, slope)
        if self.needs_normals and self.on == (INTERIOR,) and not isinstance(self.own, tuple):
            raise InputError(
                f"{owner}: points inside have no normals, but the condition uses them; name "
                f"faces, as on={domain.faces[:1]}, or give points=(x, normals)."
            )
        self.given(domain)
        numbers = {s: numbers_of(getattr(self, s), outputs, f"{owner}: {s}") for s in self.selects}
        return self._changed(**numbers)

    def _changed(self, **values: Any) -> Self:
        """Return a copy with these attributes, or this condition if it has them."""
        same = all(getattr(self, name) == value for name, value in values.items())
        return self if same else self._with(**values)

    def _with(self, **values: Any) -> Self:
        """Return a copy with these attributes."""
        other = copy.copy(self)
        for name, value in values.items():
            object.__setattr__(other, name, value)
        return other

    def on_slab(self, whole: Domain, slab: Domain) -> Self | None:
        """Return the condition on a slab of a domain, None where it has no points there (local).

        Classes with custom `points` override it if they can be used in slabs of time; see `Time`.

        Raises
        ------
        InputError
            The condition cannot be divided among slabs.
        """
        if type(self).points is not Condition.points:
            raise InputError(
                f"{type(self).__name__} makes its points, so that it is not known how slabs of "
                f"time share them; override on_slab(whole, slab), or leave out slabs=."
            )
        check_faces(self, whole, starts=False)
        return with_points_in(self, whole, slab)

    def starting_from(self, before: Before, domain: Domain) -> Self:
        """Return the condition with values of the slab before, if it is one at the beginning.

        `before` gives ∂^q u/∂t^q at points: (x: [k, d], q) -> [k, m].
        """
        return self

    def with_own(self, x: FloatArray, normals: FloatArray | None) -> Self:
        """Return the condition at other given points [k, d], with their normals (local)."""
        return self._with(own=(x, normals))

    def points(self, domain: Domain, n: int) -> Arrays:
        """Return the arrays that `residual` takes, for about n points on a grid (local).

        Raises
        ------
        InputError
            The condition holds at no point, or a predicate does not return the shape [k].
        """
        arrays = self.given(domain)
        if arrays is None:
            arrays = self.on_grid(domain, n)
        return self.completed(arrays, domain)

    def given(self, domain: Domain) -> Arrays | None:
        """Return points and normals [k, d] given as arrays; normals may be 0 (local)."""
        if not isinstance(self.own, tuple):
            return None
        owner = type(self).__name__
        x = points_within(self.own[0], domain, f"{owner}: points")
        normals = self.own[1]
        if normals is None:
            return x, normals_at(x, domain, owner) if self.needs_normals else np.zeros_like(x)
        normals = normals[:, None] if normals.ndim == 1 and x.shape[1] == 1 else normals
        if normals.shape != x.shape:
            raise InputError(
                f"{owner}: normals must have the shape {list(x.shape)} of the points, got "
                f"{list(normals.shape)}"
            )
        return x, normals

    def on_grid(self, domain: Domain, n: int) -> Arrays:
        """Return points on a grid and normals, [k, d] each, where the condition holds (local).

        About n candidates, as the boundary has them; or, if the condition has a number of points,
        about that many that hold.
        """
        if self.number is not None:
            return grid_of_about(self, domain, self.number)
        x, normals = domain.boundary(n) if self.on_boundary else self.draw(domain, n)
        chosen = self.holds_at(x, domain, normals)
        if not chosen.any():
            raise self.no_points(len(x), domain)
        return x[chosen], normals[chosen]

    def draw(
        self, domain: Domain, n: int, *, method: str = GRID, rng: np.random.Generator | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Return candidates for points of the condition, and normals (local)."""
        if not self.on_boundary:
            x = domain.interior(n, method=method, rng=rng)
            return x, np.zeros_like(x)
        if isinstance(self.on, tuple):
            return domain.near_faces(self.on, n, method=method, rng=rng)
        return domain.boundary(n, method=method, rng=rng)

    def holds_at(
        self, x: FloatArray, domain: Domain, normals: FloatArray | None = None
    ) -> BoolArray:
        """Return at which of the points of `draw` the condition holds: x: [n, d] -> [n] (local).

        A condition that uses normals holds only on faces that have the `normals` of the points,
        [n, d]; and at the initial and the final time only if `on` names these faces.

        Raises
        ------
        InputError
            A predicate does not return n booleans.
        """
        chosen = np.ones(len(x), np.bool_)
        normals = normals if self.needs_normals else None
        if isinstance(self.on, tuple) and self.on_boundary:
            chosen &= domain.on_faces(x, self.on, normals)
        elif normals is not None and has_time(domain):
            chosen &= ~domain.on_faces(x, ("initial", "final"), normals)
        for what, predicate in (("on", self.on), ("where", self.where)):
            if callable(predicate):
                chosen &= holds_at(predicate, x, type(self).__name__, what)
        return chosen

    def no_points(self, tried: int, domain: Domain) -> InputError:
        """Return the error for a condition that holds at none of `tried` points (local)."""
        what = f"on={self.on!r}" if self.where is None and self.on is not None else "where"
        return InputError(
            f"{type(self).__name__}: {what} selects none of the {tried} points on the "
            f"boundary of {domain}; check it (points lie inside the faces, not on edges), "
            f"or ask for more points"
        )

    def completed(self, arrays: Arrays, domain: Domain) -> Arrays:
        """Return points and normals as the arrays that `residual` takes (local)."""
        return arrays if self.needs_normals else arrays[:1]

    def residual(self, u: Any, *arrays: tf.Tensor) -> tf.Tensor:
        """Return the left side minus the right side: [k, c] (local)."""
        if self.function is None:
            raise InputError(
                f"{type(self).__name__} has no residual: override residual(self, u, *arrays)"
            )
        return self.function(u, *arrays)

    def finer(self) -> Self:
        """Return the condition with more points where it sums over points that it chose."""
        return self

    def sums(self, *arrays: FloatArray) -> tuple[Arrays, Any, FloatArray]:
        """Return the arrays of `single`, S and v: see `Sums` (local)."""
        raise NotImplementedError

    def quantity(self, u: Any, x: tf.Tensor, domain: Domain) -> tf.Tensor | None:
        """Return the quantity whose values the condition gives, or None if it is unknown (local).

        It has all components, since some may be zero in the solution.
        """
        return None


@dataclass(frozen=True, init=False)
class FrozenCondition(Condition):
    """A condition that is compared by its arguments, apart from arrays of points."""

    on: Any
    where: Any
    own: Any = field(compare=False, repr=False)
    name: str
    weight: float | None


def _checked_on(on: Any, owner: str) -> Any:
    """Return face names as a tuple, a predicate as it is."""
    if on is None or callable(on):
        return on
    names = (on,) if isinstance(on, str) else on
    if not isinstance(names, (tuple, list)) or not all(isinstance(n, str) for n in names):
        raise InputError(
            f"{owner}: on must be a face's name, several, or a function x: [k, d] -> booleans [k], "
            f"got {on!r}"
        )
    if not names:
        raise InputError(f"{owner}: on must name at least one face, got none")
    if INTERIOR in names and len(names) > 1:
        raise InputError(f"{owner}: on={on!r}: points lie inside or on faces; make two conditions")
    return None if tuple(names) == ("boundary",) else tuple(names)


def _checked_own(points: Any, owner: str) -> int | Given | None:
    """Return a number, a pair of arrays, or None."""
    what = f"{owner}: points"
    if points is None:
        return None
    if is_integer(points) and points >= 1:
        return int(points)
    if np.isscalar(points) or isinstance(points, (str, bytes)):
        raise InputError(
            f"{what} must be an integer of at least 1, an array x: [k, d], or a pair (x, normals), "
            f"got {points!r}"
        )
    pair = isinstance(points, tuple) and len(points) == 2 and not any(map(np.isscalar, points))
    if not pair:
        return finite_array(points, what), None
    return finite_array(points[0], what), finite_array(points[1], f"{owner}: normals")
