"""Put random faults into jobs of two to four ranks, and check the promises about their end.

Each job is a program under mpirun with collectives (eager, in graphs, in compiled loops), with
Keras' fit, or with `train`. At a random moment one rank is killed or stopped for a while, raises,
leaves, disagrees with the others, or finds its disk full. The promises are:

- the job ends within 10 s of the fault, times the load of the machine (processes that run, by
  core) if that is above 1; a job that continues, or whose ranks can notice only at the end, has the
  time of a whole healthy job in addition;
- the exit code is not 0 if a rank has not done its work, and 0 if all could continue;
- a message names the rank or the cause;
- the last complete checkpoint can be read;
- no process or socket of the job is left.

    python benchmarks/faults.py --number 100 --seed 1
    python benchmarks/faults.py --seed 1 --index 17
    python benchmarks/faults.py --kinds SIGKILL,fork --ranks 4

prints every miss with the command that repeats it, and a table of kinds and outcomes, and writes
benchmarks/results/faults.json. The exit code is 1 if there was a miss.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from _faults_checks import HANG, HELD, MISSES, NO_FAULT, misses
from _faults_job import Ended, Job, Span
from _faults_kinds import ENDS, KINDS, MODES, MOMENTS, Fault, draw
from _faults_mounts import can_forbid, use_mounts_of_its_own
from _measuring import RESULTS, write_json

PREPARED_HELP = "start ranks with TensorFlow imported, unless the launcher must start them"
SECONDS_TO_END = 10.0
_SECONDS_TO_BEGIN = 120.0
_SLOW = 3.0
"""How many times as long as the healthy job one may take before its fault."""

_AT_THE_END = ("missing call", "lost message", "NaN")
"""Kinds whose job ends, but may first finish its work."""


class Trials:
    """Jobs with faults, one after the other.

    Parameters
    ----------
    python : what runs a program on a rank, if that need not be the launcher's own child.
    """

    def __init__(self, folder: Path, python: Sequence[str]) -> None:
        self._folder, self._python = folder, python
        self._spans: dict[str, dict[str, Span]] = {}
        self._healthy: dict[str, float] = {}
        self._checkpoint = b""
        self._number = 0

    def measure_healthy(self, mode: str, ranks: int) -> float:
        """Measure a job without a fault; end the program if the job fails."""
        fault = Fault("none", mode, "start", ranks, 0)
        job = self._job(fault)
        ended = job.run(_SECONDS_TO_BEGIN, _SECONDS_TO_BEGIN)
        wrong = misses(fault, ended, job.out)
        if wrong or ended.ranks_that("done") != set(range(ranks)):
            sys.exit(f"error: a job without a fault, {mode}: {wrong or 'not done'}\n{ended.said}")
        if mode == "train":
            self._checkpoint = (job.out / "checkpoint.npz").read_bytes()
        self._spans[mode], self._healthy[mode] = spans_of(ended), ended.seconds
        job.clear()
        return ended.seconds

    def run(self, fault: Fault) -> tuple[Ended, dict[str, str]]:
        """Run a job with this fault; return its end and the broken promises."""
        job = self._job(fault)
        healthy = self._healthy[fault.mode]
        if fault.kind == "truncated checkpoint":
            length = int(fault.fraction * len(self._checkpoint))
            (job.out / "checkpoint.npz").write_bytes(self._checkpoint[:length])
        goes_on = fault.of_kind.follows != ENDS or fault.kind in _AT_THE_END
        load = machine_load()
        after = load * (SECONDS_TO_END + (healthy if goes_on else 0.0))
        ended = job.run(load * _SLOW * (healthy + SECONDS_TO_END), after)
        wrong = misses(fault, ended, job.out)
        job.clear()
        return ended, wrong

    def _job(self, fault: Fault) -> Job:
        self._number += 1
        folder = self._folder / f"job-{self._number}"
        python = [sys.executable] if fault.needs_real_children else self._python
        return Job(fault, folder, python, self._spans.get(fault.mode, {}))


def prepared_python() -> list[str]:
    """Return a command that runs a program in a copy of a process with TensorFlow imported."""
    sys.path.append(str(Path(__file__).parents[1] / "tests" / "integration"))
    from launch import prepared_python

    return prepared_python()


def machine_load() -> float:
    """Return the running processes per core, at least 1."""
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


def spans_of(ended: Ended) -> dict[str, Span]:
    """Return the times of the moments of a healthy job."""
    first: dict[str, float] = {}
    for t, what, _ in ended.events:
        first.setdefault(what.partition("-")[0], t)
    order = ["start", *(m for m in MOMENTS[1:] if m in first)]
    begins = {**{m: first[m] for m in order}, "start": 0.0}
    ends = {"start": first["begun"], "end": ended.seconds}
    for moment in order[1:-1]:
        ends[moment] = min([t for m, t in begins.items() if t > begins[moment]])
    if "training" in ends:  # files are written meanwhile
        ends["training"] = begins.get("saving", begins["end"])
    return {m: Span(begins[m], ends[m] - begins[m]) for m in order}


def table(results: Sequence[Mapping[str, Any]]) -> str:
    """Return a table of kinds and outcomes."""
    names = [HELD, NO_FAULT, *MISSES]
    lines = [f"{'kind':26}{'jobs':>6}" + "".join(f"{n:>17}" for n in names) + f"{'slowest s':>11}"]
    kinds = [kind for kind in KINDS if any(r["fault"]["kind"] == kind for r in results)]
    for kind in [*kinds, "all"]:
        chosen = [r for r in results if kind in ("all", r["fault"]["kind"])]
        counts = Counter(name for r in chosen for name in r["outcomes"])
        times = [r["after"] for r in chosen if r["after"] is not None and HANG not in r["outcomes"]]
        cells = "".join(f"{counts[name] or '':>17}" for name in names)
        slowest = f"{max(times):11.1f}" if times else ""
        lines.append(f"{kind:26}{len(chosen):6}{cells}{slowest}")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--number", type=int, default=20, metavar="N", help="faults to run (default %(default)s)"
    )
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="default %(default)s")
    parser.add_argument("--index", type=int, metavar="I", help="run only this fault of the seed")
    parser.add_argument(
        "--first", type=int, default=0, metavar="I", help="first one (default %(default)s)"
    )
    parser.add_argument("--ranks", default="2,3,4", help="default %(default)s")
    parser.add_argument("--modes", default=",".join(MODES), help="default %(default)s")
    parser.add_argument("--kinds", help=f"of {', '.join(KINDS)}; default all")
    parser.add_argument("--json", type=Path, default=RESULTS / "faults.json", metavar="FILE")
    parser.add_argument("--prepared", action="store_true", help=PREPARED_HELP)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # ending the job as well
    isolated = use_mounts_of_its_own()
    kinds = chosen_kinds(options.kinds, isolated)
    ranks = [int(each) for each in options.ranks.split(",")]
    modes = [mode for mode in MODES if mode in options.modes.split(",")]
    numbers = range(options.first, options.first + options.number)
    indices = numbers if options.index is None else [options.index]
    faults = {index: draw(options.seed, index, kinds, ranks, modes) for index in indices}
    with tempfile.TemporaryDirectory(prefix="faults-") as folder:
        python = prepared_python() if options.prepared else [sys.executable]
        trials = Trials(Path(folder), python)
        modes = [mode for mode in MODES if any(f.mode == mode for f in faults.values())]
        healthy = {mode: trials.measure_healthy(mode, max(ranks)) for mode in modes}
        said = ", ".join(f"{mode} {seconds:.1f} s" for mode, seconds in healthy.items())
        print(f"without a fault, {max(ranks)} ranks: {said}", flush=True)
        results = []
        for index, fault in faults.items():
            results.append(tried(trials, fault, index))
            if results[-1]["misses"]:
                again = [*sys.argv[:1], "--seed", str(options.seed), "--index", str(index)]
                again += ["--ranks", options.ranks, "--modes", options.modes]
                again += ["--kinds", f"'{options.kinds}'"] if options.kinds else []
                print(f"    again: python {' '.join(again)}", flush=True)
            found = {"seed": options.seed, "prepared": options.prepared, "healthy": healthy}
            write_json(options.json, found | {"results": results}, quiet=True)
    print(f"\n{table(results)}")
    print(f"written to {options.json}")
    return int(any(r["misses"] for r in results))


def tried(trials: Trials, fault: Fault, index: int) -> dict[str, Any]:
    """Run one, print a line, and return its record."""
    ended, wrong = trials.run(fault)
    outcomes = list(wrong) or [NO_FAULT if ended.fault_at is None else HELD]
    if fault.kind == "truncated checkpoint" and not wrong:
        outcomes = [HELD]  # it was there from the beginning
    after = None if ended.fault_at is None else ended.seconds - ended.fault_at
    print(f"{index:4} {', '.join(outcomes):12} {fault}", flush=True)
    for name, text in wrong.items():
        print(f"    {MISSES[name]}: {text}", flush=True)
    if wrong:
        print("".join(f"    | {line}\n" for line in ended.said.splitlines()[-40:]), end="")
    return {
        "index": index,
        "fault": dataclasses.asdict(fault),
        "outcomes": outcomes,
        "misses": wrong,
        "code": ended.code,
        "after": after,
        "seconds": ended.seconds,
        "said": ended.said[-4000:] if wrong else "",
    }


def chosen_kinds(text: str | None, isolated: bool) -> list[str]:
    """Return the requested kinds that are possible here."""
    kinds = [each.strip() for each in text.split(",")] if text else list(KINDS)
    unknown = [kind for kind in kinds if kind not in KINDS]
    if unknown:
        sys.exit(f"error: expected kinds of {', '.join(KINDS)}; got {unknown[0]!r}")
    if not isolated:
        print("note: a small disk cannot be mounted here")
        kinds = [
            k for k in kinds if k != "full disk" and (k != "unwritable folder" or can_forbid())
        ]
    return kinds


if __name__ == "__main__":
    sys.exit(main())
