"""Horovod's helpers for TensorFlow, for programs that import them."""

from __future__ import annotations

from typing import Any

from sciml_par._tensorflow import tf


def _executing_eagerly() -> bool:
    """Return whether TensorFlow executes eagerly here."""
    return bool(tf.executing_eagerly())


def vars_to_refs(vars: Any) -> Any:
    """Return variables, in lists of any depth, as hashable tuples of references."""
    return tuple(map(vars_to_refs, vars)) if isinstance(vars, list) else vars.ref()


def refs_to_vars(refs: Any) -> Any:
    """Return the variables of a result of `vars_to_refs`."""
    return list(map(refs_to_vars, refs)) if isinstance(refs, tuple) else refs.deref()
