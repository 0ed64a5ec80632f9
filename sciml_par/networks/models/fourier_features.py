"""Fourier features of random frequencies, as a first layer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from sciml_par._checks import checked_integer, is_positive
from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.networks.layers.initial_weights import BoxBounds
from sciml_par.networks.layers.model_arguments import keras_arguments
from sciml_par.networks.layers.quiet_keras import keras
from sciml_par.networks.propagation.waves import SIN, WaveLayer, Waves
from sciml_par.networks.propagation.weights_of import WeightsOf


@keras.saving.register_keras_serializable(package="sciml_par")
class FourierFeatures(WaveLayer):
    r"""γ(x) = (cos 2π x B, sin 2π x B), with random frequencies B from N(0, σ²).

    A first layer, for networks that resolve fine structures from the start (Tancik et al.
    2020, arXiv:2006.10739; for equations, Wang, Wang and Perdikaris 2021, arXiv:2012.10047). A wave
    has about σ periods over a unit of x. The frequencies stay as they are, unless the layer is made
    with trainable=True.

    Parameters
    ----------
    features : int
        Frequencies for each scale; the layer has two units for each of them.
    scale : float or sequence of floats
        σ > 0, in periods per unit of x. Several give as many frequencies for each.
    seed : int
        Of the frequencies. Members of an ensemble have the same ones where they have the same
        seed here, whatever the seed of their weights.
    trainable : bool
        Whether training changes the frequencies.
    dtype, name : as of any Keras layer.

    Raises
    ------
    InputError
        A number of features below 1, or a scale that is not a positive number.

    Examples
    --------
    >>> import numpy as np
    >>> from sciml_par.networks import FourierFeatures
    >>> layer = FourierFeatures(8, scale=[1.0, 5.0])
    >>> layer(np.zeros((3, 2), "float32")).shape
    TensorShape([3, 32])
    """

    def __init__(
        self,
        features: int,
        *,
        scale: float | Sequence[float] = 1.0,
        seed: int = 0,
        trainable: bool = False,
        dtype: Any = None,
        name: str | None = None,
    ) -> None:
        with keras_arguments("FourierFeatures"):
            super().__init__(trainable=trainable, dtype=dtype, name=name)
        self.features = checked_integer(features, "FourierFeatures: features", least=1)
        scales = tuple(scale) if isinstance(scale, Sequence | np.ndarray) else (scale,)
        if not scales or not all(is_positive(each) for each in scales):
            raise InputError(
                f"FourierFeatures: scale must be a number > 0, or several, in periods per unit of "
                f"x, got {scale!r}"
            )
        self.scales = tuple(float(each) for each in scales)
        self.seed: int = checked_integer(seed, "FourierFeatures: seed", least=0)

    def width_of(self, d: int) -> int:
        return 2 * self.features * len(self.scales)

    def build(self, input_shape: Any) -> None:
        """Draw the frequencies B: [d, F] for points [n, d]."""
        if hasattr(self, "frequencies"):
            return
        rng = np.random.default_rng(self.seed)
        d = self._dimension = int(input_shape[-1])
        drawn = [scale * rng.normal(size=(d, self.features)) for scale in self.scales]
        self.frequencies = self.add_weight(
            shape=(d, self.features * len(self.scales)),
            initializer=keras.initializers.Constant(np.concatenate(drawn, axis=1)),
            trainable=self.trainable,
            name="frequencies",
        )
        self.built = True

    def waves(self) -> Waves | None:
        if self.trainable_variables:
            return None
        return self._waves(np.asarray(self.frequencies, np.float64))

    def waves_with(self, of: WeightsOf) -> Waves:
        return self._waves(of(self.frequencies))

    def _waves(self, frequencies: Any) -> Waves:
        half = np.zeros(frequencies.shape[1])
        weight = 2 * math.pi * frequencies
        together = np.tile(weight, 2) if isinstance(weight, np.ndarray) else tf.tile(weight, [1, 2])
        return Waves(together, np.concatenate([half + math.pi / 2, half]), SIN)

    def box_of(self, box: BoxBounds) -> BoxBounds:
        """Return the corners of the box in which the layer's output lies (local)."""
        return (-1.0,) * self.units, (1.0,) * self.units

    def get_config(self) -> dict[str, Any]:
        own = {"features": self.features, "scale": list(self.scales), "seed": self.seed}
        return {**super().get_config(), **own}
