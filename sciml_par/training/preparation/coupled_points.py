"""Residuals at a point that depend on other points, on their number, or on chance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.problems.fields.recording import Trace
from sciml_par.problems.problem import Problem
from sciml_par.problems.terms.term import Arrays, Term
from sciml_par.training.loss.jacobian import moved
from sciml_par.training.loss.traced_terms import TracedTerms

Tensor = Any

_MOST_PARTS = 4  # of the points, each of which keeps its places while the rest moves
_OF_COUNTS = 0.1
"""The relative difference between one point of four and a single one, above any rounding."""


def remarks_on_coupled_points(
    terms: Sequence[Term],
    traced: TracedTerms,
    arrays: Sequence[Arrays],
    parameters: npt.NDArray[Any],
    *,
    ranks: int,
    batches: bool = False,
) -> list[str]:
    """Return a sentence for each term whose residual depends on the number of points or on chance.

    The traced residuals are tried at all points of this rank. Residuals at a point that depend on
    other points are refused if a step on a rank has some of the points only.

    Parameters
    ----------
    parameters : θ: [p], near which they are tried.
    ranks : how many share a model.
    batches : whether a step uses some of the points only.
    """
    theta = moved(tf.constant(parameters))
    remarks: list[str] = []
    for term, here, whole, given in zip(terms, traced.here, traced.whole, arrays, strict=True):
        if len(given[0]) == 0:
            continue
        residual = _Residual(here, theta, [tf.constant(a, theta.dtype) for a in given])
        try:
            if here.drew or _differ(residual.at(), residual.at()):
                remarks.append(
                    f"the residual {term.name!r} draws random numbers, new ones at every step and "
                    f"on every rank: no training can be repeated exactly, and optimizers that "
                    f"compare losses compare different ones. To draw them once, use NumPy and "
                    f"Residual(..., data=...)."
                )
            elif (ranks > 1 or batches) and residual.mixes_points():
                raise InputError(_refusal(term.name, ranks))
            elif ranks > 1 and whole is not None and residual.counts_points(whole):
                remarks.append(
                    f"the residual {term.name!r} depends on the number or the order of the points, "
                    f"of which each of the {ranks} ranks that share the model has a part: the "
                    f"result is not that of one rank. Make it a function of x alone, train on one "
                    f"rank, or train an ensemble with ranks_per_member=1."
                )
        except tf.errors.OpError:  # an assertion, which no compiled program has
            continue
    return remarks


class _Residual:
    """A traced residual at θ, at some of this rank's points."""

    def __init__(self, trace: Trace, theta: Tensor, arrays: Sequence[Tensor]) -> None:
        self._trace, self._theta, self._arrays = trace, theta, arrays
        self._count = int(arrays[0].shape[0])

    def at(self, rows: Any = None, trace: Trace | None = None) -> npt.NDArray[Any]:
        arrays = self._arrays if rows is None else [tf.gather(a, rows) for a in self._arrays]
        found: npt.NDArray[Any] = (trace or self._trace).compute(self._theta, *arrays).numpy()
        return found

    def mixes_points(self) -> bool:
        """Return whether residuals at some points change when the rest of the points moves.

        The number and the places of these points stay, so that rounding does too, and all bits are
        compared.
        """
        n = self._count
        rows, numbers = np.arange(n), np.random.default_rng(0).permutation(n)
        whole = self.at()
        if not np.array_equal(whole, self.at(), equal_nan=True):
            return False
        for bit in range(min((n - 1).bit_length(), _MOST_PARTS)):
            part = (numbers >> bit) & 1
            for side in (0, 1):
                kept = rows[part == side]
                others = self.at(np.where(part == side, rows, kept[rows % len(kept)]))
                if not np.array_equal(whole[kept], others[kept], equal_nan=True):
                    return True
        return False

    def counts_points(self, whole: Trace) -> bool:
        """Return whether residuals change in other rows among as many points as all ranks have."""
        if whole is self._trace:
            return False
        total, n = int(whole.result.shape[0]), self._count
        return _differ(self.at(), self.at(np.arange(-total, 0) % n, whole)[-n:])


def refuse_coupling_ansatz(problem: Problem, network: Any, dtype: str) -> None:
    """Check that an ansatz gives the same at a point, whichever others are with it."""
    if problem.ansatz is None:
        return
    domain, u = problem.domain, problem.field(network)
    few = np.random.default_rng(0).uniform(size=(6, domain.dimension))
    x = tf.constant(domain.lower + few * (np.asarray(domain.upper) - domain.lower), dtype)
    # As many points at the same places, so that even large weights round alike; of either half,
    # since a largest value changes with one of them only.
    here = np.asarray(u(x[:4]))
    ends, begins = (np.asarray(u(tf.concat(each, 0))) for each in ([x[:2], x[4:]], [x[4:], x[2:4]]))
    kept = np.concatenate([ends[:2], begins[2:]])
    coupled = not np.array_equal(here, kept, equal_nan=True)
    alone, size = np.asarray(u(x[:1])), np.max(np.abs(here), initial=1e-30)
    if coupled or np.max(np.abs(alone - here[:1])) > _OF_COUNTS * size:
        raise InputError(
            "Problem: the ansatz at a point depends on the other points of the call, as by a mean "
            "over them, but the equations, the conditions and predictions have different points. "
            "Write it for each point alone, and a mean over all points as an IntegralCondition."
        )


def _refusal(name: str, ranks: int) -> str:
    seen = f"each of the {ranks} ranks that share the model" if ranks > 1 else "each batch"
    instead = (
        "on one rank, or an ensemble with ranks_per_member=1" if ranks > 1 else "without batches"
    )
    return (
        f"train: the residual {name!r} at a point depends on other points, as by a mean over all "
        f"of them, but {seen} has only some of the points. Write an integral over the domain as "
        f"an IntegralCondition, or train {instead}."
    )


def _differ(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> bool:
    """Return whether two arrays differ by more than rounding."""
    scale = np.abs(a[np.isfinite(a)]).max(initial=0.0)
    close = 1e3 * np.finfo(a.dtype).eps * scale
    return not np.allclose(a, b, rtol=0, atol=close, equal_nan=True)
