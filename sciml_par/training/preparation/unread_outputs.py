"""What to say of outputs of a network that no term of the loss reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._tensorflow import tf
from sciml_par.networks.keras.network import Network
from sciml_par.problems.problem import Problem
from sciml_par.problems.terms.term import Arrays
from sciml_par.training.loss.jacobian import moved
from sciml_par.training.loss.parameter_layout import ParameterLayout
from sciml_par.training.loss.traced_terms import TracedTerms

_POINTS = 8


def remarks_on_unread_outputs(
    problem: Problem,
    network: Network,
    traced: TracedTerms,
    arrays: Sequence[Arrays],
    parameters: npt.NDArray[Any],
) -> list[str]:
    """Return a sentence if some outputs change no term, whatever they are.

    The terms are computed as they were traced, at all points of this rank, once more for each
    output with other values of the weights that it alone depends on, and compared bit by bit. Where
    it has no such weights, or a term has no points here, nothing is said.

    Parameters
    ----------
    arrays : of each term.
    parameters : θ: [p], near which they are tried.
    """
    if problem.network_outputs < 2 or not all(len(each[0]) for each in arrays):
        return []
    theta = moved(tf.constant(parameters))
    given = [[tf.constant(a, theta.dtype) for a in each] for each in arrays]
    terms = [(each.compute, its) for each, its in zip(traced.here, given, strict=True)]
    try:
        before: list[Any] = []
        unread = [
            j
            for j, own in enumerate(_own_weights(network, theta, arrays[0][0]))
            if own.any() and not _changes(terms, theta, own, before)
        ]
    except tf.errors.OpError:  # an assertion, which no compiled program has
        return []
    return [_text(problem, unread)] if unread else []


def _own_weights(
    network: Network, theta: Any, x: npt.NDArray[np.float64]
) -> list[npt.NDArray[np.bool_]]:
    """Which entries of θ each output of the network depends on, and no other output: [m][p]."""
    layout = ParameterLayout.of(network.own_variables)
    few = tf.constant(x[:_POINTS], theta.dtype)
    with tf.GradientTape(persistent=True) as tape:
        own = theta[: layout.size]
        tape.watch(own)
        outputs = tf.unstack(network.apply(layout.unflatten(own), few), axis=1)
    zero = tf.UnconnectedGradients.ZERO
    slopes = [tape.gradient(y, own, unconnected_gradients=zero).numpy() for y in outputs]
    moving = np.stack([np.pad(each != 0, (0, len(theta) - layout.size)) for each in slopes])
    return list(moving & (moving.sum(axis=0) == 1))


def _changes(terms: Any, theta: Any, own: npt.NDArray[np.bool_], before: list[Any]) -> bool:
    """Return whether some term is another one with other values of these entries of θ."""
    other = tf.where(own, moved(theta, 0.5), theta)
    for t, (compute, arrays) in enumerate(terms):
        if t == len(before):
            before.append(compute(theta, *arrays).numpy())
        if not np.array_equal(before[t], compute(other, *arrays).numpy(), equal_nan=True):
            return True
    return False


def _text(problem: Problem, unread: Sequence[int]) -> str:
    names = problem.output_names if problem.ansatz is None else ()
    which = " and ".join(f"{j} ({names[j]!r})" if names else str(j) for j in unread)
    of = "" if names else " of the network"
    one = len(unread) == 1
    return (
        f"no residual and no condition reads the output{'' if one else 's'} {which}{of}: the "
        f"training leaves {'it' if one else 'them'} as in the initial network. Write the missing "
        f"equation, or ask for fewer outputs."
    )
