"""Whether the residuals depend on the unknowns that they take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.problems.field import Field
from sciml_par.problems.term import Arrays, Term
from sciml_par.problems.unknown_arguments import WithUnknowns
from sciml_par.problems.unknowns import Unknowns


def check_unknowns(
    unknowns: Unknowns,
    terms: Sequence[Term],
    u: Field,
    arrays: Sequence[Arrays],
    dtype: str,
    *,
    problem: str,
) -> None:
    """See that some residual can be differentiated by each unknown (local).

    The residuals are run in a throw-away graph.

    Raises
    ------
    InputError
        A residual takes an unknown and makes nothing of it that can be differentiated.
    """
    found: set[str] = set()
    for term, given in zip(terms, arrays, strict=True):
        if isinstance(term.function, WithUnknowns):
            found |= _differentiable(unknowns, term, u, given, dtype)
    for name in unknowns:
        if name not in found:
            where = f" of problem {problem!r}" if problem else ""
            raise InputError(
                f"the residuals{where} take the unknown {name!r}, but do not depend on it as far "
                f"as TensorFlow can tell, so that nothing would change its value. Use it in "
                f"TensorFlow operations, without float(), .numpy(), rounding or a cast to "
                f"integers, or leave it out."
            )


def _differentiable(
    unknowns: Unknowns, term: Term, u: Field, given: Arrays, dtype: str
) -> set[str]:
    """The unknowns by which the residual of a term can be differentiated."""
    found: set[str] = set()

    def run(values: dict[str, Any], arrays: Sequence[tf.Tensor]) -> None:
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(values)
            r = term.residual(u.with_unknowns(values), *arrays)
        slopes = tape.gradient(r, values)
        found.update(name for name, slope in slopes.items() if slope is not None)

    values = {name: tf.TensorSpec(unknown.shape, dtype) for name, unknown in unknowns.items()}
    specs = [tf.TensorSpec(array.shape, dtype) for array in given]
    tf.function(run, autograph=False).get_concrete_function(values, specs)
    return found
