"""The same values in the variables of all ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.parallel.collectives.arguments import list_of
from sciml_par.parallel.collectives.fused import fused_broadcast
from sciml_par.parallel.groups.communicator import Communicator


def broadcast_variables(
    variables: Sequence[Any], root: int = 0, *, communicator: Communicator | None = None
) -> None:
    """Assign the values that rank `root` has to the variables of every rank (collective).

    Parameters
    ----------
    variables : `tf.Variable`s or `keras.Variable`s, alike in number, order, shape and type on
        every rank.
    root : the rank that gives.
    communicator : the ranks that take part; all by default.

    Raises
    ------
    InputError
        What is given are no variables.
    CollectiveMismatchError
        The ranks have other variables, or the same in another order.
    """
    variables = list_of(variables, "broadcast_variables", of="variables")
    for variable in variables:
        if not hasattr(variable, "assign"):
            raise InputError(
                f"broadcast_variables: expected tf.Variable or keras.Variable; got {variable!r}."
            )
    values = [tf.convert_to_tensor(variable) for variable in variables]
    received = fused_broadcast(values, root, communicator=communicator)
    for variable, value in zip(variables, received, strict=True):
        variable.assign(value)
