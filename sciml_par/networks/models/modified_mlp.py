"""The modified multilayer perceptron, whose layers are gates between two encoders."""

from __future__ import annotations

from sciml_par.networks.layers.quiet_keras import keras
from sciml_par.networks.propagation.propagated_model import PropagatedModel
from sciml_par.networks.propagation.propagation import Propagated
from sciml_par.networks.propagation.weights_of import WeightsOf


@keras.saving.register_keras_serializable(package="sciml_par")
class ModifiedMLP(PropagatedModel):
    r"""A network whose hidden layers mix two encoders U and V of the input.

        U = σ(x W_U + b_U)        V = σ(x W_V + b_V)        h_1 = σ(x W_1 + b_1)
        z_k = σ(h_k W_{k+1} + b_{k+1})        h_{k+1} = (1 − z_k) ⊙ U + z_k ⊙ V        k = 1..D−1
        u = h_D W + b

    with D = depth (Wang, Teng and Perdikaris 2021, arXiv:2001.04536).

    Parameters
    ----------
    inputs, outputs, width, activation, seed, dtype, name : as of `MLP`
    depth : int
        D, at least 1.
    omega : float
        The activation is σ(omega z).
    embedding : FourierFeatures or PeriodicEmbedding, optional
        A first layer, whose output takes the place of x. The model has a copy of it.
    initial_weights : {"glorot", "he", "siren"}
        As of `MLP`.

    Raises
    ------
    InputError
        As `MLP`; or an embedding of another kind.

    Examples
    --------
    >>> from sciml_par.networks import FourierFeatures, ModifiedMLP
    >>> ModifiedMLP(2, 1, width=16, depth=3, embedding=FourierFeatures(8)).count_params()
    1393
    """

    _takes_scaled_inputs = True

    def _make(self) -> None:
        seen, width = self.embedded_size, self.width
        first = self.embedding is None
        self._u = self._dense("encoder_u", seen, width, first=first)
        self._v = self._dense("encoder_v", seen, width, first=first)
        self._hidden = [self._dense("hidden_1", seen, width, first=first)]
        self._hidden += [self._dense(f"hidden_{k}", width, width) for k in range(2, self.depth + 1)]
        self._output = self._dense("output", width, self.output_size)

    def propagate(self, of: WeightsOf, x: Propagated) -> Propagated:
        x = self.embed(of, x)
        u = of.dense(self._u, x).activate(self._activation)
        v = of.dense(self._v, x).activate(self._activation)
        h = of.dense(self._hidden[0], x).activate(self._activation)
        for layer in self._hidden[1:]:
            z = of.dense(layer, h).activate(self._activation)
            h = u + z * (v - u)
        return of.dense(self._output, h, last=True)
