"""A program that begins as a copy of a process with TensorFlow is as one that Python started."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest
from launch import CAN_FORK, launch, start

pytestmark = [
    pytest.mark.launches,
    pytest.mark.skipif(not CAN_FORK, reason="every program begins as a new process here"),
]

BEGINNING = """
import json, os, signal, sys, threading
json.dump(
    {
        "arguments": sys.argv,
        "name": __name__,
        "path": sys.path,
        "folder": os.getcwd(),
        "environment": dict(os.environ),
        "input": sys.stdin.read(),
        "files": [n for n in range(100) if os.path.exists(f"/proc/self/fd/{n}")],
        "interrupt": str(signal.getsignal(signal.SIGINT)),
        "threads": threading.active_count(),
        "imported": [name for name in ("sciml_par", "mpi4py") if name in sys.modules],
    },
    sys.stdout,
)
"""


def run(program: str, folder: Path, *arguments: str, fresh: bool):
    (folder / "program.py").write_text(program)
    return launch(None, "program.py", *arguments, folder=folder, fresh=fresh)


def test_it_begins_as_a_new_process_does(tmp_path, monkeypatch):
    monkeypatch.setenv("OF_THIS_TEST", "ä = 1\n2")
    fresh, copy = (
        json.loads(run(BEGINNING, tmp_path, "a", "b c", fresh=fresh).succeeded().out)
        for fresh in (True, False)
    )
    assert copy.pop("path")[:2] == fresh.pop("path")[:2]
    assert copy == fresh
    assert copy["environment"]["OF_THIS_TEST"] == "ä = 1\n2"


@pytest.mark.all_after(3)
@pytest.mark.parametrize(
    "end",
    (
        "import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)",
        "import os; os.kill(os.getpid(), 9)",
        "import atexit; atexit.register(print, 'at last'); raise ValueError('no')",
        "import sys; sys.exit('a reason')",
        "import os; os._exit(5)",
        "import os; os.kill(os.getpid(), 15)",
    ),
)
def test_it_ends_as_a_new_process_does(tmp_path, end):
    fresh, copy = (run(end, tmp_path, fresh=fresh) for fresh in (True, False))
    assert (copy.code, copy.out) == (fresh.code, fresh.out)
    assert copy.err.splitlines()[-1:] == fresh.err.splitlines()[-1:]


def test_copies_draw_different_numbers(tmp_path):
    program = "import random, numpy as np; print(random.random(), np.random.random())"
    first, second = (run(program, tmp_path, fresh=False).succeeded().out for _ in range(2))
    assert not set(first.split()) & set(second.split())


@pytest.mark.parametrize("number", (signal.SIGKILL, signal.SIGTERM))
def test_it_ends_with_the_process_that_its_launcher_knows(tmp_path, number):
    (tmp_path / "program.py").write_text(
        "import os, time\n"
        "open('new', 'w').write(str(os.getpid()))\n"
        "os.rename('new', 'process')\n"
        "time.sleep(600)\n"
    )
    started = start(None, "program.py", folder=tmp_path)
    while not (tmp_path / "process").exists():
        time.sleep(0.01)
    process = int((tmp_path / "process").read_text())
    assert process != started.process.pid
    started.process.send_signal(number)
    assert started.end().code == -number
    while is_there(process):
        time.sleep(0.01)


def is_there(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True
