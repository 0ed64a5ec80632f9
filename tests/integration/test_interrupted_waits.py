"""Ctrl-C at one rank that waits for the others in a collective."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from launch import launch

pytestmark = [
    pytest.mark.launches,
    pytest.mark.skipif(shutil.which("mpirun") is None, reason="there is no mpirun on PATH"),
]

PROGRAM = """
import os, signal, sys, threading, time
import sciml_par.parallel as sp

sp.init()
import tensorflow as tf

function = sp.allreduce
if sys.argv[1] == "compiled":
    function = tf.function(lambda x: sp.allreduce(x), jit_compile=True)
for _ in range(3):
    function(tf.ones(3))
if sp.rank() == 1:
    time.sleep(60)
threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
began = time.monotonic()
try:
    function(tf.ones(3))
except BaseException as error:
    text = str(error).partition(" [Op")[0]
    print(f"{type(error).__name__}: {text} ({time.monotonic() - began < 40})", flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ("eager", "KeyboardInterrupt: "),
        # TensorFlow has no class for it, and what a signal raises while it makes an error is lost.
        ("compiled", "FailedPreconditionError: "),
    ],
)
def test_a_wait_ends(place: str, expected: str, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    ended = launch(2, program, place, folder=tmp_path, threads=1)
    (told,) = [line for line in ended.out.splitlines() if line.endswith("(True)")]
    assert told.startswith(expected)
    assert place == "eager" or "KeyboardInterrupt" in told or "Ctrl-C (SIGINT) has ended" in told
    assert ended.code != 0
