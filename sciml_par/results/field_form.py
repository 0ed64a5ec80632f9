"""What a problem makes of a network, as files and other ranks can know it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sciml_par._tensorflow import tf
from sciml_par.problems.domains.box import Box
from sciml_par.problems.problem import Problem

Corners = tuple[tuple[float, ...], tuple[float, ...]]


@dataclass(frozen=True)
class FieldForm:
    """What a problem makes of a network's field N: u(x) = A(N, z(x)).

    Attributes
    ----------
    box : the corners of the box that z maps to [−1, 1]^d, or None for z = x.
    ansatz : a digest of the ansatz A as it was traced, or None for u = N.
    domain : the corners of the box around the problem's domain, or None where it is not known.
    """

    box: Corners | None = None
    ansatz: str | None = None
    domain: Corners | None = field(default=None, compare=False)

    def is_of(self, problem: Problem, dtype: str) -> bool:
        """Whether a problem has this form, by its own scaling or by the default one."""
        decided = problem.for_network(_Network(self.box is not None))
        return form_of(decided, dtype) == self

    def problem(self, outputs: Sequence[str]) -> Problem | None:
        """Return a problem that makes the same of a network; None for the network itself.

        The ansatz is not in the form: there must be none.
        """
        assert self.ansatz is None
        if self.box is None:
            return None
        return Problem(Box(*self.box), lambda u, x: u(x), outputs=outputs, input_scaling=True)


@dataclass(frozen=True)
class _Network:
    """What `Problem.for_network` asks of a network."""

    sees_scaled_inputs: bool


def form_of(problem: Problem, dtype: str) -> FieldForm:
    """Return the form of a problem whose input scaling has been decided."""
    around = tuple(problem.domain.lower.tolist()), tuple(problem.domain.upper.tolist())
    return FieldForm(
        around if problem.input_scaling else None,
        None if problem.ansatz is None else _digest(problem, dtype),
        around,
    )


def _digest(problem: Problem, dtype: str) -> str:
    """Return a digest of u(x) = A(tanh(x W), x), in which W stands for any network."""
    from sciml_par._graph_digest import digest_of_graph

    d, k = problem.domain.dimension, problem.network_outputs

    def value(x: Any, w: Any) -> Any:
        return problem.field(lambda z: tf.tanh(z @ w))(x)

    specs = tf.TensorSpec([3, d], dtype), tf.TensorSpec([d, k], dtype)
    traced = tf.function(value, autograph=False).get_concrete_function(*specs).graph
    return digest_of_graph(traced, traced.inputs[:2], traced.outputs).text
