"""A rank's side of the sentinel: start one per host, and tell it how this rank ends."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import shutil
import socket
import stat
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.parallel.supervision import sentinel_process

_LONGEST_PATH = 100
"""The kernel takes no longer name of a socket than about this."""

_SECONDS_TO_LINK = 2.0
_LOOPBACK = "127.0.0.1"
_SOMEWHERE_ELSE = ("10.255.255.255", 9)

_SIOCGIFADDR = 0x8915
"""Linux: ask for an interface's address. See netdevice(7)."""

_ADDRESS_IN_ANSWER = slice(20, 24)


class Sentinel:
    """This rank's connection to the process that watches it.

    Parameters
    ----------
    path : the socket on which the sentinel of this host listens.
    rank : this process's number in the world.
    launcher : the file descriptor of this rank's line to MPICH's launcher, if it has one. The
        launcher ends the job when it closes; the sentinel holds it, so as to be asked first.

    Raises
    ------
    OSError
        Nobody listens there.
    """

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
        """Call `end` from another thread once another rank is lost (local).

        That thread also sees off `starter`, the process that has only started the sentinel.
        """
        threading.Thread(
            target=self._listen, args=(end, starter), name="sciml_par sentinel", daemon=True
        ).start()

    def stop(self) -> None:
        """This rank has done its part; it may go (local)."""
        self._tell("bye")

    def said(self) -> None:
        """This rank ends the job, and why has been told (local)."""
        self._tell("said")

    def _tell(self, line: str) -> None:
        with contextlib.suppress(OSError):
            self._connection.sendall(f"{line}\n".encode())

    def _listen(self, end: Callable[[], None], starter: subprocess.Popen[bytes] | None) -> None:
        if starter is not None:
            # A program that collects its children by itself may have been quicker.
            with contextlib.suppress(Exception):
                starter.wait()
        with contextlib.suppress(OSError):
            if self._connection.recv(16).startswith(b"end"):
                end()


@dataclass(frozen=True)
class Invitation:
    """Where the sentinel of rank 0 awaits those of other hosts, and what they must know.

    Attributes
    ----------
    places : (address, port) of each interface that it listens on.
    """

    places: tuple[tuple[str, int], ...]
    token: str


def start_sentinel(
    everyone: Communicator,
    host: Communicator,
    environment: Mapping[str, str],
    end: Callable[[], None],
) -> Sentinel | None:
    """Have this host's ranks watched by a process of its own (collective).

    Parameters
    ----------
    everyone : the world.
    host : the ranks on this host.
    environment : SCIML_PAR_SENTINEL=0, on any rank, switches it off.
    end : what to do when another rank is lost; it is called from a thread of its own.

    Returns
    -------
    This rank's connection; None for a single rank, or where no such process can be had.
    """
    off = environment.get("SCIML_PAR_SENTINEL", "") == "0"
    places = everyone.control.allgather((off, host.world_ranks[0]))
    if everyone.size == 1 or any(off for off, _ in places):
        return None
    several = len({first for _, first in places}) > 1
    hubs = open_hubs(own_addresses()) if several and everyone.rank == 0 else []
    invitation = everyone.control.bcast(_invite(hubs)) if several else None
    starter, path = None, None
    if host.rank == 0:
        link = _link(invitation) if invitation and everyone.rank > 0 else None
        token = invitation.token if invitation else ""
        starter, path = start_process(everyone.size, hubs=hubs, link=link, token=token)
    path = host.control.bcast(path)
    mine = _connect(path, everyone.rank, _line_to_launcher(environment))
    # Nobody goes on, or ends, before all have met.
    met = everyone.control.allgather(mine is not None)
    if host.rank == 0 and path is not None:
        shutil.rmtree(os.path.dirname(path), ignore_errors=True)
    if mine is None:
        return None
    if not all(met[rank] for rank in host.world_ranks):
        mine.stop()
        return None
    mine.obey(end, starter)
    return mine


def start_process(
    size: int,
    *,
    hubs: Sequence[socket.socket] = (),
    link: socket.socket | None = None,
    token: str = "",
) -> tuple[subprocess.Popen[bytes] | None, str | None]:
    """Start a host's sentinel (local).

    It begins in the background; the process returned is one that only starts it. The sockets
    `hubs` and `link` become the sentinel's own.

    Returns
    -------
    The process, and the path on which it listens; None and None if that cannot be.
    """
    given = [each for each in (*hubs, link) if each is not None]
    try:
        listener, path = _open_listener()
        given.append(listener)
        settings = {
            "size": size,
            "host": socket.gethostname(),
            "listener": listener.fileno(),
            "hubs": [hub.fileno() for hub in hubs],
            "link": link and link.fileno(),
            "token": token,
        }
        return _launch(settings, [each.fileno() for each in given]), path
    except OSError:
        return None, None
    finally:
        for each in given:
            each.close()


def _launch(settings: Mapping[str, object], descriptors: list[int]) -> subprocess.Popen[bytes]:
    # -I and -S: neither the user's modules nor installed packages, so it starts at once.
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", sentinel_process.__file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        pass_fds=descriptors,
        start_new_session=True,
    )
    assert process.stdin is not None
    # The token goes this way because anybody on the host can read a command line.
    process.stdin.write(json.dumps(settings).encode())
    process.stdin.close()
    return process


def _open_listener() -> tuple[socket.socket, str]:
    """A socket that only this user's processes on this host can reach."""
    folder = tempfile.mkdtemp(prefix="sciml_par-")
    if len(folder) > _LONGEST_PATH - len("/ranks"):
        os.rmdir(folder)
        folder = tempfile.mkdtemp(prefix="sciml_par-", dir="/tmp")
    path = str(Path(folder) / "ranks")
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(path)
    listener.listen(4096)
    return listener, path


def own_addresses() -> list[str]:
    """The addresses under which other hosts may reach this one; loopback only without any (local).

    They are what its name stands for, and that of the interface by which it would send; or those
    of all interfaces, where its name is not known and no route leads out of its network.
    """
    found: list[str] = []
    with contextlib.suppress(OSError):
        known = socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET, socket.SOCK_STREAM)
        found += [str(address[0]) for *_, address in known]
    with (
        contextlib.suppress(OSError),
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe,
    ):
        # Nothing is sent: the kernel only chooses the interface by which it would be.
        probe.connect(_SOMEWHERE_ELSE)
        found.append(probe.getsockname()[0])
    return _beyond_this_host(found) or _beyond_this_host(interface_addresses()) or [_LOOPBACK]


def interface_addresses() -> list[str]:
    """The addresses of this host's interfaces (local)."""
    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        for _, name in socket.if_nameindex():
            with contextlib.suppress(OSError):  # it has none
                answer = fcntl.ioctl(asked, _SIOCGIFADDR, struct.pack("256s", name.encode()))
                found.append(socket.inet_ntoa(answer[_ADDRESS_IN_ANSWER]))
    return found


def _beyond_this_host(addresses: Sequence[str]) -> list[str]:
    return [each for each in dict.fromkeys(addresses) if not each.startswith("127.")]


def open_hubs(addresses: Sequence[str]) -> list[socket.socket]:
    """Listen on these addresses alone, as far as they are this host's (local)."""
    hubs = []
    for address in addresses:
        with contextlib.suppress(OSError):
            hubs.append(socket.create_server((address, 0), backlog=4096))
    return hubs


def _invite(hubs: Sequence[socket.socket]) -> Invitation | None:
    if not hubs:
        return None
    places = tuple((hub.getsockname()[0], hub.getsockname()[1]) for hub in hubs)
    return Invitation(places, secrets.token_hex(16))


def _link(invitation: Invitation) -> socket.socket | None:
    """A connection to the sentinel of rank 0, or None: then this host's speaks for itself."""
    for place in invitation.places:
        with contextlib.suppress(OSError):
            return socket.create_connection(place, timeout=_SECONDS_TO_LINK)
    return None


def _connect(path: str | None, rank: int, launcher: int | None) -> Sentinel | None:
    if path is None:
        return None
    with contextlib.suppress(OSError):
        return Sentinel(path, rank, launcher)
    return None


def _line_to_launcher(environment: Mapping[str, str]) -> int | None:
    with contextlib.suppress(OSError, ValueError, KeyError):
        descriptor = int(environment["PMI_FD"])
        if stat.S_ISSOCK(os.fstat(descriptor).st_mode):
            return descriptor
    return None
