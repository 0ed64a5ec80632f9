"""Conditions that hold by construction: ansatz functions u = g + φ N for `Problem`.

g has the given values on the boundary, φ is zero there, and N is the network. Lagaris, Likas and
Fotiadis, IEEE Trans. Neural Networks 9 (1998) 987, have u = g + φ N; the g of `impose` is the
Boolean sum of the interpolants between opposite faces of Gordon, SIAM J. Numer. Anal. 8 (1971) 158.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sciml_par import _tape
from sciml_par._tape import Tensor
from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.problems.checks.names import checked_names, component_names
from sciml_par.problems.conditions.boundary_values import Dirichlet
from sciml_par.problems.conditions.condition import Condition
from sciml_par.problems.conditions.initial import Initial
from sciml_par.problems.domains.box import Box
from sciml_par.problems.domains.domain import Domain
from sciml_par.problems.imposition.distance import Distance, Factor, product_of

Value = float | Callable[[Tensor], Tensor]

_ROUNDING = 1e-6


@dataclass(frozen=True)
class OnFace:
    """What one component has on one face of a box: u = value and perhaps ∂u/∂x_axis = slope."""

    axis: int
    position: float
    upper: bool
    value: Any
    column: int
    slope: Any = None
    name: str = ""

    def moved(self, x: Tensor) -> Tensor:
        """Return points on the face: [n, d] -> [n, d]."""
        here = tf.fill(tf.shape(x[:, :1]), tf.constant(self.position, x.dtype))
        return tf.concat([x[:, : self.axis], here, x[:, self.axis + 1 :]], axis=1)

    def at(self, x: Tensor, which: str = "value") -> Tensor:
        """Return the value or the slope at points on the face: [n, d] -> [n, 1]."""
        given = getattr(self, which)
        if not callable(given):
            number = given[self.column] if isinstance(given, tuple) else given
            return tf.zeros_like(x[:, :1]) + tf.constant(number, x.dtype)
        values = tf.convert_to_tensor(given(x), x.dtype)
        if values.shape.rank == 1:
            values = values[:, None]
        if values.shape.rank != 2 or not self.column < values.shape[1]:
            raise InputError(
                f"{self.name}: {which}(x) must have the shape [n, c], a column for each component, "
                f"got {values.shape}"
            )
        return values[:, self.column : self.column + 1]


@dataclass(frozen=True)
class ImposedComponent:
    """g and φ of one component of u."""

    given: tuple[OnFace, ...]
    distance: Distance
    lower: tuple[float, ...]
    extent: tuple[float, ...]

    def interpolated(self, x: Tensor) -> Tensor:
        """Compute g: [n, d] -> [n, 1], with the values of all faces."""
        return self._from(len(self._axes()), x)

    def _axes(self) -> list[int]:
        return sorted({each.axis for each in self.given})

    def _from(self, count: int, x: Tensor) -> Tensor:
        """Return the Boolean sum over the first `count` axes."""
        if count == 0:
            return tf.zeros_like(x[:, :1])
        axis = self._axes()[count - 1]
        faces = [each for each in self.given if each.axis == axis]
        g = self._from(count - 1, x)
        s = (x[:, axis : axis + 1] - self.lower[axis]) / self.extent[axis]
        for face in faces:
            moved = face.moved(x)
            lacking = face.at(moved) - self._from(count - 1, moved)
            share = 1.0 if len(faces) == 1 else (s if face.upper else 1 - s)
            g += share * lacking
            if face.slope is not None:
                _, slopes = _tape.value_and_jacobian(lambda z: self._from(count - 1, z), moved)
                missing = face.at(moved, "slope") - slopes[:, :, axis]
                g += (x[:, axis : axis + 1] - face.position) * missing
        return g


@dataclass(frozen=True)
class Imposed:
    """An ansatz u_c = g_c + φ_c N_c; see `impose`."""

    components: tuple[ImposedComponent, ...]

    def __call__(self, u: Any, x: Tensor) -> Tensor:
        """Compute u: [n, m] at x: [n, d]."""
        values = u(x)
        if values.shape[1] != len(self.components):
            raise InputError(
                f"impose: the network has {values.shape[1]} components, and the ansatz is for "
                f"{len(self.components)}; write impose(domain, conditions, "
                f"outputs={values.shape[1]}), or the names of the outputs"
            )
        columns = [
            each.interpolated(x) + each.distance(x) * values[:, c : c + 1]
            if each.given
            else values[:, c : c + 1]
            for c, each in enumerate(self.components)
        ]
        return tf.concat(columns, axis=1)


@dataclass(frozen=True)
class ImposedValue:
    """An ansatz u = value + φ N; see `impose_dirichlet`."""

    value: Any
    distance: Callable[[Tensor], Tensor]

    def __call__(self, u: Any, x: Tensor) -> Tensor:
        """Compute u: [n, m] at x: [n, d]."""
        factor = self.distance(x)
        if factor.shape.rank != 2 or factor.shape[1] != 1:
            raise InputError(
                f"impose_dirichlet: distance must return [n, 1] for points [n, d], got "
                f"{factor.shape}; one coordinate is x[:, i:i+1]"
            )
        if not callable(self.value):
            return tf.constant(self.value, x.dtype) + factor * u(x)
        values = tf.convert_to_tensor(self.value(x), x.dtype)
        return (values[:, None] if values.shape.rank == 1 else values) + factor * u(x)


def impose_dirichlet(value: Value, distance: Callable[[Tensor], Tensor]) -> ImposedValue:
    """Return the ansatz u = value + φ N, which has the given values where φ = 0 (local).

    Parameters
    ----------
    value : float or callable
        A number, or x: [n, d] -> [n, m] or [n] in TensorFlow operations, defined and smooth in the
        whole domain.
    distance : callable
        φ, x: [n, d] -> [n, 1] in TensorFlow operations, such as `distance_to` of a domain, or a
        custom function that is 0 only on the boundary.

    Returns
    -------
    callable
        For ``Problem(ansatz=...)``.

    Examples
    --------
    u = 1 on the circle of radius 1:

    >>> import tensorflow as tf
    >>> from sciml_par.problems import impose_dirichlet
    >>> ansatz = impose_dirichlet(1.0, lambda x: 1 - tf.reduce_sum(x**2, axis=1, keepdims=True))
    """
    if not callable(distance):
        raise InputError(
            f"impose_dirichlet: distance must be a function x: [n, d] -> [n, 1], got {distance!r}"
        )
    return ImposedValue(value, distance)


def impose_initial(
    domain: Domain, value: Value, velocity: Value | None = None, *, outputs: Any = 1
) -> Imposed:
    """Return the ansatz with u = value, and perhaps ∂u/∂t = velocity, at the initial time (local).

    u = value + τ N, or u = value + (t − t₀) velocity + τ² N, with τ = (t − t₀)/T, the last
    coordinate t of a box and its length T. The functions are evaluated at t = t₀.

    Parameters
    ----------
    domain : Box
    value, velocity : float or callable
        As for `impose`.
    outputs
        As for `impose`.

    Raises
    ------
    InputError
        As for `impose`.
    """
    return impose(domain, [Initial(value, velocity=velocity)], outputs=outputs)


def impose(
    domain: Domain, conditions: Condition | Sequence[Condition], *, outputs: Any = 1
) -> Imposed:
    """Return the ansatz with which conditions of a box hold exactly for any network (local).

    u = g + φ N for each component. φ is a product of factors s for the faces, or s² with a
    velocity. g is built axis by axis. With s from 0 to 1 along the axis, and g₋ from the axes
    before,

        g = g₋ + (1 − s)(a − g₋)|lower + s (b − g₋)|upper

    if both faces have values a and b, and g = g₋ + (a − g₋)|face if one has. A velocity v adds
    (t − t₀)(v − ∂g₋/∂t)|lower to g. Components without conditions are those of N.

    Parameters
    ----------
    domain : Box
    conditions : `Dirichlet` on whole faces, and `Initial` of order 0.
        Values are numbers or functions in TensorFlow operations, since u is differentiated.
    outputs : int, str or sequence of str
        As of the problem; needed for several components.

    Returns
    -------
    callable
        For ``Problem(ansatz=...)``, which then does not need these conditions.

    Raises
    ------
    InputError
        The domain is not a box; a condition has another kind, holds on a part of a face, or has a
        value in NumPy; or two conditions differ where their faces meet.

    Examples
    --------
    The heat equation with cold ends:

    >>> import numpy as np
    >>> import tensorflow as tf
    >>> from sciml_par.problems import Box, Dirichlet, Initial, impose
    >>> rod = Box([0, 0], [1, 0.5], names=("x", "t"))
    >>> start = Initial(lambda x: tf.sin(np.pi * x[:, 0:1]))
    >>> ansatz = impose(rod, [Dirichlet(0.0, on=("x=lower", "x=upper")), start])
    """
    if not isinstance(domain, Box):
        raise InputError(
            f"impose: conditions are imposed on the faces of a Box; for {domain} use "
            f"impose_dirichlet(value, distance_to(domain)), or a function that is 0 on its boundary"
        )
    if isinstance(outputs, int):
        names = component_names(outputs)
    else:
        names = checked_names(outputs, "impose: outputs")
    several = list(conditions) if isinstance(conditions, Iterable) else [conditions]
    given: list[list[OnFace]] = [[] for _ in names]
    for condition in several:
        prepared = _checked(condition).prepared(domain, names)
        for c, on_face in _on_faces(prepared, domain, len(names)):
            _add(given[c], on_face)
    imposed = Imposed(tuple(_component(each, domain) for each in given))
    for component in imposed.components:
        _check(component, domain)
    return imposed


def _checked(condition: Any) -> Dirichlet | Initial:
    """Let a condition through that can be imposed."""
    name = type(condition).__name__
    if type(condition) is Initial and condition.order != 0:
        raise InputError(
            f"impose: Initial of order {condition.order} cannot be imposed alone; give "
            f"Initial(value, velocity=...), or leave it a condition of the problem"
        )
    if not isinstance(condition, (Dirichlet, Initial)):
        raise InputError(
            f"impose: {name} cannot be imposed exactly by u = g + φ N; leave it a condition of the "
            f"problem. Dirichlet and Initial can be"
        )
    if condition.where is not None or callable(condition.on) or condition.own is not None:
        raise InputError(
            f"impose: this {name} holds on a part of a face or at separate points (where=, a "
            f"function as on=, points=); whole faces can be imposed: on='...' by name. Or use "
            f"impose_dirichlet(value, distance)"
        )
    return condition


def _on_faces(condition: Dirichlet | Initial, domain: Box, m: int) -> list[tuple[int, OnFace]]:
    """Return the values of a condition for each component on each face."""
    last = domain.dimension - 1
    if isinstance(condition, Initial):
        places = [(last, float(domain.lower[last]), False)]
        slope = condition.velocity
    else:
        names = domain.faces if condition.on is None else condition.on
        faces = [surface.face for surface in domain.named_surfaces(names)]
        places = [(face.axis, face.position, face.sign > 0) for face in faces]
        slope = None
    numbers: Any = range(m) if condition.component is None else condition.component
    name = f"impose: {type(condition).__name__}"
    return [
        (c, OnFace(axis, position, upper, condition.value, column, slope, name))
        for axis, position, upper in places
        for column, c in enumerate(numbers)
    ]


def _add(faces: list[OnFace], new: OnFace) -> None:
    for other in faces:
        if (other.axis, other.upper) == (new.axis, new.upper):
            raise InputError(
                f"impose: the face x_{new.axis} = {new.position:g} is given twice; name the faces "
                f"of each condition with on=. Without it a Dirichlet holds on all faces, those of "
                f"the beginning and end of time among them"
            )
        if other.axis == new.axis and (other.slope is not None or new.slope is not None):
            raise InputError(
                "impose: with a velocity at the beginning, values at the end of time cannot be "
                "imposed; leave one of them a condition of the problem"
            )
    faces.append(new)


def _component(given: list[OnFace], domain: Box) -> ImposedComponent:
    lengths = [float(domain.extent[face.axis]) * (-1 if face.upper else 1) for face in given]
    distance = product_of(
        Factor(face.axis, face.position, length, 1 if face.slope is None else 2)
        for face, length in zip(given, lengths, strict=True)
    )
    lower, extent = tuple(domain.lower.tolist()), tuple(domain.extent.tolist())
    return ImposedComponent(tuple(given), distance, lower, extent)


def _check(component: ImposedComponent, domain: Box) -> None:
    """Check that g has all values, which it has not where they differ on a shared edge."""
    functions = [v for f in component.given for v in (f.value, f.slope) if callable(v)]
    for function in functions:
        try:
            spec = tf.TensorSpec([None, domain.dimension], tf.float64)
            traced = tf.function(function, autograph=False).get_concrete_function(spec)
            if not tf.is_tensor(tf.nest.flatten(traced.structured_outputs)[0]):
                raise TypeError
        except Exception as error:
            raise InputError(
                f"impose: a value must be a function x: [n, d] -> [n, c] in TensorFlow operations, "
                f"as u is differentiated: write tf.sin, not np.sin. It was called with a tensor, "
                f"and said {type(error).__name__}: "
                f"{str(error).splitlines()[0] if str(error) else ''}"
            ) from error
    grid = tf.constant(domain.grid([4 if domain.dimension <= 4 else 2] * domain.dimension))
    for face in component.given:
        x = face.moved(grid)
        found, slopes = _tape.value_and_jacobian(component.interpolated, x)
        wanted = [("value", found)]
        if face.slope is not None:
            wanted.append(("slope", slopes[:, :, face.axis]))
        for which, values in wanted:
            expected = face.at(x, which).numpy()
            gaps = np.abs(values.numpy() - expected)
            worst = int(np.argmax(gaps))
            if not gaps.max(initial=0.0) <= _ROUNDING * max(1.0, float(np.abs(expected).max())):
                of = "values" if which == "value" else "derivatives in time"
                raise InputError(
                    f"impose: the conditions contradict one another at x = "
                    f"{x.numpy()[worst].tolist()}, where {of} differ by {float(gaps[worst, 0]):g} "
                    f"from those of another face; all cannot hold exactly. Leave one of them a "
                    f"condition of the problem"
                )
