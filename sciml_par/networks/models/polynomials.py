"""Polynomials on a box, or in overlapping windows of it; only coefficients are solved for."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import asdict, fields
from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._checks import checked_integer
from sciml_par._other_names import by_name
from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.networks.layers.initial_weights import checked_box
from sciml_par.networks.layers.quiet_keras import keras
from sciml_par.networks.propagation.cells import Cells, Slabs, of_one_axis
from sciml_par.networks.propagation.corner_functions import CornerFunction
from sciml_par.networks.propagation.hole_functions import HoleFunction
from sciml_par.networks.propagation.layer_functions import LayerFunction
from sciml_par.networks.propagation.own_model import OwnModel
from sciml_par.networks.propagation.propagated_model import PropagatedModel
from sciml_par.networks.propagation.propagation import Propagated, full, in_parts, joined
from sciml_par.networks.propagation.singular_function import SingularFunction
from sciml_par.networks.propagation.weights_of import WeightsOf

Exponents = npt.NDArray[np.int64]
_SINGULAR = {each.__name__: each for each in (CornerFunction, HoleFunction, LayerFunction)}
_LARGEST = 1 << 22
"""Numbers of columns at points that are computed at once."""


@keras.saving.register_keras_serializable(package="sciml_par")
class Polynomials(PropagatedModel):
    r"""u(x) = Σ_k w_k(x) Σ_j c_kj Π_i T_{e_ji}(z_ki), a network that is linear in all it learns.

    T_e is the Chebyshev polynomial of degree e and z_k measures the support of the window k from
    −1 to 1. Without `breaks` there is one window with w = 1, the box. Solutions that are smooth
    converge exponentially with the degree, for which `LeastSquares` solves in one step.

    Parameters
    ----------
    inputs, outputs : int
        Dimension d of the points, and number m of components of the field.
    degree : int, or sequence of d integers
        Of all products up to this total degree; with d numbers, up to these along each axis.
    interacting : int, optional
        In at most so many variables at a time is a product not constant; by default in all.
    exponents : sequence of sequences of d integers, optional
        e: [M, d] in place of these.
    breaks : d increasing sequences of numbers, optional
        The sides of cells along each axis, both sides of the box included.
    overlap : float
        By which a window reaches over a break, in units of the shorter of both cells, in (0, 0.5].
    dropped : sequence of int
        Numbers of cells without a window, such as those outside of the domain.
    slabs : sequence of pairs (breaks, dropped), optional
        Those of each slab of time, one after another, in place of these; the last axis is the time,
        and has one cell.
    corners : sequence of CornerFunction, HoleFunction and LayerFunction, optional
        Functions that are singular at a corner of the domain, or of space and time, or in a hole,
        which `sciml_par.solve` gives. Each is multiplied by the products up to its degree, in
        windows that are near to the place.
    box : pair (lower, upper) of sequences of d numbers, optional
        The corners of the box; [−1, 1]^d by default. `sciml_par.train` gives it.
    seed : int
        Not used: the coefficients begin at zero.
    dtype : {"float32", "float64"}
    name : str, optional
        Name of the Keras model.

    Raises
    ------
    InputError
        Breaks do not increase, or an exponent or the degree is negative.

    Examples
    --------
    >>> from sciml_par.networks import Polynomials
    >>> model = Polynomials(2, 1, degree=10)
    >>> sum(variable.shape.num_elements() for variable in model.trainable_variables)
    66
    """

    only_dense = False

    @by_name
    def __init__(
        self,
        inputs: int,
        outputs: int,
        *,
        degree: int | Sequence[int] = 10,
        interacting: int | None = None,
        exponents: Any = None,
        breaks: Any = None,
        overlap: float = 0.2,
        dropped: Sequence[int] = (),
        slabs: Any = None,
        corners: Sequence[SingularFunction | dict[str, Any]] = (),
        box: Any = None,
        seed: int = 0,
        dtype: str = "float64",
        name: str | None = None,
    ) -> None:
        if exponents is None:
            exponents = exponents_of(inputs, degree, interacting)
        self_exponents = np.asarray(exponents, np.int64).reshape(-1, int(inputs))
        if self_exponents.size and self_exponents.min() < 0:
            raise InputError(f"Polynomials: exponents must not be negative; got {exponents!r}.")
        functions = tuple(_singular(each, int(inputs)) for each in corners)
        multiplied = [each.rows_of(self_exponents) for each in functions]
        counts = [f.count * len(rows) for f, rows in zip(functions, multiplied, strict=True)]
        width = len(self_exponents) + sum(counts)
        OwnModel.__init__(self, inputs, outputs, width=width, seed=seed, dtype=dtype, name=name)
        self.exponents = self_exponents
        self.corners = tuple(zip(functions, multiplied, strict=True))
        unit = ([-1.0] * inputs, [1.0] * inputs)
        self.box = checked_box(unit if box is None else box, int(inputs))
        self.cells: Cells | Slabs = _cells(breaks, self.box, overlap, dropped)
        if slabs is not None:
            self.cells = Slabs(tuple(_cells(b, self.box, overlap, drop) for b, drop in slabs))
        shape = (len(self.cells.kept), self.width, self.output_size)
        self.coefficients = self.add_weight(shape=shape, initializer="zeros", name="coefficients")
        self.built = True

    @property
    def linear_variables(self) -> list[Any]:
        """The coefficients, [K, M, m]."""
        return [self.coefficients]

    @cached_property
    def near(self) -> npt.NDArray[np.bool_]:
        """Which windows have each corner function, [F, K]."""
        boxes = self.cells.supports()
        found = [function.near(*boxes) for function, _ in self.corners]
        return np.array(found, bool).reshape(-1, len(boxes[0]))

    @cached_property
    def used(self) -> npt.NDArray[np.bool_]:
        """Which columns of each window are not zero, [K, M]."""
        counts = [function.count * len(rows) for function, rows in self.corners]
        everywhere = np.ones((len(self.cells.kept), len(self.exponents)), bool)
        return np.hstack([everywhere, np.repeat(self.near.T, counts, axis=1)])

    @property
    def labels(self) -> list[tuple[Any, ...]]:
        """What tells a column of a window from others, hashable: [M]."""
        found: list[tuple[Any, ...]] = [tuple(each) for each in self.exponents.tolist()]
        for function, rows in self.corners:
            parts = itertools.product(range(function.count), rows)
            found += [(*function.label, part, *found[row]) for part, row in parts]
        return found

    @property
    def network_key(self) -> tuple[Any, ...]:
        """Hashable; models of equal keys are the same functions of their weights."""
        functions = tuple(function for function, _ in self.corners)
        return (type(self), self.cells, self.exponents.tobytes(), functions, self.output_size)

    def _products(
        self, x: Propagated, whole: Propagated, inside: Sequence[Any], scale: Sequence[Any]
    ) -> Propagated:
        """Return w Π_i T_e(z_i) for w: [1, k] and z: [k] with the slopes `scale`: [M, k]."""
        width = len(self.exponents)
        for axis, (z, factor) in enumerate(zip(inside, scale, strict=True)):
            degrees = self.exponents[:, axis]
            if not degrees.any():
                continue
            values = _chebyshev(z, int(degrees.max()), derivatives=bool(x.first))
            chosen = [tf.gather(part * factor**q, degrees) for q, part in enumerate(values)]
            whole = whole * of_one_axis(x, axis, *chosen)
        if whole.value.shape[0] != width:
            whole = whole.mapped(lambda part: tf.tile(part, [width, 1]))
        return whole

    def propagate(self, of: WeightsOf, x: Propagated) -> Propagated:
        n, c = x.value.shape[1], of(self.coefficients)
        slots = self.cells.slots
        at_once = max(_LARGEST // (slots * self.width), 1)
        if n is None or n <= at_once:
            return self._propagate(c, x, slots)
        return in_parts(lambda part: self._propagate(c, part, slots), x, n, at_once)

    def _propagate(self, c: Any, x: Propagated, slots: int) -> Propagated:
        numbers, weight, inside, scale = self.cells.at(x)
        slopes = [tf.gather(tf.constant(each, c.dtype), numbers) for each in scale.T]
        columns = self._products(x, weight, inside, slopes)
        if self.corners:
            columns = joined([columns, *self._at_corners(x, columns, numbers, slots)], 0)
        if len(self.cells.kept) > 1:
            c = tf.gather(c, numbers)

        def summed(part: Any) -> Any:
            part = full(part, columns.value)
            if c.shape[0] == 1:
                return tf.linalg.matmul(c[0], part, transpose_a=True)
            return tf.add_n(tf.split(tf.einsum("pam,ap->mp", c, part), slots, axis=1))

        return columns.mapped(summed)

    def _at_corners(
        self, x: Propagated, columns: Propagated, numbers: Any, slots: int
    ) -> Iterator[Propagated]:
        """Yield the products of corner functions and columns: [M', S n] each."""
        for (function, rows), near in zip(self.corners, self.near, strict=True):
            there = tf.gather(tf.constant(near, columns.value.dtype), numbers)
            parts = function.propagate(x).mapped(partial(tf.tile, multiples=[1, slots]))
            chosen = columns.mapped(lambda part: tf.gather(part, rows) * there)  # noqa: B023
            for k in range(function.count):
                yield chosen * parts.mapped(lambda part: part[k : k + 1])  # noqa: B023

    def jet(  # type: ignore[override]
        self, parameters: Sequence[Any], x: tf.Tensor, second: Any, record_of: Any = None
    ) -> tuple[tf.Tensor, ...]:
        """Compute as `MLP.jet` up to the second order (pure, local)."""
        return super().jet(parameters, x, second, record_of)

    def get_config(self) -> dict[str, Any]:
        one = isinstance(self.cells, Cells)
        parts = (self.cells,) if isinstance(self.cells, Cells) else self.cells.parts
        slabs = [([list(b) for b in part.breaks], list(part.dropped)) for part in parts]
        breaks, dropped = slabs[0] if one else (None, [])
        return {
            "slabs": None if one else slabs,
            "inputs": self.input_size,
            "outputs": self.output_size,
            "exponents": self.exponents.tolist(),
            "breaks": breaks,
            "overlap": parts[0].overlap,
            "dropped": dropped,
            "corners": [asdict(function) for function, _ in self.corners],
            "box": [list(corner) for corner in self.box],
            "seed": self.seed,
            "dtype": self.dtype_policy.name,
            "name": self.name,
        }


def exponents_of(d: int, degree: int | Sequence[int], interacting: int | None = None) -> Exponents:
    """Return the exponents of products up to a degree: [M, d], the lowest first (local).

    Raises
    ------
    InputError
        A degree is negative, or there are not as many as coordinates.
    """
    if isinstance(degree, Sequence):
        most = [checked_integer(each, "Polynomials: degree", least=0) for each in degree]
        if len(most) != d:
            raise InputError(
                f"Polynomials: degree={tuple(degree)} has {len(most)} numbers, and the points have "
                f"{d} coordinates; give one for each, or one total degree."
            )
        found = np.array(list(itertools.product(*(range(each + 1) for each in most))), np.int64)
    else:
        total = checked_integer(degree, "Polynomials: degree", least=0)
        rows = [np.zeros((1, d), np.int64)]
        for count in range(1, min(d, total, d if interacting is None else interacting) + 1):
            every = itertools.product(range(1, total + 1), repeat=count)
            powers = [e for e in every if sum(e) <= total]
            for chosen in itertools.combinations(range(d), count):
                rows.append(np.zeros((len(powers), d), np.int64))
                rows[-1][:, chosen] = powers
        found = np.concatenate(rows)
    return found[np.lexsort([*found.T, found.sum(axis=1)])]


def _cells(breaks: Any, box: Any, overlap: float, dropped: Sequence[int]) -> Cells:
    rows = list(zip(*box, strict=True)) if breaks is None else breaks
    given = tuple(tuple(map(float, each)) for each in rows)
    if len(given) != len(box[0]) or any(len(b) < 2 or np.any(np.diff(b) <= 0) for b in given):
        raise InputError(
            f"Polynomials: expected breaks to be {len(box[0])} increasing sequences of two numbers "
            f"or more; got {breaks!r}."
        )
    if not 0.0 < overlap <= 0.5:
        raise InputError(f"Polynomials: expected an overlap in (0, 0.5]; got {overlap!r}.")
    return Cells(given, float(overlap), tuple(map(int, dropped)))


def _singular(config: Any, dimension: int) -> SingularFunction:
    """Return singular functions, also of their attributes, as a file has them."""
    config = asdict(config) if isinstance(config, SingularFunction) else config
    if isinstance(config, dict) and dimension > 1:
        values: Any = {k: tuple(v) if isinstance(v, list) else v for k, v in config.items()}
        for kind in _SINGULAR.values():
            if {each.name for each in fields(kind)} == {*values}:
                return kind(**values)
    raise InputError(
        f"Polynomials: expected each of corners= to be a {' or a '.join(_SINGULAR)}, or a dict of "
        f"its attributes, in two dimensions or more; got {config!r} in {dimension}."
    )


def _chebyshev(z: Any, degree: int, *, derivatives: bool) -> list[Any]:
    """Return T_0 … T_degree at z: [n], and two derivatives, [degree + 1, n] each."""
    one, none = tf.ones_like(z), tf.zeros_like(z)
    t, t1, t2 = [one, z], [none, one], [none, none]
    for k in range(1, degree):
        t.append(2 * z * t[k] - t[k - 1])
        if derivatives:
            t1.append(2 * t[k] + 2 * z * t1[k] - t1[k - 1])
            t2.append(4 * t1[k] + 2 * z * t2[k] - t2[k - 1])
    rows = [t, t1, t2] if derivatives else [t, t, t]
    return [tf.stack(each[: degree + 1]) for each in rows]
