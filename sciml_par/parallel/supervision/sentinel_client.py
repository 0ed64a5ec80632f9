"""Start a sentinel per host, and report to it how this rank ends."""

from __future__ import annotations

import contextlib
import json
import math
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.parallel.supervision import sentinel_process
from sciml_par.parallel.supervision.forked_child import socket_of_the_launcher
from sciml_par.parallel.supervision.host_addresses import (
    Place,
    addresses_to_listen_on,
    connect_to_one_of,
    open_hubs,
)
from sciml_par.parallel.supervision.sentinel_process.other_hosts import Neighbours, introduce
from sciml_par.parallel.supervision.sentinel_process.peer import Peer

_LONGEST_PATH = 100
"""About the longest name of a socket that the kernel accepts."""

_PROGRAM = "import sys; sys.path.append({folder!r}); from {package}.watch import main; main()"
"""Imports the sentinel without the packages around it, which is faster."""


class Sentinel:
    """This rank's connection to the process that watches it."""

    def __init__(self, path: str, rank: int, launcher: int | None = None) -> None:
        self._connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._connection.connect(path)
            hello = f"rank {rank} {os.getpid()}\n".encode()
            socket.send_fds(self._connection, [hello], [] if launcher is None else [launcher])
        except OSError:
            self._connection.close()
            raise
        # A child process that held the connection would hide this rank's end.
        os.register_at_fork(after_in_child=self._connection.close)

    def obey(self, end: Callable[[], None], starter: subprocess.Popen[bytes] | None) -> None:
        """Call `end` from another thread when another rank is lost."""

        def listen() -> None:
            if starter is not None:
                # A program that collects its children by itself may have been quicker.
                with contextlib.suppress(Exception):
                    starter.wait()
            with contextlib.suppress(OSError):
                if self._connection.recv(16).startswith(b"end"):
                    end()

        threading.Thread(target=listen, name="sciml_par sentinel", daemon=True).start()

    def stop(self) -> None:
        """Report that this rank ends in order."""
        Peer(self._connection).tell("bye")

    def said(self) -> None:
        """Report that this rank ends the job and has given the reason."""
        Peer(self._connection).tell("said")


Host = tuple[str, list[int]]
"""The name of a host, and its ranks in the world."""


@dataclass(frozen=True)
class Invitation:
    """The sentinel of rank 0 as other hosts' sentinels must know it; the best place is first."""

    places: tuple[Place, ...]
    token: str
    host: Host
    seconds: float


def start_sentinel(
    everyone: Communicator,
    host: Communicator,
    environment: Mapping[str, str],
    end: Callable[[], None],
    *,
    host_timeout: float = math.inf,
) -> Sentinel | None:
    """Start the process that watches this host's ranks (collective)."""
    off = environment.get("SCIML_PAR_SENTINEL", "") == "0"
    mine = (socket.gethostname(), host.world_ranks) if host.rank == 0 else None
    told = everyone.control.allgather((off, mine))
    if everyone.size == 1 or any(off for off, _ in told):
        return None
    hosts: list[Host] = [each for _, each in told if each is not None]
    hubs: list[socket.socket] = []
    invitation = None
    if len(hosts) > 1:

        def invite() -> Invitation:
            hubs.extend(open_hubs(addresses_to_listen_on(environment)))
            places = tuple((hub.getsockname()[0], hub.getsockname()[1]) for hub in hubs)
            return Invitation(places, secrets.token_hex(16), hosts[0], host_timeout)

        invitation = everyone.on_root(invite)
    starter, path = None, None
    if host.rank == 0:
        starter, path = start_process(
            everyone.size, _neighbours(hosts, everyone.rank, invitation, hubs)
        )
    path = host.control.bcast(path)
    connection = None
    if path is not None:
        with contextlib.suppress(OSError):
            connection = Sentinel(path, everyone.rank, socket_of_the_launcher(environment))
    # No rank continues, or ends, before all have met.
    met = everyone.control.allgather(connection is not None)
    if host.rank == 0 and path is not None:
        shutil.rmtree(os.path.dirname(path), ignore_errors=True)
    if connection is None:
        return None
    if not all(met[rank] for rank in host.world_ranks):
        connection.stop()
        return None
    connection.obey(end, starter)
    return connection


def _neighbours(
    hosts: Sequence[Host], rank: int, invitation: Invitation | None, hubs: Sequence[socket.socket]
) -> Neighbours:
    """Return the neighbours of this host's sentinel (on its first rank)."""
    name, ranks = next(host for host in hosts if host[1][0] == rank)
    if invitation is None:
        return Neighbours(name, ranks)
    if rank == 0:
        link, expected = None, hosts[1:]
    else:
        link, expected = connect_to_one_of(invitation.places), [invitation.host]
        if link is not None:
            introduce(link, invitation.token, name, ranks)
    return Neighbours(
        host=name,
        ranks=ranks,
        hubs=hubs,
        link=link,
        token=invitation.token,
        expected=expected,
        seconds=invitation.seconds,
    )


def start_process(
    size: int, neighbours: Neighbours
) -> tuple[subprocess.Popen[bytes] | None, str | None]:
    """Start a host's sentinel."""
    given = [each for each in (*neighbours.hubs, neighbours.link) if each is not None]
    try:
        listener, path = _open_listener()
        given.append(listener)
        settings = {
            **vars(neighbours),
            "size": size,
            "listener": listener.fileno(),
            "hubs": [hub.fileno() for hub in neighbours.hubs],
            "link": neighbours.link and neighbours.link.fileno(),
        }
        return _launch(settings, [each.fileno() for each in given]), path
    except OSError:
        return None, None
    finally:
        for each in given:
            each.close()


def _launch(settings: Mapping[str, object], descriptors: list[int]) -> subprocess.Popen[bytes]:
    # -I and -S: neither the user's modules nor installed packages, so it starts at once.
    package = Path(sentinel_process.__file__).parent
    program = _PROGRAM.format(folder=str(package.parent), package=package.name)
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        pass_fds=descriptors,
        start_new_session=True,
    )
    assert process.stdin is not None
    # Not in the command line, which every user of the host can read: it has the token.
    process.stdin.write(json.dumps(settings).encode())
    process.stdin.close()
    return process


def _open_listener() -> tuple[socket.socket, str]:
    """Return a socket that only this user's processes on this host can reach."""
    folder = tempfile.mkdtemp(prefix="sciml_par-")
    if len(folder) > _LONGEST_PATH - len("/ranks"):
        os.rmdir(folder)
        folder = tempfile.mkdtemp(prefix="sciml_par-", dir="/tmp")
    path = str(Path(folder) / "ranks")
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(path)
    listener.listen(4096)
    return listener, path
