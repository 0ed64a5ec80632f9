"""Unknowns as all members of a training have found them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from sciml_par.evaluation.figures.parts.data import Prediction
from sciml_par.problems.checks.arrays import Array, FloatArray
from sciml_par.results.member import Member, in_the_mean
from sciml_par.results.member_function import MemberFunction
from sciml_par.results.predict import EnsemblePrediction, Predictor
from sciml_par.results.unknown_values import relative_error

_SHOWN = 4


@dataclass(frozen=True, eq=False)
class FoundUnknown:
    """An unknown as all members of a training have found it.

    Attributes
    ----------
    name : of the unknown.
    mean : over the members that finished, as in `Result.predict`; a float, or an array of the
        shape of the unknown.
    deviation : their standard deviation, with M − 1 in the denominator; NaN for one.
    members : what each found, [M, *shape], those that did not finish included.
    true : the known value, or None.
    """

    name: str
    mean: Any
    deviation: Any
    members: FloatArray
    true: Any = None

    @property
    def relative_error(self) -> float:
        """‖mean − true‖ / ‖true‖; NaN where the truth is unknown or zero."""
        return relative_error(self.mean, self.true)

    def __repr__(self) -> str:
        text = _text(self.mean)
        if np.isfinite(self.deviation).all():
            text += f" ± {_text(self.deviation, digits=2)}"
        error = self.relative_error
        return text if math.isnan(error) else f"{text} (relative error {error:.1e})"


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

    def __init__(self, members: Sequence[Member], functions: Sequence[MemberFunction]) -> None:
        self._placed = functions[0].placed
        self.name, self.inputs = self._placed.name, self._placed.names
        self._members = [f.as_member(m) for f, m in zip(functions, members, strict=True)]

    def __call__(self, x: Any) -> Array:
        """Return the mean over the members that finished, [n, 1] (local).

        Raises
        ------
        InputError
            x has another shape, or the weights are not on this rank.
        """
        return self._predict(x).mean

    def deviation(self, x: Any) -> Array:
        """Return the standard deviation over these members, [n, 1]; NaN for one (local)."""
        return self._predict(x).deviation

    def members(self, x: Any) -> Array:
        """Return what each member found, those that did not finish included, [M, n, 1] (local)."""
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
        d, inputs = len(self._placed.coordinates), self._placed.inputs
        points = np.asarray(x)
        of_whole = points.ndim == 2 and points.shape[1] == d != len(inputs)
        if of_whole and not self._placed.needs_solution:
            x = points[:, self._placed.axes]
        return self._predictor.predict(x, batch_size=None)

    def __repr__(self) -> str:
        of = f"function of {', '.join(self.inputs)}"
        if not math.isnan(self.relative_error):
            return f"{of} (relative error {self.relative_error:.1e})"
        seen = [m.prediction for m in self._used]
        values = [p.u[p.inside] for p in seen if isinstance(p, Prediction)]
        if not values:
            return of
        return f"{of} from {np.min(values[0]):.4g} to {np.max(values[0]):.4g}"


def unknowns_of(members: Sequence[Member]) -> dict[str, FoundUnknown | FoundFunction]:
    """Return each unknown by name, of those members that have it in one shape."""
    shapes = {n: shape for m in members for n, shape in m.unknown_values.shapes.items()}
    found: dict[str, FoundUnknown | FoundFunction] = {
        name: _found_unknown(name, shape, members) for name, shape in shapes.items()
    }
    inputs: dict[str, tuple[str, ...]] = {}
    for member in members:
        for function in member.functions:
            inputs.setdefault(function.name, function.placed.names)
    for name, names in inputs.items():
        pairs = [
            (member, function)
            for member in members
            for function in member.functions
            if function.name == name and function.placed.names == names
        ]
        found[name] = FoundFunction([m for m, _ in pairs], [f for _, f in pairs])
    return found


def _found_unknown(name: str, shape: tuple[int, ...], members: Sequence[Member]) -> FoundUnknown:
    entering = zip(members, in_the_mean(members), strict=True)
    alike = [(m, used) for m, used in entering if m.unknown_values.shapes.get(name) == shape]
    values = np.stack([np.asarray(member.unknowns[name]) for member, _ in alike])
    used = [enters for _, enters in alike]
    mean_of = values[used] if any(used) else values
    deviation = mean_of.std(axis=0, ddof=1) if len(mean_of) > 1 else np.full(shape, np.nan)
    known = [m.unknown_values.true[name] for m, _ in alike if name in m.unknown_values.true]
    true = known[0] if known else None
    return FoundUnknown(name, _plain(mean_of.mean(axis=0)), _plain(deviation), values, _plain(true))


def _plain(value: Any) -> Any:
    return value if value is None or np.ndim(value) else float(value)


def _text(value: Any, digits: int = 8) -> str:
    """Return a number, or the first few of an array."""
    if not np.ndim(value):
        return f"{value:.{digits}g}"
    numbers = np.ravel(value)
    shown = [f"{number:.{digits}g}" for number in numbers[:_SHOWN]]
    return f"[{', '.join(shown + ['…'] * (len(numbers) > _SHOWN))}]"
