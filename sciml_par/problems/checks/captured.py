"""Variables that a function reads, which a training would leave as they are."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._tensorflow import tf
from sciml_par.errors import InputError

_SHOWN = 3
UNKNOWNS_REMEDY = (
    "Training changes the weights of the network and the unknowns of the problem, and nothing "
    "else, so it would keep the value that it has. If the value is sought, make it an unknown, "
    "which residuals get as an argument of that name: Problem(..., unknowns={'D': Unknown(1.0)}) "
    "with def residual(u, x, *, D). If it is known, give a number, or set trainable=False."
)


def refuse_trainable(
    variables: Iterable[Any], reader: str, *, remedy: str = UNKNOWNS_REMEDY
) -> None:
    """Check that no variable among those that `reader` reads waits to be trained."""
    found = [v for v in variables if v.trainable and not _is_frozen_by_keras(v)]
    if not found:
        return
    found.sort(key=_name)  # TensorFlow gives them in any order, and all ranks are to say the same
    names = [f"{_name(v)} = {_text(v)}" for v in found[:_SHOWN]]
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    raise InputError(
        f"{reader} reads the trainable variable{'s' * (len(found) > 1)} {', '.join(names)}{more}. "
        f"{remedy}"
    )


def evaluate_data(
    function: Callable[[Any], npt.ArrayLike],
    x: Any,
    *,
    what: str = "data of the residual",
) -> Any:
    """Return the values of a function at x: [n, d], if it reads no trainable variable."""
    if "tensorflow" not in sys.modules:  # then there are no variables, and no need to import it
        return function(x)
    with tf.GradientTape() as tape:
        values = function(x)
    refuse_trainable(tape.watched_variables(), what)
    return values


def _is_frozen_by_keras(variable: Any) -> bool:
    """Return whether a Keras variable with trainable=False holds this one.

    Keras sets its own mark, as in `model.trainable = False`, and leaves TensorFlow's as it is;
    nothing leads from TensorFlow's variable to Keras' but the reference to it.
    """
    for holder in gc.get_referrers(variable):
        held = holder if isinstance(holder, dict) else getattr(holder, "__dict__", {})
        if held.get("_value") is variable and held.get("_trainable") is False:
            return True
    return False


def _name(variable: Any) -> str:
    return repr(variable.name.removesuffix(":0"))


def _text(variable: Any) -> str:
    if variable.shape.num_elements() == 1:
        return f"{float(np.asarray(variable).reshape(())):g}"
    return f"an array {variable.shape.as_list()}"
