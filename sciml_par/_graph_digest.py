"""Digests of traced graphs: equal where two graphs compute the same of their inputs."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sciml_par._checks import Same

_BYTES = 16
# These name a function of this process, and the graph does not hold what it computes.
_OPAQUE = frozenset(("PyFunc", "PyFuncStateless", "EagerPyFunc", "XlaCallModule", "CustomCall"))
_CUSTOM_GRADIENT = "_gradient_op_type"
# Whose gradients depend on nothing but the tensors that they get.
_OF_PACKAGES = frozenset(("tensorflow", "keras", "sciml_par"))
_NOT_COMPUTED = frozenset(("config_proto", "config", "executor_type", "token", "module"))

Pair = tuple[bytes, bytes]  # digests with exact constants, and with rounded ones


@dataclass(frozen=True)
class GraphDigest:
    """The identity of a traced computation.

    Attributes
    ----------
    text : the same in every process that traces the same computation. Numbers, also those of
        variables that the graph reads, count to single precision, since processors of two kinds
        may round the last bits of a sine differently. What the graph does not hold, as the code
        of a Python function that it calls, does not count.
    key : equal only for graphs that compute exactly the same, also after the variables that they
        read have changed; None if the graph does not hold all that it computes.
    """

    text: str
    key: Hashable | None


def digest_of_graph(graph: Any, inputs: Sequence[Any], outputs: Sequence[Any]) -> GraphDigest:
    """Return the digest of what a graph of TensorFlow computes of its inputs.

    Names do not count, nor does the order of operations that do not depend on each other; types,
    attributes, constants and the bodies of functions do. There is no key where a program's author
    has defined a gradient by `tf.custom_gradient`, which the graph does not hold.
    """
    definition = graph.as_graph_def()
    library = {each.signature.name: each for each in definition.library.function}
    leaves: dict[str, Pair] = {}
    for number, tensor in enumerate(inputs):
        leaves[tensor.op.name] = _twice(f"input {number} {tensor.dtype.name} {tensor.shape}")
    held: list[Same] = []
    complete = True
    variables = {id(variable.handle): variable for variable in graph.variables}
    for outside, inside in graph.captures:
        variable = variables.get(id(outside))
        if variable is not None:
            held.append(Same(variable))
            value = np.asarray(variable)
            _, rounded = _of_array(value)
            name = f"variable {len(held)} {value.dtype} {value.shape}".encode()
            leaves[inside.op.name] = (_hash(name), _hash(name, rounded))
        elif hasattr(outside, "numpy") and outside.dtype.is_numpy_compatible:
            leaves[inside.op.name] = _of_array(outside.numpy())
        else:  # a table, an iterator, a tensor of another graph
            leaves[inside.op.name] = _twice("unknown")
            complete = False
    body = _Body(definition.node, leaves, _Functions(library))
    names = [f"{tensor.op.name}:{tensor.value_index}" for tensor in outputs]
    exact, rounded = body.digest(names)
    known = complete and body.functions.complete
    return GraphDigest(rounded.hex(), (exact, *held) if known else None)


class _Functions:
    """The digests of the functions that a graph calls, each once."""

    def __init__(self, library: Mapping[str, Any]) -> None:
        self._library = library
        self._digests: dict[str, Pair] = {}
        self.complete = True

    def digest(self, name: str) -> Pair:
        if name not in self._digests:
            self._digests[name] = _twice("recursive")
            self._digests[name] = self._of(name)
        return self._digests[name]

    def _of(self, name: str) -> Pair:
        definition = self._library.get(name)
        if definition is None:
            self.complete = False
            return _twice("unknown")
        arguments = definition.signature.input_arg
        leaves = {each.name: _twice(f"argument {k}") for k, each in enumerate(arguments)}
        results = [definition.ret[each.name] for each in definition.signature.output_arg]
        return _Body(definition.node_def, leaves, self).digest(results)


class _Body:
    """The nodes of a graph or of a function, with digests for what has no node there.

    A node's digest is that of its operation, its attributes, and the digests of its inputs.
    """

    def __init__(
        self, nodes: Iterable[Any], leaves: Mapping[str, Pair], functions: _Functions
    ) -> None:
        self._nodes = {node.name: node for node in nodes}
        self._known = dict(leaves)
        self.functions = functions
        # Two draws of random numbers are not one, though they have the same attributes.
        stateful = [name for name, node in self._nodes.items() if _is_stateful(node.op)]
        self._numbers = {name: number for number, name in enumerate(stateful)}

    def digest(self, outputs: Sequence[str]) -> Pair:
        """Return the digest of some outputs, and of all that has effects."""
        names = [*map(_name, outputs), *(name for name in self._numbers if name not in self._known)]
        for name in names:
            self._visit(name)
        places = repr([_place(output) for output in outputs]).encode()
        return _joined([places], [self._known[name] for name in names])

    def _visit(self, name: str) -> None:
        """Find the digest of a node; without recursion, since graphs are deep."""
        waiting, open_nodes = [name], set()
        while waiting:
            name = waiting[-1]
            if name in self._known:
                waiting.pop()
                continue
            node = self._nodes[name]
            missing = [i for i in map(_name, node.input) if i not in self._known]
            if not missing:
                self._known[name] = self._of_node(node)
            elif name in open_nodes:  # it depends on its result, as loops of TensorFlow 1 do
                self.functions.complete = False
                self._known[missing[0]] = _twice("circle")
            else:
                open_nodes.add(name)
                waiting += missing

    def _of_node(self, node: Any) -> Pair:
        inputs = [each for each in node.input if not each.startswith("^")]
        control = [each for each in node.input if each.startswith("^")]
        before, effects = ([self._known[_name(i)] for i in part] for part in (inputs, control))
        places = [_place(each) for each in inputs]
        common = repr((node.op, places, self._numbers.get(node.name), len(control))).encode()
        attributes = [self._of_attribute(name, node) for name in sorted(node.attr)]
        if node.op in _OPAQUE or node.op == "Placeholder":  # an input is known before
            self.functions.complete = False
        if _CUSTOM_GRADIENT in node.attr:
            origin, known = _origin_of_gradient(node.attr[_CUSTOM_GRADIENT].s.decode())
            attributes.append(_twice(origin))
            self.functions.complete &= known
        return _joined([common], [*before, *attributes], effects)

    def _of_attribute(self, name: str, node: Any) -> Pair:
        value = node.attr[name]
        # Those with "_" say how to place and compile, not to compute.
        if name.startswith("_") or name in _NOT_COMPUTED:
            return b"", b""
        called = [value.func] if value.HasField("func") else list(value.list.func)
        if called:
            return _joined([], [self.functions.digest(each.name) for each in called])
        if value.HasField("tensor"):
            from tensorflow import make_ndarray

            return _joined([name.encode()], [_of_array(make_ndarray(value.tensor))])
        return (_hash(name.encode(), value.SerializeToString(deterministic=True)),) * 2


def _of_array(value: Any) -> Pair:
    """Return the digests of an array of numbers or texts; rounded, −0 is 0."""
    array = np.asarray(value)
    form = f"{array.dtype} {array.shape}".encode()
    if array.dtype == object:
        return (_hash(form, repr(array.tolist()).encode()),) * 2
    exact = _hash(form, np.ascontiguousarray(array).tobytes())
    if array.dtype.kind != "f":
        return exact, exact
    single = np.ascontiguousarray(array, np.float32) + np.float32(0)
    return exact, _hash(form, single.tobytes())


def _origin_of_gradient(registered: str) -> tuple[str, bool]:
    """Return where a gradient is defined, and whether it follows from the graph and this."""
    from tensorflow.python.framework import ops

    function: Any = ops.gradient_registry._registry.get(registered, {}).get("type")
    while (inner := _closure(function)) is not None:
        function = inner
    module = getattr(function, "__module__", None) or "unknown"
    known = module.partition(".")[0] in _OF_PACKAGES
    return f"{module} {getattr(function, '__qualname__', '')}", known


def _closure(function: Any) -> Any:
    """Return the gradient that a function of TensorFlow wraps, as it names it, or None."""
    names = getattr(getattr(function, "__code__", None), "co_freevars", ())
    for name in ("tape_grad_fn", "grad_fn"):
        if name in names and "custom_gradient" in function.__module__:
            return function.__closure__[names.index(name)].cell_contents
    return None


def _joined(text: list[bytes], pairs: Sequence[Pair], effects: Sequence[Pair] = ()) -> Pair:
    """Return the digests of a text and of others, of which effects have no order."""
    exact, rounded = (
        _hash(*text, *(pair[k] for pair in pairs), *sorted(pair[k] for pair in effects))
        for k in (0, 1)
    )
    return exact, rounded


def _twice(text: str) -> Pair:
    return (_hash(text.encode()),) * 2


def _name(tensor: str) -> str:
    return tensor.lstrip("^").partition(":")[0]


def _place(tensor: str) -> str:
    """Return which output of its node a tensor is; the first may go without a number."""
    return tensor.partition(":")[2] or "0"


def _is_stateful(operation: str) -> bool:
    from tensorflow.python.framework import op_def_registry

    found = op_def_registry.get(operation)
    # Reading a variable again gives the same, and placeholders hold nothing.
    return found is None or (found.is_stateful and operation != "ReadVariableOp")


def _hash(*parts: bytes) -> bytes:
    """Return a digest of byte strings; where one ends counts."""
    found = hashlib.blake2b(digest_size=_BYTES)
    for part in parts:
        found.update(len(part).to_bytes(8, "little") + part)
    return found.digest()
