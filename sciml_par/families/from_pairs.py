"""Learn an operator from pairs: regression and a Fourier neural operator, and which is better."""

from __future__ import annotations

import hashlib
import time
from typing import Any

import numpy as np

from sciml_par._checks import checked_integer, is_positive
from sciml_par._terminal import console
from sciml_par.errors import InputError
from sciml_par.families.fourier import trained
from sciml_par.families.learned import Learned, Side
from sciml_par.families.pairs import LEAST, Pairs
from sciml_par.families.pairs_operator import PairsOperator
from sciml_par.families.regression import Regression
from sciml_par.parallel.groups.world import current_world

_PART, _MOST = 10, 200
"""One of so many pairs is left out, and at most so many."""


def learn_pairs(pairs: Pairs, *, seconds: float, seed: int, progress: bool) -> PairsOperator:
    """Learn an operator from pairs, alike on all ranks (collective); see `learn`."""
    everyone, began = current_world().communicator, time.perf_counter()
    everyone.attempt(lambda: _check(seconds, seed))
    digest = hashlib.sha256(pairs.inputs.tobytes() + pairs.outputs.tobytes()).hexdigest()[:8]
    asked = everyone.allgather_object(f"{pairs} of digest {digest}, {seconds=}, {seed=}")
    if len(set(asked)) > 1:
        raise InputError(f"learn: expected the same pairs on every rank; got {asked}.")

    def elapsed() -> float:
        return time.perf_counter() - began

    def say(step: str, size: str, error: str, gone: str = "") -> None:
        if progress and everyone.rank == 0:
            gone = gone or f"{elapsed():.1f} s"
            console().print(f"{step:<12}{size:<36}{error:<26}{gone:>8}")

    say("step", "size", "relative error", "time")
    count = min(max(LEAST // 2, len(pairs) // _PART), _MOST)
    left_out, rows = np.split(np.random.default_rng(seed).permutation(len(pairs)), [count])
    sides = Side.of(pairs.inputs, pairs.input_grid), Side.of(pairs.outputs, pairs.output_grid)
    a, u = (side.scaled(v) for side, v in zip(sides, (pairs.inputs, pairs.outputs), strict=True))
    flat = [v[rows].reshape(len(rows), -1) for v in (a, u)]
    regression, model = everyone.on_root(lambda: Regression.of(*flat)), None
    size = f"{len(regression.inputs.axes)} to {len(regression.outputs.axes)} principal components"
    say("regression", size, "")
    if _suits_fourier(pairs):
        model = trained(
            a[rows],
            u[rows],
            sides[1].sizes(u[rows]),
            seed=seed,
            elapsed=lambda: elapsed() / seconds,
            say=lambda epochs, error: say("Fourier", epochs, f"{error:.1e} in training"),
        )
    learned = Learned(*sides, regression, model)
    operator = PairsOperator(learned, learned.judged(a[left_out], u[left_out]), len(pairs))
    for method, errors in operator.left_out.items():
        say("left out", method, f"{np.mean(errors):.1e}, at most {errors.max():.1e}")
    return operator


def _check(seconds: Any, seed: Any) -> None:
    if not is_positive(seconds):
        raise InputError(f"learn: seconds must be a number > 0; got {seconds!r}.")
    checked_integer(seed, "learn: seed", least=0)


def _suits_fourier(pairs: Pairs) -> bool:
    """Return whether inputs and outputs are on one grid of equal steps, of one or two axes."""
    grid = pairs.input_grid
    return grid == pairs.output_grid and len(grid) < 3 and min(grid) > 3 and pairs.even
