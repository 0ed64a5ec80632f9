"""How the functions of residuals and conditions get the unknowns that they name."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import partial
from types import FunctionType, MethodType
from typing import Any

from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.problems.checks.functions import BY_NAME, POSITIONAL, check_takes, parameters_of
from sciml_par.problems.conditions.condition import Condition
from sciml_par.problems.fields.field import Field
from sciml_par.problems.terms.residual import Residual
from sciml_par.problems.unknowns.placed_function import BoundFunction
from sciml_par.problems.unknowns.prior_conditions import PriorCondition

Names = tuple[str, ...]
Starts = Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class WithUnknowns:
    """The residual (u, *arrays) -> r of a residual or condition, with the unknowns of the field.

    `of_residual` are the unknowns that its method `residual` names, and `of_functions` those named
    by the functions that it holds. `starts` serve for a field without unknowns.
    """

    part: Any
    of_residual: Names
    of_functions: tuple[tuple[str, Names], ...]
    starts: Mapping[str, Any]

    @property
    def names(self) -> frozenset[str]:
        """The unknowns that are passed to some function."""
        return frozenset(self.of_residual).union(*(names for _, names in self.of_functions))

    def __call__(self, u: Any, *arrays: tf.Tensor) -> tf.Tensor:
        """Compute r: [n, k]."""
        given = {**self.starts, **getattr(u, "unknowns", {})}
        values = {name: _value(given[name], u, arrays[0].dtype) for name in self.names}
        part = self.part
        if self.of_functions:
            part = copy.copy(part)
            for attribute, names in self.of_functions:
                bound = partial(getattr(part, attribute), **{name: values[name] for name in names})
                object.__setattr__(part, attribute, bound)
        try:
            return part.residual(u, *arrays, **{name: values[name] for name in self.of_residual})
        except (TypeError, ValueError) as error:
            kinds = [
                f"{name} is a function, with the values {name}(x)"
                if isinstance(value, Field)
                else f"{name} is a number, written {name}"
                for name, value in values.items()
            ]
            error.add_note(f"Of the unknowns, {'; '.join(kinds)}.")
            raise


def _value(given: Any, u: Any, dtype: Any) -> Any:
    """Return a number as a tensor, a function as a field."""
    if isinstance(given, BoundFunction):
        return given.beside(u)
    if callable(given):
        names = getattr(u, "coordinates", None)
        return given if isinstance(given, Field) else Field(given, coordinates=names)
    return tf.convert_to_tensor(given, dtype)


def residual_of(part: Any, unknowns: Starts, name: str) -> Callable[..., Any]:
    """Return the function (u, *arrays) -> r of a part, with the unknowns that it names."""
    if isinstance(part, PriorCondition):
        return WithUnknowns(part, (part.unknown,), (), unknowns)
    names = tuple(unknowns)
    held = dict(getattr(part, "__dict__", {}))
    if is_dataclass(part):
        held = {f.name: getattr(part, f.name) for f in fields(part)} | held
    held = {attribute: value for attribute, value in held.items() if callable(value)}
    for attribute in part.known_functions:
        known = held.pop(attribute, None)
        for unknown in _named(parameters_of(known), names) if callable(known) else ():
            raise InputError(
                f"Problem: {attribute} of term {name!r} takes the unknown {unknown!r}, but it is "
                f"computed once, before the training; use the unknown in the residual itself."
            )
    of_functions = []
    for attribute, function in held.items():
        _check_given(function, names, name, positional=_positional(part, attribute))
        if chosen := named_by(function, names):
            of_functions.append((attribute, chosen))
    _check_given(part.residual, names, name, positional=None)
    of_residual = named_by(part.residual, names)
    if not of_residual and not of_functions:
        return part.residual
    return WithUnknowns(part, of_residual, tuple(of_functions), unknowns)


def with_part(function: Callable[..., Any], part: Any) -> Callable[..., Any]:
    """Return the residual (u, *arrays) -> r of another part that names the same unknowns."""
    inner = getattr(function, "inner", function)  # of a term whose residuals are shifted
    return replace(inner, part=part) if isinstance(inner, WithUnknowns) else part.residual


def uses_unknowns(function: Any) -> bool:
    """Return whether a term takes unknowns, other than by a prior, which observes nothing."""
    inner = getattr(function, "inner", function)  # of a term whose residuals are shifted
    return isinstance(inner, WithUnknowns) and not isinstance(inner.part, PriorCondition)


def check_all_named(functions: Sequence[Any], unknowns: Starts) -> None:
    """Check that each unknown is an argument of some residual or condition."""
    named = set().union(*(f.names for f in functions if uses_unknowns(f)))
    for name in unknowns:
        if name not in named:
            raise InputError(
                f"Problem: no residual and no condition takes the unknown {name!r}, so that "
                f"nothing would tell its value; name it as an argument, as in "
                f"def residual(u, x, *, {name}), or leave it out of unknowns."
            )


def refuse_in_ansatz(function: Any, unknowns: Starts) -> None:
    """Check that an ansatz takes no unknown."""
    for name in _named(parameters_of(function), tuple(unknowns)):
        raise InputError(
            f"Problem: the ansatz takes the unknown {name!r}, but an ansatz cannot depend on "
            f"unknowns; let a condition take it."
        )


def named_by(function: Any, names: Names) -> Names:
    """Return which of these names a function takes as arguments; all, if it takes any."""
    parameters = parameters_of(function)
    any_name = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    while isinstance(function, partial):
        function = function.func
    # Objects that can be called, such as Keras layers, take any argument and use none.
    if any_name and isinstance(function, FunctionType | MethodType):
        return names
    return _named(parameters, names)


def _named(parameters: Mapping[str, inspect.Parameter], names: Names) -> Names:
    return tuple(n for n in names if n in parameters and parameters[n].kind in BY_NAME)


def _positional(part: Any, attribute: str) -> int | None:
    """Return how many arguments a function gets by their places, where that is known."""
    if attribute != "function":
        return None
    if type(part) is Residual:
        return 2 + (part.data is not None)
    return 2 + part.needs_normals if type(part) is Condition else None


def _check_given(function: Any, names: Names, term: str, *, positional: int | None) -> None:
    """Check that every argument that a function must get is given to it."""
    if positional is not None:
        check_takes(
            function,
            ", ".join(("u", "x", "f")[:positional]),
            what=f"Problem: the residual of term {term!r}",
            more_by_name=True,
        )
    places = 0
    for name, parameter in parameters_of(function).items():
        if parameter.kind in POSITIONAL:
            places += 1
            by_place = positional is None or places <= positional
            if by_place and positional is not None and name in names:
                raise InputError(
                    f"Problem: the unknown {name!r} has the name of an argument that the residual "
                    f"of term {term!r} gets by its place; give the unknown another name, or write "
                    f"a star in front of it, as in def residual(u, x, *, {name})."
                )
        else:
            by_place = parameter.kind is not inspect.Parameter.KEYWORD_ONLY
        if by_place or name in names or parameter.default is not inspect.Parameter.empty:
            continue
        known = f" (these are {', '.join(map(repr, names))})" if names else ""
        raise InputError(
            f"Problem: the residual of term {term!r} takes the argument {name!r}, which is not "
            f"an unknown of the problem{known}. Add it, as "
            f"unknowns={{{name!r}: Unknown(1.0)}}, or give the argument a default; a known right "
            f"side is Residual(..., data=...)."
        )
