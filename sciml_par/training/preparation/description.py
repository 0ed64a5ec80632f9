"""A description of a run: ordered names and what each stands for, as short texts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sciml_par.assembly.asked import Rows
from sciml_par.networks.keras.network import Network
from sciml_par.problems.domains.domain import Domain
from sciml_par.problems.problem import Problem
from sciml_par.problems.problem_check import digest_of_ansatz
from sciml_par.results.growth import Growth
from sciml_par.training.arguments.ensemble import Division
from sciml_par.training.arguments.settings import Settings
from sciml_par.training.identity.described import config_of, of_array, text_of

if TYPE_CHECKING:  # of a training, which a solution by polynomials is without
    from sciml_par.training.loop.stops import Stops
    from sciml_par.training.loss.traced_terms import TracedTerms
    from sciml_par.training.optimizers.phases import Phase
    from sciml_par.training.points.feed import RankFeed
    from sciml_par.training.weights.loss_weights import LossWeights

Description = dict[str, str]

# `where` decides which points a condition has, and these are compared.
_NOT_OF_A_CONDITION = ("_", "on", "where", "own", "weight")
# What may differ in a training that continues; steps are compared by phases.
_MAY_DIFFER = (
    *("log_every", "evaluation_points", "evaluation_domain"),
    *("keep", "steps", "stop", "grow"),
)
ABSENT = "nothing"
"""The text of a name that a description lacks."""
SOLVING = "solve"
"""The mode of a description without a training."""
# Keras numbers its models; the initial weights are those of rank 0.
_NOT_OF_A_NETWORK = ("name", "seed", "dtype")


@dataclass(frozen=True)
class Identity:
    """What tells one training from another.

    `run`, `members` and `phases` describe the run on all ranks, the members of this group in the
    order of their numbers, and the optimizer of each phase. `steps` are those of the phases, `stop`
    ends members, and `scattered` is true if points without a chosen method are Sobol's. `growths`
    have added points.
    """

    run: Description
    members: tuple[Description, ...]
    phases: tuple[Description, ...]
    steps: tuple[int, ...]
    stop: str
    scattered: bool
    growths: tuple[Growth, ...] = ()

    @property
    def fixed(self) -> list[Description]:
        """What must be the same in a training that continues: of the run, and of each member."""
        run = {name: text for name, text in self.run.items() if name not in _MAY_DIFFER}
        return [run, *self.members]


def first_difference(descriptions: Sequence[Description]) -> str | None:
    """Return the first name of which not all descriptions have the same text."""
    names = dict.fromkeys(name for each in descriptions for name in each)
    differing = (n for n in names if len({each.get(n, ABSENT) for each in descriptions}) > 1)
    return next(differing, None)


def describe_run(
    settings: Settings,
    phases: Sequence[Phase],
    stops: Stops,
    division: Division,
    problem: Problem,
    evaluation_domain: Domain | None,
) -> Description:
    """Describe what all ranks have in common, in the order in which it is compared."""
    found = {name: text_of(value) for name, value in asdict(settings).items()}
    found["steps"] = text_of([phase.steps for phase in phases])
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
    network: Network,
    traced: TracedTerms,
    strategy: LossWeights | None,
    ranks: int,
) -> Description:
    """Describe all that decides the result of a member, but the run and the optimizers."""
    found = {"mode": text_of(settings.mode)}
    found |= _of_problem(problem, settings.precision)
    found |= _of_terms(problem)
    found |= feed.description
    if strategy is not None:
        # A state of points lies as the ranks have them.
        where = f", on {ranks} ranks" if strategy.of_points else ""
        found["weights of the loss"] = text_of(strategy) + where
    found |= _of_network(network.model, network.own_variables)
    for name, other in zip(problem.unknown_functions, network.others, strict=True):
        of_function = _of_network(other.model, other.trainable_variables)
        found |= {f"{what} of {name!r}": text for what, text in of_function.items()}
    # Behind all that they are made of, which says more of a difference.
    return found | {
        f"the computation of term {term.name!r}": f"a graph with the digest {text}"
        for term, text in zip(problem.terms, traced.texts, strict=True)
    }


def describe_equations(problem: Problem, rows: Sequence[Rows], precision: str) -> Description:
    """Describe all that decides the solution of a problem, but the methods by which it is found."""
    found = {"mode": SOLVING} | _of_problem(problem, precision) | _of_terms(problem)
    for term, of_term in zip(problem.terms, rows, strict=True):
        points, *data = (of_array(each.numpy()) for each in of_term.arrays)
        found[f"points of term {term.name!r}"] = points
        found[f"values of the data of term {term.name!r}"] = ", ".join(data)
        found[f"the computation of term {term.name!r}"] = of_array(of_term.asked.probe)
    return found


def _of_problem(problem: Problem, precision: str) -> Description:
    digest, ansatz = digest_of_ansatz(problem, precision), text_of(problem.ansatz)
    if digest is not None:
        ansatz += f", a graph with the digest {digest.text}"
    return {
        "problem": repr(problem.name),
        "domain": repr(problem.domain),
        "terms of the loss": ", ".join(term.name for term in problem.terms),
        "exact solution": text_of(None)
        if problem.exact is None
        else of_array(problem.exact(problem.domain.sample(5, seed=0))),
        "ansatz": ansatz,
        "input_scaling": text_of(problem.input_scaling),
        **({"output_ranges": repr(ranges)} if (ranges := problem.output_ranges) else {}),
        "names of the outputs": ", ".join(problem.output_names),
        # Without their true values, which the training does not see.
        **{f"unknown {n!r}": repr(replace(u, true=None)) for n, u in problem.unknowns.items()},
        **{
            f"unknown function {name!r}": repr(placed.function)
            for name, placed in problem.unknown_functions.items()
        },
    }


def _of_terms(problem: Problem) -> Description:
    """Describe residuals and conditions by their attributes; functions count by their names.

    The values of functions are among those of the points, or in the computation of the term.
    """
    found = {}
    parts = [*problem.residuals, *problem.conditions]
    for term, part in zip(problem.terms, parts, strict=True):
        found[f"weight of term {term.name!r}"] = text_of(term.weight)
        found[f"kind of term {term.name!r}"] = type(part).__qualname__
        for name, value in getattr(part, "__dict__", {}).items():
            if name not in _NOT_OF_A_CONDITION:
                found[f"{name} of term {term.name!r}"] = text_of(value)
    return found


def describe_phases(phases: Sequence[Phase]) -> tuple[Description, ...]:
    """Describe the optimizer of each phase."""
    found = []
    for phase in phases:
        about = phase.optimizer.describe()
        kind = {"optimizer": about.pop("kind")}
        found.append(kind | {f"{name} of the optimizer": text for name, text in about.items()})
    return tuple(found)


def joined(phases: Sequence[Description]) -> Description:
    """Return the descriptions of all phases as one."""
    if len(phases) == 1:
        return phases[0]
    return {
        f"{name} of phase {k + 1}": text
        for k, phase in enumerate(phases)
        for name, text in phase.items()
    }


def _of_network(network: Any, variables: Sequence[Any]) -> Description:
    shapes = [list(variable.shape) for variable in variables]
    types = sorted({str(variable.dtype) for variable in variables})
    found = {"network": type(network).__qualname__}
    for name, value in _config(network).items():
        if name not in _NOT_OF_A_NETWORK:
            found[f"{name} of the network"] = text_of(value)
    found["weights of the network"] = f"{', '.join(types)} {shapes}"
    return found


def _config(network: Any) -> dict[str, Any]:
    """Return the numbers and texts of the configuration that Keras saves.

    Configurations of layers are left out: Keras numbers layers, so their names differ.
    """
    config = config_of(network)
    names = [name for name in config if name not in ("input_layers", "output_layers")]
    found = {name: config[name] for name in names if _is_plain(config[name])}
    if isinstance(config.get("embedding"), dict):  # of networks of this package
        found["embedding"] = json.dumps(config["embedding"], sort_keys=True, default=repr)
    return found


def _is_plain(value: Any) -> bool:
    if isinstance(value, tuple | list):
        return all(map(_is_plain, value))
    return isinstance(value, bool | int | float | str | np.generic)
