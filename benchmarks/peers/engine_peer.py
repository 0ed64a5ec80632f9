"""sciml_par's own training loop, on one rank."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from _peer import BETA_1, BETA_2, EPSILON, LEARNING_RATE, Case, serve

_MANY_STEPS = 2_000_000_000


class EngineTraining:
    """What `sciml_par.train` does between its chunks' ends, without saving and showing."""

    def __init__(self, case: Case) -> None:
        self._course = engine_course(case)
        self._course.prepare()

    def advance(self, steps: int) -> None:
        self._course.advance(steps)
        self._course.state.parameters.numpy()

    def loss(self) -> float:
        return float(self._course.terms_of(self._course.state.parameters).sum())


def engine_course(case: Case) -> Any:
    from sciml_par.networks import MLP
    from sciml_par.parallel import current_world
    from sciml_par.training import Adam, Points
    from sciml_par.training.preparation.preparation import Arguments, prepare

    def network(inputs: int, outputs: int, *, seed: int, dtype: str) -> MLP:
        hidden = case.weights[1:-2:2]
        model = MLP(inputs, outputs, width=len(hidden[0]), depth=len(hidden), dtype=dtype)
        model.set_weights(case.weights)
        return model

    adam = Adam(learning_rate=LEARNING_RATE, beta_1=BETA_1, beta_2=BETA_2, epsilon=EPSILON)
    points = Points(interior=case.x.astype(np.float64), boundary=len(case.boundary))
    unused = dict.fromkeys(("points_per_rank", "phases", "weights", "log_every"))
    arguments = Arguments(
        problem=problem_of(case),
        network=network,
        points=points,
        mode="data",
        optimizer=adam,
        steps=_MANY_STEPS,
        stop=(),
        keep="best",
        seed=0,
        precision=case.dtype,
        evaluation_points=201,
        evaluation_domain=None,
        **unused,
    )
    (course,) = prepare(arguments, current_world()).courses()
    return course


def problem_of(case: Case) -> Any:
    """Return −Δu = f on [−1, 1] or the unit square, u = 0 on the boundary."""
    from sciml_par.problems import Box, Dirichlet, Interval, Problem, Residual, laplacian

    def equation(u: Any, x: Any, f: Any) -> Any:
        return -laplacian(u, x) - f

    domain = Interval(-1, 1) if case.dimension == 1 else Box([0, 0], [1, 1])
    if not np.allclose(domain.boundary(len(case.boundary))[0], case.boundary):
        raise SystemExit("the engine's boundary points are not those of the case")
    return Problem(
        domain,
        Residual(equation, data=lambda x: case.f.astype(np.float64)),
        conditions=[Dirichlet(0.0, weight=case.weight)],
    )


if __name__ == "__main__":
    from sciml_par.parallel import init
    from sciml_par.results.stored.files import versions

    init(threads=int(os.environ["OMP_NUM_THREADS"]))
    serve({"engine": EngineTraining}, versions())
