"""Checks of what a `Problem` is made of."""

from __future__ import annotations

import keyword
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from sciml_par._checks import checked_integer, checked_weight
from sciml_par.errors import InputError
from sciml_par.problems.checks.names import checked_names, component_names
from sciml_par.problems.conditions.condition import Condition
from sciml_par.problems.conditions.drawing import refuse_whole_boundary
from sciml_par.problems.domains.domain import Domain
from sciml_par.problems.fields.transformed import Ranges
from sciml_par.problems.terms.residual import Residual
from sciml_par.problems.unknowns.unknown_functions import UnknownFunction
from sciml_par.problems.unknowns.unknowns import Unknown

Equation = Callable[..., Any] | Residual


def check_kinds(domain: Any, exact: Any, ansatz: Any, input_scaling: Any) -> None:
    """Check the kinds of four arguments."""
    for name, value, good, expected in (
        ("domain", domain, isinstance(domain, Domain), "a Domain, such as Interval(0, 1)"),
        ("exact", exact, exact is None or callable(exact), "a function of x"),
        (
            "ansatz",
            ansatz,
            ansatz is None or callable(ansatz),
            "a function (u, x) -> [n, m], as lambda u, x: x * u(x)",
        ),
        (
            "input_scaling",
            input_scaling,
            input_scaling is None or isinstance(input_scaling, bool),
            "True, False or None for the default",
        ),
    ):
        if not good:
            raise InputError(f"Problem: {name} must be {expected}, got {value!r}")


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


def checked_where(where: Any, outputs: tuple[str, ...]) -> dict[str, Any]:
    """Return where components mean something, by name."""
    good = where is None or isinstance(where, Mapping)
    found = dict(where or {}) if good else {}
    if not good or not all(name in outputs and callable(found[name]) for name in found):
        raise InputError(
            f"Problem: where must be a dictionary of functions x: [n, d] -> booleans [n] by the "
            f"names of outputs, {', '.join(outputs)}; got {where!r}"
        )
    return found


def checked_ranges(given: Any, outputs: tuple[str, ...], ansatz: Any) -> Ranges | None:
    """Return the least and the largest value of each component, if the network's are mapped."""
    if given is None or given is False:
        return None
    try:
        found = {name: (float(low), float(high)) for name, (low, high) in given.items()}
        good = all(
            name in outputs and -math.inf < a < b < math.inf for name, (a, b) in found.items()
        )
    except (AttributeError, TypeError, ValueError):
        good = False
    if not good:
        raise InputError(
            f"Problem: output_ranges must be a dictionary of a least and a largest value, such as "
            f"{{{outputs[0]!r}: (0, 300)}}, by the names of outputs, {', '.join(outputs)}, or "
            f"False for none; got {given!r}."
        )
    if ansatz is not None:
        raise InputError(
            "Problem: output_ranges are of u, which the ansatz makes of the network; multiply N "
            "by the size of u in the ansatz instead, as in lambda N, x: 300 * x * N(x)."
        )
    return tuple(found.get(name, (-1.0, 1.0)) for name in outputs)


def checked_network_outputs(number: Any, *, outputs: int, ansatz: Any) -> int:
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
    """Return the equations, each as a Residual; none of None."""
    if residual is None:
        return ()
    several = residual if isinstance(residual, (list, tuple)) else [residual]
    for r in several:
        if not isinstance(r, Residual) and not callable(r):
            raise InputError(
                f"Problem: residual must be a function (u, x) -> [n, k] or a Residual, got {r!r}"
            )
    return tuple(r if isinstance(r, Residual) else Residual(r) for r in several)


def as_conditions(
    conditions: Any, domain: Domain, outputs: tuple[str, ...], unknowns: Any
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
        sought = set(unknowns if isinstance(unknowns, Mapping) else ()) - set(outputs)
        for name in (each for s in c.selects for each in getattr(c, s) or ()):
            if name in sought:
                raise InputError(
                    f"Problem: {name!r} is an unknown and not a component of u, which "
                    f"{type(c).__name__} selects. A condition on an unknown function is "
                    f"Condition(lambda u, x, *, {name}: {name}(x) - 1), and measured values of it "
                    f"are Observations(x, values, operator=lambda u, x, *, {name}: {name}(x))."
                )
    found = tuple(c.prepared(domain, outputs) for c in several)
    times = {name for names in domain._time_faces for name in names}
    at_a_time = [c.kind == "initial" or isinstance(c.on, tuple) and {*c.on} <= times for c in found]
    for name in (type(c).__name__ for c in found if c.everywhere and any(at_a_time)):
        refuse_whole_boundary(domain, name, "of which another condition has one")
    return found


def checked_term_weights(weights: Mapping[str, Any], names: Sequence[str]) -> dict[str, float]:
    """Return the weights of terms, whose names must be among these."""
    found = {}
    for name, weight in weights.items():
        if name not in names:
            raise InputError(
                f"weights: the loss has no term {name!r}; its terms are "
                f"{', '.join(map(repr, names))}"
            )
        if isinstance(weight, list | tuple | np.ndarray):
            raise InputError(
                f"weights: the term {name!r} has one weight, got {weight!r}; Residual(…, "
                f"weight=(1.0, 10.0)) has one for each column of an equation, and conditions are "
                f"divided by component="
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


_TAKEN = ("u", "x", "self")


def checked_unknowns(
    given: Any, *, coordinates: Sequence[str], outputs: Sequence[str]
) -> tuple[MappingProxyType[str, Unknown], dict[str, UnknownFunction]]:
    """Return the numbers and the functions that are sought, by name."""
    if not isinstance(given, Mapping):
        raise InputError(
            f"Problem: unknowns must be a dictionary of names, such as "
            f"{{'D': Unknown(1.0, lower=0)}}; got {given!r}."
        )
    taken = dict.fromkeys(_TAKEN, "an argument of the residual")
    taken |= dict.fromkeys(outputs, "an output") | dict.fromkeys(coordinates, "a coordinate")
    numbers, functions = {}, {}
    for name, value in given.items():
        if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name):
            raise InputError(
                f"Problem: the name of an unknown is that of an argument of the residual, such as "
                f"'D' in f(u, x, *, D); got {name!r}."
            )
        if name in taken:
            raise InputError(
                f"Problem: {name!r} is the name of an unknown and of {taken[name]}; give the "
                f"unknown another one."
            )
        if isinstance(value, UnknownFunction):
            functions[name] = value
        else:
            numbers[name] = _as_unknown(name, value)
    return MappingProxyType(numbers), functions


def _as_unknown(name: str, value: Any) -> Unknown:
    good = isinstance(value, Unknown)
    try:
        if not good and not callable(value) and not hasattr(value, "assign"):  # as variables have
            value, good = Unknown(value), True
    except InputError:
        pass
    if not good:
        raise InputError(
            f"Problem: unknowns={{{name!r}: …}} must be a number or where one starts, as "
            f"Unknown(1.0, lower=0), or a function that is sought, as UnknownFunction(1.0); got "
            f"{value!r}."
        )
    found: Unknown = value
    return found
