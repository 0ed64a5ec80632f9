"""The stages of `solve` by random features of growing number."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from sciml_par.evaluation.figures.parts.data import Prediction
from sciml_par.problems.problem import Problem
from sciml_par.results.error_estimate import ErrorEstimate
from sciml_par.training.estimate.by_correction import MOST_DIMENSIONS, OF_ZERO
from sciml_par.training.estimate.candidates import Candidates, Kind
from sciml_par.training.estimate.convergence import if_converged
from sciml_par.training.estimate.estimate import estimate_error, free_functions
from sciml_par.training.estimate.side_by_side import Solved, in_order, solve_side_by_side
from sciml_par.training.estimate.uniqueness import UNDETERMINED
from sciml_par.training.optimizers.keep import Keep
from sciml_par.training.optimizers.least_squares.least_squares import LeastSquares
from sciml_par.training.outcome.together import EndedError
from sciml_par.training.solving.ladder import (
    UNDECIDED,
    USEFUL,
    Ladder,
    fall_of,
    useless_text,
    with_error,
)

_KINDS: tuple[Kind, ...] = tuple(
    (activation, scale) for activation in ("sin", "tanh") for scale in (2.0, 4.0, 8.0, 16.0, 32.0)
)
_SIZES = {
    1: (40, 100, 300, 600),
    2: (100, 300, 800, 1500),
    3: (200, 600, 1500),
    4: (300, 1000),
    5: (300, 1000),
}
_SIZES_OTHERWISE = (300,)
_MOST_COLUMNS = 1_600
"""Features times components of u, whose QR factors take some seconds."""
_FALL = 3.0
"""A stage after which the residual at unseen points has not fallen by this factor is the last."""
_STEEPER = 1.5
_GROWTH = 1.5
"""The time of a stage grows with this power of the number of features."""
_SHARE = 0.4
"""Of the time that is left, which one stage may take."""
_MOST_KINDS = 3
_MANY = 1_000
"""From this number of features on, only one kind of them estimates the error of fewer."""
_TOO_MANY = "features that would tell it are too many; give solve more seconds for networks."
_RICHER = {40: 300, 100: 300}
"""Numbers of features that estimate the error of fewer; 1.9 times as many otherwise."""


@dataclass(frozen=True)
class _Stage:
    """The best features of one number; the residual `fall`s since there were fewer, or 1."""

    solved: Solved
    candidates: Candidates
    fall: float

    @property
    def kind(self) -> Kind:
        """The activation and scale."""
        return self.candidates.kinds[self.solved.number]

    def text(self) -> str:
        """Return number, activation and scale."""
        activation, scale = self.kind
        return f"{self.candidates.features:,} {activation}, scale {scale:g}"


def climb_by_features(ladder: Ladder) -> str | None:
    """Solve with more and more random features (collective); why all ends, if it does."""
    best: _Stage | None = None
    concluded, each, smaller = None, 0.0, 1
    kinds: Sequence[Kind] = _KINDS
    for features in _sizes(ladder.problem):
        each *= (features / smaller) ** _GROWTH
        if best is not None:
            count = int(_SHARE * ladder.left() / max(each, 1e-9))
            if count < 1:
                break
            # The best kind with a larger scale, the best one, and the second one, or fewer.
            (activation, scale), *others = kinds
            wanted = [(activation, _STEEPER * scale), (activation, scale), *others]
            kinds = tuple(wanted[: min(count, _MOST_KINDS)])
        began = time.perf_counter()
        try:
            stage, kinds = _stage(ladder, Candidates(kinds, features, ladder.drawn), best)
        except EndedError:  # never of the first stage if there is no result without it
            break
        each, smaller = ladder.longest(time.perf_counter() - began) / len(kinds), features
        if best is None:
            best = stage
            ladder.zero_loss = stage.solved.of_zero
            if ladder.start is None:
                ladder.start_loss = stage.solved.before
            ladder.start = ladder.start or stage.solved.solution(stage.solved.start)
            continue
        at = ladder.at[0]
        u, former = (each.solved.solution()(at) for each in (stage, best))
        small = ladder.decided(ladder.foreseen(u, former, stage.fall) <= ladder.tolerance)
        best = stage if stage.fall > 1.0 else best
        if small and best is stage:
            concluded = best
            _conclude(ladder, best)
        if ladder.met or stage.fall < _FALL:
            break
    if best is None:
        return "time is up"
    return None if concluded is best else _conclude(ladder, best)


def _sizes(problem: Problem) -> list[int]:
    """Return growing numbers of features."""
    most = _MOST_COLUMNS // problem.outputs
    sizes = _SIZES.get(problem.domain.dimension, _SIZES_OTHERWISE)
    return sorted({min(size, most) for size in sizes})


def _stage(
    ladder: Ladder, candidates: Candidates, best: _Stage | None
) -> tuple[_Stage, list[Kind]]:
    """Solve for all candidates; return the best of them, and their kinds in order (collective)."""
    former = None if best is None else best.solved
    cut = best is not None or ladder.best is not None
    solved = _solved(ladder, candidates, former, cut=cut)
    first, *_ = in_order(solved)
    fall = 1.0 if best is None else fall_of(best.solved.after, first.after)
    stage = _Stage(first, candidates, fall)
    ladder.say("random features", stage.text(), first.after, "")
    return stage, [candidates.kinds[each.number] for each in in_order(solved)]


def _solved(
    ladder: Ladder, candidates: Candidates, like: Solved | None = None, *, cut: bool = True
) -> list[Solved]:
    """Solve for all candidates, beginning with a solution (collective).

    `EndedError` if that is to be `cut` and a rank is asked to end.
    """
    ladder.doing(f"solving for {candidates.features:,} random features")
    found = solve_side_by_side(
        ladder.problem,
        candidates,
        steps=LeastSquares.default_steps,
        seed=ladder.seed,
        precision=ladder.precision,
        world=ladder.world,
        like=like,
        start=ladder.start,
        ended=ladder.ended if cut else None,
    )
    ladder.most_steps = max(ladder.most_steps, *(each.steps for each in found))
    return found


def _conclude(ladder: Ladder, stage: _Stage) -> str | None:
    """Make a result of a solution, with its error (collective); why all ends, if it does."""
    found, m = stage.solved, ladder.problem.outputs
    free = free_functions(found, ladder.world.communicator).components
    ladder.free = {each: ladder.problem.output_names[each] for each in free}
    none = len(free) == m
    zero = ladder.decided(not found.of_zero > 0.0)
    share = ladder.share_of(found.after, found.of_zero)
    useless = ladder.decided(share > USEFUL)
    ladder.doing("estimating the error")
    why = UNDETERMINED if none else OF_ZERO if zero else useless_text(share)
    error = None if zero or useless else _by_richer(ladder, stage)
    if zero or useless or none and error is None:
        error = ErrorEstimate.not_known(m, why)
    error = ErrorEstimate.not_known(m, _TOO_MANY) if error is None else error
    error = if_converged(error, found, ladder.at, free)
    theta = tuple(map(float, found.end))
    result = ladder.run(
        # The loss of a network of zeros need not be finite.
        network=stage.candidates.only(found.number, theta),
        points=stage.candidates.points,
        optimizer=Keep(parameters=theta),
        keep="last",
        estimate=False,
    )
    if result is not None:
        ladder.keep("features, and error", stage.text(), with_error(result, error))
    if zero:
        return "no other method can tell more"
    # Further methods lower the residual of what is determined, such as the gradient.
    ends = none and ladder.decided(share <= ladder.tolerance)
    return UNDECIDED if ends else None


def _by_richer(ladder: Ladder, stage: _Stage) -> ErrorEstimate | None:
    """Return the error by richer features of the same kind (collective); None for too many."""
    (activation, scale), features = stage.kind, stage.candidates.features
    most = _MOST_COLUMNS // ladder.problem.outputs
    number = min(_RICHER.get(features, int(1.9 * features)), most)
    if number < 1.5 * features or ladder.problem.domain.dimension > MOST_DIMENSIONS:
        return None
    kinds: list[Kind] = [(activation, _STEEPER * scale)]
    if number < _MANY:
        kinds.append(stage.kind)
    if ladder.left() <= 0:
        return ladder.no_time()
    (x, inside), found = ladder.at, stage.solved
    found.assign()
    return estimate_error(
        found.setup.problem,
        found.setup,
        found.end,
        Prediction("prediction", x, found.solution()(x), inside=inside),
        seed=ladder.seed,
        world=ladder.world,
        suitable=(kinds, number),
        ended=ladder.ended,
    )
