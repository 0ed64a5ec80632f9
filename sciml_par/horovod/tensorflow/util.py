"""Horovod's helpers around TensorFlow's contexts and variables, for programs that import them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from sciml_par._tensorflow import tf


def _executing_eagerly() -> bool:
    """Return whether TensorFlow executes eagerly here."""
    return bool(tf.executing_eagerly())


def _make_subgraph(f: Callable[..., Any]) -> Any:
    """`tf.function(f)`."""
    return tf.function(f)


def _cache(f: Callable[..., Any]) -> Callable[..., Any]:
    """`f`, which remembers its results, those of graphs and of eager code apart."""

    @functools.cache
    def remembered(eagerly: bool, *args: Any) -> Any:
        return f(*args)

    return lambda *args: remembered(_executing_eagerly(), *args)


def vars_to_refs(vars: Any) -> Any:
    """Variables, in lists of any depth, as what can be hashed: tuples of references."""
    return tuple(map(vars_to_refs, vars)) if isinstance(vars, list) else vars.ref()


def refs_to_vars(refs: Any) -> Any:
    """Return the variables of what `vars_to_refs` has returned."""
    return list(map(refs_to_vars, refs)) if isinstance(refs, tuple) else refs.deref()
