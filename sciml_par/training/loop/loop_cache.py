"""Loops whose programs are kept, so that a second training of the same kind compiles nothing."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from functools import partial
from typing import Any

from sciml_par._compiled_function import release_dropped
from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.parallel.groups.world import current_world
from sciml_par.problems.problem import Problem
from sciml_par.training.loop.loop import Loop, compiles_collectives
from sciml_par.training.loss.known import LinearJacobian, WindowJacobian
from sciml_par.training.loss.objective import StackedObjective, field_of, jacobians_of
from sciml_par.training.loss.window_jacobian import WindowBand
from sciml_par.training.members.stack import Stack
from sciml_par.training.optimizers.optimizer import Optimizer
from sciml_par.training.weights.loss_weights import LossWeights, TermsOfLoss, Weighting

_MOST = 8  # computations; a training may have one for each of its phases, whole and in parts


def loop_for(
    stack: Stack, optimizer: Optimizer, group: Communicator, strategy: LossWeights | None = None
) -> Loop:
    """Return the loop of a stack, with the programs of loops of the same computation before it.

    The key of a computation holds what its terms compute, as they were traced, and all else that
    the loop computes; where it is not known, all is compiled anew.
    """
    optimizer.check(stack.layout, len(stack.numbers), stack.parameters.dtype)
    programs = _programs_of(_key(stack, optimizer, group, strategy))
    windows = optimizer.needs is WindowJacobian
    band = WindowBand.of(stack.problem, stack.network, stack.layout) if windows else None
    # By these parameters the optimizer needs a Jacobian.
    linear = optimizer.needs is LinearJacobian
    differentiated = stack.layout.of_linear() if linear else stack.layout
    objective = StackedObjective(
        partial(field_of, stack.problem, stack.network),
        stack.terms,
        layout=stack.layout,
        members=len(stack.numbers),
        stacked=stack.feed.stacked,
        communicator=group,
        jacobians=jacobians_of(stack.problem, stack.network, differentiated, band),
        rows_of_ranks=stack.feed.rows_of_ranks,
        compile_local=not compiles_collectives(group),
        band=band,
    )
    weighting = None
    if strategy is not None:
        weighting = Weighting(strategy, _problems(stack), objective, stack.feed)
    return Loop(
        objective,
        optimizer,
        stack.feed,
        weighting=weighting,
        programs=programs,
        holds_out=stack.problem.holds_out,
    )


def _key(
    stack: Stack, optimizer: Optimizer, group: Communicator, strategy: LossWeights | None
) -> Hashable | None:
    if stack.key is None:
        return None
    feed: Any = stack.feed
    dtype = str(stack.parameters.dtype)
    members = len(stack.numbers)
    # A step may have been compiled for what the other ranks have as well, and all must agree on
    # whether it was.
    points = (feed.key, feed.stacked, feed.rows_of_ranks)
    weights = strategy and (strategy.key, TermsOfLoss.of(_problems(stack), feed.rows_of_ranks))
    return (stack.key, optimizer.key, points, members, dtype, id(group), weights)


def _problems(stack: Stack) -> list[Problem]:
    return [setup.problem for setup in stack.setups]


def _programs_of(key: Hashable | None) -> dict[Any, Any]:
    """Return what has been compiled of the computation with this key, by function and shapes.

    No program of a training runs meanwhile, so this is where dropped ones are released.
    """
    release_dropped()
    if key is None:
        return {}
    kept: OrderedDict[Hashable, dict[Any, Any]]
    kept = current_world().kept.setdefault("programs", OrderedDict())
    found = kept.setdefault(key, {})
    kept.move_to_end(key)
    if len(kept) > _MOST:
        kept.popitem(last=False)
    return found
