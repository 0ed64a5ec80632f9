"""Members and results as a training makes them, without the training."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

import sciml_par.parallel as sp
from sciml_par.evaluation import Prediction, Shard
from sciml_par.networks import MLP
from sciml_par.problems import Box
from sciml_par.results import Member, RankContribution, Result, Weights
from sciml_par.results.stored.keras_models import flat_weights
from sciml_par.results.trained_field import FieldForm, TrainedField, field_with, form_of

STEPS = 25


def wave(number: int, domain: Box, *, known: bool = True, points: int = 11) -> Prediction:
    """sin (number+1)πx₁ on a grid, and a prediction a little above it."""
    x = domain.grid(points)
    exact = np.sin((number + 1) * np.pi * x[:, :1])
    return Prediction(
        "prediction", x, exact + 0.01, exact if known else np.full_like(exact, np.nan)
    )


def contribution(rank: int, domain: Box, points: int = 9) -> RankContribution:
    shard = Shard(f"rank {rank}", domain.grid(points), (domain.lower, domain.upper))
    return RankContribution(
        rank=rank, points=points, shard=shard, seconds_compile=2.0, seconds_train=0.5 + rank
    )


def make_member(number: int, *, rank: int = 0, domain: Box | None = None, **changes: Any) -> Member:
    """Member `number`, which finished; `changes` are other attributes than those below."""
    domain = domain or Box([-1.0], [1.0])
    prediction = changes.get("prediction", wave(number, domain))
    losses = np.asarray(changes.get("losses", np.array([1.0, 0.5, 0.3, 0.25]) / (number + 1)))
    given: dict[str, Any] = {
        "problem": f"poisson, k = {number + 1}",
        "seed": 100 + number,
        "steps": STEPS,
        "steps_asked": STEPS,
        "ended": "all steps",
        "loss": losses[-1],
        "best_loss": losses.min(),
        "best_step": STEPS,
        "kept": "best",
        "loss_steps": np.array([0, 10, 20, STEPS]),
        "losses": losses,
        "terms": ("residual", "dirichlet"),
        "term_losses": np.outer(losses, [0.75, 0.25]),
        "times_brought_together": 0,
        "largest_drift": 0.0,
        "stacked_with": (0, 1, 2, 3),
        "prediction": prediction,
        "on_own_domain": prediction,
        "weights": Weights(np.array([number, 0.5]), np.array([number, 1.5])),
        "architecture": "by hand",
        "contributions": (contribution(rank, domain),),
    }
    return Member(number=number, rank=rank, **{**given, **changes})


def tiny(seed: int, *, width: int = 4, dtype: str = "float32") -> MLP:
    return MLP(1, 1, width=width, depth=1, seed=seed, dtype=dtype)


def trained(number: int, *, width: int = 4, dtype: str = "float32", **changes: Any) -> Member:
    """A member that predicts what a network does, whose best and last weights differ."""
    model, later = (tiny(seed, width=width, dtype=dtype) for seed in (number, 100 + number))
    best, last = flat_weights(model), flat_weights(later)
    kept = model if changes.get("kept", "best") == "best" else later
    x = Box([-1.0], [1.0]).grid(11)
    u = kept(x.astype(dtype)).numpy().astype(np.float64)
    prediction = Prediction("prediction", x, u, np.sin(x))
    return make_member(
        number,
        **{
            "prediction": prediction,
            "on_own_domain": prediction,
            "weights": Weights(best, last),
            "architecture": f"width {width}, {dtype}",
            "field": field_of(width, dtype),
            **changes,
        },
    )


@cache
def field_of(width: int = 4, dtype: str = "float32") -> TrainedField:
    """That of the members above; its model has weights of its own."""
    return field_of_model(tiny(77, width=width, dtype=dtype), dtype=dtype)


def field_of_model(model: Any, problem: Any = None, *, dtype: str = "float32") -> TrainedField:
    """That of a model, with what a problem makes of it."""
    form = FieldForm() if problem is None else form_of(problem, dtype)
    return field_with(lambda: model, form, problem, d=1, outputs=("u",), dtype=dtype, otherwise="")


def of_this_process(*members: Member) -> Result:
    """A result without ranks."""
    return Result("ensemble", members, [])


def ended(number: int, *, rank: int = 0, **changes: Any) -> Member:
    """A member whose loss was not finite after step 7."""
    given = {
        "ended": "not finite",
        "steps": 7,
        "best_step": 6,
        "loss_steps": np.array([0, 6]),
        "losses": np.array([1, 0.4]),
    }
    return make_member(number, rank=rank, **{**given, **changes})


def never_finite(number: int, *, rank: int = 0) -> Member:
    """A member whose loss was not finite at its initial weights."""
    nothing = {"loss": np.nan, "best_loss": np.inf, "losses": np.array([np.nan])}
    return ended(number, rank=rank, steps=0, best_step=0, loss_steps=np.array([0]), **nothing)


def diverged(number: int, *, rank: int = 0) -> Member:
    """A member whose loss ended far above its best."""
    return make_member(number, rank=rank, loss=5e3)


def ensemble(*members: Member) -> Result:
    """Two members on each of two ranks, or those given."""
    whole = members or tuple(make_member(number, rank=number // 2) for number in range(4))
    return Result("ensemble", whole, [], sp.current_world().communicator)


def one_model(ranks: int = 3, **changes: Any) -> Result:
    """One model, trained by some ranks together."""
    parts = Box([-1.0], [1.0]).split(ranks)
    contributions = tuple(contribution(rank, part) for rank, part in enumerate(parts))
    member = make_member(0, contributions=contributions, **changes)
    return Result("data", (member,), [], sp.current_world().communicator)
