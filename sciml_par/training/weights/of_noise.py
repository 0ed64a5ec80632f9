"""What observations with known errors weigh in a loss whose equations hold exactly."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sciml_par._tensorflow import tf
from sciml_par._text import one_line
from sciml_par.problems.fields.field import Field
from sciml_par.problems.problem import Problem
from sciml_par.training.weights.loss_weights import LossAt, LossWeights, State

Tensor = Any
Array = npt.NDArray[np.float64]

_SHARE, _MOST_SHARE = 0.02, 0.1
"""τ g: by what data violate the equation, relative to what they would, were it as soft."""
_LEAST_SHARE = 1e-3
"""The same for the median of g; smaller ones are beyond the accuracy of networks."""
_STAGES = 8
_LEAD = 1e2
"""How much more observations weigh in the first steps."""
_STEPS_OF_SECOND_ORDER, _STEPS_OF_FIRST_ORDER = 5, 100

_POINTS, _DTYPE = 200, "float64"
_FUNCTIONS, _FUNCTIONS_OTHERWISE = {1: 40, 2: 80, 3: 100}, 120
_LEAST, _MOST = 40, 160
_FREQUENCIES = (1.0, 3.0)
_SMALL, _RIDGE = 1e-3, 1e-3
_CUTOFF = 1e-3
"""Of directions of the coefficients, beyond which they are too rough to be of interest."""
_GAP = 30.0
"""The factor between ratios from which those below belong to directions that are free."""
_MOST_FREE = 0.5
"""The share of directions that may be free."""


def statistical_terms(problem: Problem) -> dict[str, int]:
    """Return the terms whose residuals are errors in units of their deviation, and their rows."""
    pairs = problem.terms_of_conditions
    return {term.name: c.number_of_rows for c, term in pairs if c.statistical and term.weight > 0}


class Chosen(NamedTuple):
    """Attributes: λ; why it is a guess, or "" if it is not."""

    value: float
    why: str


def weights_of_noise(problem: Problem, known: dict[Any, Chosen]) -> dict[str, float]:
    """Return the weights of observations with noise that have none, by name (local).

    With χ² = Σ_i ((u(x_i) − u_i)/σ_i)² and L_f the terms of equations and conditions, the loss is
    L = L_f + λ χ². For λ → 0 this is least χ² among all u that satisfy the equation (the penalty
    method; Nocedal and Wright 2006, Numerical Optimization, section 17.1). With g² the largest χ²
    of a change of u for which L_f changes by 1, data violate the equation by λ g² of what they
    would if it weighed nothing; λ = (`_SHARE`/g)², with g from smooth functions; see `stiffness`.
    It is not smaller, since a network must satisfy the equation to λ^½ where unknowns move, and it
    has two digits, so that processes that round differently choose the same.

    known : λ of problems that differ from others in the observed values alone; it is added to.
    """
    rows = statistical_terms(problem)
    data = [(each, t.name) for each, t in problem.terms_of_conditions if each.statistical]
    open_ = [n for each, n in data if each.weight is None and n not in problem.term_weights]
    if not open_:
        return {}
    if rows.keys() >= {term.name for term in problem.terms}:
        return {name: float(rows[name]) for name in open_}
    # If observations have a weight, a prior without one counts as they do.
    given = [t.weight / rows[t.name] for t in problem.terms if t.name in rows.keys() - open_]
    factor = max(given, default=0.0)
    if not factor:
        # All that λ depends on but observed values. Functions are objects; the caller keeps the
        # problems, so that no other function gets one of these identities.
        arrays = [getattr(each, name, 0.0) for each, _ in data for name in ("x", "noise")]
        arrays += [problem.domain.lower, problem.domain.upper]
        key = (
            tuple((id(each.function), each.weight) for each in problem.residuals),
            tuple(id(getattr(each, "operator", None)) for each, _ in data),
            tuple((term.name, term.weight) for term in problem.terms),
            tuple(rows.items()),
            tuple(np.asarray(a).tobytes() for a in arrays),
        )
        if key not in known:
            known[key] = _chosen(problem, rows)
        factor = known[key].value
    return {name: factor * rows[name] for name in open_}


def _chosen(problem: Problem, rows: dict[str, int]) -> Chosen:
    """Return λ = τ², with τ by which data in units of their deviations move the equation."""
    try:
        ratios, why = _stiffness(problem, rows), ""
    except Exception as error:  # a user's residual may not like such functions
        ratios, why = np.array([]), f"{type(error).__name__}: {one_line(error)}"
    if not len(ratios):
        why = why or "no observation depends on the solution"
        ratios = np.array([1 / math.sqrt(sum(rows.values()))])
    softest = float(ratios[0])
    wanted = max(_SHARE * softest, _LEAST_SHARE * float(np.median(ratios)))
    return Chosen(float(f"{min(wanted, _MOST_SHARE * softest) ** 2:.1e}"), why)


def _stiffness(problem: Problem, rows: dict[str, int]) -> Array:
    """Return |change of physics| over |change of data| for smooth changes of u, ascending.

    u is a sum of smooth functions that fits the data, and the unknowns have their start values.
    The ratios are the generalized singular values of the derivatives of √(w/N) r of equations and
    conditions, and of the errors of the data in units of their deviations, by the coefficients.
    Directions that the equation leaves open, such as an initial condition that is not given, are
    left out: their ratios lie far below the others. There are none if one of the two does not
    change at all. Whatever the user's residuals raise for such functions goes through.
    """
    residuals, count = _residuals_of(problem, rows)

    def derivatives(at: Array, step: float) -> tuple[Array, Array]:
        size, here = step * (1.0 + np.linalg.norm(at)), residuals(at)
        columns = [
            [(a - b) / size for a, b in zip(residuals(at + e), here, strict=True)]
            for e in size * np.eye(count)
        ]
        physics, data = (np.column_stack(each) for each in zip(*columns, strict=True))
        return physics, data

    zero = np.zeros(count)
    data = derivatives(zero, 1.0)[1]
    # c of least |A c − b|² + δ² |c|², which is smooth where there are few data.
    ridge = _RIDGE * np.linalg.norm(data) * np.eye(count)
    right = np.concatenate([-residuals(zero)[1], zero])
    fitted = np.linalg.lstsq(np.vstack([data, ridge]), right, rcond=None)[0]
    physics, data = derivatives(fitted, _SMALL)
    if not (np.isfinite(physics).all() and np.isfinite(data).all()):
        raise FloatingPointError("a residual is not finite for smooth functions")
    sizes = [float(np.linalg.norm(each)) for each in (physics, data)]
    if not all(sizes):
        return np.empty(0)
    balance = sizes[0] / sizes[1]
    u, s, _ = np.linalg.svd(np.vstack([physics, balance * data]), full_matrices=False)
    q = u[:, s > _CUTOFF * s[0]]
    _, cosines, rotation = np.linalg.svd(q[len(physics) :], full_matrices=False)
    sines = np.linalg.norm(q[: len(physics)] @ rotation.T, axis=0)
    seen = cosines > 1e-6  # by the data
    ratios = np.sort(balance * sines[seen] / cosines[seen])
    # Those above the widest gap, where there is one.
    most = int(_MOST_FREE * len(ratios))
    steps = ratios[1 : most + 1] / np.maximum(ratios[:most], np.finfo(float).tiny)
    wide = len(steps) > 0 and steps.max() > _GAP
    return ratios[int(np.argmax(steps)) + 1 :] if wide else ratios


def _residuals_of(problem: Problem, rows: dict[str, int]) -> tuple[Any, int]:
    """Return coefficients -> residuals of physics, and of data, as vectors; and their number."""
    m = problem.network_outputs
    k = _FUNCTIONS.get(problem.domain.dimension, _FUNCTIONS_OTHERWISE)
    k = max(_LEAST, min(k, _MOST // m))
    lower, upper = map(np.asarray, problem.box_of_inputs)
    rng = np.random.default_rng(0)
    frequencies = rng.uniform(*_FREQUENCIES, size=k)
    kernel = frequencies * rng.normal(size=(len(lower), k))
    bias = frequencies * rng.uniform(-1, 1, size=k)
    terms = {term.name: term for term in problem.terms}
    physics = [term for term in problem.terms if term.name not in rows]
    data = [terms[name] for name in rows]
    arrays = [[tf.constant(a, _DTYPE) for a in t.points(_POINTS)] for t in (*physics, *data)]

    @tf.function(autograph=False)
    def of(coefficients: Tensor) -> tuple[Tensor, Tensor]:
        def value(x: Tensor) -> Tensor:
            t = 2 * (x - tf.constant(lower, x.dtype)) / tf.constant(upper - lower, x.dtype) - 1
            features = tf.tanh(t @ tf.constant(kernel, x.dtype) + tf.constant(bias, x.dtype))
            return features @ tf.reshape(coefficients, [k, m])

        u = problem.field(Field(value))
        found = [t.residual(u, *a) for t, a in zip((*physics, *data), arrays, strict=True)]
        scaled = [
            tf.sqrt(tf.cast(t.weight / a[0].shape[0], _DTYPE)) * r
            for t, a, r in zip(physics, arrays, found, strict=False)
        ]
        flat = [tf.reshape(r, [-1]) for r in (*scaled, *found[len(physics) :])]
        return tf.concat(flat[: len(physics)], 0), tf.concat(flat[len(physics) :], 0)

    return lambda c: [np.asarray(r, np.float64) for r in of(tf.constant(c, _DTYPE))], m * k


@dataclass(frozen=True)
class DataFirst(LossWeights):
    """Observations that weigh more in the first steps, so that unknowns begin near their values.

    λ of the terms with these names is `lead` at first, and falls to 1 in `stages` equal factors,
    one every `every` steps.
    """

    names: tuple[str, ...]
    lead: float = _LEAD
    stages: int = _STAGES
    every: int = _STEPS_OF_SECOND_ORDER

    def update(self, state: State, loss: LossAt, number: Tensor) -> State:
        done = tf.minimum(tf.cast(number // self.every, loss.values.dtype) / self.stages, 1.0)
        factor = tf.cast(self.lead, done.dtype) ** (1.0 - done)
        first = tf.constant([name in self.names for name in loss.terms.names])
        return {"factors": tf.where(first, factor, tf.ones_like(loss.values))}


def data_first(weighed: Problem, given: Problem, phases: Sequence[Any]) -> DataFirst | None:
    """Return the strategy where a problem got weights of noise and has equations."""
    chosen = weighed.term_weights.keys() - given.term_weights
    names = [name for name in statistical_terms(weighed) if name in chosen]
    if not names or not weighed.residuals:
        return None
    second = all(phase.optimizer.second_order for phase in phases)
    # Not by the number of steps, with which a training that is resumed would be another one.
    every = _STEPS_OF_SECOND_ORDER if second else _STEPS_OF_FIRST_ORDER
    return DataFirst(tuple(names), every=every)
