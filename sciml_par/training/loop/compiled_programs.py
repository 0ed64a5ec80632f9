"""The compiled programs of trainings, as many as memory should hold."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

from sciml_par._compiled_function import release_dropped
from sciml_par.parallel.groups.world import current_world

_MOST = 8  # computations; a training may have one for each of its phases, whole and in parts


@dataclass
class Programs:
    """What has been compiled of one computation, and is the same for all trainings of its kind.

    Attributes
    ----------
    functions : of loops, by what they compute and the shapes of their arguments.
    """

    functions: dict[Any, Any] = field(default_factory=dict)


def programs_of(key: Hashable | None) -> Programs:
    """Return what has been compiled of the computation with this key.

    No program of a training runs meanwhile, so this is where dropped ones are released.
    """
    release_dropped()
    if key is None:
        return Programs()
    kept: OrderedDict[Hashable, Programs] = current_world().kept.setdefault(
        "programs", OrderedDict()
    )
    found = kept.setdefault(key, Programs())
    kept.move_to_end(key)
    if len(kept) > _MOST:
        kept.popitem(last=False)
    return found
