"""A page of NumPy for each problem: series, rational functions, and walks on spheres."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np
from _baselines_problems import CASES, REYNOLDS, Field, FloatArray, taylor_green
from _examples import problem_named
from references.spectral import (
    chebyshev_points,
    differentiation_matrix,
    etdrk4,
    in_time,
    interpolation_matrix,
)

CHUNK = 1_000_000
"""Points at which boundary values and sources are evaluated at once."""

NEAR = 1e-4
"""The distance from the boundary at which a walk ends."""

BATCH = 100
"""Walks from each point that are made at once."""


def poisson_box(name: str, dimension: int, degree: int) -> Field:
    """Solve −Δu = f in a cube by Chebyshev collocation and diagonalization along each axis.

    Lynch, Rice and Thomas (1964), doi:10.1007/BF01386067. The unknowns are (degree − 1)^d.
    """
    problem = problem_named(name)
    nodes = chebyshev_points(degree)
    second = 4 * np.linalg.matrix_power(differentiation_matrix(nodes), 2)[1:-1]
    rates, vectors = np.linalg.eig(second[:, 1:-1])
    back = np.linalg.inv(vectors)
    axes = [(nodes + 1) / 2] * dimension
    u = _on_grid(problem.exact, axes)
    inner = (slice(1, -1),) * dimension
    u[inner] = 0.0
    # Values on the boundary move to the right-hand side.
    right = _on_grid(source_of(name), [axis[1:-1] for axis in axes])
    for axis in range(dimension):
        faces = tuple(slice(None) if i == axis else slice(1, -1) for i in range(dimension))
        right += _along(second, u[faces], axis)
    modes = reduce(lambda t, axis: _along(back, t, axis), range(dimension), right)
    modes /= -reduce(np.add.outer, [rates] * dimension)
    u[inner] = reduce(lambda t, axis: _along(vectors, t, axis), range(dimension), modes)
    return lambda x: np.array([_at(u, nodes, 2 * point - 1) for point in x])[:, None]


def poisson_square(degree: int) -> Field:
    return poisson_box("poisson-2d", 2, degree)


def source_of(name: str) -> Field:
    exact = problem_named(name).exact
    factor = 2 * np.pi**2 if name == "poisson-2d" else np.pi**2
    return lambda x: factor * exact(x)


def _along(matrix: FloatArray, tensor: FloatArray, axis: int) -> FloatArray:
    return np.moveaxis(np.tensordot(matrix, tensor, axes=(1, axis)), 0, axis)


def _on_grid(function: Field, axes: list[FloatArray]) -> FloatArray:
    """Evaluate a function of points on a tensor grid, in chunks."""
    shape = [len(axis) for axis in axes]
    found = np.empty(np.prod(shape))
    for start in range(0, len(found), CHUNK):
        index = np.unravel_index(np.arange(start, min(start + CHUNK, len(found))), shape)
        points = np.stack([axis[i] for axis, i in zip(axes, index, strict=True)], axis=1)
        found[start : start + CHUNK] = function(points)[:, 0]
    return found.reshape(shape)


def _at(u: FloatArray, nodes: FloatArray, point: FloatArray) -> float:
    for row in interpolation_matrix(nodes, point):
        u = np.tensordot(row, u, axes=1)
    return float(u)


def l_shape(poles: int) -> Field:
    """Solve Δu = 0 in the L by rational functions with poles near every corner.

    Gopal and Trefethen (2019), SIAM J. Numer. Anal. 57, 2074–2094: u = Re Σ a_j d_j/(z − z_j) + Re
    p(z), where the poles z_j approach each corner from outside like exp(−4 (√n − √j)).
    """
    corners = np.array([0, -1j, -1 - 1j, -1 + 1j, 1 + 1j, 1])
    before, after = corners - np.roll(corners, 1), np.roll(corners, -1) - corners
    outwards = before / np.abs(before) - after / np.abs(after)
    outwards[0] *= -1  # The angle in the domain is more than π.
    outwards /= np.abs(outwards)
    distances = np.exp(-4 * (np.sqrt(poles) - np.sqrt(np.arange(1, poles + 1))))
    at = (corners[:, None] + outwards[:, None] * distances).ravel()
    sizes = np.tile(distances, 6)
    # Points on the sides, as dense near the corners as the poles are.
    steps = np.logspace(-16, 0, 12 * poles) / 2
    z = (corners[:, None] + after[:, None] * np.r_[steps, 1 - steps]).ravel()

    def functions(z: Any) -> FloatArray:
        rational = sizes / (z[:, None] - at)
        powers = (z[:, None] / np.sqrt(2)) ** np.arange(poles // 2 + 4)
        both = np.concatenate([rational, powers], axis=1)
        return np.concatenate([both.real, both.imag], axis=1)

    exact = problem_named("l-shape").exact
    values = exact(np.stack([z.real, z.imag], axis=1))
    # Without weights, the many points near a corner would dominate the sum of squares.
    near = np.abs(z[:, None] - corners).min(axis=1, keepdims=True) ** 0.5
    coefficients = np.linalg.lstsq(near * functions(z), near * values, rcond=1e-15)[0]
    return lambda x: functions(x[:, 0] + 1j * x[:, 1]) @ coefficients


def heat(degree: int) -> Field:
    """Solve u_t = 0.1 u_xx by Chebyshev collocation, exactly in time on its eigenvectors."""
    nodes = chebyshev_points(degree)
    second = 0.4 * np.linalg.matrix_power(differentiation_matrix(nodes), 2)[1:-1, 1:-1]
    rates, vectors = np.linalg.eig(second)
    start = problem_named("heat").exact(np.stack([(nodes + 1) / 2, 0 * nodes], axis=1))[1:-1, 0]
    modes = np.linalg.solve(vectors, start)

    def at(x: FloatArray) -> FloatArray:
        rows = interpolation_matrix(nodes, 2 * x[:, 0] - 1)[:, 1:-1] @ vectors
        return np.real(np.sum(rows * np.exp(x[:, 1:] * rates) * modes, axis=1, keepdims=True))

    return at


def burgers(modes: int, steps: int) -> Field:
    """Solve Burgers' equation by Fourier series and exponential Runge–Kutta steps of order 4."""
    wave = np.pi * np.arange(modes // 2 + 1)
    kept = np.arange(modes // 2 + 1) <= modes // 3
    x = -1 + 2 * np.arange(modes) / modes

    def steepening(v: Any) -> Any:
        return -0.5j * wave * kept * np.fft.rfft(np.fft.irfft(v, modes) ** 2)

    start = np.fft.rfft(-np.sin(np.pi * x)) * kept
    found = etdrk4(-0.01 / np.pi * wave**2, steepening, start, 1.0, steps)[:, kept]
    # The solution is odd: sines alone, and the grid begins at −1.
    at_times = in_time(np.linspace(0, 1, steps + 1), -2 / modes * found.imag)
    angles = wave[kept]
    return lambda x: np.sum(
        at_times(x[:, 1]) * np.sin(angles * (x[:, :1] + 1)), axis=1, keepdims=True
    )


def vortex(modes: int, steps: int) -> Field:
    """Solve the vorticity equation by Fourier series and exponential Runge–Kutta steps."""
    side = np.arange(modes) / modes
    numbers = 2 * np.pi * np.fft.fftfreq(modes, 1 / modes)
    p, q = np.meshgrid(numbers, numbers, indexing="ij")
    squared = p**2 + q**2
    squared[0, 0] = 1.0
    kept = (np.abs(p) < 2 * np.pi * modes / 3) & (np.abs(q) < 2 * np.pi * modes / 3)

    def velocity(vorticity: Any) -> Any:
        stream = vorticity / squared
        return 1j * q * stream, -1j * p * stream

    def transport(flat: Any) -> Any:
        vorticity = flat.reshape(modes, modes)
        u, v = (np.fft.ifft2(each) for each in velocity(vorticity))
        x, y = (np.fft.ifft2(1j * k * vorticity) for k in (p, q))
        return -(kept * np.fft.fft2(u * x + v * y)).ravel()

    grid = np.stack(np.meshgrid(side, side, [0.0], indexing="ij"), axis=-1).reshape(-1, 3)
    u, v = (np.fft.fft2(taylor_green(grid)[:, i].reshape(modes, modes)) for i in (0, 1))
    start = (1j * p * v - 1j * q * u).ravel()
    found = etdrk4(-squared.ravel() / REYNOLDS, transport, start, 1.0, steps)
    at_times = in_time(np.linspace(0, 1, steps + 1), found)

    def at(x: FloatArray) -> FloatArray:
        waves = np.exp(1j * (x[:, :1, None] * p + x[:, 1:2, None] * q)) / modes**2
        parts = velocity(at_times(x[:, 2]).reshape(waves.shape))
        return np.stack([np.sum(waves * part, axis=(1, 2)).real for part in parts], axis=1)

    return at


def walks_on_spheres(name: str, walks: int) -> Field:
    """Solve −Δu = f at the points of comparison: the mean over walks from each of them.

    Muller (1956), doi:10.1214/aoms/1177728169.
    """
    x, rng = CASES[name].points(), np.random.default_rng(0)
    repeated = np.repeat(x, min(walks, BATCH), axis=0)
    values = [_walk(name, repeated, rng) for _ in range(max(walks // BATCH, 1))]
    means = np.reshape(values, (len(values), len(x), -1)).mean(axis=(0, 2))
    return lambda _: means[:, None]


def _walk(name: str, x: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Return a value for each walk: that at its end plus the integrals of f."""
    problem, f = CASES[name].make(), source_of(name)
    d, found, active = x.shape[1], np.zeros(len(x)), np.arange(len(x))
    while active.size:
        radius = np.minimum(x, 1 - x).min(axis=1)
        ended = radius < NEAR
        found[active[ended]] += problem.exact(_nearest(x[ended]))[:, 0]
        x, active, radius = x[~ended], active[~ended], radius[~ended]
        # ∫ G f over the ball is r²/2d times the mean of f, with the density G.
        inside = x + (radius * _green_radius(len(x), d, rng))[:, None] * _directions(x.shape, rng)
        found[active] += radius**2 / (2 * d) * f(inside)[:, 0]
        x = x + radius[:, None] * _directions(x.shape, rng)
    return found


def _nearest(x: FloatArray) -> FloatArray:
    at = np.arange(len(x)), np.argmin(np.minimum(x, 1 - x), axis=1)
    nearest = x.copy()
    nearest[at] = np.round(x[at])
    return nearest


def _directions(shape: tuple[int, ...], rng: np.random.Generator) -> FloatArray:
    normal = rng.normal(size=shape)
    return np.asarray(normal / np.linalg.norm(normal, axis=1, keepdims=True))


def _green_radius(count: int, d: int, rng: np.random.Generator) -> FloatArray:
    """Draw s in [0, 1] with the density s − s^{d−1}, up to a factor."""
    s = np.linspace(0, 1, 2001)
    distribution = (s**2 / 2 - s**d / d) / (0.5 - 1 / d)
    return np.interp(rng.uniform(size=count), distribution, s)
