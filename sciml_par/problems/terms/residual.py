"""The interior term of a problem: an equation as a residual."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np

from sciml_par._checks import checked_weight
from sciml_par._other_names import ByName
from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.problems.checks.arrays import FloatArray
from sciml_par.problems.checks.functions import holds_at, in_python, values_at
from sciml_par.problems.domains.domain import Domain

Data = Callable[[Any], Any]


@dataclass(frozen=True)
class Residual(ByName):
    """An equation r(u, x) = 0 in the interior, left side minus right side.

    Parameters
    ----------
    function : callable
        (u, x: [n, d]) -> r: [n, k] in TensorFlow operations. With `data`, it takes the values
        as a third argument: (u, x, f: [n, k]).
    weight : float, or sequence of k floats
        Factor of the mean square of r in the loss; non-negative, dimensionless. Of several, one for
        each column of r: the term is Σ_c w_c (1/N) Σ_i r_ic², and its residuals are √w_c r_c.
    data : callable, optional
        x: [n, d] -> f: [n, k], or [n] where k = 1, in NumPy or TensorFlow: a known right-hand
        side. It is evaluated once at the training points, in double precision, not at each step;
        it must not read trainable variables.
    where : callable, optional
        x: [n, d] -> booleans [n], in NumPy: the points at which the equation holds, as those of
        one of two materials. At others r counts as 0; it must be finite there, too.
    name : str
        For messages and progress; a default is given by the problem.

    Examples
    --------
    −u″ = sin x:

    >>> import numpy as np
    >>> from sciml_par.problems import Residual, laplacian
    >>> equation = Residual(lambda u, x, f: -laplacian(u, x) - f, data=np.sin)
    """

    kind: ClassVar[str] = "residual"
    known_functions: ClassVar[tuple[str, ...]] = ("data", "where")

    function: Callable[..., tf.Tensor]
    _: KW_ONLY
    weight: float | Sequence[float] = 1.0
    data: Data | None = None
    where: Callable[[Any], Any] | None = None
    name: str = ""

    def __post_init__(self) -> None:
        for what in ("function", "data", "where"):
            value = getattr(self, what)
            if not callable(value) and not (what != "function" and value is None):
                raise InputError(f"Residual: {what} must be callable, got {type(value).__name__}")
        object.__setattr__(self, "function", in_python(self.function))
        given = self.weight.tolist() if isinstance(self.weight, np.ndarray) else self.weight
        if isinstance(given, list | tuple):
            weights = tuple(checked_weight(w, "Residual") for w in given)
            object.__setattr__(self, "weight", weights)
        else:
            checked_weight(given, "Residual")

    def points(self, domain: Domain, n: int | tuple[int, ...]) -> tuple[FloatArray, ...]:
        """Return the grid points x: [k, d] of the domain, and the data there, if any (local)."""
        return self.payload(domain.grid(n))

    def payload(self, x: FloatArray) -> tuple[FloatArray, ...]:
        """Return points, the data and 1 where it holds: x: [n, d] -> (x, f?, [n, 1]?) (local)."""
        data = [] if self.data is None else [values_at(self.data, x, what="data of the residual")]
        if self.where is not None:
            data.append(holds_at(self.where, x, "Residual")[:, None].astype(np.float64))
        return x, *data

    def residual(self, u: Any, x: tf.Tensor, *data: tf.Tensor) -> tf.Tensor:
        """Compute r(u, x), of several weights with the factors √w_c: [n, k] (local)."""
        r = self.function(u, x, *(data if self.where is None else data[:-1]))
        if self.where is not None and tf.is_tensor(r):
            r = tf.where(data[-1] > 0, r, tf.zeros_like(r))
        if not isinstance(self.weight, tuple):
            return r
        if not tf.is_tensor(r) or r.shape.rank != 2 or r.shape[1] != len(self.weight):
            got = r.shape.as_list() if tf.is_tensor(r) else type(r).__name__
            raise InputError(
                f"Residual: weight has {len(self.weight)} numbers, one for each column of the "
                f"residual, which must be a tensor [n, {len(self.weight)}], got {got}"
            )
        return r * tf.sqrt(tf.constant(self.weight, r.dtype))
