"""Whether a problem can be trained with a field: its residuals, run once without computing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sciml_par._graph_digest import GraphDigest
from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.problems.checks.functions import refuse_trainable
from sciml_par.problems.fields.field import Field
from sciml_par.problems.fields.recording import Parametrized, Trace, trace
from sciml_par.problems.terms.term import Arrays
from sciml_par.problems.unknowns.placed_function import BoundFunction
from sciml_par.problems.unknowns.unknown_arguments import uses_unknowns


def check_problem(
    problem: Any,
    network: Field,
    n: int,
    arrays: Sequence[Arrays] | None,
    dtype: str,
    *,
    unknowns: Mapping[str, Any] | None,
    reads_variables: bool,
    parametrized: Parametrized | None = None,
) -> list[Trace]:
    """Check as `Problem.check` does, and return what each residual did."""
    own_variables = _check_field(problem, network, dtype)
    u = problem.field(network, unknowns=unknowns)
    if not reads_variables:
        remedy = "Its apply and jet must use the weights that they are given, and no others."
        refuse_trainable(own_variables, "the network", remedy=remedy)
    tried_on = [term.points(n) for term in problem.terms] if arrays is None else arrays
    traces = []
    for term, given in zip(problem.terms, tried_on, strict=True):
        specs = [tf.TensorSpec(array.shape, dtype) for array in given]
        traces.append(term.check(parametrized or u, *specs, own_variables=own_variables))
    _check_unknowns(problem, u, tried_on, dtype)
    return traces


def _check_unknowns(problem: Any, u: Field, arrays: Sequence[Arrays], dtype: str) -> None:
    """Check that some residual can be differentiated by each unknown.

    In place of a network, an unknown function has sines of its inputs times a number.
    """
    functions = problem.unknown_functions
    found: set[str] = set()
    parts = zip(problem.terms, arrays, strict=True)
    taking = [(t.function, a) for t, a in parts if uses_unknowns(t.function)]

    def stand_in(name: str, factor: Any) -> BoundFunction:
        network = Field(lambda z: factor * tf.reduce_sum(tf.sin(z), axis=1, keepdims=True))
        return BoundFunction(functions[name], network, scaled=False)

    def run(values: dict[str, Any], given: Sequence[Any]) -> None:
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(values)
            fields = {name: stand_in(name, values[name]) for name in functions}
            known = u.with_unknowns({**values, **fields})
            residuals = [f(known, *own) for (f, _), own in zip(taking, given, strict=True)]
        slopes = tape.gradient(residuals, values)
        found.update(name for name, slope in slopes.items() if slope is not None)

    shapes = {name: unknown.shape for name, unknown in problem.unknowns.items()}
    shapes |= dict.fromkeys(functions, ())
    if taking:
        values = {name: tf.TensorSpec(shape, dtype) for name, shape in shapes.items()}
        specs = [[tf.TensorSpec(array.shape, dtype) for array in own] for _, own in taking]
        tf.function(run, autograph=False).get_concrete_function(values, specs)
    for name in shapes:
        if name not in found:
            where = f" of problem {problem.name!r}" if problem.name else ""
            raise InputError(
                f"the residuals{where} take the unknown {name!r}, but TensorFlow finds no "
                f"derivative of them by it, so training would not change it. Use it in "
                f"differentiable TensorFlow operations, or leave it out."
            )


def digest_of_ansatz(problem: Any, dtype: str = "float64") -> GraphDigest | None:
    """Return what tells a problem's ansatz from others, or None if it has none.

    It is that of u as a function of x and of the weights of a stand-in for the network; the inputs
    of the network are scaled as the problem says. It depends on the precision.
    """
    if problem.ansatz is None:
        return None
    d, m = problem.domain.dimension, problem.network_outputs

    def field(weights: Any) -> Field:
        return problem.field(Field(lambda x: tf.sin(tf.matmul(x, weights))))

    stand_in = Parametrized(field, [tf.TensorSpec([d, m], dtype)])
    points = tf.TensorSpec([m + 2, d], dtype)
    return trace(lambda u, x: u(x), stand_in, [points]).digest()


def _check_field(problem: Any, network: Field, dtype: str) -> tuple[Any, ...]:
    """Check that u(x) has as many components as it must; the variables that the network reads."""
    # More points than components, so that a field of a value for every pair of points shows.
    points = tf.TensorSpec([problem.outputs + 2, problem.domain.dimension], dtype)
    traced = trace(lambda field, x: field(x), network, [points])
    if problem.ansatz is None:
        _check_components(problem, traced.result.shape[1], "u(x)", "make the network with")
        return traced.variables
    context = "in the ansatz" + (f" of problem {problem.name!r}" if problem.name else "")
    whole = trace(lambda field, x: problem.field(field)(x), network, [points], context=context)
    _check_components(problem, whole.result.shape[1], "the ansatz", "let it return")
    own = {id(variable) for variable in traced.variables}
    read = [variable for variable in whole.variables if id(variable) not in own]
    refuse_trainable(read, f"the code run {context}")
    return traced.variables


def _check_components(problem: Any, m: int, what: str, advice: str) -> None:
    if m != problem.outputs:
        raise InputError(
            f"problem {problem.name!r} is for a field of {problem.outputs} components "
            f"(outputs={problem.outputs}), but {what} has {m}; {advice} "
            f"outputs={problem.outputs}, or make the problem with outputs={m}"
        )
