"""Horovod's small helpers, for programs that import them."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from sciml_par.errors import InputError
from sciml_par.horovod.common.arguments import reduction
from sciml_par.horovod.common.basics import HorovodBasics
from sciml_par.parallel import ReduceOp

T = TypeVar("T")

_FRAMEWORKS = frozenset(("tensorflow", "keras"))
_basics = HorovodBasics(__file__)


def check_extension(ext_name: str, ext_env_var: str, pkg_path: str, *args: Any) -> None:
    """Raise `ImportError` for a framework without a facade here."""
    if not extension_available(ext_name.rpartition(".")[2]):
        raise ImportError(
            f"{ext_name}: sciml_par.horovod is for TensorFlow and Keras. Nothing has to be built "
            f"for them, and {ext_env_var} is not read."
        )


def extension_available(ext_base_name: str, verbose: bool = False) -> bool:
    """Return whether a framework, as "tensorflow", has a facade here."""
    return ext_base_name in _FRAMEWORKS


def gpu_available(ext_base_name: str, verbose: bool = False) -> bool:
    """Return whether TensorFlow sees a GPU; False for other frameworks."""
    if not extension_available(ext_base_name):
        return False
    from sciml_par._tensorflow import tf

    return bool(tf.config.list_physical_devices("GPU"))


def _question(name: str) -> Callable[..., Any]:
    """Return the function of this name, with the answer of `HorovodBasics`."""

    def ask(verbose: bool = False) -> Any:
        return getattr(_basics, name)()

    ask.__name__, ask.__doc__ = name, getattr(_basics, name).__doc__
    return ask


mpi_built = _question("mpi_built")
gloo_built = _question("gloo_built")
nccl_built = _question("nccl_built")
ddl_built = _question("ddl_built")
ccl_built = _question("ccl_built")
cuda_built = _question("cuda_built")
rocm_built = _question("rocm_built")


@contextlib.contextmanager
def env(**variables: str) -> Iterator[None]:
    """Set environment variables inside, and restore them afterwards."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def get_average_backwards_compatibility_fun(
    reduce_ops: Any,
) -> Callable[[ReduceOp | None, bool | None], ReduceOp]:
    """Return the function (op, average) ↦ the operation."""
    return reduction


def num_rank_is_power_2(num_rank: int) -> bool:
    """Return whether a number is a power of two."""
    return num_rank > 0 and num_rank.bit_count() == 1


# As `horovod.tensorflow` shows them.
check_num_rank_power_of_2 = num_rank_is_power_2
handle_average_backwards_compatibility = reduction


def split_list(l: Sequence[T], n: int) -> list[Sequence[T]]:  # noqa: E741
    """Return `l` in n parts whose lengths differ by at most one, the longer ones first."""
    each, more = divmod(len(l), n)
    ends = [i * each + min(i, more) for i in range(n + 1)]
    return [l[begin:end] for begin, end in zip(ends, ends[1:], strict=False)]


def is_iterable(x: Any) -> bool:
    """Return whether `x` can be iterated over."""
    try:
        iter(x)
    except TypeError:
        return False
    return True


def check_installed_version(name: str, version: str, exception: Any = None) -> None:
    """Do nothing: sciml_par is not built against a framework's version."""


def is_version_greater_equal_than(ver: str, target: str) -> bool:
    """Return whether `ver` ≥ `target`, by their numbers.

    Raises
    ------
    InputError
        `target` is not of the form "major.minor.patch".
    """
    if not isinstance(ver, str) or not isinstance(target, str) or target.count(".") != 2:
        raise InputError(
            f'expected versions as texts, the second as "major.minor.patch"; got {ver!r} and '
            f"{target!r}."
        )
    return _numbers(ver) >= _numbers(target)


def _numbers(version: str) -> list[int]:
    numbers = [int(text) for text in re.findall(r"\d+", version)[:3]]
    return numbers + [0] * (3 - len(numbers))
