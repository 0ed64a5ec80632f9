"""Evolution in one dimension that people bring: `solve` with its defaults, and spectral references.

    python benchmarks/evolution.py [NAME ...] [--tolerance 1e-5] [--seconds 60]

A line for each: the true relative error of u, the estimated one, and seconds of the processor. The
periodic ones are compared with Fourier series and exponential time differencing of fourth order
(Kassam and Trefethen 2005, SIAM J. Sci. Comput. 26), whose own error, from half the steps and
modes, is in the column "reference"; the others with exact solutions. Writes
benchmarks/results/evolution.json.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from _examples import problem_named
from field import score, solved
from references.spectral import etdrk4

from sciml_par.evaluation import relative_l2_error
from sciml_par.problems import Dirichlet, Initial, Interval, Periodic, Problem, Time, derivative


class Case(NamedTuple):
    """A problem on [lower, upper] × [0, end], with its solution or what Fourier series need."""

    problem: Problem
    exact: Callable[[Any], Any] | None = None  # x: [n, 2] -> u: [n, 1]
    linear: Callable[[Any], Any] | None = None  # wave numbers -> L of u' = L u + N(u): [m, n]
    others: Callable[[Any, Any], Any] | None = None  # u: [m, n], ∂/∂x of such -> N: [m, n]
    start: Callable[[Any, Any], Any] | None = None  # x, NumPy or TensorFlow -> the m components
    steps: int = 2_000


def periodic(
    lower: float, upper: float, end: float, equation: Any, start: Any, orders: int, outputs: Any = 1
) -> Problem:
    """Return u = start at t = 0, with derivatives up to `orders` alike at both ends."""
    at_begin = Initial(lambda x: tf.concat(start(x[:, :1], tf), axis=1))
    ends = Periodic("x", order=tuple(range(orders + 1)))
    of = Interval(lower, upper) * Time(0, end), equation
    return Problem(*of, conditions=[at_begin, ends], outputs=outputs)


def heat() -> Case:
    def exact(x: Any) -> Any:
        return np.sin(np.pi * x[:, :1]) * np.cos(x[:, 1:] / 5)

    def equation(u: Any, x: Any) -> Any:
        s, t = tf.sin(np.pi * x[:, :1]), x[:, 1:] / 5
        source = (0.1 * np.pi**2 * tf.cos(t) - tf.sin(t) / 5) * s
        return derivative(u, x, "t") - 0.1 * derivative(u, x, "x", "x") - source

    conditions = [Initial(exact), Dirichlet(0.0, on=["left", "right"])]
    return Case(Problem(Interval(0, 1) * Time(0, 100), equation, conditions=conditions), exact)


def front() -> Case:
    """Fisher's equation and its exact front (Ablowitz and Zeppetella 1979)."""
    d, r = 0.005, 3.0

    def exact(x: Any) -> Any:
        phase = np.sqrt(r / (6 * d)) * (x[:, :1] - 0.2) - 5 * r / 6 * x[:, 1:]
        return (1 + np.exp(phase)) ** -2

    def equation(u: Any, x: Any) -> Any:
        w = u(x)
        return derivative(u, x, "t") - d * derivative(u, x, "x", "x") - r * w * (1 - w)

    conditions = [Initial(exact), Dirichlet(exact, on=["left", "right"])]
    return Case(Problem(Interval(0, 3) * Time(0, 4), equation, conditions=conditions), exact)


def gray_scott() -> Case:
    feed, kill, diffusion = 0.04, 0.06, (2e-5, 1e-5)

    def start(x: Any, m: Any) -> list[Any]:
        bump = m.exp(-100 * (x - 0.5) ** 2)
        return [1 - 0.5 * bump, 0.25 * bump]

    def rates(a: Any, b: Any) -> list[Any]:
        return [feed * (1 - a) - a * b**2, a * b**2 - (feed + kill) * b]

    def equation(u: Any, x: Any) -> Any:
        w, spread = u(x), derivative(u, x, "x", "x") * tf.constant([diffusion], x.dtype)
        return derivative(u, x, "t") - spread - tf.concat(rates(w[:, :1], w[:, 1:]), axis=1)

    problem = periodic(0, 1, 100.0, equation, start, 1, ("a", "b"))
    linear = lambda k: -np.outer(diffusion, k**2)  # noqa: E731
    return Case(problem, None, linear, lambda w, _: np.stack(rates(*w)), start)


def kdv() -> Case:
    """Korteweg–de Vries, with two solitons."""

    def start(x: Any, m: Any) -> list[Any]:
        return [2.88 / m.cosh(1.2 * (x + 8)) ** 2 + 0.98 / m.cosh(0.7 * (x + 1)) ** 2]

    def equation(u: Any, x: Any) -> Any:
        w = u(x)
        return (
            derivative(u, x, "t") + 6 * w * derivative(u, x, "x") + derivative(u, x, "x", "x", "x")
        )

    problem = periodic(-15, 15, 2.0, equation, start, 2)
    others = lambda w, slope: -3 * slope(w**2)  # noqa: E731
    return Case(problem, None, lambda k: 1j * k[None] ** 3, others, start, 5_000)


def kuramoto_sivashinsky() -> Case:
    length = 22.0

    def start(x: Any, m: Any) -> list[Any]:
        z = 2 * np.pi * x / length
        return [m.cos(z) * (1 + m.sin(z))]

    def equation(u: Any, x: Any) -> Any:
        second, fourth = derivative(u, x, "x", "x"), derivative(u, x, "x", "x", "x", "x")
        return derivative(u, x, "t") + u(x) * derivative(u, x, "x") + second + fourth

    problem = periodic(0, length, 20.0, equation, start, 3)
    others = lambda w, slope: -slope(w**2) / 2  # noqa: E731
    return Case(problem, None, lambda k: (k**2 - k**4)[None], others, start)


def allen_cahn() -> Case:
    def start(x: Any, m: Any) -> list[Any]:
        return [0.3 * m.sin(2 * np.pi * x) - m.cos(np.pi * x)]

    def equation(u: Any, x: Any) -> Any:
        w = u(x)
        return derivative(u, x, "t") - 1e-3 * derivative(u, x, "x", "x") - 5 * (w - w**3)

    problem = periodic(-1, 1, 2.0, equation, start, 1)
    others = lambda w, _: 5 * (w - w**3)  # noqa: E731
    return Case(problem, None, lambda k: -1e-3 * k[None] ** 2, others, start)


def burgers() -> Case:
    known, viscosity = problem_named("burgers"), 0.01 / np.pi

    def equation(u: Any, x: Any) -> Any:
        carried = u(x) * derivative(u, x, "x")
        return derivative(u, x, "t") + carried - viscosity * derivative(u, x, "x", "x")

    begin = Initial(lambda x: -np.sin(np.pi * x[:, :1]))
    conditions = [begin, Dirichlet(0.0, on=["left", "right"])]
    problem = Problem(Interval(-1, 1) * Time(0, 1), equation, conditions=conditions)
    return Case(problem, known.exact)


def wave() -> Case:
    """Over twenty periods."""

    def exact(x: Any) -> Any:
        s, t = np.pi * x[:, :1], np.pi * x[:, 1:]
        return np.sin(s) * np.cos(t) + 0.5 * np.sin(3 * s) * np.cos(3 * t)

    def equation(u: Any, x: Any) -> Any:
        return derivative(u, x, "t", "t") - derivative(u, x, "x", "x")

    begin = Initial(lambda x: exact(np.column_stack([x[:, 0], 0 * x[:, 0]])), velocity=0.0)
    conditions = [begin, Dirichlet(0.0, on=["left", "right"])]
    return Case(Problem(Interval(0, 1) * Time(0, 40), equation, conditions=conditions), exact)


CASES = {
    "heat": heat,
    "front": front,
    "gray-scott": gray_scott,
    "kdv": kdv,
    "kuramoto-sivashinsky": kuramoto_sivashinsky,
    "allen-cahn": allen_cahn,
    "burgers": burgers,
    "wave": wave,
}
_TIMES = 20


def spectral(case: Case, steps: int, modes: int) -> tuple[Any, Any]:
    """Return points [n, 2], 128 at each of `_TIMES` times, and u at them, [n, m]."""
    domain = case.problem.domain
    (a, _), (b, end) = domain.lower, domain.upper
    x = a + (b - a) * np.arange(modes) / modes
    k = 2 * np.pi / (b - a) * np.fft.fftfreq(modes, 1 / modes)
    inside = np.abs(k) < 2 / 3 * np.abs(k).max()  # products of higher ones come back as lower ones
    linear, start = case.linear(k), np.fft.fft(np.stack(case.start(x, np)))

    def slope(w: Any) -> Any:
        return np.fft.ifft(1j * k * np.fft.fft(w)).real

    def others(v: Any) -> Any:
        w = np.fft.ifft(v.reshape(start.shape)).real
        return (inside * np.fft.fft(case.others(w, slope))).ravel()

    found = etdrk4(linear.ravel(), others, start.ravel(), end, steps)[:: steps // _TIMES][1:]
    u = np.fft.ifft(found.reshape(_TIMES, *start.shape)).real[..., :: modes // 128]
    t = end * np.arange(1, _TIMES + 1) / _TIMES
    points = np.column_stack([np.tile(x[:: modes // 128], _TIMES), np.repeat(t, 128)])
    return points, np.swapaxes(u, 1, 2).reshape(len(points), -1)


COLUMNS = {
    "problem": "name:<22",
    "true": "true:9.1e",
    "estimated": "estimated:11.1e",
    "seconds": "seconds:9.1f",
    "reference": "reference:11.1e",
}


def main() -> None:
    score(__doc__, CASES, COLUMNS, measured, file="evolution.json", tolerance=1e-5)


def measured(name: str, tolerance: float, seconds: float) -> dict[str, float]:
    case = CASES[name]()
    (result, used), own = solved(case.problem, tolerance, seconds), 0.0
    if case.exact is None:
        x, u = spectral(case, 2 * case.steps, 1024)
        own = relative_l2_error(spectral(case, case.steps, 512)[1], u)
    else:
        x = case.problem.domain.sample(4_000, seed=5)
        u = case.exact(x)
    return {
        "true": relative_l2_error(result.predict(x).mean, u),
        "estimated": float(result.error.relative),
        "seconds": used,
        "reference": own,
    }


if __name__ == "__main__":
    main()
