"""PyTorch: the whole step, gradient and Adam, compiled by torch.compile.

The residual comes in two forms, as in jax_peer.py: forward over reverse by torch.func, and the
Laplacian carried forward through the layers by hand.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from typing import Any

import torch
from _peer import BETA_1, BETA_2, EPSILON, LEARNING_RATE, Case, serve
from torch.func import grad, jvp

Tensor = torch.Tensor
Laplacian = Callable[[Sequence[Tensor], Tensor], Tensor]

DEVICE = os.environ.get("PEER_DEVICE", "cpu")


def on_device(array: Any) -> Tensor:
    return torch.from_numpy(array).to(DEVICE)


def network(parameters: Sequence[Tensor], x: Tensor) -> Tensor:
    """u at points [n, d], or at one point [d]: [n, 1], or [1]."""
    for w, b in zip(parameters[0:-2:2], parameters[1:-2:2], strict=True):
        x = torch.tanh(x @ w + b)
    return x @ parameters[-2] + parameters[-1]


def forward_over_reverse(parameters: Sequence[Tensor], x: Tensor) -> Tensor:
    """Δu: [n, 1]."""
    # Each row depends on its own point only, so that one derivative serves all points.
    slope = grad(lambda points: network(parameters, points).sum())
    rows = range(x.shape[1])
    along = [torch.zeros_like(x).index_fill(1, torch.tensor([i], device=x.device), 1) for i in rows]
    return sum(jvp(slope, (x,), (along[i],))[1][:, i : i + 1] for i in rows)


def forward_laplacian(parameters: Sequence[Tensor], x: Tensor) -> Tensor:
    """Δu: [n, 1]."""
    weight, bias, *hidden = parameters
    a = torch.tanh(x @ weight + bias)
    slope = 1 - a * a
    curvature = -2 * a * slope
    first = [slope * row for row in weight]
    laplacian = curvature * sum(row * row for row in weight)
    for weight, bias in zip(hidden[0:-2:2], hidden[1:-2:2], strict=True):
        a = torch.tanh(a @ weight + bias)
        dz, lz = [part @ weight for part in first], laplacian @ weight
        slope = 1 - a * a
        laplacian = slope * lz - 2 * a * slope * sum(part * part for part in dz)
        first = [slope * part for part in dz]
    return laplacian @ hidden[-2]


class TorchTraining:
    """A training, a call of a compiled function a step."""

    def __init__(self, case: Case, laplacian: Laplacian) -> None:
        torch.compiler.reset()
        self._data = tuple(on_device(a) for a in (case.x, case.f, case.boundary))
        shapes = [tuple(w.shape) for w in case.weights]
        sizes = [math.prod(shape) for shape in shapes]
        weight = case.weight
        flat = torch.cat([on_device(w).reshape(-1) for w in case.weights])

        def loss(flat: Tensor, x: Tensor, f: Tensor, boundary: Tensor) -> Tensor:
            parts = torch.split(flat, sizes)
            shaped = [p.reshape(s) for p, s in zip(parts, shapes, strict=True)]
            residual = laplacian(shaped, x) + f
            edge = network(shaped, boundary)
            return residual.square().mean() + weight * edge.square().mean()

        def step(number: Tensor, flat: Tensor, m: Tensor, v: Tensor, *data: Tensor) -> Any:
            gradient = grad(loss)(flat, *data)
            number = number + 1
            m = BETA_1 * m + (1 - BETA_1) * gradient
            v = BETA_2 * v + (1 - BETA_2) * gradient * gradient
            rate = LEARNING_RATE * torch.sqrt(1 - BETA_2**number) / (1 - BETA_1**number)
            return number, flat - rate * m / (torch.sqrt(v) + EPSILON), m, v

        number = torch.zeros_like(flat[0])
        self._state = (number, flat, torch.zeros_like(flat), torch.zeros_like(flat))
        self._loss = loss
        self._step = torch.compile(step, fullgraph=True, dynamic=False)

    def advance(self, steps: int) -> None:
        for _ in range(steps):
            self._state = self._step(*self._state, *self._data)
        if DEVICE != "cpu":
            torch.cuda.synchronize()

    def loss(self) -> float:
        return float(self._loss(self._state[1], *self._data))


if __name__ == "__main__":
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    serve(
        {
            "PyTorch compiled, forward over reverse": lambda case: TorchTraining(
                case, forward_over_reverse
            ),
            "PyTorch compiled, forward Laplacian": lambda case: TorchTraining(
                case, forward_laplacian
            ),
        },
        {"torch": torch.__version__},
    )
