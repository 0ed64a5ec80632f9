"""Any optimizer of Keras 3, as the compiled loop needs it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from sciml_par._tensorflow import tf
from sciml_par._text import one_line
from sciml_par.errors import InputError
from sciml_par.networks.layers.quiet_keras import keras
from sciml_par.training.identity.described import key_of, text_of
from sciml_par.training.loss.known import Gradient
from sciml_par.training.loss.parameter_layout import ParameterLayout
from sciml_par.training.optimizers.keras_stateless import PureOptimizer, stateless_class
from sciml_par.training.optimizers.optimizer import At, Batch, Objective, Optimizer
from sciml_par.training.optimizers.schedules import KerasSchedule, is_keras_schedule

Tensor = Any
State = tuple[Tensor, ...]

_ELEMENTWISE = (
    "Adadelta",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "Ftrl",
    "Lion",
    "Nadam",
    "RMSprop",
    "SGD",
    "ScheduleFreeAdamW",
)
_WITH_SCALARS = ("Nadam",)
_EXCLUDED = "_exclude_from_weight_decay_pattern"
# Numbers of no meaning here: losses are not scaled, and a copy is neither built nor named.
_NOT_COPIED = ("name", "built", "loss_scale_factor")
_SIMPLE = (bool, int, float, str, type(None), np.generic)


@dataclass(frozen=True)
class KerasOptimizer(Optimizer):
    """A Keras optimizer with all that it does to an update.

    Clipping, weight decay and what is left out of it, averages of weights, accumulation of
    gradients, schedules of the learning rate: for each member separately, on parameters in their
    shapes and under their names where that matters, as one vector where it does not. `train`
    makes it of what it is given as optimizer.
    """

    kind: Any  # the optimizer's class
    config: Mapping[str, Any]  # what it is made of
    attributes: Mapping[str, Any]  # what has been set since, or is not in its `get_config`

    @classmethod
    def of(cls, optimizer: Any) -> KerasOptimizer:
        """Return a description from which the same optimizer can be made again."""
        kind = type(optimizer)
        config = _config_of(optimizer)
        try:
            copy = kind.from_config(dict(config))
        except Exception as error:  # the constructor may be the user's
            raise InputError(
                f"optimizer: {kind.__name__} cannot be made again from its get_config() "
                f"({one_line(error)}). A custom class needs a get_config with all arguments "
                f"of its constructor."
            ) from error
        attributes = {
            name: value
            for name, value in vars(optimizer).items()
            if name == _EXCLUDED
            or (name[:1] != "_" and name not in _NOT_COPIED and isinstance(value, _SIMPLE))
            if type(value) is not type(vars(copy).get(name)) or value != vars(copy).get(name)
        }
        return cls(kind, config, attributes)

    def describe(self) -> dict[str, str]:
        values = {n: text_of(v) for n, v in self._values().items() if v is not None}
        return {"kind": f"keras {self.kind.__qualname__}"} | dict(sorted(values.items()))

    @property
    def key(self) -> Hashable:
        return (type(self), self.kind, key_of(self._values()))

    def check(self, layout: ParameterLayout, members: int, dtype: Any) -> None:
        """Check that weight decay leaves unknowns of the problem alone."""
        sought = [name.rpartition("/")[2] for name in layout.names[-layout.unknowns :]]
        if not layout.unknowns or not self.config.get("weight_decay"):
            return
        excluded = self._values().get(_EXCLUDED)
        for name in sought:
            if excluded is None or not excluded.search(name):
                pattern = "|".join(f"^{each}$" for each in sought)
                raise InputError(
                    f"train: the weight decay of {self.kind.__name__} would draw the unknown "
                    f"{name!r} away from its value. Call optimizer.exclude_from_weight_decay("
                    f"var_names=[{pattern!r}]) before, or use sciml_par.training.AdamW, which "
                    f"leaves unknowns alone."
                )

    def init(self, objective: Objective, parameters: Tensor) -> State:
        """See `Optimizer`; not within a function that is traced."""
        layout = objective.layout
        if self._rows(parameters):
            return _with_members(self._pure([parameters], ["parameters"]).state, parameters)
        # Separately: some optimizers begin at the values of the parameters.
        members = [self._of_member(layout, row).state for row in tf.unstack(parameters)]
        return tuple(tf.stack(each) for each in zip(*members, strict=True))

    def step(
        self, objective: Objective, parameters: Tensor, state: State, batch: Batch, at: At
    ) -> tuple[Tensor, State, Tensor]:
        here = objective.evaluate(Gradient, parameters, batch)
        layout, done = objective.layout, tf.cast(at.number, tf.int64) - 1
        if self._rows(parameters):
            pure, given = self._as_rows(parameters, state)
            (theta,), new = pure.update([parameters], [here.gradient], given, at.rate_factor, done)
            return theta, _with_members(new, parameters), here.terms
        pure = self._like_member(layout, parameters)

        def one(row: Any) -> Any:
            theta, slope, own, factor = row
            values, new = pure.update(
                self._split(layout, theta), self._split(layout, slope), own, factor[0], done
            )
            return layout.flatten(values), tuple(new)

        rows = (parameters, here.gradient, tuple(state), at.rate_factor)
        return *_for_each_member(one, rows), here.terms

    def finish(self, objective: Objective, parameters: Tensor, state: State) -> Tensor:
        """See `Optimizer`: the averages of the weights with `use_ema`, as Keras' `fit` does."""
        layout = objective.layout
        if self._rows(parameters):
            pure, given = self._as_rows(parameters, state)
            return pure.finish([parameters], given)[0]
        pure = self._like_member(layout, parameters)

        def one(row: Any) -> Any:
            return layout.flatten(pure.finish(self._split(layout, row[0]), row[1]))

        return _for_each_member(one, (parameters, tuple(state)))

    def _values(self) -> dict[str, Any]:
        values = {n: v for n, v in {**self.config, **self.attributes}.items() if n != "name"}
        rate = values.get("learning_rate")
        if is_keras_schedule(rate):
            values["learning_rate"] = KerasSchedule(rate)
        return values

    def _is_elementwise(self) -> bool:
        """Return whether the update of a number depends on no other parameter's gradient."""
        values = self._values()
        by_name = values.get("weight_decay") is not None and values.get(_EXCLUDED) is not None
        known = any(self.kind is getattr(keras.optimizers, n, None) for n in _ELEMENTWISE)
        return known and not by_name and not values.get("clipnorm")

    def _rows(self, parameters: Tensor) -> bool:
        """Return whether all members are one variable to the optimizer, [M, p]."""
        if not self._is_elementwise():
            return False
        common = self.kind.__name__ in _WITH_SCALARS or self._values().get("global_clipnorm")
        return parameters.shape[0] == 1 or not common

    def _split(self, layout: ParameterLayout, row: Tensor) -> list[Tensor]:
        return [row] if self._is_elementwise() else layout.unflatten(row)

    def _of_member(self, layout: ParameterLayout, row: Tensor) -> PureOptimizer:
        names = ["parameters"] if self._is_elementwise() else layout.names
        return self._pure(self._split(layout, row), names)

    def _like_member(self, layout: ParameterLayout, parameters: Tensor) -> PureOptimizer:
        shape, dtype = parameters.shape[1:], parameters.dtype
        return _outside_of_functions(lambda: self._of_member(layout, tf.zeros(shape, dtype)))

    def _as_rows(self, parameters: Tensor, state: State) -> tuple[PureOptimizer, list[Tensor]]:
        """Return the optimizer of all members as one variable, and its state."""
        shape, dtype = parameters.shape, parameters.dtype
        pure = _outside_of_functions(lambda: self._pure([tf.zeros(shape, dtype)], ["parameters"]))
        return pure, [v if v.shape == shape else v[0] for v in state]

    def _pure(self, values: Sequence[Tensor], names: Sequence[str]) -> PureOptimizer:
        optimizer = stateless_class(self.kind).from_config(dict(self.config))
        for name, value in self.attributes.items():
            setattr(optimizer, name, value)
        return PureOptimizer(optimizer, values, names)


def _with_members(state: Sequence[Tensor], parameters: Tensor) -> State:
    """Return a state with an axis for the members also before what all have in common."""
    return tuple(v if len(v.shape) == len(parameters.shape) else v[None] for v in state)


def _for_each_member(function: Callable[[Any], Any], rows: Any) -> Any:
    """Return a function's results for each member's tensors, with an axis for the members."""
    if tf.nest.flatten(rows)[0].shape[0] > 1:
        return tf.vectorized_map(function, rows)
    only = function(tf.nest.map_structure(lambda t: t[0], rows))
    return tf.nest.map_structure(lambda t: t[None], only)


def _outside_of_functions(make: Callable[[], PureOptimizer]) -> PureOptimizer:
    """Make variables while a function is traced, but outside of it; their values are not used.

    TensorFlow allows no variables in a function that is traced again, `tf.init_scope` included.
    The trace belongs to a thread.
    """
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(make).result()


def _config_of(optimizer: Any) -> dict[str, Any]:
    rate = optimizer._learning_rate
    if is_keras_schedule(rate):
        # A schedule need not be one that Keras can save; it is used as it is.
        without = object.__new__(type(optimizer))
        vars(without).update(vars(optimizer), _learning_rate=0.5)
        config = without.get_config() | {"learning_rate": rate}
    else:
        config = optimizer.get_config()
    return {**config, **({"loss_scale_factor": None} if "loss_scale_factor" in config else {})}
