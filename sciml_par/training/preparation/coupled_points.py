"""What to say of residuals that depend on more than their point, where ranks share a model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
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

    The residuals are tried at all points of this rank, as they were traced.

    Parameters
    ----------
    parameters : θ: [p], near which they are tried.
    ranks : how many share a model.
    batches : whether a step uses some of the points only.
    """
    theta = moved(tf.constant(parameters))
    trials = [
        _Trial(term.name, here, whole, theta, [tf.constant(a, theta.dtype) for a in given])
        for term, here, whole, given in zip(terms, traced.here, traced.whole, arrays, strict=True)
        if len(given[0])
    ]
    rest = [each for each in trials if not _holds(each.draws_random_numbers)]
    remarks = [_of_random_numbers(each.name) for each in trials if each not in rest]
    if ranks > 1 or batches:
        for each in rest:
            if _holds(each.mixes_points):
                raise InputError(_refusal(each.name, ranks))
    if ranks > 1:
        remarks += [_of_counts(each.name, ranks) for each in rest if _holds(each.counts_points)]
    return remarks


@dataclass(frozen=True, eq=False)
class _Trial:
    """A term at this rank's points, and at as many as all ranks have, with θ and its arrays."""

    name: str
    here: Trace
    whole: Trace | None
    theta: Tensor
    arrays: Sequence[Tensor]

    def draws_random_numbers(self) -> bool:
        """Return whether residuals are others when they are computed again."""
        return self.here.drew or _differ(self._residual, self._residual)

    def mixes_points(self) -> bool:
        """Return whether residuals at some points are others once the rest of these points move.

        Their number and places stay, so that rounding does too, and every bit is compared.
        """
        n = self._count
        rows, numbers = np.arange(n), np.random.default_rng(0).permutation(n)
        whole = self._residual()
        if not np.array_equal(whole, self._residual(), equal_nan=True):
            return False
        for bit in range(min((n - 1).bit_length(), _MOST_PARTS)):
            part = (numbers >> bit) & 1
            for side in (0, 1):
                kept = rows[part == side]
                others = self._residual(np.where(part == side, rows, kept[rows % len(kept)]))
                if not np.array_equal(whole[kept], others[kept], equal_nan=True):
                    return True
        return False

    def counts_points(self) -> bool:
        """Whether residuals are others in other rows, among as many points as all ranks have."""
        if self.whole is None or self.whole is self.here:
            return False
        total, n = int(self.whole.result.shape[0]), self._count
        return _differ(
            self._residual, lambda: self._residual(np.arange(-total, 0) % n, self.whole)[-n:]
        )

    @property
    def _count(self) -> int:
        return int(self.arrays[0].shape[0])

    def _residual(self, rows: Any = None, trace: Trace | None = None) -> Any:
        arrays = self.arrays if rows is None else [tf.gather(a, rows) for a in self.arrays]
        return (trace or self.here).compute(self.theta, *arrays).numpy()


def refuse_coupling_ansatz(problem: Problem, network: Any, dtype: str) -> None:
    """Check that an ansatz gives the same at a point, whichever others are with it."""
    if problem.ansatz is None:
        return
    domain, u = problem.domain, problem.field(network)
    few = np.random.default_rng(0).uniform(size=(4, domain.dimension))
    x = tf.constant(domain.lower + few * (np.asarray(domain.upper) - domain.lower), dtype)
    together, alone = np.asarray(u(x)), np.concatenate([u(x[i : i + 1]) for i in range(4)])
    rounding = 1e4 * np.finfo(dtype).eps * np.max(np.abs(together), initial=1e-30)
    if np.max(np.abs(together - alone)) > rounding:
        raise InputError(
            "Problem: what the ansatz gives at one point depends on the other points it is called "
            "with, as by a mean over them, and predictions and conditions have other points than "
            "the equations. Write it for each point alone; what is over all points is an "
            "IntegralCondition."
        )


def _refusal(name: str, ranks: int) -> str:
    seen = f"each of the {ranks} ranks that share the model" if ranks > 1 else "each batch"
    instead = (
        "on one rank, or an ensemble with ranks_per_member=1" if ranks > 1 else "in no batches"
    )
    return (
        f"train: the residual {name!r} at a point depends on other points, as by a "
        f"mean over all of them, but {seen} has some of the points only, which makes another "
        f"equation. Write what is over all points as an IntegralCondition, or train {instead}."
    )


def _of_random_numbers(name: str) -> str:
    return (
        f"the residual {name!r} draws random numbers, new ones at every step and on "
        f"every rank: optimizers that compare losses, such as L-BFGS and LevenbergMarquardt, "
        f"compare different ones, and no training is repeated exactly. If that is not meant, draw "
        f"them once with NumPy and pass them as Residual(..., data=...)."
    )


def _of_counts(name: str, ranks: int) -> str:
    return (
        f"the residual {name!r} depends on the number or the order of the points, "
        f"but each of the {ranks} ranks that share the model has its own points only: the result "
        f"is not that of one rank. Make it a function of x alone, train on one rank, or train an "
        f"ensemble with ranks_per_member=1."
    )


def _differ(one: Callable[[], Any], other: Callable[[], Any]) -> bool:
    """Return whether two arrays differ by more than rounding."""
    a, b = one(), other()
    scale = np.abs(a[np.isfinite(a)]).max(initial=0.0)
    close = 1e3 * np.finfo(a.dtype).eps * scale
    return not np.allclose(a, b, rtol=0, atol=close, equal_nan=True)


def _holds(asked: Callable[[], bool]) -> bool:
    try:
        return asked()
    except tf.errors.OpError:  # an assertion, which no compiled program has
        return False
