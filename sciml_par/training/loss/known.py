"""What an optimizer can know of the loss at a point θ, and how it is computed.

A class here is one kind of knowledge. An optimizer declares the richest kind that it `needs` and
asks an objective for it: ``objective.evaluate(Gradient, θ, batch).gradient``. The idea is that of
`FunctionInfo` in optimistix (Rader, Lyons and Kidger 2024, arXiv:2402.09983).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

from sciml_par._tensorflow import tf

if TYPE_CHECKING:
    from sciml_par.training.points.feed import Batch

Tensor = Any
Members = Any
"""A `StackedObjective`, whose module imports this one."""


class Known(ABC):
    """Something known of the loss L at θ: [M, p], on one batch of points."""

    by_jacobian: ClassVar[bool] = False
    """Whether the Jacobian must be prepared outside of any graph; see `JacobianOfTerm.prepare`."""

    @classmethod
    @abstractmethod
    def at(cls, members: Members, parameters: Tensor, batch: Batch) -> Self:
        """Compute it; whether that is collective is said by each kind."""


@dataclass(frozen=True)
class Value(Known):
    """The terms of the loss with their weights, over all ranks, [M, T]; L is their sum."""

    terms: Tensor

    @classmethod
    def at(cls, members: Members, parameters: Tensor, batch: Batch) -> Self:
        """Collective."""
        return cls(members.ranks.sum(members.here("values", parameters, batch)))


@dataclass(frozen=True)
class Gradient(Known):
    """The terms of the loss, [M, T], and ∇L, [M, p], over all ranks, to the bit equal on each."""

    terms: Tensor
    gradient: Tensor

    @classmethod
    def at(cls, members: Members, parameters: Tensor, batch: Batch) -> Self:
        """Collective; both travel in one buffer."""
        both = members.ranks.sum(members.here("gradient", parameters, batch))
        p = parameters.shape[1]
        return cls(both[:, p:], both[:, :p])


@dataclass(frozen=True)
class GradientsOfTerms(Known):
    """The gradient of each term of the loss over all ranks, [M, T, p]."""

    gradients: Tensor

    @classmethod
    def at(cls, members: Members, parameters: Tensor, batch: Batch) -> Self:
        """Collective."""
        here = members.here("gradients_of_terms", parameters, batch)
        return cls(members.ranks.sum(here))


@dataclass(frozen=True)
class Residuals(Known):
    """√(w/N) r of each term on this rank's points, [M, K_t].

    L is the sum of all their squares, over terms and ranks.
    """

    residuals: list[Tensor]

    @classmethod
    def at(cls, members: Members, parameters: Tensor, batch: Batch) -> Self:
        """Local."""
        return cls(members.here("residuals", parameters, batch))


@dataclass(frozen=True)
class Jacobian(Known):
    """The `Residuals`, and Jᵀ of each term on this rank's points, [M, p, K_t]."""

    residuals: list[Tensor]
    jacobian: list[Tensor]

    by_jacobian = True

    @classmethod
    def at(cls, members: Members, parameters: Tensor, batch: Batch) -> Self:
        """Local."""
        return cls(*members.here("jacobian", parameters, batch))


@dataclass(frozen=True)
class LinearJacobian(Jacobian):
    """The same, of the output layer and the unknowns alone, in which the field is linear."""


@dataclass(frozen=True)
class WindowJacobian(Known):
    """The `Residuals`, and their derivatives by the parameters of the windows that cover a point.

    Column j of the derivatives belongs to the point j mod n.
    """

    residuals: list[Tensor]  # of each term on this rank, [M, K_t]
    slopes: list[Tensor]  # derivatives of its k components, [M, k, c, C_t]
    windows: list[Tensor]  # the number of the window of each column, [M, C_t]
    by_unknowns: list[Tensor]  # derivatives by the problem's unknowns, [M, q, K_t]

    by_jacobian = True

    @classmethod
    def at(cls, members: Members, parameters: Tensor, batch: Batch) -> Self:
        """Local."""
        return cls(*members.here("window_jacobian", parameters, batch))


@dataclass(frozen=True)
class LinearMap(Known):
    """The `Residuals`, and products with their derivatives J, which is never formed."""

    residuals: list[Tensor]
    times: Callable[[Tensor], list[Tensor]]
    """J d of each term on this rank's points: [M, p] -> [M, K_t] (local)."""
    transposed_times: Callable[[Sequence[Tensor]], Tensor]
    """Jᵀ v over this rank's points: [M, K_t] of each term -> [M, p] (local)."""
    normal_times: Callable[[Tensor], Tensor]
    """JᵀJ d over this rank's points: [M, p] -> [M, p] (local)."""

    @classmethod
    def at(cls, members: Members, parameters: Tensor, batch: Batch) -> Self:
        """Local."""

        def product(name: str) -> Callable[[Any], Any]:
            # Vectorization over the members wants θ and the vector in one row.
            def of(vector: Any) -> Any:
                parts = vector if isinstance(vector, list | tuple) else [vector]
                return members.here(name, tf.concat([parameters, *parts], axis=1), batch)

            return of

        return cls(
            Residuals.at(members, parameters, batch).residuals,
            product("jacobian_times"),
            product("transposed_times"),
            product("normal_times"),
        )


def squared(residuals: Sequence[Tensor]) -> Tensor:
    """Return the squares of each term's residuals, summed: [M, K_t] -> [M, T], in float64."""
    return tf.stack([tf.reduce_sum(tf.cast(r, tf.float64) ** 2, axis=1) for r in residuals], axis=1)
