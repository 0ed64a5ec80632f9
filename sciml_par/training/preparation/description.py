"""A description of a run: ordered names and what each stands for, as short texts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from typing import Any

import numpy as np

from sciml_par.networks.keras.network import Network
from sciml_par.problems.conditions.valued import is_data
from sciml_par.problems.domains.domain import Domain
from sciml_par.problems.problem import Problem
from sciml_par.problems.problem_check import digest_of_ansatz
from sciml_par.training.arguments.ensemble import Division
from sciml_par.training.arguments.settings import Settings
from sciml_par.training.identity.described import text_of
from sciml_par.training.identity.fingerprint import of_array, of_value
from sciml_par.training.loop.stops import Stops
from sciml_par.training.loss.traced_terms import TracedTerms
from sciml_par.training.optimizers.phases import Phase
from sciml_par.training.points.rank_feed import RankFeed
from sciml_par.training.weights.loss_weights import LossWeights

Description = dict[str, str]

# `where` decides which points a condition has, and these are compared.
_NOT_OF_A_CONDITION = ("_", "on", "where", "own", "weight")
_SAMPLE = 5  # points at which functions are compared
# What may be otherwise in the training that goes on; optimizers and steps are compared by phases.
_MAY_DIFFER = ("log_every", "evaluation_points", "evaluation_domain", "keep", "steps", "stop")
# Keras numbers its models by itself; the initial weights are those of rank 0.
_NOT_OF_A_NETWORK = ("name", "seed", "dtype")


@dataclass(frozen=True)
class Identity:
    """What tells one training from another.

    Attributes
    ----------
    run : what describes it, on all ranks.
    members : what describes each member of this group, in the order of their numbers.
    steps : of the phases.
    stop : what ends members by themselves.
    scattered : whether points whose method was left open are Sobol's.
    """

    run: Description
    members: tuple[Description, ...]
    steps: tuple[int, ...]
    stop: str
    scattered: bool

    @property
    def phases(self) -> list[Description]:
        """What describes the optimizer of each phase."""
        first = self.members[0]
        return [
            {
                name.removesuffix(ending) + "optimizer": text
                for name, text in first.items()
                if name.endswith(ending)
            }
            for ending in self._endings
        ]

    @property
    def fixed(self) -> list[Description]:
        """What must be the same where a training goes on: of the run, and of each member."""
        run = {name: text for name, text in self.run.items() if name not in _MAY_DIFFER}
        members = [
            {name: text for name, text in member.items() if not name.endswith(self._endings)}
            for member in self.members
        ]
        return [run, *members]

    @property
    def _endings(self) -> tuple[str, ...]:
        """How the names end that describe the optimizers; see `describe_model`."""
        if len(self.steps) == 1:
            return ("optimizer",)
        return tuple(f"optimizer of phase {k + 1}" for k in range(len(self.steps)))


def describe_run(
    settings: Settings,
    phases: Sequence[Phase],
    stops: Stops,
    division: Division,
    problem: Problem,
    evaluation_domain: Domain | None,
) -> Description:
    """What all ranks must have in common, in the order in which it is compared."""
    found = {name: of_value(value) for name, value in asdict(settings).items()}
    found["steps"] = of_value([phase.steps for phase in phases])
    found["members"] = f"{division.members} in {division.groups} groups"
    found["stop"] = repr(stops)
    found["evaluation_domain"] = repr(evaluation_domain)
    found["dimensions of the problem"] = repr(problem.domain.dimension)
    found["outputs of the problem"] = repr(problem.outputs)
    return found


def describe_model(
    settings: Settings,
    problem: Problem,
    *,
    feed: RankFeed,
    phases: Sequence[Phase],
    network: Network,
    traced: TracedTerms | None = None,
    strategy: LossWeights | None = None,
    ranks: int = 1,
) -> Description:
    """What the ranks that train one model must have in common as well.

    It is all that decides the result. Members of an ensemble may differ in it.
    """
    found = {"mode": of_value(settings.mode)}
    found |= _of_problem(problem, settings.precision)
    found |= _of_terms(problem)
    found |= feed.description
    if strategy is not None:
        # A state of points lies as the ranks have them.
        where = f", on {ranks} ranks" if strategy.of_points else ""
        found["weights of the loss"] = text_of(strategy) + where
    for number, phase in enumerate(phases):
        where = f" of phase {number + 1}" if len(phases) > 1 else ""
        found |= {name + where: value for name, value in _of_optimizer(phase.optimizer).items()}
    found |= _of_network(network.model, network.own_variables)
    for name, other in zip(problem.unknown_functions, network.others, strict=True):
        of_function = _of_network(other.model, other.trainable_variables)
        found |= {f"{what} of {name!r}": text for what, text in of_function.items()}
    if traced is not None:
        # Behind all that they are made of, which says more of a difference.
        found |= {
            f"the computation of term {term.name!r}": f"a graph with the digest {text}"
            for term, text in zip(problem.terms, traced.texts, strict=True)
        }
    return found


def _of_problem(problem: Problem, precision: str) -> Description:
    return {
        "problem": repr(problem.name),
        "domain": repr(problem.domain),
        "terms of the loss": ", ".join(term.name for term in problem.terms),
        "exact solution": _of_exact(problem),
        "ansatz": _of_ansatz(problem, precision),
        "input_scaling": of_value(problem.input_scaling),
        "names of the outputs": ", ".join(problem.output_names),
        **{f"unknown {name!r}": repr(each) for name, each in _decisive(problem).items()},
        **{
            f"unknown function {name!r}": repr(placed.function)
            for name, placed in problem.unknown_functions.items()
        },
    }


def _of_ansatz(problem: Problem, precision: str) -> str:
    digest = digest_of_ansatz(problem, precision)
    name = of_value(problem.ansatz)
    return name if digest is None else f"{name}, a graph with the digest {digest.text}"


def _of_exact(problem: Problem) -> str:
    if problem.exact is None:
        return of_value(None)
    return of_array(problem.exact(problem.domain.sample(_SAMPLE, seed=0)))


def _decisive(problem: Problem) -> dict[str, Any]:
    """Return the unknowns, without their true values, which the training does not see."""
    return {name: replace(each, true=None) for name, each in problem.unknowns.items()}


def _of_terms(problem: Problem) -> Description:
    found = {}
    parts = [*problem.residuals, *problem.conditions]
    for term, part in zip(problem.terms, parts, strict=True):
        found[f"weight of term {term.name!r}"] = of_value(term.weight)
        for name, value in _of_part(part, problem):
            found[f"{name} of term {term.name!r}"] = value
    return found


def _of_part(part: Any, problem: Problem) -> Iterator[tuple[str, str]]:
    """What a residual or a condition is made of; one of the user's own, by its attributes."""
    yield "kind", type(part).__qualname__
    values = getattr(part, "__dict__", {})
    names = [field.name for field in fields(part)] if is_dataclass(part) else sorted(values)
    for name in names:
        if name in values and name not in _NOT_OF_A_CONDITION:
            yield name, _of_attribute(values[name], problem)


def _of_attribute(value: Any, problem: Problem) -> str:
    """Describe a function of the points by its values, any other by its name."""
    if not callable(value) or not is_data(value):
        return of_value(value)
    try:
        return of_array(np.asarray(value(problem.domain.sample(_SAMPLE, seed=0)), np.float64))
    except Exception:  # it is no function of the points, or has values at its own ones only
        return of_value(value)


def _of_optimizer(optimizer: Any) -> Description:
    found = optimizer.describe()
    return {"optimizer": found.pop("kind")} | {
        f"{name} of the optimizer": value for name, value in found.items()
    }


def _of_network(network: Any, variables: Sequence[Any]) -> Description:
    shapes = [list(variable.shape) for variable in variables]
    types = sorted({str(variable.dtype) for variable in variables})
    found = {"network": type(network).__qualname__}
    for name, value in _config(network).items():
        if name not in _NOT_OF_A_NETWORK:
            found[f"{name} of the network"] = of_value(value)
    found["weights of the network"] = f"{', '.join(types)} {shapes}"
    return found


def _config(network: Any) -> dict[str, Any]:
    """What Keras would save of it, as far as it is a matter of numbers and names."""
    try:
        config = network.get_config()
    except Exception:  # Keras raises several, for models that it cannot save
        return {}
    simple = (bool, int, float, str, tuple, list, np.generic)
    found = {name: value for name, value in config.items() if isinstance(value, simple)}
    if isinstance(config.get("embedding"), dict):  # of networks of this package
        found["embedding"] = json.dumps(config["embedding"], sort_keys=True, default=repr)
    return found
