"""Unknown functions as fields of x, made of their networks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sciml_par._tape import Jet, Tensor
from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.problems.checks.arrays import FloatArray
from sciml_par.problems.checks.functions import values_at
from sciml_par.problems.domains.domain import Domain
from sciml_par.problems.fields.field import Field
from sciml_par.problems.fields.plan import Coefficients
from sciml_par.problems.fields.transformed import Corners, Scaling, corners_of
from sciml_par.problems.operators.arguments import pair_coefficients
from sciml_par.problems.unknowns.unknown_functions import UnknownFunction


@dataclass(frozen=True)
class Input:
    """An argument of an unknown function: a coordinate or a component of u, by its number."""

    name: str
    axis: int | None = None
    component: int | None = None


@dataclass(frozen=True, eq=False)
class PlacedFunction:
    """An unknown function of a problem, whose inputs are found.

    With its inputs z: [n, e], it is k = T(p + N((z − c) s)). If N sees scaled coordinates, c and s
    map the box of the domain to [−1, 1]; otherwise they are 0 and 1. The bounds lower, upper [e]
    are those of the coordinates among the inputs, and −1 and 1 of components.
    """

    name: str
    function: UnknownFunction
    inputs: tuple[Input, ...]
    lower: FloatArray
    upper: FloatArray
    coordinates: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Of the inputs."""
        return tuple(each.name for each in self.inputs)

    @property
    def axes(self) -> list[int]:
        """The numbers of the coordinates among the inputs, in order."""
        return [each.axis for each in self.inputs if each.axis is not None]

    @property
    def needs_solution(self) -> bool:
        """Whether it depends on components of u."""
        return any(each.component is not None for each in self.inputs)

    @property
    def start(self) -> BoundFunction:
        """The constant that it begins around."""
        return BoundFunction(self, None, scaled=False)

    @property
    def true_text(self) -> str:
        """The name of the true function in messages."""
        return f"the true function of the unknown {self.name!r}"

    def box(self, *, scaled: bool) -> Corners:
        """Return the corners of the box in which N sees its inputs."""
        if scaled:
            return (-1.0,) * len(self.inputs), (1.0,) * len(self.inputs)
        return corners_of(self.lower, self.upper)

    def key(self, *, scaled: bool) -> tuple[Any, ...]:
        """Return a key that is equal for functions with the same map from network to values."""
        box = (self.lower.tobytes(), self.upper.tobytes()) if scaled else None
        return self.inputs, self.function.number.key, self.function.offset, box

    def values(self, network: Field, z: Tensor, *, scaled: bool) -> Tensor:
        """Return k at inputs z: [n, e] -> [n, 1]."""
        return self._transformed(self._of_inputs(network, scaled)(z))

    def field(self, network: Field, u: Field, *, scaled: bool) -> Field:
        """Return k as a field of x, given N: [n, e] -> [n, 1] and the solution u."""
        inner = self._of_inputs(network, scaled)

        def value(x: Tensor) -> Tensor:
            self._check_points(x)
            return self._transformed(inner(self._inputs(x, u)))

        def jet(x: Tensor, second: Coefficients) -> Jet:
            make = self._jet_beside if self.needs_solution else self._jet_of_coordinates
            v, dv, lv = make(inner, x, second, u)
            return self._transformed_jet(v, dv, lv, second)

        # Where N has no jet, tapes go through N alone, not through functions of k as well.
        return Field(value, jet=jet, coordinates=self.coordinates, components=(self.name,))

    def _check_points(self, x: Tensor) -> None:
        """Raise if a function of u is asked at values of u, as k(u(x)), which is k(u(u(x))).

        Residuals are traced with the parameters as a vector, of which no points are made.
        """
        if self.needs_solution and _depends_on_a_vector(x):
            of = ", ".join(self.names)
            raise InputError(
                f"the unknown function {self.name!r} of {of} is a field of the points: write "
                f"{self.name}(x), which is {self.name} at the values of {of} in x; "
                f"{self.name}(u(x)) would take the values of u for points."
            )

    def _inputs(self, x: Tensor, u: Field) -> Tensor:
        values = u(x) if self.needs_solution else None
        columns = [
            x[:, i.axis : i.axis + 1] if i.axis is not None else _column(values, i.component)
            for i in self.inputs
        ]
        return tf.concat(columns, axis=1)

    def _of_inputs(self, network: Field, scaled: bool) -> Field:
        """Return N((z − c) s) as a field of z."""
        if not scaled:
            return network
        return Scaling(corners_of(self.lower, self.upper), None).field(network)

    def _jet_of_coordinates(self, network: Field, x: Tensor, second: Coefficients, u: Field) -> Jet:
        """Compute v = N of coordinates alone, its derivatives by all of x and its operators."""
        axes = self.axes
        own = second[:, axes][:, :, axes]
        seen = [k for k, matrix in enumerate(own) if matrix.any()]
        v, dv, found = network.jet(self._inputs(x, u), own[seen])
        zero = tf.zeros_like(v)
        slopes = {axis: dv[:, :, j] for j, axis in enumerate(axes)}
        operators = {k: found[:, :, j] for j, k in enumerate(seen)}
        return (
            v,
            tf.stack([slopes.get(i, zero) for i in range(x.shape[1])], axis=-1),
            tf.stack([operators.get(k, zero) for k in range(len(second))], axis=-1)
            if len(second)
            else v[:, :, None][..., :0],
        )

    def _jet_beside(self, network: Field, x: Tensor, second: Coefficients, u: Field) -> Jet:
        """Compute v = N(z) for z = z(x) by the chain rule.

        ∂_i v = Σ_a N_a ∂_i z_a        L v = Σ_a N_a L z_a + Σ_ab N_ab Σ_ij C_ij ∂_i z_a ∂_j z_b
        """
        e = len(self.inputs)
        y, dy, ly = u.jet(x, second)
        z, dz, lz = [], [], []
        for each in self.inputs:
            if each.axis is not None:
                z.append(x[:, each.axis : each.axis + 1])
                unit = np.eye(x.shape[1])[each.axis]
                dz.append(tf.zeros_like(x) + tf.constant(unit, x.dtype))
                lz.append(tf.zeros_like(ly[:, 0, :]))
            else:
                assert each.component is not None
                z.append(_column(y, each.component))
                dz.append(dy[:, each.component, :])
                lz.append(ly[:, each.component, :])
        pairs = [(a, b) for a in range(e) for b in range(a, e)] if len(second) else []
        of_pairs = np.array([pair_coefficients(e, a, b) for a, b in pairs]).reshape(-1, e, e)
        v, slopes, curved = network.jet(tf.concat(z, axis=1), of_pairs)
        dv = tf.add_n([slopes[:, :, a, None] * dz[a][:, None, :] for a in range(e)])
        if not pairs:
            return v, dv, v[:, :, None][..., :0]
        parts = [slopes[:, :, a, None] * lz[a][:, None, :] for a in range(e)]
        for p, (a, b) in enumerate(pairs):
            both = (1 if a == b else 2) * _product(dz[a], dz[b], second)
            parts.append(curved[:, :, p, None] * both[:, None, :])
        return v, dv, tf.add_n(parts)

    def _transformed(self, v: Tensor) -> Tensor:
        function = self.function
        return function.number.value(v + tf.constant(function.offset, v.dtype))

    def _transformed_jet(self, v: Tensor, dv: Tensor, lv: Tensor, second: Coefficients) -> Jet:
        """Compute k = T(v): ∂_i k = T′ ∂_i v, L k = T′ L v + T″ Σ_ij C_ij ∂_i v ∂_j v."""
        v = tf.identity(v)
        with tf.GradientTape(watch_accessed_variables=False) as outer:
            outer.watch(v)
            with tf.GradientTape(watch_accessed_variables=False) as inner:
                inner.watch(v)
                k = self._transformed(v)
            slope = inner.gradient(k, v, unconnected_gradients="zero")
        if len(second) == 0:
            return k, slope[..., None] * dv, lv
        curvature = outer.gradient(slope, v, unconnected_gradients="zero")
        squares = _product(dv[:, 0, :], dv[:, 0, :], second)[:, None, :]
        return k, slope[..., None] * dv, slope[..., None] * lv + curvature[..., None] * squares


@dataclass(frozen=True, eq=False)
class BoundFunction:
    """An unknown function with the weights of its network N; without one, a constant."""

    placed: PlacedFunction
    network: Field | None
    scaled: bool

    def beside(self, u: Any) -> Field:
        """Return the function as a field of x."""
        solution = u if isinstance(u, Field) else Field(u)
        network = self.network or Field(lambda z: tf.zeros_like(z[:, :1]))
        return self.placed.field(network, solution, scaled=self.scaled)


def place(
    functions: Mapping[str, UnknownFunction], domain: Domain, outputs: Sequence[str]
) -> dict[str, PlacedFunction]:
    """Return the unknown functions of a problem on this domain, with these components."""
    found = {}
    for name, function in functions.items():
        of = domain.names if function.of is None else function.of
        inputs = tuple(_input(name, each, domain.names, outputs) for each in of)
        axes = [each.axis for each in inputs]
        lower = np.array([-1.0 if i is None else domain.lower[i] for i in axes])
        upper = np.array([1.0 if i is None else domain.upper[i] for i in axes])
        placed = PlacedFunction(name, function, inputs, lower, upper, tuple(domain.names))
        if function.true is not None and not placed.needs_solution:
            x = domain.sample(5, seed=0)[:, placed.axes]
            what = placed.true_text
            values_at(function.true, x, what=what, columns=1, reads_variables=True)
        found[name] = placed
    return found


def _input(function: str, name: str, coordinates: Sequence[str], outputs: Sequence[str]) -> Input:
    if name in coordinates:
        return Input(name, axis=list(coordinates).index(name))
    if name in outputs:
        return Input(name, component=list(outputs).index(name))
    raise InputError(
        f"Problem: the unknown function {function!r} is to depend on {name!r}, which is neither a "
        f"coordinate ({', '.join(coordinates)}) nor a component of the solution "
        f"({', '.join(outputs)})."
    )


def _depends_on_a_vector(x: Tensor) -> bool:
    """Return whether x is computed from an argument of rank 1 of the graph that it belongs to."""
    if isinstance(x, tf.__internal__.EagerTensor):
        return False
    left, seen = [x.op], set()
    while left:
        op = left.pop()
        if op.type == "Placeholder" and op.outputs[0].shape.rank == 1:
            return True
        if op not in seen:
            seen.add(op)
            left += [each.op for each in op.inputs]
    return False


def _column(values: Tensor, component: Any) -> Tensor:
    return values[:, component : component + 1]


def _product(first: Tensor, other: Tensor, second: Coefficients) -> Tensor:
    """Compute Σ_ij C_kij a_i b_j of a, b: [n, d] -> [n, K]."""
    return tf.einsum("ni,kij,nj->nk", first, tf.constant(second, first.dtype), other)
