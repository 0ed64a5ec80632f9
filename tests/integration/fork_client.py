"""Stands for a program that runs in a copy of fork_server.py: starts it, and ends as it ends.

    python -IS fork_client.py SERVER arguments...

runs what `python arguments...` would, with this process's environment, folder and open files, those
by which a launcher speaks to its ranks included. Signals are passed on.
"""

import contextlib
import json
import os
import signal
import socket
import sys


def inherited_descriptors() -> list[int]:
    """Return the files that were open at the start: those of Python are not inheritable."""
    numbers = [int(name) for name in os.listdir("/proc/self/fd")]
    return [number for number in numbers if is_inherited(number)]


def is_inherited(number: int) -> bool:
    try:
        return os.get_inheritable(number)
    except OSError:  # that of the list itself
        return False


def main(server: str, arguments: list[str]) -> None:
    descriptors = inherited_descriptors()
    asked = {
        "arguments": arguments,
        "folder": os.getcwd(),
        "environment": dict(os.environ),
        "descriptors": descriptors,
    }
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.connect(f"\0{server}")
    socket.send_fds(connection, [json.dumps(asked).encode()], descriptors)
    process = int(connection.recv(64))
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
        signal.signal(number, lambda number, _: os.kill(process, number))
    code = int(connection.recv(64))
    if code < 0:
        with contextlib.suppress(OSError):  # nobody can handle SIGKILL
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    sys.exit(code)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
