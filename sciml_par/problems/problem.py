"""A problem: a domain, equations in it, conditions on its boundary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.problems._checks import as_columns, checked_integer
from sciml_par.problems.captured import refuse_trainable
from sciml_par.problems.conditions import Condition
from sciml_par.problems.domain import Box
from sciml_par.problems.recording import trace
from sciml_par.problems.residual import Residual
from sciml_par.problems.term import Arrays, Term, as_field

FloatArray = npt.NDArray[np.float64]
Exact = Callable[[FloatArray], npt.ArrayLike]
Equation = Callable[..., Any] | Residual


class Problem:
    """What is to be solved, free of networks, ranks and optimizers; immutable.

    The loss is L = Σ_t w_t · (1/N_t) Σ_{i=1..N_t} |r_t(x_i)|² over the terms t: the equations in
    the interior first, then the conditions. |·|² is summed over the components of r_t.

    Parameters
    ----------
    domain : Box
    residual : callable, Residual, or a sequence of these
        (u, x: [n, d]) -> r: [n, k], left side minus right side. A plain function has the weight 1.
    conditions : sequence of Dirichlet, Neumann, Robin
    exact : callable, optional
        The exact solution, x: [n, d] -> [n, m], NumPy; [n] is taken as [n, 1] where m = 1.
    outputs : int
        Number m of components of the field.
    name : str

    Raises
    ------
    InputError
        An argument of another kind, or an exact solution of another shape.

    Examples
    --------
    u″ = 2 on (0, 1) with u(0) = u(1) = 0:

    >>> from sciml_par.problems import Dirichlet, Interval, Problem, laplacian
    >>> problem = Problem(
    ...     Interval(0, 1),
    ...     lambda u, x: laplacian(u, x) - 2,
    ...     conditions=[Dirichlet(0.0)],
    ...     exact=lambda x: x * (x - 1),
    ...     name="parabola",
    ... )
    >>> [(term.name, term.weight) for term in problem.terms]
    [('residual', 1.0), ('dirichlet', 1.0)]
    """

    def __init__(
        self,
        domain: Box,
        residual: Equation | Sequence[Equation],
        *,
        conditions: Sequence[Condition] = (),
        exact: Exact | None = None,
        outputs: int = 1,
        name: str = "",
    ) -> None:
        if not isinstance(domain, Box):
            raise InputError(f"Problem: domain must be a Box or an Interval, got {domain!r}")
        if exact is not None and not callable(exact):
            raise InputError(f"Problem: exact must be a function of x, got {exact!r}")
        self._domain, self._name = domain, str(name)
        self._outputs = checked_integer(outputs, "Problem: outputs", least=1)
        self._residuals = _as_residuals(residual)
        self._conditions = _as_conditions(conditions)
        self._exact = exact
        self._terms = self._make_terms()
        if exact is not None:
            self._evaluate_exact(domain.sample(5, seed=0))

    @property
    def domain(self) -> Box:
        """Where the equations hold."""
        return self._domain

    @property
    def residuals(self) -> tuple[Residual, ...]:
        """The equations in the interior."""
        return self._residuals

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """The conditions on the boundary."""
        return self._conditions

    @property
    def outputs(self) -> int:
        """Number m of components of the field."""
        return self._outputs

    @property
    def name(self) -> str:
        """The problem's name, possibly empty."""
        return self._name

    @property
    def terms(self) -> tuple[Term, ...]:
        """The terms of the loss: equations, then conditions."""
        return self._terms

    @property
    def exact(self) -> Callable[[npt.ArrayLike], FloatArray] | None:
        """The exact solution as x: [n, d] -> [n, m] (NumPy, float64), or None."""
        return None if self._exact is None else self._evaluate_exact

    @property
    def exact_function(self) -> Exact | None:
        """The exact solution as it was given, or None."""
        return self._exact

    def __repr__(self) -> str:
        terms = ", ".join(term.name for term in self._terms)
        return f"Problem({self._name!r}, {self._domain!r}, outputs={self._outputs}, terms: {terms})"

    def check(
        self,
        u: Any,
        *,
        n: int = 64,
        arrays: Sequence[Arrays] | None = None,
        dtype: str = "float32",
        reads_variables: bool = True,
    ) -> None:
        """Run every residual once in a throw-away graph, before any training (local).

        Parameters
        ----------
        u : Field or callable [n, d] -> [n, m]
        n : int
            Points of each term, as for `Term.points`; residuals are traced, not computed.
        arrays : sequence of tuples of arrays, optional
            What each term shall be tried on, in place of its n points.
        dtype : str
            Of the field.
        reads_variables : bool
            Whether u may read trainable variables; not where the weights are passed to it, as the
            variables would then be left as they are.

        Raises
        ------
        InputError
            The field has another number of components than the problem; or a residual returns
            something of another kind, shape or dtype than it must, or reads a trainable variable
            that is not one of u's (see `Term.check`).
        """
        own_variables = self._check_field(u, dtype)
        if not reads_variables:
            remedy = "Its apply and jet must use the weights that they are given, and no others."
            refuse_trainable(own_variables, "the network", remedy=remedy)
        tried_on = [term.points(n) for term in self._terms] if arrays is None else arrays
        for term, given in zip(self._terms, tried_on, strict=True):
            specs = [tf.TensorSpec(array.shape, dtype) for array in given]
            term.check(u, *specs, own_variables=own_variables)

    def _check_field(self, u: Any, dtype: str) -> tuple[Any, ...]:
        """See that u(x) has as many components as it must; the variables that it reads."""
        points = tf.TensorSpec([3, self._domain.dimension], dtype)
        traced = trace(lambda field, x: field(x), as_field(u), [points])
        m = traced.result.shape[1]
        if m != self._outputs:
            raise InputError(
                f"problem {self._name!r} is for a field of {self._outputs} components "
                f"(outputs={self._outputs}), but u(x) has {m}; make the network with "
                f"outputs={self._outputs}, or the problem with outputs={m}"
            )
        return traced.variables

    def _evaluate_exact(self, x: npt.ArrayLike) -> FloatArray:
        points = np.asarray(x, dtype=np.float64)
        if points.ndim != 2 or points.shape[1] != self._domain.dimension:
            raise InputError(
                f"exact: points must have the shape [n, {self._domain.dimension}], "
                f"got {list(points.shape)}"
            )
        assert self._exact is not None
        what = f"the exact solution of problem {self._name!r}"
        return as_columns(self._exact(points), len(points), what=what, columns=self._outputs)

    def _make_terms(self) -> tuple[Term, ...]:
        parts: list[tuple[str, Residual | Condition]] = []
        parts += [(r.name or "residual", r) for r in self._residuals]
        parts += [(c.kind, c) for c in self._conditions]
        names = _unique([name for name, _ in parts])
        return tuple(
            Term(name, float(p.weight), partial(p.points, self._domain), p.residual, self._name)
            for name, (_, p) in zip(names, parts, strict=True)
        )


def _as_residuals(residual: Any) -> tuple[Residual, ...]:
    several = residual if isinstance(residual, (list, tuple)) else [residual]
    if not several:
        raise InputError("Problem: at least one residual is needed")
    for r in several:
        if not isinstance(r, Residual) and not callable(r):
            raise InputError(
                f"Problem: residual must be a function (u, x) -> [n, k] or a Residual, got {r!r}"
            )
    return tuple(r if isinstance(r, Residual) else Residual(r) for r in several)


def _as_conditions(conditions: Any) -> tuple[Condition, ...]:
    several = [conditions] if isinstance(conditions, Condition) else list(conditions)
    for c in several:
        if not isinstance(c, Condition):
            raise InputError(
                f"Problem: conditions must be Dirichlet, Neumann or Robin objects, got {c!r}"
            )
    return tuple(several)


def _unique(names: list[str]) -> list[str]:
    """Number the names that occur more than once."""
    total, seen = Counter(names), Counter[str]()
    result = []
    for name in names:
        seen[name] += 1
        result.append(f"{name} {seen[name]}" if total[name] > 1 else name)
    return result
