"""Levenberg–Marquardt by each solver, as a user of `train` asks for it."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import sciml_par.training.preparation.sizes as sizes
from sciml_par import problems, train
from sciml_par.errors import InputError
from sciml_par.networks import MLP
from sciml_par.training import LevenbergMarquardt

pytestmark = pytest.mark.ranks(most=2, reason="two ranks show what more would")


def _network(d: int, m: int, **_: Any) -> MLP:
    return MLP(d, m, width=6, depth=1, seed=1, dtype="float64", initial_weights="glorot")


def _train(solver: str) -> Any:
    return train(
        problems.poisson(),
        network=_network,
        points=50,
        precision="float64",
        optimizer=LevenbergMarquardt(solver=solver),
        steps=3,
    )


@pytest.mark.long
def test_training_by_solvers_agrees() -> None:
    losses = {}
    for solver in ("auto", "block cholesky"):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            losses[solver] = _train(solver).members[0].history.losses
    for found in losses.values():
        np.testing.assert_allclose(found, losses["auto"], rtol=1e-7)
    assert losses["auto"][-1] < losses["auto"][0]


def test_what_does_not_fit_is_refused_on_all_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizes, "free_memory", lambda: 1000)
    with pytest.raises(InputError, match="solver='qr' needs about .* and .* are free"):
        _train("qr")
