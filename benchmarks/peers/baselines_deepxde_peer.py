"""DeepXDE on PyTorch with the settings of its examples: Adam, then L-BFGS, in single precision.

    python baselines_deepxde_peer.py CASE.npz

The file holds the name of the problem, points with the exact solution there and, for the inverse
problem, the observations. The last line of the output is JSON: seconds and the relative L2 error,
or the coefficient. The settings are those of these examples of DeepXDE 1.15:

    heat                examples/pinn_forward/heat.py
    burgers             examples/pinn_forward/Burgers.py
    poisson-2d          examples/pinn_forward/Poisson_Lshape.py, with 15,000 steps for 50,000
    inverse-diffusion   examples/pinn_inverse/diffusion_1d_inverse.py, with 20,000 steps for 50,000
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

torch.set_default_device("cpu")
torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))

STEPS = {"heat": 20_000, "burgers": 15_000, "poisson-2d": 15_000, "inverse-diffusion": 20_000}
DIFFUSIVITY, VISCOSITY = 0.1, 0.01 / np.pi


def main() -> None:
    case = np.load(sys.argv[1])
    name = str(case["name"])
    dde.config.set_random_seed(0)
    began = time.process_time()
    model, coefficient = model_of(name, case)
    sought = {} if coefficient is None else {"external_trainable_variables": coefficient}
    model.compile("adam", lr=1e-3, verbose=0, **sought)
    # The losses are shown, and test points evaluated, at the end only.
    model.train(iterations=STEPS[name], display_every=10**9, verbose=0)
    if coefficient is None:
        model.compile("L-BFGS", verbose=0)
        model.train(display_every=10**9, verbose=0)
    found = {"cpu": time.process_time() - began}
    if coefficient is None:
        error = np.linalg.norm(model.predict(case["x"]) - case["exact"])
        found["error"] = float(error / np.linalg.norm(case["exact"]))
    else:
        found["value"] = coefficient.item()
    print(json.dumps(found | {"with": f"DeepXDE {dde.__version__}, torch {torch.__version__}"}))


def model_of(name: str, case: Any) -> tuple[dde.Model, Any]:
    """Return the model of an example, and the coefficient that is sought."""
    if name == "poisson-2d":
        square = dde.geometry.Rectangle([0, 0], [1, 1])
        edge = dde.icbc.DirichletBC(square, lambda x: 0, lambda _, on: on)
        data = dde.data.PDE(square, poisson, edge, num_domain=1200, num_boundary=120)
        return dde.Model(data, dde.nn.FNN([2, *[50] * 4, 1], "tanh", "Glorot uniform")), None
    lower = -1 if name == "burgers" else 0
    domain = dde.geometry.GeometryXTime(
        dde.geometry.Interval(lower, 1), dde.geometry.TimeDomain(0, 1)
    )
    ends = dde.icbc.DirichletBC(domain, lambda x: 0, lambda _, on: on)
    start = dde.icbc.IC(domain, INITIAL[name], lambda _, on: on)
    if name == "inverse-diffusion":
        coefficient = dde.Variable(1.0)
        seen = dde.icbc.PointSetBC(case["places"], case["seen"], component=0)
        data = dde.data.TimePDE(
            domain, heat(coefficient), [ends, start, seen],
            num_domain=40, num_boundary=20, num_initial=10, anchors=case["places"],
        )  # fmt: skip
        network = dde.nn.FNN([2, *[32] * 3, 1], "tanh", "Glorot uniform")
        return dde.Model(data, network), coefficient
    equation = burgers if name == "burgers" else heat(DIFFUSIVITY)
    data = dde.data.TimePDE(
        domain, equation, [ends, start], num_domain=2540, num_boundary=80, num_initial=160
    )
    return dde.Model(data, dde.nn.FNN([2, *[20] * 3, 1], "tanh", "Glorot normal")), None


INITIAL = {
    "heat": lambda x: np.sin(np.pi * x[:, :1]) + 0.5 * np.sin(3 * np.pi * x[:, :1]),
    "burgers": lambda x: -np.sin(np.pi * x[:, :1]),
    "inverse-diffusion": lambda x: np.sin(np.pi * x[:, :1]),
}


def poisson(x: Any, u: Any) -> Any:
    """−Δu − 2π² sin πx sin πy."""
    source = 2 * np.pi**2 * torch.sin(np.pi * x[:, :1]) * torch.sin(np.pi * x[:, 1:])
    return -dde.grad.hessian(u, x, i=0, j=0) - dde.grad.hessian(u, x, i=1, j=1) - source


def heat(diffusivity: Any) -> Any:
    """Return the residual u_t − κ u_xx."""

    def residual(x: Any, u: Any) -> Any:
        return dde.grad.jacobian(u, x, j=1) - diffusivity * dde.grad.hessian(u, x, i=0, j=0)

    return residual


def burgers(x: Any, u: Any) -> Any:
    """u_t + u u_x − ν u_xx."""
    steepening = u * dde.grad.jacobian(u, x, j=0)
    return dde.grad.jacobian(u, x, j=1) + steepening - VISCOSITY * dde.grad.hessian(u, x, i=0, j=0)


if __name__ == "__main__":
    main()
