"""Objects of Python between ranks: what pickle cannot write is one error on all of them."""

from __future__ import annotations

import threading

import pytest
import tensorflow as tf

import sciml_par.parallel as sp
from sciml_par.errors import InputError


def group():
    return sp.current_world().communicator


def test_broadcast_of_what_pickle_cannot_write():
    """The root knows; the others wait for it."""
    root = sp.size() - 1
    value = threading.Lock() if sp.rank() == root else None
    with pytest.raises(InputError, match=rf"got an object of type lock \(.*\) on rank {root}\."):
        group().broadcast_object(value, root=root)
    assert group().broadcast_object(sp.rank(), root=root) == root


def test_what_only_the_root_gives_counts():
    unused = sp.rank() if sp.rank() == 0 else threading.Lock()
    assert group().broadcast_object(unused) == 0


def test_allgather_of_what_pickle_cannot_write():
    value = threading.Lock() if sp.rank() == 0 else sp.rank()
    with pytest.raises(InputError, match="expected objects that pickle can write; got an object o"):
        group().allgather_object(value)
    assert group().allgather_object(sp.rank()) == list(range(sp.size()))


def test_on_root_with_a_result_that_pickle_cannot_write():
    with pytest.raises(InputError, match="got an object of type tuple"):
        group().on_root(lambda: lambda: None)


@pytest.mark.parametrize(
    ("name", "arguments"),
    (
        ("barrier", ()),
        ("allgather_object", (1,)),
        ("broadcast_object", (1,)),
        ("attempt", (sp.rank,)),
        ("on_root", (sp.rank,)),
        ("split", (0,)),
        ("subset", ([0],)),
    ),
)
def test_autograph_leaves_it_alone(name, arguments, caplog):
    """It would find no source of what MPI's functions do, and say so."""
    exchange = getattr(group(), name)

    def exchanged(x):
        exchange(*arguments)
        return x

    with caplog.at_level("WARNING", "tensorflow"):
        tf.get_logger().addHandler(caplog.handler)
        try:
            tf.map_fn(exchanged, tf.zeros([2]))
            tf.function(exchanged)(0.0)
        finally:
            tf.get_logger().removeHandler(caplog.handler)
    assert "could not transform" not in caplog.text
