"""The recording pass: run a residual once without computing, and note its requests."""

from __future__ import annotations

import linecache
import random
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sciml_par import _tape
from sciml_par._graph_digest import GraphDigest, digest_of_graph
from sciml_par._partial_operators import Operator
from sciml_par._tape import Jet
from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.problems.checks.functions import UNKNOWNS_REMEDY
from sciml_par.problems.fields import answers as _given
from sciml_par.problems.fields.field import Field, Key, cache_key
from sciml_par.problems.fields.plan import Coefficients, Plan, Request, as_matrices

_KNOWN_VALUES = (
    "Known values in NumPy are the data= of a Residual, the value of a condition, or those of "
    "Observations(x, values, operator=f)."
)
_WHAT_IS_TRIED = (
    "Residuals, conditions and the ansatz are run once, for all points together, before training: "
    "write def residual(u, x) or ansatz(u, x), where u is a function of x. They are made of "
    "TensorFlow operations: write tf.sin, not np.sin or math.sin, and tf.where(x[:, :1] > 0, a, b) "
    f"in place of `if`; loop over known numbers, as range(3), not over tensors. {_KNOWN_VALUES}"
)
_REMEDY = (
    "tf.sin(u(x)) in place of np.sin(u(x)) or math.sin(u(x)), tf.concat([a, b], axis=1) in place "
    "of np.concatenate, and derivative(u, x, 0) in place of np.gradient; leave out float, "
    "np.array, .numpy() and .T"
)
_NO_VALUES = "a Field is a function of points"
_REMEDIES = {
    ("bool",): "tf.where(u(x) > 0, a, b) in place of `if`, and tf.maximum(u(x), 0) in place of max",
    ("Iterating", "len is not"): "u(x)[:, :1] for the first component; the number of points is "
    "tf.shape(x)[0], and zeros are tf.zeros_like(x[:, :1])",
}
"""What to write, by words of what is said of a symbolic tensor."""
_PACKAGES = ("sciml_par", "tensorflow", "keras", "numpy", "scipy")


def record(residual: Callable[..., Any], field: Field, *arrays: Any) -> Plan:
    """Return the requests of a residual to a field, from one run in a throw-away graph (local).

    Parameters
    ----------
    residual : callable
        (u, x, *more) -> anything.
    field : Field
    *arrays : tensors or NumPy arrays
        The points x: [n, d] and what else the residual takes; only shapes and dtypes are used.

    Returns
    -------
    plan : tuple of Request
        For `Field.with_plan`.

    Examples
    --------
    >>> import tensorflow as tf
    >>> from sciml_par.problems import Field, gradient, laplacian, record
    >>> u = Field(lambda x: x**3)
    >>> record(lambda u, x: laplacian(u, x) + gradient(u, x), u, tf.zeros([4, 1]))
    (Request(derivatives=True, second=(((1.0,),),), higher=()),)
    """
    return trace(residual, field, arrays).plan


@dataclass(frozen=True)
class Trace:
    """One run of a residual without computing: its requests, result and variables.

    The result is symbolic, with a shape and a dtype only. `drew` tells whether the residual drew
    random numbers of NumPy or Python, which the graph then holds. `compute` is the function
    (*parameters, *arrays) -> result in TensorFlow.
    """

    plan: Plan
    result: Any
    variables: tuple[Any, ...]
    asked: bool
    drew: bool
    compute: Any

    def digest(self) -> GraphDigest:
        """Return what tells the residual from others, as a function of its inputs."""
        graph = self.compute.graph
        captured = {id(inside) for _, inside in graph.captures}
        inputs = [tensor for tensor in graph.inputs if id(tensor) not in captured]
        return digest_of_graph(graph, inputs, [self.result])


@dataclass(frozen=True)
class Parametrized:
    """A field as a function of parameters, which are inputs of a trace; with their tensor specs."""

    field: Callable[..., Field]
    parameters: Sequence[Any]


def trace(
    residual: Callable[..., Any],
    field: Field | Parametrized,
    arrays: Iterable[Any],
    *,
    context: str = "",
) -> Trace:
    """Run a residual once in a throw-away graph.

    An exception of the residual goes through, with `context` and advice as notes.
    """
    given = field if isinstance(field, Parametrized) else Parametrized(lambda: field, ())
    count = len(given.parameters)
    recorders: list[_Recorder] = []
    returned: list[Any] = []

    def run(*symbols: tf.Tensor) -> Any:
        recorders.append(_Recorder(given.field(*symbols[:count])))
        try:
            returned.append(residual(recorders[-1], *symbols[count:]))
        except Exception as error:
            _explain(error, context)
            raise
        return returned[-1] if tf.is_tensor(returned[-1]) else None

    specs = [tf.TensorSpec(a.shape, a.dtype) for a in (*given.parameters, *arrays)]
    before = _random_state()
    traced = tf.function(run, autograph=False).get_concrete_function(*specs)
    variables, recorder = tuple(traced.graph.variables), recorders[-1]
    drew = _random_state() != before
    return Trace(recorder.plan, returned[-1], variables, recorder.asked, drew, traced)


def _random_state() -> tuple[Any, ...]:
    """Return where the global random numbers of Python and NumPy stand."""
    _, keys, *rest = np.random.get_state()  # noqa: NPY002, it is what users draw from
    return random.getstate(), np.asarray(keys).tobytes(), rest


def _explain(error: Exception, context: str) -> None:
    """Raise what NumPy, Python or TensorFlow say of symbolic tensors in our words, or add notes."""
    said = str(error)
    if isinstance(error, InputError):
        pass
    elif _NO_VALUES in said:  # TensorFlow wraps it
        raise InputError(said[said.index(_NO_VALUES) :]) from error
    elif "symbolic" in said.lower() and "not callable" not in said:
        remedies = (text for words, text in _REMEDIES.items() if any(w in said for w in words))
        raise InputError(
            f"NumPy or Python computes with u or x {context or 'in a function'}, which have "
            f"no values yet: it is run once, for all points together, before the first step"
            f"{_line_of(error)}. Write {next(remedies, _REMEDY)}. {_KNOWN_VALUES}"
        ) from error
    if context:
        error.add_note(f"Raised {context}.")
    # So says tf.function where a variable is made while it runs.
    if isinstance(error, ValueError) and "singleton tf.Variables" in said:
        raise InputError(f"a tf.Variable is made {context}. {UNKNOWNS_REMEDY}") from error
    if not isinstance(error, InputError):
        error.add_note(_WHAT_IS_TRIED)


def _line_of(error: Exception) -> str:
    """Return the last line of the user's that raised an error, as a part of a sentence."""
    found = ""
    for frame, number in traceback.walk_tb(error.__traceback__):
        if frame.f_globals.get("__name__", "").partition(".")[0] not in _PACKAGES:
            file = frame.f_code.co_filename
            code = linecache.getline(file, number).strip() or "not a line of a file"
            found = f"; line {number} of {Path(file).name} is: {code}"
    return found


class _Recorder(Field):
    """A field that notes the requests made of it, and answers each on its own."""

    def __init__(self, field: Field) -> None:
        vars(self).update(vars(field.with_plan(())))
        self.asked = False
        self._log: dict[Key, Request] = {}
        # Identities are keys only as long as their objects live.
        self._alive: list[Any] = []

    @property
    def plan(self) -> Plan:
        return tuple(self._log.values())

    def computed(self, x: tf.Tensor) -> tf.Tensor:
        """Return the value, and a note that it was asked for."""
        self.asked = True
        self._note(x, Request())
        return self._source.value_at(x)

    def _computed_jet(
        self, x: tf.Tensor, second: Coefficients, wanted: tuple[Operator, ...]
    ) -> Jet:
        self._note(x, Request(derivatives=True, second=as_matrices(second), higher=wanted))
        return self._source.jet_at(x, second, wanted)

    def _answers_at(self, x: tf.Tensor) -> _given.Answers | None:
        self.asked = True
        return super()._answers_at(x)

    def _note(self, x: tf.Tensor, request: Request) -> None:
        if _tape.is_watched(x) or _given.on_trial():
            return
        key, graph = cache_key(x)
        self._alive += [x, graph]
        self._log[key] = self._log.get(key, Request()).union(request)
