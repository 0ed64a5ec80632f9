"""The scaling of a network's inputs, where the user has left it open."""

from __future__ import annotations

from typing import Any

from sciml_par.problems.problem import Problem


class DefaultScaling:
    """What `Problem.for_network` decides for the members of a training, and what to say of it."""

    def __init__(self) -> None:
        # Members that share a problem go on to share it. The first one stays alive in the second.
        self._made: dict[int, tuple[Problem, Problem]] = {}

    def applied_to(self, problem: Problem, model: Any) -> Problem:
        """Return the problem with scaled inputs, or as it is."""
        decided = problem.for_network(model)
        if decided is problem:
            return problem
        return self._made.setdefault(id(problem), (problem, decided))[1]

    @property
    def notes(self) -> tuple[str, ...]:
        """What there is to say of it, once it has been applied."""
        if not self._made:
            return ()
        domain = next(iter(self._made.values()))[0].domain
        box = ", ".join(
            f"{name} from {low:g} to {high:g}"
            for name, low, high in zip(domain.names, domain.lower, domain.upper, strict=True)
        )
        return (
            f"the network sees {box} mapped to [−1, 1]; Problem(..., input_scaling=False) changes "
            f"it.",
        )
