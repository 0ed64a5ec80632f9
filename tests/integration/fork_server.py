"""Run programs in processes with TensorFlow imported.

Importing TensorFlow takes a process some four seconds of computing, and the tests start hundreds of
them. This server imports it once. For every program it makes a copy of itself, by a fork, which
becomes a process as Python would have started it: with the arguments, the environment, the folder
and the open files of the client that asked for it (see fork_client.py), which may be a rank under
mpirun. MPI is initialised, sciml_par imported and the devices are chosen in the copy alone.

A fork copies one thread only. That is safe here, because the import of TensorFlow starts none
(its threads come with the first operation), which is checked before the first program.

    python fork_server.py LISTENING_SOCKET     (its number; the end of standard input ends all)
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import runpy
import selectors
import signal
import socket
import sys
from dataclasses import dataclass
from typing import Any, NoReturn

PREPARED = (
    "numpy",
    "scipy.optimize",
    "tensorflow",
    "keras",
    "matplotlib.figure",
    "matplotlib.backends.backend_agg",
)
"""What is slow to import, and behaves as if imported later. Never sciml_par: it is under test."""


@dataclass(frozen=True)
class Program:
    """What a client asks for.

    Attributes
    ----------
    arguments : as given to `python`: a file or `-m module`, and what follows.
    folder, environment : of the client.
    descriptors : the client's open files, each as its number there and its number here.
    """

    arguments: list[str]
    folder: str
    environment: dict[str, str]
    descriptors: dict[int, int]


class Server:
    """Makes a process for every client, and tells the client how it has ended."""

    def __init__(self, listener: socket.socket) -> None:
        self._selector = selectors.DefaultSelector()
        self._selector.register(listener, selectors.EVENT_READ, self._accept)
        self._selector.register(sys.stdin.fileno(), selectors.EVENT_READ, self._leave)
        self._processes: dict[socket.socket, int] = {}

    def serve(self) -> Program:
        """Return in the processes made for the programs only."""
        while True:
            # One at a time, as it may make the others void.
            (key, _), *_ = self._selector.select()
            program = key.data(key.fileobj)
            if program is not None:
                return program

    def _accept(self, listener: socket.socket) -> None:
        connection, _ = listener.accept()
        self._selector.register(connection, selectors.EVENT_READ, self._start)

    def _start(self, connection: socket.socket) -> Program | None:
        program = _receive(connection)
        if program is None:
            self._forget(connection)
            return None
        process = os.fork()
        if process == 0:
            self._close()
            return program
        for here in program.descriptors.values():
            os.close(here)
        connection.send(str(process).encode())
        self._processes[connection] = process
        self._selector.modify(connection, selectors.EVENT_READ, self._kill)
        end = os.pidfd_open(process)
        self._selector.register(end, selectors.EVENT_READ, lambda _: self._tell(connection, end))
        return None

    def _kill(self, connection: socket.socket) -> None:
        """Kill the program of a client that its launcher has killed."""
        os.kill(self._processes[connection], signal.SIGKILL)
        self._selector.unregister(connection)

    def _tell(self, connection: socket.socket, end: int) -> None:
        _, status = os.waitpid(self._processes.pop(connection), 0)
        self._selector.unregister(end)
        os.close(end)
        with contextlib.suppress(BrokenPipeError):
            connection.send(str(os.waitstatus_to_exitcode(status)).encode())
        self._forget(connection)

    def _forget(self, connection: socket.socket) -> None:
        if connection in self._selector.get_map():
            self._selector.unregister(connection)
        connection.close()

    def _leave(self, _: int) -> NoReturn:
        for process in self._processes.values():
            os.kill(process, signal.SIGKILL)
        os._exit(0)

    def _close(self) -> None:
        """Close the server's sockets in the new process."""
        for key in list(self._selector.get_map().values()):
            if isinstance(key.fileobj, socket.socket):
                key.fileobj.close()
            elif key.fd != sys.stdin.fileno():
                os.close(key.fd)
        self._selector.close()


def _receive(connection: socket.socket) -> Program | None:
    """Return the client's request; None if the client has ended."""
    message, here, *_ = socket.recv_fds(connection, 1 << 20, 64)
    if not message:
        return None
    asked: dict[str, Any] = json.loads(message)
    there = asked.pop("descriptors")
    return Program(**asked, descriptors=dict(zip(there, here, strict=True)))


def become(program: Program) -> None:
    """Give this process what Python would have started the program with."""
    _take_over(program.descriptors)
    os.chdir(program.folder)
    os.environ.clear()
    os.environ.update(program.environment)
    # All copies would draw the same numbers. Python seeds its own generator anew by itself.
    importlib.import_module("numpy").random.seed()


def _take_over(descriptors: dict[int, int]) -> None:
    above = 1 + max(*descriptors, *descriptors.values())
    for there, here in list(descriptors.items()):
        # Out of the way first, of the numbers that they are to have.
        descriptors[there] = os.dup2(here, above + there)
        os.close(here)
    for there, here in descriptors.items():
        os.dup2(here, there)
        os.close(here)


def run(arguments: list[str]) -> None:
    """Run a program as `python arguments...` does."""
    if arguments[0] == "-m":
        sys.argv[:] = arguments[1:]
        sys.path[0] = os.getcwd()
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv[:] = arguments
        sys.path[0] = os.path.dirname(os.path.abspath(arguments[0]))
        runpy.run_path(arguments[0], run_name="__main__")


def prepare() -> None:
    """Import the slow packages."""
    for name in PREPARED:
        importlib.import_module(name)
    # Or the garbage collector of every copy would look through, and so copy, all of this memory.
    gc.collect()
    gc.freeze()
    threads = len(os.listdir("/proc/self/task"))
    if threads > 1:
        sys.exit(f"fork_server.py: expected one thread after the imports, got {threads}")


if __name__ == "__main__":
    prepare()
    PROGRAM = Server(socket.socket(fileno=int(sys.argv[1]))).serve()
    become(PROGRAM)
    run(PROGRAM.arguments)
