"""What an optimizer may have a default for: weights of conditions, and initial weights."""

from __future__ import annotations

import contextlib
import io
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
import pytest
import tensorflow as tf

import sciml_par.parallel as sp
from sciml_par.errors import InputError
from sciml_par.networks import MLP
from sciml_par.problems import Dirichlet, Interval, Neumann, Problem, laplacian
from sciml_par.training import Adam, Checkpoint, Ensemble, FirstOrder, Result, train
from sciml_par.training.preparation.problem_changes import ProblemChanges

pytestmark = pytest.mark.ranks(most=1, reason="the same on any number of ranks")
two = pytest.mark.ranks(most=2, reason="two ranks show what more would")

STEPS = 6


@dataclass(frozen=True)
class Descent(FirstOrder):
    """θ ← θ − α g, with defaults as optimizers of least squares have them."""

    learning_rate: float = 1e-4
    condition_weight: ClassVar[float] = 100.0
    prefers_centres: ClassVar[bool] = True

    def start(self, layout: Any, parameters: Any) -> Any:
        return tf.zeros_like(parameters)

    def update(
        self, layout: Any, parameters: Any, gradient: Any, state: Any, rate: Any, number: Any
    ) -> Any:
        return parameters - rate * gradient, state


class Heavier(Descent):
    condition_weight = 1000.0


def problem(weight: float | None = None, **more: Any) -> Problem:
    conditions = [Dirichlet(1.0, weight=weight), Neumann(0.5, weight=2.0)]
    domain, equation = Interval(0, 2), lambda u, x: laplacian(u, x) - 2.0
    return Problem(domain, equation, conditions=conditions, **more)


small = partial(
    train,
    network=partial(MLP, width=4, depth=1, initial_weights="glorot"),
    steps=STEPS,
    points=24,
    log_every=2,
    evaluation_points=11,
    precision="float64",
    progress=True,
)


def trained(*args: Any, **more: Any) -> tuple[Result, list[str]]:
    """What was found, and what was said on this rank before the first step."""
    sp.current_world().kept.pop("notes of trainings", None)  # a process says each of them once
    with contextlib.redirect_stdout(io.StringIO()) as output:
        result = small(*args, **more)
    lines = output.getvalue().splitlines()
    others = ("compiling", "phase", "step", "resumed")
    return result, [line for line in lines if not line.startswith(others)]


def losses(result: Result) -> Any:
    return np.array([member.term_losses for member in result.members])


def test_conditions_without_a_weight_have_that_of_the_optimizer() -> None:
    found, said = trained(problem(), optimizer=Descent())
    given, nothing = trained(problem(100.0), optimizer=Descent())
    np.testing.assert_array_equal(losses(found), losses(given))
    sentence = (
        "conditions without a weight have the weight 100, the default of Descent; "
        "Dirichlet(…, weight=1) changes it."
    )
    assert said == [sentence] * (sp.rank() == 0)
    assert nothing == []
    plain, nothing = trained(problem(1.0), optimizer=Descent())
    np.testing.assert_allclose(losses(found)[0, 0], losses(plain)[0, 0] * [1, 100, 1], rtol=1e-14)
    assert nothing == []


def test_a_weight_that_the_problem_has_been_given_stays() -> None:
    found, said = trained(problem().with_condition_weight(7), optimizer=Descent())
    given, _ = trained(problem(7.0), optimizer=Descent())
    np.testing.assert_array_equal(losses(found), losses(given))
    assert said == []


def test_first_order_optimizers_go_on_as_before() -> None:
    given = problem()
    found, said = trained(given, optimizer=Adam(1e-2))
    one, _ = trained(problem(1.0), optimizer=Adam(1e-2))
    np.testing.assert_array_equal(losses(found), losses(one))
    assert said == []
    assert [term.weight for term in given.terms] == [1.0, 1.0, 2.0]


def test_the_largest_weight_of_all_phases_holds_in_all() -> None:
    phases = [(Adam(1e-3), 2), (Descent(), 2), (Heavier(), 2)]
    found, said = trained(problem(), steps=None, phases=phases)
    given, _ = trained(problem(1000.0), steps=None, phases=phases)
    np.testing.assert_array_equal(losses(found), losses(given))
    assert len(said) == (sp.rank() == 0)
    assert all("have the weight 1000, the default of Heavier" in each for each in said)


@two
def test_the_problems_of_members() -> None:
    """Each with values of its own; one with a weight."""
    made: list[Problem] = []

    def of_member(number: int) -> Problem:
        weight = 3.0 if number == 1 else None
        made.append(problem(weight, name=f"member {number}"))
        return made[-1]

    members = 2 * sp.size()
    found, said = trained(
        problem(), optimizer=Descent(), mode=Ensemble(members=members, problems=of_member)
    )
    weighted = [problem(3.0 if number == 1 else 100.0) for number in range(members)]
    given, _ = trained(
        problem(), optimizer=Descent(), mode=Ensemble(members=members, problems=weighted)
    )
    np.testing.assert_array_equal(losses(found), losses(given))
    assert len(said) == (sp.rank() == 0)
    assert {term.weight for each in made for term in each.terms[1:2]} <= {1.0, 3.0}
    assert [m.stacked_with for m in found.members] == [m.stacked_with for m in given.members]


def test_a_checkpoint_is_of_the_weights_that_were_used(tmp_path: Any) -> None:
    folder = sp.current_world().communicator.on_root(lambda: tmp_path / "run")
    begin = partial(trained, optimizer=Descent(), checkpoint=Checkpoint(folder))
    go_on = partial(begin, resume=True, steps=2 * STEPS)
    begin(problem())
    with pytest.raises(InputError, match="weight of term 'dirichlet' was 100.0 there, and is 1.0"):
        go_on(problem(1.0))
    on, said = go_on(problem())
    assert on.members[0].steps == 2 * STEPS
    assert len(said) == (sp.rank() == 0)
    same, _ = go_on(problem(100.0))
    np.testing.assert_array_equal(losses(on), losses(same))


@pytest.mark.parametrize("weight", [-1.0, float("nan"), "heavy", True])
def test_a_default_that_is_no_weight_is_refused(weight: Any) -> None:
    odd = type("Odd", (Descent,), {"condition_weight": weight})()
    with pytest.raises(InputError, match="condition_weight of Odd must be a finite number ≥ 0"):
        trained(problem(), optimizer=odd)


def test_no_default_is_none() -> None:
    indifferent = type("Indifferent", (Descent,), {"condition_weight": None})()
    changes = ProblemChanges(None, [indifferent, Adam()])
    given = problem()
    assert changes.weigh(given) is given and not changes.notes
    ones = ProblemChanges(None, [type("One", (Descent,), {"condition_weight": 1})()])
    assert ones.weigh(given).terms[1].weight == 1.0 and not ones.notes


def test_the_optimizer_of_any_phase_chooses_the_initial_weights() -> None:
    network = partial(MLP, width=4, depth=1)
    phases = [(Adam(1e-3), 2), (Descent(), 2)]
    for options in ({"optimizer": Descent()}, {"steps": None, "phases": phases}):
        found, said = trained(problem(1.0), network=network, **options)
        model = found.networks[0]
        assert (model.initial_weights, model.box) == ("centres", ((0.0,), (2.0,)))
        assert said == []
    found, said = trained(problem(1.0), optimizer=Descent())
    assert (found.networks[0].initial_weights, said) == ("glorot", [])


def test_a_result_is_read_with_the_function_that_made_its_network(tmp_path: Any) -> None:
    folder = sp.current_world().communicator.on_root(lambda: tmp_path / "result")
    network = partial(MLP, width=4, depth=1, initial_weights="centres")
    found, _ = trained(problem(1.0), network=network, optimizer=Adam())
    found.save(folder)
    x = np.linspace(0, 2, 5)[:, None]
    for given in (None, network):
        loaded = Result.load(folder, network=given)
        np.testing.assert_array_equal(loaded.predict(x).mean, found.predict(x).mean)
