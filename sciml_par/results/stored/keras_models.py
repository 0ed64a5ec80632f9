"""Keras models of trained networks: saved, loaded, and copied with other weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, overload

import numpy as np
import numpy.typing as npt

from sciml_par._tensorflow import import_module, tf
from sciml_par._text import one_line
from sciml_par.errors import InputError
from sciml_par.problems.problem import Problem
from sciml_par.results.field_form import FieldForm
from sciml_par.results.trained_field import Function, TrainedField

Array = npt.NDArray[Any]


class Lazy(Sequence[Any]):
    """Objects that are made when they are asked for first."""

    def __init__(self, makers: Sequence[Callable[[], Any]]) -> None:
        self._makers = tuple(makers)
        self._made: dict[int, Any] = {}

    def __len__(self) -> int:
        return len(self._makers)

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Any]: ...
    def __getitem__(self, index: int | slice) -> Any:
        """The object, or a list of several."""
        if isinstance(index, slice):
            return [self[i] for i in range(len(self))[index]]
        at = range(len(self))[index]
        if at not in self._made:
            self._made[at] = self._makers[at]()
        return self._made[at]

    def __repr__(self) -> str:
        return f"{len(self)} networks, made when they are asked for"


def copy_with(model: Any, weights: Array) -> Any:
    """A copy of a model, with trainable weights [p]."""
    keras: Any = import_module("keras")
    try:
        copy = type(model).from_config(model.get_config())
        if not copy.built:
            copy.build(model.input_shape)
        others = zip(copy.non_trainable_variables, model.non_trainable_variables, strict=True)
        for mine, theirs in others:
            mine.assign(theirs)
        assign(copy, weights)
    except Exception as error:  # Keras and the user's own class raise all kinds
        raise InputError(
            f"Result.networks: Keras {keras.__version__} cannot copy the model "
            f"{type(model).__name__} from its get_config() ({one_line(error)}). Result.predict "
            f"needs no copy, and Member.weights holds the weights."
        ) from error
    return copy


def assign(model: Any, weights: Array) -> None:
    """Give a model trainable weights [p], in the order of `trainable_variables`."""
    variables = model.trainable_variables
    ends = np.cumsum([int(np.prod(v.shape)) for v in variables])
    for variable, part in zip(variables, np.split(weights, ends[:-1]), strict=True):
        variable.assign(part.reshape(tuple(variable.shape)))


def flat_weights(model: Any) -> Array:
    """The trainable weights of a model, [p]."""
    return np.concatenate([np.asarray(v).ravel() for v in model.trainable_variables])


def save_model(model: Any, weights: Array, path: Path) -> None:
    """Save a model with trainable weights [p], as Keras saves it.

    The model itself is left as it was.
    """
    before = flat_weights(model)
    assign(model, weights)
    try:
        model.save(path)
    finally:
        assign(model, before)


def load_model(path: Path) -> Any:
    """A model that Keras has saved."""
    keras: Any = import_module("keras")
    import_module("sciml_par.networks.models.mlp")  # so that Keras knows MLP
    try:
        return keras.models.load_model(path, compile=False)
    except Exception as error:  # Keras and the user's own class raise all kinds
        raise InputError(
            f"Keras {keras.__version__} cannot load {path} ({one_line(error)}). Pass the model, or "
            f"what makes it: Result.load(folder, network=…)."
        ) from error


def field_with(
    model: Callable[[], Any],
    form: FieldForm,
    problem: Problem | None,
    *,
    d: int,
    outputs: Sequence[str],
    dtype: str,
    otherwise: str,
) -> TrainedField:
    """Return the field of a model that is loaded when it is needed."""

    def make() -> tuple[Function, Any]:
        made, used = model(), problem
        if used is None and form.ansatz is None:
            used = form.problem(outputs)
        elif used is None or not form.is_of(used, dtype):
            return partial(_refuse, otherwise), made
        return function_of(made, used, d, dtype), made

    return TrainedField(make)


def _refuse(text: str, _parameters: Any, _x: Any) -> NoReturn:
    raise InputError(f"Result: {text}")


def function_of(model: Any, problem: Problem | None, d: int, dtype: str) -> Function:
    """u(x) of a model, with what the problem makes of it, as a function of weights."""
    apply = getattr(model, "apply", None)
    if apply is None:
        from sciml_par.networks.keras.from_model import as_network  # it imports TensorFlow

        components = int(model(tf.zeros([1, d], dtype)).shape[1])
        apply = as_network(model, d, components, dtype=dtype).apply
    if problem is None:
        return apply
    problem = problem.for_network(model)
    return lambda parameters, x: problem.field(partial(apply, parameters))(x)
