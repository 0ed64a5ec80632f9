"""The signatures that a group remembers."""

from __future__ import annotations

import pytest
import tensorflow as tf

import sciml_par.parallel as sp
from sciml_par.parallel.groups.ledger import Ledger


def test_it_remembers_until_it_is_full():
    ledger = Ledger(most=2)
    for digest in (b"a", b"b"):
        ledger.add(digest)
    assert b"a" in ledger and b"b" in ledger and ledger.generation == 0
    ledger.add(b"c")
    assert b"a" not in ledger and b"c" in ledger
    assert ledger.generation == 1 and len(ledger) == 1


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


@pytest.mark.ranks(least=2, reason="one rank compares nothing")
def test_call_sites_of_all_contexts_share_it(agreements):
    group, compared = agreements

    def total(x):
        return sp.allreduce(x, sp.Sum, name="a", communicator=group)

    compiled = tf.function(total, jit_compile=True)
    for function in (total, tf.function(total), compiled, compiled, tf.function(total)):
        assert function(tf.constant(1.0)).numpy() == sp.size()
    assert compared == ["a"]


@pytest.mark.ranks(least=2, reason="one rank compares nothing")
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
