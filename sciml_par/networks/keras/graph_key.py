"""A short text that is equal for equal computations: whether two networks are one function."""

from __future__ import annotations

import hashlib
from typing import Any


def digest_of_graph(traced: Any) -> tuple[str, bool]:
    """Return a digest of all operations of a traced function, and whether these are all there is.

    Operations are numbered in the order in which they were made. Names, which Keras gives anew to
    each model, do not count; constants do.
    """
    digest, complete = hashlib.blake2b(digest_size=16), True
    places: dict[str, tuple[int, int]] = {}
    for number, operation in enumerate(traced.graph.get_operations()):
        inputs = [places[tensor.name] for tensor in operation.inputs]
        digest.update(repr((operation.type, inputs)).encode())
        attributes = operation.node_def.attr
        for name in sorted(attributes):
            value = attributes[name]
            if name == "_gradient_op_type" or value.HasField("func") or value.list.func:
                complete = False
            elif not name.startswith("_"):
                digest.update(name.encode() + value.SerializeToString(deterministic=True))
        places |= {tensor.name: (number, k) for k, tensor in enumerate(operation.outputs)}
    digest.update(repr([places[tensor.name] for tensor in traced.outputs]).encode())
    return digest.hexdigest(), complete
