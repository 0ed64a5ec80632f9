"""Every problem of the catalogue and of examples/: its solution satisfies what it states."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
import trimesh
from _programs import NAMES as PROGRAMS
from _programs import example, problem_named

from sciml_par.errors import InputError
from sciml_par.problems import (
    Box,
    Field,
    Interval,
    catalogue_entries,
    catalogue_entry,
    function_approximation,
    poisson,
    problem_by_name,
)

NAMES = [*catalogue_entries(), *PROGRAMS]
OTHERS = {
    "poisson-1d": {"k": 5, "domain": Interval(-2, 3)},
    "two-sines": {"domain": Interval(0, 1)},
    "burgers": {"built_in": False, "viscosity": 0.05},
    "heat": {"diffusivity": 0.3},
    "helmholtz": {"k": 2.0, "waves": (2, 1)},
    "poisson-2d": {"built_in": True},
    "lotka-volterra": {"growth": 1.0, "end": 3.0},
    "inverse-diffusion": {"diffusivity": 0.3, "observed": 7},
    "poisson-two-scales": {"k": 32},
    "helmholtz-waves": {"k": 3.0},
    "poisson-10d": {"dimension": 3},
    "wave-long": {"end": 3.0},
}
CASES = [(name, {}) for name in NAMES] + list(OTHERS.items())
STEEP = {"allen-cahn", "burgers"}
SIZES = {"allen-cahn": 0.0005, "burgers": 0.0005, "kdv": 0.003}
"""Of boxes in which a solution is well described by a polynomial, where they are small."""

TRAJECTORIES = {"lorenz", "lotka-volterra", "inverse-lorenz"}
TOLERANCES = {
    "cavity": 1e-3,
    "allen-cahn": 1e-3,
    "kdv": 1e-4,
    "burgers": 1e-6,
    "lorenz": 1e-6,
    "inverse-lorenz": 1e-6,
}
"""Of residuals, relative to the solution; they have derivatives of an approximation."""


FROM_THE_START = {"allen-cahn", "kdv", "schroedinger"}
"""Those with initial values alone built in."""

BUILT_IN = ["allen-cahn", "burgers", "kdv", "schroedinger", "cavity", "lotka-volterra", "lorenz"]
"""Those whose ansatz has values of the solution."""

SCALED = {"inverse-lorenz"}
"""Those whose ansatz is a scale of the network."""


def differentiable(problem, name):
    """The exact solution as a field, and how large a residual of it may be.

    A closed form is written for tensors as well. What is computed by NumPy alone is replaced by a
    local polynomial: Chebyshev interpolation in a small box around each point, made of values.
    """
    exact = problem.exact_function
    if name in {"cavity", "kdv", *TRAJECTORIES, *STEEP}:
        return local_polynomials(problem, name), TOLERANCES.get(name, 1e-7)
    return exact, 1e-9


def local_polynomials(problem, name, degree=8):
    """A field that is, around the points that it is first called at, a polynomial in each box."""
    domain, d = problem.domain, problem.domain.dimension
    size = domain.extent * SIZES.get(name, 0.01)
    nodes = np.cos(np.pi * np.arange(degree + 1) / degree)

    def field(x):
        centres = x.numpy() if hasattr(x, "numpy") else None
        assert centres is not None
        inside = np.clip(centres, domain.lower + size, domain.upper - size)
        grid = np.stack(np.meshgrid(*[nodes] * d, indexing="ij"), -1).reshape(-1, d)
        around = inside[:, None, :] + size * grid
        values = problem.exact(around.reshape(-1, d)).reshape(len(x), len(grid), -1)
        inverse = np.linalg.inv(np.polynomial.chebyshev.chebvander(nodes, degree))
        vander = inverse
        for _ in range(d - 1):
            vander = np.kron(vander, inverse)
        coefficients = tf.constant(np.einsum("kg,ngm->nkm", vander, values))
        z = (x - tf.constant(inside)) / tf.constant(size)
        basis = tf.ones_like(x[:, :1])
        for axis in range(d):
            one = [tf.ones_like(z[:, axis]), z[:, axis]]
            for _ in range(degree - 1):
                one.append(2 * z[:, axis] * one[-1] - one[-2])
            basis = tf.reshape(basis[:, :, None] * tf.stack(one, 1)[:, None, :], [len(x), -1])
        return tf.einsum("nk,nkm->nm", basis, coefficients)

    return field


@pytest.mark.parametrize(("name", "parameters"), CASES)
def test_the_exact_solution_satisfies_equations_and_conditions(name, parameters):
    problem = problem_named(name, **parameters)
    u, tolerance = differentiable(problem, name)
    names = {"coordinates": problem.domain.names, "components": problem.output_names}
    true = {key: tf.constant(each.true) for key, each in problem.unknowns.items()}
    domain = problem.domain
    x = domain.sample(40, seed=1)
    if name == "allen-cahn":
        x = x[x[:, 1] > 0.05]  # at first the slope at the ends is not smooth
    for term, part in zip(problem.terms, [*problem.residuals, *problem.conditions], strict=True):
        arrays = part.payload(x) if part in problem.residuals else part.points(domain, 60)
        if part not in problem.residuals and name == "allen-cahn" and part.kind == "periodic":
            arrays = tuple(a[arrays[0][:, 1] > 0.05] for a in arrays)
        tensors = [tf.constant(a) for a in arrays]
        r = term.residual(Field(u, unknowns=true, **names), *tensors).numpy()
        scale = max(1.0, float(np.max(np.abs(problem.exact(arrays[0])))))
        assert np.max(np.abs(r)) < tolerance * scale * 10, term.name
        wrong = term.residual(Field(lambda z: other(u, z), unknowns=true, **names), *tensors)
        assert np.max(np.abs(wrong)) > 1e-3, term.name


def other(u, x):
    """Another field, for which no equation and no condition holds."""
    return u(x) + 0.1 * tf.reduce_sum((x + 0.5) ** 4, axis=1, keepdims=True)


def test_all_problems_with_an_ansatz_are_known():
    found = {name for name in NAMES if problem_named(name).ansatz is not None}
    assert found == {*BUILT_IN, *SCALED}


@pytest.mark.parametrize("name", BUILT_IN)
def test_an_ansatz_has_the_values_of_the_solution_where_it_gives_them(name):
    """Whatever the network: on the boundary, or at the start of a trajectory."""
    problem = problem_named(name)
    weights = tf.constant(np.random.default_rng(0).normal(size=(8, problem.network_outputs)))
    first = tf.constant(np.random.default_rng(1).normal(size=(problem.domain.dimension, 8)))
    u = problem.field(lambda x: tf.tanh(x @ first) @ weights)
    if problem.domain.dimension == 1:
        x = problem.domain.lower[None, :]
        known = slice(None)
    elif name in FROM_THE_START:
        x, _ = problem.domain.initial(80)
        known = slice(None)
    else:
        x, _ = problem.domain.boundary(80)
        x = x if name != "burgers" else x[x[:, 1] < 1]
        known = slice(0, 2)  # of a flow the velocity; the pressure is known in one point
    found = u(tf.constant(x)).numpy()[:, known]
    # The slopes of the cavity's stream function are zero at the walls as far as it is resolved.
    atol = 1e-5 if name == "cavity" else 1e-9
    np.testing.assert_allclose(found, problem.exact(x)[:, known], atol=atol)


def test_the_pressure_of_the_cavity_vanishes_in_one_point():
    problem = problem_named("cavity")
    point = np.array([[0.5, 0.0]])
    assert abs(problem.exact(point)[0, 2]) < 1e-12
    u = problem.field(lambda x: tf.ones([len(x), 4], x.dtype))
    assert float(u(tf.constant(point))[0, 2]) == 0.0


def test_names_are_found_and_wrong_ones_corrected():
    names = list(catalogue_entries())
    assert len(names) == 8 and len(NAMES) == 37
    assert catalogue_entry("heat") is catalogue_entries()["heat"]
    assert repr(problem_by_name("poisson-1d", k=3)) == repr(poisson(k=3))
    with pytest.raises(InputError, match="did you mean 'burgers'") as error:
        catalogue_entry("burger")
    assert all(name in str(error.value) for name in names)


@pytest.mark.parametrize("name", [*PROGRAMS, "wave"])
def test_problems_that_are_programs_now_are_told(name):
    file = f"examples/{name.replace('-', '_') if name in PROGRAMS else 'standing_wave'}.py"
    with pytest.raises(InputError, match=f"^{name} is a program now: python {file}$"):
        problem_by_name(name)


@pytest.mark.parametrize("name", catalogue_entries())
def test_suggestions_are_usable(name):
    entry = catalogue_entry(name)
    domain, suggestion = entry.make().domain, entry.suggestion
    points = suggestion.points
    if entry.place is not None:
        assert isinstance(points, int)
        placed = entry.place(points)
        assert placed.shape == (points, domain.dimension) and domain.contains(placed).all()
    if isinstance(points, tuple):
        assert len(points) == domain.dimension and suggestion.method in (None, "grid")
    assert entry.equation and "\n" not in entry.equation
    assert 0 < entry.goal <= 1e-2


def test_coefficients_that_are_not_true_leave_residuals() -> None:
    for name in ("inverse-diffusion", "inverse-lorenz"):
        problem = problem_named(name)
        u, _ = differentiable(problem, name)
        x = tf.constant(problem.domain.sample(40, seed=1))
        for wrong in problem.unknowns:
            values = {
                key: tf.constant(each.true * (1.1 if key == wrong else 1.0))
                for key, each in problem.unknowns.items()
            }
            field = Field(u, unknowns=values, coordinates=problem.domain.names)
            r = problem.terms[0].residual(field, x).numpy()
            assert np.max(np.abs(r)) > 1e-2, (name, wrong)


@pytest.mark.parametrize(
    ("name", "more"), [("inverse-diffusion", {"observed": 400}), ("inverse-lorenz", {})]
)
def test_observations_have_the_noise_that_is_asked(name: str, more: dict[str, int]) -> None:
    def errors(**parameters):
        problem = problem_named(name, **more, **parameters)
        measured = problem.conditions[-1]
        exact = problem.exact(measured.x)
        return (measured.u - exact) / np.sqrt(np.mean(exact**2, axis=0))

    assert np.all(errors() == 0)
    noise = errors(noise=0.01)
    assert np.std(noise) == pytest.approx(0.01, rel=0.2)
    np.testing.assert_allclose(errors(noise=0.02), 2 * noise, rtol=1e-6, atol=1e-12)
    assert not np.array_equal(noise, errors(noise=0.01, seed=1)[: len(noise)])


def test_the_stress_at_the_hole_is_three_times_the_tension() -> None:
    """And −1 times at the side that is pulled: S (1 − 2 cos 2φ)."""
    plate = example("plate-hole")
    angle = np.linspace(0, np.pi / 2, 7)
    x = tf.constant(0.25 * np.stack([np.cos(angle), np.sin(angle)], axis=1))
    found = plate.hoop_stress(plate.solution, x).numpy()[:, 0]
    np.testing.assert_allclose(found, 1 - 2 * np.cos(2 * angle), rtol=1e-12, atol=1e-12)
    assert found[-1] == pytest.approx(3.0)


def test_heat_flows_in_the_body_of_a_file(tmp_path: Path) -> None:
    capsule = trimesh.creation.capsule(height=1.0, radius=0.4)
    capsule.export(tmp_path / "part.stl")
    problem = problem_named("heat-part", file=tmp_path / "part.stl")
    assert problem.domain.volume == pytest.approx(capsule.volume)
    foot, _ = (condition.points(problem.domain, 400)[0] for condition in problem.conditions)
    assert foot[:, 2].max() < problem.domain.lower[2] + 0.15 * problem.domain.extent[2]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        *((lambda k=k: poisson(k=k), "k must be an integer") for k in (0, 1.5, 2.0, "2", True)),
        (lambda: poisson(k=1, domain=Interval(0, 0.5)), "does not vanish at the ends"),
        (lambda: poisson(domain=Box([0, 0], [1, 1])), "must be an Interval"),
        (lambda: function_approximation(np.sin, domain=Interval(0, 1), outputs=2), "exact"),
    ],
)
def test_parameters_that_are_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()


@pytest.mark.launches
def test_the_catalogue_is_listed_and_made_without_tensorflow():
    code = (
        "import sys; from sciml_par.problems import catalogue_entries;"
        "[entry.make() for entry in catalogue_entries().values()];"
        "assert 'tensorflow' not in sys.modules and 'mpi4py' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=240)


def test_two_sines_has_the_values_of_its_formula():
    x = np.linspace(0, 1, 9)[:, None]
    expected = np.sin(2 * np.pi * x) + np.sin(4 * np.pi * x)
    np.testing.assert_allclose(problem_by_name("two-sines").exact(x), expected, atol=1e-12)
