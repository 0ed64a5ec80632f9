"""What lives as long as the graph under construction."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from sciml_par._tensorflow import tf

_HELD = "_sciml_par_held"


class _Holder:
    """Keeps something for the graphs that hold it."""

    __slots__ = ("__weakref__", "value")

    def __init__(self, value: Any) -> None:
        self.value = value


def with_the_graph(value: Any, afterwards: Callable[..., object], *arguments: Any) -> None:
    """Keep `value` as long as the graph under construction, then call `afterwards(*arguments)`.

    A graph inside of others may be run without them, and they without it: what it needs lives until
    all of them are gone.
    """
    holder = _Holder(value)
    for graph in _graphs_under_construction():
        held = getattr(graph, _HELD, None)
        if held is None:
            held = []
            setattr(graph, _HELD, held)
        held.append(holder)
    weakref.finalize(holder, afterwards, *arguments).atexit = False


def _graphs_under_construction() -> list[Any]:
    """Return the graph under construction and those around it.

    Where TensorFlow is eager, the outermost is a graph that nobody builds, and that never goes.
    """
    from tensorflow.python.framework.func_graph import FuncGraph

    graph = tf.compat.v1.get_default_graph()
    graphs = []
    while isinstance(graph, FuncGraph):
        graphs.append(graph)
        graph = graph.outer_graph
    if graph is not None and (not graphs or not tf.compat.v1.executing_eagerly_outside_functions()):
        graphs.append(graph)
    return graphs
