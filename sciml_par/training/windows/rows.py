"""Residuals and their derivatives by the output layers of windows, of this rank's points.

A residual depends on the jets z_q of u at its points; see `sciml_par.assembly.equations`. With the
columns φ_q of a window k, the same quantities of what its output layer C_k multiplies,

    z_q = Σ_k C_kᵀ φ_kq        ∂r_i/∂C_k[a, b] = Σ_q φ_kq[a, i] ∂r_i/∂z_qb[i]

where the columns are computed window by window, and not kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._partial_operators import matrix_of
from sciml_par._tensorflow import tf
from sciml_par.algebra.banded import Block
from sciml_par.assembly.asked import Asked, NotByJetsError, Request, Rows
from sciml_par.assembly.equations import Equations, Linearized
from sciml_par.assembly.system import add_products
from sciml_par.errors import InputError
from sciml_par.networks.propagation.propagation import Propagated
from sciml_par.training.members.stack import Stack
from sciml_par.training.points.feed import Batch

Array = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
Jets = list[list[Any]]
Tensor = Any

_HIGHEST = 2
"""The order of the derivatives that windows of random features have."""
_AT_ONCE = 4096
"""Points of one window whose columns are computed at once."""


@dataclass(frozen=True)
class WindowRows:
    """√w r [N] and J of this rank's points, by unknowns [N, q] and by windows.

    blocks : by the number of a window, its rows, and their derivatives by its c weights.
    """

    residuals: Array
    blocks: dict[int, Block]
    by_unknowns: Array


@contextmanager
def _with_advice() -> Iterator[None]:
    """Refuse residuals that are no functions of the jets at single points, as `train` does."""
    try:
        yield
    except NotByJetsError as refusal:
        raise InputError(
            f"LeastSquares with Windows: {refusal}, so that its derivatives are not "
            f"block-sparse. Take optimizer=LevenbergMarquardt(), or impose it at single points."
        ) from None


class RowsOfWindows:
    """Computes `WindowRows` of one training."""

    def __init__(self, stack: Stack) -> None:
        self._stack, self._asked = stack, dict[str, Asked]()
        self._columns = Columns(stack.network.model)

    @_with_advice()
    def rows(self, theta: Array, batch: Batch) -> WindowRows:
        """Return r and J at θ: [p] (local)."""
        equations, jets, p = self._at(theta, batch)
        terms, done = equations.linearized(jets, p), 0
        parts: dict[int, list[Block]] = {}
        for rows, term in zip(equations.rows, terms, strict=True):
            bad, x = ~np.isfinite(term.residuals).all(axis=0), rows.arrays[0].numpy()
            if bad.any():
                place = ", ".join(f"{v:.3g}" for v in x.reshape(len(x), -1)[np.argmax(bad)])
                raise InputError(
                    f"LeastSquares with Windows: the term {rows.term.name!r} is not finite at "
                    f"{bad.sum()} of {len(x)} points, such as ({place})."
                )
            for k, block in self._blocks(rows, term):
                parts.setdefault(k, []).append(Block(done + block.rows, block.columns))
            done += term.residuals.size
        by_unknowns = [each.by_unknowns.reshape(len(p), each.residuals.size).T for each in terms]
        return WindowRows(
            np.concatenate([np.empty(0), *(each.residuals.ravel() for each in terms)]),
            {k: _together(blocks) for k, blocks in sorted(parts.items())},
            np.vstack([np.empty((0, len(p))), *by_unknowns]),
        )

    def terms(self, theta: Array, batch: Batch) -> Array:
        """Return the terms of the loss at θ: [p] over this rank's points, [T] (local)."""
        found = dict.fromkeys([term.name for term in self._stack.terms], 0.0)
        for rows, r in self._residuals(theta, batch):
            found[rows.term.name] = float(np.vdot(r, r))
        return np.array(list(found.values()))

    @_with_advice()
    def _residuals(self, theta: Array, batch: Batch) -> Iterator[tuple[Rows, Array]]:
        equations, jets, p = self._at(theta, batch)
        return zip(equations.rows, equations.residuals(jets, p), strict=True)

    def _at(self, theta: Array, batch: Batch) -> tuple[Equations, Jets, Array]:
        """Return the terms that have points on this rank, jets at their requests, and unknowns."""
        equations, layout = self._equations(batch), self._stack.layout
        parts = np.split(theta, np.cumsum(layout.sizes)[:-1])
        weights = _joined(*(parts[i].reshape(layout.shapes[i]) for i in layout.linear or ()))
        jets = [
            [self._columns.jets(weights, request) for request in rows.requests]
            for rows in equations.rows
        ]
        return equations, jets, theta[len(theta) - layout.size_of_unknowns :]

    def _equations(self, batch: Batch) -> Equations:
        pairs = zip(self._stack.terms, batch, strict=True)
        some = [(term, rows) for term, rows in pairs if len(rows.arrays[0])]
        factors = [
            np.sqrt(np.broadcast_to(np.asarray(rows.weights, np.float64), len(rows.arrays[0])))
            for _, rows in some
        ]
        equations = Equations(
            self._stack.problem,
            [rows.arrays for _, rows in some],
            factors,
            self._asked,
            terms=[term for term, _ in some],
            probed=None,
        )
        if equations.order > _HIGHEST:
            raise InputError(
                f"LeastSquares with Windows: a residual asks for derivatives of order "
                f"{equations.order}, and its windows have those of order two. Take a network "
                f"without Windows, or make the equation a system, with ∂u/∂x as a further "
                f"component of outputs=."
            )
        return equations

    def _blocks(self, rows: Rows, term: Linearized) -> Iterator[tuple[int, Block]]:
        """Yield the derivatives of a term by the weights of each window that has points of it."""
        parts: dict[int, list[Any]] = {}
        for request, slopes in zip(rows.requests, term.by_jets, strict=True):
            used = np.any(slopes != 0.0, axis=(0, 2, 3))  # of the Q quantities
            windows = self._columns.partition.points_of_windows(request.x)
            for window, points in windows if used.any() else ():
                parts.setdefault(window, []).append((request, slopes[:, used], used, points))
        k, n = term.residuals.shape
        for window, asked in parts.items():
            all_points = reduce(np.union1d, (points for *_, points in asked))
            m = self._stack.problem.network_outputs
            block = np.zeros((self._columns.width(window), m, k, len(all_points)))
            for request, slopes, used, points in asked:
                for some, jets in self._columns.at(window, request, points, used):
                    at = np.searchsorted(all_points, some)
                    add_products(block, at, slopes[..., some], jets)
            numbers = (np.arange(k)[:, None] * n + all_points).ravel()
            yield window, Block(numbers, block.reshape(-1, len(numbers)))


def _joined(kernel: Array, bias: Array) -> Array:
    """Return output layers [K, w, m] with their biases [K, m] below, [K, w + 1, m]."""
    return np.concatenate([kernel, bias.reshape(len(kernel), 1, -1)], axis=1)


def _together(blocks: list[Block]) -> Block:
    """Return the rows of one window in all terms."""
    return Block(
        np.concatenate([block.rows for block in blocks]),
        np.concatenate([block.columns for block in blocks], axis=1),
    )


class Columns:
    """The columns of all windows of a model: what their output layers multiply, with derivatives.

    The windows are those of `partition`.
    """

    def __init__(self, model: Any) -> None:
        self._model, self.partition = model, model.partition
        self._traced: dict[Any, Any] = {}
        self._dtype = model.dtype_policy.name
        self._features = model.features_of_windows
        self._hidden = [
            (np.asarray(kernel), np.asarray(bias)) for kernel, bias in model.hidden_layers
        ]

    def width(self, window: int) -> int:
        """Return w + 1, the number of columns of a window, the last one for its bias."""
        return int(self._features[window]) + 1

    def at(
        self, window: int, request: Request, points: IntArray, used: Any = None
    ) -> Iterator[tuple[IntArray, list[Array]]]:
        """Yield each quantity of a window's columns at points in it, [w + 1, R], some at once.

        used : which of value, first derivatives and operators are wanted, all by default.
        """
        wanted = tuple(range(request.size) if used is None else map(int, np.flatnonzero(used)))
        w = self._features[window]
        hidden = [(kernel[window][:, :w], bias[window][:w]) for kernel, bias in self._hidden]
        key = (request.operators, wanted, w)
        if key not in self._traced:
            self._traced[key] = self._function(request, wanted, hidden)
        place = self.partition.place(window).astype(self._dtype)
        for first in range(0, len(points), _AT_ONCE):
            some = points[first : first + _AT_ONCE]
            found = self._traced[key](place, hidden, request.x[some].astype(self._dtype))
            yield some, [each.numpy() for each in found]

    def jets(self, weights: Array, request: Request) -> Array:
        """Return the jets of the model with output layers [K, w + 1, m]: [Q, m, n]."""
        found = np.zeros((request.size, weights.shape[2], len(request.x)), weights.dtype)
        if not np.any(weights):
            return found
        for window, points in self.partition.points_of_windows(request.x):
            w, layer = self.width(window), weights[window]
            layer = layer if w == len(layer) else np.vstack([layer[: w - 1], layer[-1:]])
            for some, quantities in self.at(window, request, points):
                for q, each in enumerate(quantities):
                    found[q][:, some] += layer.T @ each
        return found

    def _function(self, request: Request, wanted: tuple[int, ...], hidden: Any) -> Any:
        """Return what computes some quantities, for any number of points."""
        model, d = self._model, request.x.shape[1]
        place = model.partition.place(0).shape
        second = np.array([matrix_of(each, d) for each in request.operators]).reshape(-1, d, d)

        def quantities(place: Tensor, hidden: Any, x: Tensor) -> list[Tensor]:
            parts = model.features(place, hidden, Propagated.at(x, second)).asked()
            return [parts[q] for q in wanted]

        def spec(*shape: int | None) -> Any:
            return tf.TensorSpec(shape, self._dtype)

        layers = [(spec(*k.shape), spec(*b.shape)) for k, b in hidden]
        signature = [spec(*place), layers, spec(None, d)]
        # TensorFlow counts the traces of functions by their code, but not those of partials.
        return tf.function(partial(quantities), input_signature=signature, autograph=False)
