"""Hosts for tests: network namespaces of this machine, which MPI's launcher takes for hosts.

Each has a name of its own and an address at its end of a pair of virtual interfaces. They share
files and processes with this machine, so that a test sees what is left of a job on both.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from launch import SECONDS, Ended, Started, environment

_NETWORK = "10.77.31"
_CLOCKS_APART = 5000
"""How many seconds the second host's clock is ahead of the first one's."""

_BY_TCP = {
    "UCX_TLS": "tcp",
    "UCX_NET_DEVICES": "link0",
    "OMPI_MCA_pml": "ob1",
    "OMPI_MCA_btl": "self,sm,tcp",
    "OMPI_MCA_btl_tcp_if_include": "link0",
}
"""Or MPICH's network layer finds that it is on one machine, and goes by memory past the link. Open
MPI takes no other host's memory, but tries all networks that it knows."""

_SECONDS_TO_COME_UP = 10.0

_NAMES = ("hosta", "hostb")

_MPIS = {"MPICH": "HYDRA", "Open MPI": "mpirun (Open MPI) 5."}
"""What their launchers write about themselves."""


_WARNS_OF_ITSELF = re.compile(r"\[\w+:\d+\] plm:ssh: Warning: setpgid\(.*\n")
"""Open MPI's launcher, where the `ssh` that it has started is quicker than itself."""


class _StartedOnHosts(Started):
    """A program at work; what it has said is without what the launcher warns of by itself."""

    def end(self, seconds: float = SECONDS) -> Ended:
        ended = super().end(seconds)
        return Ended(ended.code, ended.out, _WARNS_OF_ITSELF.sub("", ended.err))


class Hosts:
    """Two hosts and the link between them.

    Attributes
    ----------
    mpi : that of the launcher, "MPICH" or "Open MPI".
    names : what each calls itself.
    addresses : one of each.
    """

    def __init__(self, folder: Path, mpi: str) -> None:
        self.mpi = mpi
        self.names = _NAMES
        self.addresses = [f"{_NETWORK}.{1 + number}" for number in range(len(_NAMES))]
        self._spaces = [f"sciml{os.getpid()}-{name}" for name in _NAMES]
        self._folder = folder
        apart = subprocess.run(["unshare", "--time", "true"], capture_output=True, check=False)
        self._own_clocks = apart.returncode == 0

    def make(self) -> None:
        """Make them; raises `CalledProcessError` where the kernel forbids it."""
        remove_what_killed_runs_have_left()
        one, other = self._spaces
        _do(f"ip netns add {one}")
        _do(f"ip netns add {other}")
        _do(f"ip link add link0 netns {one} type veth peer link0 netns {other}")
        for space, address in zip(self._spaces, self.addresses, strict=True):
            _do(f"ip -n {space} address add {address}/24 dev link0")
            _do(f"ip -n {space} link set lo up")
            _do(f"ip -n {space} link set link0 up")
        limit = time.monotonic() + _SECONDS_TO_COME_UP
        # MPICH's network layer takes no interface that is still coming up.
        while not all("state UP" in self._link(space) for space in self._spaces):
            if time.monotonic() > limit:
                pytest.skip("the link between two network namespaces does not come up here")
            time.sleep(0.02)
        self._launcher = self._write_launcher()

    def remove(self) -> None:
        """End what still runs there, and remove them."""
        for space in self._spaces:
            remove(space)

    def start(
        self, *arguments: str | Path, ranks: int = 2, variables: dict[str, str] | None = None
    ) -> Started:
        """Start `python arguments...` on `ranks` ranks of each host, from the first one."""
        launch = [*self._launch(ranks), "-np", str(ranks * len(self.names))]
        command = self.command(0, [*launch, sys.executable, *map(str, arguments)])
        process = subprocess.Popen(
            command,
            cwd=self._folder,
            env=environment(1) | _BY_TCP | (variables or {}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            start_new_session=True,
        )
        return _StartedOnHosts(process, command)

    def _launch(self, ranks: int) -> list[str]:
        """Return the launcher's command for `ranks` ranks on each host, without `-np`."""
        ssh, places = str(self._launcher), ",".join(f"{each}:{ranks}" for each in self.addresses)
        if self.mpi == "MPICH":
            by_ssh = ("-launcher", "ssh", "-launcher-exec", ssh)
            return ["mpirun", *by_ssh, "-iface", "link0", "-hosts", places]
        # By slot, since what lets ranks outnumber the cores would put all on the first host.
        by_ssh = ("--prtemca", "plm_ssh_agent", ssh, "--prtemca", "prte_if_include", "link0")
        return ["mpirun", *by_ssh, "--map-by", "slot", "--bind-to", "none", "--host", places]

    def command(self, host: int, command: Sequence[str]) -> list[str]:
        """Return the command line that runs a command on a host."""
        script = f"hostname {self.names[host]}; exec {shlex.join(command)}"
        return [*self._entering(host), "sh", "-c", script]

    def _link(self, space: str) -> str:
        shown = ["ip", "-n", space, "link", "show", "link0"]
        return subprocess.run(shown, capture_output=True, text=True, check=True).stdout

    def _entering(self, host: int) -> list[str]:
        """Return the prefix that gives a command the network, name and clock of a host."""
        clock = ["--time", "--monotonic", str(_CLOCKS_APART * host)] if self._own_clocks else []
        return ["ip", "netns", "exec", self._spaces[host], "unshare", "--uts", *clock]

    def processes(self, host: int) -> list[int]:
        """Return the processes on a host."""
        return processes_in(self._spaces[host])

    def wait_for_no_process(self, seconds: float) -> list[str]:
        """Return the commands that still run on the hosts after `seconds`."""
        limit = time.monotonic() + seconds
        while (left := self._commands()) and time.monotonic() < limit:
            time.sleep(0.05)
        return left

    def set_link(self, host: int, state: str) -> None:
        """Set this host's end of the link "up" or "down"."""
        _do(f"ip -n {self._spaces[host]} link set link0 {state}")

    def drop_what_is_sent_by(self, host: int) -> None:
        """Let this host's packets be lost on the way; those of the other one arrive."""
        _do(f"tc -n {self._spaces[host]} qdisc add dev link0 root blackhole")

    def slow_down(self, host: int, rate: str) -> None:
        """Let this host send with this rate, as in "100kbit", through a long queue."""
        shape = f"tbf rate {rate} burst 2k latency 2s"
        _do(f"tc -n {self._spaces[host]} qdisc add dev link0 root {shape}")

    def send_as_before(self, host: int) -> None:
        """End what `drop_what_is_sent_by` or `slow_down` has begun."""
        _do(f"tc -n {self._spaces[host]} qdisc delete dev link0 root")

    def _commands(self) -> list[str]:
        found = []
        for number, name in enumerate(self.names):
            for process in self.processes(number):
                with contextlib.suppress(OSError):
                    words = Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")
                    found.append(f"{name}: {process} {b' '.join(words).decode()}")
        return found

    def _write_launcher(self) -> Path:
        """Write a stand-in for ssh: options, an address, and the command."""
        cases = "\n".join(
            f"{address}) enter={shlex.quote(shlex.join(self._entering(host)))} name={name};;"
            for host, (address, name) in enumerate(zip(self.addresses, self.names, strict=True))
        )
        path = self._folder / "launcher.sh"
        path.write_text(
            "#!/bin/sh\n"
            'while [ "${1#-}" != "$1" ]; do shift; done\n'
            f'case "$1" in\n{cases}\nesac\nshift\n'
            'exec $enter sh -c "hostname $name; $*"\n'
        )
        path.chmod(0o755)
        return path


@contextlib.contextmanager
def two_hosts(folder: Path) -> Iterator[Hosts]:
    """Yield two hosts, or skip the test if they cannot be made."""
    for program in ("ip", "tc", "unshare", "mpirun"):
        if shutil.which(program) is None:
            pytest.skip(f"makes hosts of network namespaces: there is no {program} on PATH")
    version = _told("mpirun --version")
    mpi = next((mpi for mpi, word in _MPIS.items() if word in version), None)
    if mpi is None:
        pytest.skip("the stand-in for ssh fits the launchers of MPICH and of Open MPI 5 only")
    hosts = Hosts(folder, mpi)
    try:
        try:
            hosts.make()
        except subprocess.CalledProcessError as error:
            pytest.skip(f"the kernel makes no network namespaces here: {error.stderr.strip()}")
        yield hosts
    finally:
        hosts.remove()


def remove_what_killed_runs_have_left() -> None:
    """Remove the namespaces of ended processes: a killed test tears nothing down."""
    for name in _told("ip netns list").split():
        made = re.match(r"sciml(\d+)-host", name)
        if made and not Path(f"/proc/{made[1]}").exists():
            remove(name)


def remove(space: str) -> None:
    """End what runs in a network namespace, and remove it."""
    for process in processes_in(space):
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    _told(f"ip netns delete {space}")


def processes_in(space: str) -> list[int]:
    """Return the processes whose network is this namespace."""
    return [int(process) for process in _told(f"ip netns pids {space}").split()]


def _told(command: str) -> str:
    return subprocess.run(command.split(), capture_output=True, text=True, check=False).stdout


def _do(command: str) -> None:
    subprocess.run(command.split(), capture_output=True, text=True, check=True)
