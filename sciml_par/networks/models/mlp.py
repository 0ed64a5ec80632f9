"""The multilayer perceptron: a Keras model with pure functions for compiled loops."""

from __future__ import annotations

from typing import Any

from sciml_par._other_names import by_name
from sciml_par.networks.layers.initial_weights import (
    CENTRES,
    check_initial_weights,
    checked_box,
    initializers_of,
)
from sciml_par.networks.layers.model_arguments import LAYER, checked_slopes
from sciml_par.networks.layers.quiet_keras import keras
from sciml_par.networks.propagation.own_model import OwnModel
from sciml_par.networks.propagation.propagation import Propagated
from sciml_par.networks.propagation.weights_of import WeightsOf


@keras.saving.register_keras_serializable(package="sciml_par")
class MLP(OwnModel):
    r"""A dense network u(x) = W_{D+1} σ(W_D … σ(W_1 x + b_1) … + b_D) + b_{D+1}.

    A plain Keras 3 model: it is called, compiled, saved and loaded as any other. Its weights exist
    from construction on, in the order W1, b1, W2, b2, …

    Parameters
    ----------
    inputs : int
        Dimension d of the points.
    outputs : int
        Number m of components of the field.
    width : int
        Neurons of a hidden layer.
    depth : int
        Hidden layers, at least 1.
    activation : str
        One of `sciml_par.networks.ACTIVATIONS`; the output layer is linear.
    seed : int
        Non-negative. The same seed gives the same weights; each layer has a separate seed.
    initial_weights : {"glorot", "centres", "he", "siren"}, optional
        "glorot": kernels are drawn by Glorot and Bengio's normal rule (2010, eq. 12 in its
        truncated normal form), biases are zero. "centres": the units of the first layer are
        σ(w·(x − x₀)), w of random directions and x₀, their centres, uniform in `box`; the larger
        its side, the smaller is w, so that the units of x do not matter. Later kernels are
        Glorot's, later hidden biases from U(−0.5, 0.5), and that of the output is zero. "he":
        kernels of variance 2 / w for w inputs (He et al. 2015, arXiv:1502.01852), biases are zero.
        "siren": for activation="sin", kernels from U(−1/w, 1/w) in the first layer and from
        U(−√(6/w)/omega, √(6/w)/omega) in the others (Sitzmann et al. 2020, arXiv:2006.09661,
        section 3.2), biases from U(−1/√w, 1/√w). By default "glorot", unless an optimizer of
        `sciml_par.train` prefers centres.
    box : pair (lower, upper) of sequences of d numbers, optional
        The corners of the box of the points x, or a `sciml_par.problems.Box`. "centres" needs it
        (behind an embedding, centres are in the box of what that gives), and no other initial
        weights depend on it. `sciml_par.train` gives it to networks that it makes.
    omega : float
        Layers are a ← σ(omega (a W + b)); that of a SIREN is 30 in its paper, for images.
    adaptive : {"layer", "unit"}, optional
        Layers are a ← σ(n s (a W + b)) with trained slopes s that begin at 1/n, one for each hidden
        layer or for each of its units (Jagtap, Kawaguchi and Karniadakis 2020,
        doi:10.1098/rspa.2020.0334, after doi:10.1016/j.jcp.2019.109136), n being `slope_factor`.
    slope_factor : float
        n, at least 1 in the papers; the larger, the faster slopes change.
    embedding : FourierFeatures or PeriodicEmbedding, optional
        A first layer, whose output takes the place of x. The model has a copy of it.
    dtype : {"float32", "float64"}
    name : str, optional
        Name of the Keras model.

    Raises
    ------
    InputError
        A size below 1, an unknown activation, a negative seed, another dtype, unknown initial
        weights, centres without a box, or an embedding of another kind.

    Examples
    --------
    >>> import numpy as np
    >>> from sciml_par.networks import MLP
    >>> model = MLP(1, 1, width=16, depth=2)
    >>> model(np.zeros((5, 1), "float32")).shape
    TensorShape([5, 1])
    >>> model.count_params()
    321
    """

    _takes_scaled_inputs = True

    @by_name
    def __init__(
        self,
        inputs: int,
        outputs: int,
        *,
        width: int = 16,
        depth: int = 2,
        activation: str = "tanh",
        seed: int = 0,
        initial_weights: str | None = None,
        box: Any = None,
        omega: float = 1.0,
        adaptive: str | None = None,
        slope_factor: float = 1.0,
        embedding: Any = None,
        dtype: str = "float32",
        name: str | None = None,
    ) -> None:
        slope_factor = checked_slopes(adaptive, slope_factor)
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
        bounds = None if box is None else checked_box(box, self.input_size)
        check_initial_weights(initial_weights, bounds, self.activation)
        self.initial_weights = initial_weights
        self.box = bounds if initial_weights == CENTRES else None
        self.adaptive, self.slope_factor = adaptive, slope_factor
        sizes = [self.embedded_size, *[self.width] * self.depth, self.output_size]
        numbers = range(1, self.depth + 1)
        names = [*(f"hidden_{k}" for k in numbers), "output"]
        each = zip(names, sizes[:-1], sizes[1:], initializers_of(self), strict=True)
        self._dense = [self._built_layer(*arguments) for arguments in each]
        shape = () if adaptive == LAYER else (self.width,)
        initial = keras.initializers.Constant(1 / slope_factor)
        self._slopes = [
            self.add_weight(shape=shape, initializer=initial, name=f"slope_{k}")
            for k in (numbers if adaptive else ())
        ]
        self.built = True

    @property
    def linear_variables(self) -> list[Any]:
        """The variables of the output layer, in which the network is linear."""
        return list(self._dense[-1].variables)

    def propagate(self, of: WeightsOf, x: Propagated) -> Propagated:
        a = self.embed(of, x)
        for number, layer in enumerate(self._dense[:-1]):
            if self._slopes:  # as part of the weights
                slope = self.slope_factor * of(self._slopes[number])
                a = a.dense(of(layer.kernel) * slope, of(layer.bias) * slope)
            else:
                a = of.dense(layer, a)
            a = a.activate(self._activation)
        return of.dense(self._dense[-1], a, last=True)

    def get_config(self) -> dict[str, Any]:
        slopes = {"adaptive": self.adaptive, "slope_factor": self.slope_factor}
        return {
            **super().get_config(),
            **({"initial_weights": self.initial_weights} if self.initial_weights else {}),
            **({"box": [list(corner) for corner in self.box]} if self.box else {}),
            **(slopes if self._slopes else {}),
        }
