"""The sentinel: which rank it names, when it is silent, and what it tells the others.

Ranks and hosts are made up here, as sockets or as small processes. That real ones are named is in
tests/integration/test_killed_ranks.py.
"""

from __future__ import annotations

import errno
import functools
import math
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from sciml_par.errors import InputError
from sciml_par.parallel.startup.options import requested_host_timeout
from sciml_par.parallel.supervision import host_addresses
from sciml_par.parallel.supervision import sentinel_client as sentinel
from sciml_par.parallel.supervision.sentinel_process import launcher, messages, other_hosts, watch
from sciml_par.parallel.supervision.sentinel_process.messages import ending, host_and_ranks
from sciml_par.parallel.supervision.sentinel_process.other_hosts import Neighbours
from sciml_par.parallel.supervision.sentinel_process.peer import keep_asking
from sciml_par.parallel.supervision.sentinel_process.rank_process import RankProcess
from sciml_par.parallel.supervision.sentinel_process.watch import Watch

pytestmark = pytest.mark.ranks(most=1, reason="the ranks are processes of its own")

SIZE = 5
SECONDS = 120.0
"""What takes a process longer to end hangs; on a slow and busy machine many seconds are usual."""
GONE = "is gone: it was killed, or left by os._exit; the exit status is unknown."


class Rank(SimpleNamespace):
    """A made-up rank: the other end of a connection to a `Watch` in this process."""

    def tell(self, line):
        self.connection.sendall(f"{line}\n".encode())

    def hears(self):
        self.connection.settimeout(0.0)
        try:
            return self.connection.recv(100).decode()
        except BlockingIOError:
            return None


@pytest.fixture
def folder():
    """A short path: that of a socket has about 100 characters at the most."""
    with tempfile.TemporaryDirectory(prefix="sciml_par-") as path:
        yield Path(path)


@pytest.fixture
def make_host(folder, monkeypatch):
    """Makes a host with a watch and its made-up ranks; and what the watches write."""
    written = []
    monkeypatch.setattr(messages, "write", written.append)

    def make(numbers, name="here", hubs=(), link=None, pid=0, expected=(), seconds=math.inf):
        listener = socket.socket(socket.AF_UNIX)
        path = str(folder / name)
        listener.bind(path)
        listener.listen()
        ranks = [*numbers]
        neighbours = Neighbours(name, ranks, hubs, link, "secret", expected, seconds)
        watch = Watch(size=SIZE, listener=listener, neighbours=neighbours)
        ranks = {number: Rank(connection=socket.socket(socket.AF_UNIX)) for number in numbers}
        for number, rank in ranks.items():
            rank.connection.connect(path)
            rank.tell(f"rank {number} {pid}")
        settle(watch)
        return SimpleNamespace(watch=watch, ranks=ranks, written=written)

    return make


def settle(*watches):
    """Let the watches take in all there is."""
    while any([watch.look(0.02) for watch in watches]):  # noqa: C419 - every one has a look
        pass


def message(rank, host="here", how=GONE):
    return (
        f"sciml_par: rank {rank} of {SIZE} on {host} (process 0) {how}\nsciml_par: the job ends.\n"
    )


def test_the_rank_that_goes_first_is_named(make_host, order=(3, 0, 1, 4, 2)):
    """All have gone before the sentinel looks, as when the launcher kills the others."""
    host = make_host(range(SIZE))
    for number in order:
        host.ranks[number].connection.close()
    host.watch.run()
    assert host.written == [message(order[0])]


def test_ranks_that_leave_in_order_are_not_named(make_host):
    """At different times, and some only after others have gone."""
    host = make_host(range(SIZE))
    for rank in host.ranks.values():
        rank.tell("bye")
        settle(host.watch)
        assert rank.hears() is None
        rank.connection.close()
    host.watch.run()
    assert host.written == []


def test_a_rank_is_named_although_others_have_left(make_host):
    host = make_host(range(SIZE))
    host.ranks[0].tell("bye")
    host.ranks[0].connection.close()
    host.ranks[1].tell("bye")
    host.ranks[4].connection.close()
    settle(host.watch)
    assert host.written == [message(4)]
    assert host.ranks[1].hears() == "end\n"


def test_a_rank_that_only_closes_its_files_is_not_lost(make_host):
    host = make_host(range(SIZE), pid=os.getpid())
    host.ranks[1].connection.close()
    settle(host.watch)
    assert host.written == []
    assert host.ranks[0].hears() is None


@pytest.fixture
def stubborn():
    """A process that ignores SIGTERM, and must be killed in the test."""
    program = "import signal, time; signal.signal(15, 1); print(flush=True); time.sleep(600)"
    process = subprocess.Popen([sys.executable, "-ISc", program], stdout=subprocess.PIPE)
    process.stdout.readline()
    yield process
    assert process.wait(SECONDS) == -signal.SIGKILL
    process.stdout.close()


@pytest.mark.launches
def test_ranks_that_do_not_heed_are_killed(make_host, stubborn, monkeypatch):
    """Never a process that has got the number of a rank since."""
    monkeypatch.setattr(watch, "_GRACE_SECONDS", 0.05)
    monkeypatch.setattr(watch, "_SECONDS_TO_DIE", 0.05)
    by_number = []
    monkeypatch.setattr(os, "kill", lambda *arguments: by_number.append(arguments))
    host = make_host([0], pid=stubborn.pid)
    host.watch.end_ranks()
    host.watch.run()
    assert by_number == []


@pytest.mark.parametrize("errno_", (errno.ESRCH, errno.ENOSYS))
def test_signals_go_by_number_only_where_there_is_nothing_better(monkeypatch, errno_):
    """A rank that had gone already when the sentinel asked for it gets none."""

    def pidfd_open(pid):
        raise OSError(errno_, "made up")

    sent = []
    monkeypatch.setattr(os, "pidfd_open", pidfd_open)
    monkeypatch.setattr(os, "kill", lambda *arguments: sent.append(arguments))
    process = RankProcess(12345)
    process.send_signal(signal.SIGTERM)
    assert sent == ([(12345, signal.SIGTERM)] if errno_ == errno.ENOSYS else [])
    process.close()


def test_other_hosts_are_awaited_at_the_hosts_own_addresses_only():
    addresses = host_addresses.own_addresses()
    hubs = host_addresses.open_hubs([*addresses, "192.0.2.1"])  # the last is nobody's: RFC 5737
    listening = [hub.getsockname()[0] for hub in hubs]
    for hub in hubs:
        hub.close()
    assert listening and set(listening) <= set(addresses)
    assert not {"0.0.0.0", ""} & set(addresses)
    assert len(addresses) == 1 or not any(each.startswith("127.") for each in addresses)


def test_a_host_without_a_known_name_or_a_route_is_awaited_at_its_interfaces(monkeypatch):
    def unknown(*_):
        raise OSError("made up")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    monkeypatch.setattr(host_addresses, "_SOMEWHERE_ELSE", ("no address", 9))
    mine = [*host_addresses.interface_addresses().values()]
    hubs = host_addresses.open_hubs(mine)
    assert len(hubs) == len(mine) > 0  # they are this host's
    for hub in hubs:
        hub.close()
    assert host_addresses.own_addresses() == ([each for each in mine if each[:4] != "127."] or mine)


@pytest.mark.parametrize("leaves", (True, False))
def test_a_lost_ranks_line_to_the_launcher_stays_open(make_host, leaves):
    """Or the launcher would end the job before the sentinel has, and call it a success."""
    host = make_host([0])
    launcher, line = socket.socketpair()
    connection = host.ranks[0].connection
    socket.send_fds(connection, [b"bye\n" if leaves else b"\n"], [line.fileno()])
    line.close()
    connection.close()
    settle(host.watch)
    launcher.settimeout(0.0)
    if leaves:
        assert launcher.recv(1) == b""
    else:
        with pytest.raises(BlockingIOError):
            launcher.recv(1)


@pytest.fixture
def two_hosts(make_host):
    """Ranks 0 and 1 here, 2 to 4 there, whose sentinel reports to the one here."""
    hub = socket.create_server(("localhost", 0))
    link = socket.create_connection(hub.getsockname())
    other_hosts.introduce(link, "secret", "there", [2, 3, 4])
    here = make_host([0, 1], hubs=[hub], expected=[("there", [2, 3, 4])], seconds=3.0)
    there = make_host([2, 3, 4], name="there", link=link, expected=[("here", [0, 1])], seconds=3.0)
    settle(here.watch, there.watch)
    return SimpleNamespace(here=here, there=there)


@pytest.mark.parametrize("lost", (1, 3))
def test_of_all_hosts_one_sentinel_speaks(two_hosts, lost):
    here, there = two_hosts.here, two_hosts.there
    ranks = {**here.ranks, **there.ranks}
    ranks[lost].connection.close()
    settle(here.watch, there.watch)
    others = [rank for number, rank in ranks.items() if number != lost]
    assert [rank.hears() for rank in others] == ["end\n"] * 4
    for rank in others:
        rank.connection.close()
    settle(here.watch, there.watch)
    assert here.written == [message(lost, "here" if lost == 1 else "there")]
    # The sentinel that holds the lost rank's line to the launcher is the last to go.
    first, last = (there, here) if lost == 1 else (here, there)
    assert not first.watch._is_needed() and last.watch._is_needed()
    first.watch.run()
    last.watch.run()


@pytest.mark.parametrize("speaker", (0, 4))
def test_what_was_said_on_one_host_is_not_said_on_another(two_hosts, speaker):
    here, there = two_hosts.here, two_hosts.there
    {**here.ranks, **there.ranks}[speaker].tell("said")
    settle(here.watch, there.watch)
    for rank in (*here.ranks.values(), *there.ranks.values()):
        rank.connection.close()
    settle(here.watch, there.watch)
    assert here.written == []


def test_without_a_link_every_host_speaks_for_itself(make_host):
    hosts = [make_host([0, 1]), make_host([2, 3, 4], name="there")]
    for host, number in zip(hosts, (1, 4), strict=True):
        host.ranks[number].connection.close()
        settle(host.watch)
    assert hosts[0].written == [message(1), message(4, "there")]


def test_hosts_that_go_in_order_are_not_lost(two_hosts):
    """The one that has done its part, and then the one of rank 0."""
    here, there = two_hosts.here, two_hosts.there
    for host in (there, here):
        for rank in host.ranks.values():
            rank.tell("bye")
            rank.connection.close()
        host.watch.run()
    assert here.written == []


@pytest.mark.parametrize("goes", ("here", "there"))
@pytest.mark.parametrize("how", ("with its host", "alone"))
def test_a_sentinel_that_goes_without_a_word(two_hosts, goes, how):
    """The connection of a host that was lost ends with an error, here a reset."""
    gone, stays = two_hosts.here, two_hosts.there
    if goes == "there":
        gone, stays = stays, gone
    others = gone.watch._others
    for peer in (*others._hosts, *([others._link] if others._link else [])):
        gone.watch._selector.unregister(peer.connection)
        if how == "with its host":
            at_once = struct.pack("ii", 1, 0)
            peer.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
        peer.close()
    settle(stays.watch)
    (said,) = stays.written
    ranks = {"here": "0–1", "there": "2–4"}[goes]
    if how == "alone":
        assert f"warning: the process that watches host {goes} (ranks {ranks}) has" in said
    else:
        assert f"host {goes} (ranks {ranks}) has broken off its connection" in said
    heard = "end\n" if how == "with its host" else None
    assert [rank.hears() for rank in stays.ranks.values()] == [heard] * len(stays.ranks)


def test_hosts_that_cannot_connect_are_named_once(make_host, monkeypatch):
    monkeypatch.setattr(other_hosts, "_SECONDS_TO_REPORT", 0.0)
    hub = socket.create_server(("localhost", 0))
    host = make_host([0], hubs=[hub], expected=[("b", [1]), ("c", [2, 3])], seconds=3.0)
    for _ in range(2):
        host.watch._others.look_at_the_clock()
    (said,) = host.written
    address, port = hub.getsockname()
    assert f"host b (rank 1) and 1 more could not open a TCP connection to {address}:{port}" in said
    assert host.ranks[0].hears() is None


@pytest.mark.parametrize(("first", "wait"), ((True, 21_000), (False, 27_000)))
def test_the_kernel_asks_the_other_host(first, wait):
    with socket.create_server(("localhost", 0)) as server:
        connection = socket.create_connection(server.getsockname())
        keep_asking(connection, 30.0, first=first)
        found = {
            name: connection.getsockopt(socket.IPPROTO_TCP, getattr(socket, name))
            for name in ("TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_USER_TIMEOUT")
        }
        keep_asking(connection, 1e9, first=first)  # the kernel takes it
        connection.close()
    assert found == {"TCP_KEEPIDLE": 3, "TCP_KEEPINTVL": 3, "TCP_USER_TIMEOUT": wait}


def test_the_first_place_that_takes_a_connection_is_used():
    with (
        socket.create_server(("localhost", 0)) as first,
        socket.create_server(("localhost", 0)) as second,
        socket.socket() as nobody,
    ):
        nobody.bind(("localhost", 0))  # and does not listen
        places = [each.getsockname() for each in (nobody, first, second)]
        with host_addresses.connect_to_one_of(places) as connection:
            assert connection.getpeername() == places[1]
        assert host_addresses.connect_to_one_of(places[:1]) is None


def test_the_network_interface_that_the_user_names():
    found = host_addresses.addresses_to_listen_on
    assert found({"SCIML_PAR_INTERFACE": "lo"}) == ["127.0.0.1"]
    assert found({"MPIR_CVAR_NEMESIS_TCP_NETWORK_IFACE": "lo"}) == ["127.0.0.1"]
    assert found({"MPIR_CVAR_NEMESIS_TCP_NETWORK_IFACE": "ib7"}) == host_addresses.own_addresses()
    assert found({"OMPI_MCA_btl_tcp_if_include": "10.0.0.0/8,lo"}) == ["127.0.0.1"]
    with pytest.raises(InputError, match="SCIML_PAR_INTERFACE: .*; got 'ib7'"):
        found({"SCIML_PAR_INTERFACE": "ib7"})


def test_how_long_a_host_may_be_silent():
    assert requested_host_timeout({}, None) == 30.0
    assert requested_host_timeout({"SCIML_PAR_HOST_TIMEOUT": "6"}, None) == 6.0
    assert requested_host_timeout({"SCIML_PAR_HOST_TIMEOUT": "6"}, math.inf) == math.inf
    for given in (2.0, math.nan):
        with pytest.raises(InputError, match="init: host_timeout: .* ≥ 5; got"):
            requested_host_timeout({}, given)


def test_the_launcher_is_found_among_what_has_started_a_rank(tmp_path):
    chain = {
        9: ("python (x)", 8),
        8: ("hydra_pmi_proxy", 7),
        7: ("mpirun", 6),
        6: ("bash", 5),
        5: ("mpirun", 1),
        # Open MPI 5: `mpirun` has become prterun; on another host prted has made two of itself.
        24: ("python", 23),
        23: ("prterun", 6),
        34: ("python", 33),
        33: ("prted", 32),
        32: ("prted", 31),
        31: ("sshd", 1),
        44: ("python", 43),
        43: ("run.sh", 8),
        54: ("python", 53),
        53: ("run.sh", 33),
    }
    for pid, (command, parent) in chain.items():
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "stat").write_text(f"{pid} ({command}) S {parent} 1")
    assert launcher.launchers_of(9, tmp_path) == [8, 7]
    assert launcher.launchers_of(6, tmp_path) == [5]
    assert launcher.launchers_of(10, tmp_path) == []
    assert launcher.launchers_of(24, tmp_path) == [23]
    assert launcher.launchers_of(34, tmp_path) == [33, 32]
    # A shell between a rank and the launcher, and `mpirun` on this host or not.
    wrapped = {pid: launcher.starter_of_wrapped(pid, tmp_path) for pid in (9, 24, 34, 44, 54, 60)}
    assert wrapped == {9: None, 24: None, 34: None, 44: 7, 54: None, 60: None}


@pytest.mark.launches
def test_a_launcher_that_waits_for_a_lost_host_is_ended(stubborn, monkeypatch):
    monkeypatch.setattr(launcher, "_SECONDS_TO_END", 0.05)
    monkeypatch.setattr(launcher, "_SECONDS_TO_DIE", 0.05)
    launcher.end_launchers([RankProcess(stubborn.pid)])


def test_hosts_in_words():
    assert host_and_ranks("a", [2]) == "host a (rank 2)"
    assert host_and_ranks("a", [3, 0, 1, 6, 7]) == "host a (ranks 0–1, 3, 6–7)"


def test_a_stranger_is_not_believed(make_host):
    hub = socket.create_server(("localhost", 0))
    host = make_host([0, 1], hubs=[hub])
    for lines in (b"host guess\n", b'gone "rank 1 is gone"\n', b"said\n"):
        stranger = socket.create_connection(hub.getsockname())
        stranger.sendall(lines)
        settle(host.watch)
        stranger.settimeout(5.0)
        assert stranger.recv(10) == b""
    assert host.written == []
    host.ranks[0].connection.close()
    settle(host.watch)
    assert host.written == [message(0)]


def test_how_a_process_ended():
    assert ending(signal.SIGSEGV | 0x80, 0) == "was killed by signal 11 (SIGSEGV)."
    assert ending(signal.SIGKILL, 0) == "was killed by signal 9 (SIGKILL)."
    assert "killed 2 process(es) of this host for lack of memory" in ending(signal.SIGKILL, 2)
    assert "memory" not in ending(signal.SIGSEGV, 2)
    assert "the launcher or the scheduler" in ending(signal.SIGTERM, 0)
    assert "exit code 3 " in ending(3 << 8, 0)


PROGRAM = """
import os, sys, time
from sciml_par.parallel.supervision.sentinel_client import Sentinel

sentinel = Sentinel(sys.argv[1], int(sys.argv[2]))
sentinel.obey(lambda: (os.write(1, b"end\\n"), os._exit(1)), None)
print("ready", flush=True)
for line in sys.stdin:
    exec(line)
"""


@pytest.fixture
def processes(monkeypatch):
    """Three processes and a sentinel; its standard error ends when it has gone."""
    monkeypatch.setattr(
        sentinel.subprocess, "Popen", functools.partial(subprocess.Popen, stderr=subprocess.PIPE)
    )
    starter, path = sentinel.start_process(3, Neighbours(socket.gethostname(), [0, 1, 2]))
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM, path, str(number)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(3)
    ]
    for rank in ranks:
        assert rank.stdout.readline() == "ready\n"
    yield SimpleNamespace(starter=starter, ranks=ranks)
    for rank in ranks:
        rank.kill()
        rank.communicate()
    starter.wait()
    starter.stderr.close()
    os.remove(path)
    os.rmdir(os.path.dirname(path))


def do(rank, line):
    rank.stdin.write(line + "\n")
    rank.stdin.flush()


def said_at_the_end(processes):
    """What the sentinel has said by the time it ends."""
    said = []
    reader = threading.Thread(target=lambda: said.append(processes.starter.stderr.read().decode()))
    reader.daemon = True
    reader.start()
    reader.join(SECONDS)
    assert said, "the sentinel is still there"
    return said[0]


BY_C = "import ctypes; print(ctypes.CDLL(None).fork() or time.sleep(600), flush=True); os._exit(7)"
"""A child that Python does not hear of holds what it was given; nobody must wait for it."""


@pytest.mark.launches
def test_a_process_is_named_with_its_end(processes):
    """This process has not asked for their ends yet, so the kernel still shows them."""
    victim = processes.ranks[1]
    do(victim, BY_C)
    said = said_at_the_end(processes)
    host = socket.gethostname()
    assert said.startswith(
        f"sciml_par: rank 1 of 3 on {host} (process {victim.pid}) left with exit code 7"
    )
    assert said.count("sciml_par:") == 2
    assert [processes.ranks[rank].stdout.readline() for rank in (0, 2)] == ["end\n"] * 2
    os.kill(int(victim.stdout.readline()), signal.SIGKILL)


@pytest.mark.launches
def test_a_process_whose_parent_was_quicker():
    """Only a new Linux still knows; none invents an end."""
    process = subprocess.Popen(
        [sys.executable, "-ISc", "import os; input(); os._exit(7)"], stdin=-1
    )
    watched = RankProcess(process.pid)
    assert watched.wait_status() == -1
    process.communicate(b"\n")
    assert watched.wait_status() in (None, 7 << 8)
    watched.close()
