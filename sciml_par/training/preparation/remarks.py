"""Remarks on the members of a training, once their residuals have been tried."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
from sciml_par.training.members.stack import Stack
from sciml_par.training.optimizers.keep import Keep
from sciml_par.training.optimizers.least_squares.least_squares import LeastSquares
from sciml_par.training.optimizers.phases import Phase
from sciml_par.training.preparation.contradictions import contradictions
from sciml_par.training.preparation.coupled_points import remarks_on_coupled_points
from sciml_par.training.preparation.data_remarks import remarks_on_data
from sciml_par.training.preparation.jumps import jumps

_POINTS = 8


def remarks_on_stack(
    stack: Stack, phases: Sequence[Phase], precision: str, ranks: int, *, chosen: bool = False
) -> list[str]:
    """Return remarks on a stack, as its first member shows them; refuse residuals that couple.

    chosen : whether `train` has chosen the optimizers, whose note says what precision they prefer.
    """
    setup, batches = stack.setups[0], stack.feed.steps_per_epoch > 1
    arrays = setup.feed.arrays[len(stack.problem.residuals) :]
    problem = stack.problem
    remarks = [*contradictions(problem, arrays), *remarks_on_data(problem), *jumps(problem)]
    remarks += [each for setup in stack.setups for each in setup.feed.remarks[:1]]
    trial = (setup.traced, setup.feed.arrays, stack.parameters[0])
    remarks += setup.traced.remarks
    # Windows find coupled points themselves. What `Keep` is given was tried before; networks of
    # slabs together round otherwise where other points move, and the trial compares all bits.
    kept = all(isinstance(phase.optimizer, Keep) for phase in phases)
    if not (kept or solved_in_windows(stack, phases)):
        remarks += remarks_on_coupled_points(stack.terms, *trial, ranks=ranks, batches=batches)
    remarks += remarks_on_unread_outputs(problem, setup.network, *trial)
    return [*remarks, *_on_least_squares(phases, "" if chosen else precision, batches=batches)]


def solved_in_windows(stack: Stack, phases: Sequence[Phase]) -> bool:
    """Return whether `LeastSquares` solves for one network in windows by its sparsity."""
    network = stack.network
    windowed = hasattr(network.model, "features_of_windows")
    alone = len(stack.setups) == 1 and len(phases) == 1 and not network.others
    return windowed and alone and isinstance(phases[0].optimizer, LeastSquares)


def _on_least_squares(phases: Sequence[Phase], precision: str, *, batches: bool) -> Iterator[str]:
    optimizers = [phase.optimizer for phase in phases]
    names = [type(o).__name__ for o in optimizers if o.least_squares]
    if names and precision == "float32":
        yield (
            f"in single precision {names[0]} stops where rounding hides the gain of a step, for "
            f"most problems far above the smallest loss; precision='float64' continues from there."
        )
    if names and batches:
        yield (
            f"{names[0]} takes each step for a minibatch alone, whose least squares are not those "
            f"of all points; leave batch_size out, so that every step uses all points."
        )


def remarks_on_unread_outputs(
    problem: Problem,
    network: Network,
    traced: TracedTerms,
    arrays: Sequence[Arrays],
    parameters: npt.NDArray[Any],
) -> list[str]:
    """Return a sentence if no term depends on some outputs of the network.

    For each output, the terms are computed again with other values of the entries of θ: [p] on
    which this output alone depends, and are compared bit by bit. Nothing is said of an output
    without such entries, or if a term has no points on this rank.
    """
    if problem.network_outputs < 2 or not all(len(each[0]) for each in arrays):
        return []
    theta = moved(tf.constant(parameters))
    given = [[tf.constant(a, theta.dtype) for a in each] for each in arrays]

    def terms(at: Any) -> list[npt.NDArray[Any]]:
        return [each.compute(at, *a).numpy() for each, a in zip(traced.here, given, strict=True)]

    def changes(own: npt.NDArray[np.bool_]) -> bool:
        pairs = zip(before, terms(tf.where(own, moved(theta, 0.5), theta)), strict=True)
        return not all(np.array_equal(a, b, equal_nan=True) for a, b in pairs)

    try:
        before, own_weights = terms(theta), _own_weights(network, theta, arrays[0][0])
        unread = [j for j, own in enumerate(own_weights) if own.any() and not changes(own)]
    except tf.errors.OpError:  # an assertion, which no compiled program has
        return []
    return [_text(problem, unread)] if unread else []


def _own_weights(
    network: Network, theta: Any, x: npt.NDArray[np.float64]
) -> list[npt.NDArray[np.bool_]]:
    """Return on which entries of θ each output of the network alone depends: [m][p]."""
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


def _text(problem: Problem, unread: Sequence[int]) -> str:
    names = problem.output_names if problem.ansatz is None else ()
    which = " and ".join(f"{j} ({names[j]!r})" if names else str(j) for j in unread)
    which += "" if names else " of the network"
    outputs, them = ("output", "it") if len(unread) == 1 else ("outputs", "them")
    return (
        f"no residual and no condition reads the {outputs} {which}: the training leaves {them} as "
        f"in the initial network. Write the missing equation, or ask for fewer outputs."
    )
