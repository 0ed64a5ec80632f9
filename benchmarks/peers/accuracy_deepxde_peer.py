"""DeepXDE on PyTorch, as its documentation has it: Adam, then L-BFGS, with its defaults.

    python accuracy_deepxde_peer.py CASE.npz

Points and initial weights are those of the file; the last line of the output is JSON: rows of
iterations, seconds, loss and relative L2 error. Errors are measured between iterations of Adam, and
between the pieces of L-BFGS in which DeepXDE calls back; neither they nor the first iteration of
Adam, in which PyTorch loads what it needs, count in the seconds.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

os.environ["DDE_BACKEND"] = "pytorch"

import deepxde as dde  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402

RATE = 1e-3
SECONDS_BETWEEN_ERRORS = 0.5
PIECE = 100
"""Iterations of L-BFGS between two errors; PyTorch's keeps its memory over them."""

VISCOSITY, REYNOLDS = 0.01 / np.pi, 20.0

torch.set_default_device("cpu")
torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))


class Watch(dde.callbacks.Callback):
    """Errors along the way, and the end when the time is over."""

    def __init__(self, case: Any) -> None:
        super().__init__()
        self.rows: list[tuple[int, float, float, float]] = []
        self.first_iteration = 0.0
        self._test, self._exact = case["test"], case["exact"]
        self._most = float(case["seconds"])
        self._seconds, self._since, self._counted = 0.0, time.perf_counter(), False

    @property
    def over(self) -> bool:
        return self._seconds >= self._most

    def on_batch_end(self) -> None:
        spent = time.perf_counter() - self._since
        if not self._counted:
            self._counted, self.first_iteration, spent = True, spent, 0.0
        self._seconds += spent
        if self._seconds >= self.rows[-1][1] + SECONDS_BETWEEN_ERRORS or self.over:
            self.record()
        self.model.stop_training = self.over
        self._since = time.perf_counter()

    def on_train_begin(self) -> None:
        """Start a phase; before the first, check that the loss is that of the engine."""
        if not self.rows:
            self.record()
        self._since = time.perf_counter()

    def record(self) -> None:
        model = self.model
        difference = model.predict(self._test) - self._exact
        error = np.linalg.norm(difference) / np.linalg.norm(self._exact)
        steps = int(model.train_state.step)
        self.rows.append((steps, self._seconds, loss_of(model), float(error)))


def loss_of(model: Any) -> float:
    state = model.train_state
    losses = model.outputs_losses_train(state.X_train, state.y_train, state.train_aux_vars)[1]
    return float(losses.sum())


def model_of(case: Any) -> tuple[Any, list[float]]:
    """Build a model with the points and initial weights of the case, and its loss weights."""
    name, dimension = str(case["problem"]), case["interior"].shape[1]
    # DeepXDE draws no points from the domain here.
    lower, upper = CORNERS.get(name, ([0] * dimension, [1] * dimension))
    geometry: Any = dde.geometry.Hypercube(lower, upper)
    if dimension == 1:
        geometry = dde.geometry.Interval(lower[0], upper[0])
    conditions, factors = [], [1.0] * (3 if name == "Kovasznay" else 1)
    parts = (numbered(case, part) for part in ("x", "value", "components", "weight"))
    for x, values, components, weight in zip(*parts, strict=True):
        for column, component in enumerate(components):
            value = values[:, column : column + 1]
            conditions.append(dde.icbc.PointSetBC(x, value, component=int(component)))
            factors.append(float(weight))
    drawn = {"num_domain": 0, "num_boundary": 0, "anchors": case["interior"]}
    data = dde.data.PDE(geometry, EQUATIONS[name], conditions, **drawn)
    weights = numbered(case, "weights")
    net = dde.nn.FNN([dimension, *(len(bias) for bias in weights[1::2])], "tanh", "Glorot normal")
    for layer, kernel, bias in zip(net.linears, weights[0::2], weights[1::2], strict=True):
        layer.weight.data.copy_(torch.from_numpy(kernel.T.copy()))
        layer.bias.data.copy_(torch.from_numpy(bias))
    if case["built_in"]:
        net.apply_output_transform(TRANSFORMS[name])
    return dde.Model(data, net), factors


def numbered(case: Any, name: str) -> list[Any]:
    return [case[f"{name}_{k}"] for k in range(len(case.files)) if f"{name}_{k}" in case.files]


def laplacian(x: Any, u: Any, component: int = 0) -> Any:
    """Δu_c: [n, 1]."""
    return sum(dde.grad.hessian(u, x, component=component, i=i, j=i) for i in range(x.shape[1]))


def poisson(x: Any, u: Any) -> Any:
    """In two dimensions and five."""
    if x.shape[1] == 2:
        f = 2 * np.pi**2 * torch.prod(torch.sin(np.pi * x), dim=1, keepdim=True)
    else:
        f = np.pi**2 * torch.sum(torch.cos(np.pi * x), dim=1, keepdim=True)
    return -laplacian(x, u) - f


def lecture(x: Any, u: Any) -> Any:
    """−u″ = 4π² sin 2πx."""
    return -laplacian(x, u) - 4 * np.pi**2 * torch.sin(2 * np.pi * x)


def burgers(x: Any, u: Any) -> Any:
    """u_t + u u_x − ν u_xx."""
    slope, change = dde.grad.jacobian(u, x, j=0), dde.grad.jacobian(u, x, j=1)
    return change + u * slope - VISCOSITY * dde.grad.hessian(u, x, i=0, j=0)


def kovasznay(x: Any, w: Any) -> list[Any]:
    """u·∇u + ∇p − Δu/Re in two components, and ∇·u."""

    def slope(component: int, axis: int) -> Any:
        return dde.grad.jacobian(w, x, i=component, j=axis)

    advection = [w[:, :1] * slope(c, 0) + w[:, 1:2] * slope(c, 1) for c in range(2)]
    momentum = [
        advection[c] + slope(2, c) - laplacian(x, w, component=c) / REYNOLDS for c in range(2)
    ]
    return [*momentum, slope(0, 0) + slope(1, 1)]


CORNERS = {
    "poisson, k = 2": ([-1], [1]),
    "Burgers": ([-1, 0], [1, 1]),
    "Kovasznay": ([-0.5, -0.5], [1, 1.5]),
}
EQUATIONS = dict(zip(("Poisson", *CORNERS), (poisson, lecture, burgers, kovasznay), strict=True))
TRANSFORMS = {
    "Poisson": lambda x, u: torch.prod(x * (1 - x), dim=1, keepdim=True) * u,
    "Burgers": lambda x, u: -torch.sin(np.pi * x[:, :1]) + x[:, 1:] * (1 - x[:, :1] ** 2) * u,
}


def main() -> None:
    case = np.load(sys.argv[1])
    dde.config.set_default_float(str(case["dtype"]))
    model, factors = model_of(case)
    watch = Watch(case)
    model.compile("adam", lr=RATE, loss_weights=factors, verbose=0)
    quiet = {"display_every": 10**9, "verbose": 0, "callbacks": [watch]}
    model.train(iterations=int(case["adam_steps"]), **quiet)
    ended = "its seconds are over"
    if not watch.over:
        dde.optimizers.config.LBFGS_options.update(
            iter_per_step=PIECE, fun_per_step=int(PIECE * 1.25), maxiter=10**9
        )
        model.compile("L-BFGS", loss_weights=factors, verbose=0)
        model.train(**quiet)
        ended = ended if watch.over else "L-BFGS has converged by its rule"
    watch.record()
    said = {"rows": watch.rows, "compile_seconds": watch.first_iteration, "ended": ended}
    print(json.dumps(said))


if __name__ == "__main__":
    main()
