"""Strains and stresses of elastic bodies in two and three dimensions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sciml_par._checks import check_number, is_number
from sciml_par._other_names import ByName
from sciml_par._tape import Tensor
from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.problems.fields.field import Field
from sciml_par.problems.operators.arguments import (
    FieldLike,
    Over,
    axes_of_sum,
    field_and_points,
    jet,
    pair_coefficients,
)

STRAIN, STRESS = "strain", "stress"


@dataclass(frozen=True, init=False)
class Elastic(ByName):
    """An isotropic, linearly elastic material for small displacements w.

        ε = (∇w + ∇wᵀ) / 2        σ = λ tr(ε) I + 2 μ ε

    with λ = E ν / ((1 + ν)(1 − 2ν)) and μ = E / (2 (1 + ν)) of Lamé. In the plane, strains normal
    to it are zero (plane="strain"), or stresses are (plane="stress"), for which λ becomes
    2λμ / (λ + 2μ) (Timoshenko and Goodier 1951, Theory of Elasticity, chapter 2). The equation of
    equilibrium with a force f per volume is ∇·σ + f = 0, as
    ``lambda w, x: material.force(w, x) + f(x)``.

    All methods are local, and take w: Field or callable [n, d] -> [n, k] with as many components as
    there are coordinates, k = 2 or 3; `over` chooses these, as in `curl`, and ``w["u", "v"]`` the
    components.

    Parameters
    ----------
    young, poisson : float or tensor
        E, in units of stress, and ν, dimensionless.
    lame, shear : float or tensor
        λ and μ in their place, in units of stress. All are numbers, or tensors of the shape [], as
        unknowns of the problem, with which a residual makes its material.
    plane : "strain" or "stress"
        For displacements in the plane.

    Raises
    ------
    InputError
        Not one of the two pairs, a tensor of another shape, E or μ not positive, ν not in
        (−1, 0.5), λ not above −2μ/3, or another word for `plane`; in the methods, components and
        coordinates that are not two and two or three and three.

    Examples
    --------
    >>> import tensorflow as tf
    >>> from sciml_par.problems import Elastic
    >>> steel = Elastic(young=210.0, poisson=0.3, plane="stress")
    >>> pulled = lambda x: tf.concat([x[:, :1], -0.3 * x[:, 1:]], axis=1) / 210.0
    >>> x = tf.constant([[0.5, 0.5]], tf.float64)
    >>> float(steel.von_mises(pulled, x)[0, 0])
    1.0
    """

    lame: Any
    shear: Any
    plane: str

    def __init__(
        self,
        *,
        young: Any = None,
        poisson: Any = None,
        lame: Any = None,
        shear: Any = None,
        plane: str = STRAIN,
    ) -> None:
        pairs = (young is not None, poisson is not None), (lame is not None, shear is not None)
        if sorted(pairs) != [(False, False), (True, True)]:
            raise InputError(
                "Elastic: expected young= and poisson=, or lame= and shear=, as "
                "Elastic(young=210e9, poisson=0.3)."
            )
        if plane not in (STRAIN, STRESS):
            raise InputError(f"Elastic: expected plane to be 'strain' or 'stress'; got {plane!r}.")
        if young is not None:
            _check("young", young, "> 0", lambda e: e > 0)
            _check("poisson", poisson, "between -1 and 0.5", lambda nu: -1 < nu < 0.5)
            shear = young / (2 * (1 + poisson))
            lame = young * poisson / ((1 + poisson) * (1 - 2 * poisson))
        else:
            _check("shear", shear, "> 0", lambda mu: mu > 0)
            least = -2 * shear / 3 if is_number(shear) else -math.inf
            _check("lame", lame, f"above {least:g}", lambda a: a > least)
        for name, value in (("lame", lame), ("shear", shear), ("plane", plane)):
            object.__setattr__(self, name, value)

    def strain(self, w: FieldLike, x: Tensor, *, over: Over | None = None) -> Tensor:
        """Compute ε: [n, k, k]."""
        field, x, axes = _given(w, x, over, "Elastic.strain(w, x)")
        slopes = jet(field, x)[1]
        _check_count(slopes.shape[1], axes, "strain")
        slopes = tf.gather(slopes, axes, axis=2)
        return (slopes + tf.linalg.matrix_transpose(slopes)) / 2

    def stress(self, w: FieldLike, x: Tensor, *, over: Over | None = None) -> Tensor:
        """Compute σ: [n, k, k]."""
        epsilon = self.strain(w, x, over=over)
        k = epsilon.shape[1]
        trace = tf.linalg.trace(epsilon)[:, None, None]
        return self._lame_in(k) * trace * tf.eye(k, dtype=epsilon.dtype) + 2 * self.shear * epsilon

    def von_mises(self, w: FieldLike, x: Tensor, *, over: Over | None = None) -> Tensor:
        """Compute (3/2 s:s)^½ of the deviator s of σ: [n, 1], also in the plane that of 3 × 3."""
        sigma = self.stress(w, x, over=over)
        squares, trace = tf.reduce_sum(sigma**2, axis=(1, 2)), tf.linalg.trace(sigma)
        if sigma.shape[1] == 2 and self.plane == STRAIN:
            normal = trace * self.lame / (2 * (self.lame + self.shear))  # ν (σ_xx + σ_yy)
            squares, trace = squares + normal**2, trace + normal
        # Rounding may make a square of zero negative.
        return tf.sqrt(tf.maximum(1.5 * (squares - trace**2 / 3), 0.0))[:, None]

    def traction(
        self, w: FieldLike, x: Tensor, normals: Tensor, *, over: Over | None = None
    ) -> Tensor:
        """Compute σ n: [n, k], the force per area on surfaces with these outward normals [n, k].

        `Traction` is the condition on its values; of a field with other components as well, write
        ``Condition(lambda w, x, normals: material.traction(w["u", "v"], x, normals) - t, on=…)``.
        """
        field, x, axes = _given(w, x, over, "Elastic.traction(w, x, normals)")
        sigma = self.stress(field, x, over=over)
        # Where time is a coordinate, the normals have a component along it.
        chosen = tf.gather(normals, axes, axis=1) if normals.shape[1] > len(axes) else normals
        return tf.linalg.matvec(sigma, chosen)

    def force(self, w: FieldLike, x: Tensor, *, over: Over | None = None) -> Tensor:
        """Compute ∇·σ = μ Δw + (λ + μ) ∇(∇·w) of a homogeneous material: [n, k]."""
        field, x, axes = _given(w, x, over, "Elastic.force(w, x)")
        k, d = len(axes), int(x.shape[1])
        places = [(i, j) for i in range(k) for j in range(i, k)]
        second = jet(field, x, *(pair_coefficients(d, axes[i], axes[j]) for i, j in places))[2]
        _check_count(second.shape[1], axes, "force")
        of = {pair: second[:, :, q] for q, pair in enumerate(places)}  # [n, k] each
        laplacians = tf.add_n([of[i, i] for i in range(k)])
        gradients = [tf.add_n([of[min(i, j), max(i, j)][:, j] for j in range(k)]) for i in range(k)]
        both = self._lame_in(k) + self.shear
        return self.shear * laplacians + both * tf.stack(gradients, axis=1)

    def _lame_in(self, k: int) -> Any:
        if self.plane == STRAIN:
            return self.lame
        if k == 3:
            raise InputError("Elastic: plane='stress' is for two dimensions; w has three.")
        return 2 * self.lame * self.shear / (self.lame + 2 * self.shear)


def _given(
    w: FieldLike, x: Tensor, over: Over | None, call: str
) -> tuple[Field, Tensor, tuple[int, ...]]:
    """Return the field of displacements, the points, and the numbers of the coordinates."""
    field, x = field_and_points(w, x, call)
    return field, x, axes_of_sum(field, x, over, call.replace(")", ", over=)"))


def _check_count(components: int, axes: Sequence[int], name: str) -> None:
    if components != len(axes) or components not in (2, 3):
        raise InputError(
            f"Elastic.{name}(w, x) needs two displacements in two dimensions or three in three, "
            f"but w has {components} components in {len(axes)} dimensions; choose with "
            f'w["u", "v"] and over=("x", "y"), or over="space" for all except t'
        )


def _check(name: str, value: Any, expected: str, holds: Any) -> None:
    """Raise if a number is not as expected; tensors are not known before the training."""
    # TensorFlow is not imported for a material of numbers.
    if hasattr(value, "dtype") and not isinstance(value, np.generic | np.ndarray):
        if len(value.shape) > 0:
            raise InputError(
                f"Elastic: expected {name} to be a number or a tensor of the shape []; got the "
                f"shape {list(value.shape)}. For a modulus that varies, write the stress with "
                f"strain(w, x), and its divergence with divergence."
            )
        return
    if not is_number(value):
        raise InputError(
            f"Elastic: expected {name} to be a number or a tensor; got {value!r}. An unknown of "
            f"the problem is an argument of the residual, as in lambda w, x, *, {name}: "
            f"Elastic({name}={name}, …).force(w, x), and of the material of Traction."
        )
    check_number("Elastic", name, value, expected, holds)
