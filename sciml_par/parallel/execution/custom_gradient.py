"""`tf.custom_gradient` without its leak.

In graphs, TensorFlow registers each custom gradient under a name, for the life of the process, and
with it the graph that its tensors are of. A program that traces again and again would grow.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable
from typing import Any

from sciml_par._tensorflow import tf
from sciml_par.parallel.execution.graph_lifetime import with_the_graph

_ATTRIBUTE = "_gradient_op_type"
_FUNCTION = "type"  # as TensorFlow's registry calls what is registered


def custom_gradient(function: Callable[..., Any], *tensors: Any) -> Any:
    """y of `function(*tensors)`, which returns y and ḡ ↦ the gradients by `tensors`."""
    results = tf.custom_gradient(function)(*tensors)
    if not tf.executing_eagerly():
        # Should TensorFlow have changed what it does inside, the leak is all that is left.
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
