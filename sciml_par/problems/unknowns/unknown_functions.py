"""Unknown functions in an equation, such as k(x) in −∇·(k ∇u) = f, found with its solution."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import Any

from sciml_par._other_names import ByName
from sciml_par.errors import InputError
from sciml_par.problems.checks.names import checked_names
from sciml_par.problems.unknowns.priors import Smooth
from sciml_par.problems.unknowns.unknowns import Unknown


@dataclass(frozen=True, eq=False)
class UnknownFunction(ByName):
    """An unknown function k(z) = T(p + N(z)) with a separate network N.

    Its values are numbers. T is the smooth function by which `Unknown` keeps a number inside its
    bounds, and p the parameter with T(p) = start:

        start + s N(z)                          without bounds
        lower + s log(1 + eᵖ⁺ᴺ)                 with a lower bound
        upper − s log(1 + eᵖ⁺ᴺ)                 with an upper bound
        lower + (upper − lower) / (1 + e⁻ᵖ⁻ᴺ)   with both

    Residuals and conditions that name it as an argument get it as a field of x, with values [n, 1]
    and derivatives: ``k(x)``, ``gradient(k, x)``, ``divergence(lambda z: k(z) * gradient(u, z),
    x)``. That holds for functions of the solution, too: with ``of="u"``, ``k(x)`` is k(u(x)).

    Parameters
    ----------
    start : float
        Its value at the start, up to the initial weights of N; strictly inside the bounds. In the
        unit of the function, like all others.
    of : str or sequence of str, optional
        Its arguments: names of coordinates, such as "x" of a domain in x and t, and of
        components of the solution, such as "u" for k(u). By default all coordinates.
    lower, upper : float, optional
        Open bounds, as for `Unknown`.
    scale : float, optional
        s, positive; as for `Unknown`.
    network : callable, Keras 3 model or name, optional
        N, as for `sciml_par.train`: called with (e, 1, seed=…, dtype=…) for e inputs. By default
        `sciml_par.networks.MLP`. A network of `sciml_par.networks` without periods in units of x
        gets the coordinates scaled from the box of the domain to [−1, 1]. A chain of dense layers
        that is built here starts with a tenth of the initial weights of its last layer. A given
        model starts with its weights.
    prior : Smooth, optional
        What is known of it before any observation, as a term "prior k" of the loss.
    true : callable, optional
        The known function, z: [n, e] -> [n, 1] or, if e = 1, [n], in NumPy or TensorFlow, for
        errors and figures; training does not use it.

    Raises
    ------
    InputError
        A bound is not a finite number, the start is not inside the bounds, the scale is not
        positive, `of` has no names, `true` is not a function, or the prior is not a `Smooth` that
        suits the bounds.

    Examples
    --------
    A conductivity k(x) > 0 that starts near 1:

    >>> from sciml_par.problems import Box, Dirichlet, Problem, UnknownFunction
    >>> from sciml_par.problems import divergence, gradient
    >>> def conduction(u, x, *, k):
    ...     return divergence(lambda z: k(z) * gradient(u, z), x) + 1
    >>> problem = Problem(
    ...     Box([0, 0], [1, 1]),
    ...     conduction,
    ...     conditions=[Dirichlet(0.0)],
    ...     unknowns={"k": UnknownFunction(1.0, lower=0, of="x")},
    ... )
    >>> list(problem.unknown_functions)
    ['k']

    A rate b(u) in u″ + b(u) = 0, which is a field of x as well:

    >>> from sciml_par.problems import Interval, laplacian
    >>> problem = Problem(
    ...     Interval(0, 1),
    ...     lambda u, x, *, b: laplacian(u, x) + b(x),
    ...     conditions=[Dirichlet(0.0)],
    ...     unknowns={"b": UnknownFunction(1.0, of="u")},
    ... )
    """

    start: float
    _: KW_ONLY
    of: str | Sequence[str] | None = None
    lower: float | None = None
    upper: float | None = None
    scale: float | None = None
    network: Any = None
    prior: Smooth | None = None
    true: Callable[[Any], Any] | None = None

    def __post_init__(self) -> None:
        if self.of is not None:
            of = checked_names(self.of, "UnknownFunction: of, what it depends on,")
            if not of:
                raise InputError(
                    "UnknownFunction: of must name at least one coordinate or component; a number "
                    "that is sought is Unknown(1.0)."
                )
            object.__setattr__(self, "of", of)
        if self.true is not None and not callable(self.true):
            raise InputError(
                f"UnknownFunction: true must be a function of what it depends on, as "
                f"lambda x: 1 + x**2, got {self.true!r}."
            )
        self._check_prior()
        try:
            number = self.number
        except InputError as error:
            text = str(error).removeprefix("Unknown: ")
            raise InputError(f"UnknownFunction: {text}") from error
        if number.shape:
            raise InputError(
                f"UnknownFunction: start must be one number, got the shape {list(number.shape)}; "
                f"for several functions, give an UnknownFunction for each."
            )

    def _check_prior(self) -> None:
        if self.prior is None:
            return
        if not isinstance(self.prior, Smooth):
            raise InputError(
                f"UnknownFunction: prior must be Smooth(length=…, amplitude=…), got {self.prior!r}."
            )
        if self.prior.log and not (self.lower is not None and self.lower >= 0):
            raise InputError(
                f"UnknownFunction: the prior {self.prior!r} is one of positive functions; give the "
                f"function a lower bound of 0 or more, as UnknownFunction(…, lower=0, prior=…)."
            )

    @cached_property
    def number(self) -> Unknown:
        """T, as the number that it would be without a network."""
        return Unknown(self.start, lower=self.lower, upper=self.upper, scale=self.scale)

    @cached_property
    def offset(self) -> float:
        """p, at which T(p) = start."""
        return float(self.number.initial("", 0))

    def __repr__(self) -> str:
        names = ("of", "lower", "upper", "scale", "prior")
        given = {name: getattr(self, name) for name in names}
        more = [f"{name}={value!r}" for name, value in given.items() if value is not None]
        return f"UnknownFunction({', '.join([f'{self.start!r}', *more])})"
