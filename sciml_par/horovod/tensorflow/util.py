"""Horovod's helpers for TensorFlow, for programs that import them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from sciml_par._tensorflow import tf


def _executing_eagerly() -> bool:
    """Return whether TensorFlow executes eagerly here."""
    return bool(tf.executing_eagerly())


def _make_subgraph(f: Callable[..., Any]) -> Any:
    """Return `tf.function(f)`."""
    return tf.function(f)


def _cache(f: Callable[..., Any]) -> Callable[..., Any]:
    """Return `f` with a cache of its results, separate for graphs and eager code."""

    @functools.cache
    def remembered(eagerly: bool, *args: Any) -> Any:
        return f(*args)

    return lambda *args: remembered(_executing_eagerly(), *args)


def vars_to_refs(vars: Any) -> Any:
    """Return variables, in lists of any depth, as hashable tuples of references."""
    return tuple(map(vars_to_refs, vars)) if isinstance(vars, list) else vars.ref()


def refs_to_vars(refs: Any) -> Any:
    """Return the variables of a result of `vars_to_refs`."""
    return list(map(refs_to_vars, refs)) if isinstance(refs, tuple) else refs.deref()
