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


def pick(*values: Any) -> Any:
    return st.sampled_from(values)


INTEGERS = pick(0, 1, 2, 3, 5, 8, -1, -7, 64)
NUMBERS = pick(0.0, 0.5, 1.0, 2, 1e-3, -1.0, 3.5, 1e-30, 1e30)
TEXTS = pick("", "x", "y", "t", "u", "left", "right", "tanh", "grid", "é\n", "a" * 200)

WRONG = st.one_of(
    pick(
        *(None, True, False, 0, 1, -1, 2.5, math.nan, math.inf, -math.inf, 2**63, 10**30),
        *("", "x", "nan", b"x", (), [], {}, set(), 1j, object(), int, len, lambda *a: None),
        *([1, "a"], [[1, 2], [3]], [None], {"x": 1}, {1: 2}, range(3), slice(2), ...),
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
        "Component": pick(0, 1, "u", "p"),
        "npt.ArrayLike": st.lists(st.lists(NUMBERS, min_size=2, max_size=2), max_size=4),
        "ArrayLike": st.lists(NUMBERS, max_size=4),
        "np.ndarray": st.lists(NUMBERS, max_size=4).map(np.array),
    }
    found = [kinds[part] for part in map(str.strip, annotation.split("|")) if part in kinds]
    return st.one_of(found) if found else WRONG


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
    # Keras gives its classes a __new__ of any arguments, which inspect may take in its place.
    made = inspect.isclass(function) and function.__init__ is not object.__init__
    signature = inspect.signature(function.__init__ if made else function)
    parameters = [
        each
        for each in list(signature.parameters.values())[made:]
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
functions = pick(lambda x: x[:, :1], lambda x: x, lambda u, x: u(x), lambda x: None)
equations = pick(
    problems.laplacian,
    lambda u, x: u(x),
    lambda u, x, *, k: k * u(x),
    lambda u, x: problems.derivative(u, x, "t"),
    problems.Residual(lambda u, x: u(x), name="r"),
    lambda x: x,
)
places = pick("left", "right", "bottom", "initial", "outer", "all", ["left", "right"])
predicates = pick(lambda x: x[:, 0] < 0.5, lambda x: x, lambda x: True, None)
domains = pick(LINE, PLANE, IN_TIME, problems.Ball([0, 0], 1))
unknowns = pick({"k": 1.0}, {"k": problems.Unknown(1.0, lower=0.0)}, {"": 1}, {}, None)
CONDITIONS = "Dirichlet Neumann Robin Initial Periodic Interface Observations IntegralCondition"
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
    "at": pick(("x", 0.5), (0, 0.5), ("t", [0.0, 0.5]), (7, 1.0), ("q", 0)),
    "axis": pick(0, 1, "x", "t", "q", -1),
    "order": pick(0, 1, 2, (0, 1), [0], []),
    "x": rows,
    "u": columns,
    "noise": st.one_of(NUMBERS, columns),
}


@st.composite
def conditions(draw: Any) -> Any:
    make = draw(st.sampled_from([getattr(problems, name) for name in CONDITIONS.split()]))
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
    "outputs": pick(1, 2, "u", ("u", "v"), ["u"], (), 0, "u, v"),
    "unknowns": unknowns,
    "ansatz": pick(lambda u, x: u, lambda x, u: u * x[:, :1], lambda u: u, None),
}
rates = pick(1e-3, 0.5, training.Constant(1e-3), training.CosineDecay(1e-3, 10))
optimizers = pick(
    None, "auto", "adam", "lm", "Adam", training.Adam(), training.LBFGS(), training.SGD, 1e-3
)
TRAIN = {
    "problem": st.just(POISSON),
    "network": pick(None, "mlp", "pirate", "nothing", networks.MLP, networks.MLP(1, 1)),
    "points": pick(None, 8, (8,), 1, 0, -1, np.linspace(-1, 1, 9)[:, None], {"x": 3}),
    "points_per_rank": pick(None, None, 8, 0, (3,)),
    "mode": pick("data", "ensemble", "Data", "", training.Ensemble(members=2)),
    "optimizer": optimizers,
    "steps": pick(None, 1, 5, 0, -1, 2.0, True),
    "phases": pick(
        *(None, None, [], [training.Adam()], [(1, 2, 3)]), *([(training.Adam(), n)] for n in (3, 0))
    ),
    "stop": pick(None, training.TargetLoss(1.0), [training.WallTime(seconds=3)], [1], "x"),
    "callbacks": pick((), print, [print], [None], 3, training.Callback()),
    "checkpoint": pick(None, training.Checkpoint("checkpoint"), "checkpoint"),
    "resume": pick(False, True, "auto", "yes", 1, None),
    "keep": pick("best", "last", "first", ""),
    "weights": pick(
        *({"residual": w} for w in (2.0, -1.0)), {"nothing": 1.0}, training.NTKWeights(), None, [1]
    ),
    "seed": INTEGERS,
    "precision": pick("float32", "float64", "float16", "double", np.float32, tf.float32),
    "evaluation_domain": pick(None, LINE, PLANE, "x"),
    "progress": st.just(False),
}
tensors = pick(
    *(tf.ones([3]), tf.zeros([2, 2], tf.int32), tf.constant(True), np.ones(2), 3.0, [1, 2]),
    *("text", tf.ones([0]), tf.ones([2], tf.complex64), tf.constant("x"), None),
    [tf.ones(2), tf.ones(3)],
)
COLLECTIVE = {
    "tensor": tensors,
    "tensors": st.one_of(st.lists(tensors, max_size=3), tensors),
    "op": pick(*parallel.ReduceOp, "Sum", "sum", 1),
    "root": pick(0, 0, 1, -1, "0", True, 7),
    "splits": pick(None, [3], [1, 2], [], 3, [-1], tf.constant([3])),
    "device": pick(None, "/CPU:0", "/GPU:0", "cpu", "", "/TPU:0"),
    "compression": pick(None, parallel.Compression.fp16, "fp16", parallel.Compression()),
    "communicator": pick(None, None, "world", 0),
    "variables": pick([], [tf.Variable(1.0)], tf.Variable(1.0), [1.0], None),
}
SIZES = {
    "width": INTEGERS,
    "depth": pick(0, 1, 2, -1),
    "inputs": pick(1, 2, 0),
    "outputs": pick(1, 2, 0),
    "activation": pick("tanh", "sin", "relu", "swish"),
    "box": pick(None, ([0, 0], [1, 1]), ([0], [1]), (0, 1), LINE),
}
ARRAYS = {
    "ranks": pick([1, 2, 4], [1], [], [0, 1], [[1, 2]], "1,2"),
    "seconds": pick([3.0, 2.0, 1.0], [1.0], [], [0.0, 1.0], [1, float("nan")]),
}
METHODS = ("sample", "interior", "boundary", "contains", "split")
"""What domains do besides being made."""


def training_until_start(**arguments: Any) -> None:
    def reached(*_: Any, **__: Any) -> None:
        raise Reached

    with mock.patch("sciml_par.training.once.run", reached):
        train(**arguments)


def in_turn(module: Any, names: str, known: Any = None, share: float = 1.0) -> list[Target]:
    made = [(name, getattr(module, name)) for name in names.split()]
    return [Target(name, make, arguments_of(make, known), share) for name, make in made]


def targets() -> list[Target]:
    shapes = {
        "names": st.lists(pick("x", "y", "t", ""), max_size=3),
        **dict.fromkeys(("center", "lower", "upper", "semi_axes"), numbers),
        **dict.fromkeys(("x", "boundary", "normals"), rows),
        "vertices": pick([(0, 0), (1, 0), (0, 1)], [(0, 0), (1, 1)], [], *[[(0, 0, 0)] * 3],
                         [(0, 0), (1, 1), (1, 0), (0, 1)]),
        "holes": pick((), [[(0.1, 0.1), (0.2, 0.1), (0.1, 0.2)]], [[]], [1]),
    }  # fmt: skip
    distances = {"domain": domains, "conditions": st.lists(conditions(), max_size=2)}
    points = {
        "interior": TRAIN["points"],
        "method": pick("grid", "sobol", "x", {}),
        "adapt": pick(None, training.RAD(5), training.RAR(5), 3),
        "conditions": pick(None, {"dirichlet": 3}, {"x": "y"}, 3),
    }
    made = [
        *in_turn(problems, "Ball Box Ellipse PointCloud Polygon", shapes),
        *in_turn(problems, "Interval Time Unknown Residual catalogue_entry problem_by_name"),
        *in_turn(problems, CONDITIONS, CONDITION),
        *in_turn(problems, "Problem", PROBLEM, share=3.0),
        *in_turn(problems, "poisson two_sines", {"domain": domains}),
        *in_turn(problems, "impose impose_initial distance_to", {**CONDITION, **distances}),
        *in_turn(training, "Adam AdamW SGD RMSprop WarmUp", {"learning_rate": rates}),
        *in_turn(
            training,
            "LBFGS SSBroyden LevenbergMarquardt SPRING Causal GradientAnnealing GradientNorm "
            "NTKWeights ReLoBRaLo ResidualBasedAttention SelfAdaptive NoProgress TargetLoss "
            "WallTime RAD RAR Constant CosineDecay ExponentialDecay PiecewiseConstantDecay "
            "Ensemble Checkpoint",
        ),
        *in_turn(training, "Points", points),
        Target("train", training_until_start, arguments_of(train, TRAIN), 4.0),
        *in_turn(
            networks,
            "MLP ModifiedMLP PirateNet FourierFeatures PeriodicEmbedding network_named "
            "activation_named make_network",
            SIZES,
        ),
        *in_turn(
            parallel,
            "allreduce allgather broadcast alltoall reducescatter fused_allreduce fused_allgather "
            "fused_broadcast fused_reducescatter broadcast_variables DistributedGradientTape "
            "DistributedOptimizer",
            COLLECTIVE,
        ),
        *in_turn(evaluation, "relative_l2_error max_error rms_error pointwise_error", ARRAYS),
    ]
    known = {"n": INTEGERS, "x": rows, "method": pick("grid", "sobol", "")}
    pierced = PLANE - problems.Ball([0, 0], 0.5)
    for domain in (LINE, PLANE, IN_TIME, problems.Ball([0, 0], 1), pierced):
        for name in METHODS:
            method = getattr(domain, name)
            of = f"{type(domain).__name__}.{name}"
            made.append(Target(of, method, arguments_of(method, known), 0.7))
    return made
