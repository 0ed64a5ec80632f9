"""The terms of a loss, each traced once: what they compute, and what there is to say of them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from sciml_par import _tape
from sciml_par._graph_digest import GraphDigest
from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.networks.keras.network import Network
from sciml_par.problems.fields.field import Field
from sciml_par.problems.fields.recording import Parametrized, Trace, trace
from sciml_par.problems.problem import Problem
from sciml_par.problems.problem_check import check_problem
from sciml_par.problems.terms.term import Arrays
from sciml_par.training.loss.function_networks import bound_functions, field_with
from sciml_par.training.loss.objective import field_of
from sciml_par.training.loss.parameter_layout import ParameterLayout

Tensor = Any

_UNKNOWN = GraphDigest("unknown", None)


@dataclass(frozen=True)
class TracedTerms:
    """What the terms of a loss compute, as functions of all parameters and of their arrays."""

    texts: tuple[str, ...]  # equal in all processes where the term is the same; see `GraphDigest`
    key: Hashable | None  # equal only for losses that compute the same; None if it is not known
    components: tuple[int, ...]  # how many residuals each term has at a point
    remarks: tuple[str, ...]  # sentences for the user
    here: tuple[Trace, ...]  # each term at this rank's points
    whole: tuple[Trace | None, ...]  # at the points of all ranks; None where it has no trace there


class TermTracer:
    """Traces the terms of the members of one training; members of one problem once."""

    def __init__(self) -> None:
        self._known: dict[Hashable, TracedTerms] = {}
        self._held: list[Any] = []

    def of(self, problem: Problem, network: Network, **points: Any) -> TracedTerms:
        """Return `trace_terms` of the same arguments."""
        made_of = [term.function for term in problem.terms] + [problem.ansatz]
        shapes = [tuple(array.shape for array in each) for each in points["arrays"]]
        variables = [tuple(v.shape) for v in network.trainable_variables]
        unknowns = [(name, each.key) for name, each in problem.unknowns.items()]
        key = (
            tuple(map(id, made_of)),
            (problem.input_scaling, problem.output_ranges),
            *(network.key, repr((shapes, variables, unknowns, points["rows"], points["in_step"]))),
        )
        if key not in self._known:
            self._held.append(made_of)  # so that no other object gets one of these identities
            self._known[key] = trace_terms(problem, network, **points)
        return self._known[key]


def trace_terms(
    problem: Problem,
    network: Network,
    *,
    dtype: str,
    arrays: Sequence[Arrays],
    rows: Sequence[int] | None = None,
    in_step: Sequence[int] | None = None,
) -> TracedTerms:
    """Run the residuals once without computing, and tell what they are."""
    layout = ParameterLayout.of(network.trainable_variables, problem.unknowns)
    asked: list[bool] = []

    def field(flat: Tensor) -> Field:
        return field_of(problem, _noting(network, asked), layout.unflatten(flat))

    parametrized = Parametrized(field, [tf.TensorSpec([layout.size], dtype)])
    own = [len(each[0]) for each in arrays]
    totals, some = own if rows is None else rows, own if in_step is None else in_step

    def at(t: int, count: int) -> Trace:
        specs = [tf.TensorSpec([count, *array.shape[1:]], dtype) for array in arrays[t]]
        return trace(problem.terms[t].function, parametrized, specs)

    try:
        every = [tf.convert_to_tensor(v) for v in network.trainable_variables]
        weights, *of_functions, _ = network.parts(every)
        here = check_problem(
            problem,
            field_with(network, weights),
            0,
            arrays,
            dtype,
            unknowns=bound_functions(problem, network, of_functions) or None,
            reads_variables=False,
            parametrized=parametrized,
        )
        for t, count in enumerate(some):
            if count not in (0, own[t]):
                at(t, count)
    except Exception as error:  # a residual may be computable at all its points alone
        for t, (few, total) in enumerate(zip(map(min, own, some), totals, strict=True)):
            if few != total and _if_it_can(at, t, few) is None and _if_it_can(at, t, total):
                raise InputError(
                    f"train: the residual {problem.terms[t].name!r} can be computed at all {total} "
                    f"points together only, as with an array of as many rows, but a step on this "
                    f"rank has {few} of them. Give what is known at each point as Residual(..., "
                    f"data=...), and an integral over the points as an IntegralCondition; or train "
                    f"without batches on one rank, or an ensemble with ranks_per_member=1."
                ) from error
        raise
    whole = [
        each if own[t] == totals[t] else _if_it_can(at, t, totals[t]) for t, each in enumerate(here)
    ]
    of_here = [each.digest() for each in here]
    digests = [
        mine if each is here[t] else _UNKNOWN if each is None else each.digest()
        for t, (each, mine) in enumerate(zip(whole, of_here, strict=True))
    ]
    keys = tuple(digest.key for digest in (*digests, *of_here))
    remarks = network.remarks
    if asked and network.jet is None and _is_piecewise_linear(network, problem, dtype):
        remarks = (*remarks, _PIECEWISE_LINEAR)
    return TracedTerms(
        tuple(digest.text for digest in digests),
        None if None in keys else keys,
        tuple(int(each.result.shape[1]) for each in here),
        remarks,
        tuple(here),
        tuple(whole),
    )


_PIECEWISE_LINEAR = (
    "the second derivatives of the network are zero at all points where it was tried, as those of "
    "relu are, but the problem asks for them: its equation does not see the network; use a smooth "
    "activation, such as tanh, sin, swish or gelu."
)


def _if_it_can(at: Callable[[int, int], Trace], t: int, count: int) -> Trace | None:
    try:
        return at(t, count)
    except Exception:  # the residual holds arrays for this rank's points
        return None


def _noting(network: Network, asked: list[bool]) -> Network:
    """Return a network without a jet that notes whether it is asked for second derivatives."""
    if network.jet is not None:
        return network

    def jet(parameters: Any, x: Tensor, second: Any, higher: Any = ()) -> Any:
        if len(second) > 0 or len(higher) > 0:
            asked.append(True)
        return Field(partial(network.apply, parameters)).jet(x, second, higher)

    return replace(network, jet=jet)


def _is_piecewise_linear(network: Network, problem: Problem, dtype: str) -> bool:
    """Return whether all second derivatives of a network vanish at some points between −1 and 1."""
    weights = [tf.convert_to_tensor(v) for v in network.own_variables]
    value = partial(network.apply, weights)
    d, m = problem.domain.dimension, problem.network_outputs
    x = tf.constant(np.random.default_rng(0).uniform(-1, 1, size=(32, d)), dtype)

    def slopes(z: Tensor) -> Tensor:
        return tf.reshape(_tape.value_and_jacobian(value, z)[1], [-1, m * d])

    return not bool(tf.reduce_any(_tape.value_and_jacobian(slopes, x)[1] != 0.0))
