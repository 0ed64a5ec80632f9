"""Derivatives of every residual by a network's weights, from one reverse pass.

A dense layer has z_q = W a_q for each quantity q that Taylor propagation carries: the value, first
derivatives and operators, [w, n] with the points last. Where residual i depends on the quantities
at point i only, the reverse pass of Σ_i r_i with respect to all z_q gives for every point at once
δ_q[:, i] = ∂r_i/∂z_q[:, i], and

    ∂r_i/∂W[a, b] = Σ_q a_q[a, i] δ_q[b, i]        ∂r_i/∂b = δ_0[:, i]

This costs a gradient and the products, while a reverse pass for each residual would cost n of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from sciml_par._tape import is_watched, takes_higher
from sciml_par._tensorflow import tf
from sciml_par.networks.keras.network import Network
from sciml_par.problems.fields.answers import on_trial
from sciml_par.problems.fields.field import Field
from sciml_par.problems.problem import Problem
from sciml_par.training.loss.function_networks import functions_of
from sciml_par.training.loss.parameter_layout import ParameterLayout

Tensor = Any


class NotRecordedError(Exception):
    """A residual asks the network for something whose derivatives by weights are not recorded."""


class _Products(NamedTuple):
    """The products of one layer in one evaluation: inputs a_q: [w, n], outputs z_q: [w', n]."""

    layer: Any  # a `DenseLayer`
    inputs: Sequence[Tensor]
    outputs: Sequence[Tensor]


class RecordedLayers:
    """What a network's layers multiply while a residual is evaluated."""

    def __init__(self, tape: Any) -> None:
        self._tape = tape
        self._all: list[_Products] = []

    def field(
        self,
        problem: Problem,
        network: Network,
        parameters: Sequence[Tensor],
        unknowns: Mapping[str, Tensor] | None = None,
    ) -> Field:
        """Return the problem's field, of networks that are chains of layers, with a record."""
        weights, *of_functions, _ = network.parts(parameters)
        fields, first = [], len(weights)
        for other, own in zip(network.others, of_functions, strict=True):
            fields.append(self._of_network(other, own, first))
            first += len(own)
        functions = functions_of(problem, network, fields)
        plain = self._of_network(network, weights, 0)
        return problem.field(plain, unknowns={**(unknowns or {}), **functions} or None)

    def _of_network(self, network: Network, parameters: Sequence[Tensor], first: int) -> Field:
        """Return the field of one network, whose parameters begin with that of number `first`."""
        from sciml_par.networks.propagation.interpreted import Asked  # imports TensorFlow

        def answer(x: Tensor, second: Any = None, higher: Any = ()) -> Any:
            if higher and not takes_higher(network.chain.jet):
                raise NotRecordedError
            if on_trial():
                return network.interpret(parameters, x, Asked(second, higher))
            if is_watched(x):  # a tape there goes through W as well, which is not recorded
                raise NotRecordedError
            asked = Asked(second, higher, self._record_of).behind(first)
            return network.interpret(parameters, x, asked)

        return Field(lambda x: answer(x)[0], jet=answer)

    def _record_of(self, layer: Any) -> Any:
        def record(inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> list[Tensor]:
            followed = [tf.identity(z) for z in outputs]
            for z in followed:
                self._tape.watch(z)
            self._all.append(_Products(layer, inputs, followed))
            return followed

        return record

    def derivatives(self, residual: Tensor, total: Tensor, layout: ParameterLayout) -> Tensor:
        """Return ∂r_i/∂θ of residuals r: [n] whose sum is `total`: [p, n], or of fewer rows.

        Rows of parameters other than weights of the layers are zero; see `layout.rows`.
        """
        n = residual.shape[0]
        parts: list[list[Tensor]] = [[] for _ in layout.shapes]
        for place, products, windows in self.products(total, n, layout.frozen):
            if windows is not None:
                slots, count = windows.shape[0] // n, layout.shapes[place][0]
                flat = tf.reshape(products, [-1, slots, n])
                places = tf.reshape(windows, [slots, n])
                chosen = tf.one_hot(places, count, axis=0, dtype=products.dtype)
                products = tf.einsum("ksn,asn->kan", chosen, flat)  # by K windows from S
            parts[place].append(products)
        rows = [
            tf.reshape(tf.add_n(parts[i]), [-1, n])
            if parts[i]
            else tf.zeros([layout.sizes[i], n], residual.dtype)
            for i in layout.rows
        ]
        return tf.concat(rows, axis=0)

    def products(
        self, total: Tensor, n: int, frozen: Sequence[int] = ()
    ) -> list[tuple[int, Tensor, Tensor]]:
        """Return the place of each W and b, their derivatives, and the windows they belong to.

        total : Σ_i r_i of residuals r: [n]. The derivatives are [w, w', n] and [w', n], or have
        S n columns for S windows at each point, whose numbers are returned with them.
        """
        outputs = [list(each.outputs) for each in self._all]
        slopes = self._tape.gradient(total, outputs, unconnected_gradients="zero")
        found = []
        for each, deltas in zip(self._all, slopes, strict=True):
            layer, windows = each.layer, each.layer.windows
            columns = n if windows is None else windows.shape[0]
            if each.outputs[0].shape[1] != columns or columns % n:
                raise NotRecordedError
            if isinstance(layer.weight, int) and layer.weight not in frozen:
                products = [
                    a[:, None, :] * delta[None, :, :]
                    for a, delta in zip(each.inputs, deltas, strict=True)
                ]
                found.append((layer.weight, tf.add_n(products), windows))
            if isinstance(layer.bias, int) and layer.bias not in frozen:
                found.append((layer.bias, deltas[0], windows))
        return found

    def in_windows(self, total: Tensor, n: int, layout: ParameterLayout) -> tuple[Tensor, Tensor]:
        """Return derivatives by the parameters of the window of each column, and its number.

        They are [c, C] and [C] for C = S n columns of each evaluation of the network.
        """
        of_windows: dict[int, tuple[Tensor, dict[int, Tensor]]] = {}
        for place, products, windows in self.products(total, n, layout.frozen):
            if windows is None:
                raise NotRecordedError
            parts = of_windows.setdefault(id(windows), (windows, {}))[1]
            parts[place] = tf.reshape(products, [-1, windows.shape[0]])
        slopes = [
            tf.concat([parts[i] for i in sorted(parts)], axis=0) for _, parts in of_windows.values()
        ]
        numbers = [windows for windows, _ in of_windows.values()]
        return tf.concat(slopes, axis=1), tf.concat(numbers, axis=0)

    def separates_rows(self, residual: Tensor, n: int) -> Tensor:
        """Return whether row i of r: [k n] depends on the products of point i only; a boolean.

        Then a factor s_i of row i is a factor of δ_q[:, i], where a sum over other rows has others.
        Powers of two are such factors without any rounding.
        """
        k = residual.shape[0] // n
        rng = np.random.default_rng(0)
        factors = 2.0 ** (rng.permutation(n) % 16 - 8)
        each = np.tile(rng.normal(size=[k, 1]), [1, n])
        outputs = [z for record in self._all for z in record.outputs]
        of_rows, of_scaled = (
            self._tape.gradient(
                residual,
                outputs,
                tf.constant(np.ravel(given), residual.dtype),
                unconnected_gradients="zero",
            )
            for given in (each, each * factors)
        )
        numbers = np.finfo(residual.dtype.as_numpy_dtype)
        wrong = [tf.constant(False)]
        for delta, scaled in zip(of_rows, of_scaled, strict=True):
            slots = delta.shape[1] // n
            expected = delta * tf.constant(np.tile(factors, slots), delta.dtype)
            close = 1e3 * numbers.eps * tf.reduce_max(tf.abs(expected), axis=0)
            wrong.append(tf.reduce_any(tf.abs(scaled - expected) > close + 1e6 * numbers.tiny))
        return ~tf.reduce_any(tf.stack(wrong))
