"""Trainings of accuracy.py with their error along the way: by `sciml_par.train`, by SciPy's
L-BFGS-B on the engine's loss and gradient, and by DeepXDE.

A curve has rows: after how many iterations and seconds there was which loss and which relative L2
error, that of the weights with the least loss until then.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
import warnings
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt
from _accuracy_problems import CASES, Case, network
from _runner import HERE
from peers import Peer

import sciml_par.training as training
from sciml_par._tensorflow import tf
from sciml_par.evaluation import relative_l2_error
from sciml_par.networks import make_network
from sciml_par.parallel import current_world
from sciml_par.training import Adam, Callback, Progress
from sciml_par.training.loss.known import Gradient
from sciml_par.training.loss.objective import StackedObjective, field_of
from sciml_par.training.loss.parameter_layout import ParameterLayout
from sciml_par.training.points.make_feed import make_feed

FloatArray = npt.NDArray[np.float64]
Rows = list[tuple[int, float, float, float]]

OVER = "its seconds are over"
"""Why a training ended that has had its time."""

PEER = Peer("torch", "accuracy_deepxde_peer.py")
CORRECTIONS = 50
"""How many pairs SciPy's L-BFGS-B keeps."""

SECONDS_BETWEEN_ERRORS = 0.5
TOLERANCE = {"float32": 1e-3, "float64": 1e-9}
"""How far a peer's first loss may lie from the engine's, relative to it."""

OPTIMIZERS: dict[str, tuple[Any, dict[str, Any]]] = {
    "adam": (Adam, {"learning_rate": 1e-3}),
    "lm": (training.LevenbergMarquardt, {}),
    "lm-scaled": (training.LevenbergMarquardt, {"scale_columns": True}),
    "lbfgs": (training.LBFGS, {}),
    "ssbroyden": (training.SSBroyden, {}),
}
"""By its name here, the class and options that are not its defaults."""


class AbsentError(Exception):
    """An optimizer is not here; the text says why."""


def trained(problem: str, optimizer: str, seed: int, options: Namespace) -> dict[str, Any]:
    case = CASES[problem]
    limits = Namespace(**{**vars(options), "seconds": options.seconds or case.seconds})
    if optimizer in ("scipy-lbfgs", "deepxde"):
        by_peer = by_scipy if optimizer == "scipy-lbfgs" else by_deepxde
        rows, compiling, ended = by_peer(case, seed, limits)
    else:
        phases = phases_of(optimizer, options.steps, options.adam_steps)
        rows, compiling, ended = by_engine(case, phases, seed, limits)
    iterations, seconds, _, error = rows[-1]
    found = {"error": error, "iterations": iterations, "seconds": seconds, "ended": ended}
    return found | {"compile_seconds": compiling, "rows": rows}


def phases_of(name: str, steps: int, adam_steps: int) -> list[tuple[Any, int]]:
    """Return optimizers and steps for a name, such as "lm" or "adam+lbfgs"."""
    kinds = [OPTIMIZERS[part] for part in name.split("+")]
    counts = [adam_steps] * (len(kinds) - 1) + [steps]
    return [(kind(**of), count) for (kind, of), count in zip(kinds, counts, strict=True)]


class Clock:
    """Seconds, without those in which it stands still.

    Parameters
    ----------
    cpu : whether to count those that this process has computed, not those that have passed.
    """

    def __init__(self, *, cpu: bool = False) -> None:
        self._now = time.process_time if cpu else time.perf_counter
        self._seconds = 0.0
        self._since: float | None = self._now()

    @property
    def seconds(self) -> float:
        return self._seconds + (self._now() - self._since if self._since is not None else 0.0)

    @contextmanager
    def stopped(self) -> Iterator[None]:
        self._seconds, self._since = self.seconds, None
        try:
            yield
        finally:
            self._since = self._now()

    def leave_out(self, seconds: float) -> None:
        self._seconds -= seconds


class ErrorOf:
    """How far the field with parameters θ: [p] is from the exact solution.

    The relative L2 error at the case's test points; where the problem has an unknown, |D − D*| / D*
    of that.
    """

    def __init__(self, case: Case, problem: Any, model: Any, layout: Any, dtype: str) -> None:
        self._exact, given = exact_of(case, problem)
        x = tf.constant(given, dtype)

        def values(flat: Any) -> Any:
            parameters = layout.unflatten(flat)
            for unknown in problem.unknowns.values():
                return tf.reshape(unknown.value(parameters[-1]), [1])
            return field_of(problem, model, parameters)(x)

        # Called directly, TensorFlow would warn of tracing where several trainings follow.
        spec = tf.TensorSpec([layout.size], dtype)
        compiled = tf.function(values, jit_compile=True, autograph=False)
        self._values = compiled.get_concrete_function(spec)

    def __call__(self, flat: Any) -> float:
        """Compute ‖found − exact‖ / ‖exact‖ over all points and components."""
        return relative_l2_error(self._values(flat).numpy(), self._exact)


def exact_of(case: Case, problem: Any) -> tuple[Any, FloatArray]:
    """Return the solution that errors are measured against, and its evaluation points."""
    points = case.test()
    for unknown in problem.unknowns.values():
        return np.reshape(unknown.true, [1]), points
    return problem.exact(points), points


class Recorder(Callback):
    """Measures the error between chunks of steps, and ends the training when its time is over."""

    def __init__(self, case: Case, problem: Any, limits: Namespace) -> None:
        self.rows: Rows = []
        self._case, self._problem, self._limits = case, problem, limits

    def on_train_begin(self, progress: Progress) -> None:
        course, dtype = progress.courses[0], self._limits.dtype
        stack = course.stack
        model = stack.setups[0].network
        self._error_of = ErrorOf(self._case, self._problem, model, stack.layout, dtype)
        self._record(progress, 0.0)
        self._compiled = course.seconds_compile
        self._clock = Clock(cpu=self._limits.cpu)

    def on_chunk_end(self, progress: Progress) -> None:
        course = progress.courses[0]
        if course.seconds_compile > self._compiled:
            # A chunk that is the first of its loop is one step, and counts as compilation.
            self._clock.leave_out(self._clock.seconds)
        self._compiled = course.seconds_compile
        with self._clock.stopped():
            seconds = self._clock.seconds
            self._record(progress, seconds)
            if seconds >= self._limits.seconds:
                progress.stop(OVER)

    def _record(self, progress: Progress, seconds: float) -> None:
        # The losses are those before the last step, which made the best weights what they are.
        loss = min(progress.losses.values(), default=self.rows[-1][2] if progress.step else 0.0)
        error = self._error_of(progress.courses[0].state.best[0])
        self.rows.append((progress.step, seconds, float(loss), error))


def by_engine(
    case: Case, phases: list[tuple[Any, int]], seed: int, limits: Namespace
) -> tuple[Rows, float, str]:
    """Train with `sciml_par.train`; the last row is the prediction of its result (collective)."""
    problem = case.make()
    recorder = Recorder(case, problem, limits)
    # The cases are those of the literature, some of them with fewer points than is good.
    warnings.filterwarnings("ignore", message=".* at the training points and .*")
    result = training.train(
        problem,
        network=network_factory(case, problem, seed),
        points=case.points(),
        phases=phases,
        precision=limits.dtype,
        callbacks=recorder,
        progress=False,
    )
    rows, member = recorder.rows, result.members[0]
    exact, points = exact_of(case, problem)
    found = member.kept_unknowns if problem.unknowns else result.predict(points).mean
    error = relative_l2_error(found, exact)
    rows.append((member.steps, rows[-1][1], float(member.best_loss), error))
    return rows, member.contributions[0].seconds_compile, member.ended


def network_factory(case: Case, problem: Any, seed: int) -> Callable[..., Any]:
    """Return a function that builds the network from a fixed seed, whatever the run's seed."""
    return lambda inputs, outputs, *, dtype: network(case, problem, seed, dtype=dtype)


def by_scipy(case: Case, seed: int, limits: Namespace) -> tuple[Rows, float, str]:
    """Train with SciPy's L-BFGS-B, which calls the engine's compiled loss and gradient."""
    from scipy.optimize import minimize

    start = Standing(case, seed, limits.dtype)
    error_of = ErrorOf(case, start.problem, start.model, start.layout, limits.dtype)
    rows: Rows = []
    best: list[Any] = [np.inf, start.parameters]
    began = time.perf_counter()
    start.loss_and_gradient(start.parameters)
    compiling, iterations = time.perf_counter() - began, [0]

    def record(seconds: float) -> None:
        error = error_of(tf.constant(best[1], limits.dtype))
        rows.append((iterations[0], seconds, float(best[0]), error))

    def loss_and_gradient(flat: FloatArray) -> tuple[float, FloatArray]:
        loss, gradient = start.loss_and_gradient(flat)
        if loss < best[0]:
            best[:] = loss, flat.copy()
        return loss, gradient

    def after_an_iteration(_: FloatArray) -> None:
        iterations[0] += 1
        seconds = clock.seconds
        if seconds < rows[-1][1] + SECONDS_BETWEEN_ERRORS:
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
    return rows, compiling, OVER if rows[-1][1] >= limits.seconds else str(found.message)


class Standing:
    """A training of a case on one rank before its first step, made of what `train` makes.

    Attributes
    ----------
    problem, model, layout : as `train` has them.
    batch : the points of all terms of the loss.
    parameters : the initial weights, [p].
    """

    def __init__(self, case: Case, seed: int, dtype: str) -> None:
        self.problem, self._dtype = case.make(), dtype
        problem = self.problem
        factory = network_factory(case, problem, seed)
        sizes = problem.domain.dimension, problem.network_outputs
        self.model = make_network(factory, *sizes, dtype=dtype)
        self.layout = ParameterLayout.of(self.model.trainable_variables)
        feed = make_feed(problem, case.points(), rank=0, size=1, seed=0, dtype=dtype)
        self.batch = feed.whole(0)
        objective = StackedObjective(
            partial(field_of, problem, self.model),
            problem.terms,
            layout=self.layout,
            members=1,
            stacked=feed.stacked,
            communicator=current_world().alone,
        )

        def terms_and_gradient(theta: Any, batch: Any) -> Any:
            known = objective.evaluate(Gradient, theta, batch)
            return known.terms, known.gradient

        made = tf.function(terms_and_gradient, jit_compile=True, autograph=False)
        specs = tf.nest.map_structure(lambda t: tf.TensorSpec(t.shape, t.dtype), self.batch)
        theta = tf.TensorSpec([1, self.layout.size], dtype)
        self._compiled = made.get_concrete_function(theta, specs)
        flat = self.layout.flatten([v.value for v in self.model.trainable_variables])
        self.parameters = np.asarray(flat, np.float64)

    def loss_and_gradient(self, flat: FloatArray) -> tuple[float, FloatArray]:
        """Compute L and ∇L: [p], in double precision."""
        terms, gradient = self._compiled(tf.constant(flat[None], self._dtype), self.batch)
        return float(tf.reduce_sum(terms)), gradient[0].numpy().astype(np.float64)


def by_deepxde(case: Case, seed: int, limits: Namespace) -> tuple[Rows, float, str]:
    """Train with DeepXDE on PyTorch in a separate environment: Adam, then its L-BFGS."""
    python = PEER.python(limits.environments)
    if not python.exists():
        raise AbsentError(f"there is no {python}")
    start = Standing(case, seed, limits.dtype)
    with TemporaryDirectory() as folder:
        file = Path(folder) / "case.npz"
        write_for_peers(file, start, case.test(), limits)
        ended = subprocess.run(
            [str(python), str(HERE / "peers" / PEER.program), str(file)],
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
    theirs, ours = rows[0][2], start.loss_and_gradient(start.parameters)[0]
    if not abs(theirs / ours - 1) <= TOLERANCE[limits.dtype]:
        raise AbsentError(f"it starts from the loss {theirs}, the engine from {ours}")
    return rows, said["compile_seconds"], said["ended"]


def write_for_peers(file: Path, start: Standing, test: FloatArray, limits: Namespace) -> None:
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
