"""Fields and boundary values that people bring, in their units: `solve` with its defaults.

    python benchmarks/people.py [NAME ...] [--tolerance 1e-3] [--seconds 60]

A line for each: the true relative error of u where its components mean something, the estimated
one, and seconds of the processor. References are closed forms, series, `scipy.integrate.solve_bvp`,
and finite volumes that `solve_ivp` takes through time, whose errors are far below the tolerance.
Writes benchmarks/results/people.json.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
from evolution import COLUMNS, Case
from field import score, solved
from references.spectral import chebyshev_points, differentiation_matrix, interpolation_matrix
from scipy.integrate import solve_bvp, solve_ivp
from scipy.interpolate import RegularGridInterpolator
from scipy.optimize import brentq
from scipy.special import ndtr

from sciml_par import problems as sp
from sciml_par.evaluation import relative_l2_error
from sciml_par.problems import Problem, derivative, laplacian

ENDS = ("left", "right")
Array = np.ndarray[Any, Any]


def collocated(rates: Any, ends: Any, x: Array, guess: Array) -> Any:
    """Return the first of y' = rates(x, y) with ends(y(a), y(b)) = 0, at x: [n, 1]."""
    found = solve_bvp(rates, ends, x, guess, tol=1e-8, max_nodes=100_000)
    assert found.success, found.message
    return lambda x: found.sol(x[:, 0])[:1].T


def by_volumes(faces: Array, end: float, start: Array, flux: Any, gains: Any) -> Any:
    """Return u of u_t = gains(u, −flux_x), where `flux` takes u in the cells to values at faces."""
    widths, t = np.diff(faces), end * np.linspace(0, 1, 401) ** 2
    of = lambda t, u: gains(u, -np.diff(flux(u)) / widths), (0, end), start  # noqa: E731
    options = {"method": "LSODA", "rtol": 1e-9, "atol": 1e-10 * np.abs(start).max()}
    u = solve_ivp(*of, t_eval=t, lband=1, uband=1, **options).y
    grid = (faces[1:] + faces[:-1]) / 2, np.sqrt(t / end)
    at = RegularGridInterpolator(grid, u, bounds_error=False, fill_value=None)
    return lambda x: at(np.column_stack([x[:, 0], np.sqrt(x[:, 1] / end)]))[:, None]


def bratu() -> Case:
    """Of its two solutions, that of less heat is meant."""
    theta = brentq(lambda z: np.sqrt(6) * np.cosh(z / 4) - z, 0, 4)
    exact = lambda x: 2 * np.log(np.cosh(theta / 4) / np.cosh((x - 0.5) * theta / 2))  # noqa: E731
    equation = lambda u, x: derivative(u, x, 0, 0) + 3 * tf.exp(u(x))  # noqa: E731
    return Case(Problem(sp.Interval(0, 1), equation, conditions=[sp.Dirichlet(0.0)]), exact)


def troesch() -> Case:
    n = 8.0
    rates = lambda x, y: np.array([y[1], n * np.sinh(n * y[0])])  # noqa: E731
    x = 1 - np.append(np.geomspace(1, 1e-5, 2000), 0)
    guess = np.exp(10 * (x - 1)) * np.array([[1], [10]])
    exact = collocated(rates, lambda a, b: np.array([a[0], b[0] - 1]), x, guess)
    conditions = [sp.Dirichlet(0.0, on="left"), sp.Dirichlet(1.0, on="right")]
    equation = lambda u, x: derivative(u, x, 0, 0) - n * tf.sinh(n * u(x))  # noqa: E731
    return Case(Problem(sp.Interval(0, 1), equation, conditions=conditions), exact)


def star() -> Case:
    """Lane and Emden's equation with the index 3, singular at the centre."""

    def equation(u: Any, r: Any) -> Any:
        return derivative(u, r, 0, 0) + 2 / r * derivative(u, r, 0) + u(r) ** 3

    rates = lambda r, y: [y[1], -2 / r * y[1] - y[0] ** 3]  # noqa: E731
    of = rates, (1e-4, 6.0), [1 - 1e-8 / 6, -1e-4 / 3]
    u = solve_ivp(*of, rtol=1e-10, atol=1e-12, dense_output=True).sol
    exact = lambda r: u(np.maximum(r[:, 0], 1e-4))[:1].T  # noqa: E731
    conditions = [sp.Dirichlet(1.0, on="left"), sp.Neumann(0.0, on="left")]
    return Case(Problem(sp.Interval(0, 6), equation, conditions=conditions), exact)


def junction() -> Case:
    """A p-n junction in silicon at 300 K without voltage: volts and micrometres."""
    thermal, intrinsic, doping = 0.02585, 1e10, 1e16  # volts, 1/cm³
    charge = 1.602e-19 / (11.7 * 8.854e-14) * 1e-8
    built_in = thermal * np.arcsinh(doping / (2 * intrinsic))

    def equation(phi: Any, x: Any) -> Any:
        fixed = tf.where(x < 0, -doping * tf.ones_like(x), doping * tf.ones_like(x))
        carriers = 2 * intrinsic * tf.sinh(phi(x) / thermal)
        return derivative(phi, x, 0, 0) - charge * (carriers - fixed)

    def rates(x: Any, y: Any) -> Any:  # of the right half: u is odd
        carriers = 2 * intrinsic * np.sinh(y[0] / thermal)
        return np.array([y[1], charge * (carriers - doping)])

    x = np.linspace(0, 1, 2000)
    guess = built_in * np.array([np.tanh(x / 0.2), 5 / np.cosh(x / 0.2) ** 2])
    half = collocated(rates, lambda a, b: np.array([a[0], b[0] - built_in]), x, guess)
    conditions = [sp.Dirichlet(-built_in, on="left"), sp.Dirichlet(built_in, on="right")]
    problem = Problem(sp.Interval(-1, 1), equation, conditions=conditions, outputs="phi")
    return Case(problem, lambda x: np.sign(x) * half(np.abs(x)))


def river() -> Case:
    """A spill that a river carries: µg/l, kilometres and days."""
    speed, spread, place, width = 20.0, 3.0, 15.0, 2.0

    def exact(x: Any) -> Any:
        s, off = width**2 + 2 * spread * x[:, 1:], x[:, :1] - place - speed * x[:, 1:]
        return 80 * width / np.sqrt(s) * np.exp(-(off**2) / (2 * s))

    def equation(c: Any, x: Any) -> Any:
        carried = speed * derivative(c, x, "x")
        return derivative(c, x, "t") + carried - spread * derivative(c, x, "x", "x")

    begin = sp.Initial(lambda x: 80 * np.exp(-((x[:, :1] - place) ** 2) / (2 * width**2)))
    conditions = [begin, sp.Dirichlet(0.0, on="left"), sp.Neumann(0.0, on="right")]
    of = sp.Interval(0, 120) * sp.Time(0, 3), equation
    return Case(Problem(*of, conditions=conditions), exact)


def wound() -> Case:
    """Fisher's equation: cells close a gap; cells/mm², millimetres and hours."""
    spread, growth, most = 0.02, 0.08, 1500.0
    start = lambda x: most * ndtr((4 - x) / 0.5)  # noqa: E731

    def equation(u: Any, x: Any) -> Any:
        grown = growth * u(x) * (1 - u(x) / most)
        return derivative(u, x, "t") - spread * laplacian(u, x, over="space") - grown

    faces = np.linspace(0, 20, 4001)
    flux = lambda u: -spread * np.pad(np.diff(u), 1) / 0.005  # noqa: E731
    gains = lambda u, comes: comes + growth * u * (1 - u / most)  # noqa: E731
    exact = by_volumes(faces, 150.0, start((faces[1:] + faces[:-1]) / 2), flux, gains)
    conditions = [sp.Initial(lambda x: start(x[:, :1])), sp.Neumann(0.0, on=ENDS)]
    of = sp.Interval(0, 20) * sp.Time(0, 150), equation
    return Case(Problem(*of, conditions=conditions), exact)


def wall() -> Case:
    """24 cm of brick and 10 cm of wool; frost comes: watts, metres, °C and hours."""
    k, heat, joint, h = (0.8, 0.04), (1700 * 840 / 3600, 30 * 1400 / 3600), 0.24, (8.0, 25.0)
    names = "brick", "wool"
    where = (lambda x: x[:, 0] < joint), (lambda x: x[:, 0] > joint)

    def layer(j: int) -> sp.Residual:
        def equation(T: Any, x: Any) -> Any:
            here = T[names[j]]
            return heat[j] * derivative(here, x, "t") - k[j] * derivative(here, x, "x", "x")

        return sp.Residual(equation, where=where[j])

    problem = Problem(
        sp.Interval(0, 0.34) * sp.Time(0, 48),
        [layer(0), layer(1)],
        conditions=[
            sp.Initial(20.0),
            sp.Robin(h[0], k[0], h[0] * 20.0, component="brick", on="left"),
            sp.Robin(h[1], k[1], h[1] * -10.0, component="wool", on="right"),
            sp.Interface(*names, at=("x", joint), k_left=k[0], k_right=k[1]),
        ],
        outputs=names,
        where=dict(zip(names, where, strict=True)),
    )
    faces, width = np.linspace(0, 0.34, 1701), 0.0002
    conducts, stores = (np.where(faces[1:] < joint + 1e-9, *each) for each in (k, heat))
    half = width / 2 / conducts
    resists = np.r_[1 / h[0], half] + np.r_[half, 1 / h[1]]
    flux = lambda T: -np.diff(np.r_[20, T, -10]) / resists  # noqa: E731
    exact = by_volumes(faces, 48.0, np.full(1700, 20.0), flux, lambda T, comes: comes / stores)
    return Case(problem, lambda x: np.repeat(exact(x), 2, axis=1))


def string() -> Case:
    """A plucked string of 65 cm with damping: metres and seconds."""
    speed, damping, length, height = 143.0, 20.0, 0.65, 0.004

    def equation(u: Any, x: Any) -> Any:
        inertia = derivative(u, x, "t", "t") + 2 * damping * derivative(u, x, "t")
        return inertia - speed**2 * derivative(u, x, "x", "x")

    def exact(x: Any) -> Any:
        t, n = x[:, 1:], np.arange(1, 400, 2)
        k = n * np.pi / length
        w = np.sqrt((speed * k) ** 2 - damping**2)
        swing = np.exp(-damping * t) * (np.cos(w * t) + damping / w * np.sin(w * t))
        terms = 32 * height / (n * np.pi) ** 3 * np.sin(k * x[:, :1]) * swing
        return terms.sum(axis=1, keepdims=True)

    bow = lambda x: 4 * height * x[:, :1] * (length - x[:, :1]) / length**2  # noqa: E731
    conditions = [sp.Initial(bow, velocity=0.0), sp.Dirichlet(0.0, on=ENDS)]
    of = sp.Interval(0, length) * sp.Time(0, 0.02), equation
    return Case(Problem(*of, conditions=conditions), exact)


def put() -> Case:
    """A put of a share at 100 €, over its logarithm, a year before expiry."""
    r, sigma, strike = 0.03, 0.25, 100.0

    def exact(x: Any) -> Any:
        y, t = x[:, :1], np.maximum(x[:, 1:], 1e-12)
        d = (y + (r + sigma**2 / 2) * t) / (sigma * np.sqrt(t))
        return strike * (np.exp(-r * t) * ndtr(sigma * np.sqrt(t) - d) - np.exp(y) * ndtr(-d))

    def equation(v: Any, x: Any) -> Any:
        drift = (r - sigma**2 / 2) * derivative(v, x, "x")
        spread = sigma**2 / 2 * derivative(v, x, "x", "x")
        return derivative(v, x, "t") - spread - drift + r * v(x)

    conditions = [
        sp.Initial(lambda x: strike * np.maximum(1 - np.exp(x[:, :1]), 0)),
        sp.Dirichlet(lambda x: strike * (np.exp(-r * x[:, 1:]) - np.exp(x[:, :1])), on="left"),
        sp.Dirichlet(0.0, on="right"),
    ]
    of = sp.Interval(-1.5, 1.5) * sp.Time(0, 1), equation
    return Case(Problem(*of, conditions=conditions), exact)


def strata() -> Case:
    """Darcy: sand over clay, metres and pascals; the pressure varies along the ground."""
    k, names, top, q = (1e-14, 1e-11), ("clay", "sand"), 2e4, np.pi / 50
    where = (lambda x: x[:, 1] < 4), (lambda x: x[:, 1] > 4)
    # p = cos qx times a sinh qy below, and top cosh q(y − 10) + b sinh q(y − 10) above.
    (s, c), (z, w) = ((np.sinh(q * y), np.cosh(q * y)) for y in (4, -6))
    a, b = np.linalg.solve([[s, -z], [k[0] * c, -k[1] * w]], [top * w, k[1] * top * z])

    def exact(x: Any) -> Any:
        y = q * x[:, 1:]
        above = top * np.cosh(y - 10 * q) + b * np.sinh(y - 10 * q)
        return np.cos(q * x[:, :1]) * np.hstack([a * np.sinh(y), above])

    def layer(j: int) -> tuple[sp.Residual, sp.Neumann]:
        darcy = sp.Residual(lambda p, x: k[j] / 1e-3 * laplacian(p[names[j]], x), where=where[j])
        return darcy, sp.Neumann(0.0, component=names[j], on=ENDS, where=where[j])

    equations, sides = zip(layer(0), layer(1), strict=True)
    conditions = [
        sp.Dirichlet(0.0, component="clay", on="bottom"),
        sp.Dirichlet(lambda x: top * np.cos(q * x[:, :1]), component="sand", on="top"),
        *sides,
        sp.Interface(*names, at=("y", 4.0), k_left=k[0], k_right=k[1]),
    ]
    means, of = dict(zip(names, where, strict=True)), (sp.Box([0, 0], [50, 10]), equations)
    return Case(Problem(*of, conditions=conditions, outputs=names, where=means), exact)


def room() -> Case:
    """Sound of 120 Hz in a room of 4 m by 3 m with rigid walls, by cosines."""
    k, size = 2 * np.pi * 120 / 343, (4.0, 3.0)

    def loud(x: Any) -> Any:
        return 10 * np.exp(-((x[:, :1] - 1) ** 2 + (x[:, 1:] - 1) ** 2) / 0.08)

    def exact(x: Any) -> Any:
        g, w = np.polynomial.legendre.leggauss(200)
        modes, parts = np.arange(40), []
        for axis, length in enumerate(size):
            at, n = (g + 1) * length / 2, np.pi * modes / length
            along = np.cos(np.outer(n, at)) @ (w * np.exp(-((at - 1) ** 2) / 0.08))
            parts.append((n, along * np.where(modes == 0, 0.5, 1), np.cos(x[:, [axis]] * n)))
        (kx, a, u), (ky, b, v) = parts
        p = 10 * np.outer(a, b) / (kx[:, None] ** 2 + ky**2 - k**2)
        return np.einsum("ni,ij,nj->n", u, p, v)[:, None]

    equation = sp.Residual(lambda p, x, f: laplacian(p, x) + k**2 * p(x) + f, data=loud)
    return Case(Problem(sp.Box([0, 0], size), equation, conditions=[sp.Neumann(0.0)]), exact)


def oscillator() -> Case:
    """The ground state of −ψ″/2 + x⁴ψ/4 = Eψ, from a guess of its energy; its sign is open."""
    x = 6 * chebyshev_points(80)
    second = np.linalg.matrix_power(differentiation_matrix(x / 6) / 6, 2)
    energies, modes = np.linalg.eig((np.diag(x**4 / 4) - second / 2)[1:-1, 1:-1])
    psi = np.pad(modes[:, energies.real.argmin()].real, 1)
    to = np.linspace(-6, 6, 4001)
    psi /= np.sqrt(np.sum((interpolation_matrix(x, to) @ psi) ** 2) * (to[1] - to[0]))
    equation = lambda u, x, *, E: -derivative(u, x, 0, 0) / 2 + (x**4 / 4 - E) * u(x)  # noqa: E731
    conditions = [sp.Dirichlet(0.0), sp.IntegralCondition(lambda u, x: u(x) ** 2, 1.0)]
    of, energy = (sp.Interval(-6, 6), equation), {"E": sp.Unknown(0.5)}
    problem = Problem(*of, conditions=conditions, unknowns=energy)
    return Case(problem, lambda z: np.abs(interpolation_matrix(x, z[:, 0]) @ psi)[:, None])


def battery() -> Case:
    """Lithium in a grain of 5 µm, charged by a constant flux: mol/m³, metres and seconds."""
    D, radius, flux, begin = 1e-14, 5e-6, 2e-5, 25_000.0
    ends = [((n + 1e-9) * np.pi, (n + 0.5 - 1e-9) * np.pi) for n in range(1, 300)]
    z = np.array([brentq(lambda z: np.sin(z) - z * np.cos(z), *each) for each in ends])

    def exact(x: Any) -> Any:
        s, t = np.maximum(x[:, :1] / radius, 1e-9), D * x[:, 1:] / radius**2
        modes = 2 * np.sin(z * s) / (s * z**2 * np.sin(z)) * np.exp(-(z**2) * t)
        total = 3 * t + s**2 / 2 - 0.3 - modes.sum(axis=1, keepdims=True)
        return begin + flux * radius / D * total

    def equation(c: Any, x: Any) -> Any:
        spread = derivative(c, x, "x", "x") + 2 / x[:, :1] * derivative(c, x, "x")
        return derivative(c, x, "t") - D * spread

    conditions = [sp.Initial(begin), sp.Neumann(0.0, on="left"), sp.Neumann(flux / D, on="right")]
    of = sp.Interval(0, radius) * sp.Time(0, 1800), equation
    return Case(Problem(*of, conditions=conditions), exact)


CASES: dict[str, Callable[[], Case]] = {
    each.__name__: each
    for each in (bratu, troesch, star, junction, river, wound, wall, string, put)
    + (strata, room, oscillator, battery)
}


def main() -> None:
    columns = {name: each for name, each in COLUMNS.items() if name != "reference"}
    score(__doc__, CASES, columns, measured, file="people.json", tolerance=1e-3)


def measured(name: str, tolerance: float, seconds: float) -> dict[str, float]:
    problem, exact = CASES[name]()[:2]
    result, used = solved(problem, tolerance, seconds)
    x = problem.domain.sample(4_000, seed=5)
    u, means = result.predict(x).mean, problem.means(x)
    if name == "oscillator":
        u = np.abs(u)
    return {
        "true": relative_l2_error(means * u, means * exact(x)),
        "estimated": float(result.error.relative),
        "seconds": used,
    }


if __name__ == "__main__":
    main()
