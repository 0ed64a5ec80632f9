"""Horovod's elastic states of variables and Keras models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.horovod.common.elastic import ObjectState, run_fn
from sciml_par.horovod.tensorflow.functions import broadcast_object, broadcast_variables
from sciml_par.horovod.tensorflow.mpi_ops import rank
from sciml_par.parallel.gradients.optimizer_state import state_of


def run(func: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function that calls `state.sync()`, and then `func(state, …)`, once."""
    return run_fn(func, lambda: None)


class _VariablesState(ObjectState):
    """A state with variables, and with Python objects as attributes."""

    # A function lists the variables: an optimizer creates its own at the first step.
    def __init__(self, variables: Callable[[], Sequence[Any]], session: Any, kwargs: Any) -> None:
        self._listed = variables
        self._session = session
        if session is not None:  # its graph may be final before `sync`
            with session.graph.as_default():
                self._broadcast = broadcast_variables(variables(), root_rank=0)
        self._values = self._read()
        super().__init__(broadcast_object, rank, **kwargs)

    def save(self) -> None:
        """Save variables and attributes in host memory."""
        self._values = self._read()
        super().save()

    def restore(self) -> None:
        """Restore the values saved last; newer variables keep theirs."""
        for variable, value in zip(self._listed(), self._values, strict=False):
            if self._session is not None:
                variable.load(value, self._session)
            else:
                variable.assign(value)
        super().restore()

    def sync(self) -> None:
        """Broadcast rank 0's variables, and its attributes as saved last (collective)."""
        if self._session is not None:
            self._session.run(self._broadcast)
        else:
            broadcast_variables(self._listed(), root_rank=0)
        self._values = self._read()
        super().sync()

    def _read(self) -> list[np.ndarray]:
        if self._session is not None:
            return list(self._session.run(list(self._listed())))
        return [np.array(tf.convert_to_tensor(variable)) for variable in self._listed()]


class TensorFlowState(_VariablesState):
    """A state with variables, and with Python objects as attributes.

    Parameters
    ----------
    variables : `tf.Variable`s or `keras.Variable`s; by default the global ones of TensorFlow 1.
    session : a session of TensorFlow 1; the default session by default.
    **kwargs : the attributes; picklable.

    Raises
    ------
    InputError
        A graph of TensorFlow 1 has no session.
    """

    def __init__(self, variables: Any = None, session: Any = None, **kwargs: Any) -> None:
        self.variables = list(variables or tf.compat.v1.global_variables())
        self.session = _session(session)
        super().__init__(lambda: self.variables, self.session, kwargs)


class TensorFlowKerasState(_VariablesState):
    """A state with a Keras model and its optimizer, and with Python objects as attributes.

    Parameters
    ----------
    model : a model of Keras 3 or 2, with weights.
    optimizer : the model's by default.
    backend : for graphs of TensorFlow 1, the module with `get_session()`.
    **kwargs : the attributes; picklable.

    Raises
    ------
    InputError
        The model has no weights yet.
    """

    def __init__(
        self, model: Any, optimizer: Any = None, backend: Any = None, **kwargs: Any
    ) -> None:
        if not getattr(model, "built", True):
            raise InputError(
                f"{type(self).__name__}: the model has no weights yet. Build it first, with an "
                f"Input or model.build(input_shape)."
            )
        self.model = model
        self.optimizer = optimizer if optimizer is not None else model.optimizer
        self.backend = backend
        in_graph = backend is not None and not tf.executing_eagerly()
        session = _session(backend.get_session() if in_graph else None)
        super().__init__(self._variables, session, kwargs)

    def _variables(self) -> list[Any]:
        return [*self.model.variables, *(state_of(self.optimizer) if self.optimizer else ())]


def _session(session: Any) -> Any:
    """Return the session to read variables in; None in eager mode."""
    if tf.executing_eagerly():
        return None
    found = session or tf.compat.v1.get_default_session()
    if found is None:
        raise InputError(
            "an elastic state: expected a session for a graph of TensorFlow 1. Pass session=, "
            "or create the state inside `with session.as_default():`."
        )
    return found
