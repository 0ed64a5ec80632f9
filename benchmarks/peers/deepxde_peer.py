"""DeepXDE (Lu et al. 2021, doi 10.1137/19M1274067) as its documentation has it, in one backend.

    python deepxde_peer.py BACKEND       tensorflow, jax or pytorch

The points are given as anchors and as a set of boundary points, so that they are those of the
other peers; a training is `Model.train`, and what it prints goes to standard error.
"""

from __future__ import annotations

import os
import sys
from typing import Any

BACKEND = sys.argv[1]
os.environ["DDE_BACKEND"] = BACKEND

import deepxde as dde  # noqa: E402
import numpy as np  # noqa: E402
from _peer import LEARNING_RATE, Case, serve  # noqa: E402

if BACKEND == "pytorch":
    import torch

    # DeepXDE would put its tensors on a GPU where there is one.
    torch.set_default_device("cpu")
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
elif BACKEND == "jax":
    import jax
    import jax.numpy as backend
else:
    import tensorflow as backend


class DeepXDETraining:
    def __init__(self, case: Case) -> None:
        dde.config.set_default_float(case.dtype)
        if BACKEND == "tensorflow":
            dde.config.enable_xla_jit()
        elif BACKEND == "jax":
            jax.config.update("jax_enable_x64", case.dtype == "float64")
        d = case.dimension
        geometry: Any = dde.geometry.Rectangle([0, 0], [1, 1])
        if d == 1:
            geometry = dde.geometry.Interval(-1, 1)
        edge = dde.icbc.PointSetBC(case.boundary, np.zeros([len(case.boundary), 1], case.dtype))
        data = dde.data.PDE(
            geometry, equation(d), edge, num_domain=0, num_boundary=0, anchors=case.x
        )
        widths = [d, *(len(b) for b in case.weights[1::2])]
        self._model = dde.Model(data, dde.nn.FNN(widths, "tanh", "Glorot normal"))
        weights = [1.0, case.weight]
        self._model.compile("adam", lr=LEARNING_RATE, loss_weights=weights, verbose=0)
        begin_with(self._model, case)

    def advance(self, steps: int) -> None:
        # The losses are shown, and the points that are for tests evaluated, at the end only.
        self._model.train(iterations=steps, display_every=10**9, verbose=0)

    def loss(self) -> float:
        return float(np.sum(self._model.losshistory.loss_train[-1]))


def equation(d: int) -> Any:
    """Return the residual −Δu − f, with f computed from x at each step, as in the documentation."""

    def second(u: Any, x: Any, i: int) -> Any:
        found = dde.grad.hessian(u, x, i=i, j=i)
        return found[0] if BACKEND == "jax" else found

    def f(x: Any) -> Any:
        wave, sine = np.pi, torch.sin if BACKEND == "pytorch" else backend.sin
        if d == 1:
            return 4 * wave**2 * sine(2 * wave * x)
        return 2 * wave**2 * sine(wave * x[:, 0:1]) * sine(wave * x[:, 1:2])

    def residual(x: Any, u: Any) -> Any:
        return -sum(second(u, x, i) for i in range(d)) - f(x)

    return residual


def begin_with(model: Any, case: Case) -> None:
    if BACKEND == "pytorch":
        for layer, (w, b) in zip(model.net.linears, pairs(case), strict=True):
            layer.weight.data.copy_(torch.from_numpy(w.T.copy()))
            layer.bias.data.copy_(torch.from_numpy(b))
    elif BACKEND == "jax":
        dense = {
            f"denses_{k}": {"kernel": backend.asarray(w), "bias": backend.asarray(b)}
            for k, (w, b) in enumerate(pairs(case))
        }
        known = model.params[0]["params"]
        if {n: {m: a.shape for m, a in v.items()} for n, v in known.items()} != {
            n: {m: a.shape for m, a in v.items()} for n, v in dense.items()
        }:
            raise SystemExit(f"DeepXDE names its weights otherwise: {list(known)}")
        model.net.params = {"params": dense}
        model.params = [model.net.params, model.params[1]]
        model.opt_state = model.opt.init(model.params)
    else:
        model.net(case.x[:1])  # which makes the variables
        for layer, (w, b) in zip(model.net.denses, pairs(case), strict=True):
            layer.set_weights([w, b])


def pairs(case: Case) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return kernel [k, l] and bias [l] of every layer."""
    return list(zip(case.weights[0::2], case.weights[1::2], strict=True))


if __name__ == "__main__":
    serve({f"DeepXDE on {BACKEND}": DeepXDETraining}, {"deepxde": dde.__version__})
