"""Tensors and splits that a collective cannot take, as TensorFlow's kind of error."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from sciml_par.errors import InputError


@contextlib.contextmanager
def invalid_arguments() -> Iterator[None]:
    """Let an `InputError` be a `tf.errors.InvalidArgumentError` as well."""
    try:
        yield
    except InputError as error:
        from sciml_par.horovod.common.tensorflow_errors import InvalidInputError

        raise InvalidInputError(str(error)) from None
