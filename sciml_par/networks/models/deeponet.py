"""DeepONet: an operator as the product of a network of the input and of one of the point."""

from __future__ import annotations

from typing import Any

from sciml_par._other_names import by_name
from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.networks.layers.quiet_keras import keras


@keras.saving.register_keras_serializable(package="sciml_par")
class DeepONet(keras.Model):
    """u(a, x) = Σ_k b_k(a) t_k(x) + b₀ (Lu et al. 2021, doi:10.1038/s42256-021-00302-5).

    A Keras 3 model of two inputs, for `compile` and `fit((a, x), u)`: values of the input function
    at sensors, a: [B, s], and points x: [B, n, d] for u: [B, n, 1], or [B, d] for u: [B, 1].

    Parameters
    ----------
    branch, trunk : Keras 3 models
        b: [B, s] -> [B, K], and t: [n, d] -> [n, K], with as many outputs.
    name : str, optional
        Name of the Keras model.

    Raises
    ------
    InputError
        One is not a Keras model, or the numbers of outputs differ.

    Examples
    --------
    >>> import numpy as np
    >>> from sciml_par.networks import MLP, DeepONet
    >>> model = DeepONet(branch=MLP(100, 20), trunk=MLP(1, 20))
    >>> model((np.zeros((5, 100), "float32"), np.zeros((5, 64, 1), "float32"))).shape
    TensorShape([5, 64, 1])
    """

    @by_name
    def __init__(self, *, branch: Any, trunk: Any, name: str | None = None) -> None:
        for role, part in (("branch", branch), ("trunk", trunk)):
            if not isinstance(part, keras.Model):
                raise InputError(
                    f"DeepONet: expected {role} to be a Keras model, such as MLP(100, 20); got "
                    f"{type(part).__name__}."
                )
        super().__init__(name=name, dtype=branch.dtype_policy.name)
        self.branch, self.trunk = branch, trunk
        self.bias = self.add_weight(shape=(), initializer="zeros", name="bias")

    def build(self, input_shape: Any) -> None:
        """Build the branch and the trunk for values and points of these shapes."""
        for part, shape in zip((self.branch, self.trunk), input_shape, strict=True):
            if not part.built:
                part.build((None, shape[-1]))
        self.built = True

    def call(self, inputs: tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
        """Return u at the points: ([B, s], [B, n, d]) -> [B, n, 1]."""
        a, x = inputs
        b, t = self.branch(a), self.trunk(tf.reshape(x, [-1, x.shape[-1]]))
        if b.shape[-1] != t.shape[-1]:
            raise InputError(
                f"DeepONet: branch and trunk must have as many outputs; they have {b.shape[-1]} "
                f"and {t.shape[-1]}."
            )
        t = tf.reshape(t, tf.concat([tf.shape(x)[:-1], [t.shape[-1]]], axis=0))
        b = tf.expand_dims(b, 1) if len(x.shape) == 3 else b
        return tf.reduce_sum(b * t, axis=-1, keepdims=True) + self.bias

    def get_config(self) -> dict[str, Any]:
        branch, trunk = map(keras.saving.serialize_keras_object, (self.branch, self.trunk))
        return {"branch": branch, "trunk": trunk, "name": self.name}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> DeepONet:
        parts = {p: keras.saving.deserialize_keras_object(config[p]) for p in ("branch", "trunk")}
        return cls(**parts, name=config["name"])
