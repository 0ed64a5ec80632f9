"""Keep AutoGraph, which rewrites the Python code that `tf.function` traces, out of this package."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from sciml_par._tensorflow import hidden_from_autograph, tf

P = ParamSpec("P")
R = TypeVar("R")


def not_converted(function: Callable[P, R]) -> Callable[P, R]:
    """Keep AutoGraph from converting `function`.

    TensorFlow's own decorator would import TensorFlow before `init` can silence its messages.
    """
    unconverted = functools.cache(lambda: tf.autograph.experimental.do_not_convert(function))

    @hidden_from_autograph
    @functools.wraps(function)
    def wrapper(*args: P.args, **options: P.kwargs) -> R:
        if tf.executing_eagerly():
            return function(*args, **options)
        result: R = unconverted()(*args, **options)
        return result

    return wrapper
