"""Ctrl-C at one rank that waits for the others in a collective."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from launch import launch, start

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


@pytest.mark.long_after(1)
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


WAITS_IN_C = """
import os, signal, subprocess, sys, threading, time

os.environ["SCIML_PAR_NATIVE"] = "0"
import sciml_par.parallel as sp

place = sys.argv[1]
if place == "init":
    if (os.environ.get("PMI_RANK") or os.environ["OMPI_COMM_WORLD_RANK"]) == "1":
        time.sleep(600)
    subprocess.Popen(["sh", "-c", "sleep 1; kill -INT $PPID"])
sp.init()
import tensorflow as tf

def loop(x):
    return tf.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, sp.allreduce(x)), [0, x])[1]

function = {
    "eager": sp.allreduce,
    "graph": tf.function(lambda x: sp.allreduce(x)),
    "loop": tf.function(loop, jit_compile=True),
    "barrier": lambda _: sp.barrier(),
}[place]
for _ in range(3):
    function(tf.ones(3))
if sp.rank() == 1:
    time.sleep(600)
threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
function(tf.ones(3))
print("carried on", flush=True)
"""


@pytest.mark.all_after(2)
@pytest.mark.parametrize("place", ("loop", "init", "eager", "graph", "barrier"))
def test_ctrl_c_ends_a_wait_in_c(place: str, tmp_path: Path) -> None:
    """Python handles signals between its instructions; a wait in C has none."""
    program = tmp_path / "program.py"
    program.write_text(WAITS_IN_C)
    ended = start(2, program, place, folder=tmp_path, threads=1).end(seconds=300)
    assert ended.code != 0
    assert "carried on" not in ended.out
    said = "rank 0 of «world» was interrupted (Ctrl-C, SIGINT) while it waited in "
    assert ended.err.count(said) == (place != "init")


WAIT_TOGETHER = """
import os, signal, sys, threading, time
from pathlib import Path

os.environ["SCIML_PAR_NATIVE"] = "0"
import sciml_par.parallel as sp

sp.init()
sp.barrier()
if sp.rank() == 0:
    while True:
        Path("alive").touch()
        time.sleep(0.01)


def interrupt():
    Path("interrupted").touch()
    os.kill(os.getpid(), signal.SIGINT)


if str(sp.rank()) in sys.argv[1]:
    threading.Timer(0.5, interrupt).start()
sp.barrier()
"""


@pytest.mark.all_after(1)
@pytest.mark.parametrize("interrupted", ("123", "3"))
def test_ctrl_c_ends_the_job_within_a_second_and_is_reported_once(
    interrupted: str, tmp_path: Path
) -> None:
    program = tmp_path / "program.py"
    program.write_text(WAIT_TOGETHER)
    ended = start(4, program, interrupted, folder=tmp_path, threads=1).end(seconds=60)
    times = [(tmp_path / name).stat().st_mtime for name in ("interrupted", "alive")]
    assert times[1] - times[0] < 1.0
    assert ended.err.count("was interrupted (Ctrl-C, SIGINT) while it waited in barrier") == 1
    assert f"rank {interrupted[0]} of «world»" in ended.err


ENDED_BY_A_HANDLER = """
import os, signal, sys, threading, time
import sciml_par.parallel as sp

sp.init()
import tensorflow as tf

signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
function = sp.allreduce
if sys.argv[1] == "compiled":
    function = tf.function(lambda x: sp.allreduce(x), jit_compile=True)
for _ in range(3):
    function(tf.ones(3))
if sp.rank() == 1:
    time.sleep(3)
    sys.exit(7)
threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGTERM)).start()
function(tf.ones(3))
print("carried on", flush=True)
"""


@pytest.mark.all_after(1)
@pytest.mark.parametrize("place", ("compiled", "eager"))
def test_a_handler_that_exits(place: str, tmp_path: Path) -> None:
    """As batch systems announce the end of a job: what exits there exits, in a wait as well."""
    program = tmp_path / "program.py"
    program.write_text(ENDED_BY_A_HANDLER)
    ended = launch(2, program, place, folder=tmp_path, threads=1)
    assert ended.code == 7
    assert "carried on" not in ended.out
    assert "Error" not in ended.err


SHOWERED = """
import signal
import sciml_par.parallel as sp
from sciml_par.parallel.execution.host_function import call_on_host

sp.init()
import tensorflow as tf

STEPS, RAISED = 20_000, 200
calls = left = raised = 0


def add_one(arguments, results):
    global calls, left
    results[0][...] = arguments[0] + 1
    calls += 1
    if calls % 100 == 1 and calls % STEPS:  # only in the compiled loop: TensorFlow's own Python
        left = 2  # ends by a segmentation fault now and then where a handler raises


@tf.function(jit_compile=True, autograph=False)
def loop(x):
    step = lambda i, x: (i + 1, *call_on_host(add_one, [x], [(2,)]))
    return tf.while_loop(lambda i, x: i < STEPS, step, [0, x])[1]


def handler(*_):
    global left, raised
    if left:
        left -= 1
        raised += 1
        raise SystemExit(7)


def interrupted(x):
    global left
    try:
        try:
            try:
                loop(x)
            except BaseException as error:
                left = 0
                return type(error).__name__
        except BaseException:  # the second signal has found this program there
            pass
    except BaseException:
        pass


x = tf.zeros(2)
loop(x)
calls = left = 0
signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 0.001, 0.0003)
ends = []
while raised < RAISED:
    ends.append(interrupted(x))
signal.setitimer(signal.ITIMER_REAL, 0)
left = 0
print(raised, ends.count("FailedPreconditionError"), flush=True)
print(loop(x).numpy().tolist())
"""


def test_handlers_that_raise_at_any_instruction(tmp_path: Path) -> None:
    """Nothing of Python's passes through XLA, where it would be a random pointer."""
    program = tmp_path / "program.py"
    program.write_text(SHOWERED)
    ended = launch(None, program, folder=tmp_path, threads=1)
    assert ended.code == 0, ended.err
    assert "callback function" not in ended.err  # which ctypes says of what it lets go
    counts, last = ended.out.splitlines()
    raised, errors = map(int, counts.split())
    assert raised >= 200 and errors >= 5
    assert last == "[20000.0, 20000.0]"
