"""The stages of `solve` that correct the best solution by random features."""

from __future__ import annotations

from sciml_par.training.estimate.candidates import Candidates, Kind
from sciml_par.training.estimate.side_by_side import in_order
from sciml_par.training.optimizers.least_squares.least_squares import LeastSquares
from sciml_par.training.outcome.together import EndedError
from sciml_par.training.solving.ladder import Ladder

_KINDS: tuple[Kind, ...] = (("sin", 6.0), ("sin", 12.0), ("sin", 24.0), ("tanh", 8.0))
_FEATURES = 800
_FALL = 3.0
"""An estimate whose residual falls by less is not worth a further correction."""


def climb_by_corrections(ladder: Ladder) -> str | None:
    """Correct the best solution while that helps (collective); why all ends, if it does."""
    while not (ladder.met or ladder.fits_noise):
        assert ladder.best is not None
        before = ladder.best.error
        corrects = before.known and not (before.at_rounding or before.between)
        if not ladder.decided(corrects and before.reliability >= _FALL):
            return None
        if ladder.left() < 3 * ladder.longest(before.seconds):
            return "time is up"
        base = ladder.best.networks[0]
        if ladder.decided(
            hasattr(base, "features_of_windows")
        ):  # windows resolve more than features do
            return None
        ladder.doing("correcting the solution")
        candidates = Candidates(_KINDS, _FEATURES, ladder.drawn, base)
        try:
            number = in_order(ladder.solved(candidates))[0].number
        except EndedError:
            return "time is up"
        activation, scale = candidates.kinds[number]
        corrected = ladder.run(
            network=candidates.only(number),
            points=candidates.points,
            optimizer=LeastSquares(),
            estimate=True,
        )
        if corrected is None:
            return None
        size = f"{candidates.features:,} {activation}, scale {scale:g}"
        ladder.keep("correction", size, corrected)
        after = ladder.best.error
        if not ladder.decided(after.relative <= before.relative / 2):
            return None
    return None
