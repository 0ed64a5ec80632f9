"""Members that are one stacked computation are what each of them is when trained by itself."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from trainings import quick, tiny, warned

import sciml_par.parallel as sp
from sciml_par.errors import InputError
from sciml_par.networks import MLP
from sciml_par.problems import Dirichlet, Interval, Problem, derivative, laplacian, poisson
from sciml_par.results import Member, Result
from sciml_par.results.member import numbers_text
from sciml_par.training import Adam, Ensemble

pytestmark = pytest.mark.beside
STEPS = 200
small = partial(quick, steps=STEPS, points=11, log_every=50, precision="float64")
RATES = (1e-3, 2e-3, 3e-3, 4e-3)


def wave(number: int) -> Problem:
    """Not on [-1, 1], where symmetry makes gradients zero but for rounding."""
    return poisson(k=1 + number % 2, domain=Interval(0, 1))


def alone(member: Member, *, problems: Any = wave, **options: Any) -> Result:
    """A training of one model on this rank, with the member's initial weights."""

    def of_its_seed(d: int, m: int, *, seed: int, dtype: str) -> MLP:
        return tiny(d, m, seed=member.seed, dtype=dtype)

    return small(problems(member.number), network=of_its_seed, mode="ensemble", **options)


def check_equal(member: Member, other: Result) -> None:
    reference = other.members[0]
    assert reference.steps == member.steps == STEPS
    np.testing.assert_allclose(member.losses, reference.losses, rtol=1e-10)
    np.testing.assert_allclose(member.term_losses, reference.term_losses, rtol=1e-8, atol=1e-14)
    assert member.weights is not None and other.members[0].weights is not None
    if member.rank == sp.rank():
        mine = other.members[sp.rank()].weights
        assert mine is not None
        np.testing.assert_allclose(member.weights.best, mine.best, rtol=1e-10, atol=1e-12)


@pytest.mark.ranks(most=1, reason="each rank has its own stack")
def test_stacked_members_equal_members_trained_one_by_one() -> None:
    """Problems and learning rates differ from member to member."""
    mode = Ensemble(members=4, problems=wave, learning_rates=RATES)
    result = small(wave(0), mode=mode)
    assert [member.stacked_with for member in result.members] == [(0, 1, 2, 3)] * 4
    for j in (1, 2):
        check_equal(result.members[j], alone(result.members[j], optimizer=Adam(RATES[j])))


@pytest.mark.ranks(most=1, reason="each rank has its own stack")
def test_members_whose_conditions_differ_by_a_number_are_stacked() -> None:
    def problem(number: int) -> Problem:
        return Problem(Interval(0, 1), laplacian, conditions=[Dirichlet(number)])

    result = small(problem(0), mode=Ensemble(members=4, problems=problem))
    assert [member.stacked_with for member in result.members] == [(0, 1, 2, 3)] * 4
    check_equal(result.members[2], alone(result.members[2], problems=problem))


@pytest.mark.ranks(most=3, reason="a third rank is neither the first nor the last")
def test_members_are_dealt_out_to_ranks_and_do_not_depend_on_who_trains_them() -> None:
    result = small(wave(0), mode=Ensemble(members=5, problems=wave))
    assert [member.number for member in result.members] == [0, 1, 2, 3, 4]
    counts = [len(part) for part in np.array_split(np.arange(5), sp.size())]
    assert [member.rank for member in result.members] == list(np.repeat(range(sp.size()), counts))
    member = result.members[4]
    np.testing.assert_allclose(alone(member).members[0].losses, member.losses, rtol=1e-10)


@pytest.mark.ranks(least=2, reason="needs groups of ranks")
def test_groups_of_ranks_share_members() -> None:
    """The same members as on ranks of their own, to rounding."""
    if sp.size() % 2:
        with pytest.raises(InputError, match="ranks_per_member=2 do not divide 3 ranks"):
            small(wave(0), mode=Ensemble(members=3, ranks_per_member=2))
        return
    result = small(wave(0), mode=Ensemble(members=3, ranks_per_member=2, problems=wave))
    assert [len(member.contributions) for member in result.members] == [2, 2, 2]
    for member in result.members:
        assert member.points == 11
        reference = alone(member).members[0]
        np.testing.assert_allclose(member.losses, reference.losses, rtol=1e-7)


@pytest.mark.ranks(most=1, reason="each rank has its own stack")
def test_members_of_other_computations_are_trained_one_after_the_other() -> None:
    def problem(number: int) -> Problem:
        factor = float(1 + number % 2)
        return Problem(
            Interval(0, 1),
            lambda u, x: factor * laplacian(u, x) - derivative(u, x, 0) - 1.0,
            conditions=[Dirichlet(0.0)],
            name=f"factor {factor:g}",
        )

    result = small(problem(0), mode=Ensemble(members=4, problems=problem), steps=20)
    stacks = [(0, 2), (1, 3), (0, 2), (1, 3)]
    assert [member.stacked_with for member in result.members] == stacks
    assert all(member.steps == 20 for member in result.members)


@pytest.mark.ranks(most=1, reason="each rank has its own stack")
def test_a_member_that_fails_leaves_the_others_of_its_stack_alone() -> None:
    """Three rates are ordinary; by the fourth a root becomes that of a negative number."""

    def residual(u: Any, x: Any) -> Any:
        return u(x) - 1.0 + 1e-3 * tf.sqrt(40.0 - u(x) ** 2)

    problem = Problem(Interval(0, 1), residual, name="one")
    rates = (1e-3, 2e-3, 1e3, 3e-3)
    mode = Ensemble(members=4, learning_rates=rates)
    result = small(problem, mode=mode, steps=60, log_every=1)
    assert [m.stacked_with for m in result.members] == [(0, 1, 2, 3)] * 4
    assert [m.status for m in result.members] == ["finished", "finished", "not finite", "finished"]
    bad = result.members[2]
    assert 0 < bad.steps < 60 and np.isfinite(bad.losses).all()
    assert bad.best_loss == bad.losses.min() == bad.loss
    others = small(problem, mode=Ensemble(members=4), steps=60, log_every=1, optimizer=Adam(1e-3))
    np.testing.assert_allclose(result.members[0].losses, others.members[0].losses, rtol=1e-12)


@pytest.mark.ranks(most=1, reason="what is refused is local")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"members": 2, "members_per_rank": 2}, "members_per_rank, not both"),
        ({"members": 0}, "members must be an integer of at least 1, got 0"),
        ({"members": 2.5}, "members must be an integer of at least 1, got 2.5"),
        ({"members": 2, "seeds": [1, 2, 3]}, "one of seeds for each of the 2 members; got 3"),
        ({"members": 2, "learning_rates": [1e-3]}, "one of learning_rates for each of the 2"),
        ({"members": 2, "problems": [poisson()]}, "one of problems for each of the 2 members"),
        ({"members": 2, "seeds": [1, -3]}, "seeds to be a sequence of integers ≥ 0"),
        ({"members": 2, "seeds": 7}, "seeds to be a sequence of integers ≥ 0.*got 7"),
        ({"members": 2, "learning_rates": [1e-3, -1.0]}, "learning_rates to be a sequence of num"),
        ({"members": 2, "learning_rates": [1e-3, "a"]}, "learning_rates to be a sequence of num"),
        ({"members": 2, "bootstrap": 3}, "bootstrap to be a bool; got 3"),
        ({"members": 2, "problems": 7}, "problems to be a list of Problem"),
        ({"members": 2, "problems": lambda j: None}, "for member 0 it gave None"),
        ({"members": 2, "ranks_per_member": 2}, "do not divide 1 ranks"),
    ],
)
def test_refuses_ensembles_that_do_not_fit(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        small(poisson(), mode=Ensemble(**options))


@pytest.mark.ranks(most=1, reason="each rank has its own members")
def test_seeds_of_members_can_be_given() -> None:
    result = small(wave(0), mode=Ensemble(members=4, seeds=[7, 8, 7, 9]), steps=5)
    assert [member.seed for member in result.members] == [7, 8, 7, 9]
    first, other, again, _ = (member.losses for member in result.members)
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def one_seed(d: int, m: int, *, dtype: str) -> MLP:
    return MLP(d, m, width=4, depth=1, seed=3, dtype=dtype)


def one_seed_by_keras() -> keras.Model:
    """Its layers have other names in each call."""
    initial = keras.initializers.GlorotNormal(seed=1)
    return keras.Sequential([keras.layers.Dense(4, "tanh", kernel_initializer=initial), dense()])


def dense() -> keras.Layer:
    return keras.layers.Dense(1, kernel_initializer=keras.initializers.GlorotNormal(seed=2))


@pytest.mark.ranks(most=2, reason="two ranks show what more would")
@pytest.mark.parametrize(
    "network",
    [
        one_seed,
        pytest.param(partial(tiny, seed=3), marks=pytest.mark.all),
        pytest.param(one_seed_by_keras, marks=pytest.mark.ranks(most=1, reason="another network")),
    ],
)
def test_members_that_are_copies_of_one_are_named(network: Any) -> None:
    count = 2 * sp.size()
    with warned("are copies of one model") as said:
        result = small(wave(0), network=network, mode=Ensemble(members=count), steps=3)
    assert len(said) == (sp.rank() == 0)
    assert all(text.startswith(f"train: {numbers_text(range(count))} are copies") for text in said)
    assert len({member.loss for member in result.members}) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        different = {"learning_rates": [1e-3 * (j + 1) for j in range(count)]}
        small(wave(0), network=network, mode=Ensemble(members=count, **different), steps=3)
        small(wave(0), network=network, mode=Ensemble(members=count, bootstrap=True), steps=3)


@pytest.mark.ranks(most=1, reason="what is refused is local")
def test_one_object_for_several_members_is_refused() -> None:
    model = tiny(1, 1, dtype="float64")
    with pytest.raises(InputError, match="the same object, a MLP, for members 0 and 1"):
        small(wave(0), network=lambda: model, mode=Ensemble(members_per_rank=2), steps=3)
