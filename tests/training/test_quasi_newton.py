"""L-BFGS and the self-scaled Broyden methods: known minima, formulas, and what goes wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from engine import ParameterLayout
from functions import (
    BARRIER_MINIMUM,
    MEMBERS,
    SIZE,
    STARTS,
    Run,
    all_functions,
    members,
    moving,
    only,
    rosenbrock,
)

from sciml_par.errors import InputError
from sciml_par.problems import poisson
from sciml_par.training import LBFGS, Adam, Ensemble, LevenbergMarquardt, SSBroyden, train

pytestmark = pytest.mark.ranks(most=1, reason="its functions are the same on all ranks")

UPDATES = ("broyden", "bfgs")
METHODS: dict[str, Any] = {
    # As few pairs as let the oldest one be overwritten.
    "lbfgs": LBFGS(memory=5),
    **{update: SSBroyden(update=update) for update in UPDATES},
}


@pytest.fixture(scope="module")
def runs() -> dict[str, Run]:
    return {name: Run(method, all_functions) for name, method in METHODS.items()}


@pytest.fixture(params=METHODS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def run(runs: dict[str, Run], name: str) -> Run:
    return runs[name]


def test_members_are_independent(run: Run) -> None:
    """What a member does depends on no other one, and one that has ended costs nothing."""
    together = run.start(STARTS).go(12)
    theta, evaluations = together.theta, together.evaluations
    counts = []
    for j in (0, 4, 6, 7):
        alone = run.start(STARTS).go(12, running=only(j))
        np.testing.assert_array_equal(alone.theta[j], theta[j])
        counts.append(alone.evaluations)
    assert min(counts) < max(counts) <= evaluations
    assert run.start(STARTS).go(3, running=only()).evaluations == 0
    assert np.abs(theta - STARTS).max(axis=1)[:6].min() > 0.1


def test_goes_on_from_its_state_bit_for_bit(run: Run) -> None:
    """Steps from a state that was saved give what the whole run gives, bit for bit."""
    whole = run.start(STARTS).go(14).theta
    half = run.start(STARTS).go(6)
    saved = [leaf.numpy() for leaf in tf.nest.flatten(half.state)]
    state, parameters = half.state, half.theta
    again = run.start(STARTS)
    again.state = tf.nest.pack_sequence_as(state, [tf.constant(leaf) for leaf in saved])
    again.parameters, again.number = tf.constant(parameters), 6
    np.testing.assert_array_equal(again.go(8).theta, whole)


def test_stays_where_nothing_can_be_improved(run: Run, name: str) -> None:
    """At a minimum, and with a constant loss: no step, no number that is none, and it is said."""
    report = METHODS[name].report
    still = [*members("constant"), *members("minimum")]
    run.start(STARTS).go(1)
    first = report(run.state)
    assert [j for j in range(MEMBERS) if first.stuck.numpy()[j]] == still
    assert (first.measures["|gradient|"].numpy()[still] == 0).all()
    assert (first.measures["step length"].numpy()[still] == 0).all()
    assert (first.measures["step length"].numpy()[:6] > 0).all()
    before = run.evaluations
    run.go(3, running=only(*still))
    assert run.evaluations == before, "stuck members evaluate again and again"
    np.testing.assert_array_equal(run.theta[still], STARTS[still])
    # One that arrives at its minimum is stuck there in the end.
    (arriving,) = members("barrier")
    run.go(40, running=only(arriving))
    assert report(run.state).stuck.numpy()[arriving]
    np.testing.assert_allclose(run.theta[arriving], BARRIER_MINIMUM, atol=1e-7)
    assert np.isfinite(np.array(run.losses)).all()


def test_the_loss_never_rises_and_is_that_of_the_parameters(run: Run) -> None:
    run.start(STARTS).go(30)
    losses = np.array(run.losses)
    assert (np.diff(losses, axis=0) <= 0).all()
    np.testing.assert_allclose(losses[0], all_functions(tf.constant(STARTS)), rtol=1e-12)


def test_values_that_are_kept_are_not_used_for_other_parameters(run: Run) -> None:
    run.start(STARTS).go(3)
    run.parameters = tf.constant(STARTS * 0.9)
    run.go(1)
    np.testing.assert_allclose(run.losses[-1], all_functions(tf.constant(STARTS * 0.9)), rtol=1e-12)


def test_a_loss_that_is_no_number_is_told(run: Run) -> None:
    starts = STARTS.copy()
    starts[1] = np.nan
    run.start(starts).go(3)
    losses = np.array(run.losses)
    assert np.isnan(losses[:, 1]).all() and np.isfinite(np.delete(losses, 1, axis=1)).all()
    assert np.isfinite(np.delete(run.theta, 1, axis=0)).all()


def test_changing_points_begin_every_step_anew() -> None:
    run = Run(LBFGS(), moving, same_points=False).start(np.zeros((1, 2)))
    for center in (1.0, 3.0, -2.0):
        before = run.theta
        run.go(1, batch=center)
        assert run.losses[-1] == pytest.approx(0.5 * np.sum((before - center) ** 2))
    # On a paraboloid the first pair gives the exact scale: from then on steps end at the centers.
    np.testing.assert_allclose(run.theta, -2.0, rtol=1e-9)
    run.go(1, batch=-2.0)
    assert not LBFGS().report(run.state).stuck.numpy()[0]
    run.go(4, batch=5.0)
    np.testing.assert_allclose(run.theta, 5.0, rtol=1e-9)


def gradient(x: np.ndarray) -> np.ndarray:
    theta = tf.constant(x[None])
    with tf.GradientTape() as tape:
        tape.watch(theta)
        value = rosenbrock(theta)
    return np.asarray(tape.gradient(value, theta)[0].numpy())


def updated(
    H: np.ndarray,
    s: np.ndarray,
    y: np.ndarray,
    g: np.ndarray,
    alpha: float,
    update: str,
    first: Any,
) -> np.ndarray:
    """The formulas of the method, written down one by one for one member."""
    p = len(s)
    b = -alpha * (s @ g) / (y @ s)
    h = (y @ H @ y) / (y @ s)
    a = b * h - 1
    c = np.sqrt(a / (1 + a))
    rho_minus = min(1.0, h * (1 - c))
    theta_minus, theta_plus = (rho_minus - 1) / a, 1 / rho_minus
    theta = max(theta_minus, min(theta_plus, (1 - b) / b)) if update == "broyden" else 0.0
    sigma = 1 + theta * a
    rho = min(1.0, 1 / b)
    if first:
        tau = h / sigma
    elif update == "bfgs":
        tau = rho
    elif theta > 0:
        tau = rho * min(sigma ** (1 / (1 - p)), 1 / theta)
    else:
        tau = min(rho * sigma ** (1 / (1 - p)), sigma)
    phi = (1 - theta) / sigma
    v = np.sqrt(y @ H @ y) * (s / (y @ s) - H @ y / (y @ H @ y))
    inner = H - np.outer(H @ y, H @ y) / (y @ H @ y) + phi * np.outer(v, v)
    return np.asarray(inner / tau + np.outer(s, s) / (y @ s))


@pytest.mark.parametrize("update", UPDATES)
def test_steps_and_matrices_are_those_of_the_formulas(runs: dict[str, Run], update: str) -> None:
    run = runs[update]
    chosen = members("Rosenbrock")
    matrices = dict.fromkeys(chosen, np.eye(SIZE))
    run.start(STARTS)
    for number in range(20):
        before = run.theta
        run.go(1, running=only(*chosen))
        alphas = run.state.length.numpy()
        for j in chosen:
            H, g, s = matrices[j], gradient(before[j]), run.theta[j] - before[j]
            np.testing.assert_allclose(s, -alphas[j] * H @ g, rtol=1e-4, atol=1e-8)
            y = gradient(run.theta[j]) - g
            matrices[j] = updated(H, s, y, g, alphas[j], update, number == 0)
            found = run.state.memory.numpy()[j]
            np.testing.assert_array_equal(found, found.T)
            np.testing.assert_allclose(found, matrices[j], rtol=1e-4, atol=1e-8)
            np.testing.assert_allclose(found @ y, s, rtol=1e-6, atol=1e-10)
            assert np.linalg.eigvalsh(found).min() > 0
    assert np.abs(run.theta - STARTS)[chosen].max() > 0.1


def test_the_minimum_is_found_by_few_evaluations(run: Run) -> None:
    found = []
    for j in members("quadratic") + members("Rosenbrock"):
        run.start(STARTS).until(1e-14, member=j, most=200)
        if np.allclose(run.theta[j], 1.0, atol=1e-6):
            assert run.evaluations < 2 * run.number
            found.append(j)
    # The chain of Rosenbrock's function has a second minimum.
    assert set(members("quadratic")) < set(found)


def test_one_parameter_alone_and_points_that_change() -> None:
    run = Run(SSBroyden(), moving, same_points=False).start([[7.0]])
    for center in (1.0, 3.0, -2.0, 5.0):
        before = run.theta
        run.go(1, batch=center)
        assert run.losses[-1] == pytest.approx(0.5 * np.sum((before - center) ** 2))
    assert run.theta[0, 0] == pytest.approx(5.0, abs=1e-9)


def test_more_memory_than_the_limit_is_refused_before_any_step() -> None:
    layout = ParameterLayout(shapes=((20_000,),), names=("x",))
    with pytest.raises(InputError, match=r"20000 parameters would take 17.9 GiB.*LBFGS"):
        SSBroyden().check(layout, 1, "float64")
    SSBroyden(memory_limit=5).check(layout, 1, "float16")
    SSBroyden(memory_limit=18).check(layout, 1, "float64")
    with pytest.raises(InputError, match="each of 3 members"):
        SSBroyden(memory_limit=18).check(layout, 3, "float64")
    steps = []
    with pytest.raises(InputError, match="SSBroyden: the matrices for 321 parameters"):
        train(
            poisson(),
            phases=[(Adam(), 5), (SSBroyden(memory_limit=1e-4), 5)],
            callbacks=lambda progress: steps.append(progress.step),
            progress=False,
        )
    assert not steps


@pytest.mark.parametrize(
    ("kind", "options", "part"),
    [
        (LBFGS, {"memory": 0}, "memory"),
        (LBFGS, {"evaluations": 2.5}, "evaluations"),
        (LBFGS, {"sufficient_decrease": 0.7}, "sufficient_decrease"),
        (LBFGS, {"curvature": 1.0}, "curvature"),
        (LBFGS, {"sufficient_decrease": 0.4, "curvature": 0.3}, "sufficient_decrease < curvature"),
        (SSBroyden, {"update": "dfp"}, "'broyden' or 'bfgs'"),
        (SSBroyden, {"memory_limit": 0}, "memory_limit"),
    ],
)
def test_options_that_cannot_be_meant(kind: Any, options: dict[str, Any], part: str) -> None:
    with pytest.raises(InputError, match=part):
        kind(**options)


def test_equal_numbers_are_one_optimizer() -> None:
    optimizer = LBFGS(memory=7)
    assert optimizer.describe()["memory"] == "7"
    assert optimizer.key == LBFGS(memory=7).key != LBFGS().key


@pytest.mark.parametrize("kind", [LBFGS, LevenbergMarquardt])
def test_learning_rates_of_members_are_refused(kind: Any) -> None:
    rates = Ensemble(members=2, learning_rates=[1e-3, 1e-2])
    with pytest.raises(InputError, match=f"learning rate, which {kind.__name__} has not"):
        train(poisson(), optimizer=kind(), mode=rates, steps=2, progress=False)
