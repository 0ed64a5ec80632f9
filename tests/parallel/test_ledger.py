"""The signatures that a group remembers."""

from __future__ import annotations

import pytest
import tensorflow as tf

import sciml_par.parallel as sp

pytestmark = pytest.mark.ranks(least=2, reason="one rank compares nothing")


@pytest.fixture
def agreements(monkeypatch):
    """The signatures that the ranks compare, in a group that remembers three."""
    group = sp.current_world().communicator.split(0)
    monkeypatch.setattr(group.progress.ledger, "_most", 3)
    compared = []
    agree = group.agree

    def noting(signature, number=0):
        compared.append(signature.name)
        return agree(signature, number)

    monkeypatch.setattr(group, "agree", noting)
    yield group, compared
    monkeypatch.undo()
    group.free()


def test_call_sites_of_all_contexts_share_it(agreements):
    group, compared = agreements

    def total(x):
        return sp.allreduce(x, sp.Sum, name="a", communicator=group)

    compiled = tf.function(total, jit_compile=True)
    for function in (total, tf.function(total), compiled, compiled, tf.function(total)):
        assert function(tf.constant(1.0)).numpy() == sp.size()
    assert compared == ["a"]


def test_ranks_forget_together(agreements):
    """After more names than it holds, also a call site that has agreed compares again."""
    group, compared = agreements
    compiled = tf.function(
        lambda x: sp.allreduce(x, sp.Sum, name="a", communicator=group), jit_compile=True
    )
    names = ("b", "c", "d", "e")
    for _ in range(2):
        assert compiled(tf.constant(1.0)).numpy() == sp.size()
        for name in names:
            sp.allreduce(tf.constant(1.0), name=name, communicator=group)
    assert compared == ["a", *names, "a", *names]
