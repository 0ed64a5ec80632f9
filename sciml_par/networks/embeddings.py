"""First layers that make waves of the coordinates: Fourier features, and periodic embeddings."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sciml_par._tensorflow import import_module, tf
from sciml_par.errors import InputError
from sciml_par.networks.activation import ACTIVATIONS, Activation
from sciml_par.networks.activation_forms import on_some_units
from sciml_par.networks.initial_weights import BoxBounds
from sciml_par.networks.propagation import Propagated
from sciml_par.networks.taylor import Layer

if TYPE_CHECKING:
    import keras
else:
    keras = import_module("keras")

FloatArray = npt.NDArray[np.float64]
ValueOf = Callable[[Any], Any]
"""Gives the tensor that a variable of a model stands for."""

_SIN = ACTIVATIONS["sin"]


class Waves(NamedTuple):
    """An embedding as a dense layer σ(x W + b): W [d, w] and b [w]."""

    weight: Any
    bias: FloatArray
    activation: Activation

    def layer(self, dtype: Any) -> Layer:
        """The same for Taylor propagation (local)."""
        weight, bias = (tf.cast(tf.convert_to_tensor(v), dtype) for v in self[:2])
        return Layer(weight, bias, self.activation)


@keras.saving.register_keras_serializable(package="sciml_par")
class FourierFeatures(keras.layers.Layer):
    r"""γ(x) = (cos 2π x B, sin 2π x B), with random frequencies B from N(0, σ²).

    A first layer, for networks that shall see fine structures from the beginning (Tancik et al.
    2020, arXiv:2006.10739; for equations, Wang, Wang and Perdikaris 2021, arXiv:2012.10047). A wave has about σ periods over a unit of x. The frequencies stay as they
    are, unless the layer is made with trainable=True.

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
        A number of features below 1, or a scale that is no positive number.

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
        super().__init__(trainable=trainable, dtype=dtype, name=name)
        self.features = _natural(features, "FourierFeatures: features")
        scales = (scale,) if isinstance(scale, Real) else tuple(scale)
        if not scales or not all(_is_positive(each) for each in scales):
            raise InputError(
                f"FourierFeatures: scale must be a number > 0, or several, in periods per unit of "
                f"x, got {scale!r}"
            )
        self.scales = tuple(float(each) for each in scales)
        if not isinstance(seed, Integral) or isinstance(seed, bool) or seed < 0:
            raise InputError(f"FourierFeatures: seed must be an integer ≥ 0, got {seed!r}")
        self.seed = int(seed)

    @property
    def units(self) -> int:
        """Width of the output."""
        return 2 * self.features * len(self.scales)

    def build(self, input_shape: Any) -> None:
        """Draw the frequencies B: [d, F] for points [n, d]."""
        if self.built:
            return
        rng = np.random.default_rng(self.seed)
        d = int(input_shape[-1])
        drawn = [scale * rng.normal(size=(d, self.features)) for scale in self.scales]
        self.frequencies = self.add_weight(
            shape=(d, self.features * len(self.scales)),
            initializer=keras.initializers.Constant(np.concatenate(drawn, axis=1)),
            trainable=self.trainable,
            name="frequencies",
        )
        self.built = True

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """x: [n, d] -> [n, 2F]."""
        return tf.transpose(self.propagate(live, Propagated.values_at(inputs)).value)

    def propagate(self, of: ValueOf, x: Propagated) -> Propagated:
        """The same of a propagated quantity (local)."""
        z = x.dense(2 * math.pi * of(self.frequencies))
        return Propagated.joined([z.shifted(math.pi / 2), z]).activate(_SIN)

    def waves(self) -> Waves | None:
        """The layer as a dense one of numbers; None where it is trained (local)."""
        if self.trainable_variables:
            return None
        return self._waves(np.asarray(self.frequencies, np.float64))

    def layer(self, of: ValueOf) -> Layer:
        """The layer for Taylor propagation, with these frequencies (local)."""
        frequencies = of(self.frequencies)
        return self._waves(frequencies).layer(frequencies.dtype)

    def _waves(self, frequencies: Any) -> Waves:
        half = np.zeros(frequencies.shape[1])
        weight = 2 * math.pi * frequencies
        together = np.tile(weight, 2) if isinstance(weight, np.ndarray) else tf.tile(weight, [1, 2])
        return Waves(together, np.concatenate([half + math.pi / 2, half]), _SIN)

    def box_of(self, box: BoxBounds) -> BoxBounds:
        """The corners of the box in which the layer's output lies (local)."""
        return (-1.0,) * self.units, (1.0,) * self.units

    def compute_output_shape(self, input_shape: Any) -> tuple[Any, int]:
        """[n, 2F]."""
        return (input_shape[0], self.units)

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments, as Keras saves them."""
        own = {"features": self.features, "scale": list(self.scales), "seed": self.seed}
        return {**super().get_config(), **own}


@keras.saving.register_keras_serializable(package="sciml_par")
class PeriodicEmbedding(keras.layers.Layer):
    r"""cos(2π k x_i / P_i) and sin(2π k x_i / P_i), k = 1..K, for the periodic axes i.

    What follows it is exactly periodic in these axes, with all its derivatives (Dong and Ni 2021,
    arXiv:2007.07442): a dense layer on it has units σ(Σ_k A_k cos(2πk x_i/P_i + φ_k)
    + …) with amplitudes and phases that are trained by its weights. Axes that are not periodic pass
    as they are. The units are the cosines, harmonic by harmonic, then the sines, then the axes that
    pass.

    Parameters
    ----------
    periods : mapping, or sequence of axes
        {axis: period}, an axis by its number from 0, or by its name where a domain is given. None
        for a period is the extent of the domain's box; so it is for all axes of a sequence. A
        period is in units of x.
    harmonics : int
        K; more than one where the solution has fine waves.
    domain : Box or pair (lower, upper), optional
        For names and extents.
    dtype, name : as of any Keras layer.

    Raises
    ------
    InputError
        No axis, an unknown name, a period that is no positive number, or no domain where one is
        needed.

    Examples
    --------
    >>> import keras
    >>> from sciml_par.networks import PeriodicEmbedding
    >>> from sciml_par.problems import Box
    >>> strip = Box([-1, 0], [1, 1], names=("x", "t"))
    >>> layer = PeriodicEmbedding(["x"], harmonics=2, domain=strip)
    >>> layer.periods
    {0: 2.0}
    >>> model = keras.Sequential([layer, keras.layers.Dense(8, "tanh"), keras.layers.Dense(1)])
    >>> bool(abs(model(np.array([[-1.0, 0.3]])) - model(np.array([[1.0, 0.3]]))) < 1e-6)
    True
    """

    def __init__(
        self,
        periods: Mapping[int | str, float | None] | Sequence[int | str],
        *,
        harmonics: int = 1,
        domain: Any = None,
        dtype: Any = None,
        name: str | None = None,
    ) -> None:
        super().__init__(dtype=dtype, name=name)
        self.periods = _checked_periods(periods, domain)
        self.harmonics = _natural(harmonics, "PeriodicEmbedding: harmonics")

    def build(self, input_shape: Any) -> None:
        """Check that points [n, d] have the axes."""
        d = int(input_shape[-1])
        if max(self.periods) >= d:
            raise InputError(
                f"PeriodicEmbedding: the periodic axis {max(self.periods)} is not one of the "
                f"points [n, {d}], whose axes are 0 to {d - 1}"
            )
        self._dimension = d
        self.built = True

    @property
    def units(self) -> int:
        """Width of the output; known when the layer is built."""
        return 2 * len(self.periods) * self.harmonics + self._dimension - len(self.periods)

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """x: [n, d] -> [n, w]."""
        return tf.transpose(self.propagate(live, Propagated.values_at(inputs)).value)

    def propagate(self, of: ValueOf, x: Propagated) -> Propagated:
        """The same of a propagated quantity (local)."""
        weight, bias, activation = self.waves()
        dtype = x.value.dtype
        return x.dense(tf.constant(weight, dtype), tf.constant(bias, dtype)).activate(activation)

    def waves(self) -> Waves:
        """The layer as a dense one of numbers (local)."""
        d, others = self._dimension, [i for i in range(self._dimension) if i not in self.periods]
        columns = [
            2 * math.pi * k / period * np.eye(d)[axis]
            for k in range(1, self.harmonics + 1)
            for axis, period in self.periods.items()
        ]
        weight = np.stack([*columns, *columns, *(np.eye(d)[i] for i in others)], axis=1)
        bias = np.zeros(weight.shape[1])
        bias[: len(columns)] = math.pi / 2
        periodic = [True] * (2 * len(columns)) + [False] * len(others)
        return Waves(weight, bias, on_some_units(_SIN, periodic))

    def layer(self, of: ValueOf) -> Layer:
        """The layer for Taylor propagation (local)."""
        return self.waves().layer(self.compute_dtype)

    def box_of(self, box: BoxBounds) -> BoxBounds:
        """The corners of the box in which the layer's output lies, for points in a box (local)."""
        others = [i for i in range(self._dimension) if i not in self.periods]
        waves = self.units - len(others)
        lower, upper = ([corner[i] for i in others] for corner in box)
        return (-1.0,) * waves + tuple(lower), (1.0,) * waves + tuple(upper)

    def compute_output_shape(self, input_shape: Any) -> tuple[Any, int]:
        """[n, w]."""
        count = len(self.periods)
        return (input_shape[0], 2 * count * self.harmonics + int(input_shape[-1]) - count)

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments, as Keras saves them."""
        # As pairs: keys that are numbers would come back from a file as texts.
        pairs = [[axis, period] for axis, period in self.periods.items()]
        return {**super().get_config(), "periods": pairs, "harmonics": self.harmonics}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> PeriodicEmbedding:
        """The layer, from what `get_config` gives."""
        periods = {int(axis): float(period) for axis, period in config["periods"]}
        others = {k: v for k, v in config.items() if k not in ("periods", "trainable")}
        return cls(periods, **others)


def live(variable: Any) -> Any:
    """What a Keras variable holds now, or what stands for it while Keras traces a model (local)."""
    return variable.value


def _checked_periods(periods: Any, domain: Any) -> dict[int, float]:
    """{number of the axis: period} in the order of the axes."""
    given = (
        dict(periods)
        if isinstance(periods, Mapping)
        else dict.fromkeys((periods,) if isinstance(periods, str | Integral) else periods)
    )
    if not given:
        raise InputError("PeriodicEmbedding: periods must name an axis at least, as in {0: 2.0}")
    found: dict[int, float] = {}
    for axis, period in given.items():
        number = _axis(axis, domain)
        period = _extent(number, domain) if period is None else period
        if not _is_positive(period):
            raise InputError(
                f"PeriodicEmbedding: the period of axis {axis!r} must be a number > 0, in units of "
                f"x, got {period!r}"
            )
        found[number] = float(period)
    return dict(sorted(found.items()))


def _axis(axis: Any, domain: Any) -> int:
    if isinstance(axis, Integral) and not isinstance(axis, bool) and axis >= 0:
        return int(axis)
    names = tuple(getattr(domain, "names", ()))
    if axis in names:
        return names.index(axis)
    known = f"the names of the domain are {', '.join(names)}" if names else "no domain is given"
    raise InputError(
        f"PeriodicEmbedding: an axis is a number from 0, or a name of the domain=; got {axis!r}, "
        f"and {known}"
    )


def _extent(axis: int, domain: Any) -> float | None:
    if domain is None:
        raise InputError(
            f"PeriodicEmbedding: axis {axis} has no period; give it, as in {{{axis}: 2.0}}, or the "
            f"domain whose extent it is: domain=problem.domain"
        )
    lower, upper = (domain.lower, domain.upper) if hasattr(domain, "lower") else domain
    lower, upper = np.atleast_1d(lower), np.atleast_1d(upper)
    if axis >= len(lower):
        raise InputError(f"PeriodicEmbedding: axis {axis} is not one of the domain's {len(lower)}")
    return float(upper[axis] - lower[axis])


def _natural(value: Any, what: str) -> int:
    if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
        raise InputError(f"{what} must be an integer of at least 1, got {value!r}")
    return int(value)


def _is_positive(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and 0 < value < math.inf
