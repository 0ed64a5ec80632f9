"""The references of examples/ and the catalogue: as at twice the resolution, and as by others."""

import numpy as np
import pytest
from _programs import example
from references.cavity import solution as cavity
from references.evolution import allen_cahn, korteweg_de_vries
from references.spectral import (
    chebyshev_points,
    differentiation_matrix,
    etdrk4,
    interpolation_matrix,
)

from sciml_par.problems.catalogue.in_time import cole_hopf

GHIA_U = [(0.0625, -0.04192), (0.2813, -0.15662), (0.4531, -0.21090), (0.5, -0.20581)]
GHIA_V = [(0.0938, 0.12317), (0.2344, 0.17527), (0.5, 0.05454), (0.8047, -0.24533)]
"""Re = 100 at x = ½ and at y = ½: Ghia, Ghia and Shin (1982), J. Comput. Phys. 48, tables I, II."""


def scattered(lower, upper, n=400):
    return np.random.default_rng(0).uniform(lower, upper, (n, len(lower)))


def relative(a, b):
    return np.linalg.norm(a - b) / np.linalg.norm(b)


def test_chebyshev_matrices_are_exact_for_polynomials():
    s = chebyshev_points(8)
    np.testing.assert_allclose(differentiation_matrix(s) @ s**7, 7 * s**6, atol=1e-11)
    x = np.array([-1.0, -0.3, s[3], 0.77, 1.0])
    np.testing.assert_allclose(interpolation_matrix(s, x) @ s**8, x**8, atol=1e-14)


def test_exponential_steps_are_of_the_order_4():
    """v′ = −50 v + v², whose solution is known."""
    exact = 50 / (1 + 49 * np.exp(50 * 0.2))
    errors = []
    for steps in (20, 40):
        found = etdrk4(np.array([-50.0]), lambda v: v**2, np.array([1.0]), 0.2, steps)
        errors.append(abs(found[-1, 0] - exact) / exact)
    assert errors[1] < 1e-6 and 10 < errors[0] / errors[1] < 24


def test_allen_cahn_converges():
    x = scattered([-1, 0], [1, 1])
    found = allen_cahn(1e-4, 5.0)(x)
    assert relative(allen_cahn(1e-4, 5.0, n=320, steps=500)(x), found) < 1e-5
    assert relative(allen_cahn(1e-4, 5.0, steps=300)(x), found) < 1e-7
    start = np.c_[x[:, 0], np.zeros(len(x))]
    wanted = x[:, :1] ** 2 * np.cos(np.pi * x[:, :1])
    np.testing.assert_allclose(allen_cahn(1e-4, 5.0)(start), wanted, atol=1e-12)


def test_korteweg_de_vries_converges():
    x = scattered([-1, 0], [1, 1])
    found = korteweg_de_vries()(x)
    assert relative(korteweg_de_vries(modes=384, steps=2000)(x), found) < 1e-6
    other_end = korteweg_de_vries()(np.array([[-1.0, 0.7], [1.0, 0.7]]))
    assert other_end[0] == pytest.approx(other_end[1], abs=1e-10)


def test_a_soliton_of_korteweg_and_de_vries():
    """Its mass and energy stay what they are."""
    x = np.linspace(-1, 1, 256, endpoint=False)
    u = np.stack([korteweg_de_vries()(np.c_[x, np.full(256, t)])[:, 0] for t in (0, 1)])
    np.testing.assert_allclose(u.mean(axis=1), 0, atol=1e-12)
    np.testing.assert_allclose((u**2).mean(axis=1), 0.5, rtol=1e-7)


def test_the_cavity_converges_and_is_like_that_of_others():
    x = scattered([0, 0], [1, 1])
    found = cavity(100.0)(x)
    assert np.max(np.abs(cavity(100.0, n=24)(x) - found), axis=0).max() < 1e-2
    coarse = np.max(np.abs(cavity(100.0, n=24)(x) - found)[:, :2])
    assert coarse < 2e-4
    # A lid that is nearer to a constant velocity: the deviation is that of its ends.
    near = cavity(100.0, n=40, steepness=8)
    for points, component, swapped in ((GHIA_U, 0, False), (GHIA_V, 1, True)):
        places = np.array([[0.5, at] for at, _ in points])
        values = near(places[:, ::-1] if swapped else places)[:, component]
        np.testing.assert_allclose(values, [value for _, value in points], atol=0.01)


def test_cole_and_hopf_converge():
    x = scattered([-1, 0], [1, 1])
    np.testing.assert_allclose(cole_hopf(x, nodes=120), cole_hopf(x), atol=1e-13)


def test_the_solitons_are_those_of_a_fourier_series_on_a_wide_interval():
    n, half = 512, 20.0
    x = -half + 2 * half * np.arange(n) / n
    wave = np.pi / half * np.fft.fftfreq(n, 1 / n)

    def reaction(v):
        h = np.fft.ifft(v)
        return 1j * np.fft.fft(np.abs(h) ** 2 * h)

    start = np.fft.fft(2 / np.cosh(x)).astype(complex)
    last = np.fft.ifft(etdrk4(-0.5j * wave**2, reaction, start, 1.0, 1500)[-1])
    near = np.abs(x) <= 5
    exact = example("schroedinger").solution(np.c_[x[near], np.ones(near.sum())]).numpy()
    np.testing.assert_allclose(exact[:, 0] + 1j * exact[:, 1], last[near], atol=1e-6)
