"""Run one job under mpirun, with the faults that come from outside, and check its end.

Shared memory that nobody else uses and a small disk need Linux and the right to mount. Without it,
what other programs put into /dev/shm meanwhile is taken for the job's, a full disk cannot be had,
and a folder is only made unwritable, which does not stop root.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import json
import os
import re
import shutil
import signal
import subprocess
import time
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from _faults_kinds import ENDS, GOES_ON, Fault

from sciml_par.errors import InputError
from sciml_par.training.checkpoints import checkpoint_file

VICTIM = Path(__file__).with_name("_faults_victim.py")
MARK = "SCIML_PAR_FAULTS_JOB"
"""The environment variable by which the processes of a job are known, whoever has started them."""

SECONDS_TO_CLEAR = 5.0
"""How long processes of a job may outlive its launcher."""

_SENTINEL = b"sentinel_process"
_POLL_SECONDS = 0.01
_CUT_OFF = ("PMI_", "PMIX_", "HYDI_", "MPI_", "OMPI_", "SCIML_PAR_")
_CLONE_NEWNS = 0x00020000
_DISK_BYTES = 4 << 20

MISSES = {
    "hangs": "the job was still there when its time was over",
    "exit code 0": "exit code 0 although work was lost",
    "failed": "the job failed although its ranks could go on",
    "not named": "no message names the rank or the cause",
    "checkpoint lost": "a checkpoint that was complete cannot be read",
    "left behind": "a process or a socket is left",
}
HANG, CODE, FAILED, MESSAGE, CHECKPOINT, LEFT = MISSES
HELD, NO_FAULT = "held", "no fault"
"""All that must hold does; the job was over before the fault came."""


def use_mounts_of_its_own() -> bool:
    """Give this process and its children separate mounts and shared memory (local).

    Returns
    -------
    Whether that could be had.
    """
    if ctypes.CDLL(None, use_errno=True).unshare(_CLONE_NEWNS) != 0:
        return False
    return _mount("--make-rprivate", "/") and _mount("-t", "tmpfs", "tmpfs", "/dev/shm")


def can_forbid() -> bool:
    return os.geteuid() != 0


class Disk:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.is_mounted = _mount("-t", "tmpfs", "-o", f"size={_DISK_BYTES}", "tmpfs", str(folder))

    def fill(self) -> None:
        with contextlib.suppress(OSError), (self._folder / "filler").open("wb", 0) as file:
            for size in (1 << 16, 1):
                with contextlib.suppress(OSError):
                    while True:
                        file.write(b"x" * size)

    def forbid(self) -> None:
        if self.is_mounted:
            # A file that is open for writing forbids it for as long.
            while not _mount("-o", "remount,ro", str(self._folder)):
                pass
        else:
            self._folder.chmod(0o500)

    @staticmethod
    def remove(folder: Path) -> None:
        if os.path.ismount(folder):
            subprocess.run(["umount", "-l", str(folder)], check=False, stderr=subprocess.DEVNULL)
        elif folder.exists():
            folder.chmod(0o700)


def _mount(*arguments: str) -> bool:
    with contextlib.suppress(OSError):
        return subprocess.run(["mount", *arguments], check=False, stderr=-3).returncode == 0
    return False


@dataclass(frozen=True)
class Span:
    """When a healthy job reaches a moment, in seconds since its start, and how long it takes."""

    begins: float
    lasts: float


@dataclass
class Ended:
    """How a job has ended.

    Attributes
    ----------
    code : the launcher's; None if the job was still there when its time was over.
    fault_at : seconds from its start to the fault; None if there was none.
    seconds : to its end.
    events : the lines of its ranks: time, what, rank.
    left : processes that are still there, and files outside its folder.
    """

    code: int | None
    said: str
    fault_at: float | None
    seconds: float
    events: list[tuple[float, str, int]]
    left: list[str]

    def ranks_that(self, what: str) -> set[int]:
        return {rank for _, name, rank in self.events if name == what}


class Job:
    """A job with a fault.

    Parameters
    ----------
    folder : of the job, a new one.
    python : what runs a program on a rank.
    spans : of the moments of a healthy job of this mode; none if that is what this one is.
    """

    def __init__(
        self, fault: Fault, folder: Path, python: Sequence[str], spans: Mapping[str, Span]
    ) -> None:
        self.fault, self.folder, self._python, self._spans = fault, folder, python, spans
        self.out = folder / "out"
        self.temporary = folder / "tmp"
        for each in (self.out, self.temporary):
            each.mkdir(parents=True)
        self._began = 0.0
        self._fault_at: float | None = None

    def run(self, before: float, after: float) -> Ended:
        disk = Disk(self.out) if self.fault.kind in ("full disk", "unwritable folder") else None
        self._began, text = time.monotonic(), json.dumps(dataclasses.asdict(self.fault))
        with (self.folder / "said").open("wb") as said:
            process = subprocess.Popen(
                ["mpirun", "-np", str(self.fault.ranks), *self._python, VICTIM, text],
                cwd=self.folder,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                code = self._wait(process, before, after, disk)
            finally:
                if process.poll() is None:
                    self._kill_all()
                    process.wait()
        seconds = time.monotonic() - self._began
        left = self._leftovers() if code is not None else []
        self._kill_all()
        return Ended(
            code=code,
            said=(self.folder / "said").read_text(errors="replace"),
            fault_at=self._fault_at,
            seconds=seconds,
            events=self.events(),
            left=left,
        )

    def clear(self) -> None:
        Disk.remove(self.out)
        shutil.rmtree(self.folder, ignore_errors=True)

    def events(self) -> list[tuple[float, str, int]]:
        """Return the ranks' events so far: seconds since the start, name, rank."""
        with contextlib.suppress(OSError):
            lines = (self.folder / "events").read_text().splitlines()
            words = [line.split() for line in lines]
            return [(float(w[0]) - self._began, w[1], int(w[2])) for w in words if len(w) == 4]
        return []

    def _environment(self) -> dict[str, str]:
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(_CUT_OFF)}
        paths = [str(VICTIM.parents[1]), str(VICTIM.parent), os.environ.get("PYTHONPATH", "")]
        # MPI waits for ever for a rank that ends before `init`.
        limit = {"SCIML_PAR_STALL_LIMIT": "5"} if self.fault.needs_real_children else {}
        own = {"OMP_NUM_THREADS": "1", "TMPDIR": str(self.temporary), MARK: str(self.folder)}
        return inherited | limit | own | {"PYTHONPATH": os.pathsep.join(paths)}

    def _wait(
        self, process: subprocess.Popen[bytes], before: float, after: float, disk: Disk | None
    ) -> int | None:
        due: float | None = None
        stopped: tuple[int, float] | None = None
        outside = self.fault.of_kind.from_outside
        while process.poll() is None:
            now = time.monotonic() - self._began
            if stopped and now > stopped[1]:
                _send(stopped[0], signal.SIGCONT)
                stopped = None
            if self._fault_at is None:
                if outside and due is None:
                    due = self._due()
                if outside and due is not None and now >= due and self._do(disk):
                    self._fault_at = time.monotonic() - self._began
                    if self.fault.kind.startswith("SIGSTOP"):
                        stopped = self._process(self.fault.rank), now + 1 + 3 * self.fault.fraction
                elif not outside:
                    self._fault_at = next(
                        (t for t, what, _ in self.events() if what == "fault"), None
                    )
            limit = before if self._fault_at is None else self._fault_at + after
            if now > limit:
                return None
            time.sleep(_POLL_SECONDS)
        return process.returncode

    def _due(self) -> float | None:
        """Return the time of the fault from outside, once it is known."""
        fault = self.fault
        lasts = self._spans[fault.moment].lasts
        if fault.moment == "start":
            return fault.fraction * lasts
        writes = fault.moment in ("checkpoint", "saving")
        name = f"{fault.moment}-{fault.count if writes else 0}"
        rank = 0 if writes else fault.rank
        began = next((t for t, what, r in self.events() if (what, r) == (name, rank)), None)
        return None if began is None else began + fault.fraction * (0.01 if writes else lasts)

    def _do(self, disk: Disk | None) -> bool:
        kind = self.fault.kind
        if disk is not None:
            disk.fill() if kind == "full disk" else disk.forbid()
            return True
        rank = self._process(self.fault.rank)
        if kind.startswith("killed sentinel"):
            sentinel = next((p for p in _marked(self.folder) if _SENTINEL in _command(p)), 0)
            if not sentinel or not rank:
                return False
            _send(sentinel, signal.SIGKILL)
            if kind == "killed sentinel":
                return True
        if rank:
            _send(rank, signal.SIGSTOP if kind.startswith("SIGSTOP") else signal.SIGKILL)
        return bool(rank)

    def _process(self, rank: int) -> int:
        """Return the process of a rank; 0 if there is none yet."""
        with contextlib.suppress(OSError):
            for line in (self.folder / "events").read_text().splitlines():
                words = line.split()
                if len(words) == 4 and int(words[2]) == rank:
                    return int(words[3])
        number = f"PMI_RANK={rank}".encode()
        for process in _marked(self.folder):
            if number in _environ(process) and VICTIM.name.encode() in _command(process):
                return process
        return 0

    def _leftovers(self) -> list[str]:
        deadline = time.monotonic() + SECONDS_TO_CLEAR
        while (processes := _marked(self.folder)) and time.monotonic() < deadline:
            time.sleep(0.05)
        commands = [_command(p).replace(b"\0", b" ").decode()[:80] for p in processes]
        sockets = [each.name for each in self.temporary.glob("sciml_par*")]
        return [*commands, *sockets]

    def _kill_all(self) -> None:
        for _ in range(3):
            for process in _marked(self.folder):
                _send(process, signal.SIGKILL)
            time.sleep(0.05)


def _marked(folder: Path) -> list[int]:
    mark, found = f"{MARK}={folder}".encode(), []
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            in_folder = os.readlink(f"/proc/{name}/cwd") == str(folder)
            if in_folder or mark in _environ(int(name)):
                state = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()[0]
                if state not in "ZX":
                    found.append(int(name))
    return found


def _environ(process: int) -> list[bytes]:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
    return []


def _command(process: int) -> bytes:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{process}/cmdline").read_bytes()
    return b""


def _send(process: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, number)


def misses(fault: Fault, ended: Ended, out: Path) -> dict[str, str]:
    found = {}
    if ended.code is None:
        after = ended.seconds - (ended.fault_at or 0.0)
        found[HANG] = f"{after:.0f} s after the fault at {ended.fault_at} s"
    else:
        found |= _code(fault, ended)
    if ended.left:
        found[LEFT] = ", ".join(ended.left)
    if ended.ranks_that("written") and (problem := _checkpoint(out)):
        found[CHECKPOINT] = problem
    return found


def _code(fault: Fault, ended: Ended) -> dict[str, str]:
    kind = fault.of_kind
    complete = ended.ranks_that("done") == set(range(fault.ranks))
    if ended.code == 0:
        if not complete:
            return {CODE: f"only ranks {sorted(ended.ranks_that('done'))} have done all"}
        # One that came after all work of the rank was done is none of the program's any more.
        done = [t for t, what, rank in ended.events if (what, rank) == ("done", fault.rank)]
        late = fault.moment == "end" or ended.fault_at is None or done[0] <= ended.fault_at
        return {CODE: "all have done all"} if kind.follows == ENDS and not late else {}
    if kind.follows == GOES_ON:
        return {FAILED: f"exit code {ended.code}"}
    if complete and "sys.exit" in (fault.kind, fault.inner) and ended.code == fault.code:
        return {}  # the program's own last word
    return {} if re.search(kind.said, ended.said) else {MESSAGE: f"exit code {ended.code}"}


def _checkpoint(out: Path) -> str:
    path = out / "checkpoint.keras"
    if path.exists():
        try:
            with zipfile.ZipFile(path) as file:
                return file.testzip() or ""
        except (OSError, zipfile.BadZipFile) as error:
            return str(error)
    try:
        checkpoint_file.read(out / "checkpoint.npz")
    except InputError as error:
        return str(error)
    return ""
