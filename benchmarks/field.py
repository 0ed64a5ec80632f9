"""Systems of ordinary equations that people bring: `solve` with its defaults, and `solve_ivp`.

    python benchmarks/field.py [NAME ...] [--tolerance 1e-6] [--seconds 60]

Each is written in the units of its source, as a person would. A line for each: the true relative
error of u, of its worst component, the estimated one, seconds of the processor, and those of
`scipy.integrate.solve_ivp` at about the same error. Writes benchmarks/results/field.json.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from _runner import RESULTS, measure, parse
from scipy.integrate import solve_ivp

import sciml_par as sp
from sciml_par.evaluation import relative_l2_error
from sciml_par.problems import Initial, Problem, Time, derivative


class System(NamedTuple):
    """y' = f(y, t), y(0) = start, until a time; `rates` takes NumPy or TensorFlow for exp, …"""

    rates: Callable[..., list[Any]]
    start: tuple[float, ...]
    end: float
    stiff: bool = False


def predators(y: Any, t: Any, m: Any) -> list[Any]:
    return [1.1 * y[0] - 0.4 * y[0] * y[1], 0.1 * y[0] * y[1] - 0.4 * y[1]]


def lorenz(y: Any, t: Any, m: Any) -> list[Any]:
    return [10 * (y[1] - y[0]), y[0] * (28 - y[2]) - y[1], y[0] * y[1] - 8 / 3 * y[2]]


def van_der_pol(y: Any, t: Any, m: Any) -> list[Any]:
    return [y[1], 1000 * (1 - y[0] ** 2) * y[1] - y[0]]


def robertson(y: Any, t: Any, m: Any) -> list[Any]:
    a, b, c = 0.04 * y[0], 1e4 * y[1] * y[2], 3e7 * y[1] ** 2
    return [b - a, a - b - c, c]


def oregonator(y: Any, t: Any, m: Any) -> list[Any]:
    s, w, q = 77.27, 0.161, 8.375e-6
    a, b, c = y
    return [s * (b + a * (1 - q * a - b)), (c - (1 + a) * b) / s, w * (a - c)]


def hires(y: Any, t: Any, m: Any) -> list[Any]:
    pair = 280 * y[5] * y[7]
    return [
        -1.71 * y[0] + 0.43 * y[1] + 8.32 * y[2] + 0.0007,
        1.71 * y[0] - 8.75 * y[1],
        -10.03 * y[2] + 0.43 * y[3] + 0.035 * y[4],
        8.32 * y[1] + 1.71 * y[2] - 1.12 * y[3],
        -1.745 * y[4] + 0.43 * y[5] + 0.43 * y[6],
        -pair + 0.69 * y[3] + 1.71 * y[4] - 0.43 * y[5] + 0.69 * y[6],
        pair - 1.81 * y[6],
        -pair + 1.81 * y[6],
    ]


def brusselator(y: Any, t: Any, m: Any) -> list[Any]:
    return [1 + y[0] ** 2 * y[1] - 4 * y[0], 3 * y[0] - y[0] ** 2 * y[1]]


def sir(y: Any, t: Any, m: Any) -> list[Any]:
    new, recovered = 0.35 * y[0] * y[1] / 8.9e6, y[1] / 9
    return [-new, new - recovered, recovered]


def seir(y: Any, t: Any, m: Any) -> list[Any]:
    new = 0.5 * y[0] * y[2] / 1e6
    return [-new, new - y[1] / 5, y[1] / 5 - y[2] / 7, y[2] / 7]


def arenstorf(y: Any, t: Any, m: Any) -> list[Any]:
    moon, earth = 0.012277471, 1 - 0.012277471
    d1 = ((y[0] + moon) ** 2 + y[1] ** 2) ** 1.5
    d2 = ((y[0] - earth) ** 2 + y[1] ** 2) ** 1.5
    return [
        y[2],
        y[3],
        y[0] + 2 * y[3] - earth * (y[0] + moon) / d1 - moon * (y[0] - earth) / d2,
        y[1] - 2 * y[2] - earth * y[1] / d1 - moon * y[1] / d2,
    ]


def pendulum(y: Any, t: Any, m: Any) -> list[Any]:
    return [y[1], -9.81 / 0.25 * m.sin(y[0])]


def reactor(y: Any, t: Any, m: Any) -> list[Any]:
    """A stirred tank: mol/l and kelvins, minutes (Seborg, Edgar, Mellichamp, Example 2.5)."""
    rate = 7.2e10 * m.exp(-8750 / y[1]) * y[0]
    return [(1 - y[0]) - rate, (350 - y[1]) + 209.2 * rate + 2.092 * (300 - y[1])]


def batch(y: Any, t: Any, m: Any) -> list[Any]:
    """A -> B -> C in a heated vessel: mol/m³, kelvins, seconds."""
    first, second = (a * m.exp(-e / 8.314 / y[2]) for a, e in ((4e3, 2.1e4), (6.2e5, 4.2e4)))
    return [-first * y[0], first * y[0] - second * y[1], (350 - y[2]) / 600]


def rectifier(y: Any, t: Any, m: Any) -> list[Any]:
    """A diode, 1 kΩ and 10 µF at 50 Hz: volts and seconds."""
    current = 1e-9 * (m.exp((10 * m.sin(314.159265 * t) - y[0]) / 0.5) - 1)
    return [(current - y[0] / 1e3) / 1e-5]


def duffing(y: Any, t: Any, m: Any) -> list[Any]:
    return [y[1], 0.3 * m.cos(1.2 * t) - 0.2 * y[1] + y[0] - y[0] ** 3]


def decay(y: Any, t: Any, m: Any) -> list[Any]:
    """From radium-226 to lead-210: atoms and days, half-lives from 164 µs to 1,600 years."""
    lives = 584_400.0, 3.8235, 3.098 / 1440, 26.8 / 1440, 19.9 / 1440, 164e-6 / 86_400, 8_109.0
    fall = [np.log(2) / life * n for life, n in zip(lives, y, strict=True)]
    return [-fall[0], *(gain - loss for gain, loss in pairwise(fall))]


def enzyme(y: Any, t: Any, m: Any) -> list[Any]:
    """A substrate, an enzyme, the two together, and the product: nM and hours."""
    bound, back, made = 3.6 * y[0] * y[1], 360 * y[2], 360 * y[2]
    return [back - bound, back + made - bound, bound - back - made, made]


def tank(y: Any, t: Any, m: Any) -> list[Any]:
    """3 m of water drain through a hole of 5 cm², and then the tank is empty: seconds."""
    return [-0.6 * 5e-4 / 1.5 * m.sqrt(2 * 9.81 * m.maximum(y[0], 0.0))]


def rocket(y: Any, t: Any, m: Any) -> list[Any]:
    """Height, speed and mass: 40 s of thrust, drag in thinner and thinner air."""
    burns = m.where(t < 40, 0 * t + 1.0, 0 * t)
    drag = 0.5 * 1.225 * m.exp(-y[0] / 8500) * 0.5 * 0.07 * y[1] * m.abs(y[1])
    return [y[1], (20e3 * burns - drag) / y[2] - 9.81, -10 * burns]


SYSTEMS = {
    "lotka-volterra": System(predators, (10.0, 5.0), 100.0),
    "lorenz": System(lorenz, (1.0, 1.0, 1.0), 10.0),
    "van-der-pol": System(van_der_pol, (2.0, 0.0), 2000.0, stiff=True),
    "robertson": System(robertson, (1.0, 0.0, 0.0), 1e4, stiff=True),
    "oregonator": System(oregonator, (1.0, 2.0, 3.0), 360.0, stiff=True),
    "hires": System(hires, (1.0, *[0.0] * 6, 0.0057), 321.8122, stiff=True),
    "brusselator": System(brusselator, (1.5, 3.0), 20.0),
    "sir": System(sir, (8.9e6 - 50, 50.0, 0.0), 180.0),
    "seir": System(seir, (1e6 - 10, 0.0, 10.0, 0.0), 200.0),
    "arenstorf": System(arenstorf, (0.994, 0.0, 0.0, -2.00158510637908), 17.0652165601579625),
    "pendulum": System(pendulum, (2.0, 0.0), 10.0),
    "reactor": System(reactor, (0.5, 350.0), 10.0),
    "batch": System(batch, (1000.0, 0.0, 290.0), 3600.0),
    "rectifier": System(rectifier, (0.0,), 0.1, stiff=True),
    "duffing": System(duffing, (1.0, 0.0), 50.0),
    "decay": System(decay, (2.66e15, *[0.0] * 6), 30.0, stiff=True),
    "enzyme": System(enzyme, (2000.0, 10.0, 0.0, 0.0), 2.0, stiff=True),
    "tank": System(tank, (3.0,), 5400.0),
    "rocket": System(rocket, (0.0, 0.0, 600.0), 120.0),
}


COLUMNS = {
    "system": "name:<16",
    "true": "true:9.1e",
    "worst": "worst:9.1e",
    "estimated": "estimated:11.1e",
    "seconds": "seconds:9.1f",
    "solve_ivp": "ivp:11.2f",
}


def main() -> None:
    score(__doc__, SYSTEMS, COLUMNS, measured, file="field.json", tolerance=1e-6)


def score(doc: Any, names: Any, columns: Any, run: Any, *, file: str, tolerance: float) -> None:
    """Run the cases that the command line names, and count errors and claims that are wrong."""
    options = parse(doc, names=names, tolerance=tolerance, seconds=60.0)
    sp.init()
    cases = [{"name": name, "tolerance": options.tolerance} for name in options.names]
    runs = measure(cases, columns, partial(run, seconds=options.seconds), file=RESULTS / file)
    right = sum(run["true"] <= options.tolerance for run in runs)
    false = sum(run["estimated"] <= options.tolerance < run["true"] / 3 for run in runs)
    print(f"{right} of {len(runs)} within the tolerance, {false} called met falsely")


def solved(problem: Problem, tolerance: float, seconds: float) -> tuple[sp.Result, float]:
    """Return the result of `solve` in silence, and its seconds of the processor."""
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = sp.solve(problem, tolerance=tolerance, seconds=seconds, progress=False)
    return result, time.process_time() - began


def measured(name: str, tolerance: float, seconds: float) -> dict[str, float]:
    system = SYSTEMS[name]
    t = np.linspace(0, system.end, 2001)

    def integrated(rtol: float) -> tuple[Any, float]:
        began = time.process_time()
        method, size = "Radau" if system.stiff else "DOP853", max(1.0, *map(abs, system.start))
        rates = lambda t, y: np.array(system.rates(y, t, np))  # noqa: E731
        of = rates, (0, system.end), system.start, method, t
        found = solve_ivp(*of, rtol=rtol, atol=1e-6 * rtol * size).y.T
        return found, time.process_time() - began

    def equation(u: Any, t: Any) -> Any:
        y = tf.unstack(u(t)[:, None], axis=2)
        return derivative(u, t, "t") - tf.concat(system.rates(y, t, tf), axis=1)

    of = Time(0, system.end), equation
    problem = Problem(*of, conditions=[Initial(system.start)], outputs=len(system.start))
    result, used = solved(problem, tolerance, seconds)
    u = result.predict(t).mean
    exact, ivp = integrated(1e-12)[0], integrated(tolerance)[1]
    worst = np.linalg.norm(u - exact, axis=0) / np.linalg.norm(exact, axis=0)
    return {
        "true": relative_l2_error(u, exact),
        "worst": float(worst.max()),
        "estimated": float(result.error.relative),
        "seconds": used,
        "ivp": ivp,
    }


if __name__ == "__main__":
    main()
