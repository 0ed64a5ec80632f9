"""The addresses by which the hosts of a job reach each other."""

from __future__ import annotations

import contextlib
import fcntl
import socket
import struct
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from sciml_par.errors import InputError

Place = tuple[str, int]
"""An address and a port."""

_INTERFACE = "SCIML_PAR_INTERFACE"
_LAUNCHERS_INTERFACE = ("MPIR_CVAR_NEMESIS_TCP_NETWORK_IFACE", "OMPI_MCA_btl_tcp_if_include")
"""Set by MPICH's `mpirun -iface` and Open MPI's `mpirun --mca btl_tcp_if_include`."""

_SECONDS_TO_CONNECT = 2.0
_LOOPBACK = "127.0.0.1"
_SOMEWHERE_ELSE = ("10.255.255.255", 9)

_SIOCGIFADDR = 0x8915
"""Linux: ask for an interface's address. See netdevice(7)."""

_ADDRESS_IN_ANSWER = slice(20, 24)


def addresses_to_listen_on(environment: Mapping[str, str]) -> list[str]:
    """Return the addresses at which this host awaits the others, the best first."""
    asked = [name.strip() for name in environment.get(_INTERFACE, "").split(",") if name.strip()]
    there = interface_addresses()
    for name in asked:
        if name not in there:
            raise InputError(
                f"{_INTERFACE}: expected a network interface of {socket.gethostname()} that has an "
                f"IPv4 address ({', '.join(there)}); got {name!r}."
            )
    if asked:
        return [there[name] for name in asked]
    # Open MPI takes several, and networks such as 10.0.0.0/8 as well, which are passed over here.
    told = [name for each in _LAUNCHERS_INTERFACE for name in environment.get(each, "").split(",")]
    return [there[name.strip()] for name in told if name.strip() in there] or own_addresses()


def own_addresses() -> list[str]:
    """Return the addresses by which other hosts may reach this one, or else loopback.

    They are those of its name and of the interface to other networks. If neither is known, they
    are those of all interfaces.
    """
    found: list[str] = []
    with contextlib.suppress(OSError):
        known = socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET, socket.SOCK_STREAM)
        found += [str(address[0]) for *_, address in known]
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        # Nothing is sent: the kernel only chooses the interface by which it would be.
        probe.connect(_SOMEWHERE_ELSE)
        found.append(probe.getsockname()[0])
    return (
        _beyond_this_host(found)
        or _beyond_this_host([*interface_addresses().values()])
        or [_LOOPBACK]
    )


def interface_addresses() -> dict[str, str]:
    """Return the IPv4 addresses of this host's interfaces, by their names."""
    found = {}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        for _, name in socket.if_nameindex():
            with contextlib.suppress(OSError):  # it has none
                answer = fcntl.ioctl(asked, _SIOCGIFADDR, struct.pack("256s", name.encode()))
                found[name] = socket.inet_ntoa(answer[_ADDRESS_IN_ANSWER])
    return found


def _beyond_this_host(addresses: Sequence[str]) -> list[str]:
    return [each for each in dict.fromkeys(addresses) if not each.startswith("127.")]


def open_hubs(addresses: Sequence[str]) -> list[socket.socket]:
    """Listen on those of the addresses that are this host's."""
    hubs = []
    for address in addresses:
        with contextlib.suppress(OSError):
            hubs.append(socket.create_server((address, 0), backlog=4096))
    return hubs


def connect_to_one_of(places: Sequence[Place]) -> socket.socket | None:
    """Return a connection to the first place that accepts it within two seconds, or None.

    All are tried at once, since a firewall may drop packets without an answer.
    """

    def attempt(place: Place) -> socket.socket | None:
        with contextlib.suppress(OSError):
            return socket.create_connection(place, _SECONDS_TO_CONNECT)
        return None

    pool = ThreadPoolExecutor(max(1, len(places)))
    attempts = [pool.submit(attempt, place) for place in places]
    best = next(filter(None, (each.result() for each in attempts)), None)

    def close(other: Future[socket.socket | None]) -> None:
        connection = other.result()
        if connection is not None and connection is not best:
            connection.close()

    for each in attempts:
        each.add_done_callback(close)
    pool.shutdown(wait=False)
    if best is not None:
        best.setblocking(True)
    return best
