"""Random features of several kinds, alone or added to a trained network, to be solved for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sciml_par._tensorflow import import_module
from sciml_par.training.points.points import Points

Kind = tuple[str, float]
"""An activation and a scale, as of `sciml_par.networks.RandomFeatures`."""

_POINTS_PER_FEATURE = 2.5


@dataclass(frozen=True)
class Candidates:
    """Makes random features of kind k when it is called with ``seed=k``.

    Attributes
    ----------
    kinds : of the features.
    features : how many.
    drawn : seed of the features and of their points.
    base : a trained network that the features are added to; None for the features alone.
    """

    kinds: Sequence[Kind]
    features: int
    drawn: int
    base: Any = None

    def __call__(self, d: int, m: int, *, seed: int, dtype: str, box: Any) -> Any:
        models: Any = import_module("sciml_par.networks")
        activation, scale = self.kinds[seed]
        features = models.RandomFeatures(
            d,
            m,
            features=self.features,
            activation=activation,
            scale=scale,
            seed=self.drawn,
            box=box,
            dtype=dtype,
        )
        return features if self.base is None else models.Corrected(self.base, features)

    @property
    def points(self) -> Points:
        """As many as the features need."""
        number = int(_POINTS_PER_FEATURE * self.features)
        return Points(number, method="sobol", seed=self.drawn)

    def only(self, number: int, weights: tuple[float, ...] = ()) -> OneCandidate:
        """Return what makes the one of this number, whatever the seed of the training."""
        return OneCandidate(self, number, weights)


@dataclass(frozen=True)
class OneCandidate:
    """Makes one of the candidates, with the first of these weights, if any."""

    candidates: Candidates
    number: int
    weights: tuple[float, ...] = ()

    def __call__(self, d: int, m: int, *, seed: int, dtype: str, box: Any = None) -> Any:
        model, begin = self.candidates(d, m, seed=self.number, dtype=dtype, box=box), 0
        for variable in model.trainable_variables if self.weights else ():
            count = math.prod(variable.shape)
            variable.assign(np.reshape(self.weights[begin : begin + count], variable.shape))
            begin += count
        return model
