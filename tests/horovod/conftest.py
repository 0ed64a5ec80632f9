"""The tests here run as programs of Horovod's do: after its own `init`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import sciml_par.horovod.tensorflow as hvd
from sciml_par.parallel import current_world


@pytest.fixture(scope="package", autouse=True)
def initialized() -> Iterator[None]:
    """`hvd.init()`, which the tests of other packages do not expect."""
    family = current_world().communicator.all_groups
    before = [(group, group.check_always, group.mismatch_error) for group in family]
    hvd.init()
    yield
    for group, always, error in before:
        group.check_always, group.mismatch_error = always, error
