"""One hidden layer of random units that stay as drawn; only the output layer is solved for."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._checks import checked_integer
from sciml_par._other_names import by_name
from sciml_par.networks.layers.initial_weights import checked_box
from sciml_par.networks.layers.model_arguments import checked_factor
from sciml_par.networks.layers.quiet_keras import keras
from sciml_par.networks.models.mlp import MLP

_DEFAULT_SCALE = {"sin": 4.0, "tanh": 3.0}


@keras.saving.register_keras_serializable(package="sciml_par")
class RandomFeatures(MLP):
    r"""A network u(x) = Σ_j c_j σ(w_j · (x − x_j)) + c_0 whose w_j and x_j stay as drawn.

    In coordinates that measure the box of the points in its sides, the components of w_j are
    uniform in [−scale, scale], and the centres x_j are uniform in the box. Only c is trained. The
    network is linear in c, so `LeastSquares` solves a linear equation in one step and a nonlinear
    one in a few (extreme learning machines; Dong and Li 2021, arXiv:2012.02895).

    Parameters
    ----------
    inputs, outputs : int
        Dimension d of the points, and number m of components of the field.
    features : int
        Number of hidden units.
    activation : {"sin", "tanh", …}
        One of `sciml_par.networks.ACTIVATIONS`.
    scale : float, optional
        Largest component of w_j, dimensionless: the phase across one side of the box, in radians
        for "sin". By default `sciml_par.train` with `LeastSquares` in mode "data" tries 2, 4, 8, 16
        and 32, and the residual at unseen points decides; elsewhere it is 4 for "sin" and 3 for
        others.
    seed : int
        Non-negative. The same seed gives the same features.
    box : pair (lower, upper) of sequences of d numbers, optional
        The corners of the box of the points; [−1, 1]^d by default. `sciml_par.train` gives it.
    dtype : {"float32", "float64"}
    name : str, optional
        Name of the Keras model.

    Raises
    ------
    InputError
        As `MLP`, or `scale` is not a positive number.

    Examples
    --------
    >>> from sciml_par.networks import RandomFeatures
    >>> model = RandomFeatures(2, 1, features=100)
    >>> sum(variable.shape.num_elements() for variable in model.trainable_variables)
    101
    """

    @by_name
    def __init__(
        self,
        inputs: int,
        outputs: int,
        *,
        features: int = 300,
        activation: str = "sin",
        scale: float | None = None,
        seed: int = 0,
        box: Any = None,
        dtype: str = "float64",
        name: str | None = None,
    ) -> None:
        super().__init__(
            inputs,
            outputs,
            width=checked_integer(features, "RandomFeatures: features", least=1),
            depth=1,
            activation=activation,
            seed=seed,
            dtype=dtype,
            name=name,
        )
        self.scale = None if scale is None else checked_factor("RandomFeatures", "scale", scale)
        corners = ([-1.0] * inputs, [1.0] * inputs) if box is None else box
        self.box = checked_box(corners, int(inputs))
        hidden, output = self._dense
        hidden.set_weights(_drawn(self.box, self.width, self._scale(), self.seed))
        output.set_weights([np.zeros(each.shape) for each in output.weights])

    @property
    def frozen_variables(self) -> list[Any]:
        """The variables of the hidden layer, which no training changes."""
        return list(self._dense[0].variables)

    def drawn(self, seed: int, features: int, most: int) -> list[Any]:
        """Return initial weights of other features, in the order of `variables` (local).

        Weights of zero follow, up to `most` features.
        """
        assert self.box is not None
        scale = self._scale() * (features / self.width) ** 0.5
        kernel, bias = _drawn(self.box, features, scale, seed)
        padding = (0, most - features)
        hidden = [np.pad(kernel, ((0, 0), padding)), np.pad(bias, padding)]
        return [*hidden, np.zeros((most, self.output_size)), np.zeros(self.output_size)]

    def _scale(self) -> float:
        return _DEFAULT_SCALE.get(self.activation, 3.0) if self.scale is None else self.scale

    def get_config(self) -> dict[str, Any]:
        assert self.box is not None
        config = {k: v for k, v in super().get_config().items() if k not in ("width", "depth")}
        box = [list(corner) for corner in self.box]
        return {**config, "features": self.width, "scale": self.scale, "box": box}


def _drawn(box: Any, features: int, scale: float, seed: int) -> list[npt.NDArray[np.float64]]:
    """Draw weights [d, features] and biases [features] of units whose centres lie in a box."""
    lower, upper = (np.array(corner) for corner in box)
    rng, d = np.random.default_rng(seed), len(lower)
    weights = scale * rng.uniform(-1.0, 1.0, (features, d)) / (upper - lower)
    centres = lower + (upper - lower) * rng.uniform(size=(features, d))
    return [weights.T, -np.sum(weights * centres, axis=1)]
