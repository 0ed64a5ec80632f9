"""PirateNet: residual blocks that begin as the identity, and gates between two encoders."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.networks.layers.quiet_keras import keras
from sciml_par.networks.propagation.propagated_model import PropagatedModel
from sciml_par.networks.propagation.propagation import Propagated
from sciml_par.networks.propagation.weights_of import WeightsOf


@keras.saving.register_keras_serializable(package="sciml_par")
class PirateNet(PropagatedModel):
    r"""Physics-informed residual adaptive network of `depth` blocks of three layers each.

    With Φ the embedding of x, U = σ(Φ W_U + b_U), V = σ(Φ W_V + b_V) and h_1 = Φ, block l is

        f = σ(h_l W_1 + b_1)        z = f ⊙ U + (1 − f) ⊙ V
        g = σ(z W_2 + b_2)          z' = g ⊙ U + (1 − g) ⊙ V
        h_{l+1} = α_l σ(z' W_3 + b_3) + (1 − α_l) h_l

    and u = h_{L+1} W + b (Wang, Li, Chen and Perdikaris 2024, arXiv:2402.00326).
    Each α_l is trained and starts at 0, so that the network starts as a linear combination of the
    features Φ and becomes deep during training. The random weight factorization of the paper is
    not included.

    Parameters
    ----------
    inputs, outputs, width, activation, seed, dtype, name : as of `MLP`
    depth : int
        Number L of blocks.
    omega : float
        The activation is σ(omega z).
    embedding : FourierFeatures or PeriodicEmbedding, optional
        Φ, where it has `width` units; where it has another number, or there is none, a dense layer
        σ(x W + b) of `width` units follows it. The paper has `FourierFeatures(width // 2)`.
    initial_weights : {"glorot", "he", "siren"}
        As of `MLP`.

    Raises
    ------
    InputError
        As `MLP`; or an embedding of another kind.

    Examples
    --------
    >>> from sciml_par.networks import FourierFeatures, PirateNet
    >>> model = PirateNet(2, 1, width=16, depth=2, embedding=FourierFeatures(8, scale=0.3))
    >>> [float(alpha) for alpha in model.alphas]
    [0.0, 0.0]
    """

    only_dense = False
    _takes_scaled_inputs = True

    def _make(self) -> None:
        seen, width = self.embedded_size, self.width
        first = self.embedding is None
        alone = first or seen != width
        self._features = self._dense("features", seen, width, first=first) if alone else None
        self._u = self._dense("encoder_u", width, width)
        self._v = self._dense("encoder_v", width, width)
        self._blocks = [
            [self._dense(f"block_{block}_{k}", width, width) for k in (1, 2, 3)]
            for block in range(1, self.depth + 1)
        ]
        self.alphas = [
            self.add_weight(shape=(), initializer="zeros", name=f"alpha_{block}")
            for block in range(1, self.depth + 1)
        ]
        self._output = self._dense("output", width, self.output_size)

    def propagate(self, of: WeightsOf, x: Propagated) -> Propagated:
        return of.dense(self._output, self._before_output(of, x), last=True)

    def _before_output(self, of: WeightsOf, x: Propagated) -> Propagated:
        h = self.embed(of, x)
        if self._features is not None:
            h = of.dense(self._features, h).activate(self._activation)
        u = of.dense(self._u, h).activate(self._activation)
        v = of.dense(self._v, h).activate(self._activation)
        for (first, second, third), alpha in zip(self._blocks, self.alphas, strict=True):
            z = v + of.dense(first, h).activate(self._activation) * (u - v)
            z = v + of.dense(second, z).activate(self._activation) * (u - v)
            z = of.dense(third, z).activate(self._activation)
            h = h + (z - h).scaled(of(alpha))
        return h

    def fit_output(self, x: npt.ArrayLike, values: npt.ArrayLike) -> None:
        """Fit the last layer by least squares to values at some points (local).

        The physics-informed initialization of the paper: of initial or boundary
        values, measurements, or a solution of a simpler equation. The least norm is taken where
        the layer has more weights than there are values. Give the same on every rank.

        Parameters
        ----------
        x : array [n, d]
        values : array [n, m]

        Raises
        ------
        InputError
            Arrays of other shapes.

        Examples
        --------
        >>> import numpy as np
        >>> from sciml_par.networks import PirateNet
        >>> model, x = PirateNet(1, 1, width=32), np.linspace(-1, 1, 50)[:, None]
        >>> model.fit_output(x, np.sin(x))
        >>> bool(np.max(np.abs(model(x) - np.sin(x))) < 1e-2)
        True
        """
        points, wanted = np.asarray(x, np.float64), np.asarray(values, np.float64)
        shapes = (len(points), self.input_size), (len(points), self.output_size)
        if (points.shape, wanted.shape) != shapes:
            raise InputError(
                f"PirateNet.fit_output: expected x: [n, {self.input_size}] and values: "
                f"[n, {self.output_size}], got {list(points.shape)} and {list(wanted.shape)}"
            )
        given = tf.constant(points, self.dtype_policy.name)
        features = self._before_output(WeightsOf.now(), Propagated.values_at(given)).value
        columns = np.vstack([features.numpy().astype(np.float64), np.ones(len(points))]).T
        # What is not known better than by rounding is left at zero.
        small = np.finfo(self.dtype_policy.name).eps * len(columns)
        found = np.linalg.lstsq(columns, wanted, rcond=small)[0]
        self._output.kernel.assign(found[:-1])
        self._output.bias.assign(found[-1])
