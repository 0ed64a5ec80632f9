"""Operators from pairs without an equation: what `learn` makes of 1,000, and 200 further ones.

    python benchmarks/pairs.py [--pairs 1000] [--seconds 120]

Burgers' equation u_t + u u_x = 0.01 u_xx on a circle of length 1, from u(., 0) to u(., 1) at 128
points. Starts have the covariance 625² (-Laplace + 25)^-4 and the mean 0; the solutions are those
of a Fourier code of 256 points. A line: the chosen method; seconds of the processor and of the wall
for `learn`; true relative L2 errors, mean and largest; the mean error of the kernel regression for
pairs left out; the part of truths in the 90 % band, of inputs inside of the data; and how many are
outside. Writes benchmarks/results/pairs.json.
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
from _runner import RESULTS, measure, parse

import sciml_par as sp
from sciml_par.errors import ResultWarning

NEW = 200


def burgers(count: int, seed: int, points: int = 128, steps: int = 400) -> tuple[Any, Any]:
    """Return starts and solutions at t = 1: [count, points] each.

    Fourier series of 2 n points, of which the highest third is cut from products; Runge and Kutta's
    fourth order behind the factor of the heat equation.
    """
    rng, n = np.random.default_rng(seed), 2 * points
    k = 2 * np.pi * np.arange(n // 2 + 1)
    c = rng.normal(size=(2, count, len(k)))
    u = n * 625 / (k**2 + 25) ** 2 * (c[0] + 1j * c[1]) / np.sqrt(2)
    u[:, [0, -1]] = 0
    start, h = np.fft.irfft(u, n), 1 / steps
    half, kept = np.exp(-0.01 * k**2 * h / 2), np.arange(len(k)) < n // 3

    def slope(v: Any) -> Any:
        return -0.5j * k * kept * np.fft.rfft(np.fft.irfft(v, n) ** 2)

    for _ in range(steps):
        first = slope(u)
        second = slope(half * (u + h / 2 * first))
        third = slope(half * u + h / 2 * second)
        fourth = slope(half**2 * u + h * half * third)
        middle = 2 * half * (second + third)
        u = half**2 * (u + h / 6 * first) + h / 6 * (middle + fourth)
    return start[:, ::2], np.fft.irfft(u, n)[:, ::2]


def measured(pairs: int, seconds: float) -> dict[str, Any]:
    """Learn from pairs, and answer others."""
    a, u = burgers(pairs + NEW, seed=0)
    began, wall = time.process_time(), time.perf_counter()
    operator = sp.learn(sp.Pairs(a[:pairs], u[:pairs]), seconds=seconds)
    used, waited = time.process_time() - began, time.perf_counter() - wall
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResultWarning)
        answer = operator(a[pairs:])
    truth = u[pairs:]
    difference = np.sqrt(np.mean((answer.mean - truth) ** 2, axis=1))
    errors = difference / np.sqrt(np.mean(truth**2, axis=1))
    inside = ~answer.outside
    return {
        "method": operator.method,
        "processor": used,
        "wall": waited,
        "mean": errors.mean(),
        "largest": errors.max(),
        "kernel": operator.left_out["kernel regression"].mean(),
        "held": float(np.mean((difference <= answer.band)[inside])),
        "outside": int(np.sum(~inside)),
    }


COLUMNS = {
    "pairs": "pairs:<8d",
    "method": "method:<24",
    "processor": "processor:8.0f",
    "wall": "wall:6.0f",
    "mean": "mean:9.1e",
    "largest": "largest:9.1e",
    "kernel": "kernel:9.1e",
    "in the band": "held:12.0%",
    "outside": "outside:8d",
}


def main() -> None:
    options = parse(__doc__, pairs=1000, seconds=120.0)
    sp.init()
    case = {"pairs": options.pairs, "seconds": options.seconds}
    measure([case], COLUMNS, measured, file=RESULTS / "pairs.json")


if __name__ == "__main__":
    main()
