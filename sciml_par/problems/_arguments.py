"""Checks of what a `Problem` is made of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sciml_par._checks import checked_integer, checked_weight
from sciml_par.errors import InputError
from sciml_par.problems.checks.names import checked_names, component_names
from sciml_par.problems.conditions.condition import Condition
from sciml_par.problems.domains.domain import Domain
from sciml_par.problems.fields.transformed import Ansatz
from sciml_par.problems.terms.residual import Residual

Equation = Callable[..., Any] | Residual

ANSATZ_TAKES = (
    "An ansatz is called as ansatz(u, x), and u is the network's field, a function: write u(x), as "
    "in ansatz=lambda u, x: x * (1 - x) * u(x)."
)


def checked_domain(domain: Any) -> Domain:
    """Return the domain."""
    if not isinstance(domain, Domain):
        raise InputError(
            f"Problem: domain must be a Domain, such as Interval(0, 1) or Ball([0, 0], 1), got "
            f"{domain!r}"
        )
    return domain


def checked_exact(exact: Any) -> Any:
    """Return the exact solution, if there is one."""
    if exact is not None and not callable(exact):
        raise InputError(f"Problem: exact must be a function of x, got {exact!r}")
    return exact


def checked_input_scaling(input_scaling: Any) -> bool | None:
    """Return whether inputs are scaled, if it is said."""
    if not (input_scaling is None or isinstance(input_scaling, bool)):
        raise InputError(
            f"Problem: input_scaling must be True, False or None for the default, got "
            f"{input_scaling!r}"
        )
    return input_scaling


def checked_outputs(outputs: Any, domain: Domain) -> tuple[str, ...]:
    """Return the names of the components."""
    if not isinstance(outputs, (str, tuple, list)):
        count = checked_integer(outputs, "Problem: outputs, unless names,", least=1)
        names = component_names(count)
    else:
        names = checked_names(outputs, "Problem: outputs, unless a number,")
    if not names:
        raise InputError("Problem: outputs must name at least one component, got none")
    both = sorted(set(names) & set(domain.names))
    if both:
        raise InputError(
            f"Problem: {both[0]!r} is the name of an output and of a coordinate; give others with "
            f"outputs=(...), or names=(...) of the domain"
        )
    return names


def checked_ansatz(ansatz: Any) -> Ansatz | None:
    """Return the ansatz, if there is one."""
    if ansatz is not None and not callable(ansatz):
        raise InputError(
            f"Problem: ansatz must be a function (u, x) -> [n, m], as lambda u, x: x * u(x), "
            f"got {ansatz!r}"
        )
    return None if ansatz is None else Ansatz(ansatz)


def checked_network_outputs(number: Any, *, outputs: int, ansatz: Ansatz | None) -> int:
    """Return the number of components of the network, by default that of the field."""
    if number is None:
        return outputs
    if ansatz is None:
        raise InputError(
            f"Problem: network_outputs={number!r} needs an ansatz=, which makes the {outputs} "
            f"components of the field of those of the network"
        )
    return checked_integer(number, "Problem: network_outputs", least=1)


def as_residuals(residual: Any) -> tuple[Residual, ...]:
    """Return the equations, each as a Residual."""
    several = residual if isinstance(residual, (list, tuple)) else [residual]
    for r in several:
        if not isinstance(r, Residual) and not callable(r):
            raise InputError(
                f"Problem: residual must be a function (u, x) -> [n, k] or a Residual, got {r!r}"
            )
    return tuple(r if isinstance(r, Residual) else Residual(r) for r in several)


def as_conditions(
    conditions: Any, domain: Domain, outputs: tuple[str, ...]
) -> tuple[Condition, ...]:
    """Return the conditions, one alone included, with names resolved."""
    try:
        several = [conditions] if isinstance(conditions, Condition) else list(conditions)
    except TypeError:
        several = [conditions]
    for c in several:
        if not isinstance(c, Condition):
            raise InputError(
                f"Problem: conditions must be Condition objects, as Dirichlet(0.0), got {c!r}; a "
                f"function (u, x) -> [k, c] is given as Condition(function, on=...)"
            )
    return tuple(c.prepared(domain, outputs) for c in several)


def checked_term_weights(weights: Mapping[str, Any], names: Sequence[str]) -> dict[str, float]:
    """Weights of terms, whose names are among these."""
    found = {}
    for name, weight in weights.items():
        if name not in names:
            raise InputError(
                f"weights: the loss has no term {name!r}; its terms are "
                f"{', '.join(map(repr, names))}"
            )
        found[name] = checked_weight(weight, f"the weight of term {name!r}")
    return found


def unique(names: list[str]) -> list[str]:
    """Number the names that occur more than once."""
    total, seen = Counter(names), Counter[str]()
    result = []
    for name in names:
        seen[name] += 1
        result.append(f"{name} {seen[name]}" if total[name] > 1 else name)
    return result
