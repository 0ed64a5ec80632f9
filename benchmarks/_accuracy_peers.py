"""Peers of accuracy.py: SciPy's L-BFGS-B on the engine's loss and gradient, and DeepXDE."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt
from _accuracy_curves import OVER, AbsentError, Clock, Curve, ErrorOf, Limits
from _accuracy_problems import Case
from _accuracy_training import network_factory

from sciml_par._tensorflow import tf
from sciml_par.networks import make_network
from sciml_par.parallel import current_world
from sciml_par.training.loss.known import Gradient
from sciml_par.training.loss.objective import StackedObjective, field_of
from sciml_par.training.loss.parameter_layout import ParameterLayout
from sciml_par.training.points.make_feed import make_feed

FloatArray = npt.NDArray[np.float64]

CORRECTIONS = 50
"""How many pairs SciPy's L-BFGS-B keeps."""

SECONDS_BETWEEN_ERRORS = 0.5
TOLERANCE = {"float32": 1e-3, "float64": 1e-9}
"""How far a peer's first loss may lie from the engine's, relative to it."""


def by_scipy(case: Case, seed: int, limits: Limits) -> Curve:
    """Train with SciPy's L-BFGS-B, which calls the engine's compiled loss and gradient."""
    from scipy.optimize import minimize

    start = Standing.of(case, seed, limits)
    error_of = ErrorOf(case, start.problem, start.model, start.layout, limits.dtype)
    curve = Curve()
    best: list[Any] = [np.inf, start.parameters]
    began = time.perf_counter()
    start.loss_and_gradient(start.parameters)
    curve.compile_seconds = time.perf_counter() - began
    iterations = [0]

    def record(seconds: float) -> None:
        curve.add(iterations[0], seconds, best[0], error_of(tf.constant(best[1], limits.dtype)))

    def loss_and_gradient(flat: FloatArray) -> tuple[float, FloatArray]:
        loss, gradient = start.loss_and_gradient(flat)
        if loss < best[0]:
            best[:] = loss, flat.copy()
        return loss, gradient

    def after_an_iteration(_: FloatArray) -> None:
        iterations[0] += 1
        seconds = clock.seconds
        if seconds < curve.rows[-1][1] + SECONDS_BETWEEN_ERRORS:
            return
        with clock.stopped():
            record(seconds)
        if seconds >= limits.seconds:
            raise StopIteration

    record(0.0)
    clock = Clock(cpu=limits.cpu)
    options = {"maxcor": CORRECTIONS, "ftol": 0.0, "gtol": 0.0, "maxls": 50}
    found = minimize(
        loss_and_gradient,
        start.parameters,
        jac=True,
        method="L-BFGS-B",
        callback=after_an_iteration,
        options={**options, "maxiter": limits.steps, "maxfun": 10**9},
    )
    record(clock.seconds)
    curve.ended = OVER if curve.rows[-1][1] >= limits.seconds else str(found.message)
    return curve


@dataclass(frozen=True)
class Standing:
    """A training before its first step, made of what `train` makes.

    Attributes
    ----------
    problem, model, layout : as `train` has them.
    batch : the points of all terms of the loss.
    parameters : the initial weights, [p].
    loss_and_gradient : compiled; [p] -> L and ∇L: [p], in double precision.
    """

    problem: Any
    model: Any
    layout: Any
    batch: Any
    parameters: FloatArray
    loss_and_gradient: Callable[[FloatArray], tuple[float, FloatArray]]

    @classmethod
    def of(cls, case: Case, seed: int, limits: Limits) -> Standing:
        """That of a case, on one rank."""
        problem, dtype = case.make(), limits.dtype
        model = make_network(
            network_factory(case, problem, seed),
            problem.domain.dimension,
            problem.network_outputs,
            dtype=dtype,
        )
        layout = ParameterLayout.of(model.trainable_variables)
        feed = make_feed(problem, case.points(), rank=0, size=1, seed=0, dtype=dtype)
        batch = feed.whole(0)
        objective = StackedObjective(
            partial(field_of, problem, model),
            problem.terms,
            layout=layout,
            members=1,
            stacked=feed.stacked,
            communicator=current_world().alone,
        )

        def terms_and_gradient(theta: Any, batch: Any) -> Any:
            known = objective.evaluate(Gradient, theta, batch)
            return known.terms, known.gradient

        made = tf.function(terms_and_gradient, jit_compile=True, autograph=False)
        specs = tf.nest.map_structure(lambda t: tf.TensorSpec(t.shape, t.dtype), batch)
        compiled = made.get_concrete_function(tf.TensorSpec([1, layout.size], dtype), specs)

        def loss_and_gradient(flat: FloatArray) -> tuple[float, FloatArray]:
            terms, gradient = compiled(tf.constant(flat[None], dtype), batch)
            return float(tf.reduce_sum(terms)), gradient[0].numpy().astype(np.float64)

        parameters = layout.flatten([v.value for v in model.trainable_variables])
        flat = np.asarray(parameters, np.float64)
        return cls(problem, model, layout, batch, flat, loss_and_gradient)


def by_deepxde(case: Case, seed: int, limits: Limits, environments: Path) -> Curve:
    """Train with DeepXDE on PyTorch in a separate environment: Adam, then its L-BFGS."""
    chosen = os.environ.get("PEER_TORCH")
    python = Path(chosen or environments / "torch") / "bin" / "python"
    if not python.exists():
        raise AbsentError(f"there is no {python}")
    program = Path(__file__).parent / "peers" / "accuracy_deepxde_peer.py"
    with TemporaryDirectory() as folder:
        file = Path(folder) / "case.npz"
        start = Standing.of(case, seed, limits)
        write_for_peers(file, start, case.test(), limits)
        ended = subprocess.run(
            [str(python), str(program), str(file)],
            capture_output=True,
            encoding="utf-8",
            env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
            check=False,
        )
    if ended.returncode:
        last = (ended.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise AbsentError(f"DeepXDE ended with code {ended.returncode}: {last}")
    said = json.loads(ended.stdout.strip().splitlines()[-1])
    rows = [tuple(row) for row in said["rows"]]
    check_loss(rows[0][2], start.loss_and_gradient(start.parameters)[0], limits.dtype)
    return Curve(rows, said["compile_seconds"], said["ended"])


def check_loss(theirs: float, ours: float, dtype: str) -> None:
    """Check that a peer starts from the engine's loss.

    Raises
    ------
    AbsentError
        It does not.
    """
    if not abs(theirs / ours - 1) <= TOLERANCE[dtype]:
        raise AbsentError(f"it starts from the loss {theirs}, the engine from {ours}")


def write_for_peers(file: Path, start: Standing, test: FloatArray, limits: Limits) -> None:
    """Write all that a program in another environment needs, as arrays."""
    (interior, *_), *conditions = (rows.arrays for rows in start.batch)
    arrays: dict[str, Any] = {"interior": interior.numpy()}
    for number, (condition, (x, *_)) in enumerate(
        zip(start.problem.conditions, conditions, strict=True)
    ):
        zero = tf.zeros([len(x), 1], x.dtype)
        value = condition.value(x) if callable(condition.value) else zero + condition.value
        arrays[f"x_{number}"], arrays[f"value_{number}"] = x.numpy(), value.numpy()
        arrays[f"components_{number}"] = getattr(condition, "components", (0,))
        arrays[f"weight_{number}"] = condition.weight
    weights = [v.numpy() for v in start.model.trainable_variables]
    arrays |= {f"weights_{number}": array for number, array in enumerate(weights)}
    np.savez(
        file,
        **arrays,
        problem=start.problem.name,
        built_in=start.problem.ansatz is not None,
        test=test,
        exact=start.problem.exact(test),
        seconds=limits.seconds,
        adam_steps=limits.adam_steps,
        dtype=limits.dtype,
    )
