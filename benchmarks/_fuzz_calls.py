"""Calls of the public functions and classes with arguments that fuzz.py draws.

Most arguments of a call are of the right kind, so that the wrong ones are met where they are used,
and not all at the first check.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import tensorflow as tf
from fuzz import Reached, Target
from hypothesis import strategies as st

import sciml_par
from sciml_par import evaluation, networks, parallel, problems, train, training

INTEGERS = st.sampled_from([0, 1, 2, 3, 5, 8, -1, -7, 64])
NUMBERS = st.sampled_from([0.0, 0.5, 1.0, 2, 1e-3, -1.0, 3.5, 1e-30, 1e30])
TEXTS = st.sampled_from(["", "x", "y", "t", "u", "left", "right", "tanh", "grid", "é\n", "a" * 200])

WRONG = st.one_of(
    st.sampled_from(
        [
            *(None, True, False, 0, 1, -1, 2.5, math.nan, math.inf, -math.inf, 2**63, 10**30),
            *("", "x", "nan", b"x", (), [], {}, set(), 1j, object(), int, len, lambda *a: None),
            *([1, "a"], [[1, 2], [3]], [None], {"x": 1}, {1: 2}, range(3), slice(2), ...),
        ]
    ),
    st.builds(lambda: np.zeros((0, 2))),
    st.builds(lambda: np.array([["a", "b"]])),
    st.builds(lambda: np.array(3.0)),
    st.builds(lambda: np.full((3, 2), np.nan)),
    st.builds(lambda: np.zeros((2, 2, 2))),
    st.builds(lambda: np.array([1, 2], dtype=object)),
    st.builds(lambda: (i for i in range(3))),
)
"""One of each kind of thing that stands where something else should."""

Values = dict[str, Any]


def right_by_annotation(annotation: str) -> Any:
    kinds = {
        "float": NUMBERS,
        "Number": NUMBERS,
        "Value": NUMBERS,
        "int": INTEGERS,
        "bool": st.booleans(),
        "str": TEXTS,
        "Sequence[str]": st.lists(TEXTS, max_size=3),
        "Sequence[float]": st.lists(NUMBERS, max_size=3),
        "Sequence[int]": st.lists(INTEGERS, max_size=3),
        "Component": st.sampled_from([0, 1, "u", "p"]),
        "npt.ArrayLike": st.lists(st.lists(NUMBERS, min_size=2, max_size=2), max_size=4),
        "ArrayLike": st.lists(NUMBERS, max_size=4),
        "np.ndarray": st.lists(NUMBERS, max_size=4).map(np.array),
    }
    found = [kinds[part] for part in map(str.strip, annotation.split("|")) if part in kinds]
    return st.one_of(found) if found else WRONG


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    if inspect.isclass(function) and function.__init__ is not object.__init__:
        # Keras gives its classes a __new__ of any arguments, which inspect may take in its place.
        return list(inspect.signature(function.__init__).parameters.values())[1:]
    return list(inspect.signature(function).parameters.values())


def arguments_of(
    function: Callable[..., Any], known: Values | None = None, *, wrong: float = 0.15
) -> Any:
    """Draw (positional, by keyword) for a call of `function`.

    Parameters
    ----------
    known : what to draw for a parameter by its name, where the annotation does not say enough.
    wrong : how likely an argument is of another kind. What is to be true or false is left out:
        in Python nearly everything is one of them.
    """
    parameters = [
        each
        for each in _parameters(function)
        if each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL)
    ]
    right = {
        each.name: (known or {}).get(each.name, right_by_annotation(str(each.annotation)))
        for each in parameters
    }

    @st.composite
    def draw_call(draw: Any) -> tuple[list[Any], Values]:
        positional, named = [], {}
        for each in parameters:
            chance = draw(st.floats(0, 1))
            if each.default is not each.empty and chance < 0.5:
                continue
            is_wrong = chance > 1 - wrong and str(each.annotation) != "bool"
            value = draw(WRONG if is_wrong else right[each.name])
            if each.kind is each.POSITIONAL_ONLY:
                positional.append(value)
            else:
                named[each.name] = value
        return positional, named

    return draw_call()


PLANE = problems.Box([0, 0], [1, 1])
LINE = problems.Interval(-1, 1)
IN_TIME = LINE * problems.Time(0, 1)
POISSON = problems.poisson()

numbers = st.one_of(NUMBERS, st.lists(NUMBERS, min_size=1, max_size=3))
functions = st.sampled_from([lambda x: x[:, :1], lambda x: x, lambda u, x: u(x), lambda x: None])
equations = st.sampled_from(
    [
        problems.laplacian,
        lambda u, x: u(x),
        lambda u, x, *, k: k * u(x),
        lambda u, x: problems.derivative(u, x, "t"),
        problems.Residual(lambda u, x: u(x), name="r"),
        lambda x: x,
    ]
)
places = st.sampled_from(["left", "right", "bottom", "initial", "outer", "all", ["left", "right"]])
predicates = st.sampled_from([lambda x: x[:, 0] < 0.5, lambda x: x, lambda x: True, None])
domains = st.sampled_from([LINE, PLANE, IN_TIME, problems.Ball([0, 0], 1)])
unknowns = st.sampled_from([{"k": 1.0}, {"k": problems.Unknown(1.0, lower=0.0)}, {"": 1}, {}, None])
condition_makers = (
    problems.Dirichlet,
    problems.Neumann,
    problems.Robin,
    problems.Initial,
    problems.Periodic,
    problems.Interface,
    problems.Observations,
    problems.IntegralCondition,
)
points_of_conditions = st.one_of(INTEGERS, st.just(np.linspace(0, 1, 6).reshape(3, 2)))
rows = st.integers(0, 5).map(lambda n: np.linspace(0.0, 1.0, 2 * n).reshape(n, 2))
columns = st.integers(0, 5).map(lambda n: np.linspace(0.0, 1.0, n)[:, None])
CONDITION = {
    "value": st.one_of(NUMBERS, functions),
    "velocity": st.one_of(NUMBERS, functions),
    "integrand": functions,
    "on": places,
    "where": predicates,
    "points": points_of_conditions,
    "at": st.sampled_from([("x", 0.5), (0, 0.5), ("t", [0.0, 0.5]), (7, 1.0), ("q", 0)]),
    "axis": st.sampled_from([0, 1, "x", "t", "q", -1]),
    "order": st.sampled_from([0, 1, 2, (0, 1), [0], []]),
    "x": rows,
    "u": columns,
    "noise": st.one_of(NUMBERS, columns),
}


@st.composite
def conditions(draw: Any) -> Any:
    make = draw(st.sampled_from(condition_makers))
    positional, named = draw(arguments_of(make, CONDITION, wrong=0.02))
    try:
        return make(*positional, **named)
    except sciml_par.errors.SciMLParError:
        return problems.Dirichlet(0.0)


PROBLEM = {
    "domain": domains,
    "residual": st.one_of(equations, st.lists(equations, max_size=2)),
    "conditions": st.lists(conditions(), max_size=2),
    "exact": functions,
    "outputs": st.sampled_from([1, 2, "u", ("u", "v"), ["u"], (), 0, "u, v"]),
    "unknowns": unknowns,
    "ansatz": st.sampled_from([lambda u, x: u, lambda x, u: u * x[:, :1], lambda u: u, None]),
}
rates = st.sampled_from([1e-3, 0.5, training.Constant(1e-3), training.CosineDecay(1e-3, 10)])
optimizers = st.sampled_from(
    [None, "auto", "adam", "lm", "Adam", training.Adam(), training.LBFGS(), training.SGD, 1e-3]
)
TRAIN = {
    "problem": st.just(POISSON),
    "network": st.sampled_from(
        [None, "mlp", "pirate", "nothing", networks.MLP, networks.MLP(1, 1)]
    ),
    "points": st.sampled_from([None, 8, (8,), 1, 0, -1, np.linspace(-1, 1, 9)[:, None], {"x": 3}]),
    "points_per_rank": st.sampled_from([None, None, 8, 0, (3,)]),
    "mode": st.sampled_from(["data", "ensemble", "Data", "", training.Ensemble(members=2)]),
    "optimizer": optimizers,
    "steps": st.sampled_from([None, 1, 5, 0, -1, 2.0, True]),
    "phases": st.sampled_from(
        [
            *(None, None, [], [training.Adam()], [(1, 2, 3)]),
            *([(training.Adam(), n)] for n in (3, 0)),
        ]
    ),
    "stop": st.sampled_from(
        [None, training.TargetLoss(1.0), [training.WallTime(seconds=3)], [1], "x"]
    ),
    "callbacks": st.sampled_from([(), print, [print], [None], 3, training.Callback()]),
    "checkpoint": st.sampled_from([None, training.Checkpoint("checkpoint"), "checkpoint"]),
    "resume": st.sampled_from([False, True, "auto", "yes", 1, None]),
    "keep": st.sampled_from(["best", "last", "first", ""]),
    "weights": st.sampled_from(
        [
            *({"residual": w} for w in (2.0, -1.0)),
            {"nothing": 1.0},
            training.NTKWeights(),
            None,
            [1],
        ]
    ),
    "seed": INTEGERS,
    "precision": st.sampled_from(
        ["float32", "float64", "float16", "double", np.float32, tf.float32]
    ),
    "evaluation_domain": st.sampled_from([None, LINE, PLANE, "x"]),
    "progress": st.just(False),
}
tensors = st.sampled_from(
    [tf.ones([3]), tf.zeros([2, 2], tf.int32), tf.constant(True), np.ones(2), 3.0, [1, 2], "text",
     tf.ones([0]), tf.ones([2], tf.complex64), tf.constant("x"), None, [tf.ones(2), tf.ones(3)]]
)  # fmt: skip
COLLECTIVE = {
    "tensor": tensors,
    "tensors": st.one_of(st.lists(tensors, max_size=3), tensors),
    "op": st.sampled_from([*parallel.ReduceOp, "Sum", "sum", 1]),
    "root": st.sampled_from([0, 0, 1, -1, "0", True, 7]),
    "splits": st.sampled_from([None, [3], [1, 2], [], 3, [-1], tf.constant([3])]),
    "device": st.sampled_from([None, "/CPU:0", "/GPU:0", "cpu", "", "/TPU:0"]),
    "compression": st.sampled_from(
        [None, parallel.Compression.fp16, "fp16", parallel.Compression()]
    ),
    "communicator": st.sampled_from([None, None, "world", 0]),
    "variables": st.sampled_from([[], [tf.Variable(1.0)], tf.Variable(1.0), [1.0], None]),
}
SIZES = {
    "width": INTEGERS,
    "depth": st.sampled_from([0, 1, 2, -1]),
    "inputs": st.sampled_from([1, 2, 0]),
    "outputs": st.sampled_from([1, 2, 0]),
    "activation": st.sampled_from(["tanh", "sin", "relu", "swish"]),
    "box": st.sampled_from([None, ([0, 0], [1, 1]), ([0], [1]), (0, 1), LINE]),
}
ARRAYS = {
    "ranks": st.sampled_from([[1, 2, 4], [1], [], [0, 1], [[1, 2]], "1,2"]),
    "seconds": st.sampled_from([[3.0, 2.0, 1.0], [1.0], [], [0.0, 1.0], [1, float("nan")]]),
}
METHODS = ("sample", "interior", "boundary", "contains", "split")
"""What domains do besides being made."""


def training_until_start(**arguments: Any) -> None:
    def reached(*_: Any, **__: Any) -> None:
        raise Reached

    with mock.patch("sciml_par.training.once.run", reached):
        train(**arguments)


def in_turn(*makers: Callable[..., Any], known: Any = None, share: float = 1.0) -> list[Target]:
    return [
        Target(getattr(make, "__name__", str(make)), make, arguments_of(make, known), share)
        for make in makers
    ]


def targets() -> list[Target]:
    listed_strings = {"names": st.lists(st.sampled_from(["x", "y", "t", ""]), max_size=3)}
    shapes = {
        **listed_strings,
        "center": numbers,
        "lower": numbers,
        "upper": numbers,
        "semi_axes": numbers,
        "x": rows,
        "boundary": rows,
        "normals": rows,
        "vertices": st.sampled_from(
            [
                *([(0, 0), (1, 0), (0, 1)], [(0, 0), (1, 1)], [], [(0, 0, 0)] * 3),
                [(0, 0), (1, 1), (1, 0), (0, 1)],
            ]
        ),
        "holes": st.sampled_from([(), [[(0.1, 0.1), (0.2, 0.1), (0.1, 0.2)]], [[]], [1]]),
    }  # fmt: skip
    made = in_turn(
        problems.Ball, problems.Box, problems.Ellipse, problems.PointCloud, problems.Polygon,
        known=shapes,
    )  # fmt: skip
    made += in_turn(problems.Interval, problems.Time, problems.Unknown, problems.Residual)
    made += in_turn(*condition_makers, known=CONDITION)
    made += in_turn(problems.Problem, known=PROBLEM, share=3.0)
    made += in_turn(problems.poisson, problems.two_sines, known={"domain": domains})
    made += in_turn(problems.catalogue_entry, problems.problem_by_name)
    made += in_turn(
        problems.impose, problems.impose_initial, problems.distance_to,
        known={**CONDITION, "domain": domains, "conditions": st.lists(conditions(), max_size=2)},
    )  # fmt: skip
    made += in_turn(
        training.Adam, training.AdamW, training.SGD, training.RMSprop, training.WarmUp,
        known={"learning_rate": rates},
    )  # fmt: skip
    made += in_turn(
        training.LBFGS, training.SSBroyden, training.LevenbergMarquardt, training.SPRING,
        training.Causal, training.GradientAnnealing, training.GradientNorm, training.NTKWeights,
        training.ReLoBRaLo, training.ResidualBasedAttention, training.SelfAdaptive,
        training.NoProgress, training.TargetLoss, training.WallTime, training.RAD, training.RAR,
        training.Constant, training.CosineDecay, training.ExponentialDecay,
        training.PiecewiseConstantDecay, training.Ensemble, training.Checkpoint,
    )  # fmt: skip
    made += in_turn(
        training.Points,
        known={"interior": TRAIN["points"], "method": st.sampled_from(["grid", "sobol", "x", {}]),
               "adapt": st.sampled_from([None, training.RAD(5), training.RAR(5), 3]),
               "conditions": st.sampled_from([None, {"dirichlet": 3}, {"x": "y"}, 3])},
    )  # fmt: skip
    made += [Target("train", training_until_start, arguments_of(train, TRAIN), 4.0)]
    made += in_turn(
        networks.MLP, networks.ModifiedMLP, networks.PirateNet, networks.FourierFeatures,
        networks.PeriodicEmbedding, networks.network_named, networks.activation_named,
        networks.make_network, known=SIZES,
    )  # fmt: skip
    made += in_turn(
        parallel.allreduce, parallel.allgather, parallel.broadcast, parallel.alltoall,
        parallel.reducescatter, parallel.fused_allreduce, parallel.fused_allgather,
        parallel.fused_broadcast, parallel.fused_reducescatter, parallel.broadcast_variables,
        parallel.DistributedGradientTape, parallel.DistributedOptimizer, known=COLLECTIVE,
    )  # fmt: skip
    made += in_turn(
        evaluation.speed_up, evaluation.parallel_efficiency, evaluation.relative_l2_error,
        evaluation.max_error, evaluation.rms_error, evaluation.pointwise_error,
        evaluation.mean_and_deviation, evaluation.fit_communication, known=ARRAYS,
    )  # fmt: skip
    pierced = PLANE - problems.Ball([0, 0], 0.5)
    for domain in (LINE, PLANE, IN_TIME, problems.Ball([0, 0], 1), pierced):
        for name in METHODS:
            known = {"n": INTEGERS, "x": rows, "method": st.sampled_from(["grid", "sobol", ""])}
            method = getattr(domain, name)
            of = f"{type(domain).__name__}.{name}"
            made.append(Target(of, method, arguments_of(method, known), 0.7))
    return made
