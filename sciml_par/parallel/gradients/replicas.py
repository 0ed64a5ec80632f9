"""Compare the ranks' copies of a model, which stay equal only if all ranks update them alike.

Ranks apply equal gradients. A forgotten broadcast, another learning rate or `set_weights` on one
rank therefore stops nothing, and the copies drift apart without a sign. So each set of variables
whose gradients are reduced is compared from time to time: by three sums for each variable, which
every rank gets of all ranks in one short allreduce.
"""

from __future__ import annotations

import gc
import hashlib
import os
import sys
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._tensorflow import tf
from sciml_par._text import counted, rank_list, ranks_by
from sciml_par.errors import InputError
from sciml_par.parallel.collectives.one_tensor import allreduce
from sciml_par.parallel.execution.autograph import not_converted
from sciml_par.parallel.execution.dispatch import in_python
from sciml_par.parallel.execution.graph_lifetime import hidden_variable
from sciml_par.parallel.execution.host_function import call_on_host
from sciml_par.parallel.execution.vectorized import convert_to_nothing
from sciml_par.parallel.execution.xla_custom_call import bridge, in_compiled_function
from sciml_par.parallel.gradients.optimizer_state import backend_of, raw_learning_rate
from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.parallel.groups.world import current_world
from sciml_par.parallel.requests.reduce_op import Sum

FIRST_COMPARED = 8
"""The first reduction with a comparison. Programs broadcast their weights after the first step,
which may update a critic several times."""

INTERVAL = 64
"""Reductions between comparisons; before this number they take place at each power of two."""

_EPSILON = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10}
_REMEDY = (
    "Broadcast the weights before the training, and give the same optimizer, learning rate, "
    "callbacks and files to every rank."
)

Array = npt.NDArray[Any]


def compare_when_due(
    variables: Sequence[Any], optimizer: Any, group: Communicator | None
) -> list[Any]:
    """Count a reduction of gradients by `variables`; compare them if it is due (collective).

    Returns the operations for which the next collective of a graph must wait.
    """
    group = group or current_world().communicator
    shared = comparable(variables)
    if group.size == 1 or not shared or os.environ.get("SCIML_PAR_REPLICAS", "") == "0":
        return []
    counter, first = _counter(shared, group), optimizer is not None
    if tf.executing_eagerly():
        count = int(counter.assign_add(1))
        if _is_due(count, first):
            compare(shared, optimizer, group, early=count < FIRST_COMPARED)
        return []
    if not tf.compat.v1.executing_eagerly_outside_functions():
        return []  # a graph of TensorFlow 1
    count = counter.assign_add(1, read_value=True)
    verdict = tf.cond(
        _is_due(count, first),
        lambda: tf.cast(
            compare(shared, optimizer, group, early=count < FIRST_COMPARED), tf.float32
        ),
        lambda: tf.zeros([], tf.float32),
    )
    operations = [condition.op for condition in verdict.op.inputs]
    if in_compiled_function():  # XLA keeps the order of collectives by a variable
        operations.append(tf.raw_ops.AssignAddVariableOp(resource=bridge().order(), value=verdict))
    for operation in operations:  # tf.vectorized_map does not compare
        convert_to_nothing(operation)
    return [verdict.op]


@not_converted
def compare(
    variables: Sequence[Any],
    optimizer: Any,
    group: Communicator,
    *,
    early: Any = False,
    when: str = "",
) -> Any:
    """Raise a `CollectiveMismatchError` on all ranks if theirs differ (collective).

    Parameters
    ----------
    variables : the same on all ranks, up to rounding.
    optimizer : one with the same settings on all ranks, or None.
    early : whether the weights may still differ.
    when : the occasion, which must be the same on all ranks.

    Returns
    -------
    A zero, which a compiled graph must use.
    """
    wide = any(backend_of(each).dtype == tf.float64 for each in variables)
    kind = tf.float64 if wide else tf.float32
    tensors = [tf.stop_gradient(tf.cast(backend_of(each), kind)) for each in variables]
    settings = settings_of(optimizer)
    about = [_number(settings), _rate(optimizer, early), early]
    header = tf.stack([tf.cast(tf.convert_to_tensor(each), kind) for each in about])
    rows = tf.stack([header, *map(_sums, tensors)])
    # Each rank's rows are in its place; a rank that has joined has none.
    shapes = [[n, *rows.shape] for n in (group.rank, group.size - 1 - group.rank)]
    before, after = (tf.zeros(shape, kind) for shape in shapes)
    name = f"comparison of the weights{when}"
    ranks = allreduce(
        tf.concat([before, rows[None], after], axis=0), Sum, name=name, communicator=group
    )
    judge = _Judge(variables, settings, group)
    if tf.executing_eagerly():
        return judge.check(ranks.numpy())
    if in_compiled_function():
        return call_on_host(judge.check_on_host, [ranks], [()])[0]
    check, zero = lambda array: [judge.check(array)], tf.TensorSpec([], tf.float64)
    return in_python(tf.numpy_function, check, [ranks], [zero], lambda operation: None)[0]


def settings_of(optimizer: Any) -> dict[str, str]:
    """Return the settings that do not change in the training, as texts."""
    if optimizer is None:
        return {}
    settings = {"class": type(optimizer).__name__}
    try:
        with tf.init_scope():
            config = optimizer.get_config()
    except Exception:  # of the program's class
        return settings
    return settings | dict(_flat(config))


def _flat(config: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for name, value in config.items():
        # Keras numbers the names, and callbacks set rates, which are compared as they are.
        changes = name == "learning_rate" and not isinstance(value, Mapping)
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        elif name != "name" and not changes:
            plain = isinstance(value, bool | int | float | str | None)
            yield f"{prefix}{name}", repr(value) if plain else type(value).__name__


def _number(settings: Mapping[str, str]) -> int:
    """Return a positive number that is exact in float32, and that differs for other settings."""
    text = repr(sorted(settings.items())).encode()
    return 1 + int.from_bytes(hashlib.blake2b(text, digest_size=2).digest(), "little")


def _rate(optimizer: Any, early: Any) -> Any:
    """Return the learning rate; NaN for a function, whose calls may count, and early if restored.

    The rank that continues from a file broadcasts its rate after the first step.
    """
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    rate = None if inner is None else raw_learning_rate(inner)
    if callable(rate):
        rate = rate(inner.iterations) if hasattr(rate, "get_config") else None
    if rate is None:
        return np.nan
    continued = early & (tf.convert_to_tensor(inner.iterations) > 0)
    return tf.where(continued, np.nan, tf.cast(tf.convert_to_tensor(rate), tf.float32))


def _is_due(count: Any, first: bool) -> Any:
    """Return whether reduction `count`, an integer or a tensor, has a comparison."""
    doubled = (count & (count - 1)) == 0
    due = (count >= FIRST_COMPARED) & ((doubled & (count < INTERVAL)) | (count % INTERVAL == 0))
    return due | (count == 1) if first else due


def comparable(variables: Sequence[Any]) -> list[Any]:
    """Return the variables of real numbers among `variables`, which may be tensors."""
    backends = [(each, backend_of(each)) for each in variables]
    return [
        each
        for each, inner in backends
        if isinstance(inner, tf.Variable)
        and inner.dtype.is_floating
        and inner.shape.is_fully_defined()
    ]


def _sums(x: Any) -> Any:
    """Return the sum of squares, the sum, and the sum of the first half of all elements."""
    flat = tf.reshape(x, [-1])
    parts = (flat * flat, flat, flat[: flat.shape[0] // 2])
    return tf.stack([tf.reduce_sum(part) for part in parts])


def _counter(variables: Sequence[Any], group: Communicator) -> Any:
    """Return the number of reductions by these variables, a variable that lives as they do."""
    counters: dict[Any, Any] = current_world().kept.setdefault("reductions by variables", {})
    key = (group.identity, *map(id, variables))
    if key not in counters:
        # Variables do not know their layer.
        names = {(getattr(v, "path", None) or v.name).rpartition("/")[2] for v in variables}
        if not names.isdisjoint(("gamma", "beta", "gamma:0", "beta:0")):
            refuse_local_layers(gc.get_objects(), variables)
        # TensorFlow keeps a GPU's int32 in host memory, where XLA cannot use it.
        counters[key] = hidden_variable(0, tf.int64, "sciml_par_reductions")
        for each in variables:  # another variable may get the identity of one that is gone
            weakref.finalize(each, counters.pop, key, None).atexit = False
    return counters[key]


def refuse_local_layers(objects: Iterable[Any], trained: Sequence[Any] | None = None) -> None:
    """Raise `InputError` for a layer that averages over replicas, which ranks are not.

    With `trained`, only layers with one of these variables count.
    """
    packages = [sys.modules[name] for name in ("keras", "tf_keras") if name in sys.modules]
    kinds = tuple(package.layers.BatchNormalization for package in packages)
    ids = {id(backend_of(variable)) for variable in trained or ()}
    for layer in objects:
        if (
            issubclass(type(layer), kinds)  # isinstance would wake lazy modules
            and getattr(layer, "synchronized", False)
            and not hasattr(layer, "averages_over_ranks")
            and (trained is None or any(id(backend_of(v)) in ids for v in layer.weights))
        ):
            raise InputError(
                f"The layer «{layer.name}» is a BatchNormalization(synchronized=True), which "
                f"knows the replicas of tf.distribute, but no ranks. Use SyncBatchNormalization "
                f"of sciml_par.horovod.tensorflow."
            )


class _Judge:
    """Finds the differences in what the ranks have sent."""

    def __init__(
        self, variables: Sequence[Any], settings: Mapping[str, str], group: Communicator
    ) -> None:
        self._group, self._settings = group, settings
        self._names = [getattr(each, "path", None) or each.name for each in variables]
        backends = [backend_of(each) for each in variables]
        self._sizes = np.array([each.shape.num_elements() for each in backends], np.float64)
        self._rounding = np.sqrt([_EPSILON.get(each.dtype.name, 2.0**-7) for each in backends])

    def check(self, rows: Array) -> np.float64:
        """Return 0, or raise the error if the ranks' rows, [P, 1 + variables, 3], differ."""
        fault = self._fault(np.asarray(rows, np.float64))
        if fault is not None:
            raise self._group.mismatch_error(fault)
        return np.float64(0)

    def check_on_host(self, arguments: Sequence[Array], results: Sequence[Array]) -> None:
        """Check XLA's memory."""
        results[0][...] = self.check(arguments[0])

    def _fault(self, rows: Array) -> str | None:
        numbers, rates, early = rows[:, 0].T
        present = np.flatnonzero(numbers)
        if (numbers[present] != numbers[present[0]]).any():
            settings = self._group.allgather_object(self._settings)
            names = dict.fromkeys(name for each in settings for name in each)
            texts = {name: [each.get(name, "none") for each in settings] for name in names}
            name = next((name for name in names if len(set(texts[name])) > 1), "class")
            what = f"settings of the optimizer: {name}"
            return self._of_ranks(what, dict(enumerate(texts[name])))
        told = present[np.isfinite(rates[present])]
        if told.size and not np.allclose(rates[told], rates[told[0]], 1e-5, 0):
            return self._of_ranks("learning rates", {int(r): f"{rates[r]:g}" for r in told})
        return None if early.any() else self._fault_of_weights(rows, present)

    def _of_ranks(self, what: str, texts: Mapping[int, str]) -> str:
        lines = [
            f"  {rank_list(ranks)}: {text}\n" for text, ranks in ranks_by(texts.items()).items()
        ]
        return f"{self._begin} different {what}\n{''.join(lines)}{_REMEDY}"

    @property
    def _begin(self) -> str:
        return f"The ranks of «{self._group.name}» train with"

    def _fault_of_weights(self, rows: Array, present: Array) -> str | None:
        first = int(present[0])
        with np.errstate(all="ignore"):
            ones, twos = rows[first, 1:].copy(), rows[present, 1:].copy()
            ones[:, 0], twos[:, :, 0] = np.sqrt(ones[:, 0]), np.sqrt(twos[:, :, 0])
            equal = (twos == ones) | (np.isnan(twos) & np.isnan(ones))
            moved = np.where(equal, 0.0, np.abs(twos - ones))  # norms and sums
        moved, norms = np.where(np.isfinite(moved), moved, np.finfo(np.float64).max), ones[:, 0]
        rms = np.sqrt(np.nansum(norms**2) / self._sizes.sum())
        limit = self._rounding * np.fmax(norms, np.sqrt(self._sizes) * rms)
        # A sum over random differences is about as long as their vector.
        excess = moved.max(axis=2) / np.maximum(np.nan_to_num(limit, posinf=0.0), 1e-300)
        far = excess > 1
        if not far.any():
            return None
        place, worst = np.unravel_index(np.argmax(excess), excess.shape)
        size = self._sizes[worst]
        least = (moved[place, worst] / np.sqrt([1.0, size, max(size // 2, 1.0)])).max()
        ranks = rank_list(present[far.any(axis=1)].tolist())
        return (
            f"{self._begin} different weights: {ranks} and rank {first} differ in "
            f"{np.count_nonzero(far.any(axis=0))} of {counted(len(self._names), 'variable')}. The "
            f"difference in {self._names[worst]} between rank {present[place]} and rank {first} is "
            f"at least {least:.1e}, where the norm is {norms[worst]:.1e}. {_REMEDY}"
        )
