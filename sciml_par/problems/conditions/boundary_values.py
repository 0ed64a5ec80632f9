"""Given values, normal derivatives, sums of both, and tractions on the boundary."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar, Self

from sciml_par._checks import checked_number
from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.problems.checks.functions import positional_names
from sciml_par.problems.conditions.condition import On, Predicate
from sciml_par.problems.conditions.in_time import (
    Before,
    StartValue,
    check_faces,
    on_initial_face,
    with_points_in,
)
from sciml_par.problems.conditions.selection import Component
from sciml_par.problems.conditions.valued import Value, ValuedCondition, normal_derivative
from sciml_par.problems.domains.domain import Domain
from sciml_par.problems.operators.arguments import SPACE, TIME, FieldLike
from sciml_par.problems.operators.elastic import Elastic
from sciml_par.problems.operators.operators import jacobian


@dataclass(frozen=True, init=False)
class Dirichlet(ValuedCondition):
    """u = value on the boundary.

    Parameters
    ----------
    value : float, sequence of c floats, or callable
        A number; one for each component; or x: [k, d] -> [k, c], or [k] if c = 1, in NumPy or
        TensorFlow. A function is evaluated once at the points, in double precision, before
        training. It must not read trainable variables. A function (u, x) -> [k, c], or one with
        unknowns of the problem as further arguments by keyword, is evaluated at each step, in
        TensorFlow.
    component : int, str, or sequence of these, optional
        The c components that the condition is for, by the names of `Problem.outputs` or by numbers
        from 0. By default all.
    on, where, points, name, weight
        As for `Condition`. Points given as an array may also lie inside.

    Examples
    --------
    >>> from sciml_par.problems import Dirichlet
    >>> left_end = Dirichlet(1.0, on="x=lower")
    >>> lid = Dirichlet((1.0, 0.0), component=("u", "v"), where=lambda x: x[:, 1] == 1.0)
    """

    kind: ClassVar[str] = "dirichlet"
    needs_normals = False

    def on_slab(self, whole: Domain, slab: Domain) -> Self | None:
        check_faces(self, whole, starts=True)
        return self if on_initial_face(self, whole) else with_points_in(self, whole, slab)

    def starting_from(self, before: Before, domain: Domain) -> Self:
        if not on_initial_face(self, domain):
            return self
        return self._changed(value=StartValue(before, 0, self.component))

    def _left_side(self, u: FieldLike, x: tf.Tensor, normals: tf.Tensor) -> tf.Tensor:
        return u(x)

    def quantity(self, u: FieldLike, x: tf.Tensor, domain: Domain) -> tf.Tensor:
        return u(x)


@dataclass(frozen=True, init=False)
class Neumann(ValuedCondition):
    """n·∇u = value on the boundary, n the outward unit normal.

    At the initial time n points backwards in time; use `Initial` for ∂u/∂t there.

    Parameters
    ----------
    value, component
        As for `Dirichlet`; a function may also take the normals, (u, x, normals: [k, d]) -> [k, c].
    on, where, points, name, weight
        As for `Condition`.

    Examples
    --------
    >>> from sciml_par.problems import Neumann
    >>> insulated = Neumann(0.0, on=("y=lower", "y=upper"))

    Radiation, ∂u/∂n = 1 − u⁴:

    >>> radiating = Neumann(lambda u, x: 1 - u(x) ** 4, on="x=upper")
    """

    kind: ClassVar[str] = "neumann"
    needs_normals = True

    def _left_side(self, u: FieldLike, x: tf.Tensor, normals: tf.Tensor) -> tf.Tensor:
        return normal_derivative(u, x, normals)

    def quantity(self, u: FieldLike, x: tf.Tensor, domain: Domain) -> tf.Tensor:
        """Return ∇u, and u over the length of the domain, since ∇u may be zero everywhere."""
        slopes = tf.reshape(jacobian(u, x), [len(x), -1])
        return tf.concat([slopes, u(x) / float(max(domain.extent))], axis=1)


@dataclass(frozen=True, init=False)
class Robin(ValuedCondition):
    """alpha u + beta n·∇u = value on the boundary, n the outward unit normal.

    Parameters
    ----------
    alpha, beta : float
        Finite; beta carries the unit of length if alpha is dimensionless.
    value, component
        As for `Neumann`.
    on, where, points, name, weight
        As for `Condition`.

    Examples
    --------
    Cooling, k ∂u/∂n + h (u − 20) = 0 with h/k = 0.5:

    >>> from sciml_par.problems import Robin
    >>> cooled = Robin(0.5, 1.0, 10.0, on="x=upper")
    """

    kind: ClassVar[str] = "robin"
    needs_normals = True
    alpha: float
    beta: float

    def __init__(
        self,
        alpha: float,
        beta: float,
        value: Value = 0.0,
        *,
        component: Component | None = None,
        on: On | None = None,
        where: Predicate | None = None,
        points: Any = None,
        name: str = "",
        weight: float | None = None,
    ) -> None:
        super().__init__(
            value, component=component, on=on, where=where, points=points, name=name, weight=weight
        )
        for factor, given in (("alpha", alpha), ("beta", beta)):
            if callable(given) or isinstance(given, str):
                raise InputError(
                    f"Robin: {factor} must be a number, got {given!r}; what varies or is unknown "
                    f"is a value, as Neumann(lambda u, x, *, h: -h * u(x)) for n·∇u + h u = 0"
                )
            object.__setattr__(self, factor, checked_number(given, f"Robin: {factor}"))

    def _left_side(self, u: FieldLike, x: tf.Tensor, normals: tf.Tensor) -> tf.Tensor:
        return self.alpha * u(x) + self.beta * normal_derivative(u, x, normals)


@dataclass(frozen=True, init=False)
class Traction(ValuedCondition):
    """σ n = value on the boundary of an elastic body, n the outward unit normal.

    The residual is [k, d] in d = 2 or 3 dimensions, or [k, c] for c components. The components of
    u are the displacements; of a field with others, write a `Condition` with `Elastic.traction`.

    Parameters
    ----------
    material : Elastic, or a function of unknowns of the problem that returns one
        Such as ``lambda *, young: Elastic(young=young, poisson=0.3)``.
    value
        The force per area, as for `Neumann`, in units of stress; 0 for a free surface.
    component
        As for `Dirichlet`: the directions in which the force is given, by the displacements.
    on, where, points, name, weight
        As for `Condition`.

    Raises
    ------
    InputError
        The material is not one, or the value is one number and not 0; or as for `Condition`.

    Examples
    --------
    >>> from sciml_par.problems import Elastic, Traction
    >>> steel = Elastic(young=210.0, poisson=0.3)
    >>> pulled = Traction(steel, (0.1, 0.0, 0.0), on="x=upper")
    >>> free = Traction(steel, on=("y=lower", "y=upper"))
    """

    kind: ClassVar[str] = "traction"
    needs_normals = True
    material: Elastic | Callable[..., Elastic]

    def __init__(
        self,
        material: Elastic | Callable[..., Elastic],
        value: Value = 0.0,
        *,
        component: Component | None = None,
        on: On | None = None,
        where: Predicate | None = None,
        points: Any = None,
        name: str = "",
        weight: float | None = None,
    ) -> None:
        known = isinstance(material, Elastic)
        if not known and (not callable(material) or positional_names(material)):
            raise InputError(
                f"Traction: expected first a material, as Elastic(young=1.0, poisson=0.3), or a "
                f"function of unknowns that follow a star, as "
                f"lambda *, young: Elastic(young=young, poisson=0.3); got {material!r}."
            )
        if component is None and isinstance(value, Real) and value:
            raise InputError(
                f"Traction: a force has a value along each axis; got {value!r}. Write "
                f"(0, {float(value):g}) in the plane, component= for one direction alone, or for a "
                f"pressure lambda x, normals: {-float(value):g} * normals."
            )
        super().__init__(
            value, component=component, on=on, where=where, points=points, name=name, weight=weight
        )
        object.__setattr__(self, "material", material)

    def prepared(self, domain: Domain, outputs: Sequence[str]) -> Self:
        timed = TIME in domain.names
        space = domain.names[:-1] if timed else domain.names
        if len(outputs) != len(space):
            raise InputError(
                f"Traction: expected a displacement along each of {', '.join(space)}; the outputs "
                f"of the problem are {', '.join(outputs)}. Write Condition(lambda w, x, normals: "
                f'material.traction(w["u", "v"], x, normals, over=("x", "y")) - value, on=…).'
            )
        times = {name for names in domain._time_faces for name in names} if timed else set()
        if isinstance(self.on, tuple) and times.intersection(self.on):
            raise InputError(f"Traction: expected names of faces in space; got on={self.on!r}.")
        return super().prepared(domain, outputs)

    def _left_side(self, u: FieldLike, x: tf.Tensor, normals: tf.Tensor) -> tf.Tensor:
        material = self.material if isinstance(self.material, Elastic) else self.material()
        if not isinstance(material, Elastic):
            raise InputError(f"Traction: material must return an Elastic; got {material!r}.")
        return material.traction(u, x, normals, over=_space_of(u))

    def quantity(self, u: FieldLike, x: tf.Tensor, domain: Domain) -> tf.Tensor | None:
        """Return σ, since its product with the normal may be zero everywhere."""
        if not isinstance(self.material, Elastic):
            return None
        return tf.reshape(self.material.stress(u, x, over=_space_of(u)), [len(x), -1])


def _space_of(u: FieldLike) -> str | None:
    """Return the `over` that leaves out a time."""
    return SPACE if TIME in (getattr(u, "coordinates", None) or ()) else None
