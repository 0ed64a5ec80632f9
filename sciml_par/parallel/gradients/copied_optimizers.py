"""Copies of distributed optimizers by their configuration, which reduce gradients as well.

Keras copies an optimizer by `get_config` and the plain class's `from_config`: in `copy.deepcopy` of
a model, `clone_model`, `compile_from_config`, `deserialize` and `load_model`. A distributed one
writes the digest of its options behind its name, which a plain optimizer accepts: so a file needs
no sciml_par, and `from_config` finds the options in the program that has made the optimizer.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from sciml_par.parallel.groups.world import present_world

_MARK = ".distributed-"
_LOCAL = "-local"
_KNOWN = "options of distributed optimizers"
_ACTS_ON_MARK = "acts_on_the_mark"

Options = dict[str, Any]
Distribute = Callable[[Any, Options], Any]
"""Makes a plain optimizer a distributed one."""


def plain_name(name: str) -> str:
    """Return an optimizer's name without the mark of a distributed one."""
    return name.partition(_MARK)[0]


def is_marked(optimizer: Any) -> bool:
    """Return whether a plain optimizer is the copy of a distributed one with unknown options."""
    plain = not hasattr(optimizer, "register_local_var")
    return plain and _MARK in str(getattr(optimizer, "name", ""))


def marked_config(config: dict[str, Any], options: Options) -> dict[str, Any]:
    """Return a configuration with the mark; from now on `from_config` knows the options."""
    if "name" not in config:  # a LossScaleOptimizer of Keras 2
        return config
    reduction, world = options["_reduction"], present_world()
    general, group = reduction.without_variables(), reduction.communicator
    everyone = group is None or (world is not None and group is world.communicator)
    settings = {"_reduction": replace(general, communicator=None)}
    ranks = None if everyone else group.world_ranks
    digest = hashlib.sha256(repr((options | settings, ranks)).encode()).hexdigest()[:8]
    if world is not None:
        world.kept.setdefault(_KNOWN, {})[digest] = options | {"_reduction": general}
    name = plain_name(config["name"])
    return config | {"name": f"{name}{_MARK}{digest}{_LOCAL if reduction.local else ''}"}


def keep_copies_distributed(plain: type, distribute: Distribute) -> None:
    """Let `from_config` of a class of optimizers make copies of distributed ones distributed."""
    owner: Any = next(base for base in plain.__mro__ if "from_config" in vars(base))
    original = vars(owner)["from_config"].__func__
    if hasattr(original, _ACTS_ON_MARK):
        return

    def from_config(cls: Any, config: Mapping[str, Any], *args: Any, **kwargs: Any) -> Any:
        name, mark, digest = str(config.get("name")).partition(_MARK)
        world = present_world()
        known = {} if world is None else world.kept.get(_KNOWN, {})
        options = known.get(digest.removesuffix(_LOCAL)) if mark else None
        if options is None:
            return original(cls, config, *args, **kwargs)
        copy = original(cls, {**config, "name": name}, *args, **kwargs)
        if not hasattr(copy, "register_local_var"):
            copy = distribute(copy, options)
        copy._local_unknown = digest.endswith(_LOCAL) and not copy._reduction.local
        return copy

    setattr(from_config, _ACTS_ON_MARK, True)
    owner.from_config = classmethod(from_config)
