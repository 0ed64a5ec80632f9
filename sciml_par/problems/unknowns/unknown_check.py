"""Whether the residuals depend on the unknowns that they take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.problems.fields.field import Field
from sciml_par.problems.terms.term import Arrays, Term
from sciml_par.problems.unknowns.placed_function import BoundFunction, PlacedFunction
from sciml_par.problems.unknowns.unknown_arguments import WithUnknowns
from sciml_par.problems.unknowns.unknowns import Unknowns

Functions = Mapping[str, PlacedFunction]


def check_unknowns(
    unknowns: Unknowns,
    functions: Functions,
    terms: Sequence[Term],
    u: Field,
    arrays: Sequence[Arrays],
    dtype: str,
    *,
    problem: str,
) -> None:
    """Check that some residual can be differentiated by each unknown.

    The residuals are run in a throw-away graph.
    """
    found: set[str] = set()
    for term, given in zip(terms, arrays, strict=True):
        if isinstance(term.function, WithUnknowns):
            found |= _differentiable(unknowns, functions, term, u, given, dtype)
    for name in [*unknowns, *functions]:
        if name not in found:
            where = f" of problem {problem!r}" if problem else ""
            raise InputError(
                f"the residuals{where} take the unknown {name!r}, but do not depend on it as far "
                f"as TensorFlow can tell, so that nothing would change its value. Use it in "
                f"TensorFlow operations, without float(), .numpy(), rounding or a cast to "
                f"integers, or leave it out."
            )


def _differentiable(
    unknowns: Unknowns, functions: Functions, term: Term, u: Field, given: Arrays, dtype: str
) -> set[str]:
    """Return the unknowns by which the residual of a term can be differentiated.

    In place of a network, a function has sines of its inputs times a number that is followed.
    """
    found: set[str] = set()

    def run(values: dict[str, Any], arrays: Sequence[tf.Tensor]) -> None:
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(values)
            fields = {name: _stand_in(each, values[name]) for name, each in functions.items()}
            r = term.function(u.with_unknowns({**values, **fields}), *arrays)
        slopes = tape.gradient(r, values)
        found.update(name for name, slope in slopes.items() if slope is not None)

    values = {name: tf.TensorSpec(unknown.shape, dtype) for name, unknown in unknowns.items()}
    values |= {name: tf.TensorSpec((), dtype) for name in functions}
    specs = [tf.TensorSpec(array.shape, dtype) for array in given]
    tf.function(run, autograph=False).get_concrete_function(values, specs)
    return found


def _stand_in(placed: PlacedFunction, factor: Any) -> BoundFunction:
    def network(z: Any) -> Any:
        return factor * tf.reduce_sum(tf.sin(z), axis=1, keepdims=True)

    return BoundFunction(placed, Field(network), scaled=False)
