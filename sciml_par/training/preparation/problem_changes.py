"""The weights and the scaling of inputs that a training adds to the problems of its members."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from numbers import Real
from typing import Any

from sciml_par.errors import InputError
from sciml_par.problems.problem import Problem
from sciml_par.results.text import sizes_text
from sciml_par.training.optimizers.optimizer import Optimizer
from sciml_par.training.weights.of_noise import Chosen, weights_of_noise
from sciml_par.training.weights.of_size import ranges_of_components, sizes_of_residuals


class ProblemChanges:
    """Change the problems of members; members that share a problem share the changed one.

    Conditions without a weight have the `condition_weight` of the optimizer. The largest one of all
    optimizers holds throughout, so that the loss is the same.

    Parameters
    ----------
    weights : the argument of `train`; other things than weights by the names of terms are ignored.
    optimizers : of the phases of the training.

    Attributes
    ----------
    weigh : the problem with the weights.
    """

    def __init__(self, weights: Any, optimizers: Sequence[Optimizer]) -> None:
        self._known: dict[Any, Chosen] = {}
        self._weights = weights if isinstance(weights, Mapping) else {}
        known = [(_weight_of(each), type(each).__name__) for each in optimizers]
        usual = [(weight, name) for weight, name in known if weight is not None]
        self._usual = max(usual, key=lambda pair: pair[0], default=None)
        self._scaled: dict[Problem, Problem] = {}
        self._ranges: dict[Problem, Problem] = {}
        self._sizes: dict[Problem, dict[str, float]] = {}
        self._kind: str | None = None
        self.weigh = cache(self._weighed)

    def _weighed(self, given: Problem) -> Problem:
        problem, sizes = given, {} if self._weights else sizes_of_residuals(given)
        if self._weights:
            try:
                problem = problem.with_term_weights(self._weights)
            except InputError as error:
                raise InputError(f"train: {error}.") from None
        open_ = [
            type(each).__name__
            for each, term in problem.terms_of_conditions
            if each.weight is None
            and not each.statistical
            and term.name not in problem.term_weights
        ]
        if self._usual is not None and open_ and problem.condition_weight is None:
            self._kind = self._kind or open_[0]
            problem = problem.with_condition_weight(self._usual[0])
        if sizes:
            weights = {
                t.name: t.weight / sizes[t.name] ** 2 for t in problem.terms if t.name in sizes
            }
            problem = problem.with_term_weights(weights)
        of_noise = weights_of_noise(problem, self._known)
        problem = problem.with_term_weights(of_noise) if of_noise else problem
        self._sizes[problem] = sizes
        return problem

    def sizes(self, problem: Problem) -> dict[str, float]:
        """Return by what the residuals of a problem that was weighed are divided, by name."""
        return self._sizes[problem]

    def scale(self, problem: Problem, model: Any) -> Problem:
        """Return the problem with scaled inputs and outputs of this network, or unchanged."""
        decided = problem.for_network(model)
        if getattr(model, "sees_scaled_inputs", False):
            decided = self.with_ranges(decided)
        return problem if decided is problem else self._scaled.setdefault(problem, decided)

    def with_ranges(self, problem: Problem) -> Problem:
        """Return the problem with ranges of its components, or unchanged."""
        ranges = ranges_of_components(problem)
        if ranges == problem.output_ranges:
            return problem
        self._ranges[problem] = problem.with_output_ranges(ranges)
        return self._ranges[problem]

    @property
    def notes(self) -> list[str]:
        """Sentences on the changes that the user has not asked for."""
        found = []
        if self._kind and self._usual is not None and self._usual[0] != 1.0:
            weight, optimizer = self._usual
            found.append(
                f"conditions without a weight have the weight {weight:g}, the default of "
                f"{optimizer}; {self._kind}(…, weight=1) changes it."
            )
        for chosen in list(self._known.values())[:1]:
            guessed = f" (a guess, as smooth functions do not tell it: {chosen.why})"
            found.append(
                f"the χ² of observations with noise has the weight {chosen.value:g}"
                f"{guessed if chosen.why else ''}, small enough for the equations to hold in spite "
                f"of the noise; Observations(…, weight=) changes it."
            )
        divided = list(filter(None, self._sizes.values()))
        found += [f"{sizes_text(each)}; weights= changes it." for each in divided[:1]]
        for problem, scaled in list(self._scaled.items())[:1]:
            if scaled.scaled_box != problem.scaled_box and scaled.scaled_box:
                sides = _listed(problem.domain.names, zip(*scaled.scaled_box, strict=True))
                found.append(
                    f"the network sees {sides} mapped to [−1, 1]; "
                    f"Problem(..., input_scaling=False) changes it."
                )
        for problem in list(self._ranges.values())[:1]:
            ranges = _listed(problem.output_names, problem.output_ranges or ())
            found.append(
                f"the network gives {ranges} as −1 to 1; "
                f"Problem(..., output_ranges=False) changes it."
            )
        return found


def _listed(names: Sequence[str], ranges: Iterable[Sequence[float]]) -> str:
    pairs = zip(names, ranges, strict=True)
    return ", ".join(f"{name} from {a:.4g} to {b:.4g}" for name, (a, b) in pairs)


def _weight_of(optimizer: Optimizer) -> float | None:
    weight: Any = optimizer.condition_weight
    if weight is None:
        return None
    number = isinstance(weight, Real) and not isinstance(weight, bool)
    if not number or not math.isfinite(weight) or weight < 0:
        raise InputError(
            f"optimizer: condition_weight of {type(optimizer).__name__} must be a finite number ≥ "
            f"0, the weight of conditions that have none, or None; got {weight!r}."
        )
    return float(weight)
