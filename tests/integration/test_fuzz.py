"""What is public takes its arguments, or refuses them with a sentence: a few of fuzz.py's calls."""

from __future__ import annotations

import sys

import pytest
from launch import ROOT

sys.path.append(str(ROOT / "benchmarks"))

import fuzz

pytestmark = [
    pytest.mark.long,
    pytest.mark.ranks(most=1, reason="ranks would draw the same, and take part in nothing"),
]

EXAMPLES = 250


def test_calls_and_command_lines():
    report = fuzz.fuzz(EXAMPLES, seed=1, without=("trained",))
    assert not report.wrong, report.wrong
    assert report.total["taken"] > 50 and report.total["refused"] > 50 and report.total["exit"] > 10


def test_it_finds_what_it_looks_for(tmp_path):
    """A call that raises what is not of the package, one that says nothing, one that hangs."""
    from sciml_par.errors import InputError

    def bad(kind):
        raise {"type": TypeError("no"), "silent": InputError(""), "exit": SystemExit(2)}[kind]

    report = fuzz.Report()
    for kind in ("type", "silent", "exit"):
        fuzz.call(fuzz.Target("bad", bad, None), ([kind], {}), report)
    assert report.ended["bad"] == {"wrong": 2, "exit": 1}
    assert any("TypeError" in place for place in report.wrong)


def test_a_call_that_does_not_come_back_is_wrong(monkeypatch):
    monkeypatch.setattr(fuzz, "SECONDS", 1)
    report = fuzz.Report()

    def hang():
        while True:
            pass

    fuzz.call(fuzz.Target("hang", hang, None), ([], {}), report)
    assert any("TooLong" in place for place in report.wrong)


def test_what_is_overwritten_is_wrong(tmp_path, monkeypatch):
    import _fuzz_programs

    from sciml_par import programs

    there = tmp_path / "there"
    there.mkdir()
    (there / "file").write_text("text")
    options = programs.TrainingOptions
    target = _fuzz_programs._target("p", lambda: (there / "file").write_text("x"), options, there)
    report = fuzz.Report()
    fuzz.call(target, ([[]], {}), report)
    assert any("what was there is not as it was" in place for place in report.wrong)
