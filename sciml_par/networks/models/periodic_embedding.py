"""A first layer behind which a network is exactly periodic."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Any

import numpy as np

from sciml_par._checks import checked_integer, is_integer, is_positive
from sciml_par.errors import InputError
from sciml_par.networks.layers.activation import on_some_units
from sciml_par.networks.layers.initial_weights import BoxBounds
from sciml_par.networks.layers.model_arguments import keras_arguments
from sciml_par.networks.layers.quiet_keras import keras
from sciml_par.networks.propagation.waves import SIN, WaveLayer, Waves


@keras.saving.register_keras_serializable(package="sciml_par")
class PeriodicEmbedding(WaveLayer):
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
        No axis, an unknown name, a period that is not a positive number, or no domain where one is
        needed.

    Examples
    --------
    >>> import keras
    >>> import numpy as np
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
        with keras_arguments("PeriodicEmbedding"):
            super().__init__(dtype=dtype, name=name)
        self.periods = _checked_periods(periods, domain)
        self.harmonics = checked_integer(harmonics, "PeriodicEmbedding: harmonics", least=1)

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

    def width_of(self, d: int) -> int:
        return 2 * len(self.periods) * self.harmonics + d - len(self.periods)

    def waves(self) -> Waves:
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
        return Waves(weight, bias, on_some_units(SIN, periodic))

    def box_of(self, box: BoxBounds) -> BoxBounds:
        """Return the corners of the box in which the layer's output lies (local)."""
        others = [i for i in range(self._dimension) if i not in self.periods]
        waves = self.units - len(others)
        lower, upper = ([corner[i] for i in others] for corner in box)
        return (-1.0,) * waves + tuple(lower), (1.0,) * waves + tuple(upper)

    def get_config(self) -> dict[str, Any]:
        # As pairs: keys that are numbers would come back from a file as texts.
        pairs = [[axis, period] for axis, period in self.periods.items()]
        return {**super().get_config(), "periods": pairs, "harmonics": self.harmonics}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> PeriodicEmbedding:
        periods: Any = {int(axis): float(period) for axis, period in config["periods"]}
        others = {k: v for k, v in config.items() if k not in ("periods", "trainable")}
        return cls(periods, **others)


def _checked_periods(periods: Any, domain: Any) -> dict[int, float]:
    """Return {number of the axis: period} in the order of the axes."""
    try:
        given = (
            dict(periods)
            if isinstance(periods, Mapping)
            else dict.fromkeys((periods,) if isinstance(periods, str | Integral) else periods)
        )
    except TypeError:
        raise InputError(
            f"PeriodicEmbedding: periods must be axes, as [0], or have a period for each, as "
            f"{{0: 2.0}}, got {periods!r}"
        ) from None
    if not given:
        raise InputError("PeriodicEmbedding: periods must name an axis at least, as in {0: 2.0}")
    found: dict[int, float] = {}
    for axis, asked in given.items():
        number = _axis(axis, domain)
        if number in found:
            raise InputError(f"PeriodicEmbedding: axis {number} has two periods in {periods!r}")
        period = _extent(number, domain) if asked is None else asked
        if not is_positive(period):
            raise InputError(
                f"PeriodicEmbedding: the period of axis {axis!r} must be a number > 0, in units of "
                f"x, got {period!r}"
            )
        found[number] = float(period)
    return dict(sorted(found.items()))


def _axis(axis: Any, domain: Any) -> int:
    if is_integer(axis) and axis >= 0:
        return int(axis)
    names = tuple(getattr(domain, "names", ()))
    if axis in names:
        return names.index(axis)
    known = f"the names of the domain are {', '.join(names)}" if names else "no domain is given"
    raise InputError(
        f"PeriodicEmbedding: an axis is a number from 0, or a name of the domain=; got {axis!r}, "
        f"and {known}"
    )


def _extent(axis: int, domain: Any) -> float:
    if domain is None:
        raise InputError(
            f"PeriodicEmbedding: axis {axis} has no period; give it, as in {{{axis}: 2.0}}, or the "
            f"domain whose extent it is: domain=problem.domain"
        )
    try:
        lower, upper = (domain.lower, domain.upper) if hasattr(domain, "lower") else domain
        lower, upper = np.atleast_1d(lower).astype(float), np.atleast_1d(upper).astype(float)
        if lower.ndim != 1 or lower.shape != upper.shape:
            raise ValueError
    except (TypeError, ValueError):
        raise InputError(
            f"PeriodicEmbedding: domain must be a domain with lower and upper corners, or a pair "
            f"of these, got {domain!r}"
        ) from None
    if axis >= len(lower):
        raise InputError(f"PeriodicEmbedding: axis {axis} is not one of the domain's {len(lower)}")
    return float(upper[axis] - lower[axis])
