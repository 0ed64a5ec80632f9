"""Networks that are written once, and interpreted as values, recorded products and derivatives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sciml_par._partial_operators import checked_operators
from sciml_par.errors import InputError
from sciml_par.networks.propagation.propagation import Propagated, Record, transposed
from sciml_par.networks.propagation.weights_of import DenseLayer, RecordOf, WeightsOf

Tensor = Any


class Asked(NamedTuple):
    """What is asked of a network: values; with `second`, the results of its jet.

    record_of : makes records of the products of dense layers.
    """

    second: npt.NDArray[np.float64] | None = None
    higher: Sequence[Any] = ()
    record_of: RecordOf | None = None

    def behind(self, count: int) -> Asked:
        """Ask a network whose parameters stand behind `count` others (local)."""
        record_of = self.record_of
        if record_of is None:
            return self

        def shifted(layer: DenseLayer) -> Record:
            def at(place: Any) -> Any:
                return place + count if isinstance(place, int) else place

            return record_of(replace(layer, weight=at(layer.weight), bias=at(layer.bias)))

        return self._replace(record_of=shifted)


class Interpreted:
    """A network with one function `propagate`, or `interpret` where it is made of other networks.

    Attributes
    ----------
    input_size : dimension d of the points.
    """

    input_size: int

    def propagate(self, of: WeightsOf, x: Propagated) -> Propagated:
        """Return the network's output for a propagated x, with these weights (local)."""
        raise NotImplementedError

    def weights_for(
        self, parameters: Sequence[Tensor], x: Tensor, record_of: RecordOf | None = None
    ) -> WeightsOf:
        """Return the weights of a Keras model with the parameters given (local)."""
        return WeightsOf.given(self, parameters, x, record_of=record_of)

    def records(self) -> Any:
        """Return what can be asked for records of its products; None if nothing can."""
        return None

    def interpret(
        self, parameters: Sequence[Tensor], x: Tensor, asked: Asked
    ) -> tuple[Tensor, ...]:
        """Return (u,), or the results of `jet` (pure, local)."""
        of = self.weights_for(parameters, x, asked.record_of)
        if asked.second is None:
            return (transposed(self.propagate(of, Propagated.values_at(x)).value),)
        return self.propagate(of, Propagated.at(x, asked.second, asked.higher)).results()

    def apply(self, parameters: Sequence[Tensor], x: Tensor) -> Tensor:
        """Evaluate the network with the parameters given (pure, local).

        Parameters
        ----------
        parameters : sequence of tensors
            In the order of `trainable_variables`; of an `MLP` W1, b1, W2, b2, …
        x : tensor [n, d]
            Of the parameters' dtype; n may be 0.

        Returns
        -------
        u : tensor [n, m]

        Raises
        ------
        InputError
            Another number of parameters, or another shape or dtype of x.
        """
        self._check_points(x)
        return self.interpret(parameters, x, Asked())[0]

    def jet(
        self,
        parameters: Sequence[Tensor],
        x: Tensor,
        second: npt.ArrayLike,
        record_of: RecordOf | None = None,
        *,
        higher: Sequence[Any] = (),
    ) -> tuple[Tensor, ...]:
        """Compute value, first derivatives and operators up to order four by Taylor propagation.

        Pure and local.

        Parameters
        ----------
        parameters, x : as of `apply`
        record_of : callable, optional
            Makes a record of each dense layer's products.
        second : array [K, d, d]
            Symmetric coefficient matrices C_k of the operators
            L_k = Σ_ij C_k[i,j] ∂²/∂x_i∂x_j; K may be 0.
        higher : sequence of Q mappings {axes: coefficient}
            Operators H_q = Σ c ∂^axes, each of third or of fourth order, such as
            ``{(0, 0, 0): 1.0}``; Q may be 0.

        Returns
        -------
        u : tensor [n, m]
        du : tensor [n, m, d]
        L : tensor [n, m, K]
        H : tensor [n, m, Q]
            Not where Q is 0.

        Raises
        ------
        InputError
            As `apply`, or `second` has another shape, or `higher` is something else.

        Examples
        --------
        >>> import numpy as np, tensorflow as tf
        >>> from sciml_par.networks import MLP
        >>> model = MLP(2, 1)
        >>> laplacian = np.eye(2)[None]
        >>> u, du, L = model.jet(model.trainable_variables, tf.zeros([5, 2]), laplacian)
        >>> u.shape, du.shape, L.shape
        (TensorShape([5, 1]), TensorShape([5, 1, 2]), TensorShape([5, 1, 1]))
        """
        self._check_points(x)
        name, d = type(self).__name__, self.input_size
        matrices = np.asarray(second, dtype=np.float64)
        if matrices.ndim != 3 or matrices.shape[1:] != (d, d):
            raise InputError(
                f"{name}.jet: second must have the shape [K, {d}, {d}], got {list(matrices.shape)}"
            )
        operators = checked_operators(higher, d, f"{name}.jet")
        return self.interpret(parameters, x, Asked(matrices, operators, record_of))

    def _check_points(self, x: Tensor) -> None:
        if x.shape.rank != 2 or x.shape[1] not in (None, self.input_size):
            raise InputError(
                f"{type(self).__name__} expects points x of shape [n, {self.input_size}], got "
                f"{x.shape.as_list()}; a slice x[:, i:i+1] keeps both axes, x[:, i] does not"
            )
