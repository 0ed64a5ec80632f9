"""Compiled loops, kept so that a second training of the same kind compiles nothing."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from functools import partial
from typing import Any

from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.parallel.groups.world import current_world
from sciml_par.training.loop import Loop, compiles_collectives
from sciml_par.training.objective import StackedObjective, field_of, jacobians_of
from sciml_par.training.optimizers.optimizer import Optimizer
from sciml_par.training.stack import Stack

_MOST = 32


def loop_for(stack: Stack, optimizer: Optimizer, group: Communicator) -> Loop:
    """The loop of this computation that has been used before, or a new one (local).

    TensorFlow compiles a loop again where shapes or types differ from those before. A loop is used
    again only where all that it computes is known to be the same.

    Raises
    ------
    InputError
        The optimizer is not for this many parameters.
    """
    check = getattr(optimizer, "check", None)
    if check is not None:
        check(stack.layout, len(stack.numbers), stack.parameters.dtype)
    key = _key(stack, optimizer, group)
    if key is None:
        return _make(stack, optimizer, group)
    loops: OrderedDict[Hashable, Loop] = current_world().kept.setdefault("loops", OrderedDict())
    if key not in loops:
        loops[key] = _make(stack, optimizer, group)
        if len(loops) > _MOST:
            loops.popitem(last=False)
    loops.move_to_end(key)
    return loops[key]


def _key(stack: Stack, optimizer: Optimizer, group: Communicator) -> Hashable | None:
    if stack.key is None:
        return None
    feed: Any = stack.feed
    dtype = str(stack.parameters.dtype)
    members = len(stack.numbers)
    return (stack.key, optimizer.key, feed.key, feed.stacked, members, dtype, id(group))


def _make(stack: Stack, optimizer: Optimizer, group: Communicator) -> Loop:
    objective = StackedObjective(
        partial(field_of, stack.problem, stack.network),
        stack.terms,
        layout=stack.layout,
        members=len(stack.numbers),
        stacked=stack.feed.stacked,
        communicator=group,
        jacobians=jacobians_of(stack.problem, stack.network, stack.layout),
        compile_local=not compiles_collectives(group),
    )
    return Loop(objective, optimizer, stack.feed, communicator=group)
