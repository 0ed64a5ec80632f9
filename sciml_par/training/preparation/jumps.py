"""Functions inside operators that jump: their derivative there lies on no point."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._tensorflow import tf
from sciml_par.problems.fields.composition import recorded
from sciml_par.problems.problem import Problem
from sciml_par.training.weights.of_size import evaluated_terms, residuals_at

Array = npt.NDArray[np.float64]

_LINES, _PARTS, _TIMES = 2, 200, 4  # 200⁴ = 1.6e9
_JUMP = 1e-2
"""Of the largest value, between two points that are a billionth of the domain apart."""


def jumps(problem: Problem) -> Iterator[str]:
    """Yield a sentence for each equation that differentiates a function which jumps (local)."""
    m = problem.outputs
    for k, term in enumerate(problem.terms[: len(problem.residuals)]):
        try:
            lines = problem.domain.sample(_LINES, seed=0)
            with recorded() as functions:
                evaluated = evaluated_terms(problem)[0][k]
                residuals_at(problem, *evaluated, [(np.ones(m), 0.0, np.zeros(m))])
            found = [
                (axis, place)
                for function in functions
                for axis in range(lines.shape[1])
                for x in lines
                if (place := _place(function, x, axis, problem)) is not None
            ]
        except Exception:  # there may be no other points, or a user's function not like them
            continue
        for axis, place in found[:1]:
            yield (
                f"a function inside an operator of the term {term.name!r} jumps at "
                f"{problem.domain.names[axis]} = {place:.6g}, and the derivative of the jump lies "
                f"on no point, so that a wrong flux there has no residual. Write the two sides as "
                f"two components with Interface(…), or let it rise over a width that points see."
            )


def _place(function: Any, x: Array, axis: int, problem: Problem) -> float | None:
    """Return where a function jumps on the line through x: [d], by dividing its steepest part."""
    low, high, size = problem.domain.lower[axis], problem.domain.upper[axis], 0.0
    for _ in range(_TIMES):
        line = np.tile(x, (_PARTS + 1, 1))
        line[:, axis] = np.linspace(low, high, _PARTS + 1)
        values = np.asarray(function(tf.constant(line))).reshape(_PARTS + 1, -1)
        inside = problem.domain.contains(line)
        steps = np.abs(np.diff(values, axis=0)).max(axis=1) * (inside[1:] & inside[:-1])
        size, k = max(size, np.abs(values).max()), int(steps.argmax())
        low, high = line[k : k + 2, axis]
    return float(low) if steps[k] > _JUMP * size else None
