"""Horovod's exceptions, for programs that catch them, and sciml_par's errors of the same kinds."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from sciml_par.errors import InputError


class HorovodInternalError(RuntimeError):
    """In Horovod, a collective that fails because a rank is gone.

    Never raised here: if a rank is gone, the job ends with a message that names it.
    """


class HostsUpdatedInterrupt(RuntimeError):
    """In Horovod, the news that hosts have come or gone. Never raised here.

    Parameters
    ----------
    skip_sync : whether the ranks' states are already equal.
    """

    def __init__(self, skip_sync: bool) -> None:
        super().__init__()
        self.skip_sync = skip_sync


def get_version_mismatch_message(name: str, version: str, installed_version: str) -> str:
    """Return a message about a framework that Horovod was built with in another version."""
    return (
        f"Built with {name} {version}, but {name} {installed_version} is installed. sciml_par is "
        f"not built against {name}: install the version that you want."
    )


class HorovodVersionMismatchError(ImportError):
    """In Horovod, a framework of another version than it was built with. Never raised here."""

    def __init__(self, name: str, version: str, installed_version: str) -> None:
        super().__init__(get_version_mismatch_message(name, version, installed_version))
        self.name = name
        self.version = version
        self.installed_version = installed_version


class UnsupportedError(InputError, NotImplementedError):
    """A reduction that does not exist for tensors of this kind."""


class NeedsGraphError(InputError, RuntimeError):
    """A function for graphs, called where TensorFlow executes eagerly."""


@contextlib.contextmanager
def invalid_arguments() -> Iterator[None]:
    """Turn an `InputError` into one that is a `tf.errors.InvalidArgumentError` as well."""
    try:
        yield
    except InputError as error:
        from sciml_par.horovod.common.tensorflow_errors import InvalidInputError

        raise InvalidInputError(str(error)) from None
