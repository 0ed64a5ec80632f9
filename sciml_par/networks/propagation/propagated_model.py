"""Keras models that are written once, on propagated quantities, for values and derivatives."""

from __future__ import annotations

from typing import Any

from sciml_par._other_names import by_name
from sciml_par.networks.layers.initial_weights import Drawn, checked_initial_weights
from sciml_par.networks.propagation.own_model import OwnModel


class PropagatedModel(OwnModel):
    """A Keras model whose subclasses write one function, `propagate`; to be subclassed.

    Parameters
    ----------
    inputs, outputs : int
        Dimension d of the points, and number m of components of the field.
    width, depth : int
        Units of a hidden layer, and how many of these or of blocks there are.
    activation : str
        One of `sciml_par.networks.ACTIVATIONS`.
    omega : float
        The activation is σ(omega z).
    embedding : FourierFeatures or PeriodicEmbedding, optional
        The first layer. The model has a copy of it.
    initial_weights : str
        "glorot", "he" or "siren".
    seed, dtype, name : as of `MLP`.
    """

    only_dense = True
    """Whether all that is trained behind the embedding is kernels and biases of dense layers."""

    @by_name
    def __init__(
        self,
        inputs: int,
        outputs: int,
        *,
        width: int = 16,
        depth: int = 2,
        activation: str = "tanh",
        omega: float = 1.0,
        embedding: Any = None,
        initial_weights: str = "glorot",
        seed: int = 0,
        dtype: str = "float32",
        name: str | None = None,
    ) -> None:
        checked_initial_weights(initial_weights, model=type(self).__name__, without_box=True)
        super().__init__(
            inputs,
            outputs,
            width=width,
            depth=depth,
            activation=activation,
            omega=omega,
            embedding=embedding,
            seed=seed,
            dtype=dtype,
            name=name,
        )
        self.initial_weights = initial_weights
        self._drawn = Drawn(initial_weights or "glorot", seed=self.seed, omega=self.omega)
        self._make()
        self.built = True

    def _make(self) -> None:
        """Make the layers, by `_dense`, and other weights."""
        raise NotImplementedError

    def records(self) -> PropagatedModel | None:
        """Return this model if only dense layers are trained, as a `DenseChain`; else None."""
        trained = [] if self.embedding is None else self.embedding.trainable_variables
        return self if self.only_dense and not trained else None

    def _dense(self, name: str, inputs: int, units: int, *, first: bool = False) -> Any:
        """Return a dense layer with its initial weights."""
        return self._built_layer(name, inputs, units, self._drawn.layer(inputs, first=first))

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "initial_weights": self.initial_weights}
