"""A member with the other ones of its two vectors of weights."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from sciml_par.evaluation.figures.parts.data import Prediction
from sciml_par.results.member import Member, PredictionElsewhere
from sciml_par.results.predict import field_of_member, kept_weights

# What only `train` computes.
_UNKNOWN: Any = {"validation_loss": math.nan, "zero_loss": math.nan, "misfits": {}}


def with_weights(member: Member, kept: str) -> Member:
    """The member with its "best" or "last" weights, and what it predicts with them."""
    if member.kept == kept:
        return member
    field = field_of_member(member)
    changed = replace(member, kept=kept, **_UNKNOWN)

    def predict(before: Prediction | PredictionElsewhere) -> Prediction:
        assert isinstance(before, Prediction)
        u = field.at(kept_weights(changed), before.x).astype(np.float64)
        return replace(before, u=u)

    prediction = own = predict(member.prediction)
    if member.on_own_domain is not member.prediction:
        own = predict(member.on_own_domain)
    functions = tuple(
        replace(each, prediction=with_weights(each.as_member(member), kept).prediction)
        for each in member.functions
    )
    return replace(changed, prediction=prediction, on_own_domain=own, functions=functions)


def errors_of(member: Member) -> tuple[float, ...]:
    """Of the prediction, of that on the member's own domain, and of each unknown function."""
    seen = [member.prediction, member.on_own_domain]
    seen += [each.prediction for each in member.functions]
    return tuple(each.relative_l2_error for each in seen)


def with_errors(member: Member, kept: str, errors: tuple[float, ...]) -> Member:
    """The same on a rank that has no arrays of the member: its errors, from rank 0."""
    return replace(
        member,
        kept=kept,
        **_UNKNOWN,
        prediction=PredictionElsewhere(member.prediction.known, errors[0]),
        on_own_domain=PredictionElsewhere(member.on_own_domain.known, errors[1]),
        functions=tuple(
            each.with_error(error) for each, error in zip(member.functions, errors[2:], strict=True)
        ),
    )
