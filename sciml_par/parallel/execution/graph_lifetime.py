"""Objects that live as long as the graph under construction; custom gradients among them."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from sciml_par._tensorflow import tf

_HELD = "_sciml_par_held"
_ATTRIBUTE = "_gradient_op_type"
_FUNCTION = "type"  # TensorFlow's registry has the registered function under this key


def with_the_graph(value: Any, afterwards: Callable[..., object], *arguments: Any) -> None:
    """Keep `value` as long as the graph under construction, then call `afterwards(*arguments)`."""

    def holder() -> Any:
        return value

    for graph in graphs_under_construction():
        if not hasattr(graph, _HELD):  # it has no __dict__
            setattr(graph, _HELD, [])
        getattr(graph, _HELD).append(holder)
    weakref.finalize(holder, afterwards, *arguments).atexit = False


def graphs_under_construction() -> list[Any]:
    """Return the graph under construction and those around it."""
    from tensorflow.python.framework.func_graph import FuncGraph

    graph = tf.compat.v1.get_default_graph()
    graphs = []
    while isinstance(graph, FuncGraph):
        graphs.append(graph)
        graph = graph.outer_graph
    if graph is not None and (not graphs or not tf.compat.v1.executing_eagerly_outside_functions()):
        graphs.append(graph)
    return graphs


def hidden_variable(value: Any, dtype: Any, name: str, *, device: str | None = None) -> Any:
    """Return a variable of the process that a `tf.function` does not take for its own.

    It would notice a variable created on its thread, and be traced twice: the second time, a tape
    that is not persistent gives no gradient.
    """
    from tensorflow.python.eager import context

    def make() -> Any:
        with context.eager_mode(), tf.device(device):
            return tf.Variable(value, trainable=False, dtype=dtype, name=name)

    with ThreadPoolExecutor(1) as other_thread:
        return other_thread.submit(make).result()


def custom_gradient(function: Callable[..., Any], *tensors: Any) -> Any:
    """Return y of `function(*tensors)`, which returns y and ḡ ↦ the gradients by `tensors`.

    TensorFlow's own registers every gradient of a graph, and with it the graph, for the life of the
    process. A program that traces again and again would grow.
    """
    results = tf.custom_gradient(function)(*tensors)
    if not tf.executing_eagerly():
        # If TensorFlow's internals have changed, only the leak is back.
        with contextlib.suppress(AttributeError, KeyError, ValueError, IndexError, TypeError):
            _leave_to_the_graph(tf.nest.flatten(results)[0].op.get_attr(_ATTRIBUTE).decode())
    return results


def _leave_to_the_graph(name: str) -> None:
    """Let the gradient registered as `name` live as long as the graph under construction."""
    from tensorflow.python.framework import ops

    registered: dict[str, dict[str, Any]] = ops.gradient_registry._registry
    gradient = registered[name][_FUNCTION]
    known = weakref.ref(gradient)
    with_the_graph(gradient, registered.pop, name, None)

    def of_a_living_graph(operation: Any, *gradients: Any) -> Any:
        gradient = known()
        if gradient is None:
            raise RuntimeError(
                "The function that this collective belongs to was deleted: keep the tf.function "
                "until its gradient has been taken."
            )
        return gradient(operation, *gradients)

    registered[name][_FUNCTION] = of_a_living_graph
