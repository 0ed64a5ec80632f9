"""Unknown functions as all members of a training have found them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par.evaluation.figures.parts.data import Prediction
from sciml_par.results.member import Member, in_the_mean
from sciml_par.results.member_function import MemberFunction
from sciml_par.results.predict import EnsemblePrediction, Predictor

Array = npt.NDArray[Any]


class FoundFunction:
    """An unknown function as all members of a training have found it; call it at points.

    It can be called where `Result.predict` can. Points are those of what the function depends on,
    z: [n, e], or of the domain, x: [n, d], where it depends on some of its coordinates alone; [n]
    is read as [n, 1].

    Attributes
    ----------
    name : of the function.
    inputs : the names of what it depends on, e of them.

    Examples
    --------
    >>> import numpy as np
    >>> import sciml_par as sp
    >>> from sciml_par.problems import Interval, Problem, UnknownFunction
    >>> sp.init()
    >>> problem = Problem(
    ...     Interval(0, 1),
    ...     lambda u, x, *, k: u(x) - k(x),
    ...     unknowns={"k": UnknownFunction(1.0, lower=0)},
    ... )
    >>> result = sp.train(problem, steps=10, progress=False)
    >>> result.unknowns["k"](np.linspace(0, 1, 5)).shape
    (5, 1)
    """

    def __init__(
        self,
        members: Sequence[Member],
        functions: Sequence[MemberFunction],
    ) -> None:
        self._placed = functions[0].placed
        self.name, self.inputs = self._placed.name, self._placed.names
        self._members = [f.as_member(m) for f, m in zip(functions, members, strict=True)]

    def __call__(self, x: Any) -> Array:
        """The mean over the members that finished, [n, 1] (local).

        Raises
        ------
        InputError
            x has another shape, or the weights are not on this rank.
        """
        return self._predict(x).mean

    def deviation(self, x: Any) -> Array:
        """The standard deviation over these members, [n, 1]; NaN for one (local)."""
        return self._predict(x).deviation

    def members(self, x: Any) -> Array:
        """What each member found, those that did not finish included, [M, n, 1] (local)."""
        return self._predict(x).members

    @property
    def relative_error(self) -> float:
        """The largest ‖k − true‖ / ‖true‖ of the members that finished, over the points of figures.

        NaN where the truth is not known; the same on every rank.
        """
        errors = [m.prediction.relative_l2_error for m in self._used if m.prediction.known]
        return max(errors, default=math.nan)

    @cached_property
    def _used(self) -> list[Member]:
        entering = zip(self._members, in_the_mean(self._members), strict=True)
        return [member for member, enters in entering if enters]

    @cached_property
    def _predictor(self) -> Predictor:
        return Predictor(self._members)

    def _predict(self, x: Any) -> EnsemblePrediction:
        return self._predictor.predict(self._inputs_at(x), batch_size=None)

    def _inputs_at(self, x: Any) -> Any:
        """Of points of the whole domain, the coordinates that matter."""
        d, inputs = len(self._placed.coordinates), self._placed.inputs
        points = np.asarray(x)
        if points.ndim != 2 or points.shape[1] != d or d == len(inputs):
            return x
        if self._placed.needs_solution:
            return x
        return points[:, self._placed.axes]

    def __repr__(self) -> str:
        of = f"function of {', '.join(self.inputs)}"
        if not math.isnan(self.relative_error):
            return f"{of} (relative error {self.relative_error:.1e})"
        seen = [m.prediction for m in self._used]
        values = [p.u[p.inside] for p in seen if isinstance(p, Prediction)]
        if not values:
            return of
        return f"{of} from {np.min(values[0]):.4g} to {np.max(values[0]):.4g}"


def found_functions(members: Sequence[Member]) -> dict[str, FoundFunction]:
    """The unknown functions by name, of those members that have them of the same inputs."""
    first: dict[str, tuple[str, ...]] = {}
    for member in members:
        for function in member.functions:
            first.setdefault(function.name, function.placed.names)
    found = {}
    for name, inputs in first.items():
        pairs = [
            (member, function)
            for member in members
            for function in member.functions
            if function.name == name and function.placed.names == inputs
        ]
        found[name] = FoundFunction([m for m, _ in pairs], [f for _, f in pairs])
    return found
